/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A packet's way through a switch. Each step is tried when something that it needs has become free: an output of the
 * crossbar (output_try), an input of it (input_free), a link (link_try). Events for that exist only while somebody
 * waits.
 */
#include "switch.h"

#include "route.h"

/* News of room for a host: bytes of a packet, at most NET_MAX_BYTES and a flit, and its priority. */
#define CREDIT_LANE  26
#define CREDIT_BYTES ((1u << CREDIT_LANE) - 1)

static void link_try(struct net *n, uint32_t port);

static void list_add(struct net *n, struct net_list *l, uint32_t i)
{
	n->slot[i].next = NET_NONE;
	if (l->first == NET_NONE)
		l->first = i;
	else
		n->slot[l->last].next = i;
	l->last = i;
	l->bytes += n->slot[i].size;
}

static uint32_t list_take(struct net *n, struct net_list *l)
{
	const uint32_t i = l->first;

	l->first = n->slot[i].next;
	l->bytes -= n->slot[i].size;
	return i;
}

/* The queue's head no longer wants its port. */
static void unwant(struct net *n, uint32_t q)
{
	struct net_queue *queue = &n->queue[q];

	if (queue->previous != NET_NONE)
		n->queue[queue->previous].next = queue->next;
	else
		n->port[queue->want].wanted = queue->next;
	if (queue->next != NET_NONE)
		n->queue[queue->next].previous = queue->previous;
	queue->want = NET_NONE;
}

static void want(struct net *n, uint32_t q, uint32_t port, uint8_t vc)
{
	struct net_queue *queue = &n->queue[q];

	queue->want = port;
	queue->want_vc = vc;
	queue->previous = NET_NONE;
	queue->next = n->port[port].wanted;
	if (queue->next != NET_NONE)
		n->queue[queue->next].previous = q;
	n->port[port].wanted = q;
}

static bool has_room(const struct net *n, uint32_t port, uint32_t vc)
{
	return n->queue[net_queue_of(n, port, vc)].out.bytes + n->largest <= n->config.output_buffer;
}

/* An event when the link can take something: now, or once it is free. */
static void wake_link(struct net *n, uint32_t port)
{
	struct net_port *p = &n->port[port];

	if (!p->link_event) {
		p->link_event = true;
		net_events_put(&n->events, p->link_free > n->now ? p->link_free : n->now, NET_LINK_FREE, port);
	}
}

static void wake_output(struct net *n, uint32_t port)
{
	struct net_port *p = &n->port[port];

	if (!p->out_event) {
		p->out_event = true;
		net_events_put(&n->events, p->out_free > n->now ? p->out_free : n->now, NET_OUT_FREE, port);
	}
}

static void wake_input(struct net *n, uint32_t port)
{
	struct net_port *p = &n->port[port];

	if (!p->in_event) {
		p->in_event = true;
		net_events_put(&n->events, p->in_free, NET_IN_FREE, port);
	}
}

static uint32_t next_branch(const struct net *n, const struct net_slot *s, uint32_t at)
{
	const struct net_group *g = &n->group[s->group];

	return g->branch[g->first[at] + s->branch];
}

static bool is_last_branch(const struct net *n, const struct net_slot *s, uint32_t at)
{
	const struct net_group *g = &n->group[s->group];

	return g->first[at] + s->branch + 1u == g->first[at + 1];
}

/* Takes the head of an input queue, or of a group's packet a copy for this branch; NET_NONE: no memory for a copy. */
static uint32_t head_take(struct net *n, uint32_t q, uint32_t port)
{
	struct net_list *in = &n->queue[q].in;
	uint32_t i = in->first;

	if (n->slot[i].group != NET_NONE && !is_last_branch(n, &n->slot[i], n->topology->at[port])) {
		const uint32_t copy = net_slot_take(n);
		struct net_slot *s = &n->slot[i]; /* it may have moved */

		n->counters.copied++;
		s->branch++;
		if (copy == NET_NONE) {
			n->counters.dropped[NET_DROP_MEMORY]++;
			if (n->config.drop)
				n->config.drop(n->config.arg, &s->packet, NET_DROP_MEMORY, n->now);
			return NET_NONE;
		}
		n->slot[copy] = *s;
		i = copy;
	} else {
		const uint32_t vc = n->slot[i].vc;

		list_take(n, in);
		net_credit_return(n, n->slot[i].at, vc, n->slot[i].size);
	}
	n->slot[i].branch = 0;
	return i;
}

static void head_route(struct net *n, uint32_t q)
{
	struct net_slot *s = &n->slot[n->queue[q].in.first];
	const uint32_t at = n->topology->at[s->at];
	const uint32_t port = s->group == NET_NONE ? net_route(n, s, at, n->config.routing) : next_branch(n, s, at);

	want(n, q, port, net_route_vc(n, s, port));
}

/* Not lossless: a head whose output queue is full is dropped. True: it was. */
static bool head_drop(struct net *n, uint32_t q)
{
	const uint32_t port = n->queue[q].want;
	uint32_t i;

	if (n->config.lossless || has_room(n, port, n->queue[q].want_vc))
		return false;
	unwant(n, q);
	i = head_take(n, q, port);
	if (i != NET_NONE)
		net_drop(n, i, NET_DROP_OUTPUT_FULL);
	return true;
}

/* Moves the head of a queue through the crossbar. It may: its input and output are free, and there is room. */
static void head_move(struct net *n, uint32_t q)
{
	const uint32_t port = n->queue[q].want, from = q / n->vcs, i = head_take(n, q, port);
	struct net_port *p = &n->port[port];
	struct net_list *out;
	struct net_slot *s;

	unwant(n, q);
	n->queue[q].served = ++n->grants;
	if (i == NET_NONE)
		return;
	s = &n->slot[i];
	p->out_free = n->port[from].in_free = n->now + net_crossbar_time(n, s->size);
	net_route_enter(n, s, port);
	s->at = port;
	p->bytes += s->size;
	if (n->config.ecn && p->bytes > n->config.ecn && !s->packet.ecn) {
		s->packet.ecn = true;
		n->counters.marked++;
	}
	out = &n->queue[net_queue_of(n, port, s->vc)].out;
	list_add(n, out, i);
	if (out->bytes > n->counters.highest_output)
		n->counters.highest_output = out->bytes;
	if (p->wanted != NET_NONE)
		wake_output(n, port);
	link_try(n, port);
}

static bool can_move(const struct net *n, uint32_t q)
{
	const struct net_queue *queue = &n->queue[q];

	return n->port[queue->want].out_free <= n->now && n->port[q / n->vcs].in_free <= n->now &&
	       has_room(n, queue->want, queue->want_vc);
}

/* There is a new head: where does it go, and can it go at once? */
static void head_new(struct net *n, uint32_t q)
{
	while (n->queue[q].in.first != NET_NONE) {
		const uint32_t from = q / n->vcs;
		const struct net_port *p;

		head_route(n, q);
		if (head_drop(n, q))
			continue;
		p = &n->port[n->queue[q].want];
		if (can_move(n, q)) {
			/* Others that come now have the same chance: it is decided after all of them. */
			if (net_events_next(&n->events) <= n->now) {
				wake_output(n, n->queue[q].want);
				return;
			}
			head_move(n, q);
			continue; /* the next one, which finds the input taken */
		}
		if (p->out_free > n->now)
			wake_output(n, n->queue[q].want);
		if (n->port[from].in_free > n->now)
			wake_input(n, from);
		return;
	}
}

/* The crossbar's output, or room in its queue, is free: of the heads that can go there, the one served longest ago
 * does. */
static void output_try(struct net *n, uint32_t port)
{
	uint32_t best = NET_NONE;

	if (n->port[port].out_free > n->now) {
		if (n->port[port].wanted != NET_NONE)
			wake_output(n, port);
		return;
	}
	for (uint32_t q = n->port[port].wanted; q != NET_NONE; q = n->queue[q].next) {
		if (!has_room(n, port, n->queue[q].want_vc))
			continue;
		if (n->port[q / n->vcs].in_free > n->now)
			wake_input(n, q / n->vcs);
		else if (best == NET_NONE || n->queue[q].served < n->queue[best].served)
			best = q;
	}
	if (best != NET_NONE) {
		head_move(n, best);
		head_new(n, best);
	}
}

static void input_free(struct net *n, uint32_t port)
{
	n->port[port].in_event = false;
	for (uint32_t vc = 0; vc < n->vcs; vc++) {
		const uint32_t q = net_queue_of(n, port, vc);

		if (n->queue[q].want == NET_NONE)
			continue;
		if (n->port[port].in_free > n->now) {
			wake_input(n, port);
			return;
		}
		output_try(n, n->queue[q].want);
	}
}

void net_credit_return(struct net *n, uint32_t port, uint32_t vc, uint32_t bytes)
{
	const uint32_t peer = n->topology->peer[port];
	const uint32_t id = net_is_host(peer) ? peer : net_queue_of(n, peer, vc);
	const uint32_t more = net_is_host(peer) ? vc / n->lane_vcs << CREDIT_LANE | bytes : bytes;
	const struct net_event now = {.at = n->now, .id = id, .more = more, .kind = NET_CREDIT};

	if (n->pause && net_is_host(peer)) {
		if (net_pfc_left(n, port, vc))
			wake_link(n, port);
		return;
	}
	if (n->config.lossless &&
	    !net_events_follow(&n->events, NET_CREDITS, n->now + n->config.link_delay, NET_CREDIT, id, more))
		net_event_run(n, &now); /* no memory: at once */
}

/* The next VC after the last one sent that has a packet, and room for it in the next switch; NET_NONE. */
static uint32_t link_choose(const struct net *n, uint32_t port)
{
	const bool free = net_is_host(n->topology->peer[port]) || !n->config.lossless;

	for (uint32_t k = 1; k <= n->vcs; k++) {
		const uint32_t q = net_queue_of(n, port, (n->port[port].turn + k) % n->vcs);
		const uint32_t i = n->queue[q].out.first;

		if (i != NET_NONE && (free || n->queue[q].credits >= n->slot[i].size))
			return q;
	}
	return NET_NONE;
}

static void link_send(struct net *n, uint32_t port, uint32_t q)
{
	const struct net_config *c = &n->config;
	const uint32_t i = list_take(n, &n->queue[q].out), peer = n->topology->peer[port];
	struct net_slot *s = &n->slot[i];
	struct net_port *p = &n->port[port];
	const sp_time takes = net_slot_time(n, s), out = n->now + c->switch_out + c->link_delay;

	p->turn = (uint8_t)(q - net_queue_of(n, port, 0));
	p->bytes -= s->size;
	p->link_free = n->now + takes;
	s->at = peer;
	if (net_is_host(peer)) {
		net_events_put(&n->events, out + takes + s->packet.late, NET_DELIVER, i);
		return;
	}
	if (c->lossless)
		n->queue[q].credits -= s->size;
	if (c->store_forward)
		net_events_put(&n->events, out + c->switch_in + takes, NET_ARRIVE, i);
	else
		net_events_follow(&n->events, NET_FROM_SWITCH, out + c->switch_in, NET_ARRIVE, i, 0);
}

/* Sends a packet if the link is free; then there is room in the output queue. */
static void link_try(struct net *n, uint32_t port)
{
	struct net_port *p = &n->port[port];
	const bool due = n->pause && n->pause[port].due;
	uint32_t q;

	if (due && p->link_free <= n->now)
		net_pfc_send(n, port);
	if (p->link_free > n->now) {
		if (p->bytes || due)
			wake_link(n, port);
		return;
	}
	q = link_choose(n, port);
	if (q == NET_NONE)
		return;
	link_send(n, port, q);
	if (p->bytes)
		wake_link(n, port);
	if (p->wanted != NET_NONE)
		output_try(n, port);
}

static void arrive(struct net *n, uint32_t i)
{
	struct net_slot *s = &n->slot[i];
	const uint32_t q = net_queue_of(n, s->at, s->vc);
	struct net_list *in = &n->queue[q].in;

	s->packet.hops++;
	if (in->bytes + s->size > n->config.input_buffer) {
		net_drop(n, i, NET_DROP_INPUT_FULL); /* never if lossless */
		return;
	}
	list_add(n, in, i);
	if (in->bytes > n->counters.highest_input)
		n->counters.highest_input = in->bytes;
	if (n->pause && net_is_host(n->topology->peer[s->at]) && net_pfc_came(n, s->at, s->vc))
		wake_link(n, s->at);
	if (in->first == i)
		head_new(n, q);
}

static void deliver(struct net *n, uint32_t i)
{
	const struct net_slot *s = &n->slot[i];
	struct net_packet p = s->packet;

	if (s->number != NET_UNORDERED)
		n->counters.reordered += net_order_late(n->order, p.src, p.dst, p.flow, s->number);
	p.dst = s->at & ~NET_HOST_PEER;
	n->counters.delivered++;
	n->counters.bytes += p.bytes;
	net_slot_drop(n, i);
	n->config.deliver(n->config.arg, &p, n->now);
}

/* A host that was refused may send again: is its link free, and is there room for one of its priorities? */
static void host_try(struct net *n, uint32_t h)
{
	struct net_lane *lane = &n->lane[(size_t)h * n->lanes];
	struct net_host *host = &n->host[h];
	bool ready = false;

	for (uint32_t k = 0; k < n->lanes; k++) {
		if (!lane[k].wants)
			continue;
		if (net_is_paused(n, &lane[k])) {
			if (!host->resume) {
				host->resume = true;
				net_events_put(&n->events, lane[k].paused, NET_HOST_RESUME, h);
			}
		} else if (!n->config.lossless || n->pause || lane[k].credits >= lane[k].wants) {
			ready = true;
			if (host->link_free <= n->now)
				lane[k].wants = 0;
		}
	}
	if (!ready)
		return;
	if (host->link_free > n->now) {
		if (!host->event) {
			host->event = true;
			net_events_put(&n->events, host->link_free, NET_HOST_FREE, h);
		}
		return;
	}
	if (n->config.room)
		n->config.room(n->config.arg, h, n->now);
}

static void credit(struct net *n, const struct net_event *e)
{
	const uint32_t h = e->id & ~NET_HOST_PEER;

	if (e->id & NET_HOST_PEER) {
		n->lane[(size_t)h * n->lanes + (e->more >> CREDIT_LANE)].credits += e->more & CREDIT_BYTES;
		host_try(n, h);
		return;
	}
	n->queue[e->id].credits += e->more;
	if (n->queue[e->id].out.first != NET_NONE)
		link_try(n, e->id / n->vcs);
}

void net_event_run(struct net *n, const struct net_event *e)
{
	switch (e->kind) {
	case NET_ARRIVE:
		arrive(n, e->id);
		break;
	case NET_DELIVER:
		deliver(n, e->id);
		break;
	case NET_CREDIT:
		credit(n, e);
		break;
	case NET_LINK_FREE:
		n->port[e->id].link_event = false;
		link_try(n, e->id);
		break;
	case NET_IN_FREE:
		input_free(n, e->id);
		break;
	case NET_OUT_FREE:
		n->port[e->id].out_event = false;
		output_try(n, e->id);
		break;
	case NET_HOST_FREE:
		n->host[e->id].event = false;
		host_try(n, e->id);
		break;
	case NET_PAUSE:
		net_pfc_heard(n, e->id, e->more);
		host_try(n, e->id);
		break;
	case NET_REPEAT:
		net_pfc_repeat(n, e->id);
		link_try(n, e->id);
		break;
	case NET_HOST_RESUME:
		n->host[e->id].resume = false;
		host_try(n, e->id);
		break;
	}
}
