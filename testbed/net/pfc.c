/* SPDX-License-Identifier: BSD-3-Clause */
/* Priority flow control (IEEE 802.1Qbb) between a host and its switch: when the switch pauses, when the host stops, and
 * how much room that needs. */
#include <errno.h>
#include <stdio.h>

#include "switch.h"

#define PS_PER_S   1000000000000ull
#define MTU	   4224u
#define MAX_QUANTA 65535u
#define MAX_DELAY  PS_PER_S

#define REFUSE(...) (snprintf(why, whylen, __VA_ARGS__), -EINVAL)

/* Bytes on a link of a time, rounded up; ps of bytes, rounded up. */
static uint64_t bytes_in(const struct net_config *c, sp_time time)
{
	return (uint64_t)(((unsigned __int128)time * c->rate + 8 * PS_PER_S - 1) / (8 * PS_PER_S));
}

static sp_time time_of(const struct net_config *c, uint64_t bytes)
{
	return (sp_time)(((unsigned __int128)bytes * 8 * PS_PER_S + c->rate - 1) / c->rate);
}

int net_pfc_numbers(const struct net_config *c, struct net_pfc *pfc, uint32_t *headroom, char *why, size_t whylen)
{
	const uint64_t mtu = c->pfc.mtu ? c->pfc.mtu : MTU, whole = (mtu + c->flit - 1) / c->flit * c->flit;
	const sp_time packet = time_of(c, whole), frame = time_of(c, NET_PAUSE_BYTES);
	const sp_time wait = packet > frame ? packet : frame; /* for what is on the link */
	const unsigned __int128 bits = (unsigned __int128)2 * (wait + frame) * c->rate;
	const uint64_t least = (uint64_t)(bits / 512 / PS_PER_S) + 1;
	uint64_t room;

	*pfc = c->pfc;
	if (mtu > NET_MAX_BYTES)
		return REFUSE("PFC: packets of more than %u bytes", NET_MAX_BYTES);
	if (pfc->response > MAX_DELAY)
		return REFUSE("PFC: a host that stops later than 1 s");
	pfc->mtu = (uint32_t)mtu;
	pfc->quanta = pfc->quanta ? pfc->quanta : MAX_QUANTA;
	room = whole * (1 + c->store_forward) +
	       bytes_in(c, 2 * c->link_delay + c->switch_in + pfc->response + wait + frame);
	if (room + whole > c->input_buffer)
		return REFUSE("PFC needs input buffers of at least %llu bytes, not %u: a packet of %llu and %llu that "
			      "may come until a host has stopped",
			      (unsigned long long)(room + whole), c->input_buffer, (unsigned long long)whole,
			      (unsigned long long)room);
	if (pfc->xoff > c->input_buffer - room)
		return REFUSE("PFC: a host that is paused at %u bytes may send %llu more, which needs input buffers of "
			      "at least %llu bytes, not %u",
			      pfc->xoff, (unsigned long long)room, (unsigned long long)(pfc->xoff + room),
			      c->input_buffer);
	pfc->xoff = pfc->xoff ? pfc->xoff : c->input_buffer - (uint32_t)room;
	pfc->xon = pfc->xon ? pfc->xon : pfc->xoff / 2;
	if (pfc->xon >= pfc->xoff)
		return REFUSE("PFC: hosts are paused at %u bytes and go on at %u, which must be fewer", pfc->xoff,
			      pfc->xon);
	if (pfc->quanta > MAX_QUANTA || pfc->quanta < least)
		return REFUSE("PFC: a pause must last %llu to %u quanta, so that it can be repeated in time, not %u",
			      (unsigned long long)least, MAX_QUANTA, pfc->quanta);
	*headroom = (uint32_t)room;
	return 0;
}

/* ---- the switch ---- */
bool net_pfc_came(struct net *n, uint32_t port, uint32_t vc)
{
	const uint8_t bit = (uint8_t)(1u << vc / n->lane_vcs);
	struct net_pause *p = &n->pause[port];

	if ((p->over & bit) || n->queue[net_queue_of(n, port, vc)].in.bytes < n->pfc.xoff)
		return false;
	p->over |= bit;
	p->due = true;
	return true;
}

bool net_pfc_left(struct net *n, uint32_t port, uint32_t vc)
{
	const uint8_t bit = (uint8_t)(1u << vc / n->lane_vcs);
	struct net_pause *p = &n->pause[port];

	if (!(p->over & bit) || n->queue[net_queue_of(n, port, vc)].in.bytes > n->pfc.xon)
		return false;
	p->over &= (uint8_t)~bit;
	p->due = true;
	return true;
}

void net_pfc_send(struct net *n, uint32_t port)
{
	const uint32_t host = n->topology->peer[port] & ~NET_HOST_PEER;
	struct net_pause *p = &n->pause[port];
	const uint8_t says = (uint8_t)((p->over ^ p->told) | (p->repeat ? p->over : 0));
	const uint32_t more = (uint32_t)p->over << 8 | says;
	const sp_time end = n->now + n->pause_takes;

	n->counters.pauses += (uint32_t)__builtin_popcount(p->over & (uint8_t)~p->told);
	if (says && (p->over & (uint8_t)~p->told) && n->counters.first_pause == SP_NEVER)
		n->counters.first_pause = n->now;
	p->due = p->repeat = false;
	p->told = p->over;
	if (!says) /* it has come down again before the link was free */
		return;
	n->counters.pause_frames++;
	n->port[port].link_free = end;
	if (!net_events_follow(&n->events, NET_PAUSES, end + n->config.link_delay + n->pfc.response, NET_PAUSE, host,
			       more))
		net_pfc_heard(n, host, more); /* no memory: at once */
	if (p->over && !p->event) {
		p->event = true;
		net_events_put(&n->events, n->now + n->pause_lasts / 2, NET_REPEAT, port);
	}
}

void net_pfc_repeat(struct net *n, uint32_t port)
{
	struct net_pause *p = &n->pause[port];

	p->event = false;
	p->repeat = p->over;
	p->due |= p->repeat;
}

/* ---- the host ---- */
void net_pfc_heard(struct net *n, uint32_t host, uint32_t more)
{
	struct net_lane *lane = &n->lane[(size_t)host * n->lanes];

	for (uint32_t k = 0; k < n->lanes; k++) {
		if (!(more >> k & 1))
			continue;
		if (more >> (8 + k) & 1) {
			lane[k].since = lane[k].paused ? lane[k].since : n->now;
			lane[k].paused = n->now + n->pause_lasts;
		} else if (lane[k].paused) {
			n->counters.paused += (n->now < lane[k].paused ? n->now : lane[k].paused) - lane[k].since;
			lane[k].paused = 0;
		}
	}
}
