/* SPDX-License-Identifier: BSD-3-Clause */
/* The workers' threads, in real time. */
#include "engine.h"
#include "observe/fault.h"
#include "exec/measure.h"
#include "exec/scheduler.h"
#include "observe/watchdog.h"
#include "worker.h"
#include "worker_sleep.h"
#include "worker_wake.h"

#include <sched.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_rcu_qsbr.h>

#define AWAKE 64 /* rounds without work before a worker yields */

struct clock {
	uint64_t tsc0, mult; /* ps per cycle, 32.32 fixed point */
	sp_time t0;
};

static sp_time clock_at(const struct clock *c, uint64_t tsc)
{
	return c->t0 + (sp_time)(((unsigned __int128)(tsc - c->tsc0) * c->mult) >> 32);
}

/* Frames wait for a port, which says nothing when it goes on. */
static bool is_blocked(const struct sp_worker *w)
{
	for (unsigned i = 0; i <= SP_PORT_LOOP; i++)
		if (w->tx[i].count)
			return true;
	return false;
}

/* Until something is due; 0: now, or soon. */
static sp_time quiet(struct sp_worker *w)
{
	const sp_time next = sp_nic_next_deadline(w->nic, w->index);

	/* A sleep takes up to 100 us longer than it is asked for. */
	return w->issue_stuck || w->awaited || next < w->now + 150 * SP_US ? 0 : next - w->now - 100 * SP_US;
}

/* How long a worker may sleep that has found nothing to do in so many rounds; 0: it may not. A sleep takes up to twice
 * what it is asked for, and nobody sleeps through what is due: a pace would never be kept. */
static sp_time nap(struct sp_worker *w, unsigned rounds)
{
	sp_time left = SP_NEVER;

	if (w->nic->config.idle == SP_IDLE_YIELD || rounds < 256)
		return 0;
	if (!w->issue_stuck && !w->awaited) {
		left = sp_nic_next_deadline(w->nic, w->index);
		left = left > w->now ? left - w->now : 0;
	}
	if (left < 150 * SP_US)
		return 0;
	/* Nothing for some five milliseconds: waking up costs an idle NIC most of its processor time. */
	return rounds < 300 || w->issue_stuck || w->awaited || left < 400 * SP_US ? 50 * SP_US : 250 * SP_US;
}

/* Backs off when there is nothing to do, so that several workers share a core without starving each other. Returns the
 * rounds that count: who is woken looks for a while, as a driver may show a packet later than its descriptor does. */
static unsigned idle(struct sp_worker *w, unsigned rounds)
{
	sp_time time;

	if (w->drowsy) { /* it has looked once more */
		time = atomic_load_explicit(&w->nic->stop, memory_order_acquire) ? 0 : quiet(w);
		if (time && sp_sleep(w, time))
			rounds = AWAKE;
		sp_sleep_end(w);
	} else if (w->nic->config.idle == SP_IDLE_SPIN || rounds < AWAKE)
		rte_pause();
	else if (rounds >= 256 && w->can_sleep && !is_blocked(w) && quiet(w) && sp_sleep_begin(w))
		return rounds;
	else if (!(time = nap(w, rounds)))
		sched_yield();
	else
		nanosleep(&(struct timespec){.tv_nsec = (long)(time / SP_NS)}, NULL);
	return rounds;
}

static void *worker_main(void *arg)
{
	struct sp_worker *w = arg;
	struct clock clock = {.tsc0 = rte_rdtsc(),
			      .mult = (uint64_t)(((unsigned __int128)SP_SEC << 32) / rte_get_tsc_hz()),
			      .t0 = sp_clock()};
	unsigned rounds = 1;
	sp_time last = clock.t0;
	/* A DPDK lcore id gives the thread its own buffer cache; without one it only gets slower. */
	bool registered = !rte_thread_register();

	sp_fault_thread(w);
	rte_rcu_qsbr_thread_register(w->nic->readers, w->index);
	rte_rcu_qsbr_thread_online(w->nic->readers, w->index);
	w->late = SP_MS; /* the kernel runs others meanwhile */
	while (!atomic_load_explicit(&w->nic->stop, memory_order_acquire)) {
		const uint64_t tsc = rte_rdtsc();
		const sp_time now = clock_at(&clock, tsc);

		w->tsc = tsc;
		/* What the last round took, when there was no pause after it: no second look at the clock. */
		w->ran += now - last;
		w->busy += rounds ? 0 : now - last;
		last = now;
		rte_rcu_qsbr_quiescent(w->nic->readers, w->index); /* it has nothing in its hands */
		if (!sp_nic_poll(w->nic, w->index, now)) {
			rounds = idle(w, rounds + 1);
			continue;
		}
		rounds = 0;
		if (w->drowsy)
			sp_sleep_end(w);
	}
	w->tsc = 0;
	rte_rcu_qsbr_thread_offline(w->nic->readers, w->index);
	rte_rcu_qsbr_thread_unregister(w->nic->readers, w->index);
	sp_fault_thread(NULL);
	if (registered)
		rte_thread_unregister();
	return NULL;
}

static void join(struct sp_nic *nic, uint16_t workers)
{
	atomic_store(&nic->stop, true);
	for (uint16_t w = 0; w < workers; w++)
		sp_worker_wake(nic->worker[w]);
	for (uint16_t w = 0; w < workers; w++)
		pthread_join(nic->worker[w]->thread, NULL);
	sp_watchdog_stop(nic);
	sp_sleep_stop(nic);
	sp_meters_set(nic, false);
}

int sp_nic_start(struct sp_nic *nic)
{
	uint16_t begun = 0;
	int r = 0;

	pthread_mutex_lock(&nic->control);
	if (nic->started || nic->tracers) {
		r = nic->started ? -EALREADY : -EBUSY;
		pthread_mutex_unlock(&nic->control);
		return r;
	}
	atomic_store(&nic->stop, false);
	nic->started_at = sp_clock();
	sp_meters_set(nic, true);
	if (!nic->seeded)
		r = sp_workers_secret(nic);
	if (!r)
		r = sp_scheduler_create(nic);
	if (!r)
		r = sp_watchdog_create(nic);
	if (!r)
		sp_sleep_start(nic);
	while (!r && begun < nic->workers) {
		r = -pthread_create(&nic->worker[begun]->thread, NULL, worker_main, nic->worker[begun]);
		begun += !r;
	}
	if (!r)
		r = sp_watchdog_start(nic);
	nic->started = !r;
	if (r) {
		sp_watchdog_settle(nic);
		join(nic, begun);
	}
	pthread_mutex_unlock(&nic->control);
	return r;
}

void sp_nic_stop(struct sp_nic *nic)
{
	sp_watchdog_settle(nic);
	pthread_mutex_lock(&nic->control);
	if (nic->started) {
		join(nic, nic->workers);
		nic->started = false;
	}
	pthread_mutex_unlock(&nic->control);
}
