/* SPDX-License-Identifier: BSD-3-Clause */
/* RVMA for applications: contexts and peers. */
#include "rvma_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static_assert(sizeof(struct rvma_address) == 32, "exchanged between machines");

/* sp_dev_payload() counts RETH and ImmDt; the header of a put is longer by this. */
#define RVMA_HEAD_MORE (sizeof(struct sp_rvma_put) - 20)

/* ---- opening ---- */
static int rvma_mtu(struct rvma *r, const struct rvma_attr *attr, struct sp_error *error)
{
	uint32_t port = sp_dev_payload(r->dev, sp_ip_is_4(r->address.ip) ? AF_INET : AF_INET6);

	port = port > RVMA_HEAD_MORE ? port - RVMA_HEAD_MORE : 0;
	r->mtu = attr->mtu ? attr->mtu : port < SP_ROCE_MTU_DEFAULT ? port : SP_ROCE_MTU_DEFAULT;
	/* One that no port could carry is refused by the NIC. */
	if (port < SP_RVMA_MTU_MIN || (r->mtu > port && r->mtu <= SP_RVMA_MTU_MAX)) {
		sp_refuse(error, "mtu", "%u does not fit into the port's packets, which hold %u",
			  r->mtu > port ? r->mtu : SP_RVMA_MTU_MIN, port);
		return -EMSGSIZE;
	}
	return 0;
}

static int rvma_context(struct rvma *r, const struct rvma_attr *attr, struct sp_error *error)
{
	const struct sp_numbered how = {"rvma", attr->name, attr->qpn};
	const struct {
		const char *key;
		uint64_t value;
	} optional[] = {{"buffers", attr->buffers}, {"counters", attr->counters},   {"peers", attr->peers},
			{"rate", attr->rate_bps},   {"nack-rate", attr->nack_rate}, {NULL}};
	struct sp_settings s = {.count = 0};

	sp_settings_uint(&s, "mtu", r->mtu, "");
	sp_settings_uint(&s, "windows", r->windows, "");
	sp_settings_uint(&s, "ops", r->ops, "");
	for (unsigned i = 0; optional[i].key; i++)
		if (optional[i].value)
			sp_settings_uint(&s, optional[i].key, optional[i].value, "");
	if (attr->timeout)
		sp_settings_uint(&s, "timeout", attr->timeout, "ps");
	if (attr->ack_delay)
		sp_settings_uint(&s, "ack-delay", attr->ack_delay, "ps");
	return sp_context_numbered(r->dev, &how, &s, &r->address.qpn, &r->id, error);
}

/* The area that the NIC offers must have the layout that was asked for. */
static int rvma_map(struct rvma *r)
{
	const struct sp_rvma_layout l = sp_rvma_layout(r->windows, r->ops);
	struct sp_rvma_area header;
	void *addr;
	uint64_t len;
	int rc = sp_context_area(r->dev, r->id, &addr, &len);

	if (rc)
		return rc;
	if (!addr || len < l.bytes)
		return -EIO;
	memcpy(&header, addr, sizeof(header));
	if (header.magic != SP_RVMA_AREA_MAGIC || header.version != SP_RVMA_AREA_VERSION ||
	    header.windows != r->windows || header.ops != r->ops || header.window != l.window || header.op != l.op ||
	    header.bytes != l.bytes || header.qp != r->address.qpn)
		return -EIO;
	r->area = addr;
	r->layout = l;
	return 0;
}

int rvma_open(struct sp_dev *dev, const struct rvma_attr *attr, struct rvma **rvma, struct sp_error *error)
{
	static const struct rvma_attr defaults;
	struct sp_error ignored;
	struct rvma *r;
	int rc;

	error = error ? error : &ignored;
	memset(error, 0, sizeof(*error));
	attr = attr ? attr : &defaults;
	if (!dev || !rvma)
		return -EINVAL;
	if (attr->family && attr->family != AF_INET && attr->family != AF_INET6)
		return sp_refuse(error, "family", "%d is neither AF_INET nor AF_INET6", attr->family);
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->dev = dev;
	r->windows = attr->windows ? attr->windows : 1024;
	r->ops = attr->ops ? attr->ops : 1024;
	rc = sp_context_address(dev, attr->family, r->address.ip);
	rc = rc ? rc : rvma_mtu(r, attr, error);
	rc = rc ? rc : rvma_context(r, attr, error);
	if (rc)
		goto fail;
	rc = rvma_map(r);
	r->op = rc ? NULL : calloc(r->ops, sizeof(*r->op)); /* the NIC has accepted this number */
	if (!r->op) {
		rc = rc ? rc : -ENOMEM;
		goto close;
	}
	for (uint32_t i = r->ops; i-- > 0; r->op_free = &r->op[i])
		r->op[i] = (struct rvma_op){.rvma = r, .slot = i, .next = r->op_free};
	*rvma = r;
	return 0;
close:
	sp_context_close(dev, r->id);
fail:
	free(r);
	return rc;
}

int rvma_close(struct rvma *r)
{
	int rc;

	if (!r)
		return 0;
	rc = sp_context_close(r->dev, r->id);
	if (rc == -EAGAIN || rc == -EBUSY)
		return rc;
	while (r->window) {
		struct rvma_window *w = r->window;

		r->window = w->next;
		free(w);
	}
	while (r->peers) {
		struct rvma_peer *p = r->peers;

		r->peers = p->next;
		free(p);
	}
	free(r->op);
	free(r);
	return sp_is_gone(rc) || rc == -ENOENT ? 0 : rc; /* a NIC that is gone has released it, too */
}

int rvma_address_get(struct rvma *r, struct rvma_address *address)
{
	*address = r->address;
	return rvma_check(r);
}

/* ---- what the NIC says ---- */
/* The NIC has refused a command: the operation has not begun, no status line will report its end. */
static void rvma_op_refused(struct rvma *r, const struct sp_event *result)
{
	const uint32_t slot = (uint32_t)result->cookie;
	struct rvma_op *op = slot < r->ops ? &r->op[slot] : NULL;

	if ((result->op != SP_RVMA_CMD_PUT && result->op != SP_RVMA_CMD_GET) || !op || !op->busy ||
	    op->number != result->cookie >> 32)
		return;
	/* The NIC counts operations as the library does, so it has room for all. */
	op->failed = result->status == -EAGAIN ? -EIO : result->status;
	op->peer->gone |= op->failed == -ENOENT;
}

int rvma_check(struct rvma *r)
{
	struct sp_event e;

	for (int i = 0; i < 64 && !r->error; i++) {
		const int rc = sp_event_take(r->dev, r->id, &e);

		if (rc < 0)
			r->error = rc;
		if (rc <= 0)
			break;
		if (e.type == SP_EVENT_CLOSED)
			r->error = -ECONNRESET;
		else if (e.type == SP_EVENT_RESULT && e.status < 0)
			rvma_op_refused(r, &e);
	}
	return r->error;
}

int rvma_call(struct rvma *r, uint16_t op, const uint64_t *arg, unsigned args, struct sp_event *result)
{
	struct sp_command command = {.op = op, .flags = SP_CMD_REPLY, .context = r->id};
	int rc = rvma_check(r);

	memcpy(command.arg, arg, args * sizeof(*arg));
	rc = rc ? rc : sp_command_call(r->dev, &command, result);
	if (sp_is_gone(rc))
		r->error = rc;
	return rc;
}

/* ---- peers ---- */
int rvma_peer_find(struct rvma_peer *peer)
{
	uint64_t arg[3] = {[2] = peer->address.qpn};
	struct sp_event result = {.status = 0};
	int rc;

	memcpy(arg, peer->address.ip, sizeof(peer->address.ip));
	rc = rvma_call(peer->rvma, SP_RVMA_CMD_PEER, arg, 3, &result);
	if (rc)
		return rc;
	peer->id = (uint32_t)result.arg[0];
	peer->gone = false;
	return 0;
}

int rvma_peer_open(struct rvma *r, const struct rvma_address *address, struct rvma_peer **out)
{
	struct rvma_peer *p;
	int rc;

	if (!sp_roce_qp_valid(address->qpn) || address->reserved[0] || address->reserved[1] || address->reserved[2])
		return -EINVAL;
	for (p = r->peers; p; p = p->next)
		if (!memcmp(&p->address, address, sizeof(*address))) {
			rc = p->gone ? rvma_peer_find(p) : rvma_check(r);
			if (rc)
				return rc;
			p->users++;
			*out = p;
			return 0;
		}
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->rvma = r;
	p->address = *address;
	p->users = 1;
	rc = rvma_peer_find(p);
	if (rc) {
		free(p);
		return rc;
	}
	p->next = r->peers;
	r->peers = p;
	*out = p;
	return 0;
}

int rvma_peer_close(struct rvma_peer *peer)
{
	struct rvma_peer **at;

	if (!peer)
		return 0;
	if (peer->users == 1 && peer->ops)
		return -EBUSY;
	if (--peer->users)
		return 0;
	for (at = &peer->rvma->peers; *at != peer; at = &(*at)->next)
		;
	*at = peer->next;
	free(peer);
	return 0;
}
