/* SPDX-License-Identifier: BSD-3-Clause */
/* One round of a worker, and the threads that go round in real time. */
#include "worker.h"
#include "dispatch.h"
#include "handover.h"
#include "host.h"
#include "issue.h"
#include "loop.h"
#include "message.h"
#include "metered.h"
#include "port.h"
#include "share.h"
#include "timer.h"
#include "warden.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_rcu_qsbr.h>

struct sp_call {
	void (*fn)(struct sp_worker *, void *);
	void *arg;
	_Atomic bool done;
};

static inline uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

/* xoshiro256** by Blackman and Vigna (public domain) */
uint64_t sp_worker_random(struct sp_worker *w)
{
	uint64_t *s = w->random, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

static int call_worker(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg, bool give_up)
{
	struct sp_call call = {.fn = fn, .arg = arg};
	const struct timespec pause = {.tv_nsec = 10000};

	if (!w->nic->started) {
		fn(w, arg);
		return 0;
	}
	atomic_store_explicit(&w->call, &call, memory_order_release);
	while (!atomic_load_explicit(&call.done, memory_order_acquire)) {
		/* Either we take the call back, or the worker has it, and is in it or through. */
		if (give_up && unlikely(sp_warden_stopped(w->nic, w->index)) &&
		    atomic_exchange_explicit(&w->call, NULL, memory_order_acq_rel) == &call)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

void sp_worker_call(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg)
{
	call_worker(w, fn, arg, false);
}

int sp_worker_look(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg)
{
	return call_worker(w, fn, arg, true);
}

static void run_call(struct sp_worker *w)
{
	const sp_time began = sp_clock();
	struct sp_call *call = atomic_exchange_explicit(&w->call, NULL, memory_order_acq_rel);

	if (!call) /* taken back */
		return;
	call->fn(w, call->arg);
	atomic_fetch_add_explicit(&w->nic->called, sp_clock() - began + SP_US,
				  memory_order_relaxed);		/* SP_US: caches */
	atomic_store_explicit(&call->done, true, memory_order_release); /* the caller's stack: not ours any more */
}

/* ---- all of them at once ---- */

#define STANDING (2 * SP_SEC) /* how long a control call waits for workers to stand still */

struct sp_stand {
	_Atomic bool go;
	_Atomic unsigned standing;
	struct sp_call call[SP_MAX_WORKERS];
};

/* On every worker: there until it may go on. */
static void stand(struct sp_worker *w, void *arg)
{
	struct sp_stand *s = arg;

	atomic_fetch_add_explicit(&s->standing, 1, memory_order_release);
	while (!atomic_load_explicit(&s->go, memory_order_acquire)) {
		if (atomic_load_explicit(&w->call, memory_order_relaxed))
			run_call(w);
		else
			sched_yield(); /* it may be its processor that who is waited for needs */
	}
}

int sp_workers_stand(struct sp_nic *nic)
{
	const struct timespec pause = {.tv_nsec = 10000};
	const sp_time until = sp_clock() + STANDING;
	struct sp_stand *s;

	if (!nic->started)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	nic->stand = s;
	for (uint16_t i = 0; i < nic->workers; i++) {
		s->call[i] = (struct sp_call){.fn = stand, .arg = s};
		atomic_store_explicit(&nic->worker[i]->call, &s->call[i], memory_order_release);
	}
	while (atomic_load_explicit(&s->standing, memory_order_acquire) < nic->workers) {
		bool stopped = sp_clock() > until;

		for (uint16_t i = 0; i < nic->workers; i++)
			stopped |= sp_warden_stopped(nic, i);
		if (stopped) {
			for (uint16_t i = 0; i < nic->workers; i++) {
				struct sp_call *mine = &s->call[i];

				if (atomic_compare_exchange_strong(&nic->worker[i]->call, &mine, NULL))
					s->call[i].done = true; /* taken back */
			}
			sp_workers_go(nic);
			return -ETIMEDOUT;
		}
		nanosleep(&pause, NULL);
	}
	return 0;
}

void sp_workers_go(struct sp_nic *nic)
{
	const struct timespec pause = {.tv_nsec = 10000};
	struct sp_stand *s = nic->stand;

	if (!s)
		return;
	atomic_store_explicit(&s->go, true, memory_order_release);
	for (uint16_t i = 0; i < nic->workers; i++)
		while (!atomic_load_explicit(&s->call[i].done, memory_order_acquire))
			nanosleep(&pause, NULL);
	nic->stand = NULL;
	free(s);
}

/* What comes from the exception port (a kernel, a VM) leaves by the first port: that is its normal way. Answers to who
 * was heard by another port leave by that. */
static unsigned from_exception(struct sp_worker *w)
{
	struct rte_mbuf *packet[SP_BURST];
	unsigned n = sp_port_receive(&w->nic->exception, w->index, packet, w->now);

	for (unsigned i = 0; i < n; i++) {
		const uint8_t *to = rte_pktmbuf_mtod(packet[i], const uint8_t *);
		uint16_t port = 0;

		if (w->nic->ports > 1 && packet[i]->data_len >= RTE_ETHER_ADDR_LEN)
			port = sp_station_port(&w->nic->stations, to);
		if (sp_transmit_packet(w, port, packet[i]))
			rte_pktmbuf_free(packet[i]);
	}
	return n;
}

static unsigned sweep(struct sp_worker *w)
{
	unsigned n = 0;

	for (struct sp_context *c = w->sweeping; c; c = c->sweep_next)
		if (w->now >= c->sweep_at) {
			struct sp_view *v = c->view[w->index];

			n++;
			if (sp_view_disabled(v)) {
				c->sweep_at = sp_view_until(v);
				continue;
			}
			/* completion(); what looking costs is ours */
			sp_doing_begin(w, v, SP_DOING_COMPLETION, NULL, 0);
			c->sweep_at = sp_messages_sweep(v);
			sp_doing_end(w);
		}
	return n;
}

/* Before calls that take long: behind what waits there may be packets of others, which shall not. */
static unsigned receive_more(struct sp_worker *w)
{
	struct sp_nic *nic = w->nic;
	struct rte_mbuf *packet[SP_BURST];
	unsigned done = 0, n, all;

	for (unsigned i = 0; w->handed && i < SP_HANDOVER / SP_BURST && (n = sp_handover_receive(w)); i++)
		done += n;
	for (unsigned i = 0; w->tx[SP_PORT_LOOP].count && i < SP_TX_QUEUE / SP_BURST; i++)
		done += sp_loop_receive(w);
	for (uint16_t i = 0; i < nic->ports; i++)
		for (all = 0; all < SP_BACKLOG; all += n, done += n) {
			n = sp_port_receive(&nic->port[i], w->index, packet, w->now);
			if (!n)
				break;
			sp_dispatch(w, i, packet, n);
		}
	return done;
}

unsigned sp_nic_poll(struct sp_nic *nic, uint16_t index, sp_time now)
{
	struct sp_worker *w = nic->worker[index];
	struct rte_mbuf *packet[SP_BURST];
	unsigned done = 0, n;

	w->now = now;
	if (unlikely(atomic_load_explicit(&w->call, memory_order_relaxed) != NULL))
		run_call(w);
	if (unlikely(w->parked_count))
		done += sp_dispatch_parked(w);
	if (w->share)
		sp_share_begin(w);
	if (unlikely(w->handed != NULL))
		done += sp_handover_receive(w);
	if (unlikely(w->tx[SP_PORT_LOOP].count))
		done += sp_loop_receive(w);
	for (uint16_t i = 0; i < nic->ports; i++) {
		n = sp_port_receive(&nic->port[i], index, packet, now);
		if (n)
			sp_dispatch(w, i, packet, n);
		done += n;
	}
	if (unlikely(sp_share_packets(w) != 0)) {
		done += receive_more(w);
		done += sp_share_run(w);
	}
	if (w->timers && w->timers->at <= now)
		done += sp_timers_run(w);
	done += sp_commands_run(w);
	if (w->working)
		done += sp_work_run(w);
	if (w->issuing || w->elsewhere)
		done += sp_issues_run(w);
	if (unlikely(w->pending_count))
		sp_transmit_pending(w);
	if (unlikely(w->sweeping != NULL))
		done += sweep(w);
	if (unlikely(w->dead))
		sp_messages_reclaim(w);
	if (index == 0 && now >= sp_neighbours_deadline(nic->neighbours))
		sp_neighbours_tick(w, now);
	if (unlikely(nic->has_exception))
		done += from_exception(w);
	sp_transmit_flush(w);
	if (unlikely(w->issue_stuck))
		sp_transmit_reclaim(w);
	if (unlikely(w->touched != NULL))
		sp_doorbells_ring(w);
	__atomic_store_n(&w->polls, w->polls + 1, __ATOMIC_RELAXED);
	w->busy_polls += done != 0;
	return done;
}

sp_time sp_nic_next_deadline(struct sp_nic *nic, uint16_t index)
{
	struct sp_worker *w = nic->worker[index];
	sp_time next = SP_NEVER;

	if (w->parked_count || sp_share_packets(w) || (w->working && sp_work_next(w) <= w->now) ||
	    w->tx[SP_PORT_LOOP].count || sp_commands_waiting(w) || sp_handover_waits(w))
		return w->now;
	if (w->timers)
		next = RTE_MIN(next, w->timers->at);
	if (w->working)
		next = RTE_MIN(next, sp_work_next(w));
	for (struct sp_context *c = w->elsewhere; c; c = c->elsewhere_next)
		if (__atomic_load_n(&c->issue_elsewhere, __ATOMIC_RELAXED))
			return w->now;
	for (struct sp_context *c = w->sweeping; c; c = c->sweep_next)
		if (sp_messages_started(c)) /* those without a packet do not time out */
			next = RTE_MIN(next, c->sweep_at);
	for (uint16_t i = 0; i < nic->ports; i++)
		if (nic->port[i].ops)
			next = RTE_MIN(next, nic->port[i].ops->next(nic->port[i].arg, index, w->tx[i].count != 0));
	if (nic->has_exception && nic->exception.ops)
		next = RTE_MIN(next,
			       nic->exception.ops->next(nic->exception.arg, index, w->tx[SP_MAX_PORTS].count != 0));
	/* A full port says when it goes on, and most often it is what all wait for; unless there is another way out. */
	if (w->issuing &&
	    (!w->tx[0].count || nic->ports > 1 || atomic_load_explicit(&nic->looping, memory_order_relaxed))) {
		/* A context that could not send in its last turn waits for the port or a neighbour, not for its pace.
		 */
		sp_time at = sp_issues_next(w);
		/* With no room to wait for a neighbour it is seconds; the answer itself is a packet, and comes at once.
		 */
		sp_time stuck = w->now + (w->pending_count == SP_NEIGHBOUR_PENDING ? SP_MS : SP_US);

		next = RTE_MIN(next, at > w->now || !w->issue_stuck ? at : stuck);
	}
	if (w->pending_count)
		next = RTE_MIN(next, w->now + SP_MS);
	if (index == 0)
		next = RTE_MIN(next, sp_neighbours_deadline(nic->neighbours));
	return next;
}

/* ---- real time ---- */

struct clock {
	uint64_t tsc0, mult; /* ps per cycle, 32.32 fixed point */
	sp_time t0;
};

static sp_time clock_now(const struct clock *c)
{
	return c->t0 + (sp_time)(((unsigned __int128)(rte_rdtsc() - c->tsc0) * c->mult) >> 32);
}

/* Backs off when there is nothing to do, so that several workers share a core without starving each other. */
static void idle(struct sp_worker *w, unsigned rounds)
{
	const struct timespec pause = {.tv_nsec = 50000};

	if (w->nic->config.idle == SP_IDLE_SPIN || rounds < 64)
		rte_pause();
	/* Nobody sleeps through what is due: a sleep takes twice what it is asked for, and a pace would never be kept.
	 */
	else if (w->nic->config.idle == SP_IDLE_YIELD || rounds < 256 ||
		 (!w->issue_stuck && sp_nic_next_deadline(w->nic, w->index) < w->now + 150 * SP_US))
		sched_yield();
	else
		nanosleep(&pause, NULL);
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
		const sp_time now = clock_now(&clock);

		/* What the last round took, when there was no pause after it: no second look at the clock. */
		w->ran += now - last;
		w->busy += rounds ? 0 : now - last;
		last = now;
		rte_rcu_qsbr_quiescent(w->nic->readers, w->index); /* it has nothing in its hands */
		if (sp_nic_poll(w->nic, w->index, now))
			rounds = 0;
		else
			idle(w, ++rounds);
	}
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
		pthread_join(nic->worker[w]->thread, NULL);
	sp_warden_stop(nic);
	sp_meters_set(nic, false);
}

int sp_nic_start(struct sp_nic *nic)
{
	uint16_t begun = 0;
	int r = 0;

	pthread_mutex_lock(&nic->control);
	if (nic->started || nic->watcher) {
		r = nic->started ? -EALREADY : -EBUSY;
		pthread_mutex_unlock(&nic->control);
		return r;
	}
	atomic_store(&nic->stop, false);
	nic->started_at = sp_clock();
	sp_meters_set(nic, true);
	r = sp_share_create(nic);
	if (!r)
		r = sp_warden_create(nic);
	while (!r && begun < nic->workers) {
		r = -pthread_create(&nic->worker[begun]->thread, NULL, worker_main, nic->worker[begun]);
		begun += !r;
	}
	if (!r)
		r = sp_warden_start(nic);
	nic->started = !r;
	if (r) {
		sp_warden_settle(nic);
		join(nic, begun);
	}
	pthread_mutex_unlock(&nic->control);
	return r;
}

void sp_nic_stop(struct sp_nic *nic)
{
	sp_warden_settle(nic);
	pthread_mutex_lock(&nic->control);
	if (nic->started) {
		join(nic, nic->workers);
		nic->started = false;
	}
	pthread_mutex_unlock(&nic->control);
}
