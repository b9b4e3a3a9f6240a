/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_records.h"

int rec_call(struct rec *y, unsigned e, uint16_t op, const uint64_t arg[6], uint64_t cookie, uint16_t flags,
	     struct sp_event *result)
{
	struct sp_command c = {.op = op, .flags = flags, .context = y->end[e].id, .cookie = cookie};

	if (y->text[0])
		return -ENODEV;
	memcpy(c.arg, arg, sizeof(c.arg));
	return sp_command_call(y->end[e].dev, &c, result);
}

/* Source of a slot's record, behind the buffer. */
static uint64_t rec_source(unsigned slot, uint32_t room)
{
	return REC_BYTES + (uint64_t)slot * room;
}

static uint32_t rec_room(const struct rec *y)
{
	return y->ops > 256 ? 512 : 32768;
}

/* A mailbox 5 with one buffer, into which puts go one behind the other. */
static void rec_listen(struct rec *y, unsigned e, uint64_t flags)
{
	struct rec_end *x = &y->end[e];
	struct sp_event result;
	int rc = rec_call(y, e, SP_RVMA_CMD_WINDOW, REC_ARGS(5, 77, 0, SP_RVMA_MANAGED | flags), 0, 0, &result);

	x->window = result.arg[0];
	rec_expect(y, !rc, "window: %d", rc);
	memset(x->memory, 0, REC_BYTES);
	rc = rec_call(y, e, SP_CMD_POST, REC_ARGS(x->mr->id, 0, REC_BYTES, 0, 0, x->window), 1, 0, &result);
	rec_expect(y, !rc, "post: %d", rc);
}

void rec_end_open(struct rec *y, unsigned e)
{
	struct rec_end *x = &y->end[e];
	const uint64_t bytes = rec_source(y->ops, rec_room(y));
	char qp[16], mtu[16], ops[16], window[16], peers[16], timeout[32];
	const struct sp_setting settings[] = {{"qp", qp},	   {"mtu", mtu},     {"ops", ops},
					      {"window", window},  {"peers", peers}, {"windows", "8"},
					      {"timeout", timeout}};
	struct sp_error error = {.text = ""};
	uint64_t len;
	void *area;

	x->nic = e % 2;
	x->qp = 0x100 + e;
	snprintf(qp, sizeof(qp), "%u", x->qp);
	snprintf(mtu, sizeof(mtu), "%u", y->mtu[x->nic]);
	snprintf(ops, sizeof(ops), "%u", y->ops);
	snprintf(window, sizeof(window), "%u", y->window[x->nic]);
	snprintf(peers, sizeof(peers), "%u", y->peers);
	snprintf(timeout, sizeof(timeout), "%lluns", U(y->timeout / SP_NS));
	int rc = sp_nic_dev(y->nic[x->nic], false, &x->dev);
	x->memory = rc ? NULL : aligned_alloc(64, bytes);
	rc = rc ? rc : sp_mr_reg(x->dev, x->memory, bytes, &x->mr);
	rc = rc ? rc
		: sp_context_open(x->dev, qp, "rvma", settings, sizeof(settings) / sizeof(*settings), &x->id, &error);
	rc = rc ? rc : sp_context_area(x->dev, x->id, &area, &len);
	rec_expect(y, !rc, "context: %d %s %s", rc, error.key, error.text);
	if (rc)
		return;
	x->area = area;
	x->number = calloc(y->ops, sizeof(*x->number));
	x->busy = calloc(y->ops, sizeof(*x->busy));
	x->of = calloc(y->ops, sizeof(*x->of));
	for (uint32_t i = 0; i < y->ops; i++)
		x->busy[i] = -1;
	memset(x->peer, 0, sizeof(x->peer));
	x->open = true;
	rec_listen(y, e, 0);
}

void rec_end_close(struct rec *y, unsigned e)
{
	struct rec_end *x = &y->end[e];
	if (x->dev)
		sp_dev_close(x->dev);
	free(x->memory);
	free(x->number);
	free(x->busy);
	free(x->of);
	*x = (struct rec_end){.open = false};
}

static uint32_t rec_peer(struct rec *y, unsigned e, unsigned to)
{
	struct rec_end *x = &y->end[e];
	struct sp_event result;
	uint64_t arg[6] = {0};

	if (x->peer[to])
		return x->peer[to] - 1;
	sim_ip(y->six, to % 2, (uint8_t *)arg);
	arg[2] = 0x100 + to;
	int rc = rec_call(y, e, SP_RVMA_CMD_PEER, arg, 0, 0, &result);
	rec_expect(y, !rc, "peer: %d", rc);
	x->peer[to] = (uint32_t)result.arg[0] + 1;
	return x->peer[to] - 1;
}

/* ---- puts ---- */
static uint8_t rec_byte(uint64_t tag, uint32_t i)
{
	return (uint8_t)((tag + 1) * 0x9E3779B97F4A7C15u >> 32) + (uint8_t)(i * 31 + (i >> 8));
}

static void rec_record(uint8_t *to, uint64_t tag, uint32_t bytes)
{
	memcpy(to, &tag, 8);
	memcpy(to + 8, &(uint64_t){bytes}, 8);
	for (uint32_t i = REC_HEAD; i < bytes; i++)
		to[i] = rec_byte(tag, i);
}

static bool rec_put(struct rec *y, struct rec_flow *f, unsigned slot)
{
	struct rec_end *x = &y->end[f->from];
	const uint64_t k = f->posted, tag = (uint64_t)(f - y->flow) << 32 | k;
	const uint64_t source = rec_source(slot, rec_room(y));
	struct sp_event result;

	f->bytes[k] = f->length[0] + (uint32_t)rec_below(y, f->length[1] - f->length[0] + 1);
	rec_record(x->memory + source, tag, f->bytes[k]);
	int rc = rec_call(y, f->from, SP_RVMA_CMD_PUT,
			  REC_ARGS(x->mr->id | (uint64_t)rec_peer(y, f->from, f->to) << 32, source, f->bytes[k],
				   f->mailbox ? f->mailbox : 5, 77, SP_RVMA_APPEND),
			  SP_RVMA_OP(slot, x->number[slot] + 1), f->fence ? SP_RVMA_CMD_FENCE : 0, &result);
	rec_expect(y, !rc, "put: %d", rc);
	if (rc)
		return false;
	x->number[slot]++;
	x->busy[slot] = (int)k;
	x->of[slot] = f;
	f->posted++;
	return true;
}

static void rec_ended(struct rec *y, unsigned e, unsigned slot)
{
	struct rec_end *x = &y->end[e];
	const struct sp_rvma_area *area = (const void *)x->area;
	struct sp_rvma_op_status s;
	struct rec_flow *f = x->of[slot];

	memcpy(&s, x->area + area->op + slot * sizeof(s), sizeof(s));
	if (x->busy[slot] < 0 || s.number != x->number[slot])
		return;
	f->status[x->busy[slot]] = (uint8_t)(s.status + 1);
	f->by[s.status % 64]++;
	f->ended++;
	f->over = sp_world_now(y->world);
	x->busy[slot] = -1;
	/* the memory is the application's again */
	memset(x->memory + rec_source(slot, rec_room(y)), 0xEE, rec_room(y));
}

static void rec_step(void *arg, sp_time now)
{
	struct rec *y = arg;
	y->stir = false;
	rec_expect(y, ++y->steps < 20000000, "the run does not end");
	for (unsigned e = 0; e < y->ends && !y->text[0]; e++)
		for (unsigned slot = 0; y->end[e].open && slot < y->ops; slot++)
			rec_ended(y, e, slot);
	for (unsigned i = 0; i < y->flows && !y->text[0]; i++) {
		struct rec_flow *f = &y->flow[i];
		unsigned slot = 0;

		while (f->posted < f->puts && y->end[f->from].open && (!f->most || f->posted - f->ended < f->most)) {
			while (slot < y->ops && y->end[f->from].busy[slot] >= 0)
				slot++;
			if (slot == y->ops || !rec_put(y, f, slot))
				break;
		}
	}
}

static sp_time rec_next(void *arg)
{
	const struct rec *y = arg;

	return y->stir ? sp_world_now(y->world) : SP_NEVER;
}

static bool rec_done(void *arg)
{
	const struct rec *y = arg;

	for (unsigned i = 0; i < y->flows && !y->text[0]; i++)
		if (y->end[y->flow[i].from].open && y->flow[i].ended < y->flow[i].puts)
			return false;
	return !y->stir;
}

struct rec_flow *rec_flow(struct rec *y, unsigned from, unsigned to, uint64_t puts, uint32_t least, uint32_t most)
{
	struct rec_flow *f = &y->flow[y->flows++];

	*f = (struct rec_flow){.from = from, .to = to, .puts = puts, .length = {least, most}};
	y->stir = true;
	return f;
}

void rec_run(struct rec *y, sp_time most)
{
	y->stir = true;
	if (!y->text[0])
		sp_world_run(y->world, sp_world_now(y->world) + most, rec_done, y);
}

void rec_wait(struct rec *y, sp_time time)
{
	sp_world_run(y->world, sp_world_now(y->world) + time, NULL, NULL);
}

struct sp_rvma_window_status rec_status(const struct rec *y, unsigned e)
{
	const struct sp_rvma_area *area = (const void *)y->end[e].area;
	struct sp_rvma_window_status s = {.id = 0};

	if (!area)
		return s;
	for (uint32_t i = 0; i < area->windows && s.id != y->end[e].window; i++)
		memcpy(&s, y->end[e].area + area->window + i * sizeof(s), sizeof(s));
	return s;
}

void rec_read(struct rec *y, unsigned e)
{
	const uint8_t *memory = y->end[e].memory;
	uint64_t at = 0, records = 0;

	if (y->text[0])
		return;
	struct sp_rvma_window_status s = rec_status(y, e);
	while (at + REC_HEAD <= s.bytes && !y->text[0]) {
		uint64_t tag, bytes;

		memcpy(&tag, memory + at, 8);
		memcpy(&bytes, memory + at + 8, 8);
		struct rec_flow *f = &y->flow[tag >> 32];
		uint64_t k = tag & UINT32_MAX;
		rec_expect(y, tag >> 32 < y->flows && k < f->posted && bytes == f->bytes[k], "no record at %llu",
			   U(at));
		if (y->text[0])
			return;
		rec_expect(y, f->to == e && !f->came[k]++, "put %llu came again", U(k));
		for (uint32_t i = REC_HEAD; i < bytes; i++)
			rec_expect(y, memory[at + i] == rec_byte(tag, i), "put %llu: byte %u is another", U(k), i);
		at += bytes;
		records++;
	}
	rec_expect(y, at == s.bytes && records == s.puts, "%llu records in %llu bytes, %llu puts of %llu bytes counted",
		   U(records), U(at), U(s.puts), U(s.bytes));
}

void rec_read_torn(struct rec *y, struct rec_flow *f)
{
	const uint32_t bytes = f->length[0];

	for (uint64_t i = 0; i < f->posted && y->end[f->to].open; i++) {
		const uint8_t *b = y->end[f->to].memory + i * bytes;
		uint8_t right[32768];
		uint64_t tag;

		memcpy(&tag, b, 8);
		rec_record(right, tag, bytes);
		if (memcmp(b, right, bytes))
			continue;
		rec_expect(y,
			   tag >> 32 == (uint64_t)(f - y->flow) && (uint32_t)tag < f->posted &&
				   !f->came[(uint32_t)tag]++,
			   "put %llu came again", U((uint32_t)tag));
	}
}

void rec_all_delivered(struct rec *y, const struct rec_flow *f)
{
	rec_expect(y, f->ended == f->puts && f->by[SP_RVMA_DELIVERED] == f->puts,
		   "%llu of %llu puts have ended, %llu are delivered (%llu peer gone, %llu time-outs, %llu given up)",
		   U(f->ended), U(f->puts), U(f->by[SP_RVMA_DELIVERED]), U(f->by[SP_RVMA_PEER_GONE]),
		   U(f->by[SP_RVMA_TIMEOUT]), U(f->by[SP_RVMA_GIVEN_UP]));
	for (uint64_t k = 0; k < f->posted; k++)
		rec_expect(y, f->came[k] == 1, "put %llu came %u times", U(k), f->came[k]);
}

uint64_t rec_counter(struct rec *y, unsigned e, const char *name)
{
	return sp_nic_context_counter(y->nic[e % 2], y->end[e].id, name);
}

/* ---- the world ---- */
/* BTH is behind Ethernet, IP and UDP. */
static bool rec_lose(struct rec *y, unsigned from, const uint8_t *frame, uint32_t len)
{
	const unsigned bth = 14 + (frame[12] == 0x86 ? 40 : 20) + 8;
	const uint8_t opcode = len > bth ? frame[bth] : 0;

	y->seen[opcode]++;
	return y->cut[from] || (y->lose && y->lose(y, from, opcode));
}

static bool rec_lose0(void *arg, const uint8_t *frame, uint32_t len)
{
	return rec_lose(arg, 0, frame, len);
}

static bool rec_lose1(void *arg, const uint8_t *frame, uint32_t len)
{
	return rec_lose(arg, 1, frame, len);
}

static void rec_random(struct rec *y)
{
	static const sp_time delays[] = {SP_US, 20 * SP_US, 500 * SP_US, 5 * SP_MS};
	static const uint32_t mtus[] = {64, 256, 1024, 4096};
	const sp_time delay = delays[rec_below(y, 4)];

	y->six = !rec_below(y, 3);
	y->ops = 64;
	y->peers = 8;
	y->ends = 2;
	y->timeout = 300 * SP_SEC;
	for (unsigned e = 0; e < 2; e++) {
		y->workers[e] = 1 + (uint16_t)rec_below(y, 2);
		y->mtu[e] = mtus[rec_below(y, 4)];
		y->window[e] = 1u << rec_below(y, 9);
		y->link[e] = (struct sp_link_direction){.bandwidth = 1000000000ull << rec_below(y, 7),
							.delay = delay,
							.loss = rec_below(y, 4) ? 0.01 * (double)rec_below(y, 20) : 0,
							.duplicate = rec_below(y, 2) ? 0.1 : 0,
							.reorder = rec_below(y, 3) ? 0.3 : 0,
							.reorder_delay = rec_below(y, 4 * delay),
							.jitter = rec_below(y, 3) ? 0 : delay,
							.queue = 64};
	}
}

void rec_open(struct rec *y)
{
	sim_open(&y->sim, (struct sp_link_config){.queues = {y->workers[0], y->workers[1]},
						  .lose = {rec_lose0, rec_lose1},
						  .lose_arg = {y, y}});
	for (unsigned e = 0; e < 2; e++)
		sim_nic(&y->sim, e, 9000, y->workers[e], y->six ? SIM_IP6 : SIM_IP4);
	for (unsigned e = 0; e < y->ends && !y->text[0]; e++)
		rec_end_open(y, e);
	if (sp_world_add_host(y->world, &(struct sp_world_host){.step = rec_step, .next = rec_next, .arg = y}))
		abort();
}

static void rec_close(struct rec *y)
{
	for (unsigned e = 0; e < y->ends; e++)
		rec_end_close(y, e);
	sim_close(&y->sim);
}

void rec_over_seeds(const char *rule, unsigned count, void (*one)(struct rec *y))
{
	static struct rec y;
	struct seeds s = seeds_begin(rule, count);

	while (seeds_next(&s)) {
		sim_begin(&y.sim, sizeof(y), &s);
		rec_random(&y);
		one(&y);
		rec_close(&y);
		rec_expect(&y, seeds_whole(&s), "packet buffers are lost");
		seeds_told(&s, y.text);
	}
	CU_ASSERT_EQUAL(s.bad, 0);
}
