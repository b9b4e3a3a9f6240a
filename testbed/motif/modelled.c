/* SPDX-License-Identifier: BSD-3-Clause */
/* Modelled NICs: the packets that they send for each phase of a message. See nic.h for the rules. */
#include <errno.h>

#include "run_private.h"

#define BLOCK (16u << 20) /* bytes of a message that draw the time of a byte together */

static void arrived(struct run *r, uint32_t t, bool last)
{
	struct transfer *x = &r->transfer[t];
	const uint64_t bytes = motif_phase_bytes(x->phase, x->bytes), packets = motif_packets(&r->nic, bytes);
	const sp_time told = r->now + r->nic.rx_match + r->nic.pcie;
	const bool all = ++x->arrived == packets;

	if (x->phase == MOTIF_PHASE_PUT) {
		/* Who is told by a completion is not told by the put. */
		const bool tells = !transfer_by_completion(r) && !x->told &&
				   (all || (last && r->nic.transport == MOTIF_RDMA_POLLED));

		r->o->early_reads += tells && !all;
		x->told |= tells;
		if (tells)
			run_event(r, told, EVENT_RECEIVED, t);
		if (all && transfer_is_acked(r, x))
			run_event(r, r->now + r->nic.rx_match + r->nic.tx_delay, EVENT_ACKNOWLEDGE, t);
		else if (all)
			transfer_release(r, t);
		return;
	}
	if (!all)
		return;
	switch (x->phase) {
	case MOTIF_PHASE_REQUEST:
		run_event(r, told, EVENT_ASKED, t);
		break;
	case MOTIF_PHASE_REPLY:
		run_event(r, told, EVENT_ANSWERED, t);
		break;
	case MOTIF_PHASE_ACK:
		run_event(r, told, EVENT_ACKED, t);
		break;
	default: {
		const struct transfer *put = &r->transfer[x->parent];

		r->o->early_reads += put->phase == MOTIF_PHASE_PUT && put->arrived < motif_packets(&r->nic, put->bytes);
		run_event(r, told, EVENT_COMPLETED, t);
	}
	}
}

static void deliver(void *arg, const struct net_packet *p, sp_time now)
{
	struct run *r = arg;

	r->now = now;
	arrived(r, (uint32_t)(uintptr_t)p->user, p->tag);
}

static void enqueue(struct run *r, struct queue *q, uint32_t t)
{
	r->transfer[t].next = NONE;
	if (q->first == NONE)
		q->first = t;
	else
		r->transfer[q->last].next = t;
	q->last = t;
}

static bool is_control(const struct transfer *x)
{
	return x->phase == MOTIF_PHASE_REQUEST || x->phase == MOTIF_PHASE_REPLY || x->phase == MOTIF_PHASE_ACK;
}

/* A NIC gets something to send. */
static void nic_take(struct run *r, uint32_t rank, uint32_t t)
{
	struct queue *q = &r->rank[rank].nic;
	uint32_t before = NONE, next = q->first;

	if (!r->nic.control_first || !is_control(&r->transfer[t]) || q->first == NONE) {
		enqueue(r, q, t);
		return;
	}
	for (; next != NONE && is_control(&r->transfer[next]); next = r->transfer[next].next)
		before = next;
	if (next == NONE) {
		enqueue(r, q, t);
		return;
	}
	r->transfer[t].next = next;
	if (before == NONE)
		q->first = t;
	else
		r->transfer[before].next = t;
}

/* Before a packet is sent: what its message draws, at its beginning, and at each BLOCK of it. A packet that the network
 * refuses has drawn already. */
static void draw(struct run *r, struct transfer *x)
{
	const struct motif_noise *n = &r->noise;
	const uint64_t at = x->sent * r->nic.packet;

	if (x->drawn > x->sent)
		return;
	if (!x->sent)
		x->late = n->latencies ? goal_draw(n->latencies, &r->latencies) : n->latency;
	if (n->bytes && (!x->sent || at / BLOCK != (at - r->nic.packet) / BLOCK)) {
		const uint64_t ps = goal_draw(n->bytes, &r->bytes);

		x->byte_ps = ps < UINT32_MAX ? (uint32_t)ps : UINT32_MAX;
	}
	x->drawn = x->sent + 1;
}

/* The NIC sends what it can. */
static void pump(struct run *r, uint32_t rank)
{
	struct queue *q = &r->rank[rank].nic;

	while (q->first != NONE && !r->err) {
		const uint32_t t = q->first;
		struct transfer *x = &r->transfer[t];
		const uint64_t bytes = motif_phase_bytes(x->phase, x->bytes), packets = motif_packets(&r->nic, bytes);
		const uint32_t to = x->src == rank ? x->dst : x->src;

		draw(r, x);
		const struct net_packet p = {.dst = r->host_of[to],
					     .bytes = motif_packet_bytes(&r->nic, x->phase, bytes, x->sent),
					     .flow = (uint64_t)rank << 32 | to,
					     .byte_ps = x->byte_ps,
					     .late = x->late,
					     .user = (void *)(uintptr_t)t,
					     .tag = x->sent + 1 == packets};
		const bool done = p.tag;

		if (to != rank && !net_send(r->net, r->host_of[rank], &p, r->now))
			return;
		x = &r->transfer[t];
		r->o->packets++;
		r->o->carrying += x->phase != MOTIF_PHASE_ACK;
		r->o->wire_bytes += p.bytes;
		x->sent++;
		if (done) {
			q->first = x->next;
			if (x->phase == MOTIF_PHASE_PUT && transfer_is_read(r))
				run_done(r, rank, x->send, r->now + r->nic.pcie);
		}
		if (to == rank)
			arrived(r, t, done);
	}
}

static void room(void *arg, uint32_t host, sp_time now)
{
	struct run *r = arg;

	r->now = now;
	if (r->rank_of[host] != NONE)
		pump(r, r->rank_of[host]);
}

static void posted(struct run *r, uint32_t t)
{
	const struct transfer *x = &r->transfer[t];
	const bool back = x->phase == MOTIF_PHASE_REPLY || x->phase == MOTIF_PHASE_ACK;
	const bool with_completion =
		x->phase == MOTIF_PHASE_PUT && transfer_by_completion(r) && r->nic.completion == MOTIF_BEHIND;
	const uint32_t sender = back ? x->dst : x->src;
	struct queue *q = &r->rank[sender].nic;

	nic_take(r, sender, t);
	if (with_completion) {
		/* Both were posted together: the completion is the next in the queue. */
		const uint32_t other = transfer_completion(r, t);

		if (other == NONE)
			return;
		enqueue(r, q, other);
	}
	if (q->first == t)
		pump(r, sender);
}

static void modelled_event(struct run *r, uint8_t kind, uint32_t t)
{
	struct transfer *x = &r->transfer[t];

	if (kind == EVENT_ACKNOWLEDGE) {
		x->phase = MOTIF_PHASE_ACK;
		x->sent = x->arrived = x->drawn = 0;
	}
	posted(r, t);
}

static int modelled_open(struct run *r, const struct motif_run_config *config, char *why, size_t whylen)
{
	struct net_config net = config->net;

	net.deliver = deliver;
	net.room = room;
	net.drop = NULL;
	net.order = true;
	net.arg = r;
	if (net.pfc.on && !net.pfc.mtu)
		net.pfc.mtu = run_largest_packet(&config->nic);
	return net_create(&net, &r->net, why, whylen);
}

static void modelled_close(struct run *r)
{
	net_destroy(r->net);
}

static sp_time modelled_next(struct run *r)
{
	return net_next(r->net);
}

static sp_time least(sp_time a, sp_time b)
{
	return a < b ? a : b;
}

static void modelled_advance(struct run *r, sp_time event)
{
	const struct motif_nic *n = &r->nic;
	/* No packet that arrives causes an event of a host or a NIC sooner than that. */
	const sp_time ahead = least(least(n->pcie, n->rx_match + n->pcie), n->rx_match + n->tx_delay);

	net_run(r->net, least(event, net_next(r->net) + ahead));
}

static void modelled_outcome(struct run *r)
{
	net_count(r->net, &r->o->net);
}

const struct nic_kind nic_modelled = {.open = modelled_open,
				      .close = modelled_close,
				      .next = modelled_next,
				      .advance = modelled_advance,
				      .event = modelled_event,
				      .outcome = modelled_outcome};
