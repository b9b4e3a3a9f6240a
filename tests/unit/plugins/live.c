/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler that knows which load of its plug-in it is, and tells the test of every call. */
#include <errno.h>
#include <stddef.h>

#include <spindle-handler.h>

#include "live.h"

#ifndef MESSAGES
#define MESSAGES SP_MESSAGES_HASHED
#endif
#ifndef NAME
#define NAME "live"
#endif
#ifndef FLAGS
#define FLAGS 0
#endif
#ifndef STATE_VERSION
#define STATE_VERSION 1
#endif

enum { DROP_ASKED, DROP_HEADER };
#ifdef OTHER_NAMES
static const char *const drops[] = {"asked-anew", "refused", NULL};
static const char *const counters[] = {"others", "seen", NULL};
enum { COUNTER_OTHERS, COUNTER_SEEN };
#else
static const char *const drops[] = {"asked", "refused", NULL};
static const char *const counters[] = {"seen", "ended", NULL};
enum { COUNTER_SEEN, COUNTER_OTHERS };
#endif

static unsigned load;

static __attribute__((constructor)) void loaded(void)
{
	load = live_loaded();
}

static __attribute__((destructor)) void unloaded(void)
{
	live_unloaded(load);
	load = 0; /* whoever runs this code from here on tells so, where nothing worse happens */
}

struct job {
	union {
		struct sp_timer timer;
		struct sp_issue issue;
		struct sp_work work;
	};
	uint64_t left;
	bool again;
};

#define JOBS 8
struct live {
	unsigned load;
	uint32_t qp;
	uint64_t packets, mark;
	struct job timer[JOBS], issue[JOBS], work[JOBS];
	void *kept[64];
	unsigned keeps;
};

struct live_message {
	unsigned load;
	uint64_t packets;
};

static struct live *state_of(struct sp_ctx *c)
{
	return c->state;
}

static void tell(struct sp_ctx *c, char what, uint64_t key, uint32_t serial)
{
	live_called(load, what, c->worker, state_of(c)->qp, key, serial);
}

static int configure(struct sp_ctx *c, uint64_t *area)
{
	(void)c;
	*area = live_orders.area;
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct live *s = state_of(c);
	uint32_t qp;

	s->qp = (uint32_t)sp_param_uint(c, "qp");
	tell(c, 'a', 0, 0);
	if (live_orders.attach && (!live_orders.fails_at || live_orders.fails_at == sp_param_uint(c, "qp")))
		return sp_fail(c, live_orders.attach, "", "ordered to fail");
	s->load = load;
	if (live_orders.qps && sp_qp_claim(c, live_orders.qps))
		return -EINVAL;
	if (live_orders.control && sp_qp_control(c, &qp))
		return -EINVAL;
	if (live_orders.area && !sp_host_area(c))
		return -EINVAL;
	if (live_orders.arms) {
		if (sp_timer_arm(c, &s->timer[JOBS - 1].timer, c->now + SP_MS))
			return -EINVAL;
		tell(c, 'T', 0, 0);
	}
	return MESSAGES == SP_MESSAGES_NONE
		       ? 0
		       : sp_messages_limit(c, (uint32_t)sp_param_uint(c, "messages"), sp_param_uint(c, "idle"));
}

static void detach(struct sp_ctx *c)
{
	struct live *s = state_of(c);

	while (s->keeps)
		sp_packet_release(c, s->kept[--s->keeps]);
	tell(c, 'd', s->packets, 0);
}

static struct live_words words_of(const struct sp_packet *p)
{
	struct live_words w = {.magic = 0};

	if (p->len >= sizeof(w))
		memcpy(&w, p->data, sizeof(w));
	return w.magic == LIVE_MAGIC ? w : (struct live_words){.key = SP_NO_MESSAGE};
}

#ifndef NO_MESSAGES
static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	(void)c;
	return words_of(p).key;
}

static uint32_t header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	const struct live_words w = words_of(p);
	struct live_message *s = m->state;

	tell(c, 'h', m->key, w.serial);
	if (w.action & LIVE_REFUSE)
		return SP_DROP(DROP_HEADER);
	s->load = load;
	return SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	const struct live_message *s = m->state;

	c->counters[COUNTER_OTHERS]++;
	tell(c, s->load && s->load != load ? '!' : 'c', m->key, why);
}
#endif

/* Of several workers each has one of its own. */
static struct job *job_free(const struct sp_ctx *c, struct job *job, size_t busy)
{
	const unsigned first = c->workers > 1 ? c->worker : 0, end = c->workers > 1 ? first + 1 : JOBS;

	for (unsigned i = first; i < end; i++)
		if (!*(const uint32_t *)((const uint8_t *)&job[i] + busy))
			return &job[i];
	return NULL;
}

static void act(struct sp_ctx *c, struct sp_packet *p, const struct live_words *w)
{
	struct live *s = state_of(c);
	struct job *j;

	if (w->action & LIVE_KEEP && c->workers == 1 && s->keeps < 64 && !sp_packet_keep(c, p))
		s->kept[s->keeps++] = p->buf;
	if (w->action & LIVE_RELEASE && c->workers == 1 && s->keeps) {
		sp_packet_release(c, s->kept[0]);
		memmove(s->kept, s->kept + 1, --s->keeps * sizeof(*s->kept));
	}
	if (w->action & LIVE_TIMER && (j = job_free(c, s->timer, offsetof(struct sp_timer, armed)))) {
		j->again = w->action & LIVE_AGAIN;
		if (!sp_timer_arm(c, &j->timer, c->now + w->arg))
			tell(c, 'T', 0, 0);
	}
	if (w->action & LIVE_ISSUE && c->worker == c->home &&
	    (j = job_free(c, s->issue, offsetof(struct sp_issue, active)))) {
		j->left = w->arg;
		sp_issue_start(c, &j->issue);
		tell(c, 'I', 0, 0);
	}
	if (w->action & LIVE_WORK && (j = job_free(c, s->work, offsetof(struct sp_work, active)))) {
		j->left = w->arg;
		sp_work_start(c, &j->work);
		tell(c, 'W', 0, 0);
	}
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	const struct live_words w = words_of(p);
	struct live *s = state_of(c);

	c->counters[COUNTER_SEEN]++;
	__atomic_fetch_add(&s->packets, 1, __ATOMIC_RELAXED);
	if (m) {
		struct live_message *ms = m->state;

		__atomic_fetch_add(&ms->packets, 1, __ATOMIC_RELAXED);
		if (ms->load != load)
			tell(c, '!', m->key, ms->load);
	}
	tell(c, s->load == load ? 'p' : '!', m ? m->key : SP_NO_MESSAGE, w.serial);
	if (w.action)
		act(c, p, &w);
	return w.verdict;
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct job *j = (struct job *)t;

	tell(c, 't', j->again, j->again ? (uint32_t)-sp_timer_arm(c, t, c->now + SP_US) : 0);
}

static int issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	struct job *j = (struct job *)i;

	(void)budget;
	tell(c, 'i', j->left > 1, 0);
	return j->left && --j->left ? SP_ISSUE_MORE : SP_ISSUE_DONE;
}

static bool work(struct sp_ctx *c, struct sp_work *w)
{
	struct job *j = (struct job *)w;

	tell(c, 'w', j->left > 1, 0);
	return j->left && --j->left;
}

static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct live *s = state_of(c);
	int r = 0;

	switch (cmd->op) {
	case LIVE_CMD_OPEN:
		r = sp_message_open(c, cmd->arg[0]);
		break;
	case LIVE_CMD_MARK:
		s->mark = cmd->arg[0];
		break;
	case LIVE_CMD_ASK:
		r = s->mark == cmd->arg[0] ? 0 : -ENOENT;
		break;
	default:
		return -EOPNOTSUPP;
	}
	result->arg[0] = load;
	tell(c, 'o', cmd->arg[0], (uint32_t)-r);
	return r;
}

#ifdef MIGRATES
static int migrate(struct sp_ctx *to, struct sp_ctx *from, enum sp_migrate when)
{
	struct live *t = to->state;
	const struct live *f = from->state;

	tell(to, when == SP_MIGRATE_SWAP ? 'm' : 'M', from->version << 32 | f->load, (uint32_t)f->packets);
	if (when == SP_MIGRATE_DRAINED)
		return 0;
	if (live_orders.migrate)
		return sp_fail(to, live_orders.migrate, "", "ordered not to migrate");
	t->mark = f->mark;
	return 0;
}
#endif

static const struct sp_param params[] = {
	{"messages", SP_UINT, "16", .min = 1, .max = 1024, .help = "at once"},
	{"idle", SP_TIME, "0us", .help = "timeout of messages"},
#ifdef NEEDS
	{NEEDS, SP_UINT, NULL, .help = "nobody gives it"},
#endif
	{NULL},
};

static const struct sp_handler live = {SP_HANDLER_HEAD,
				       .name = NAME,
				       .doc = "tells which load of its file it is",
				       .params = params,
				       .drops = drops,
				       .counters = counters,
				       .ctx_size = sizeof(struct live),
				       .msg_size = sizeof(struct live_message),
				       .messages = MESSAGES,
				       .flags = FLAGS,
				       .version = STATE_VERSION,
				       .configure = configure,
				       .attach = attach,
				       .detach = detach,
#ifndef NO_MESSAGES
				       .classify = classify,
				       .header = header,
				       .completion = completion,
#endif
#ifdef MIGRATES
				       .migrate = migrate,
#endif
				       .payload = payload,
				       .command = command,
				       .issue = issue,
				       .work = work,
				       .timer = timer};
SP_HANDLER(live)
