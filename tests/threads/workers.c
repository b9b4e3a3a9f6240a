/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several workers in threads of their own. The handlers here keep plain, unlocked fields wherever the pipeline promises
 * that nobody else is there: what it promises wrongly is a race for ThreadSanitizer, or a violation counted.
 */
#include <sched.h>
#include <time.h>

#include "../lib/probe.h"

#define WORKERS 3
#define KEYS	8
#define SPAN	400 /* ms that a test goes on for */

/* ---- ports that make packets, each queue for itself ---- */

struct source {
	uint64_t seed;
	uint64_t left;		 /* packets still to come; only the worker of this queue touches it */
	_Atomic uint64_t polled; /* receive() calls since they ran out */
	uint64_t made;
	uint32_t qp, qps;    /* to QPs qp ... qp + qps - 1 */
	unsigned end_one_in; /* of so many packets one ends its message */
	uint16_t udp_port;   /* every other packet goes there instead; 0: none */
	bool one_key, slots;
	bool after_header; /* begins once a header() has */
} __attribute__((aligned(64)));

static struct source source[DUT_QUEUES];
static _Atomic uint64_t violations, headers, completions, closings, packets_in;

/* Relaxed throughout: what these order would hide what the pipeline fails to. */
static uint64_t count(_Atomic uint64_t *counter)
{
	return atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}
static struct frame roce, udp;
static _Atomic bool hush; /* sources make nothing any more */

static unsigned make(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct source *s = &source[queue];
	unsigned n = 0;
	if (s->after_header && !atomic_load(&headers))
		return 0;
	if (!s->left || atomic_load_explicit(&hush, memory_order_relaxed)) {
		count(&s->polled);
		return 0;
	}
	max = 1 + dut_random(&s->seed) % max;
	for (; n < max && s->left; n++) {
		struct probe_words w = {.magic = PROBE_MAGIC, .miss = SP_DROP(0)};
		const bool as_udp = s->udp_port && dut_random(&s->seed) % 2;
		const struct frame *f = as_udp ? &udp : &roce;
		uint8_t *bytes;

		packet[n] = sp_packet_alloc();
		if (!packet[n])
			break;
		bytes = (uint8_t *)rte_pktmbuf_append(packet[n], (uint16_t)f->len);
		memcpy(bytes, f->bytes, f->len);
		w.key = s->one_key ? 1 : dut_random(&s->seed) % KEYS;
		if (s->slots)
			w.key |= (dut_random(&s->seed) % 4) << 32;
		w.serial = (uint32_t)s->made;
		w.verdict = s->end_one_in && dut_random(&s->seed) % s->end_one_in == 0 ? SP_END : SP_DONE;
		if (as_udp)
			bytes[f->l4 + 3] = (uint8_t)s->udp_port;
		else
			bytes[f->l4 + 8 + 7] = (uint8_t)(s->qp + dut_random(&s->seed) % s->qps);
		memcpy(bytes + f->data, &w, sizeof(w));
		s->left--;
		s->made++;
	}
	return n;
}

static unsigned swallow(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	rte_pktmbuf_free_bulk(packet, count);
	return count;
}

static sp_time whenever(void *port, uint16_t queue, bool blocked)
{
	return SP_NEVER;
}

static const struct sp_port_ops source_ops = {.receive = make, .transmit = swallow, .next = whenever};

/* ---- time ---- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* For SPAN ms, and on a busy machine longer, until enough has happened. */
static bool goes_on(uint64_t since, bool enough)
{
	uint64_t ms = now_ms() - since;

	return ms < SPAN || (!enough && ms < 20000);
}

static void nap(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* ---- the handler that keeps watch ---- */

static _Atomic bool gate_shut;	/* header() of key 1 waits until it opens */
static _Atomic uint32_t region; /* memory that payload() writes to, or 0 */

struct watch_message {
	_Atomic uint32_t phase; /* 0 new, 1 in header, 2 open, 3 completed */
	_Atomic int32_t inside;
	uint64_t key;		  /* plain: header() writes, the others read */
	uint64_t by[WORKERS + 1]; /* plain: each worker its own, completion() all */
};

struct watch {
	_Atomic bool gone; /* detach() was here */
	_Atomic uint64_t wanted;
	uint64_t issued; /* plain: the home worker's */
	struct sp_issue issue;
	struct sp_timer timer[WORKERS];
	struct sp_work work[WORKERS];
	_Atomic uint64_t timers, works, sent;
	uint64_t command;		 /* plain: the home worker's */
	struct sp_path *known, *unknown; /* the neighbour there */
};

static void must(bool ok)
{
	if (!ok)
		count(&violations);
}

static int watch_attach(struct sp_ctx *c)
{
	must(!atomic_load(&((struct watch *)c->state)->gone));
	return sp_view_of(c)->context->handler->messages ? sp_messages_limit(c, KEYS, 0) : 0;
}

static void watch_detach(struct sp_ctx *c)
{
	atomic_store(&((struct watch *)c->state)->gone, true);
}

static uint64_t watch_classify(struct sp_ctx *c, struct sp_packet *p)
{
	must(!atomic_load_explicit(&((struct watch *)c->state)->gone, memory_order_relaxed));
	return probe_words_of(p).key;
}

static uint32_t watch_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct watch_message *s = m->state;
	count(&headers);
	must(atomic_exchange_explicit(&s->phase, 1, memory_order_relaxed) == 0);
	for (unsigned i = 0; i < WORKERS; i++)
		must(s->by[i] == 0);
	s->key = m->key;
	must(m->key == p->key);
	/* Long enough for the others to come and wait. */
	for (unsigned i = 0; i < probe_words_of(p).serial % 4; i++)
		sched_yield();
	while (m->key == 1 && atomic_load(&gate_shut))
		if (atomic_load(&source[1].polled) > 2)
			atomic_store(&gate_shut, false);
		else
			nap(20);
	must(atomic_exchange_explicit(&s->phase, 2, memory_order_relaxed) == 1);
	return SP_DONE;
}

static uint32_t watch_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct watch_message *s = m->state;
	struct probe_words w = probe_words_of(p);
	uint32_t id = atomic_load_explicit(&region, memory_order_relaxed);

	count(&packets_in);
	must(atomic_load_explicit(&s->phase, memory_order_relaxed) == 2);
	atomic_fetch_add_explicit(&s->inside, 1, memory_order_relaxed);
	must(s->key == w.key && m->key == w.key);
	s->by[c->worker]++;
	if (id) {
		const struct sp_mem *mem = sp_mem_get(c, id);

		if (mem) {
			must(!sp_dma_write(c, mem, c->worker * 64, &w, sizeof(w)));
			sp_mem_put(c, mem);
		}
	}
	atomic_fetch_sub_explicit(&s->inside, 1, memory_order_relaxed);
	must(atomic_load_explicit(&s->phase, memory_order_relaxed) == 2);
	return w.verdict;
}

static void watch_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	struct watch_message *s = m->state;
	uint64_t sum = 0;

	if (!sp_view_of(c)->context->messages || atomic_load_explicit(&s->phase, memory_order_relaxed) == 0)
		return; /* SLOTS: closed before its first packet */
	count(&completions);
	if (why == SP_END_CLOSED)
		count(&closings);
	must(atomic_exchange_explicit(&s->phase, 3, memory_order_relaxed) == 2);
	must(atomic_load_explicit(&s->inside, memory_order_relaxed) == 0);
	must(s->key == m->key);
	for (unsigned i = 0; i < WORKERS; i++)
		sum += s->by[i];
	must(sum > 0);
}

static uint32_t watch_miss(struct sp_ctx *c, struct sp_packet *p)
{
	return probe_words_of(p).miss;
}

static int watch_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct watch *s = c->state;

	must(c->worker == c->home);
	if (cmd->op == PROBE_CMD_OPEN)
		return sp_message_open(c, cmd->arg[0]);
	if (cmd->op == PROBE_CMD_CLOSE)
		return sp_message_close(c, cmd->arg[0]);
	result->arg[0] = ++s->command;
	return 0;
}

#define WATCH(ident, text, kind)                                                                                       \
	static const struct sp_handler ident = {SP_HANDLER_HEAD,                                                       \
						.name = text,                                                          \
						.drops = probe_drops,                                                    \
						.ctx_size = sizeof(struct watch),                                      \
						.msg_size = sizeof(struct watch_message),                              \
						.messages = kind,                                                      \
						.attach = watch_attach,                                                \
						.detach = watch_detach,                                                \
						.classify = watch_classify,                                            \
						.miss = watch_miss,                                                    \
						.header = watch_header,                                                \
						.payload = watch_payload,                                              \
						.completion = watch_completion,                                        \
						.command = watch_command};                                             \
	SP_HANDLER(ident)
WATCH(watch_hashed, "watch-hashed", SP_MESSAGES_HASHED)
WATCH(watch_slots, "watch-slots", SP_MESSAGES_SLOTS)

/* ---- one without messages that starts things wherever it is ---- */

static int busy_attach(struct sp_ctx *c)
{
	static const uint8_t stranger[16] = DUT_IP4(192, 0, 2, 77);
	struct watch *s = c->state;
	int r = watch_attach(c);

	if (!r)
		r = sp_path_open(c, dut_peer4, false, &s->known);
	return r ? r : sp_path_open(c, stranger, false, &s->unknown);
}

static uint32_t busy_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct watch *s = c->state;
	struct sp_send send = {.dest_qp = 16, .psn = p->psn};
	count(&packets_in);
	if (atomic_load(&s->wanted) % 4 == 0 && !sp_send_roce(c, s->known, &send))
		count(&s->sent);
	sp_send_roce(c, s->unknown, &send); /* waits, and is refused once too many wait */
	must(!atomic_load_explicit(&s->gone, memory_order_relaxed));
	count(&s->wanted);
	sp_issue_start(c, &s->issue);
	if (!s->timer[c->worker].armed)
		must(!sp_timer_arm(c, &s->timer[c->worker], c->now + 20 * SP_US));
	sp_work_start(c, &s->work[c->worker]);
	return SP_DONE;
}

static int busy_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	struct watch *s = c->state;
	must(c->worker == c->home);
	must(!atomic_load(&s->gone));
	s->issued += atomic_exchange_explicit(&s->wanted, 0, memory_order_relaxed);
	return SP_ISSUE_WAIT;
}

static bool busy_work(struct sp_ctx *c, struct sp_work *w)
{
	struct watch *s = c->state;

	must(w == &s->work[c->worker]);
	must(!atomic_load(&s->gone));
	count(&s->works);
	return false;
}

static void busy_timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct watch *s = c->state;

	must(t == &s->timer[c->worker] && c->now >= t->at);
	must(!atomic_load(&s->gone));
	count(&s->timers);
}

static const struct sp_handler busy = {
	SP_HANDLER_HEAD,	 .name = "busy",	 .ctx_size = sizeof(struct watch),
	.attach = busy_attach,	 .detach = watch_detach, .payload = busy_payload,
	.issue = busy_issue,	 .work = busy_work,	 .timer = busy_timer,
	.command = watch_command};
SP_HANDLER(busy)

/* ---- one whose every call is on its home worker: nothing in it is locked or atomic, but what the test reads ---- */

struct homely {
	uint64_t packets, timers, issues, messages; /* plain */
	struct sp_issue issue;
	struct sp_timer timer;
};

static int homely_attach(struct sp_ctx *c)
{
	must(c->worker == c->home);
	return sp_messages_limit(c, KEYS, 0);
}

static uint64_t homely_classify(struct sp_ctx *c, struct sp_packet *p)
{
	struct homely *s = c->state;

	must(c->worker == c->home);
	s->packets++;
	return probe_words_of(p).key;
}

static uint32_t homely_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct homely *s = c->state;
	*(uint64_t *)m->state = ++s->messages;
	count(&headers);
	return SP_DONE;
}

static uint32_t homely_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct homely *s = c->state;

	must(*(uint64_t *)m->state && *(uint64_t *)m->state <= s->messages);
	count(&packets_in);
	sp_issue_start(c, &s->issue);
	if (!s->timer.armed)
		must(!sp_timer_arm(c, &s->timer, c->now + 20 * SP_US));
	return probe_words_of(p).verdict;
}

static void homely_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	must(c->worker == c->home && *(uint64_t *)m->state);
	count(&completions);
}

static int homely_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	struct homely *s = c->state;
	s->issues++;
	return SP_ISSUE_DONE;
}

static void homely_timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct homely *s = c->state;
	s->timers++;
}

static int homely_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	const struct homely *s = c->state;
	result->arg[0] = s->packets;
	return 0;
}

static const struct sp_handler homely = {SP_HANDLER_HEAD,
					 .name = "homely",
					 .drops = probe_drops,
					 .ctx_size = sizeof(struct homely),
					 .msg_size = sizeof(uint64_t),
					 .messages = SP_MESSAGES_HASHED,
					 .flags = SP_HANDLER_HOME,
					 .attach = homely_attach,
					 .classify = homely_classify,
					 .header = homely_header,
					 .payload = homely_payload,
					 .completion = homely_completion,
					 .issue = homely_issue,
					 .timer = homely_timer,
					 .command = homely_command};
SP_HANDLER(homely)

/* ---- helpers ---- */

static void start(uint16_t workers, uint64_t packets)
{
	struct probe_words w = {0};

	dut_roce(&roce, FRAME_IP4, 0, 0, &w, sizeof(w));
	dut_udp(&udp, 0, &w, sizeof(w));
	violations = headers = completions = closings = packets_in = 0;
	region = 0;
	gate_shut = hush = false;
	dut_prepare(&dut, workers);
	dut.config.port[0].ops = &source_ops;
	dut.config.icrc_off = true; /* the sources change bytes under it */
	dut.config.neighbours = 1;
	memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
	memcpy(dut.config.neighbour[0].mac, dut_peer_mac, 6);
	dut_create(&dut);
	for (unsigned i = 0; i < DUT_QUEUES; i++)
		source[i] = (struct source){
			.seed = i, .left = i < workers ? packets : 0, .qp = 16, .qps = 1, .end_one_in = 6};
}

/* Until the sources have run dry, or for so many milliseconds. */
static void run(unsigned ms)
{
	uint64_t until = now_ms() + ms;
	unsigned dry;

	do {
		nap(1000);
		dry = 0;
		for (uint16_t i = 0; i < dut.nic->workers; i++)
			dry += atomic_load(&source[i].polled) > 2;
	} while (dry < dut.nic->workers && now_ms() < until);
	atomic_store(&hush, true);
}

/* Stops the workers and lets what is parked come to its end. */
static struct sp_nic_totals stop(void)
{
	struct sp_nic_totals t;
	uint64_t made = 0;

	sp_nic_stop(dut.nic);
	atomic_store(&hush, true);
	dut_settle(&dut, sp_clock());
	sp_nic_totals(dut.nic, &t);
	for (unsigned i = 0; i < DUT_QUEUES; i++)
		made += source[i].made;
	CU_ASSERT_EQUAL(t.received, made);
	CU_ASSERT_EQUAL(t.taken + t.forwarded + t.dropped, t.received);
	CU_ASSERT_EQUAL(violations, 0);
	return t;
}

static void end(void)
{
	dut_stop(&dut);
	CU_ASSERT_EQUAL(violations, 0);
}

/* ---- order ---- */

TEST(header_payload_and_completion_keep_their_order_on_several_workers)
{
	for (uint16_t workers = 2; workers <= WORKERS; workers++) {
		uint64_t begin = now_ms(), seed = workers, closed = 0;
		struct sp_nic_totals t;
		uint32_t id;

		start(workers, UINT64_MAX);
		id = dut_context(&dut, "a", "watch-hashed", "qp=16");
		CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
		for (; goes_on(begin, closed > 10 && packets_in > 1000 && completions > 100);
		     nap(20)) /* the host ends some, also in their header */
			closed += !dut_call(&dut, id, PROBE_CMD_CLOSE, dut_random(&seed) % KEYS);
		t = stop();
		CU_ASSERT(closed > 10);
		CU_ASSERT_EQUAL(closings, closed); /* whoever was told so has had a completion for it */
		CU_ASSERT(t.taken > 1000);
		CU_ASSERT_EQUAL(t.taken, packets_in);
		CU_ASSERT(completions > 100);
		CU_ASSERT(headers - completions <= KEYS);
		CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "handler-error"), 0);
		printf("# %u workers: %llu packets, %llu messages, %llu without a place to wait\n", workers,
		       (unsigned long long)t.taken, (unsigned long long)headers,
		       (unsigned long long)sp_nic_dropped(dut.nic, "header-busy"));
		sp_nic_context_remove(dut.nic, id);
		CU_ASSERT_EQUAL(headers, completions);
		end();
	}
}

TEST(slots_keep_it_too_while_the_host_opens_and_closes_them)
{
	uint64_t begin = now_ms(), seed = 9, opened = 0;
	struct sp_nic_totals t;
	uint32_t id;

	start(2, UINT64_MAX);
	source[0].slots = source[1].slots = true;
	id = dut_context(&dut, "a", "watch-slots", "qp=16");
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	while (goes_on(begin, opened > 50 && packets_in > 100 && completions > 20)) {
		uint64_t key = dut_random(&seed) % KEYS | (dut_random(&seed) % 4) << 32;

		opened += !dut_call(&dut, id, PROBE_CMD_OPEN, key);
		if (dut_random(&seed) % 2)
			dut_call(&dut, id, PROBE_CMD_CLOSE, key);
	}
	t = stop();
	CU_ASSERT(t.taken > 100);
	CU_ASSERT(opened > 50);
	CU_ASSERT(completions > 20);
	CU_ASSERT(sp_nic_dropped(dut.nic, "probe-zero") > 0); /* missed */
	sp_nic_context_remove(dut.nic, id);
	CU_ASSERT_EQUAL(headers, completions);
	end();
}

TEST(who_finds_no_place_to_wait_for_a_header_is_dropped_as_header_busy)
{
	enum { MANY = 500 };
	struct sp_nic_totals t;

	start(2, MANY);
	source[0].left = 1;
	source[1].after_header = true;
	source[0].one_key = source[1].one_key = true;
	source[0].end_one_in = source[1].end_one_in = 0;
	dut_context(&dut, "a", "watch-hashed", "qp=16");
	atomic_store(&gate_shut, true); /* worker 0 stays in header() until worker 1 has looked at all of its packets */
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	run(20000);
	t = stop();
	CU_ASSERT_EQUAL(t.received, MANY + 1);
	CU_ASSERT_EQUAL(headers, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "header-busy"), MANY - SP_PARKED);
	CU_ASSERT_EQUAL(packets_in, SP_PARKED + 1);
	end();
}

/* ---- control calls while they run ---- */

TEST(contexts_come_and_go_under_traffic)
{
	static const char *const handler[] = {"watch-hashed", "busy"};
	uint64_t begin = now_ms() + SPAN, rounds = 0;
	uint32_t id[3] = {0}, one = 0, two = 0;
	struct sp_nic_totals t;

	start(2, UINT64_MAX);
	for (unsigned i = 0; i < 2; i++) {
		source[i].qps = 3;
		source[i].udp_port = 9;
	}
	/* Of the filters there is always one for port 9 behind one that goes. */
	one = dut_context(&dut, "one", "busy", "filter=udp port 9");
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	for (; now_ms() < begin || goes_on(begin, rounds > 20 && packets_in > 1000); rounds++) {
		unsigned k = rounds % 3;
		char settings[64], name[8];

		if (id[k])
			CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id[k]), 0);
		snprintf(name, sizeof(name), "c%u", k);
		snprintf(settings, sizeof(settings), "qp=%u;filter=udp port %u", 16 + k, 100 + k);
		id[k] = dut_context(&dut, name, handler[rounds / 3 % 2], settings);
		if (rounds % 4 == 1) {
			two = dut_context(&dut, "two", "busy", "filter=udp port 9");
			sp_nic_context_remove(dut.nic, one);
		} else if (rounds % 4 == 3) {
			one = dut_context(&dut, "one", "busy", "filter=udp port 9");
			sp_nic_context_remove(dut.nic, two);
		}
	}
	t = stop();
	CU_ASSERT(rounds > 20);
	CU_ASSERT(t.taken > 1000);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "no-match"), 0); /* port 9 was somebody's at any time */
	printf("# %llu rounds, %llu packets taken, %llu without a QP\n", (unsigned long long)rounds,
	       (unsigned long long)t.taken, (unsigned long long)sp_nic_dropped(dut.nic, "bad-qp"));
	end();
	CU_ASSERT_EQUAL(headers, completions);
}

TEST(commands_and_events_lose_nothing_while_workers_run)
{
	enum { MOST = 20000 };
	uint64_t posted[2] = {0}, answered[2] = {0}, begin = now_ms(), calls = 0;
	struct sp_event e;
	uint32_t id[2];

	start(2, UINT64_MAX);
	id[0] = dut_context(&dut, "a", "watch-hashed", "qp=16");
	id[1] = dut_context(&dut, "b", "busy", "qp=17");
	CU_ASSERT_NOT_EQUAL(sp_context_by_id(dut.nic, id[0])->home, sp_context_by_id(dut.nic, id[1])->home);
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	for (bool more = true; more || answered[0] < posted[0] || answered[1] < posted[1];) {
		more = posted[0] < MOST && goes_on(begin, posted[0] > 100 && posted[1] > 100 && calls);
		if (now_ms() > begin + 30000)
			break;
		for (unsigned k = 0; k < 2; k++) {
			struct sp_command cmd = {
				.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY, .context = id[k], .cookie = posted[k]};

			/* Never more on the way than the queue of events holds. */
			if (more && posted[k] - answered[k] < SP_EVENTS && !sp_command_post(dut.dev, &cmd))
				posted[k]++;
			while (sp_event_take(dut.dev, id[k], &e) == 1) {
				must(e.cookie == answered[k] && e.status == 0);
				/* Counted by a plain field of the handler: one more for each command and call before.
				 */
				must(e.arg[0] >= answered[k] + 1);
				answered[k]++;
			}
			if (posted[k] % 100 == 99) {
				cmd.cookie = 12345678;
				must(!sp_command_call(dut.dev, &cmd, &e));
				must(e.cookie == 12345678 && e.arg[0] >= posted[k]);
				calls++;
			}
		}
	}
	stop();
	for (unsigned k = 0; k < 2; k++) {
		CU_ASSERT(posted[k] > 100);
		CU_ASSERT_EQUAL(answered[k], posted[k]);
		CU_ASSERT_EQUAL(dut_view(&dut, id[k], events_lost), 0);
	}
	CU_ASSERT(calls > 0);
	end();
}

TEST(starts_from_every_worker_reach_the_home_worker)
{
	uint64_t begin = now_ms();
	struct sp_nic_totals t;
	struct watch *s;
	uint32_t id;

	start(WORKERS, UINT64_MAX);
	id = dut_context(&dut, "a", "busy", "qp=16");
	s = sp_context_by_id(dut.nic, id)->state;
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	while (goes_on(begin, packets_in > 1000 && s->sent > 0))
		nap(1000);
	atomic_store(&hush, true);
	nap(50000);
	t = stop();
	CU_ASSERT(t.taken > 1000);
	CU_ASSERT_EQUAL(s->wanted, 0);
	CU_ASSERT_EQUAL(s->issued, t.taken);
	CU_ASSERT(s->timers > 0);
	CU_ASSERT(s->works > 0);
	CU_ASSERT(s->sent > 0);
	CU_ASSERT(t.sent >= s->sent);
	end();
}

TEST(memory_is_not_let_go_while_a_worker_writes_to_it)
{
	uint64_t begin = now_ms(), rounds = 0, waited = 0;

	start(2, UINT64_MAX);
	dut_context(&dut, "a", "watch-hashed", "qp=16");
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	for (; goes_on(begin, rounds > 100); rounds++) {
		void *memory = calloc(1, 64 * WORKERS); /* freed below: who writes later is caught */
		struct sp_mr *mr;
		int r;

		CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, memory, 64 * WORKERS, &mr), 0);
		atomic_store(&region, mr->id); /* stays there when it has gone: an old id */
		if (rounds % 16 == 0)
			nap(100);
		while ((r = sp_mr_free(mr)) == -EBUSY)
			waited++;
		must(r == 0);
		free(memory);
	}
	stop();
	CU_ASSERT(rounds > 100);
	printf("# %llu regions, busy %llu times\n", (unsigned long long)rounds, (unsigned long long)waited);
	end();
}

/* Three such contexts, of each worker one, that come and go while packets for them are handed over. */
TEST(all_calls_of_a_home_only_context_are_on_its_home_worker)
{
	const uint64_t begin = now_ms();
	struct sp_nic_totals t;
	uint32_t id[WORKERS], rounds = 0;

	start(WORKERS, UINT64_MAX);
	for (unsigned i = 0; i < WORKERS; i++) {
		char qp[8];

		source[i].qps = WORKERS;
		snprintf(qp, sizeof(qp), "qp=%u", 16 + i);
		id[i] = dut_context(&dut, (const char *[]){"a", "b", "c"}[i], "homely", qp);
	}
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	for (; goes_on(begin, rounds > 20 && packets_in > 1000); nap(2000), rounds++) {
		sp_nic_context_remove(dut.nic, id[1]);
		id[1] = dut_context(&dut, "b", "homely", "qp=17");
		dut_call(&dut, id[rounds % WORKERS], PROBE_CMD_OPEN, 0);
	}
	t = stop();
	CU_ASSERT_EQUAL(t.taken, packets_in);
	CU_ASSERT(packets_in > 1000);
	CU_ASSERT_EQUAL(t.dropped, sp_nic_dropped(dut.nic, "handover-full") + sp_nic_dropped(dut.nic, "bad-qp"));
	for (unsigned i = 0; i < WORKERS; i++)
		sp_nic_context_remove(dut.nic, id[i]);
	CU_ASSERT_EQUAL(headers, completions);
	end();
}

TEST(workers_stop_and_start_again)
{
	start(2, UINT64_MAX);
	dut_context(&dut, "a", "watch-hashed", "qp=16");
	for (unsigned i = 0; i < 20; i++) {
		struct sp_nic_totals t;

		CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
		CU_ASSERT_EQUAL(sp_nic_start(dut.nic), -EALREADY);
		nap(3000);
		for (uint64_t begin = now_ms(), before = packets_in; packets_in == before && now_ms() < begin + 5000;)
			nap(100);
		t = stop();
		sp_nic_stop(dut.nic); /* twice is once */
		CU_ASSERT(t.taken > i);
		atomic_store(&hush, false);
	}
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(dut.nic), 0);
	nap(1000);
	end(); /* destroying it stops them */
}
