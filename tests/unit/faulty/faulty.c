/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handler that does wrong when it is told to: the first byte of a packet says what, the second one is the message's
 * key. What does not come back spins here, in the plug-in's own code, or waits in the kernel.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <spindle-handler.h>

enum { OUT_OF_PLACE };
static const char *const drops[] = {[OUT_OF_PLACE] = "out-of-place", NULL};
enum { SERVED, COMPLETED, TIMED, WORKED, COMMANDED, DETACHED };
static const char *const counters[] = {"served", "completed", "timed", "worked", "commanded", "detached", NULL};
static const struct sp_param params[] = {
	{"in-configure", SP_BOOL, "no", 0, 0, "configure() does not come back"},
	{"in-attach", SP_BOOL, "no", 0, 0, "attach() does not come back"},
	{"in-detach", SP_BOOL, "no", 0, 0, "detach() does not come back"},
	{"in-report", SP_BOOL, "no", 0, 0, "report() does not come back"},
	{"pipe", SP_UINT, "0", 0, 0, "descriptor that W reads from: until then it waits"},
	{NULL},
};

struct state {
	struct sp_timer timer;
	struct sp_work work;
	const struct sp_mem *area;
	pthread_mutex_t lock;
	int pipe, zero;
	void *nowhere;		     /* NULL */
	char in_completion, in_work; /* what these two are to do */
	bool in_detach, in_report;
};

static volatile int on = 1;

/* Of the program that has loaded this: returns after a while; says whether calls still do not come back. */
void faulty_outside(void) __attribute__((weak));
int faulty_stays(void) __attribute__((weak));

static int stays(void)
{
	return on && (!faulty_stays || faulty_stays());
}

static void spin(void)
{
	while (stays())
		;
}

static int configure(struct sp_ctx *c, uint64_t *area)
{
	*area = 4096;
	if (sp_param_uint(c, "in-configure"))
		spin();
	return 0;
}

/* Until the stack is used up. */
static uint32_t deeper(struct state *s);
static uint32_t (*volatile deep_again)(struct state *) = deeper; /* the compiler must not see through it */

static uint32_t deeper(struct state *s)
{
	volatile char much[4096];

	much[0] = (char)s->zero;
	return deep_again(s) + (uint32_t)much[0];
}

__attribute__((no_sanitize("undefined", "address"))) static uint32_t crash(struct state *s, uint8_t how)
{
	switch (how) {
	case '0':
		*(volatile int *)s->nowhere = 1;
		break;
	case '1':
		abort();
	case '2':
		on /= s->zero;
		break;
	case '3':
		__builtin_trap();
	case '4':
		return deeper(s);
	}
	return SP_DONE;
}

static int attach(struct sp_ctx *c)
{
	struct state *s = c->state;

	pthread_mutex_init(&s->lock, NULL);
	s->pipe = (int)sp_param_uint(c, "pipe");
	s->in_detach = sp_param_uint(c, "in-detach");
	s->in_report = sp_param_uint(c, "in-report");
	s->area = sp_host_area(c);
	if (sp_param_uint(c, "in-attach"))
		spin();
	return sp_messages_limit(c, 64, 0);
}

static void detach(struct sp_ctx *c)
{
	const struct state *s = c->state;

	c->counters[DETACHED]++;
	if (s->in_detach)
		spin();
}

static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	(void)c;
	if (p->len < 2)
		return SP_REJECT(OUT_OF_PLACE);
	if (p->data[0] == 'c')
		spin();
	return p->data[1];
}

static uint32_t header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)c, (void)m;
	if (p->data[0] == 'h')
		spin();
	return SP_DONE;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct state *s = c->state;
	char byte;

	c->counters[SERVED]++;
	switch (p->data[0]) {
	case 'p': /* payload() does not come back; */
		spin();
		break;
	case 'n': /* and is in the NIC's code nearly always; */
		while (stays())
			sp_hash(c, p->frame, 64);
		break;
	case 'N': /* and is in others' so long each time that nobody ever sees it here; */
		while (stays() && faulty_outside)
			faulty_outside();
		break;
	case 'B': /* breaks off, as for a debugger; */
#if defined(__x86_64__)
		__asm__ volatile("int3");
#endif
		break;
	case 'e': /* the message ends, and completion() does not come back; */
		s->in_completion = 'p';
		return SP_END;
	case 'E': /* the same, within this call; */
		s->in_completion = 'p';
		sp_message_close(c, m->key == 1 ? 2 : 1);
		break;
	case 't': /* nor timer(), */
		sp_timer_arm(c, &s->timer, c->now);
		break;
	case 'w': /* nor work() */
		s->in_work = 'p';
		sp_work_start(c, &s->work);
		break;
	case 'W': /* waits in a system call, until somebody writes */
		return read(s->pipe, &byte, 1) == 1 ? SP_DONE : SP_ERROR;
	case 's': /* sleeps for ever */
		while (on)
			sleep(1000);
		break;
	case 'l': /* waits for a lock that it has */
		pthread_mutex_lock(&s->lock);
		pthread_mutex_lock(&s->lock);
		break;
	case '0': /* crashes, in each way; */
	case '1':
	case '2':
	case '3':
	case '4':
		return crash(s, p->data[0]);
	case 'S': /* a signal comes in the middle of it */
		raise(SIGUSR2);
		break;
	case 'v':
		return 99; /* no verdict */
	case 'd':
		return sp_dma_write(c, s->area, 4090, p->data, 16) ? SP_DROP(OUT_OF_PLACE) : SP_DONE;
	case 'k':
		sp_packet_keep(c, p);
		break;
	}
	return SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	const struct state *s = c->state;

	(void)m, (void)why;
	c->counters[COMPLETED]++;
	if (s->in_completion)
		spin();
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	(void)t;
	c->counters[TIMED]++;
	spin();
}

static bool work(struct sp_ctx *c, struct sp_work *w)
{
	const struct state *s = c->state;

	(void)w;
	c->counters[WORKED]++;
	if (s->in_work)
		spin();
	return false;
}

static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	(void)cmd, (void)result;
	c->counters[COMMANDED]++;
	spin();
	return 0;
}

static void report(struct sp_ctx *c, struct sp_report *r)
{
	const struct state *s = c->state;

	sp_report_open(r, "faulty", false);
	if (s->in_report)
		spin();
	sp_report_close(r);
}

static const struct sp_handler faulty = {
	SP_HANDLER_HEAD,
	.name = "faulty",
	.doc = "does wrong when it is told to",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct state),
	.messages = SP_MESSAGES_HASHED,
	.configure = configure,
	.attach = attach,
	.detach = detach,
	.classify = classify,
	.header = header,
	.payload = payload,
	.completion = completion,
	.command = command,
	.work = work,
	.timer = timer,
	.report = report,
};
SP_HANDLER(faulty)
