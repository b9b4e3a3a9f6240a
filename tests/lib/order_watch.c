/* SPDX-License-Identifier: BSD-3-Clause */
#include "order_watch.h"
#include "ports.h"

struct source watch_source[DUT_QUEUES];

_Atomic uint64_t watch_violations, watch_headers, watch_completions, watch_closings, watch_packets_in;

/* Relaxed throughout: what these order would hide what the pipeline fails to. */
static uint64_t count(_Atomic uint64_t *counter)
{
	return atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

struct frame watch_roce, watch_udp;

_Atomic bool watch_hush; /* sources make nothing any more */

static unsigned make(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct source *s = &watch_source[queue];
	unsigned n = 0;
	if (s->after_header && !atomic_load(&watch_headers))
		return 0;
	if (!s->left || atomic_load_explicit(&watch_hush, memory_order_relaxed)) {
		count(&s->polled);
		return 0;
	}
	max = 1 + dut_random(&s->seed) % max;
	for (; n < max && s->left; n++) {
		struct probe_words w = {.magic = PROBE_MAGIC, .miss = SP_DROP(0)};
		const bool as_udp = s->udp_port && dut_random(&s->seed) % 2;
		const struct frame *f = as_udp ? &watch_udp : &watch_roce;

		packet[n] = sp_packet_alloc();
		if (!packet[n])
			break;
		uint8_t *bytes = (uint8_t *)rte_pktmbuf_append(packet[n], (uint16_t)f->len);
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

const struct sp_port_ops watch_source_ops = {.receive = make, .transmit = port_swallow, .next = port_never};

uint64_t watch_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool watch_goes_on(uint64_t since, bool enough)
{
	uint64_t ms = watch_now_ms() - since;

	return ms < SPAN || (!enough && ms < 60000); /* the limit is for what never comes */
}

void watch_nap(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

_Atomic bool watch_gate_shut; /* header() of key 1 waits until it opens */

_Atomic uint32_t watch_region; /* memory that payload() writes to, or 0 */

void watch_must(bool ok)
{
	if (!ok)
		count(&watch_violations);
}

static int watch_attach(struct sp_ctx *c)
{
	watch_must(!atomic_load(&((struct watch *)c->state)->gone));
	return sp_view_of(c)->context->handler->messages ? sp_messages_limit(c, KEYS, 0) : 0;
}

static void watch_detach(struct sp_ctx *c)
{
	atomic_store(&((struct watch *)c->state)->gone, true);
}

static uint64_t watch_classify(struct sp_ctx *c, struct sp_packet *p)
{
	watch_must(!atomic_load_explicit(&((struct watch *)c->state)->gone, memory_order_relaxed));
	return probe_words_of(p).key;
}

static uint32_t watch_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct watch_message *s = m->state;
	count(&watch_headers);
	watch_must(atomic_exchange_explicit(&s->phase, 1, memory_order_relaxed) == 0);
	for (unsigned i = 0; i < WORKERS; i++)
		watch_must(s->by[i] == 0);
	s->key = m->key;
	watch_must(m->key == p->key);
	/* Long enough for the others to come and wait. */
	for (unsigned i = 0; i < probe_words_of(p).serial % 4; i++)
		sched_yield();
	while (m->key == 1 && atomic_load(&watch_gate_shut))
		if (atomic_load(&watch_source[1].polled) > 2)
			atomic_store(&watch_gate_shut, false);
		else
			watch_nap(20);
	watch_must(atomic_exchange_explicit(&s->phase, 2, memory_order_relaxed) == 1);
	return SP_DONE;
}

static uint32_t watch_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct watch_message *s = m->state;
	struct probe_words w = probe_words_of(p);
	uint32_t id = atomic_load_explicit(&watch_region, memory_order_relaxed);

	count(&watch_packets_in);
	watch_must(atomic_load_explicit(&s->phase, memory_order_relaxed) == 2);
	atomic_fetch_add_explicit(&s->inside, 1, memory_order_relaxed);
	watch_must(s->key == w.key && m->key == w.key);
	s->by[c->worker]++;
	if (id) {
		const struct sp_mem *mem = sp_mem_get(c, id);

		if (mem) {
			watch_must(!sp_dma_write(c, mem, c->worker * 64, &w, sizeof(w)));
			sp_mem_put(c, mem);
		}
	}
	atomic_fetch_sub_explicit(&s->inside, 1, memory_order_relaxed);
	watch_must(atomic_load_explicit(&s->phase, memory_order_relaxed) == 2);
	return w.verdict;
}

static void watch_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	struct watch_message *s = m->state;
	uint64_t sum = 0;

	if (!sp_view_of(c)->context->messages || atomic_load_explicit(&s->phase, memory_order_relaxed) == 0)
		return; /* SLOTS: closed before its first packet */
	count(&watch_completions);
	if (why == SP_END_CLOSED)
		count(&watch_closings);
	watch_must(atomic_exchange_explicit(&s->phase, 3, memory_order_relaxed) == 2);
	watch_must(atomic_load_explicit(&s->inside, memory_order_relaxed) == 0);
	watch_must(s->key == m->key);
	for (unsigned i = 0; i < WORKERS; i++)
		sum += s->by[i];
	watch_must(sum > 0);
}

static uint32_t watch_miss(struct sp_ctx *c, struct sp_packet *p)
{
	return probe_words_of(p).miss;
}

static int watch_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct watch *s = c->state;

	watch_must(c->worker == c->home);
	if (cmd->op == PROBE_CMD_OPEN)
		return sp_message_open(c, cmd->arg[0]);
	if (cmd->op == PROBE_CMD_CLOSE)
		return sp_message_close(c, cmd->arg[0]);
	result->arg[0] = ++s->command;
	return 0;
}

WATCH(watch_hashed, "watch-hashed", SP_MESSAGES_HASHED)

WATCH(watch_slots, "watch-slots", SP_MESSAGES_SLOTS)

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
	count(&watch_packets_in);
	if (atomic_load(&s->wanted) % 4 == 0 && !sp_send_roce(c, s->known, &send))
		count(&s->sent);
	sp_send_roce(c, s->unknown, &send); /* waits, and is refused once too many wait */
	watch_must(!atomic_load_explicit(&s->gone, memory_order_relaxed));
	count(&s->wanted);
	sp_issue_start(c, &s->issue);
	if (!s->timer[c->worker].armed)
		watch_must(!sp_timer_arm(c, &s->timer[c->worker], c->now + 20 * SP_US));
	sp_work_start(c, &s->work[c->worker]);
	return SP_DONE;
}

static int busy_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	struct watch *s = c->state;
	watch_must(c->worker == c->home);
	watch_must(!atomic_load(&s->gone));
	s->issued += atomic_exchange_explicit(&s->wanted, 0, memory_order_relaxed);
	return SP_ISSUE_WAIT;
}

static bool busy_work(struct sp_ctx *c, struct sp_work *w)
{
	struct watch *s = c->state;

	watch_must(w == &s->work[c->worker]);
	watch_must(!atomic_load(&s->gone));
	count(&s->works);
	return false;
}

static void busy_timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct watch *s = c->state;

	watch_must(t == &s->timer[c->worker] && c->now >= t->at);
	watch_must(!atomic_load(&s->gone));
	count(&s->timers);
}

static const struct sp_handler watch_busy = {
	SP_HANDLER_HEAD,	 .name = "busy",	 .ctx_size = sizeof(struct watch),
	.attach = busy_attach,	 .detach = watch_detach, .payload = busy_payload,
	.issue = busy_issue,	 .work = busy_work,	 .timer = busy_timer,
	.command = watch_command};

SP_HANDLER(watch_busy)

static int homely_attach(struct sp_ctx *c)
{
	watch_must(c->worker == c->home);
	return sp_messages_limit(c, KEYS, 0);
}

static uint64_t homely_classify(struct sp_ctx *c, struct sp_packet *p)
{
	struct homely *s = c->state;

	watch_must(c->worker == c->home);
	s->packets++;
	return probe_words_of(p).key;
}

static uint32_t homely_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct homely *s = c->state;
	*(uint64_t *)m->state = ++s->messages;
	count(&watch_headers);
	return SP_DONE;
}

static uint32_t homely_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct homely *s = c->state;

	watch_must(*(uint64_t *)m->state && *(uint64_t *)m->state <= s->messages);
	count(&watch_packets_in);
	sp_issue_start(c, &s->issue);
	if (!s->timer.armed)
		watch_must(!sp_timer_arm(c, &s->timer, c->now + 20 * SP_US));
	return probe_words_of(p).verdict;
}

static void homely_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	watch_must(c->worker == c->home && *(uint64_t *)m->state);
	count(&watch_completions);
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

static const struct sp_handler watch_homely = {SP_HANDLER_HEAD,
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

SP_HANDLER(watch_homely)
