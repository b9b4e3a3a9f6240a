/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC on the bench: a port whose packets the test makes and whose output it keeps, time that the test turns, and a
 * handler (the probe) that does what the packets say and writes down every call.
 */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H

#include <zlib.h>

#include "../../pipeline/context.h"
#include "../../pipeline/registry.h"
#include "../../pipeline/worker.h"
#include <rte_mempool.h>

#include "frame.h"
#include "../lib/suite.h"

#define RIG_QUEUES 4
#define RIG_US	   SP_US

/* ---- a port ---- */

struct rig_arrival {
	struct rte_mbuf *packet;
	sp_time at;
};

struct rig_sent {
	sp_time at;
	uint16_t queue;
	uint32_t len;
	uint8_t bytes[2048];
};

struct rig_port {
	struct {
		struct rig_arrival *arrival;
		unsigned head, tail, room;
	} rx[RIG_QUEUES];
	struct rig_sent *sent;
	unsigned sents, sent_room, fed;
	sp_time gap;	   /* a packet keeps the wire busy for so long; 0: takes everything at once */
	sp_time busy;	   /* until then */
	bool closed;	   /* takes nothing, and does not say when it will */
	bool forget;	   /* does not keep what is sent */
	uint64_t received; /* handed to the NIC */
};

static inline void rig_need(void **array, unsigned *room, unsigned count, size_t size)
{
	if (count < *room)
		return;
	*room = *room ? *room * 2 : 64;
	*array = realloc(*array, *room * size);
	if (!*array)
		abort();
}

static inline unsigned rig_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct rig_port *p = arg;
	unsigned n = 0;

	while (n < max && p->rx[queue].head < p->rx[queue].tail && p->rx[queue].arrival[p->rx[queue].head].at <= now)
		packet[n++] = p->rx[queue].arrival[p->rx[queue].head++].packet;
	p->received += n;
	return n;
}

static inline unsigned rig_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct rig_port *p = arg;
	unsigned n;

	for (n = 0; n < count && !p->closed && now >= p->busy; n++) {
		if (p->gap)
			p->busy = now + p->gap;
		if (!p->forget) {
			struct rig_sent *s;

			rig_need((void **)&p->sent, &p->sent_room, p->sents, sizeof(*s));
			s = &p->sent[p->sents++];
			s->at = now;
			s->queue = queue;
			s->len = packet[n]->pkt_len;
			memcpy(s->bytes, rte_pktmbuf_mtod(packet[n], void *), s->len < 2048 ? s->len : 2048);
		}
		rte_pktmbuf_free(packet[n]);
	}
	return n;
}

static inline sp_time rig_next(void *arg, uint16_t queue, bool blocked)
{
	struct rig_port *p = arg;
	sp_time next = blocked && !p->closed ? p->busy : SP_NEVER;

	if (p->rx[queue].head < p->rx[queue].tail && p->rx[queue].arrival[p->rx[queue].head].at < next)
		next = p->rx[queue].arrival[p->rx[queue].head].at;
	return next;
}

static const struct sp_port_ops rig_ops = {.receive = rig_receive, .transmit = rig_transmit, .next = rig_next};

static inline void rig_port_free(struct rig_port *p)
{
	for (unsigned q = 0; q < RIG_QUEUES; q++) {
		while (p->rx[q].head < p->rx[q].tail)
			rte_pktmbuf_free(p->rx[q].arrival[p->rx[q].head++].packet);
		free(p->rx[q].arrival);
	}
	free(p->sent);
	memset(p, 0, sizeof(*p));
}

/* Arrivals of a queue are fed in the order of their times. */
static inline void rig_feed_bytes(struct rig_port *p, uint16_t queue, sp_time at, const void *bytes, uint32_t len)
{
	struct rte_mbuf *m = sp_packet_alloc();
	struct rig_arrival *a;

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), bytes, len);
	rig_need((void **)&p->rx[queue].arrival, &p->rx[queue].room, p->rx[queue].tail, sizeof(*a));
	a = &p->rx[queue].arrival[p->rx[queue].tail++];
	a->packet = m;
	a->at = at;
	p->fed++;
}

/* ---- a NIC ---- */

#define RIG_IP4(a, b, c, d)                                                                                            \
	{                                                                                                              \
		[10] = 0xFF, [11] = 0xFF, a, b, c, d                                                                   \
	}
#define RIG_IP6(last)                                                                                                  \
	{                                                                                                              \
		0x20, 0x01, 0x0D, 0xB8, [15] = (last)                                                                  \
	}
static const uint8_t rig_mac[6] = {2, 0, 0, 0, 0, 1}, rig_peer_mac[6] = {2, 0, 0, 0, 0, 2};
static const uint8_t rig_own4[16] = RIG_IP4(192, 0, 2, 2), rig_peer4[16] = RIG_IP4(192, 0, 2, 1);
static const uint8_t rig_own6[16] = RIG_IP6(2), rig_peer6[16] = RIG_IP6(1);

struct rig {
	struct sp_nic_config config;
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct rig_port port, exception;
	unsigned in_use; /* packet buffers at the start */
};

/* The NIC that the frames of frame.h are for. Between the two calls a test may change r->config. */
static inline void rig_prepare(struct rig *r, uint16_t workers)
{
	struct sp_error error = {0};
#ifdef RIG_EAL /* a test that needs devices names them, as EAL arguments */
	static char *args[] = {RIG_EAL, NULL};
	const int count = sizeof(args) / sizeof(*args) - 1;
#else
	char **args = NULL;
	const int count = 0;
#endif

	memset(r, 0, sizeof(*r));
	CU_ASSERT_EQUAL_FATAL(sp_eal_init(count, args, &error), 0);
	r->in_use = rte_mempool_in_use_count(sp_registry_pool());
	r->config.workers = workers;
	memcpy(r->config.mac, rig_mac, 6);
	memcpy(r->config.address[0].ip, rig_own4, 16);
	r->config.address[0].prefix = 24;
	memcpy(r->config.address[1].ip, rig_own6, 16);
	r->config.address[1].prefix = 64;
	r->config.addresses = 2;
	r->config.ports = 1;
	r->config.port[0].ops = &rig_ops;
	r->config.port[0].ops_arg = &r->port;
}

static inline void rig_create(struct rig *r)
{
	struct sp_error error = {0};

	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&r->config, &error, &r->nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(r->nic, true, &r->dev), 0);
}

static inline void rig_with_exception(struct rig *r)
{
	r->config.exception.ops = &rig_ops;
	r->config.exception.ops_arg = &r->exception;
}

static inline void rig_start(struct rig *r, uint16_t workers)
{
	rig_prepare(r, workers);
	rig_create(r);
}

/* Also: no packet buffer has been lost on the way. */
static inline void rig_stop(struct rig *r)
{
	sp_dev_close(r->dev);
	sp_nic_destroy(r->nic);
	rig_port_free(&r->port);
	rig_port_free(&r->exception);
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_registry_pool()), r->in_use);
}

/* settings: "qp=5;filter=udp port 7" */
static inline int rig_try_context(struct rig *r, const char *name, const char *handler, const char *settings,
				  uint32_t *id, struct sp_error *error)
{
	char text[1024], *at = text, *one;
	struct sp_setting setting[32];
	struct sp_context_config c = {.name = name, .handler = handler, .setting = setting};

	snprintf(text, sizeof(text), "%s", settings);
	while ((one = strsep(&at, ";")) && *one) {
		setting[c.settings].key = strsep(&one, "=");
		setting[c.settings++].value = one;
	}
	return sp_nic_context_add(r->nic, &c, id, error);
}

static inline uint32_t rig_context(struct rig *r, const char *name, const char *handler, const char *settings)
{
	struct sp_error error = {0};
	uint32_t id = 0;
	int rc = rig_try_context(r, name, handler, settings, &id, &error);

	if (rc)
		printf("# context %s: %d %s: %s\n", name, rc, error.key, error.text);
	CU_ASSERT_EQUAL_FATAL(rc, 0);
	return id;
}

static inline unsigned rig_poll(struct rig *r, sp_time now)
{
	unsigned done = 0;

	for (uint16_t w = 0; w < sp_nic_workers(r->nic); w++)
		done += sp_nic_poll(r->nic, w, now);
	return done;
}

/* All that can happen at one time. */
static inline void rig_settle(struct rig *r, sp_time now)
{
	unsigned rounds = 0;

	while (rig_poll(r, now) && ++rounds < 100000)
		;
	CU_ASSERT(rounds < 100000);
}

static inline sp_time rig_deadline(struct rig *r)
{
	sp_time next = SP_NEVER;

	for (uint16_t w = 0; w < sp_nic_workers(r->nic); w++)
		next = RTE_MIN(next, sp_nic_next_deadline(r->nic, w));
	return next;
}

/* Virtual time from `now` to `until`: polls when the NIC says so and never else. Fails when time stands still. Returns
 * the time reached. */
static inline sp_time rig_run(struct rig *r, sp_time now, sp_time until)
{
	unsigned still = 0;

	for (;;) {
		sp_time next;

		for (uint16_t w = 0; w < sp_nic_workers(r->nic); w++)
			if (sp_nic_next_deadline(r->nic, w) <= now)
				sp_nic_poll(r->nic, w, now);
		next = rig_deadline(r);
		if (next > now)
			still = 0;
		else if (++still == 100000) {
			CU_FAIL("time stands still");
			return now;
		}
		if (next > until)
			return now;
		now = RTE_MAX(now, next);
	}
}

static inline uint64_t rig_counter(struct rig *r, uint32_t id, const char *name)
{
	return sp_nic_context_counter(r->nic, id, name);
}

/* A field of struct sp_view, summed over the workers. */
#define rig_view(r, id, field) sp_context_sum(sp_context_by_id((r)->nic, (id)), offsetof(struct sp_view, field))

/* Every packet received has ended in exactly one place. */
static inline void rig_check_totals(struct rig *r)
{
	struct sp_nic_totals t;

	sp_nic_totals(r->nic, &t);
	CU_ASSERT_EQUAL(t.received, r->port.received);
	CU_ASSERT_EQUAL(t.taken + t.forwarded + t.dropped, t.received);
}

/* ---- frames ---- */

/* Annex A17.3.3 with zlib: eight bytes of ones, then the packet with ones where routers may write. */
static inline uint32_t rig_icrc(const uint8_t *l3, uint32_t len)
{
	uint8_t copy[2048 + 8];
	uint8_t *p = copy + 8, *udp;

	memset(copy, 0xFF, 8);
	memcpy(p, l3, len);
	if (p[0] >> 4 == 4) {
		p[1] = p[8] = p[10] = p[11] = 0xFF;
		udp = p + 4 * (p[0] & 15);
	} else {
		p[0] |= 0x0F;
		p[1] = p[2] = p[3] = p[7] = 0xFF;
		udp = p + 40;
	}
	udp[6] = udp[7] = 0xFF;
	udp[8 + 4] = 0xFF;
	return (uint32_t)crc32(0, copy, 8 + len);
}

static inline void rig_seal(struct frame *f)
{
	uint32_t crc = rig_icrc(f->bytes + f->l3, f->len - 4 - f->l3);

	for (unsigned i = 0; i < 4; i++)
		f->bytes[f->len - 4 + i] = (uint8_t)(crc >> 8 * i);
}

static inline void rig_roce(struct frame *f, enum frame_ip ip, uint32_t qp, uint32_t psn, const void *payload,
			    uint32_t len)
{
	struct frame_shape shape = {.ip = ip, .roce = true, .payload = len, .pad = -len & 3};

	frame_build(f, &shape);
	for (unsigned i = 0; i < 3; i++) {
		f->bytes[f->l4 + 8 + 5 + i] = (uint8_t)(qp >> (16 - 8 * i));
		f->bytes[f->l4 + 8 + 9 + i] = (uint8_t)(psn >> (16 - 8 * i));
	}
	if (payload)
		memcpy(f->bytes + f->data, payload, len);
	rig_seal(f);
}

static inline void rig_udp(struct frame *f, uint16_t to_port, const void *payload, uint32_t len)
{
	struct frame_shape shape = {.ip = FRAME_IP4, .payload = len};

	frame_build(f, &shape);
	frame_put16(f, f->l4 + 2, to_port);
	if (payload)
		memcpy(f->bytes + f->data, payload, len);
}

static inline void rig_feed(struct rig *r, const struct frame *f)
{
	rig_feed_bytes(&r->port, 0, 0, f->bytes, f->len);
}

/* ---- the probe ---- */

/* What a packet for a probe says: its message, and what the handler shall answer. */
struct rig_words {
	uint32_t magic;	 /* anything else is a packet of no message */
	uint32_t serial; /* tells packets apart */
	uint64_t key;
	uint32_t header, verdict, miss;
	uint32_t action; /* RIG_* */
};
#define RIG_MAGIC 0x70726F62u
enum {
	RIG_SEND = 1,	     /* payload() sends the packet */
	RIG_KEEP = 2,	     /* payload() keeps it */
	RIG_CLOSE = 4,	     /* payload() closes the message */
	RIG_CLOSE_EARLY = 8, /* header() does */
	RIG_CLOSE_MISS = 16, /* miss() closes key ^ 1 << 32 (the other tag) */
};
/* Commands: arg[0] is the key. */
enum { RIG_CMD_OPEN = SP_CMD_OWN, RIG_CMD_CLOSE, RIG_CMD_FAIL, RIG_CMD_EVENT };

struct rig_call {
	char what; /* h p b c m a d: header, payload, burst, completion, miss, attach, detach */
	uint8_t worker, companion;
	bool dirty;	 /* header(): state was not zero; completion(): it was not what header() left */
	uint32_t serial; /* of the packet; completion: enum sp_end */
	uint32_t n;	 /* burst */
	uint32_t context;
	uint64_t key;
	sp_time now, first, last;
};
static struct {
	struct rig_call *call;
	unsigned n, room;
	bool off;
	bool reopen; /* completion() tries to open the message again, with the next tag */
	int reopened;
	void (*in_header)(void); /* header() calls it, once */
	void *kept[64];
	unsigned keeps;
} rig_log;

static inline void rig_log_clear(void)
{
	free(rig_log.call);
	memset(&rig_log, 0, sizeof(rig_log));
}

static inline struct rig_call *rig_note(char what, struct sp_ctx *c, uint64_t key, uint32_t serial)
{
	static struct rig_call nowhere;
	struct sp_ctx *first;
	struct rig_call *call = &nowhere;

	if (!rig_log.off) {
		rig_need((void **)&rig_log.call, &rig_log.room, rig_log.n, sizeof(*call));
		call = &rig_log.call[rig_log.n++];
	}
	*call = (struct rig_call){
		.what = what, .worker = (uint8_t)c->worker, .key = key, .serial = serial, .now = c->now};
	call->companion = sp_first(c, &first) != NULL || sp_view_of(c)->context->first;
	call->context = sp_view_of(c)->context->id;
	return call;
}

static inline struct rig_words rig_words_of(const struct sp_packet *p)
{
	struct rig_words w = {0};

	if (p->len >= sizeof(w))
		memcpy(&w, p->data, sizeof(w));
	return w.magic == RIG_MAGIC ? w : (struct rig_words){.key = SP_NO_MESSAGE};
}

#define RIG_STATE 40

static inline int rig_attach(struct sp_ctx *c)
{
	rig_note('a', c, 0, 0);
	return sp_messages_limit(c, (uint32_t)sp_param_uint(c, "messages"), sp_param_uint(c, "idle"));
}

static inline int rig_attach_none(struct sp_ctx *c)
{
	rig_note('a', c, 0, 0);
	return 0;
}

static inline void rig_detach(struct sp_ctx *c)
{
	rig_note('d', c, 0, 0);
}

static inline uint64_t rig_classify(struct sp_ctx *c, struct sp_packet *p)
{
	return rig_words_of(p).key;
}

static inline uint32_t rig_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct rig_words w = rig_words_of(p);
	struct rig_call *call = rig_note('h', c, m->key, w.serial);

	for (unsigned i = 0; i < RIG_STATE; i++)
		call->dirty |= ((uint8_t *)m->state)[i] != 0;
	memset(m->state, 0xA5, RIG_STATE);
	if (rig_log.in_header) {
		void (*fn)(void) = rig_log.in_header;

		rig_log.in_header = NULL;
		fn();
	}
	if (w.action & RIG_CLOSE_EARLY)
		sp_message_close(c, m->key);
	return w.header;
}

static inline uint32_t rig_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct rig_words w = rig_words_of(p);
	struct rig_call *call = rig_note('p', c, m ? m->key : SP_NO_MESSAGE, w.serial);

	if (m) {
		call->first = m->first;
		call->last = m->last;
	}
	if (w.action & RIG_SEND)
		sp_packet_send(c, p);
	if (w.action & RIG_KEEP && !sp_packet_keep(c, p))
		rig_log.kept[rig_log.keeps++] = p->buf;
	if (m && w.action & RIG_CLOSE)
		sp_message_close(c, m->key);
	return w.verdict;
}

static inline uint32_t rig_burst(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	uint32_t all = 0;

	rig_note('b', c, m ? m->key : SP_NO_MESSAGE, 0)->n = n;
	for (unsigned i = 0; i < n; i++)
		all |= p[i]->verdict = rig_payload(c, m, p[i]);
	return all;
}

static inline uint32_t rig_miss(struct sp_ctx *c, struct sp_packet *p)
{
	struct rig_words w = rig_words_of(p);

	rig_note('m', c, p->key, w.serial);
	if (w.action & RIG_CLOSE_MISS)
		sp_message_close(c, p->key ^ 1ull << 32);
	if (w.miss == SP_AGAIN)
		sp_message_open(c, p->key);
	return w.miss;
}

static inline void rig_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	struct rig_call *call = rig_note('c', c, m->key, why);

	call->first = m->first;
	call->last = m->last;
	for (unsigned i = 0; i < RIG_STATE; i++)
		call->dirty |= ((uint8_t *)m->state)[i] != 0xA5;
	if (rig_log.reopen)
		rig_log.reopened = sp_message_open(c, m->key + (1ull << 32));
}

static inline int rig_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	switch (cmd->op) {
	case RIG_CMD_OPEN:
		return sp_message_open(c, cmd->arg[0]);
	case RIG_CMD_CLOSE:
		return sp_message_close(c, cmd->arg[0]);
	case RIG_CMD_EVENT:
		return sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = cmd->arg[0]});
	case RIG_CMD_FAIL:
		result->arg[0] = cmd->arg[0] + 1;
		return -(int)cmd->arg[0];
	}
	return -EOPNOTSUPP;
}

static const struct sp_param rig_params[] = {
	{"messages", SP_UINT, "64", 1, 1 << 20, "messages at once"},
	{"idle", SP_TIME, "0ps", .help = "idle timeout"},
	{NULL},
};
static const char *const rig_drops[] = {"probe-zero", "probe-one", NULL};

/* RIG_PROBE(name, kind, burst): a handler of that name. */
#define RIG_PROBE(ident, text, kind, miss_fn, burst_fn)                                                                \
	static const struct sp_handler ident = {SP_HANDLER_HEAD,                                                       \
						.name = text,                                                          \
						.doc = "writes down what it is asked",                                 \
						.params = rig_params,                                                  \
						.drops = rig_drops,                                                    \
						.msg_size = RIG_STATE,                                                 \
						.messages = kind,                                                      \
						.attach = rig_attach,                                                  \
						.detach = rig_detach,                                                  \
						.classify = rig_classify,                                              \
						.miss = miss_fn,                                                       \
						.header = rig_header,                                                  \
						.payload = rig_payload,                                                \
						.payload_burst = burst_fn,                                             \
						.completion = rig_completion,                                          \
						.command = rig_command};                                               \
	SP_HANDLER(ident)

static inline void rig_say(struct rig *r, uint32_t qp, struct rig_words *w)
{
	struct frame f;

	w->magic = RIG_MAGIC;
	rig_roce(&f, FRAME_IP4, qp, 0, w, sizeof(*w));
	rig_feed(r, &f);
}

/* The log as letters; only calls of that key unless it is SP_NO_MESSAGE. */
static inline const char *rig_letters(uint64_t key)
{
	static char text[4096];
	unsigned n = 0;

	for (unsigned i = 0; i < rig_log.n && n + 1 < sizeof(text); i++)
		if (key == SP_NO_MESSAGE || (rig_log.call[i].key == key && strchr("hpcm", rig_log.call[i].what)))
			text[n++] = rig_log.call[i].what;
	text[n] = '\0';
	return text;
}

static inline int rig_call_order(const void *a, const void *b)
{
	const struct rig_call *x = *(struct rig_call *const *)a, *y = *(struct rig_call *const *)b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Per key the calls are h p* c, as often as you like; returns the number of messages, or 0 after a failure. */
static inline unsigned rig_check_order(bool all_ended)
{
	struct rig_call **by_key = calloc(rig_log.n + 1, sizeof(*by_key));
	unsigned messages = 0, n = 0, bad = 0;
	bool open = false;

	for (unsigned i = 0; i < rig_log.n; i++)
		if (strchr("hpc", rig_log.call[i].what) && rig_log.call[i].key != SP_NO_MESSAGE)
			by_key[n++] = &rig_log.call[i];
	qsort(by_key, n, sizeof(*by_key), rig_call_order);
	for (unsigned i = 0; i < n; i++) {
		if (i && by_key[i]->key != by_key[i - 1]->key) {
			bad += open && all_ended;
			open = false;
		}
		bad += by_key[i]->dirty;
		bad += open == (by_key[i]->what == 'h');
		if (by_key[i]->what == 'h')
			messages++;
		open = by_key[i]->what != 'c';
	}
	bad += open && all_ended;
	free(by_key);
	CU_ASSERT_EQUAL(bad, 0);
	return bad ? 0 : messages;
}

static inline int rig_call(struct rig *r, uint32_t id, uint16_t op, uint64_t arg)
{
	struct sp_command cmd = {.op = op, .context = id, .arg = {arg}};

	return sp_command_call(r->dev, &cmd, NULL);
}

/* A generator of the tests' own, so that a seed means the same everywhere. */
static inline uint64_t rig_random(uint64_t *state)
{
	uint64_t x = *state += 0x9E3779B97F4A7C15ull;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

#endif
