/* SPDX-License-Identifier: BSD-3-Clause */
/* One round of a worker. */
#include "rx/dispatch.h"
#include "engine.h"
#include "context.h"
#include "exec/handover.h"
#include "exec/rings.h"
#include "exec/issue.h"
#include "exec/message.h"
#include "exec/measure.h"
#include "tx/neighbour.h"
#include "tx/pending.h"
#include "ports/port.h"
#include "exec/run.h"
#include "exec/scheduler.h"
#include "exec/timer.h"
#include "tx/transmit.h"
#include "view.h"
#include "exec/work.h"
#include "worker.h"
#include "worker_call.h"
#include "worker_sleep.h"

/* What comes from the exception port (a kernel, a VM) leaves by the first port; a frame for a station whose packets
 * came by another port leaves by that one. */
static unsigned from_exception(struct sp_worker *w)
{
	struct rte_mbuf *packet[SP_BURST];
	unsigned n = sp_port_receive(w->nic->exception, w->index, packet, w->now);

	for (unsigned i = 0; i < n; i++) {
		const uint8_t *to = rte_pktmbuf_mtod(packet[i], const uint8_t *);
		uint16_t port = 0;

		if (w->nic->ports > 1 && packet[i]->data_len >= RTE_ETHER_ADDR_LEN)
			port = sp_mac_table_port(&w->nic->macs, to);
		if (sp_transmit_packet(w, port, packet[i]))
			rte_pktmbuf_free(packet[i]);
	}
	return n;
}

static unsigned sweep(struct sp_worker *w)
{
	struct sp_context *c;
	unsigned n = 0;

	LIST_FOREACH (c, &w->sweeping, sweeping)
		if (w->now >= c->sweep_at) {
			struct sp_view *v = c->view[w->index];

			n++;
			if (sp_view_disabled(v)) {
				c->sweep_at = sp_view_until(v);
				continue;
			}
			/* for completion(); the search itself is not charged to the context */
			sp_doing_begin(w, v, SP_DOING_COMPLETION, NULL, 0);
			c->sweep_at = sp_messages_sweep(v);
			sp_doing_end(w);
		}
	return n;
}

/* Before the backlog, whose calls may take long: behind packets that have to wait there may be some that need not. */
static unsigned receive_more(struct sp_worker *w)
{
	struct sp_nic *nic = w->nic;
	struct rte_mbuf *packet[SP_BURST];
	unsigned done = 0, n, all;

	for (unsigned i = 0; w->handed && i < SP_HANDOVER / SP_BURST && (n = sp_dispatch_handed_over(w)); i++)
		done += n;
	for (unsigned i = 0; w->tx[SP_PORT_LOOP].count && i < SP_TX_QUEUE / SP_BURST; i++)
		done += sp_dispatch_loop(w);
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
		sp_worker_answer(w);
	if (unlikely(w->parked.count))
		done += sp_run_parked(w);
	if (w->scheduler)
		sp_scheduler_begin(w);
	if (unlikely(w->handed != NULL))
		done += sp_dispatch_handed_over(w);
	if (unlikely(w->tx[SP_PORT_LOOP].count))
		done += sp_dispatch_loop(w);
	for (uint16_t i = 0; i < nic->ports; i++) {
		n = sp_port_receive(&nic->port[i], index, packet, now);
		if (n)
			sp_dispatch(w, i, packet, n);
		done += n;
	}
	if (unlikely(sp_scheduler_packets(w) != 0)) {
		done += receive_more(w);
		done += sp_run_backlog(w);
	}
	if (w->timers && w->timers->at <= now)
		done += sp_timers_run(w);
	done += sp_commands_run(w);
	if (!TAILQ_EMPTY(&w->working))
		done += sp_work_run(w);
	if (!TAILQ_EMPTY(&w->issuing) || !LIST_EMPTY(&w->elsewhere))
		done += sp_issues_run(w);
	if (unlikely(w->pending.count))
		sp_pending_send(w);
	if (unlikely(!LIST_EMPTY(&w->sweeping)))
		done += sweep(w);
	if (unlikely(w->dead))
		sp_messages_reclaim(w);
	if (index == 0 && now >= sp_neighbours_deadline(nic->neighbours))
		sp_neighbours_tick(w, now);
	if (unlikely(nic->has_exception))
		done += from_exception(w);
	sp_transmit_flush(w);
	if (unlikely(w->issue_stuck || w->awaited))
		sp_transmit_reclaim(w);
	if (unlikely(!SLIST_EMPTY(&w->touched)))
		sp_doorbells_ring(w);
	if (unlikely(w->gave != 0))
		sp_sleep_wake_others(w);
	__atomic_store_n(&w->polls, w->polls + 1, __ATOMIC_RELAXED);
	w->busy_polls += done != 0;
	return done;
}

sp_time sp_nic_next_deadline(struct sp_nic *nic, uint16_t index)
{
	struct sp_worker *w = nic->worker[index];
	const struct sp_context *c;
	const struct sp_view *v;
	sp_time next = SP_NEVER;

	if (w->parked.count || sp_scheduler_packets(w) || (!TAILQ_EMPTY(&w->working) && sp_work_next(w) <= w->now) ||
	    w->tx[SP_PORT_LOOP].count || sp_commands_waiting(w) || sp_handover_waits(w))
		return w->now;
	if (w->timers)
		next = RTE_MIN(next, w->timers->at);
	if (!TAILQ_EMPTY(&w->working))
		next = RTE_MIN(next, sp_work_next(w));
	LIST_FOREACH (v, &w->elsewhere, elsewhere)
		if (__atomic_load_n(&v->issue_elsewhere, __ATOMIC_RELAXED))
			return w->now;
	LIST_FOREACH (c, &w->sweeping, sweeping)
		if (sp_messages_started(c)) /* those without a packet do not time out */
			next = RTE_MIN(next, c->sweep_at);
	for (uint16_t i = 0; i < nic->ports; i++)
		if (nic->port[i].ops)
			next = RTE_MIN(next, nic->port[i].ops->next(nic->port[i].arg, index, w->tx[i].count != 0));
	if (nic->has_exception && nic->exception->ops)
		next = RTE_MIN(next,
			       nic->exception->ops->next(nic->exception->arg, index, w->tx[SP_MAX_PORTS].count != 0));
	/* Contexts mostly wait for the one port: while that is full, it says when it goes on. */
	if (!TAILQ_EMPTY(&w->issuing) &&
	    (!w->tx[0].count || nic->ports > 1 || atomic_load_explicit(&nic->looping, memory_order_relaxed))) {
		/* A context that could not send when it was asked waits for the port or a neighbour, not for its pace.
		 */
		sp_time at = sp_issues_next(w);
		/* With no place left to wait for a neighbour it may take seconds; the neighbour's answer is a packet.
		 */
		sp_time stuck = w->now + (w->pending.count == SP_NEIGHBOUR_PENDING ? SP_MS : SP_US);

		next = RTE_MIN(next, at > w->now || !w->issue_stuck ? at : stuck);
	}
	if (unlikely(w->put_off > w->now))
		next = RTE_MIN(next, w->put_off);
	if (w->awaited) /* a driver says nothing by itself */
		next = RTE_MIN(next, w->now + SP_US);
	if (w->pending.count)
		next = RTE_MIN(next, w->now + SP_MS);
	if (index == 0)
		next = RTE_MIN(next, sp_neighbours_deadline(nic->neighbours));
	return next;
}
