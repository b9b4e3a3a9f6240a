/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts' calls, measured, and what a worker is in meanwhile. Where nothing is measured (w->metering) no clock is
 * read: in virtual time what becomes of a packet must not depend on the machine.
 */
#ifndef PIPELINE_METERED_H
#define PIPELINE_METERED_H

#include <rte_branch_prediction.h>
#include <rte_cycles.h>

#include "worker.h"

/* How long a context is disabled after an overrun; twice as long after one that follows within two pauses of the last
 * one's end. */
#define SP_PAUSE_LEAST (10 * SP_MS)
#define SP_PAUSE_MOST  (10 * SP_SEC)

/* Of config.cycles, and on when it is given or the workers are started. Workers do not run. */
void sp_meters_set(struct sp_nic *nic, bool started);

/* One turn of that many packets, or one call without any (0). [worker] */
void sp_meter_note(struct sp_view *v, uint64_t cycles, uint32_t packets);

/*
 * Until then its packets are dropped (context-disabled), its timers, work, issues and idle timeouts wait, its commands
 * are answered -EAGAIN. A companion goes with its first context, and the other way round. It is never made less.
 * Threads: any that may look at the context.
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

static inline uint64_t sp_meter_clock(const struct sp_worker *w)
{
	return unlikely(w->cycles != NULL) ? w->cycles(w->nic->config.cycles_arg) : rte_rdtsc();
}

#define SP_UNMEASURED UINT64_MAX /* instead of what the clock has said */

/*
 * A look at the TSC costs some 40 cycles: two for a burst of 32 small packets are more than may be. So where turns are
 * short, as many go unmeasured after each as keep that at about 1 %, at most 15, and are taken to have cost as much a
 * packet as that one. All are measured that follow one of 8192 cycles or more, of a context with a budget, or by
 * config.cycles. Whether this one, which is of so many packets, need not be; then it is counted.
 */
static inline bool sp_meter_alike(struct sp_view *v, uint32_t packets)
{
	struct sp_alike *a = &v->alike[!packets];
	const uint32_t weight = packets + !packets;

	if (!a->left)
		return false;
	a->left--;
	v->meter.turns++;
	v->meter.packets += packets;
	v->meter.cycles += (uint64_t)a->each * weight;
	v->meter.bucket[a->bucket] += weight;
	return true;
}

static inline void sp_doing_at(struct sp_worker *w, uint32_t at)
{
	__atomic_store_n(&w->doing.at, at, __ATOMIC_RELAXED);
}

/* packet: of the turn, NULL: a call without. */
static inline void sp_doing_begin(struct sp_worker *w, struct sp_view *v, enum sp_doing_what what,
				  struct sp_packet *const *packet, uint32_t packets)
{
	__atomic_store_n(&w->doing.what, what, __ATOMIC_RELAXED);
	__atomic_store_n(&w->doing.packet, packet, __ATOMIC_RELAXED);
	__atomic_store_n(&w->doing.packets, packets, __ATOMIC_RELAXED);
	sp_doing_at(w, 0);
	__atomic_store_n(&w->doing.view, v, __ATOMIC_RELAXED);
}

/* A call within another one: of a companion. */
static inline void sp_doing_view(struct sp_worker *w, struct sp_view *v)
{
	__atomic_store_n(&w->doing.view, v, __ATOMIC_RELAXED);
}

/* A call within another one: returns what it was before, which is to be set again. */
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

/* A turn without packets: returns what sp_metered_end wants. */
static inline uint64_t sp_metered_begin(struct sp_view *v, enum sp_doing_what what)
{
	sp_doing_begin(v->owner, v, what, NULL, 0);
	return v->owner->metering && !sp_meter_alike(v, 0) ? sp_meter_clock(v->owner) : SP_UNMEASURED;
}

static inline void sp_metered_end(struct sp_view *v, uint64_t began)
{
	if (began != SP_UNMEASURED)
		sp_meter_note(v, sp_meter_clock(v->owner) - began, 0);
	sp_doing_end(v->owner);
}

#endif
