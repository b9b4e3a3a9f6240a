/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heavy-hitters: finds the flows with most packets, in memory that does not grow with the number of flows.
 *
 * A Count-Min sketch (Cormode and Muthukrishnan, J. Algorithms 55, 2005): `depth` rows of `width` counters. A packet
 * adds to one counter of each row, chosen by a hash of its flow; the least of them is the estimate. It is never less
 * than the truth, and more by at most e * packets / width, but for once in e^depth flows. Beside it stands a table of
 * the `top` flows by estimate. A flow is addresses, protocol and, for UDP and TCP, ports; what is not IP is not looked
 * at.
 *
 * Any worker adds, by atomic additions; raising only the least counters ("conservative update") would estimate better,
 * but of two workers that raise the same one, one would be forgotten and an estimate could fall short. The table has a
 * lock that nobody waits for: a worker that finds it taken goes on, and a flow that belongs there comes again soon.
 *
 * With `age` all counts are halved once per that time, so that what is heavy now outweighs what was; the bounds above
 * are then those of the sums of what is left.
 */
#include <arpa/inet.h>
#include <stdatomic.h>

#include <spindle-handler.h>

enum { NOT_IP, SKIPPED };
static const char *const counters[] = {"not-ip", "table-busy", NULL};

enum { MAX_DEPTH = 8, MAX_TOP = 256, SLICE = 4096 /* counters halved in a slice of work */ };

/* ---- state ------------------------------------------------------------------------------------------------------ */
struct tuple {
	uint8_t source[16], destination[16]; /* IPv4: the first four bytes */
	uint16_t source_port, destination_port;
	uint8_t protocol, v6, zero[2];
};
static_assert(sizeof(struct tuple) == 40, "compared and hashed as bytes, so without padding");

struct line { /* of the table */
	struct tuple tuple;
	uint64_t hash, estimate;
};

struct heavy_hitters {
	_Atomic uint64_t *count; /* depth rows of width; any worker adds */
	uint32_t depth, width, shift, top;
	uint64_t seed[2], row[MAX_DEPTH]; /* row: multipliers */
	sp_time age;
	struct sp_timer timer;
	struct sp_work work;
	bool halving;	 /* work is under way [home worker] */
	uint64_t halved; /* counters that it has done [home worker] */
	_Atomic bool locked;
	_Atomic uint64_t least; /* below this no flow enters the table; written under the lock */
	uint32_t lines;		/* under the lock */
	struct line *line;	/* under the lock; in no order */
};

static int attach(struct sp_ctx *c)
{
	struct heavy_hitters *s = c->state;

	s->depth = (uint32_t)sp_param_uint(c, "depth");
	s->width = (uint32_t)sp_param_uint(c, "width");
	s->top = (uint32_t)sp_param_uint(c, "top");
	s->age = sp_param_uint(c, "age");
	if (s->width & (s->width - 1))
		return sp_fail(c, EINVAL, "width", "not a power of two");
	if (s->age && s->age < SP_MS)
		return sp_fail(c, EINVAL, "age", "0, or 1ms and more");
	s->shift = 64 - (uint32_t)__builtin_ctz(s->width);
	s->seed[0] = sp_random(c);
	s->seed[1] = sp_random(c) | 1;
	for (uint32_t i = 0; i < s->depth; i++)
		s->row[i] = sp_random(c) | 1;
	s->count = sp_alloc(c, sizeof(*s->count) * s->depth * s->width);
	s->line = sp_alloc(c, s->top * sizeof(*s->line));
	if (!s->count || !s->line)
		return sp_fail(c, ENOMEM, "width", "no memory for %u times %u counters", s->depth, s->width);
	return s->age ? sp_timer_arm(c, &s->timer, c->now + s->age) : 0;
}

/* ---- which flow ------------------------------------------------------------------------------------------------- */
/* False: not IP. Of fragments only the first would have ports, so none has: all of a datagram's are one flow. */
static bool tuple_of(const struct sp_packet *p, struct tuple *t)
{
	const uint8_t *ip = p->frame + p->l3, *above = p->flags & SP_PKT_UDP ? p->frame + p->l4 : p->data;
	const uint8_t *type = ip - 2; /* behind any VLAN tags */
	bool ports = p->flags & SP_PKT_UDP;

	memset(t, 0, sizeof(*t));
	if (type[0] == 0x08 && type[1] == 0x00) {
		memcpy(t->source, ip + 12, 4);
		memcpy(t->destination, ip + 16, 4);
		t->protocol = ip[9];
		ports |= ip[9] == IPPROTO_TCP && !((ip[6] & 0x3F) | ip[7]);
	} else if (type[0] == 0x86 && type[1] == 0xDD) {
		t->v6 = 1;
		memcpy(t->source, ip + 8, 16);
		memcpy(t->destination, ip + 24, 16);
		t->protocol = ip[6];
		for (const uint8_t *h = ip + 40; h + 8 <= above; h += (h[1] + 1) * 8) /* extension headers */
			t->protocol = h[0];
		ports |= t->protocol == IPPROTO_TCP;
	} else {
		return false;
	}
	if (ports && (p->flags & SP_PKT_UDP || p->len >= 4))
		memcpy(&t->source_port, above, 4); /* both, in network order */
	return true;
}

/* Multiplied by a secret and folded: without the seeds nobody can make flows that share their counters. */
static uint64_t hash_of(const struct heavy_hitters *s, const struct tuple *t)
{
	uint64_t word, hash = s->seed[0];

	for (size_t i = 0; i < sizeof(*t); i += sizeof(word)) {
		memcpy(&word, (const uint8_t *)t + i, sizeof(word));
		unsigned __int128 product = (unsigned __int128)(hash ^ word) * s->seed[1];
		hash = s->seed[0] + ((uint64_t)product ^ (uint64_t)(product >> 64));
	}
	return hash;
}

/* ---- the sketch and the table ----------------------------------------------------------------------------------- */
/* The estimate, after adding n to the flow's counters. */
static uint64_t add(const struct heavy_hitters *s, uint64_t hash, uint64_t n)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < s->depth; i++) {
		_Atomic uint64_t *count = &s->count[(size_t)i * s->width + (hash * s->row[i] >> s->shift)];
		const uint64_t now = n ? atomic_fetch_add_explicit(count, n, memory_order_relaxed) + n
				       : atomic_load_explicit(count, memory_order_relaxed);
		least = now < least ? now : least;
	}
	return least;
}

static bool try_lock(struct heavy_hitters *s)
{
	return !atomic_exchange_explicit(&s->locked, true, memory_order_acquire);
}

static void unlock(struct heavy_hitters *s)
{
	uint64_t least = s->lines == s->top ? UINT64_MAX : 0;

	for (uint32_t i = 0; i < s->lines && least; i++)
		least = s->line[i].estimate < least ? s->line[i].estimate : least;
	atomic_store_explicit(&s->least, least, memory_order_relaxed);
	atomic_store_explicit(&s->locked, false, memory_order_release);
}

/* Under the lock: the flow's own line, or a free one, or that of the least flow. */
static void enter(struct heavy_hitters *s, const struct tuple *t, uint64_t hash, uint64_t estimate)
{
	struct line *least = s->line;

	for (uint32_t i = 0; i < s->lines; i++) {
		struct line *l = &s->line[i];
		if (l->hash == hash && !memcmp(&l->tuple, t, sizeof(*t))) {
			l->estimate = estimate;
			return;
		}
		least = l->estimate < least->estimate ? l : least;
	}
	if (s->lines < s->top)
		least = &s->line[s->lines++];
	*least = (struct line){*t, hash, estimate};
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	struct heavy_hitters *s = c->state;
	uint64_t hash, estimate;
	struct tuple t;

	(void)none;
	if (!tuple_of(p, &t)) {
		c->counters[NOT_IP]++;
		return SP_DONE;
	}
	hash = hash_of(s, &t);
	estimate = add(s, hash, 1);
	if (estimate <= atomic_load_explicit(&s->least, memory_order_relaxed))
		return SP_DONE;
	if (!try_lock(s)) {
		c->counters[SKIPPED]++;
		return SP_DONE;
	}
	enter(s, &t, hash, estimate);
	unlock(s);
	return SP_DONE;
}

/* ---- ageing ----------------------------------------------------------------------------------------------------- */
static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct heavy_hitters *s = c->state;

	if (!s->halving) {
		s->halving = true;
		s->halved = 0;
		sp_work_start(c, &s->work);
	}
	sp_timer_arm(c, t, c->now + s->age);
}

/* Half of what is there is taken away, so that what others add meanwhile stays. Last the table, from the sketch. */
static bool work(struct sp_ctx *c, struct sp_work *w)
{
	struct heavy_hitters *s = c->state;
	const uint64_t all = (uint64_t)s->depth * s->width;

	(void)w;
	for (unsigned n = 0; s->halved < all && n < SLICE; n++, s->halved++)
		atomic_fetch_sub_explicit(&s->count[s->halved], s->count[s->halved] / 2, memory_order_relaxed);
	if (s->halved < all || !try_lock(s))
		return true; /* more to do */
	for (uint32_t i = 0; i < s->lines; i++)
		s->line[i].estimate = add(s, s->line[i].hash, 0);
	unlock(s);
	return s->halving = false;
}

/* ---- the report ------------------------------------------------------------------------------------------------- */
/* Heaviest first; equals stand in the order of their addresses, so that equal runs read equal. */
static bool before(const struct line *a, const struct line *b)
{
	if (a->estimate != b->estimate)
		return a->estimate > b->estimate;
	return memcmp(&a->tuple, &b->tuple, sizeof(a->tuple)) < 0;
}

static void report_flow(struct sp_report *r, const struct line *l)
{
	const int family = l->tuple.v6 ? AF_INET6 : AF_INET;
	char text[INET6_ADDRSTRLEN];

	sp_report_open(r, NULL, false);
	sp_report_string(r, "source", inet_ntop(family, l->tuple.source, text, sizeof(text)));
	sp_report_string(r, "destination", inet_ntop(family, l->tuple.destination, text, sizeof(text)));
	sp_report_uint(r, "protocol", l->tuple.protocol);
	sp_report_uint(r, "source_port", ntohs(l->tuple.source_port));
	sp_report_uint(r, "destination_port", ntohs(l->tuple.destination_port));
	sp_report_uint(r, "packets", l->estimate);
	sp_report_close(r);
}

static void report(struct sp_ctx *c, struct sp_report *r)
{
	struct heavy_hitters *s = c->state;
	struct line line[MAX_TOP];
	uint32_t lines = 0;
	uint64_t packets = 0;
	bool locked = false;

	for (uint32_t i = 0; i < s->width; i++) /* any one row has counted each packet once */
		packets += s->count[i];
	for (unsigned tries = 0; tries < 1000 && !locked; tries++) /* held for some hundred nanoseconds at a time */
		locked = try_lock(s);
	if (locked) {
		lines = s->lines;
		memcpy(line, s->line, lines * sizeof(*line));
		unlock(s);
	}
	for (uint32_t i = 0; i < lines; i++) { /* insertion: there are few */
		struct line l = line[i];
		uint32_t at = i;

		for (l.estimate = add(s, l.hash, 0); at && before(&l, &line[at - 1]); at--)
			line[at] = line[at - 1];
		line[at] = l;
	}
	sp_report_uint(r, "observed", packets);
	sp_report_uint(r, "error_at_most", (packets * 2719 + s->width * 1000ull - 1) / (s->width * 1000ull)); /* e */
	sp_report_bool(r, "busy", !locked);
	sp_report_open(r, "flows", true);
	for (uint32_t i = 0; i < lines; i++)
		report_flow(r, &line[i]);
	sp_report_close(r);
}

static const struct sp_param params[] = {
	{"depth", SP_UINT, "4", 1, MAX_DEPTH, "rows of the sketch"},
	{"width", SP_UINT, "4096", 2, 1 << 24, "counters in a row; a power of two"},
	{"top", SP_UINT, "16", 1, MAX_TOP, "flows that are listed"},
	{"age", SP_TIME, "0s", 0, 0, "halve all counts once per this time; 0: never"},
	{NULL},
};

static const struct sp_handler heavy_hitters = {
	SP_HANDLER_HEAD,  .name = "heavy-hitters", .doc = "lists the flows with most packets, by a Count-Min sketch",
	.params = params, .counters = counters,	   .ctx_size = sizeof(struct heavy_hitters),
	.attach = attach, .payload = payload,	   .work = work,
	.timer = timer,	  .report = report,
};
SP_HANDLER(heavy_hitters)
