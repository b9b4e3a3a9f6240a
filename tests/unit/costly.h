/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that take as long as the packets say, by a clock that they turn themselves. */
#ifndef TESTS_COSTLY_H
#define TESTS_COSTLY_H

#include "../../pipeline/metered.h"
#include "../lib/dut.h"

#define BUDGET "budget=100;overrun="

static uint64_t cycles, looks; /* the clock, and how often it has been read */

static uint64_t look(void *arg)
{
	(*(uint64_t *)arg)++;
	return cycles;
}

/* ---- a handler that takes its time ---- */

struct say { /* a packet's payload */
	uint32_t cost, verdict, message, action;
	uint32_t cost_beside, pad[3];
};
enum { KEEP = 1, ANSWER = 2, FOR_GOOD = 4 };

struct state {
	struct sp_timer timer;
	struct sp_work work;
	struct sp_issue issue;
	uint64_t timer_cost, work_cost, issue_cost;
	unsigned slices, sends, timers, works, issues, payloads, completions;
	bool started_again;
};

static unsigned keeps, refused;
static void *held[SP_MAX_KEPT + 8];
static struct sp_doing seen; /* by the latest call */
static struct sp_view *seen_view;

static void spend(struct sp_ctx *c, uint64_t cost)
{
	seen = sp_view_of(c)->owner->doing;
	seen_view = seen.view;
	cycles += cost;
}

static int attach(struct sp_ctx *c)
{
	struct state *s = c->state;

	s->work_cost = s->timer_cost = s->issue_cost = 1;
	return sp_view_of(c)->context->handler->messages ? sp_messages_limit(c, 64, 0) : 0;
}

static struct say said(const struct sp_packet *p)
{
	struct say say;

	memcpy(&say, p->data, sizeof(say));
	return say;
}

static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	return said(p).message;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct say say = said(p);
	__atomic_fetch_add(&((struct state *)c->state)->payloads, 1, __ATOMIC_RELAXED);
	spend(c, say.cost);
	if (say.action & KEEP) {
		if (sp_packet_keep(c, p))
			refused++;
		else
			held[keeps++] = p->buf;
	}
	if (say.action & ANSWER)
		sp_packet_send(c, p);
	if (say.action & FOR_GOOD)
		sp_context_disable(sp_view_of(c)->context, SP_NEVER);
	return say.verdict;
}

static uint32_t payload_beside(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	spend(c, said(p).cost_beside);
	return SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	((struct state *)c->state)->completions++;
	spend(c, 1000);
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct state *s = c->state;
	s->timers++;
	spend(c, s->timer_cost);
}

static bool work(struct sp_ctx *c, struct sp_work *w)
{
	struct state *s = c->state;
	s->works++;
	spend(c, s->work_cost);
	return --s->slices;
}

static int issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	static const uint8_t frame[64] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5};
	struct state *s = c->state;
	s->issues++;
	spend(c, s->issue_cost);
	sp_send_frame(c, 0, frame, sizeof(frame));
	return --s->sends ? SP_ISSUE_MORE : SP_ISSUE_DONE;
}

/* arg[0]: what it costs; then arg[1]: a timer is armed for that time, arg[2] slices of work, arg[3] sends. */
static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct state *s = c->state;
	if (cmd->op != SP_CMD_OWN + (sp_view_of(c)->context->first != NULL))
		return -EOPNOTSUPP;
	spend(c, cmd->arg[0]);
	if (cmd->arg[1])
		sp_timer_arm(c, &s->timer, cmd->arg[1]);
	if (cmd->arg[2]) {
		s->slices = (unsigned)cmd->arg[2];
		sp_work_start(c, &s->work);
	}
	if (cmd->arg[3]) {
		s->sends = (unsigned)cmd->arg[3];
		sp_issue_start(c, &s->issue);
	}
	return 0;
}

static const char *const drops[] = {"costly-own", NULL};
#define COSTLY(more)                                                                                                   \
	SP_HANDLER_HEAD, .drops = drops, .ctx_size = sizeof(struct state), .attach = attach, .command = command,       \
			 .issue = issue, .work = work, .timer = timer, more
static const struct sp_handler costly = {COSTLY(.name = "costly"), .payload = payload};
static const struct sp_handler spoken = {COSTLY(.name = "spoken"), .payload = payload, .classify = classify,
					 .messages = SP_MESSAGES_HASHED, .completion = completion};
static const struct sp_handler beside = {SP_HANDLER_HEAD,	   .name = "beside",   .ctx_size = sizeof(struct state),
					 .attach = attach,	   .command = command, .timer = timer,
					 .payload = payload_beside};
SP_HANDLER(costly)
SP_HANDLER(spoken)
SP_HANDLER(beside)

/* ---- around it ---- */

static inline void start(uint16_t workers, bool measured)
{
	dut_prepare(&dut, workers);
	dut.config.cycles = measured ? look : NULL;
	dut.config.cycles_arg = &looks;
	dut_create(&dut);
	cycles = looks = keeps = refused = 0;
}

static inline void feed(uint16_t queue, uint32_t qp, struct say say)
{
	struct frame f;

	dut_roce(&f, FRAME_IP4, qp, 0, &say, sizeof(say));
	dut_feed_bytes(&dut.port, queue, 0, f.bytes, f.len);
}

static inline void burst(uint32_t qp, unsigned n, uint32_t cost)
{
	while (n--)
		feed(0, qp, (struct say){.cost = cost});
}

static inline int tell(uint32_t id, uint64_t cost, sp_time at, unsigned slices, unsigned sends)
{
	struct sp_command cmd = {.op = SP_CMD_OWN, .context = id, .arg = {cost, at, slices, sends}};

	return sp_command_call(dut.dev, &cmd, NULL);
}

static inline struct sp_view *view(uint32_t id, uint16_t worker)
{
	return sp_context_by_id(dut.nic, id)->view[worker];
}

static inline struct sp_meter *meter(uint32_t id)
{
	return &view(id, 0)->meter;
}

static inline struct state *state(uint32_t id)
{
	return sp_context_by_id(dut.nic, id)->state;
}

static inline uint64_t buckets(const struct sp_meter *m)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SP_METER_BUCKETS; i++)
		n += m->bucket[i];
	return n;
}

static inline void finish(void)
{
	dut_check_totals(&dut);
	dut_stop(&dut);
}

#endif
