/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_host.h"

struct fake host_f;

struct rvma *host_r;

struct sp_mr host_mr = {.dev = &host_f.dev, .len = 1 << 20, .id = 3},
	     host_notes = {.dev = &host_f.dev, .len = 4096, .id = 4};

const struct rvma_address host_far_away = {.ip = {[10] = 0xFF, 0xFF, 10, 0, 0, 2}, .qpn = 0x20000};

static int context_open(struct sp_dev *d, const char *name, const char *handler, const struct sp_setting *s, size_t n,
			uint32_t *id, struct sp_error *error)
{
	const struct sp_rvma_layout l = sp_rvma_layout(WINDOWS, OPS);
	struct sp_rvma_area header = {.magic = SP_RVMA_AREA_MAGIC,
				      .version = SP_RVMA_AREA_VERSION,
				      .windows = WINDOWS,
				      .ops = OPS,
				      .window = l.window,
				      .op = l.op,
				      .spill = l.spill,
				      .bytes = l.bytes};
	CU_ASSERT_STRING_EQUAL(handler, "rvma");
	host_f.set[0] = 0;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(s[i].key, "qp"))
			host_f.given = strcmp(s[i].value, "any") ? (uint32_t)strtoul(s[i].value, NULL, 10)
				       : host_f.qp		 ? host_f.qp
								 : 0x10000;
		snprintf(host_f.set + strlen(host_f.set), sizeof(host_f.set) - strlen(host_f.set), "%s=%s;", s[i].key,
			 s[i].value);
	}
	snprintf(host_f.name, sizeof(host_f.name), "%s", name);
	host_f.opens++;
	header.qp = host_f.given;
	if (host_f.given == TAKEN)
		return -EADDRINUSE;
	memcpy(host_f.area, &header, sizeof(header));
	if (!host_f.area_len)
		host_f.area_len = l.bytes;
	*id = CONTEXT;
	return 0;
}

static int context_qp(struct sp_dev *d, uint32_t id, uint32_t *qpn)
{
	*qpn = host_f.given;
	return host_f.no_qp ? -ENOENT : 0;
}

static int context_close(struct sp_dev *d, uint32_t id)
{
	CU_ASSERT_EQUAL(id, CONTEXT);
	host_f.closed = true;
	return host_f.gone ? -ENODEV : 0;
}

static int context_area(struct sp_dev *d, uint32_t id, void **addr, uint64_t *len)
{
	*addr = host_f.area;
	*len = host_f.area_len;
	return 0;
}

int address(struct sp_dev *d, int family, uint8_t ip[16])
{
	memset(ip, 0, 16);
	if (family == AF_INET)
		ip[10] = ip[11] = 0xFF;
	ip[15] = family == AF_INET ? 4 : 6;
	return (family == AF_INET ? host_f.has4 : host_f.has6) ? 0 : -ENOENT;
}

static uint32_t payload(struct sp_dev *d, int family)
{
	return family == AF_INET ? PAYLOAD : PAYLOAD - 20;
}

static void note(const struct sp_command *c)
{
	memmove(host_f.last + 1, host_f.last, sizeof(host_f.last) - sizeof(*host_f.last));
	host_f.last[0] = *c;
	CU_ASSERT_EQUAL(c->context, CONTEXT);
}

static int post(struct sp_dev *d, const struct sp_command *c)
{
	if (host_f.gone)
		return -ENODEV;
	if (host_f.full)
		return -EAGAIN;
	note(c);
	return 0;
}

static int call(struct sp_dev *d, const struct sp_command *c, struct sp_event *result)
{
	if (host_f.gone)
		return -ENODEV;
	note(c);
	*result = host_f.result;
	if (c->op != SP_RVMA_CMD_EPOCH)
		return host_f.call_status;
	result->arg[4] = c->arg[1];
	return c->arg[1] >= host_f.from && c->arg[1] < host_f.to ? 0 : -ENODATA;
}

static int take(struct sp_dev *d, uint32_t id, struct sp_event *e)
{
	if (host_f.gone)
		return -ENODEV;
	if (!host_f.events)
		return 0;
	*e = host_f.event[0];
	memmove(host_f.event, host_f.event + 1, --host_f.events * sizeof(*e));
	return 1;
}

static int progress(struct sp_dev *d, sp_time now)
{
	return host_f.gone ? -ENODEV : 0;
}

static sp_time deadline(struct sp_dev *d)
{
	return SP_NEVER;
}

static int arm(struct sp_dev *d, enum sp_arm what)
{
	return -EOPNOTSUPP;
}

static const struct sp_dev_ops host_ops = {.context_open = context_open,
					   .context_qp = context_qp,
					   .context_close = context_close,
					   .context_area = context_area,
					   .address = address,
					   .payload = payload,
					   .command_post = post,
					   .command_call = call,
					   .event_take = take,
					   .progress = progress,
					   .next_deadline = deadline,
					   .arm = arm};

struct rvma_attr host_usual = {.windows = WINDOWS, .ops = OPS};

void host_fresh(void)
{
	memset(&host_f, 0, sizeof(host_f));
	host_f.dev.ops = &host_ops;
	host_f.has4 = host_f.has6 = true;
	host_r = NULL;
	host_mr.addr = (void *)0x7000000;
	host_notes.addr = (void *)0x9000000;
}

void host_open(void)
{
	host_fresh();
	CU_ASSERT_EQUAL_FATAL(rvma_open(&host_f.dev, &host_usual, &host_r, NULL), 0);
}

void host_shut(void)
{
	host_f.closed = false;
	CU_ASSERT_EQUAL(rvma_close(host_r), 0);
	CU_ASSERT(host_f.closed);
}

void host_event(uint16_t op, int status, uint64_t cookie)
{
	host_f.event[host_f.events++] =
		(struct sp_event){.type = SP_EVENT_RESULT, .op = op, .status = status, .cookie = cookie};
}

void host_line(uint32_t slot, uint64_t number, uint64_t status)
{
	const struct sp_rvma_op_status s = {number, status};

	memcpy(host_f.area + sp_rvma_layout(WINDOWS, OPS).op + slot * sizeof(s), &s, sizeof(s));
}
