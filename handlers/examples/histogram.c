/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * histogram: how often each value occurs among the 32-bit words in packets, after PsPIN's histogram (Di Girolamo et
 * al., ISCA'21).
 *
 * Each worker counts in buckets of its own, without atomics, and adds them to those in host memory when its timer
 * fires. PsPIN's clusters do the same with their local memory. So the host's buckets, 64 bits each in the host's byte
 * order, are up to `interval` late. A value v counts in bucket v / width, or in an extra last bucket if it is beyond.
 *
 * Words are big endian and follow the UDP header and SLMP's header of 12 bytes, which is not read: there is no state
 * per message. A lost packet is missing, and a repeated one counts twice; aggregate shows how to avoid that. Bytes
 * after the last whole word are not counted.
 */
#include <spindle-handler.h>

enum { MALFORMED };
static const char *const drops[] = {"malformed", NULL};
enum { WORDS };
static const char *const counters[] = {"words", NULL};

enum { SLMP = 12 };

struct local { /* of one worker, which alone accesses it */
	struct sp_timer timer;
	uint64_t *count; /* buckets + 1, not in host memory yet */
	bool armed;
} __attribute__((aligned(64)));

struct histogram {
	const struct sp_mem *area; /* buckets + 1 counts */
	struct local *local;
	uint32_t buckets, width;
	sp_time interval;
};

static int configure(struct sp_ctx *c, uint64_t *area)
{
	struct histogram *s = c->state;

	s->buckets = (uint32_t)sp_param_uint(c, "buckets");
	s->width = (uint32_t)sp_param_uint(c, "width");
	s->interval = sp_param_uint(c, "interval");
	*area = (s->buckets + 1) * sizeof(uint64_t);
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct histogram *s = c->state;
	const size_t bytes = (s->buckets + 1) * sizeof(uint64_t);

	s->local = sp_alloc(c, c->workers * sizeof(*s->local));
	if (!s->local)
		return sp_fail(c, ENOMEM, "buckets", "no memory for %u workers", c->workers);
	for (unsigned i = 0; i < c->workers; i++) {
		s->local[i].count = sp_alloc(c, bytes);
		if (!s->local[i].count)
			return sp_fail(c, ENOMEM, "buckets", "no memory for %u buckets per worker", s->buckets);
	}
	s->area = sp_host_area(c);
	return 0;
}

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	struct histogram *s = c->state;
	struct local *local = &s->local[c->worker];

	(void)none;
	if (!(p->flags & SP_PKT_UDP) || p->len < SLMP)
		return SP_DROP(MALFORMED);
	for (uint32_t at = SLMP; p->len - at >= 4; at += 4) {
		const uint32_t bucket = get32(p->data + at) / s->width;
		local->count[bucket < s->buckets ? bucket : s->buckets]++;
	}
	c->counters[WORDS] += (p->len - SLMP) / 4;
	if (!local->armed)
		local->armed = !sp_timer_arm(c, &local->timer, c->now + s->interval);
	return SP_DONE;
}

/* On the worker that armed it: adds its counts to the host's. The next packet arms it again. */
static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct histogram *s = c->state;
	struct local *local = &s->local[c->worker];

	(void)t;
	local->armed = false;
	for (uint32_t i = 0; i <= s->buckets; i++)
		if (local->count[i]) {
			sp_dma_add64(c, s->area, i * sizeof(uint64_t), local->count[i], NULL);
			local->count[i] = 0;
		}
}

static const struct sp_param params[] = {
	{"buckets", SP_UINT, "1024", 1, 65536, "buckets; one more counts values beyond them"},
	{"width", SP_UINT, "1", 1, UINT32_MAX, "values that share a bucket"},
	{"interval", SP_TIME, "1ms", 0, 0, "the host's buckets are up to this late"},
	{NULL},
};

static const struct sp_handler histogram = {
	SP_HANDLER_HEAD,
	.name = "histogram",
	.doc = "counts the values of 32-bit words in host memory",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct histogram),
	.configure = configure,
	.attach = attach,
	.payload = payload,
	.timer = timer,
};
SP_HANDLER(histogram)
