/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heavy-hitters: finds the flows with most packets, in memory that does not grow with the number of flows.
 *
 * A Count-Min sketch (Cormode and Muthukrishnan, J. Algorithms 55, 2005): DEPTH rows of `width` counters. A packet adds
 * to one counter of each row, chosen by a hash of its flow. The smallest of them is the estimate. It is never too
 * small, and too large by at most e * packets / width, except for one flow in e^DEPTH. A table holds the flows with the
 * highest estimates for the report. A flow is a pair of IP addresses and, for UDP, of ports.
 *
 * Any worker adds, by atomic additions. The table has a lock that nobody waits for: a worker that finds it taken goes
 * on, as a heavy flow will come again soon.
 */
#include <arpa/inet.h>
#include <stdatomic.h>

#include <spindle-handler.h>

enum { TABLE_BUSY };
static const char *const counters[] = {"table-busy", NULL};

enum { DEPTH = 4, TOP = 16, ROW_BITS = 15 /* of a hash, for each row */ };

struct flow {				     /* bytes only, so that no padding is hashed */
	uint8_t source[16], destination[16]; /* IPv4 is mapped: ::ffff:192.0.2.1 */
	uint8_t ports[4];
};

struct line { /* of the table */
	struct flow flow;
	uint64_t hash, estimate;
};

struct heavy_hitters {
	_Atomic uint64_t *count; /* DEPTH rows of mask + 1 */
	uint32_t mask;
	_Atomic uint64_t least; /* no flow up to this estimate enters the table */
	atomic_flag locked;
	uint32_t lines;	       /* under the lock */
	struct line line[TOP]; /* under the lock; the heaviest one first */
};

static int attach(struct sp_ctx *c)
{
	struct heavy_hitters *s = c->state;
	const uint32_t width = (uint32_t)sp_param_uint(c, "width");

	s->mask = width - 1;
	if (width & s->mask)
		return sp_fail(c, EINVAL, "width", "not a power of two");
	s->count = sp_alloc(c, DEPTH * width * sizeof(*s->count));
	return s->count ? 0 : sp_fail(c, ENOMEM, "width", "no memory for %d times %u counters", DEPTH, width);
}

/* False: not IP. */
static bool flow_of(const struct sp_packet *p, struct flow *f)
{
	const uint8_t *ip = p->frame + p->l3, *type = ip - 2; /* after any VLAN tags */

	*f = (struct flow){0};
	if (type[0] == 0x08 && type[1] == 0x00) {
		memset(f->source + 10, 0xFF, 2);
		memset(f->destination + 10, 0xFF, 2);
		memcpy(f->source + 12, ip + 12, 4);
		memcpy(f->destination + 12, ip + 16, 4);
	} else if (type[0] == 0x86 && type[1] == 0xDD) {
		memcpy(f->source, ip + 8, 16);
		memcpy(f->destination, ip + 24, 16);
	} else {
		return false;
	}
	if (p->flags & SP_PKT_UDP)
		memcpy(f->ports, p->frame + p->l4, 4);
	return true;
}

/* Adds n packets, and returns the flow's estimate. Each row uses other bits of the hash. */
static uint64_t add(const struct heavy_hitters *s, uint64_t hash, uint64_t n)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t row = 0; row < DEPTH; row++, hash >>= ROW_BITS) {
		const uint64_t count = atomic_fetch_add(&s->count[row * (s->mask + 1) + (hash & s->mask)], n) + n;
		least = count < least ? count : least;
	}
	return least;
}

/* Under the lock: takes the flow's own line, a free one, or the last one, and moves it up past all lighter ones. Two
 * flows with the same hash of 63 bits are left to chance, which nobody outside can help. */
static void enter(struct heavy_hitters *s, const struct line *new)
{
	uint32_t at = 0;

	while (at < s->lines && s->line[at].hash != new->hash)
		at++;
	if (at == TOP)
		at--;
	else if (at == s->lines)
		s->lines++;
	if (s->line[at].estimate >= new->estimate)
		return; /* another worker was faster */
	for (; at && s->line[at - 1].estimate < new->estimate; at--)
		s->line[at] = s->line[at - 1];
	s->line[at] = *new;
	s->least = s->lines < TOP ? 0 : s->line[TOP - 1].estimate;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	struct heavy_hitters *s = c->state;
	struct line new;

	(void)none;
	if (!flow_of(p, &new.flow))
		return SP_DONE;
	new.hash = sp_hash(c, &new.flow, sizeof(new.flow));
	new.estimate = add(s, new.hash, 1);
	if (new.estimate <= s->least)
		return SP_DONE;
	if (atomic_flag_test_and_set(&s->locked)) {
		c->counters[TABLE_BUSY]++;
		return SP_DONE;
	}
	enter(s, &new);
	atomic_flag_clear(&s->locked);
	return SP_DONE;
}

/* Other workers go on: while this one has the lock, their flows do not enter the table. */
static void report(struct sp_ctx *c, struct sp_report *r)
{
	struct heavy_hitters *s = c->state;
	char text[INET6_ADDRSTRLEN];

	while (atomic_flag_test_and_set(&s->locked)) /* for some hundred nanoseconds; packets never wait like this */
		;
	sp_report_open(r, "flows", true);
	for (const struct line *l = s->line; l < s->line + s->lines; l++) {
		sp_report_open(r, NULL, false);
		sp_report_string(r, "source", inet_ntop(AF_INET6, l->flow.source, text, sizeof(text)));
		sp_report_string(r, "destination", inet_ntop(AF_INET6, l->flow.destination, text, sizeof(text)));
		sp_report_uint(r, "source_port", l->flow.ports[0] << 8 | l->flow.ports[1]);
		sp_report_uint(r, "destination_port", l->flow.ports[2] << 8 | l->flow.ports[3]);
		sp_report_uint(r, "packets", add(s, l->hash, 0));
		sp_report_close(r);
	}
	sp_report_close(r);
	atomic_flag_clear(&s->locked);
}

static const struct sp_param params[] = {
	{"width", SP_UINT, "4096", 2, 1 << ROW_BITS, "counters in a row of the sketch; a power of two"},
	{NULL},
};

static const struct sp_handler heavy_hitters = {
	SP_HANDLER_HEAD,  .name = "heavy-hitters", .doc = "lists the flows with most packets, by a Count-Min sketch",
	.params = params, .counters = counters,	   .ctx_size = sizeof(struct heavy_hitters),
	.attach = attach, .payload = payload,	   .report = report,
};
SP_HANDLER(heavy_hitters)
