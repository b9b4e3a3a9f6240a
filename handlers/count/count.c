/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count: packets, bytes, first and last time of every flow.
 *
 * A flow is a message here: header() gives it a record, payload() counts in the record, completion() frees it once the
 * flow was idle for long enough. The message key is a hash of addresses, protocol and ports. Two flows may have the
 * same key, so the record has the addresses themselves. A packet that finds another flow's record is counted as a
 * collision, and never as a packet of that flow.
 */
#include <arpa/inet.h>
#include <stdatomic.h>

#include "../spindle-handler.h"

enum { OPENED, FORGOTTEN, UNTRACKED, COLLISIONS };
static const char *const counters[] = {"opened", "forgotten", "untracked", "collisions", NULL};

/* ---- state ---- */
/* What identifies a flow. Only UDP and TCP have ports. A packet without IP has only its type. */
struct tuple {
	uint8_t source[16], destination[16]; /* IPv4: the first four bytes */
	uint16_t ethertype, source_port, destination_port;
	uint8_t protocol, zero;
};
static_assert(sizeof(struct tuple) == 40, "compared as bytes, so without padding");
enum { WORDS = sizeof(struct tuple) / sizeof(uint64_t) };

/* `serial` counts the states of a record, in turn: free, taken, live. The worker that takes it writes it. A reader that
 * finds the same live serial before and after has read one flow. */
enum { FREE, TAKEN, LIVE, STATES = 4 };
struct flow {
	_Atomic uint32_t serial;
	_Atomic uint64_t tuple[WORDS];	 /* written while taken; report() may read it then, in vain */
	_Atomic uint64_t packets, bytes; /* any worker adds to them */
	_Atomic sp_time first, last;	 /* any worker widens them */
} __attribute__((aligned(64)));

struct line { /* For the report: a flow at one moment. */
	struct tuple tuple;
	uint64_t packets, bytes;
	sp_time first, last;
};

struct total { /* each worker writes its own, the home worker reads all */
	_Atomic uint64_t packets, bytes;
} __attribute__((aligned(64)));

struct count {
	struct flow *flow; /* mask + 1 records, at least two for each live flow */
	uint32_t mask, limit;
	_Atomic uint32_t live;
	struct total *total;
	struct line *top; /* report() sorts here */
	uint32_t top_limit;
};

struct message {
	struct flow *flow; /* NULL: no record was free */
};

static int attach(struct sp_ctx *c)
{
	struct count *s = c->state;
	uint32_t records = 2;

	s->limit = (uint32_t)sp_param_uint(c, "flows");
	s->top_limit = (uint32_t)sp_param_uint(c, "report-flows");
	while (records < 2 * s->limit)
		records *= 2;
	s->mask = records - 1;
	s->flow = sp_alloc(c, records * sizeof(*s->flow));
	s->top = sp_alloc(c, s->top_limit * sizeof(*s->top));
	s->total = sp_alloc(c, c->workers * sizeof(*s->total));
	if (!s->flow || !s->top || !s->total)
		return sp_fail(c, ENOMEM, "flows", "no memory for %u flows", s->limit);
	/* The NIC's limit is a little above ours: a flow beyond ours must reach payload() to be counted there. */
	return sp_messages_limit(c, s->limit + 64, sp_param_uint(c, "idle"));
}

/* ---- which flow ---- */
static uint16_t get16(const uint8_t *b)
{
	return (uint16_t)(b[0] << 8 | b[1]);
}

/* The protocol after IPv6's extension headers, which lie between the fixed header and `end`. */
static uint8_t ipv6_protocol(const uint8_t *ip, const uint8_t *end)
{
	uint8_t next = ip[6];

	for (const uint8_t *h = ip + 40; h + 8 <= end; h += (h[1] + 1) * 8)
		next = h[0];
	return next;
}

static void tuple_of(const struct sp_packet *p, struct tuple *t)
{
	const uint8_t *ip = p->frame + p->l3, *above = p->flags & SP_PKT_UDP ? p->frame + p->l4 : p->data;
	bool ports = p->flags & SP_PKT_UDP, fragment = false;

	memset(t, 0, sizeof(*t));
	t->ethertype = get16(ip - 2); /* before l3, after any VLAN tags */
	if (t->ethertype == 0x0800) {
		memcpy(t->source, ip + 12, 4);
		memcpy(t->destination, ip + 16, 4);
		t->protocol = ip[9];
		fragment = get16(ip + 6) & 0x3FFF; /* a later fragment, or more follow */
	} else if (t->ethertype == 0x86DD) {
		memcpy(t->source, ip + 8, 16);
		memcpy(t->destination, ip + 24, 16);
		t->protocol = ipv6_protocol(ip, above);
		fragment = t->protocol == IPPROTO_FRAGMENT;
		if (fragment && p->len >= 8)
			t->protocol = p->data[0]; /* of the fragments, as in IPv4 */
	} else if (t->ethertype < 0x600) {
		t->ethertype = 0; /* a length, as in IEEE 802.3 */
	}
	/* Fragments have no ports, not even the first one: all fragments of a datagram are one flow. */
	ports |= t->protocol == IPPROTO_TCP && !fragment && p->len >= 4;
	if (ports) {
		t->source_port = get16(above);
		t->destination_port = get16(above + 2);
	}
}

static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	struct tuple t;

	tuple_of(p, &t);
	return sp_hash(c, &t, sizeof(t));
}

/* ---- the life of a flow ---- */
static void add(const struct sp_ctx *c, _Atomic uint64_t *to, uint64_t n)
{
	if (c->workers == 1) /* nobody else writes: no locked operation is needed */
		atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

/* Takes a free record, from `at` on. At least half of them are free within the limit, so the search is short, and it
 * ends. */
static struct flow *take(struct count *s, uint64_t at)
{
	if (atomic_fetch_add(&s->live, 1) >= s->limit) {
		atomic_fetch_sub(&s->live, 1);
		return NULL;
	}
	for (;; at++) {
		struct flow *f = &s->flow[at & s->mask];
		uint32_t serial = atomic_load(&f->serial);
		if (serial % STATES == FREE && atomic_compare_exchange_strong(&f->serial, &serial, serial + TAKEN))
			return f;
	}
}

static void write_tuple(struct flow *f, const struct tuple *t)
{
	uint64_t word[WORDS];

	memcpy(word, t, sizeof(word));
	for (unsigned i = 0; i < WORDS; i++)
		atomic_store_explicit(&f->tuple[i], word[i], memory_order_relaxed);
}

static struct tuple read_tuple(const struct flow *f)
{
	uint64_t word[WORDS];
	struct tuple t;

	for (unsigned i = 0; i < WORDS; i++)
		word[i] = atomic_load_explicit(&f->tuple[i], memory_order_relaxed);
	memcpy(&t, word, sizeof(t));
	return t;
}

static uint32_t header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct flow *f = take(c->state, m->key);
	struct tuple t;

	if (!f)
		return SP_DONE; /* payload() ends the message at once */
	tuple_of(p, &t);
	write_tuple(f, &t);
	atomic_store(&f->packets, 0);
	atomic_store(&f->bytes, 0);
	atomic_store(&f->first, c->now);
	atomic_store(&f->last, c->now);
	atomic_fetch_add(&f->serial, LIVE - TAKEN);
	((struct message *)m->state)->flow = f;
	c->counters[OPENED]++;
	return SP_DONE;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct count *s = c->state;
	struct total *total = &s->total[c->worker];
	struct flow *f = ((struct message *)m->state)->flow;
	struct tuple t, own;
	sp_time seen;

	atomic_store_explicit(&total->packets, total->packets + 1, memory_order_relaxed);
	atomic_store_explicit(&total->bytes, total->bytes + p->frame_len, memory_order_relaxed);
	if (!f) {
		c->counters[UNTRACKED]++;
		return SP_END;
	}
	tuple_of(p, &t);
	own = read_tuple(f);
	if (memcmp(&t, &own, sizeof(t))) {
		c->counters[COLLISIONS]++;
		return SP_DONE;
	}
	add(c, &f->packets, 1);
	add(c, &f->bytes, p->frame_len);
	/* Each worker reads the clock itself: the packet that opened the flow need not have the earliest time. */
	for (seen = f->last; seen < c->now && !atomic_compare_exchange_weak(&f->last, &seen, c->now);)
		;
	for (seen = f->first; seen > c->now && !atomic_compare_exchange_weak(&f->first, &seen, c->now);)
		;
	return SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end end)
{
	struct count *s = c->state;
	struct flow *f = ((struct message *)m->state)->flow;

	(void)end;
	if (!f)
		return;
	atomic_fetch_add(&f->serial, STATES - LIVE);
	atomic_fetch_sub(&s->live, 1);
	c->counters[FORGOTTEN]++;
}

/* ---- what the host asks for ---- */
static uint64_t sum(const struct sp_ctx *c, bool bytes)
{
	const struct count *s = c->state;
	uint64_t n = 0;

	for (unsigned i = 0; i < c->workers; i++)
		n += bytes ? s->total[i].bytes : s->total[i].packets;
	return n;
}

static int command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	const struct count *s = c->state;

	if (command->op != SP_CMD_QUERY)
		return -EOPNOTSUPP;
	switch (command->arg[0]) {
	case 0:
		result->arg[0] = s->live;
		return 0;
	case 1:
	case 2:
		result->arg[0] = sum(c, command->arg[0] == 2);
		return 0;
	}
	return -EINVAL;
}

/* Copies a flow. False: the record is not in use, or another flow got it meanwhile. */
static bool snapshot(struct flow *f, struct line *l)
{
	uint32_t serial = f->serial;

	if (serial % STATES != LIVE) /* most records: no need to look at the rest */
		return false;
	*l = (struct line){read_tuple(f), f->packets, f->bytes, f->first, f->last};
	/* A locked addition of 0: the loads above cannot move behind it. */
	return atomic_fetch_add(&f->serial, 0) == serial;
}

/* More packets come first. Flows with as many are in order of their addresses, so that equal runs give equal reports.
 */
static bool before(const struct line *a, const struct line *b)
{
	if (a->packets != b->packets)
		return a->packets > b->packets;
	return memcmp(&a->tuple, &b->tuple, sizeof(a->tuple)) < 0;
}

/* top is a heap, with the last line of the report at its root. Moves the line `at` to its place. */
static void sink(struct line *top, uint32_t n, uint32_t at)
{
	const struct line l = top[at];

	for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && before(&top[child], &top[child + 1]))
			child++;
		if (!before(&l, &top[child]))
			break;
		top[at] = top[child];
	}
	top[at] = l;
}

/* Sorts the flows with most packets into s->top. Returns how many. Packets wait meanwhile, so no insertion sort. */
static uint32_t sort(struct count *s)
{
	struct line l, *top = s->top;
	uint32_t n = 0;

	for (uint32_t i = 0; i <= s->mask; i++) {
		if (!snapshot(&s->flow[i], &l))
			continue;
		if (n < s->top_limit) {
			top[n++] = l;
			for (uint32_t k = n == s->top_limit ? n / 2 : 0; k-- > 0;)
				sink(top, n, k);
		} else if (before(&l, &top[0])) {
			top[0] = l;
			sink(top, n, 0);
		}
	}
	for (uint32_t k = n < s->top_limit ? n / 2 : 0; k-- > 0;)
		sink(top, n, k);
	for (uint32_t last = n; last-- > 1;) {
		l = top[last];
		top[last] = top[0];
		top[0] = l;
		sink(top, last, 0);
	}
	return n;
}

static void report_address(struct sp_report *r, const char *name, const struct tuple *t, const uint8_t *ip)
{
	char text[INET6_ADDRSTRLEN];

	if (t->ethertype == 0x0800 || t->ethertype == 0x86DD)
		sp_report_string(r, name,
				 inet_ntop(t->ethertype == 0x0800 ? AF_INET : AF_INET6, ip, text, sizeof(text)));
	else
		sp_report_string(r, name, NULL);
}

static void report(struct sp_ctx *c, struct sp_report *r)
{
	struct count *s = c->state;
	uint32_t n = sort(s);

	sp_report_open(r, "totals", false);
	sp_report_uint(r, "flows", s->live);
	sp_report_uint(r, "packets", sum(c, false));
	sp_report_uint(r, "bytes", sum(c, true));
	sp_report_close(r);
	sp_report_open(r, "flows", true);
	for (uint32_t i = 0; i < n; i++) {
		const struct line *f = &s->top[i];
		sp_report_open(r, NULL, false);
		sp_report_uint(r, "ethertype", f->tuple.ethertype);
		report_address(r, "source", &f->tuple, f->tuple.source);
		report_address(r, "destination", &f->tuple, f->tuple.destination);
		sp_report_uint(r, "protocol", f->tuple.protocol);
		sp_report_uint(r, "source_port", f->tuple.source_port);
		sp_report_uint(r, "destination_port", f->tuple.destination_port);
		sp_report_uint(r, "packets", f->packets);
		sp_report_uint(r, "bytes", f->bytes);
		sp_report_uint(r, "first_ns", f->first / SP_NS);
		sp_report_uint(r, "last_ns", f->last / SP_NS);
		sp_report_close(r);
	}
	sp_report_close(r);
}

static const struct sp_param params[] = {
	{"flows", SP_UINT, "65536", 1, 1000000, "flows at once; the packets of more than that are `untracked`"},
	{"idle", SP_TIME, "0s", 0, 0, "forget a flow after this time without a packet; 0: never"},
	{"report-flows", SP_UINT, "100", 1, 1000000, "flows that a report lists, those with most packets first"},
	{NULL},
};

static const struct sp_handler count = {
	SP_HANDLER_HEAD,
	.name = "count",
	.doc = "counts packets and bytes of every flow",
	.params = params,
	.counters = counters,
	.ctx_size = sizeof(struct count),
	.msg_size = sizeof(struct message),
	.messages = SP_MESSAGES_HASHED,
	.attach = attach,
	.classify = classify,
	.header = header,
	.payload = payload,
	.completion = completion,
	.command = command,
	.report = report,
};
SP_HANDLER(count)
