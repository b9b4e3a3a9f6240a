/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wrong: a handler that does on purpose what handlers may not do. `deed` says what, `at` with which packet; the others
 * it sends back. wrong-no-timer is the same without timer().
 */
#include <stdlib.h>
#include <unistd.h>

#include "spindle-handler.h"

static const char *const drops[] = {"unwanted", NULL};

enum { AREA = 4096 };

struct wrong {
	const char *deed;
	uint64_t at, packets;
	const struct sp_mem *area;
	uint8_t *given; /* 100 bytes */
	struct sp_timer timer;
	struct sp_work work;
	struct sp_issue issue;
	uint64_t last[1];
};

struct message {
	uint64_t packets;
};

static bool is(const struct wrong *s, const char *deed)
{
	return !strcmp(s->deed, deed);
}

static int configure(struct sp_ctx *c, uint64_t *area)
{
	(void)c;
	*area = AREA;
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct wrong *s = c->state;

	s->deed = sp_param_string(c, "deed");
	s->at = sp_param_uint(c, "at");
	if (is(s, "silent-attach"))
		return -EINVAL;
	s->area = sp_host_area(c);
	s->given = sp_alloc(c, 100);
	if (!s->given || sp_messages_limit(c, 16, 0))
		return sp_fail(c, ENOMEM, NULL, "no memory");
	if (is(s, "attach-null"))
		*(volatile int *)(uintptr_t)s->packets = 1;
	return 0;
}

static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	struct wrong *s = c->state;

	(void)p;
	s->packets++;
	if (s->packets == s->at && is(s, "reject"))
		return SP_REJECT(9);
	return 1;
}

/* Volatile, so that the compiler neither sees through it nor makes a loop of it. */
static int deeper(volatile int *n);
static int (*volatile deep)(volatile int *) = deeper;
static int __attribute__((noinline)) deeper(volatile int *n)
{
	volatile int more[64] = {*n};

	return deep(more) + more[1];
}

static void keep(struct sp_ctx *c, struct sp_packet *p, unsigned released)
{
	void *buf = p->buf;

	sp_packet_keep(c, p);
	while (released--)
		sp_packet_release(c, buf);
}

/* What goes wrong within the call, and whether that is all: then the packet is taken. */
static bool misbehave(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	static int *volatile null;
	static volatile int zero;
	struct wrong *s = c->state;
	volatile int n = 1;

	if (is(s, "dma-beyond"))
		sp_dma_write(c, s->area, AREA - 4, p->frame, 16);
	else if (is(s, "dma-unaligned"))
		sp_dma_add64(c, s->area, 4, 1, NULL);
	else if (is(s, "ctx-overrun"))
		memset(s->last, 0xFF, sizeof(s->last) + (size_t)(8 + zero));
	else if (is(s, "ctx-far")) /* as where the size of a pointer is declared, and not what it points to */
		memset((uint8_t *)s + sizeof(*s) + 4000 + zero, 0, 8);
	else if (is(s, "msg-far"))
		memset((uint8_t *)m->state + sizeof(struct message) + 200 + zero, 0, 8);
	else if (is(s, "msg-overrun"))
		memset(m->state, 0xFF, sizeof(struct message) + (size_t)(8 + zero));
	else if (is(s, "alloc-overrun"))
		memset(s->given, 0xFF, (size_t)(104 + zero));
	else if (is(s, "counter"))
		c->counters[3 + zero]++;
	else if (is(s, "undeclared"))
		sp_param_uint(c, "at-once");
	else if (is(s, "keep"))
		keep(c, p, 0);
	else if (is(s, "release-twice"))
		keep(c, p, 2);
	else if (is(s, "spin"))
		while (!zero)
			;
	else if (is(s, "sleep"))
		while (!zero)
			sleep(3600);
	else if (is(s, "recursion"))
		deep(&n);
	else if (is(s, "null"))
		*null = 1;
	else if (is(s, "divide"))
		n /= zero;
	else if (is(s, "abort"))
		abort();
	else if (is(s, "exit"))
		exit(0);
	else if (is(s, "timer"))
		sp_timer_arm(c, &s->timer, c->now);
	else if (is(s, "work"))
		sp_work_start(c, &s->work);
	else if (is(s, "issue"))
		sp_issue_start(c, &s->issue);
	else
		return false;
	return true;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct wrong *s = c->state;

	((struct message *)m->state)->packets++;
	if (s->packets != s->at)
		return sp_packet_send(c, p) ? SP_DONE : SP_SENT;
	if (misbehave(c, m, p))
		return SP_DONE;
	if (is(s, "verdict"))
		return 99;
	if (is(s, "reason"))
		return SP_DROP(7);
	if (is(s, "again"))
		return SP_AGAIN;
	if (is(s, "sent"))
		return SP_SENT;
	return is(s, "end") || is(s, "completion") ? SP_END : SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end end)
{
	struct wrong *s = c->state;

	(void)m;
	while (end == SP_END_VERDICT && is(s, "completion"))
		__asm__ volatile("");
}

static void detach(struct sp_ctx *c)
{
	while (is(c->state, "detach"))
		__asm__ volatile("");
}

static int issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	(void)c;
	(void)budget;
	return i->cookie++ ? SP_ISSUE_DONE : 9;
}

static bool work(struct sp_ctx *c, struct sp_work *w)
{
	(void)c;
	(void)w;
	return true;
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	sp_timer_arm(c, t, c->now);
}

static const struct sp_param params[] = {{"deed", SP_STRING, NULL, 0, 0, "what to do wrong"},
					 {"at", SP_UINT, "3", 1, 0, "with which packet, counted from 1"},
					 {NULL}};

#define COMMON                                                                                                         \
	SP_HANDLER_HEAD, .doc = "does wrong on purpose", .params = params, .drops = drops,                             \
			 .ctx_size = sizeof(struct wrong), .msg_size = sizeof(struct message),                         \
			 .messages = SP_MESSAGES_HASHED, .configure = configure, .attach = attach,                     \
			 .classify = classify, .payload = payload, .completion = completion, .detach = detach

static const struct sp_handler wrong = {COMMON, .name = "wrong", .issue = issue, .work = work, .timer = timer};
static const struct sp_handler wrong_no_timer = {COMMON, .name = "wrong-no-timer"};

SP_HANDLER(wrong)
SP_HANDLER(wrong_no_timer)
