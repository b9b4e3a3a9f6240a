/* SPDX-License-Identifier: BSD-3-Clause */
#include "timed.h"

struct timed_happened timed_happened[200000];

unsigned timed_happenings;

static void note(struct sp_ctx *c, char what, uint32_t which)
{
	if (timed_happenings == sizeof(timed_happened) / sizeof(*timed_happened))
		return;
	timed_happened[timed_happenings].what = what;
	timed_happened[timed_happenings].context = sp_view_of(c)->context->name[0];
	timed_happened[timed_happenings].which = which;
	timed_happened[timed_happenings++].now = c->now;
}

const char *timed_log(void)
{
	static char text[4096];
	size_t n = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < timed_happenings && n + 16 < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%c:%c%u ", timed_happened[i].context,
				      timed_happened[i].what, timed_happened[i].which);
	return text;
}

/* ---- the handler ---- */
static const struct sp_param params[] = {
	{"timer", SP_TIME, "0ps", .help = "attach() arms timer 0 for that time, and timer 1, which it cancels"},
	{"start", SP_BOOL, "no", .help = "attach() starts work 0 and issue 0, one each"},
	{"fail", SP_BOOL, "no", .help = "and then fails"},
	{NULL},
};

static int attach(struct sp_ctx *c)
{
	struct timed *s = c->state;
	int r = sp_path_open(c, dut_peer4, false, &s->path);

	for (unsigned i = 0; i < ISSUES; i++) {
		s->issue[i].cookie = i;
		s->work[i].cookie = i;
		s->job[i].dry = SP_ISSUE_DONE;
	}
	for (unsigned i = 0; i < TIMERS; i++)
		s->timer[i].cookie = i;
	if (sp_param_uint(c, "timer")) {
		sp_timer_arm(c, &s->timer[0], sp_param_uint(c, "timer") + 5);
		sp_timer_arm(c, &s->timer[1], sp_param_uint(c, "timer"));
		sp_timer_arm(c, &s->timer[0], sp_param_uint(c, "timer"));
		sp_timer_cancel(c, &s->timer[1]);
	}
	if (sp_param_uint(c, "start")) {
		s->slices[0] = 1;
		s->job[0].want = 1;
		sp_work_start(c, &s->work[0]);
		sp_issue_start(c, &s->issue[0]);
	}
	return sp_param_uint(c, "fail") ? sp_fail(c, EIO, "fail", "as told") : r;
}

void (*timed_todo)(struct sp_ctx *, struct timed *);

static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *event)
{
	timed_todo(c, c->state);
	return 0;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	if (timed_todo)
		timed_todo(c, c->state);
	return SP_DONE;
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct timed *s = c->state;

	CU_ASSERT(c->now >= t->at);
	CU_ASSERT(!t->armed);
	note(c, 't', (uint32_t)t->cookie);
	if (s->plan[t->cookie].every)
		sp_timer_arm(c, t, t->at + s->plan[t->cookie].every);
	if (s->plan[t->cookie].other)
		sp_timer_cancel(c, &s->timer[s->plan[t->cookie].other - 1]);
}

static bool work(struct sp_ctx *c, struct sp_work *w)
{
	struct timed *s = c->state;

	note(c, 'w', (uint32_t)w->cookie);
	if (s->again[w->cookie]) {
		s->again[w->cookie] = false;
		sp_work_start(c, w);
		return false;
	}
	return s->slices[w->cookie] && --s->slices[w->cookie];
}

static int issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	struct timed *s = c->state;
	static const uint8_t zero[1500];
	struct sp_send send = {.dest_qp = 16, .len = s->bytes, .bytes = zero};
	unsigned n = 0, at = (unsigned)i->cookie;

	s->job[at].calls++;
	s->job[at].worker = c->worker;
	s->job[at].most = budget > s->job[at].most ? budget : s->job[at].most;
	while (n < budget && s->job[at].sent < s->job[at].want && (!s->job[at].each || n < s->job[at].each)) {
		send.psn = s->job[at].sent;
		if (sp_send_roce(c, s->path, &send))
			return SP_ISSUE_MORE;
		note(c, 'i', at);
		s->job[at].sent++;
		n++;
	}
	if (s->job[at].sent < s->job[at].want)
		return SP_ISSUE_MORE;
	if (s->job[at].grow) {
		s->job[at].want += s->job[at].grow;
		s->job[at].grow = 0;
		sp_issue_start(c, i);
	}
	return s->job[at].dry;
}

static const struct sp_handler timed_handler = {
	SP_HANDLER_HEAD,  .name = "timed",    .params = params,	  .ctx_size = sizeof(struct timed),
	.attach = attach, .payload = payload, .command = command, .issue = issue,
	.work = work,	  .timer = timer};
SP_HANDLER(timed_handler)

static const struct sp_handler idle = {SP_HANDLER_HEAD, .name = "idle", .ctx_size = sizeof(struct timed),
				       .payload = payload, .command = command};
SP_HANDLER(idle)

void timed_start_with(uint16_t workers, bool known)
{
	dut_prepare(&dut, workers);
	if (known) {
		dut.config.neighbours = 1;
		memcpy(dut.config.neighbour[0].ip, dut_peer4, 16);
		memcpy(dut.config.neighbour[0].mac, dut_peer_mac, 6);
	}
	dut_create(&dut);
	timed_happenings = 0;
	timed_todo = NULL;
}

void timed_start(void)
{
	timed_start_with(1, true);
}

void timed_stop(void)
{
	timed_todo = NULL;
	dut_stop(&dut);
}

struct timed *timed_state(uint32_t id)
{
	return sp_context_by_id(dut.nic, id)->state;
}

void timed_inside(uint32_t id, void (*fn)(struct sp_ctx *, struct timed *))
{
	struct sp_command cmd = {.op = SP_CMD_OWN, .context = id};

	timed_todo = fn;
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), 0);
	timed_todo = NULL;
}
