/* SPDX-License-Identifier: BSD-3-Clause */
/* What a context does of its own accord: timers, deferred work, and host work that becomes packets under a pace. */
#include "../../pipeline/issue.h"
#include "../../pipeline/timer.h"
#include "rig.h"

#define TIMERS 512
#define ISSUES 4

/* The handler's state; what its functions do is written there by the test. */
struct clockwork {
	struct sp_timer timer[TIMERS];
	struct {
		sp_time every;	/* timer() arms it again so much later */
		unsigned other; /* timer() cancels that one, + 1 */
	} plan[TIMERS];
	struct sp_work work[ISSUES];
	unsigned slices[ISSUES]; /* that work() still has */
	bool again[ISSUES];	 /* work() starts itself again, once, and says that it is done */
	struct sp_issue issue[ISSUES];
	struct {
		unsigned want, sent, each; /* packets; each: at most so many in one call, 0: the budget */
		int dry;		   /* what issue() returns when it has no more */
		unsigned grow;		   /* at the first dry call: so many more come, and sp_issue_start is called */
		unsigned calls, most;	   /* calls; largest budget */
		uint16_t worker;
	} job[ISSUES];
	struct sp_path *path;
	uint32_t bytes; /* of payload of what issue() sends */
};

static struct rig rig;

/* ---- what happened, in order ---- */
static struct {
	char what; /* t w i */
	char context;
	uint32_t which;
	sp_time now;
} happened[200000];
static unsigned happenings;

static void note(struct sp_ctx *c, char what, uint32_t which)
{
	if (happenings == sizeof(happened) / sizeof(*happened))
		return;
	happened[happenings].what = what;
	happened[happenings].context = sp_view_of(c)->context->name[0];
	happened[happenings].which = which;
	happened[happenings++].now = c->now;
}

/* As text: kind and number, contexts as they are named: "a:t3 b:w1 ". */
static const char *story(void)
{
	static char text[4096];
	size_t n = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < happenings && n + 16 < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%c:%c%u ", happened[i].context, happened[i].what,
				      happened[i].which);
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
	struct clockwork *s = c->state;
	int r = sp_path_open(c, rig_peer4, false, &s->path);

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

static void (*todo)(struct sp_ctx *, struct clockwork *);
static int result;

static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *event)
{
	(void)cmd;
	(void)event;
	todo(c, c->state);
	return 0;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)m;
	(void)p;
	if (todo)
		todo(c, c->state);
	return SP_DONE;
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct clockwork *s = c->state;

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
	struct clockwork *s = c->state;

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
	struct clockwork *s = c->state;
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

static const struct sp_handler clockwork = {
	SP_HANDLER_HEAD,  .name = "clockwork", .params = params,   .ctx_size = sizeof(struct clockwork),
	.attach = attach, .payload = payload,  .command = command, .issue = issue,
	.work = work,	  .timer = timer};
SP_HANDLER(clockwork)
static const struct sp_handler idle = {SP_HANDLER_HEAD, .name = "idle", .ctx_size = sizeof(struct clockwork),
				       .payload = payload, .command = command};
SP_HANDLER(idle)

/* ---- helpers ---- */

static void start_with(uint16_t workers, bool known)
{
	rig_prepare(&rig, workers);
	if (known) {
		rig.config.neighbours = 1;
		memcpy(rig.config.neighbour[0].ip, rig_peer4, 16);
		memcpy(rig.config.neighbour[0].mac, rig_peer_mac, 6);
	}
	rig_create(&rig);
	happenings = 0;
	todo = NULL;
}

static void start(void)
{
	start_with(1, true);
}

static void end(void)
{
	todo = NULL;
	rig_stop(&rig);
}

static struct clockwork *state(uint32_t id)
{
	return sp_context_by_id(rig.nic, id)->state;
}

/* Runs a piece of handler code on the context's home worker. */
static void inside(uint32_t id, void (*fn)(struct sp_ctx *, struct clockwork *))
{
	struct sp_command cmd = {.op = SP_CMD_OWN, .context = id};

	todo = fn;
	CU_ASSERT_EQUAL(sp_command_call(rig.dev, &cmd, NULL), 0);
	todo = NULL;
}

static sp_time when[TIMERS];
static unsigned which;

static void arm(struct sp_ctx *c, struct clockwork *s)
{
	result = sp_timer_arm(c, &s->timer[which], when[which]);
}

static void cancel(struct sp_ctx *c, struct clockwork *s)
{
	sp_timer_cancel(c, &s->timer[which]);
}

static void arm_at(uint32_t id, unsigned i, sp_time at)
{
	which = i;
	when[i] = at;
	inside(id, arm);
	CU_ASSERT_EQUAL(result, 0);
}

static void cancel_it(uint32_t id, unsigned i)
{
	which = i;
	inside(id, cancel);
}

/* ---- timers ---- */

static void timers_fire_in_order_of_time_each_at_its_own(void)
{
	uint64_t seed = 1;
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	for (unsigned i = 0; i < TIMERS; i++)
		arm_at(id, i, 1 + rig_random(&seed) % 100000);
	rig_run(&rig, 0, 200000);
	CU_ASSERT_EQUAL(happenings, TIMERS);
	for (unsigned i = 0; i < happenings; i++) {
		CU_ASSERT_EQUAL(happened[i].now, when[happened[i].which]);
		CU_ASSERT(i == 0 || happened[i].now >= happened[i - 1].now);
	}
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), SP_NEVER);
	end();
}

static void a_poll_that_comes_late_fires_in_order_too_and_so_many_at_once(void)
{
	uint64_t seed = 2;
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	for (unsigned i = 0; i < 200; i++)
		arm_at(id, i, 1 + rig_random(&seed) % 1000);
	sp_nic_poll(rig.nic, 0, 5000);
	CU_ASSERT_EQUAL(happenings, SP_TIMERS_PER_POLL);
	CU_ASSERT(sp_nic_next_deadline(rig.nic, 0) <= 5000);
	rig_settle(&rig, 5000);
	CU_ASSERT_EQUAL(happenings, 200);
	for (unsigned i = 1; i < happenings; i++)
		CU_ASSERT(when[happened[i].which] >= when[happened[i - 1].which]);
	end();
}

static void arming_again_moves_a_timer_and_cancelling_stops_it(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	arm_at(id, 0, 100);
	arm_at(id, 1, 200);
	arm_at(id, 2, 300);
	arm_at(id, 0, 250); /* later */
	arm_at(id, 2, 50);  /* earlier */
	arm_at(id, 3, 120);
	cancel_it(id, 3);
	cancel_it(id, 3); /* twice: nothing */
	cancel_it(id, 4); /* never armed: nothing */
	rig_run(&rig, 0, 1000);
	CU_ASSERT_STRING_EQUAL(story(), "a:t2 a:t1 a:t0 ");
	arm_at(id, 5, 10); /* in the past: now */
	sp_nic_poll(rig.nic, 0, 1000);
	CU_ASSERT_STRING_EQUAL(story(), "a:t2 a:t1 a:t0 a:t5 ");
	end();
}

static void timer_may_arm_itself_and_cancel_others(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->plan[0].every = 10;
	state(id)->plan[1].other = 2 + 1;
	state(id)->plan[2].other = 1 + 1;
	arm_at(id, 0, 10);
	arm_at(id, 1, 35);
	arm_at(id, 2, 35); /* whichever of the two comes first stops the other one */
	rig_run(&rig, 0, 60);
	CU_ASSERT_EQUAL(happenings, 7);
	for (unsigned i = 0, n = 1; i < happenings; i++)
		if (happened[i].which == 0)
			CU_ASSERT_EQUAL(happened[i].now, 10 * n++);
	end();
}

static void attach_may_arm_move_and_cancel(void)
{
	uint32_t id;

	start();
	sp_nic_poll(rig.nic, 0, 7);
	id = rig_context(&rig, "a", "clockwork", "qp=16;timer=100ps");
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), 100);
	rig_run(&rig, 7, 1000);
	CU_ASSERT_STRING_EQUAL(story(), "a:t0 ");
	CU_ASSERT_EQUAL(happened[0].now, 100);
	(void)id;
	end();
}

static void an_attach_that_fails_leaves_no_timer_work_or_issue(void)
{
	struct sp_error error;
	uint32_t id;

	start();
	CU_ASSERT_EQUAL(rig_try_context(&rig, "a", "clockwork", "qp=16;timer=100ps;start=yes;fail=yes", &id, &error),
			-EIO);
	CU_ASSERT_STRING_EQUAL(error.text, "as told");
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), SP_NEVER);
	rig_run(&rig, 0, 1000);
	/* The same where it fails later: no QP and no filter. */
	CU_ASSERT_EQUAL(rig_try_context(&rig, "a", "clockwork", "timer=100ps;start=yes", &id, &error), -EINVAL);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), SP_NEVER);
	CU_ASSERT_EQUAL(happenings, 0);
	end();
}

static void the_timers_of_a_context_go_with_it(void)
{
	uint32_t a, b;

	start();
	a = rig_context(&rig, "a", "clockwork", "qp=16");
	b = rig_context(&rig, "b", "clockwork", "qp=17");
	for (unsigned i = 0; i < 100; i++) {
		arm_at(a, i, 100 + i);
		arm_at(b, i, 100 + i);
	}
	rig_run(&rig, 0, 149);
	CU_ASSERT_EQUAL(happenings, 100);
	sp_nic_context_remove(rig.nic, a);
	rig_run(&rig, 149, 1000);
	CU_ASSERT_EQUAL(happenings, 150);
	for (unsigned i = 100; i < happenings; i++) {
		CU_ASSERT_EQUAL(happened[i].context, 'b');
		CU_ASSERT_EQUAL(happened[i].which, i - 50);
	}
	end();
}

static void a_timer_belongs_to_the_worker_that_armed_it(void)
{
	struct frame f;
	uint32_t id;

	start_with(2, true);
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	CU_ASSERT_EQUAL(sp_context_by_id(rig.nic, id)->home, 0);
	which = 0;
	when[0] = 100;
	todo = arm;
	rig_roce(&f, FRAME_IP4, 16, 0, NULL, 0);
	rig_feed_bytes(&rig.port, 1, 0, f.bytes, f.len);
	rig_settle(&rig, 1); /* payload() on worker 1 arms it */
	CU_ASSERT_EQUAL(result, 0);
	inside(id, arm);
	CU_ASSERT_EQUAL(result, -EXDEV);
	cancel_it(id, 0); /* not from there either */
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), SP_NEVER);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 1), 100);
	rig_run(&rig, 1, 200);
	CU_ASSERT_EQUAL(happenings, 1);
	inside(id, arm); /* once it has fired it is anybody's */
	CU_ASSERT_EQUAL(result, 0);
	sp_nic_context_remove(rig.nic, id);
	end();
}

static void a_handler_without_a_function_for_it_cannot_have_one(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "idle", "qp=16");
	which = 0;
	when[0] = 1;
	inside(id, arm);
	CU_ASSERT_EQUAL(result, -EINVAL);
	rig_run(&rig, 0, 100);
	end();
}

static void a_hundred_thousand_operations_agree_with_a_sorted_model(void)
{
	sp_time model[TIMERS] = {0}, now = 1; /* 0: not armed */
	unsigned wrong = 0, fired = 0;
	uint64_t seed = 3;
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	for (unsigned op = 0; op < 100000 && !wrong; op++) {
		unsigned i = rig_random(&seed) % TIMERS, what = rig_random(&seed) % 16;

		if (what < 9) {
			/* Few different times, so that many are equal. */
			when[i] = model[i] = now + 1 + rig_random(&seed) % (what == 0 ? 5000 : 100);
			which = i;
			inside(id, arm);
			wrong += result != 0;
		} else if (what < 13) {
			cancel_it(id, i);
			model[i] = 0;
		} else {
			sp_time least = SP_NEVER, last = 0;

			for (unsigned k = 0; k < TIMERS; k++)
				if (model[k] && model[k] < least)
					least = model[k];
			wrong += sp_nic_next_deadline(rig.nic, 0) != least;
			now += rig_random(&seed) % 40;
			happenings = 0;
			rig_settle(&rig, now);
			for (unsigned k = 0; k < happenings; k++) {
				sp_time at = model[happened[k].which];

				wrong += !at || at > now || at < last;
				last = at;
				model[happened[k].which] = 0;
				fired++;
			}
			for (unsigned k = 0; k < TIMERS; k++)
				wrong += model[k] && model[k] <= now;
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(fired > 5000);
	end();
}

/* ---- deferred work ---- */

static void start_works(struct sp_ctx *c, struct clockwork *s)
{
	for (unsigned i = 0; i < 3; i++)
		sp_work_start(c, &s->work[i]);
	sp_work_start(c, &s->work[1]); /* it is in the queue already */
}

static void deferred_work_runs_one_slice_a_poll_the_oldest_first(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->slices[0] = 3;
	state(id)->slices[1] = 1;
	state(id)->slices[2] = 2;
	inside(id, start_works);
	for (unsigned i = 1; i <= 6; i++) {
		CU_ASSERT(sp_nic_next_deadline(rig.nic, 0) <= i);
		sp_nic_poll(rig.nic, 0, i);
		CU_ASSERT_EQUAL(happenings, i);
	}
	CU_ASSERT_STRING_EQUAL(story(), "a:w0 a:w1 a:w2 a:w0 a:w2 a:w0 ");
	CU_ASSERT_EQUAL(sp_nic_poll(rig.nic, 0, 7), 0);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), SP_NEVER);
	end();
}

static void work_may_start_itself_again(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->again[0] = true;
	inside(id, start_works);
	rig_run(&rig, 0, 100);
	CU_ASSERT_STRING_EQUAL(story(), "a:w0 a:w1 a:w2 a:w0 ");
	end();
}

static void the_work_of_a_context_goes_with_it(void)
{
	uint32_t a, b;

	start();
	a = rig_context(&rig, "a", "clockwork", "qp=16");
	b = rig_context(&rig, "b", "clockwork", "qp=17");
	for (unsigned i = 0; i < 3; i++)
		state(a)->slices[i] = state(b)->slices[i] = 2;
	inside(a, start_works);
	inside(b, start_works);
	sp_nic_poll(rig.nic, 0, 1);
	sp_nic_context_remove(rig.nic, b);
	rig_run(&rig, 1, 100);
	CU_ASSERT_STRING_EQUAL(story(), "a:w0 a:w1 a:w2 a:w0 a:w1 a:w2 ");
	inside(a, start_works); /* the queue's ends still fit together */
	sp_nic_context_remove(rig.nic, a);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), SP_NEVER);
	end();
}

/* ---- issue ---- */

static void start_first(struct sp_ctx *c, struct clockwork *s)
{
	sp_issue_start(c, &s->issue[0]);
}

static void start_three(struct sp_ctx *c, struct clockwork *s)
{
	for (unsigned i = 0; i < 3; i++)
		sp_issue_start(c, &s->issue[i]);
}

static void issue_is_given_a_budget_and_no_context_more_than_a_burst_a_poll(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->job[0].want = 1000;
	inside(id, start_first);
	for (unsigned i = 1; i < 10; i++) {
		sp_nic_poll(rig.nic, 0, i);
		CU_ASSERT_EQUAL(rig.port.sents, i * SP_BURST);
	}
	CU_ASSERT_EQUAL(state(id)->job[0].most, SP_BURST);
	rig_run(&rig, 10, 1000);
	CU_ASSERT_EQUAL(rig.port.sents, 1000);
	CU_ASSERT_EQUAL(sp_nic_next_deadline(rig.nic, 0), SP_NEVER);
	end();
}

static void the_issues_of_a_context_take_turns(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	for (unsigned i = 0; i < 3; i++) {
		state(id)->job[i].want = 3 + i;
		state(id)->job[i].each = 1;
	}
	inside(id, start_three);
	rig_run(&rig, 0, 100);
	CU_ASSERT_STRING_EQUAL(story(), "a:i0 a:i1 a:i2 a:i0 a:i1 a:i2 a:i0 a:i1 a:i2 a:i1 a:i2 a:i2 ");
	end();
}

static void contexts_take_turns(void)
{
	unsigned sent[26] = {0};
	uint32_t id[12];

	start();
	for (unsigned i = 0; i < 12; i++) { /* more than one poll serves */
		char name[2] = {(char)('a' + i)}, qp[16];

		snprintf(qp, sizeof(qp), "qp=%u", 16 + i);
		id[i] = rig_context(&rig, name, "clockwork", qp);
		state(id[i])->job[0].want = 10000;
		inside(id[i], start_first);
	}
	for (unsigned i = 1; i <= 30; i++)
		sp_nic_poll(rig.nic, 0, i);
	for (unsigned i = 0; i < happenings; i++)
		sent[happened[i].context - 'a']++;
	for (unsigned i = 0; i < 12; i++)
		CU_ASSERT_EQUAL(sent[i], 30 * SP_ISSUES_PER_POLL * SP_BURST / 12);
	/* One of them goes: the others do not notice. */
	sp_nic_context_remove(rig.nic, id[3]);
	sp_nic_context_remove(rig.nic, id[11]);
	happenings = 0;
	for (unsigned i = 31; i <= 40; i++)
		sp_nic_poll(rig.nic, 0, i);
	CU_ASSERT_EQUAL(happenings, 10 * SP_ISSUES_PER_POLL * SP_BURST);
	for (unsigned i = 0; i < happenings; i++)
		CU_ASSERT(happened[i].context != 'd' && happened[i].context != 'l');
	end();
}

static void an_issue_that_waits_is_not_called_until_it_is_started(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->job[0].want = 5;
	state(id)->job[0].dry = SP_ISSUE_WAIT;
	inside(id, start_first);
	rig_run(&rig, 0, 100);
	CU_ASSERT_EQUAL(rig.port.sents, 5);
	CU_ASSERT_EQUAL(state(id)->job[0].calls, 1);
	for (unsigned i = 0; i < 10; i++)
		sp_nic_poll(rig.nic, 0, 100 + i);
	CU_ASSERT_EQUAL(state(id)->job[0].calls, 1);
	state(id)->job[0].want = 7;
	inside(id, start_first);
	inside(id, start_first); /* twice is once */
	rig_run(&rig, 200, 300);
	CU_ASSERT_EQUAL(rig.port.sents, 7);
	CU_ASSERT_EQUAL(state(id)->job[0].calls, 2);
	end();
}

static void a_start_during_issue_is_not_lost(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->job[0].want = 5;
	state(id)->job[0].dry = SP_ISSUE_WAIT;
	state(id)->job[0].grow = 3;
	inside(id, start_first);
	rig_run(&rig, 0, 10 * SP_US);
	CU_ASSERT_EQUAL(rig.port.sents, 8);
	end();
}

static void an_issue_started_on_another_worker_runs_at_home(void)
{
	struct frame f;
	uint32_t id;

	start_with(3, true);
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->job[0].want = 4;
	state(id)->job[0].dry = SP_ISSUE_WAIT;
	state(id)->job[1].want = 2;
	state(id)->job[2].want = 1;
	rig_roce(&f, FRAME_IP4, 16, 0, NULL, 0);
	todo = start_three;
	for (uint16_t q = 1; q < 3; q++)
		for (unsigned i = 0; i < 3; i++)
			rig_feed_bytes(&rig.port, q, 0, f.bytes, f.len);
	sp_nic_poll(rig.nic, 1, 1);
	sp_nic_poll(rig.nic, 2, 1);
	CU_ASSERT_EQUAL(rig.port.sents, 0);
	CU_ASSERT(sp_nic_next_deadline(rig.nic, 0) <= 1); /* at home there is something to do */
	rig_run(&rig, 1, 1000);
	CU_ASSERT_EQUAL(rig.port.sents, 7);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(state(id)->job[i].worker, 0);
	state(id)->job[0].want = 6; /* and again */
	rig_feed_bytes(&rig.port, 2, 0, f.bytes, f.len);
	rig_settle(&rig, 1001);
	CU_ASSERT_EQUAL(rig.port.sents, 9);
	/* Started elsewhere, and the context goes before home has looked. */
	rig_feed_bytes(&rig.port, 2, 0, f.bytes, f.len);
	sp_nic_poll(rig.nic, 2, 1002);
	sp_nic_context_remove(rig.nic, id);
	rig_settle(&rig, 1003);
	end();
}

static void attach_may_start_work_and_issues(void)
{
	start();
	rig_context(&rig, "a", "clockwork", "qp=16;start=yes");
	rig_run(&rig, 0, 100);
	CU_ASSERT_STRING_EQUAL(story(), "a:w0 a:i0 ");
	end();
}

/* ---- pace ---- */

/* A frame's time on the wire: preamble and delimiter, frame, FCS, gap. */
static unsigned __int128 wire_bits(uint32_t payload)
{
	return 8ull * (8 + 14 + 20 + 8 + 12 + payload + (-payload & 3) + 4 + 4 + 12);
}

static void paced_packets_are_a_wire_time_apart_and_the_long_run_is_exact(void)
{
	static const struct {
		const char *text;
		uint64_t rate;
	} rate[] = {{"rate=1G", 1000000000}, {"rate=400G", 400000000000}, {"rate=333333333", 333333333}, {"rate=7", 7}};
	const sp_time begin = 123456789;

	for (unsigned k = 0; k < 4; k++)
		for (uint32_t bytes = 0; bytes < 1400; bytes += 333) {
			const unsigned count = k == 3 ? 100 : 2000;
			char settings[64];
			unsigned bad = 0;
			uint32_t id;

			start();
			snprintf(settings, sizeof(settings), "qp=16;%s", rate[k].text);
			id = rig_context(&rig, "a", "clockwork", settings);
			state(id)->job[0].want = count;
			state(id)->bytes = bytes;
			rig_settle(&rig, begin);
			inside(id, start_first);
			rig_run(&rig, begin, SP_NEVER - 1);
			CU_ASSERT_EQUAL(rig.port.sents, count);
			CU_ASSERT_EQUAL(state(id)->job[0].most, 1);
			for (unsigned i = 0; i < rig.port.sents; i++)
				bad += rig.port.sent[i].at !=
				       begin + (sp_time)(wire_bits(bytes) * i * SP_SEC / rate[k].rate);
			CU_ASSERT_EQUAL(bad, 0);
			end();
		}
}

static void having_been_idle_gives_no_right_to_a_burst(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16;rate=10G");
	state(id)->job[0].dry = SP_ISSUE_WAIT;
	for (unsigned round = 0; round < 5; round++) {
		sp_time begin = (round + 1) * SP_SEC;
		unsigned first = rig.port.sents;

		state(id)->job[0].want += 50;
		rig_settle(&rig, begin);
		inside(id, start_first);
		rig_run(&rig, begin, begin + SP_MS);
		CU_ASSERT_EQUAL(rig.port.sents, first + 50);
		for (unsigned i = first; i < rig.port.sents; i++)
			CU_ASSERT_EQUAL(rig.port.sent[i].at, begin + (i - first) * (sp_time)wire_bits(0) * 100);
	}
	end();
}

static void a_worker_that_comes_late_makes_up_for_a_little_only(void)
{
	const sp_time apart = (sp_time)wire_bits(0) * 1000; /* 656 ns at 1 Gbit/s */
	unsigned before;
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16;rate=1G");
	state(id)->job[0].want = 1000000;
	rig_settle(&rig, SP_SEC);
	inside(id, start_first);
	for (sp_time t = 0; t <= SP_MS; t += 5 * SP_US) /* every 5 us: the rate is kept */
		sp_nic_poll(rig.nic, 0, SP_SEC + t);
	CU_ASSERT(rig.port.sents >= SP_MS / apart);
	CU_ASSERT(rig.port.sents <= SP_MS / apart + 1);
	before = rig.port.sents;
	rig_settle(&rig, SP_SEC + 100 * SP_MS); /* 99 ms later: 10 us of them */
	CU_ASSERT(rig.port.sents - before >= 10 * SP_US / apart);
	CU_ASSERT(rig.port.sents - before <= 10 * SP_US / apart + 2);
	end();
}

static uint64_t new_rate;

static void change_pace(struct sp_ctx *c, struct clockwork *s)
{
	(void)s;
	sp_pace(c, new_rate);
}

static void the_pace_changes_from_the_next_packet_on(void)
{
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16;rate=1k");
	state(id)->job[0].want = 3000;
	inside(id, start_first);
	rig_settle(&rig, 1);
	CU_ASSERT_EQUAL(rig.port.sents, 1); /* the next one would be due in 656 ms */
	new_rate = 1000000;
	inside(id, change_pace);
	rig_run(&rig, 1, 656 * SP_US - 1);
	CU_ASSERT_EQUAL(rig.port.sents, 1);
	rig_run(&rig, 656 * SP_US, 2 * 656 * SP_US + 1);
	CU_ASSERT_EQUAL(rig.port.sents, 3);
	new_rate = 0;
	inside(id, change_pace);
	rig_settle(&rig, 2 * 656 * SP_US + 2);
	CU_ASSERT_EQUAL(rig.port.sents, 3000); /* as fast as the port goes */
	end();
}

static void every_context_has_its_own_pace(void)
{
	static const char *const rate[] = {"qp=16;rate=1G", "qp=17;rate=2G", "qp=18;rate=3G"};
	unsigned sent[3] = {0};

	start();
	for (unsigned i = 0; i < 3; i++) {
		char name[2] = {(char)('a' + i)};
		uint32_t id = rig_context(&rig, name, "clockwork", rate[i]);

		state(id)->job[0].want = 1000000;
		inside(id, start_first);
	}
	rig_run(&rig, 0, (sp_time)wire_bits(0) * 1000 * 600 - 1); /* 600 packets' time at 1 Gbit/s */
	for (unsigned i = 0; i < happenings; i++)
		sent[happened[i].context - 'a']++;
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(sent[i], 600 * (i + 1));
	end();
}

/* ---- ports, neighbours and buffers that hold it up ---- */

static void a_slow_port_gets_everything_in_order_and_time_goes_on(void)
{
	uint32_t id;
	sp_time done;

	start();
	rig.port.gap = SP_US;
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->job[0].want = 3000;
	inside(id, start_first);
	done = rig_run(&rig, 0, SP_SEC);
	CU_ASSERT_EQUAL_FATAL(rig.port.sents, 3000);
	CU_ASSERT_EQUAL(rig.port.sent[2999].at, 2999 * SP_US); /* never waiting for the NIC */
	CU_ASSERT(done <= 3001 * SP_US);
	for (unsigned i = 0; i < 3000; i++) {
		const uint8_t *psn = rig.port.sent[i].bytes + 14 + 20 + 8 + 9;

		CU_ASSERT_EQUAL((unsigned)psn[0] << 16 | (unsigned)psn[1] << 8 | psn[2], i);
	}
	CU_ASSERT_EQUAL(sp_nic_dropped(rig.nic, "tx-full"), 0);
	end();
}

static void a_paced_context_on_a_slower_port_goes_at_the_ports_pace(void)
{
	uint32_t id;

	start();
	rig.port.gap = SP_US;
	id = rig_context(&rig, "a", "clockwork", "qp=16;rate=400G");
	state(id)->job[0].want = 2000;
	inside(id, start_first);
	rig_run(&rig, 0, SP_SEC);
	CU_ASSERT_EQUAL_FATAL(rig.port.sents, 2000);
	CU_ASSERT_EQUAL(rig.port.sent[1999].at, 1999 * SP_US);
	end();
}

static void an_unknown_neighbour_holds_issues_up_and_loses_none(void)
{
	static const uint8_t answer[42] = {2, 0, 0, 0, 0, 1, 2, 0,   0, 0, 0, 2, 8, 6, 0, 1, 8, 0,   6, 4, 0,
					   2, 2, 0, 0, 0, 0, 2, 192, 0, 2, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 2};
	unsigned arp = 0, roce = 0;
	uint32_t id;

	start_with(1, false);
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->job[0].want = 500;
	inside(id, start_first);
	rig_feed_bytes(&rig.port, 0, 100 * SP_MS, answer, sizeof(answer));
	rig_run(&rig, 0, 200 * SP_MS);
	for (unsigned i = 0; i < rig.port.sents; i++) {
		arp += rig.port.sent[i].bytes[12] == 8 && rig.port.sent[i].bytes[13] == 6;
		roce += rig.port.sent[i].bytes[12] == 8 && rig.port.sent[i].bytes[13] == 0;
	}
	CU_ASSERT_EQUAL(roce, 500);
	CU_ASSERT_EQUAL(arp, 1);
	CU_ASSERT_EQUAL(sp_nic_dropped(rig.nic, "tx-no-neighbour"), 0);
	end();
}

static void without_buffers_issues_wait_for_some(void)
{
	static struct rte_mbuf *all[SP_PACKET_POOL + 1];
	unsigned n = 0;
	uint32_t id;

	start();
	id = rig_context(&rig, "a", "clockwork", "qp=16");
	state(id)->job[0].want = 100;
	while (n < SP_PACKET_POOL && (all[n] = sp_packet_alloc()))
		n++;
	CU_ASSERT_EQUAL(n, SP_PACKET_POOL);
	inside(id, start_first);
	rig_run(&rig, 0, 20 * SP_US);
	CU_ASSERT_EQUAL(rig.port.sents, 0);
	CU_ASSERT(sp_nic_next_deadline(rig.nic, 0) < 30 * SP_US);
	rte_pktmbuf_free_bulk(all, n);
	rig_run(&rig, 20 * SP_US, 40 * SP_US);
	CU_ASSERT_EQUAL(rig.port.sents, 100);
	end();
}

SUITE("timer", TEST(timers_fire_in_order_of_time_each_at_its_own),
      TEST(a_poll_that_comes_late_fires_in_order_too_and_so_many_at_once),
      TEST(arming_again_moves_a_timer_and_cancelling_stops_it), TEST(timer_may_arm_itself_and_cancel_others),
      TEST(attach_may_arm_move_and_cancel), TEST(an_attach_that_fails_leaves_no_timer_work_or_issue),
      TEST(the_timers_of_a_context_go_with_it), TEST(a_timer_belongs_to_the_worker_that_armed_it),
      TEST(a_handler_without_a_function_for_it_cannot_have_one),
      TEST(a_hundred_thousand_operations_agree_with_a_sorted_model),
      TEST(deferred_work_runs_one_slice_a_poll_the_oldest_first), TEST(work_may_start_itself_again),
      TEST(the_work_of_a_context_goes_with_it), TEST(issue_is_given_a_budget_and_no_context_more_than_a_burst_a_poll),
      TEST(the_issues_of_a_context_take_turns), TEST(contexts_take_turns),
      TEST(an_issue_that_waits_is_not_called_until_it_is_started), TEST(a_start_during_issue_is_not_lost),
      TEST(an_issue_started_on_another_worker_runs_at_home), TEST(attach_may_start_work_and_issues),
      TEST(paced_packets_are_a_wire_time_apart_and_the_long_run_is_exact),
      TEST(having_been_idle_gives_no_right_to_a_burst), TEST(a_worker_that_comes_late_makes_up_for_a_little_only),
      TEST(the_pace_changes_from_the_next_packet_on), TEST(every_context_has_its_own_pace),
      TEST(a_slow_port_gets_everything_in_order_and_time_goes_on),
      TEST(a_paced_context_on_a_slower_port_goes_at_the_ports_pace),
      TEST(an_unknown_neighbour_holds_issues_up_and_loses_none), TEST(without_buffers_issues_wait_for_some))
