/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring the handlers' calls, and saying what a worker is in meanwhile: a begin and an end around each run (meter.h
 * says what that is). Where nothing is measured (w->metering) no clock is read: in virtual time what becomes of a
 * packet must not depend on the machine.
 */
#ifndef PIPELINE_EXEC_MEASURE_H
#define PIPELINE_EXEC_MEASURE_H

#include <rte_branch_prediction.h>
#include <rte_cycles.h>

#include "../engine.h"
#include "../entity.h"
#include "../view.h"
#include "../worker.h"

struct sp_context;
struct sp_nic;

/* A context is disabled for this long after an overrun; for twice as long as before, if the overrun comes within two
 * pauses of the last pause's end. */
#define SP_PAUSE_LEAST (10 * SP_MS)
#define SP_PAUSE_MOST  (10 * SP_SEC)

/* Sets the clock to config.cycles, and measuring to on where that is given or the workers are started. Workers do not
 * run. */
void sp_meters_set(struct sp_nic *nic, bool started);

/* Accounts for one run of that many packets, or for one call without packets (0). [worker] */
void sp_meter_note(struct sp_view *v, uint64_t cycles, uint32_t packets);

/*
 * Until then the context's packets are dropped (context-disabled), its timers, work, issues and idle timeouts wait, its
 * commands are answered -EAGAIN. A companion is disabled with its first context, and the other way round. The time is
 * never made earlier. Threads: any that may look at the context.
 */
void sp_context_disable(struct sp_context *c, sp_time until);

/* As this worker sees it. */
static inline sp_time sp_view_until(const struct sp_view *v)
{
	return __atomic_load_n(&v->meter.until, __ATOMIC_RELAXED);
}

static inline bool sp_view_disabled(const struct sp_view *v)
{
	return unlikely(sp_view_until(v) > v->owner->now);
}

/* ---- what the worker is in ---- */

static inline void sp_doing_at(struct sp_worker *w, uint32_t at)
{
	__atomic_store_n(&w->doing.at, at, __ATOMIC_RELAXED);
}

/* packet: those of the run; NULL: a call without packets. */
static inline void sp_doing_begin(struct sp_worker *w, struct sp_view *v, enum sp_doing_what what,
				  struct sp_packet *const *packet, uint32_t packets)
{
	__atomic_store_n(&w->doing.what, what, __ATOMIC_RELAXED);
	__atomic_store_n(&w->doing.packet, packet, __ATOMIC_RELAXED);
	__atomic_store_n(&w->doing.packets, packets, __ATOMIC_RELAXED);
	sp_doing_at(w, 0);
	__atomic_store_n(&w->doing.view, v, __ATOMIC_RELAXED);
}

/* A companion's call within its context's. */
static inline void sp_doing_view(struct sp_worker *w, struct sp_view *v)
{
	__atomic_store_n(&w->doing.view, v, __ATOMIC_RELAXED);
}

/* Which of a handler's functions is called. Returns what it was before, to be set again after a call within a call. */
static inline uint32_t sp_doing_call(struct sp_worker *w, uint32_t what)
{
	const uint32_t before = __atomic_load_n(&w->doing.what, __ATOMIC_RELAXED);

	__atomic_store_n(&w->doing.what, what, __ATOMIC_RELAXED);
	return before;
}

static inline void sp_doing_end(struct sp_worker *w)
{
	__atomic_store_n(&w->doing.view, NULL, __ATOMIC_RELAXED);
}

/* ---- measuring ---- */

static inline uint64_t sp_meter_clock(const struct sp_worker *w)
{
	return unlikely(w->cycles != NULL) ? w->cycles(w->nic->config.cycles_arg) : rte_rdtsc();
}

#define SP_UNMEASURED UINT64_MAX /* instead of a time */

/*
 * Reading the TSC takes some 40 cycles: too much, twice for a burst of 32 small packets. So after a short run that was
 * measured, up to 15 runs are not, and are taken to have cost as much a packet. All runs are measured that follow one
 * of 8192 cycles or more, belong to a context with a budget, or are timed by config.cycles. False: the run must be
 * measured; else it has been accounted for.
 */
static inline bool sp_meter_estimate(struct sp_view *v, uint32_t packets)
{
	struct sp_sample *s = &v->sample[!packets];
	const uint32_t weight = packets + !packets;
	const uint64_t cycles = (uint64_t)s->each * weight;

	if (!s->left)
		return false;
	s->left--;
	v->meter.runs++;
	v->meter.packets += packets;
	v->meter.cycles += cycles;
	v->entity->cycles += cycles;
	v->meter.bucket[s->bucket] += weight;
	return true;
}

/* Before a run of packets. Of several in a row the end of one is the beginning of the next: one look at the clock. */
static inline uint64_t sp_meter_begin(struct sp_view *v, uint32_t packets)
{
	struct sp_worker *w = v->owner;

	if (!w->metering)
		return SP_UNMEASURED;
	if (sp_meter_estimate(v, packets)) {
		w->measured = SP_UNMEASURED;
		return SP_UNMEASURED;
	}
	return w->measured != SP_UNMEASURED ? w->measured : sp_meter_clock(w);
}

static inline void sp_meter_end(struct sp_view *v, uint64_t began, uint32_t packets)
{
	if (began != SP_UNMEASURED) {
		v->owner->measured = sp_meter_clock(v->owner);
		sp_meter_note(v, v->owner->measured - began, packets);
	}
}

/* A run without packets: returns what sp_call_end wants. */
static inline uint64_t sp_call_begin(struct sp_view *v, enum sp_doing_what what)
{
	sp_doing_begin(v->owner, v, what, NULL, 0);
	return v->owner->metering && !sp_meter_estimate(v, 0) ? sp_meter_clock(v->owner) : SP_UNMEASURED;
}

static inline void sp_call_end(struct sp_view *v, uint64_t began)
{
	if (began != SP_UNMEASURED)
		sp_meter_note(v, sp_meter_clock(v->owner) - began, 0);
	sp_doing_end(v->owner);
}

#endif
