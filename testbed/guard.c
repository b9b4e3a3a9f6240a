/* SPDX-License-Identifier: BSD-3-Clause */
#include "guard_private.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sp_guard *volatile sp_guard_here;
volatile sig_atomic_t sp_guard_held;

void sp_guard_hold(void)
{
	sp_guard_held++;
	atomic_signal_fence(memory_order_seq_cst);
}

void sp_guard_let(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	sp_guard_held--;
}

/* ---- words ---- */
void sp_guard_describe(const struct sp_guard_level *l, char *text, size_t room)
{
	int n = snprintf(text, room, "context %s, handler %s, %s, ", l->context, l->handler,
			 sp_called_name(l->function));

	if (n < 0 || (size_t)n >= room)
		return;
	text += n;
	room -= (size_t)n;
	if (l->packet && l->last_packet != l->packet)
		snprintf(text, room, "packets %llu to %llu", (unsigned long long)l->packet,
			 (unsigned long long)l->last_packet);
	else if (l->packet)
		snprintf(text, room, "packet %llu", (unsigned long long)l->packet);
	else if (l->after)
		snprintf(text, room, "at %.9f s, after packet %llu", (double)l->now / (double)SP_SEC,
			 (unsigned long long)l->after);
	else
		snprintf(text, room, "before the first packet");
}

void sp_guard_complain(struct sp_guard *g, const char *text)
{
	if (g->complaints++ < SP_GUARD_SAID)
		g->config.say(g->config.arg, text);
}

/* ---- the watch ---- */
static void fill(struct sp_guard *g, struct sp_guard_level *l, const struct sp_traced_call *call)
{
	l->context = call->context;
	l->handler = call->handler;
	l->function = call->function;
	l->now = call->now;
	l->packet = l->last_packet = 0;
	l->frame = NULL;
	if (call->packets) {
		l->packet = sp_arrivals_find(&g->arrivals, call->packet[0]);
		l->last_packet = sp_arrivals_find(&g->arrivals, call->packet[call->packets - 1]);
		l->frame = call->packet[0]->frame;
		l->frame_len = call->packet[0]->frame_len;
		g->after = l->last_packet;
	}
	l->after = g->after;
}

static void enter(void *arg, const struct sp_traced_call *call)
{
	struct sp_guard *g = arg;

	if (g->depth < SP_GUARD_LEVELS) {
		struct sp_guard_level *l = &g->level[g->depth];

		fill(g, l, call);
		l->sequence = ++g->sequence;
	}
	atomic_signal_fence(memory_order_seq_cst);
	g->depth++;
}

static void leave(void *arg, const struct sp_traced_call *call)
{
	struct sp_guard *g = arg;

	(void)call;
	if (g->depth)
		g->depth--;
	atomic_signal_fence(memory_order_seq_cst);
}

static void arrived(void *arg, const struct sp_packet *p, int parsed, sp_time now)
{
	(void)parsed;
	(void)now;
	sp_arrivals_add(&((struct sp_guard *)arg)->arrivals, p);
}

static void fate(void *arg, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason)
{
	struct sp_arrivals *a = &((struct sp_guard *)arg)->arrivals;

	(void)fate;
	(void)reason;
	sp_arrivals_remove(a, sp_arrivals_find(a, p));
}

static void wrong(void *arg, const struct sp_traced_call *call, const char *what)
{
	struct sp_guard *g = arg;
	char text[1024];
	size_t n = 0;

	sp_guard_hold();
	if (call) {
		struct sp_guard_level l;

		fill(g, &l, call);
		sp_guard_describe(&l, text, sizeof(text) - 2);
		n = strlen(text);
		n += (size_t)sprintf(text + n, ": ");
	}
	snprintf(text + n, sizeof(text) - n, "%s", what);
	sp_guard_complain(g, text);
	sp_guard_let();
}

int sp_guard_add(struct sp_guard *g, struct sp_nic *nic)
{
	return sp_nic_trace(
		nic,
		&(struct sp_tracer){
			.arg = g, .arrived = arrived, .fate = fate, .enter = enter, .leave = leave, .wrong = wrong});
}

uint64_t sp_guard_complaints(const struct sp_guard *g)
{
	return g->complaints;
}
