/* SPDX-License-Identifier: BSD-3-Clause */
#include "costly.h"

uint64_t costly_cycles, costly_looks; /* the clock, and how often it has been read */

uint64_t look(void *arg)
{
	(*(uint64_t *)arg)++;
	return costly_cycles;
}

unsigned costly_keeps, costly_refused;

void *costly_held[SP_MAX_HELD + 8];

struct sp_doing costly_seen; /* by the latest call */

struct sp_view *costly_seen_view;

static void spend(struct sp_ctx *c, uint64_t cost)
{
	costly_seen = sp_view_of(c)->owner->doing;
	costly_seen_view = costly_seen.view;
	costly_cycles += cost;
}

static int attach(struct sp_ctx *c)
{
	struct costly_state *s = c->state;

	s->work_cost = s->timer_cost = s->issue_cost = 1;
	return sp_view_of(c)->context->handler->messages ? sp_messages_limit(c, 64, 0) : 0;
}

static struct costly_packet said(const struct sp_packet *p)
{
	struct costly_packet say;

	memcpy(&say, p->data, sizeof(say));
	return say;
}

static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	return said(p).message;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct costly_packet say = said(p);
	__atomic_fetch_add(&((struct costly_state *)c->state)->payloads, 1, __ATOMIC_RELAXED);
	spend(c, say.cost);
	if (say.action & KEEP) {
		if (sp_packet_keep(c, p))
			costly_refused++;
		else
			costly_held[costly_keeps++] = p->buf;
	}
	if (say.action & ANSWER)
		sp_packet_send(c, p);
	if (say.action & FOR_LONG)
		sp_context_disable(sp_view_of(c)->context, LONG);
	return say.verdict;
}

static uint32_t payload_beside(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	spend(c, said(p).cost_beside);
	return SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	((struct costly_state *)c->state)->completions++;
	spend(c, 1000);
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct costly_state *s = c->state;
	s->timers++;
	spend(c, s->timer_cost);
}

static bool work(struct sp_ctx *c, struct sp_work *w)
{
	struct costly_state *s = c->state;
	s->works++;
	spend(c, s->work_cost);
	return --s->slices;
}

static int issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	static const uint8_t frame[64] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5};
	struct costly_state *s = c->state;
	s->issues++;
	spend(c, s->issue_cost);
	sp_send_frame(c, 0, frame, sizeof(frame));
	return --s->sends ? SP_ISSUE_MORE : SP_ISSUE_DONE;
}

/* arg[0]: what it costs; then arg[1]: a timer is armed for that time, arg[2] slices of work, arg[3] sends. */
static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct costly_state *s = c->state;
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

static const struct sp_handler costly = {COSTLY(.name = "costly"), .payload = payload};

static const struct sp_handler spoken = {COSTLY(.name = "spoken"), .payload = payload, .classify = classify,
					 .messages = SP_MESSAGES_HASHED, .completion = completion};

static const struct sp_handler beside = {
	SP_HANDLER_HEAD,	  .name = "beside",   .ctx_size = sizeof(struct costly_state),
	.attach = attach,	  .command = command, .timer = timer,
	.payload = payload_beside};
SP_HANDLER(costly)

SP_HANDLER(spoken)

SP_HANDLER(beside)

void costly_start(uint16_t workers, bool measured)
{
	dut_prepare(&dut, workers);
	dut.config.cycles = measured ? look : NULL;
	dut.config.cycles_arg = &costly_looks;
	dut_create(&dut);
	costly_cycles = costly_looks = costly_keeps = costly_refused = 0;
}

void costly_feed(uint16_t queue, uint32_t qp, struct costly_packet say)
{
	struct frame f;

	dut_roce(&f, FRAME_IP4, qp, 0, &say, sizeof(say));
	dut_feed_bytes(&dut.port, queue, 0, f.bytes, f.len);
}

void costly_burst(uint32_t qp, unsigned n, uint32_t cost)
{
	while (n--)
		costly_feed(0, qp, (struct costly_packet){.cost = cost});
}

int costly_command(uint32_t id, uint64_t cost, sp_time at, unsigned slices, unsigned sends)
{
	struct sp_command cmd = {.op = SP_CMD_OWN, .context = id, .arg = {cost, at, slices, sends}};

	return sp_command_call(dut.dev, &cmd, NULL);
}

struct sp_view *costly_view(uint32_t id, uint16_t worker)
{
	return sp_context_by_id(dut.nic, id)->view[worker];
}

struct sp_meter *costly_meter(uint32_t id)
{
	return &costly_view(id, 0)->meter;
}

struct costly_state *costly_state(uint32_t id)
{
	return sp_context_by_id(dut.nic, id)->state;
}

uint64_t costly_buckets(const struct sp_meter *m)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SP_METER_BUCKETS; i++)
		n += m->bucket[i];
	return n;
}

void costly_finish(void)
{
	dut_check_totals(&dut);
	dut_stop(&dut);
}
