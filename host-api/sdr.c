/* SPDX-License-Identifier: BSD-3-Clause */
/* SDR for applications: contexts, QPs, connections. */
#include "sdr_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

static_assert(sizeof(struct sdr_qp_info) == 128, "exchanged between machines");

int sdr_context_create(struct sp_dev *dev, const struct sdr_context_attr *attr, struct sdr_context **context)
{
	struct sdr_context *x;

	if (!dev || (attr && attr->channels > SP_SDR_MAX_QPS))
		return -EINVAL;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->dev = dev;
	x->channels = attr && attr->channels ? attr->channels : 1;
	*context = x;
	return 0;
}

int sdr_context_destroy(struct sdr_context *context)
{
	if (!context)
		return 0;
	if (context->qps)
		return -EBUSY;
	free(context);
	return 0;
}

/* ---- QP: made of defaults, settings, the NIC's context ---- */
static uint64_t sdr_mix(uint64_t x) /* splitmix64's output function */
{
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

static int sdr_ec_defaults(struct sdr_qp *qp, const struct sdr_ec *ec, struct sp_error *error)
{
	struct sdr_qp_info *i = &qp->info;
	const uint32_t k = ec->k ? ec->k : 32, m = ec->m ? ec->m : 8;

	if (ec->code == SDR_CODE_NONE)
		return 0;
	if (ec->code != SDR_CODE_MDS && ec->code != SDR_CODE_XOR)
		return sp_refuse(error, "code", "%d is no code", (int)ec->code);
	/* What follows has a byte for each of them. */
	if (k >= SP_EC_CHUNKS_MAX || m >= SP_EC_CHUNKS_MAX || k + m > SP_EC_CHUNKS_MAX)
		return sp_refuse(error, "m", "k + m is at most %u, not %u + %u", SP_EC_CHUNKS_MAX, k, m);
	i->ec_code = (uint8_t)ec->code;
	i->ec_k = (uint8_t)k;
	i->ec_m = (uint8_t)m;
	qp->codes = sp_ec_codes(sdr_ec_kind(i), k, m, qp->split.user, qp->code);
	return 0;
}

/* Fills qp->info and qp->split from the attributes. The NIC checks them: by the handler's table of parameters, and in
 * its configure(). Here only what the defaults are computed from must not be wild. */
static int sdr_qp_defaults(struct sdr_qp *qp, const struct sdr_qp_attr *attr, struct sp_error *error)
{
	struct sdr_qp_info *i = &qp->info;
	uint64_t reach;

	if (sp_sdr_split_parse(attr->split ? attr->split : SP_SDR_SPLIT_DEFAULT, &qp->split))
		return sp_refuse(error, "split", "\"%s\" is no split", attr->split);
	i->magic = SDR_QP_INFO_MAGIC;
	i->version = SDR_QP_INFO_VERSION;
	i->channels = qp->context->channels;
	i->mtu = attr->mtu ? attr->mtu : SP_ROCE_MTU_DEFAULT;
	reach = (uint64_t)i->mtu << qp->split.offset;
	i->chunk_bytes = attr->chunk_bytes ? attr->chunk_bytes : 65536 / i->mtu * i->mtu;
	i->max_message_bytes = attr->max_message_bytes ? attr->max_message_bytes
			       : reach < 16u << 20     ? reach
						       : 16u << 20;
	i->max_messages = attr->max_messages ? attr->max_messages : qp->split.id < 6 ? 1u << qp->split.id : 64;
	i->generations = attr->generations ? attr->generations : 4;
	i->nonce = attr->nonce;
	while (!i->nonce)
		if (getrandom(&i->nonce, sizeof(i->nonce), 0) < 0 && errno != EINTR)
			return -errno;
	/* A key per connection keeps out packets of an earlier connection with the same QP numbers. */
	i->rkey = attr->rkey ? attr->rkey : (uint32_t)sdr_mix(i->nonce);
	i->split[0] = qp->split.id;
	i->split[1] = qp->split.offset;
	i->split[2] = qp->split.user;
	qp->segments = attr->segments ? attr->segments : 1024;
	qp->control_slots = attr->control_slots ? attr->control_slots : 64;
	qp->control_bytes = sp_sdr_datagram_bytes(i->mtu);
	qp->rate_bps = attr->rate_bps;
	qp->no_send = attr->no_send;
	qp->no_recv = attr->no_recv;
	qp->implicit = attr->implicit_credit;
	return sdr_ec_defaults(qp, &attr->ec, error);
}

static int sdr_qp_open(struct sdr_qp *qp, const struct sdr_qp_attr *attr, struct sp_error *error)
{
	const struct sdr_qp_info *i = &qp->info;
	struct sp_settings s = {.count = 0};
	const struct sp_numbered how = {"sdr", attr->name, attr->qpn};
	char split[16];

	snprintf(split, sizeof(split), "%u+%u+%u", qp->split.id, qp->split.offset, qp->split.user);
	sp_settings_uint(&s, "rkey", i->rkey, "");
	sp_settings_uint(&s, "mtu", i->mtu, "");
	sp_settings_uint(&s, "chunk-bytes", i->chunk_bytes, "");
	sp_settings_uint(&s, "max-message-bytes", i->max_message_bytes, "");
	sp_settings_uint(&s, "max-messages", i->max_messages, "");
	sp_settings_uint(&s, "generations", i->generations, "");
	sp_settings_uint(&s, "channels", i->channels, "");
	sp_settings_uint(&s, "segments", qp->segments, "");
	sp_settings_uint(&s, "control-slots", qp->control_slots, "");
	sp_settings_text(&s, "split", split);
	sp_settings_text(&s, "credit", attr->implicit_credit ? "implicit" : "control");
	sp_settings_text(&s, "send", attr->no_send ? "no" : "yes");
	sp_settings_text(&s, "receive", attr->no_recv ? "no" : "yes");
	if (attr->implicit_credit) {
		sp_settings_uint(&s, "queue", i->max_messages, ""); /* this library posts no more */
		sp_settings_text(&s, "connect", "yes");
	}
	if (attr->rate_bps)
		sp_settings_uint(&s, "rate", attr->rate_bps, "");
	if (attr->cts_interval)
		sp_settings_uint(&s, "cts-interval", attr->cts_interval, "ps");
	if (attr->max_packet_life)
		sp_settings_uint(&s, "max-packet-life", attr->max_packet_life, "ps");
	if (i->ec_code) {
		sp_settings_text(&s, "companion", "ec");
		sp_settings_text(&s, "code", i->ec_code == SDR_CODE_XOR ? "xor" : "mds");
		sp_settings_uint(&s, "k", i->ec_k, "");
		sp_settings_uint(&s, "m", i->ec_m, "");
	}
	static_assert(SP_SETTINGS_MAX >= 23, "one for each of the above");
	return sp_context_numbered(qp->dev, &how, &s, &qp->info.qpn, &qp->id, error);
}

/* The area that the NIC offers must have the layout that was asked for. */
static int sdr_qp_map(struct sdr_qp *qp)
{
	const struct sdr_qp_info *i = &qp->info;
	const uint64_t packets = sp_sdr_units(i->max_message_bytes, i->mtu), per_chunk = i->chunk_bytes / i->mtu;
	struct sp_sdr_area header;
	void *addr;
	uint64_t len;
	int rc = sp_context_area(qp->dev, qp->id, &addr, &len);

	if (rc)
		return rc;
	if (!addr || len < sizeof(header))
		return -EIO;
	memcpy(&header, addr, sizeof(header));
	qp->layout = sp_sdr_layout(i->max_messages, sp_sdr_units(i->max_message_bytes, i->chunk_bytes),
				   packets < per_chunk ? packets : per_chunk, header.workers);
	if (!qp->implicit)
		sp_sdr_layout_datagrams(&qp->layout, qp->control_slots, qp->control_bytes);
	if (len < qp->layout.bytes || header.magic != SP_SDR_AREA_MAGIC || header.version != SP_SDR_AREA_VERSION ||
	    header.bytes != qp->layout.bytes || header.bitmap != qp->layout.bitmap ||
	    header.datagrams != qp->layout.datagrams || !header.control_qp != qp->implicit)
		return -EIO;
	qp->area = addr;
	qp->workers = header.workers;
	qp->info.control_qpn = header.control_qp;
	return 0;
}

/* The NIC reads outgoing datagrams from memory of the QP; received ones are in the context's area. */
static int sdr_control_open(struct sdr_qp *qp)
{
	const uint64_t stride = (qp->control_bytes + 63) / 64 * 64;
	int rc;

	if (!qp->info.control_qpn)
		return 0;
	qp->control_seen = calloc(qp->control_slots, sizeof(*qp->control_seen));
	if (!qp->control_seen)
		return -ENOMEM;
	rc = sp_mr_alloc(qp->dev, qp->control_slots * stride, &qp->control);
	if (rc)
		free(qp->control_seen);
	return rc;
}

/* Called once the NIC has released the context. */
static void sdr_control_close(struct sdr_qp *qp)
{
	if (qp->control)
		sp_mr_free(qp->control); /* if not now, it is freed with the device */
	free(qp->control_seen);
}

int sdr_qp_create(struct sdr_context *context, const struct sdr_qp_attr *attr, struct sdr_qp **out,
		  struct sp_error *error)
{
	static const struct sdr_qp_attr defaults;
	struct sp_error ignored;
	struct sdr_qp *qp = calloc(1, sizeof(*qp));
	int rc;

	error = error ? error : &ignored;
	memset(error, 0, sizeof(*error));
	attr = attr ? attr : &defaults;
	if (!qp)
		return -ENOMEM;
	qp->context = context;
	qp->dev = context->dev;
	rc = sdr_qp_defaults(qp, attr, error);
	if (rc)
		goto fail;
	rc = sp_context_address(qp->dev, attr->family, qp->info.ip);
	if (rc)
		goto fail;
	rc = sdr_qp_open(qp, attr, error); /* from here on the attributes are possible ones */
	if (rc)
		goto fail;
	qp->sends = calloc(qp->info.max_messages, sizeof(*qp->sends));
	qp->recvs = calloc(qp->info.max_messages, sizeof(*qp->recvs));
	rc = qp->sends && qp->recvs ? 0 : -ENOMEM;
	rc = rc ? rc : sdr_qp_map(qp);
	rc = rc ? rc : sdr_control_open(qp);
	if (rc)
		goto close;
	context->qps++;
	*out = qp;
	return 0;
close:
	sp_context_close(qp->dev, qp->id);
fail:
	free(qp->sends);
	free(qp->recvs);
	free(qp);
	return rc;
}

int sdr_qp_destroy(struct sdr_qp *qp)
{
	int rc;

	if (!qp)
		return 0;
	rc = sp_context_close(qp->dev, qp->id);
	if (rc == -EAGAIN || rc == -EBUSY)
		return rc;
	qp->context->qps--;
	sdr_control_close(qp);
	if (qp->parity_out)
		sp_mr_free(qp->parity_out); /* if not now, it is freed with the device */
	if (qp->parity_in)
		sp_mr_free(qp->parity_in);
	free(qp->sends);
	free(qp->recvs);
	free(qp);
	return sp_is_gone(rc) || rc == -ENOENT ? 0 : rc; /* a NIC that is gone has released it, too */
}

/* ---- connection ---- */
int sdr_qp_info_get(struct sdr_qp *qp, struct sdr_qp_info *info)
{
	*info = qp->info;
	return 0;
}

const char *sdr_qp_mismatch(const struct sdr_qp *qp, const struct sdr_qp_info *peer)
{
	const struct sdr_qp_info *our = &qp->info;

	if (peer->magic != our->magic)
		return "magic";
	if (peer->version != our->version)
		return "version";
	if (peer->mtu != our->mtu)
		return "mtu";
	if (peer->chunk_bytes != our->chunk_bytes)
		return "chunk-bytes";
	if (peer->max_message_bytes != our->max_message_bytes)
		return "max-message-bytes";
	if (peer->max_messages != our->max_messages)
		return "max-messages";
	if (peer->generations != our->generations)
		return "generations";
	if (peer->channels != our->channels)
		return "channels";
	if (memcmp(peer->split, our->split, sizeof(our->split)))
		return "split";
	if (peer->ec_code != our->ec_code || peer->ec_k != our->ec_k || peer->ec_m != our->ec_m)
		return "ec";
	if (!peer->control_qpn != !our->control_qpn)
		return "credit";
	return NULL;
}

int sdr_qp_connect(struct sdr_qp *qp, const struct sdr_qp_info *peer)
{
	struct sp_command command = {
		.op = SP_SDR_CMD_CONNECT,
		.flags = SP_CMD_REPLY,
		.context = qp->id,
		.arg = {[2] = peer->qpn | (uint64_t)peer->control_qpn << 32, peer->nonce, qp->info.nonce, peer->rkey}};
	int rc = sdr_qp_check(qp);

	if (rc)
		return rc;
	if (qp->connected)
		return -EISCONN;
	if (sdr_qp_mismatch(qp, peer) || sp_ip_is_4(peer->ip) != sp_ip_is_4(qp->info.ip))
		return -EPROTO;
	if (!sp_roce_qp_valid(peer->qpn) || (peer->control_qpn && !sp_roce_qp_valid(peer->control_qpn)) || !peer->nonce)
		return -EPROTO;
	if (qp->info.mtu > sp_dev_payload(qp->dev, sp_ip_is_4(qp->info.ip) ? AF_INET : AF_INET6))
		return -EMSGSIZE;
	memcpy(command.arg, peer->ip, sizeof(peer->ip));
	rc = sp_command_call(qp->dev, &command, NULL);
	qp->connected = !rc;
	return rc;
}

int sdr_qp_disconnect(struct sdr_qp *qp)
{
	const struct sp_command command = {.op = SP_CMD_CLOSE, .flags = SP_CMD_REPLY, .context = qp->id};

	if (sdr_qp_check(qp) == -ECONNRESET) /* after any other error there is still something to release */
		return qp->error;
	if (!qp->connected)
		return -ENOTCONN;
	qp->connected = false;
	return sp_command_call(qp->dev, &command, NULL);
}

int sdr_qp_status(struct sdr_qp *qp, struct sdr_qp_status *status)
{
	const uint64_t at = qp->layout.connection;
	const uint64_t flags = sdr_area_read(qp, at + offsetof(struct sp_sdr_connection, flags));
	const uint64_t repaired = sdr_area_read(qp, at + offsetof(struct sp_sdr_connection, repaired));

	sdr_qp_check(qp);
	*status = (struct sdr_qp_status){
		.id = qp->id,
		.connected = qp->connected,
		.peer_seen = flags & SP_SDR_PEER_SEEN,
		.peer_restarted = flags & SP_SDR_PEER_RESTARTED,
		.closed = flags & SP_SDR_CLOSED,
		.may_send = sdr_area_read(qp, at + offsetof(struct sp_sdr_connection, may_send)),
		.granted = sdr_area_read(qp, at + offsetof(struct sp_sdr_connection, granted)),
		.completed = sdr_area_read(qp, at + offsetof(struct sp_sdr_connection, completed)),
		.repaired = repaired % (1ull << SP_SDR_RUNS_SHIFT),
		.repaired_runs = repaired >> SP_SDR_RUNS_SHIFT,
		.queued = qp->segments_issued - sdr_area_read(qp, at + offsetof(struct sp_sdr_connection, segments)),
		.error = qp->error,
		.control_bytes = qp->control ? qp->control_bytes : 0,
		.control_lost = qp->control_lost};
	return 0;
}

int sdr_qp_check(struct sdr_qp *qp)
{
	struct sp_event e;

	/* The library checks commands before it posts them. If one fails all the same, the two sides disagree on the
	 * numbers of messages, and no later call can work. */
	for (int i = 0; i < 64 && !qp->error; i++) {
		const int rc = sp_event_take(qp->dev, qp->id, &e);

		if (rc < 0)
			qp->error = rc;
		if (rc <= 0)
			break;
		if (e.type == SP_EVENT_CLOSED)
			qp->error = -ECONNRESET;
		else if (e.type == SP_EVENT_RESULT && e.status < 0 &&
			 !(e.op == SP_CMD_COMPLETE && e.status == -ENOENT)) /* it had timed out just before */
			qp->error = -EIO;
	}
	return qp->error;
}

/* ---- memory ---- */
int sdr_mr_alloc(struct sdr_context *context, uint64_t len, struct sp_mr **mr)
{
	return sp_mr_alloc(context->dev, len, mr);
}

int sdr_mr_reg(struct sdr_context *context, void *addr, uint64_t len, struct sp_mr **mr)
{
	return sp_mr_reg(context->dev, addr, len, mr);
}

int sdr_mr_dereg(struct sp_mr *mr)
{
	return sp_mr_free(mr);
}
