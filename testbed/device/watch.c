/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "../../pipeline/limits.h"
#include "../guard.h"

#define LEVELS 16 /* calls within calls that are told apart */
#define AFTER  SP_DEVICE_INNER
#define KNOWN  16   /* handlers whose flags are known; a power of 2 */
#define FRAMES 8192 /* sent and not yet at the port; a power of 2 */

struct call {
	struct sp_device_job job;
	uint64_t number;
	uint64_t inner; /* cycles of calls within it */
};

struct frame {
	const void *at;
	uint32_t len;
	uint64_t call; /* that sends it; 0: its time is known */
	sp_time leaves;
};

struct frames { /* of a port, in the order in which the NIC queued them */
	struct frame ring[FRAMES];
	uint32_t first, count;
};

struct sp_device_watch {
	struct sp_device_run *run;
	struct call level[LEVELS], after[AFTER];
	unsigned depth, afters;
	uint64_t calls;
	struct sp_device_result result[AFTER + 1]; /* of the calls that have ended with the outermost one */
	unsigned results;
	int ended;	    /* what sp_device_watch_ended() says */
	const void *packet; /* the buffer of the packet that the device has at present */
	uint64_t spent;	    /* cycles in here, which are not the handlers' */
	struct {
		const char *name;
		bool order;
	} known[KNOWN]; /* by the name's address */
	struct frames port[SP_PORT_LOOP + 1];
};

/* ---- frames ---- */

static void frame_put(struct frames *f, struct frame frame)
{
	if (f->count == FRAMES) { /* nobody takes them: a port without a device's before it */
		f->first++;
		f->count--;
	}
	f->ring[(f->first + f->count++) % FRAMES] = frame;
}

/* The call has its time: so have the frames that it sent, which are the last ones. */
static void frames_time(struct sp_device_watch *w, const struct call *c, sp_time leaves)
{
	uint64_t left = c->job.work.frames;

	for (unsigned p = 0; p <= SP_PORT_LOOP && left; p++) {
		struct frames *f = &w->port[p];

		for (uint32_t i = f->count; i-- > 0 && left;) {
			struct frame *frame = &f->ring[(f->first + i) % FRAMES];

			if (frame->call == c->number) {
				frame->call = 0;
				frame->leaves = leaves;
				left--;
			}
		}
	}
}

/* From the newest on: the NIC hands a frame over soon after it was queued, and buffers come again. */
sp_time sp_device_watch_frame(struct sp_device_watch *w, unsigned port, const void *frame, uint32_t len)
{
	struct frames *f = &w->port[port];

	for (uint32_t i = f->count; i-- > 0;) {
		struct frame *at = &f->ring[(f->first + i) % FRAMES];

		if (at->len != len || (frame && at->at != frame))
			continue;
		at->len = 0; /* no frame's */
		return at->call ? 0 : at->leaves;
	}
	return 0;
}

/* ---- calls ---- */

static bool is_told(enum sp_called function)
{
	return function != SP_CALLED_ATTACH && function != SP_CALLED_DETACH && function != SP_CALLED_REPORT;
}

static bool wants_order(struct sp_device_watch *w, const char *handler)
{
	const size_t at = ((uintptr_t)handler >> 3) % KNOWN;
	const struct sp_handler *h;

	if (w->known[at].name != handler) {
		h = sp_handler_find(handler);
		w->known[at].name = handler;
		w->known[at].order = h && h->flags & SP_HANDLER_HOME;
	}
	return w->known[at].order;
}

static struct sp_device_result plan(struct sp_device_watch *w, const struct call *c)
{
	const struct sp_device_result r = sp_device_run_job(w->run, &c->job);

	frames_time(w, c, r.sent);
	return r;
}

static void packet_begin(struct sp_device_watch *w, const struct sp_traced_call *t)
{
	if (!t->packets || t->packet[0]->buf == w->packet)
		return;
	w->packet = t->packet[0]->buf;
	sp_device_run_packet(w->run, t->now, t->packet[0]->frame_len);
}

static struct call *innermost(struct sp_device_watch *w)
{
	return w->depth && w->depth <= LEVELS ? &w->level[w->depth - 1] : NULL;
}

static void enter(void *arg, const struct sp_traced_call *t)
{
	struct sp_device_watch *w = arg;
	const uint64_t since = rte_rdtsc();
	struct call *c;

	sp_guard_hold(); /* the run may allocate */
	w->depth++;
	c = innermost(w);
	if (c) {
		if (is_told(t->function) &&
		    (t->function != SP_CALLED_CLASSIFY || sp_device_run_device(w->run)->core_matches))
			packet_begin(w, t);
		*c = (struct call){.number = ++w->calls};
		c->job = (struct sp_device_job){
			.handler = t->handler,
			.function = t->function,
			.now = t->now,
			.packet = t->packets > 0,
			.serial = wants_order(w, t->handler),
			.has_message = t->message != NULL,
			.message = t->message ? t->message->key : 0,
			.context = t->id,
			.worker = t->worker,
		};
		for (unsigned i = 0; i < t->packets; i++)
			c->job.work.bytes += t->packet[i]->len;
	}
	sp_guard_let();
	w->spent += rte_rdtsc() - since;
	if (c)
		c->job.measured = (double)w->spent; /* until leave() */
}

/* The calls within it follow once it is over, in the order in which they ended. c: NULL: it takes no time itself. */
static void plan_all(struct sp_device_watch *w, const struct call *c)
{
	const struct sp_device_result outer = c ? plan(w, c) : (struct sp_device_result){0};

	for (w->results = 0; w->results < w->afters; w->results++) {
		struct call *inner = &w->after[w->results];

		inner->job.after = outer.end;
		inner->job.behind = outer.posted;
		w->result[w->results] = plan(w, inner);
	}
	w->afters = 0;
	if (c)
		w->result[w->results++] = outer;
}

/* Its own ones: without those of calls within it, and of what is done here. */
static void cycles_of(struct sp_device_watch *w, struct call *c, uint64_t cycles)
{
	const uint64_t here = w->spent - (uint64_t)c->job.measured, all = cycles > here ? cycles - here : 0;
	struct call *outer = innermost(w);

	c->job.measured = all > c->inner ? (double)(all - c->inner) : 0;
	if (outer)
		outer->inner += all;
}

static void leave(void *arg, const struct sp_traced_call *t)
{
	struct sp_device_watch *w = arg;
	const uint64_t since = rte_rdtsc();
	struct call *c = innermost(w);
	bool told;

	sp_guard_hold();
	w->depth--;
	w->ended = -ENOENT;
	if (c)
		cycles_of(w, c, t->cycles);
	told = c && is_told(t->function) &&
	       (t->function != SP_CALLED_CLASSIFY || sp_device_run_device(w->run)->core_matches);
	if (!w->depth) {
		plan_all(w, told ? c : NULL);
		w->ended = told ? (int)w->results : -ENOENT;
	} else if (told && w->afters < AFTER) {
		w->after[w->afters++] = *c;
		w->ended = 0;
	} else if (told) {
		plan(w, c);
	}
	sp_guard_let();
	w->spent += rte_rdtsc() - since;
}

static void arrived(void *arg, const struct sp_packet *p, int parsed, sp_time now)
{
	struct sp_device_watch *w = arg;

	(void)p;
	(void)parsed;
	(void)now;
	w->packet = NULL; /* a buffer may come again */
}

static void wrote(void *arg, const struct sp_traced_call *t, const struct sp_mem *mem, uint64_t offset,
		  const void *from, uint64_t len)
{
	struct call *c = innermost(arg);

	(void)mem;
	(void)offset;
	if (!c || !t)
		return;
	c->job.work.writes += len;
	c->job.work.words += !from;
}

static void sent(void *arg, const struct sp_traced_call *t, uint16_t port, const void *frame, uint32_t len)
{
	struct sp_device_watch *w = arg;
	struct call *c = innermost(w);
	const bool by_call = c && t && is_told(t->function);

	if (port > SP_PORT_LOOP)
		return;
	frame_put(&w->port[port], (struct frame){.at = frame, .len = len, .call = by_call ? c->number : 0});
	if (by_call)
		c->job.work.frames++;
}

static void posted(void *arg, const struct sp_traced_call *t, const struct sp_event *event)
{
	struct call *c = innermost(arg);

	if (!c || !t)
		return;
	c->job.work.events++;
	c->job.work.writes += sizeof(*event);
	c->job.work.event_bytes += sizeof(*event);
}

int sp_device_watch_create(struct sp_device_run *run, struct sp_device_watch **watch)
{
	*watch = calloc(1, sizeof(**watch));
	if (!*watch)
		return -ENOMEM;
	(*watch)->run = run;
	return 0;
}

int sp_device_watch_add(struct sp_device_watch *w, struct sp_nic *nic)
{
	return sp_nic_trace(nic, &(struct sp_tracer){.arg = w,
						     .arrived = arrived,
						     .enter = enter,
						     .leave = leave,
						     .wrote = wrote,
						     .sent = sent,
						     .posted = posted});
}

int sp_device_watch_ended(const struct sp_device_watch *w, const struct sp_device_result **result)
{
	*result = w->result;
	return w->ended;
}

void sp_device_watch_destroy(struct sp_device_watch *w)
{
	free(w);
}
