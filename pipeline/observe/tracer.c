/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the traces and calls them. */
#include "trace.h"
#include "../engine.h"
#include "../entity.h"
#include "../context.h"
#include "tap.h"
#include "../frame/parser.h"
#include "../view.h"
#include "traced.h"
#include "../worker.h"

#include <rte_mbuf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TELL(tracers, member, ...)                                                                                     \
	for (unsigned watch_ = 0; watch_ < (tracers)->count; watch_++)                                                 \
		if ((tracers)->watch[watch_].member)                                                                   \
	(tracers)->watch[watch_].member((tracers)->watch[watch_].arg, __VA_ARGS__)

const char *sp_called_name(enum sp_called called)
{
	static const char *const name[SP_CALLED_COUNT] = {
		[SP_CALLED_ATTACH] = "attach",	       [SP_CALLED_DETACH] = "detach",
		[SP_CALLED_CLASSIFY] = "classify",     [SP_CALLED_MISS] = "miss",
		[SP_CALLED_HEADER] = "header",	       [SP_CALLED_PAYLOAD] = "payload",
		[SP_CALLED_COMPLETION] = "completion", [SP_CALLED_COMMAND] = "command",
		[SP_CALLED_ISSUE] = "issue",	       [SP_CALLED_WORK] = "work",
		[SP_CALLED_TIMER] = "timer",	       [SP_CALLED_REPORT] = "report"};

	return (unsigned)called < SP_CALLED_COUNT ? name[called] : "?";
}

/* ---- calls ---- */

struct sp_tracers *sp_tracers_of(struct sp_ctx *c)
{
	return sp_view_of(c)->owner->nic->tracers;
}

static const struct sp_traced_call *innermost(const struct sp_tracers *w)
{
	return w->calling ? &w->calling->told : NULL;
}

void sp_trace_enter(struct sp_tracers *w, struct sp_calling *call)
{
	call->outer = w->calling;
	w->calling = call;
	TELL(w, enter, &call->told);
}

void sp_trace_leave(struct sp_tracers *w, struct sp_calling *call)
{
	TELL(w, leave, &call->told);
	w->calling = call->outer;
}

static void watch_wrote(struct sp_ctx *c, const struct sp_mem *mem, uint64_t offset, const void *from, uint64_t len)
{
	struct sp_tracers *w = sp_tracers_of(c);

	TELL(w, wrote, innermost(w), mem, offset, from, len);
}

void sp_trace_posted(struct sp_ctx *c, const struct sp_event *event)
{
	struct sp_tracers *w = sp_tracers_of(c);

	TELL(w, posted, innermost(w), event);
}

static void watch_wrong(struct sp_ctx *c, const char *format, va_list arguments)
{
	struct sp_tracers *w = sp_tracers_of(c);
	char what[256];

	vsnprintf(what, sizeof(what), format, arguments);
	TELL(w, wrong, innermost(w), what);
}

/* ---- received packets ---- */

static bool watch_arrive(struct sp_worker *w, uint16_t port, struct sp_packet *p, struct rte_mbuf **packet, unsigned n)
{
	struct sp_tracers *tracers = w->nic->tracers;
	struct rte_mbuf *m = packet[0];
	uint16_t ethertype;
	int parsed = -1 - SP_DROP_NOT_LINEAR;

	if (n > 1)
		return true;
	/* Parses as dispatch will do again: only trace needs the result this early. */
	memset(p, 0, sizeof(*p));
	p->buf = m;
	p->port = port;
	if (m->nb_segs > 1 && rte_pktmbuf_linearize(m)) {
		p->frame = rte_pktmbuf_mtod(m, uint8_t *);
		p->frame_len = m->data_len;
	} else {
		parsed = sp_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, p, &ethertype);
	}
	tracers->again = NULL;
	tracers->worker[w->index].packet = p;
	tracers->worker[w->index].matched = tracers->worker[w->index].ended = false;
	if (!w->handing) /* else reported on arrival at the other worker */
		TELL(tracers, arrived, p, parsed, w->now);
	return false;
}

static bool watch_again(struct sp_worker *w, const struct sp_waiting *waiting, unsigned n)
{
	struct sp_tracers *tracers = w->nic->tracers;

	if (n > 1)
		return true;
	tracers->worker[w->index].packet = &waiting->packet;
	tracers->worker[w->index].matched = true;
	tracers->worker[w->index].ended = false;
	return false;
}

static void watch_match(struct sp_worker *w)
{
	struct sp_tracers *tracers = w->nic->tracers;
	const struct sp_context *c;

	if (!w->actives || tracers->worker[w->index].matched) /* dropped or answered, or parked since */
		return;
	c = sp_entity_view(w->active[0])->context;
	tracers->worker[w->index].matched = true;
	TELL(tracers, matched, tracers->worker[w->index].packet, c->name, c->handler->name);
}

static void watch_queued(struct sp_worker *w, uint16_t port);

static void watch_fate(struct sp_worker *w, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason)
{
	struct sp_tracers *tracers = w->nic->tracers;

	if (fate == SP_CAPTURE_ANSWERED)
		for (uint16_t port = 0; port < w->nic->ports; port++)
			watch_queued(w, port);
	if (tracers->worker[w->index].packet == p)
		tracers->worker[w->index].ended = true;
	TELL(tracers, fate, p, fate, reason);
}

static void ended_for_now(struct sp_worker *w)
{
	w->nic->tracers->worker[w->index].ended = true; /* continues with watch_again() */
}

static struct sp_record *watch_park(struct sp_worker *w, const struct sp_packet *p)
{
	(void)p;
	ended_for_now(w);
	return NULL;
}

static void watch_hand_over(struct sp_worker *w, const struct sp_packet *p)
{
	(void)p;
	ended_for_now(w);
}

static void watch_forget(struct sp_worker *w, struct sp_waiting *waiting)
{
	watch_fate(w, &waiting->packet, SP_CAPTURE_DROPPED, sp_drop_names[SP_DROP_CONTEXT_CLOSED]);
}

static void watch_settle(struct sp_worker *w)
{
	struct sp_tracers *tracers = w->nic->tracers;
	const struct sp_packet *p = tracers->worker[w->index].packet;

	tracers->worker[w->index].packet = NULL;
	if (!tracers->worker[w->index].ended)
		TELL(tracers, fate, p, SP_CAPTURE_TAKEN, NULL);
}

/* ---- sent packets ---- */

static void tell_sent(struct sp_tracers *w, uint16_t port, const struct rte_mbuf *m, const struct sp_traced_call *call)
{
	const void *frame = rte_pktmbuf_read(m, 0, RTE_MIN(m->pkt_len, (uint32_t)SP_PACKET_ROOM), w->frame);

	TELL(w, sent, call, port, frame, m->pkt_len);
}

/* The count of frames ever queued tells which frames are not reported yet. */
static void tell_queued(struct sp_worker *worker, uint16_t port, unsigned last, const struct sp_traced_call *call)
{
	struct sp_tracers *w = worker->nic->tracers;
	const struct sp_tx_queue *q = &worker->tx[port];
	uint64_t *told = &w->worker[worker->index].sent[port];
	const uint64_t all = q->packets + q->count;

	while (*told < all) {
		const unsigned left = (unsigned)(all - (*told)++);

		if (left > last && port == SP_MAX_PORTS) /* forwarded: reported as fate */
			continue;
		tell_sent(w, port, q->packet[(q->head + q->count - left) % SP_TX_QUEUE], left > last ? NULL : call);
	}
}

/* The innermost call has queued the last frame for that port; the NIC itself has queued earlier ones. */
static void watch_sender(struct sp_worker *w, uint16_t port, uint32_t context)
{
	(void)context;
	tell_queued(w, port, 1, innermost(w->nic->tracers));
}

/* The NIC itself has queued all frames. */
static void watch_queued(struct sp_worker *w, uint16_t port)
{
	tell_queued(w, port, 0, NULL);
}

static void watch_offer(struct sp_worker *w, uint16_t port, unsigned at, unsigned n)
{
	(void)at;
	(void)n;
	watch_queued(w, port);
}

static const struct sp_tap_calls tap = {.arrive = watch_arrive,
					.again = watch_again,
					.match = watch_match,
					.fate = watch_fate,
					.park = watch_park,
					.forget = watch_forget,
					.hand_over = watch_hand_over,
					.settle = watch_settle,
					.sender = watch_sender,
					.offer = watch_offer,
					.wrote = watch_wrote,
					.posted = sp_trace_posted,
					.wrong = watch_wrong};

/* ---- control ---- */

static struct sp_tracers *create(const struct sp_nic *nic)
{
	struct sp_tracers *w = calloc(1, sizeof(*w));

	for (uint16_t i = 0; w && i < nic->workers; i++)
		for (unsigned port = 0; port <= SP_PORT_LOOP; port++)
			w->worker[i].sent[port] = nic->worker[i]->tx[port].packets + nic->worker[i]->tx[port].count;
	return w;
}

static int add(struct sp_nic *nic, const struct sp_tracer *watch)
{
	if (nic->started)
		return -EBUSY;
	for (uint32_t i = 0; i < nic->context_next; i++)
		if (nic->context[i])
			return -EBUSY;
	if (!nic->tracers)
		nic->tracers = create(nic);
	if (!nic->tracers)
		return -ENOMEM;
	if (nic->tracers->count == SP_MAX_TRACERS)
		return -ENOSPC;
	nic->tracers->watch[nic->tracers->count++] = *watch;
	for (uint16_t i = 0; i < nic->workers; i++)
		sp_tap_set(nic->worker[i], SP_OBSERVER_WATCH, &tap);
	return 0;
}

int sp_nic_trace(struct sp_nic *nic, const struct sp_tracer *watch)
{
	int r;

	pthread_mutex_lock(&nic->control);
	r = add(nic, watch);
	pthread_mutex_unlock(&nic->control);
	return r;
}
