/* SPDX-License-Identifier: BSD-3-Clause */
/* A network as its user sees it: made, sent to, run, counted. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route.h"
#include "switch.h"

#define MAX_DELAY    1000000000000ull /* ps */
#define MAX_FLIT     65536u
#define MAX_BUFFER   (1u << 30)
#define MAX_CROSSBAR 64.0
#define PS_PER_S     1000000000000ull
#define MAX_QUEUES   (1u << 26)
#define MAX_OF_PORT  64u /* queues */

void net_defaults(struct net_config *config)
{
	*config = (struct net_config){.rate = 400000000000ull,
				      .link_delay = 20 * SP_NS,
				      .switch_in = 30 * SP_NS,
				      .switch_out = 30 * SP_NS,
				      .crossbar = 1.5,
				      .flit = 32,
				      .input_buffer = 65536,
				      .output_buffer = 32768,
				      .priorities = 1,
				      .lossless = true};
}

#define REFUSE(...) (snprintf(why, whylen, __VA_ARGS__), -EINVAL)

static int check_numbers(const struct net_config *c, char *why, size_t whylen)
{
	if (!c->rate || c->rate > NET_MAX_RATE)
		return REFUSE("the rate of links is not from 1 bit/s to 2 Tbit/s");
	if (c->link_delay > MAX_DELAY || c->switch_in > MAX_DELAY || c->switch_out > MAX_DELAY)
		return REFUSE("a delay is longer than 1 s");
	if (!(c->crossbar >= 1 && c->crossbar <= MAX_CROSSBAR))
		return REFUSE("the crossbar's bandwidth is not 1 to 64 times that of a link");
	if (!c->flit || c->flit > MAX_FLIT)
		return REFUSE("a flit is not 1 to %u bytes", MAX_FLIT);
	if (c->input_buffer < c->flit || c->output_buffer < c->flit)
		return REFUSE("a buffer has no room for a flit of %u bytes", c->flit);
	if (c->input_buffer > MAX_BUFFER || c->output_buffer > MAX_BUFFER)
		return REFUSE("a buffer is larger than %u bytes", MAX_BUFFER);
	if (c->vcs > NET_MAX_VCS)
		return REFUSE("more than %u virtual channels", NET_MAX_VCS);
	if (c->priorities > NET_PRIORITIES)
		return REFUSE("more than %u priorities", NET_PRIORITIES);
	if (c->pfc.on && !c->lossless)
		return REFUSE("PFC is for lossless networks");
	return 0;
}

static int check_routing(const struct net_config *c, uint32_t *vcs, char *why, size_t whylen)
{
	static const char *const kind[] = {"star", "torus", "fattree", "dragonfly", "hyperx", "file"};
	const char *name = kind[net_topology_kind(c->topology)];
	const uint32_t needed = net_vcs_needed(c->topology, c->routing);
	const uint32_t priorities = c->priorities ? c->priorities : 1;
	char others[80] = "";

	if (!needed) {
		for (unsigned r = 0; r < NET_ROUTINGS; r++)
			if (net_vcs_needed(c->topology, r))
				snprintf(others + strlen(others), sizeof(others) - strlen(others), "%s%s",
					 *others ? ", " : "", net_routing_names[r]);
		return REFUSE("topology %s has no routing '%s', only %s", name,
			      c->routing < NET_ROUTINGS ? net_routing_names[c->routing] : "?", others);
	}
	*vcs = c->vcs ? c->vcs : c->lossless ? needed : 1;
	if (c->lossless && *vcs < needed)
		return REFUSE("routing '%s' on topology %s needs %u virtual channels to be free of deadlock, not %u",
			      net_routing_names[c->routing], name, needed, *vcs);
	if (*vcs > NET_MAX_VCS)
		return REFUSE("routing '%s' on this topology needs %u virtual channels, at most %u are possible",
			      net_routing_names[c->routing], needed, NET_MAX_VCS);
	if (*vcs * priorities > MAX_OF_PORT)
		return REFUSE("%u virtual channels of %u priorities are more than %u queues of a port", *vcs,
			      priorities, MAX_OF_PORT);
	if ((uint64_t)net_ports(c->topology) * *vcs * priorities > MAX_QUEUES)
		return REFUSE("more than %u queues: %u ports with %u virtual channels", MAX_QUEUES,
			      net_ports(c->topology), *vcs * priorities);
	return 0;
}

static void start(struct net *n)
{
	for (uint32_t p = 0; p < net_ports(n->topology); p++)
		n->port[p].wanted = NET_NONE;
	for (uint32_t q = 0; q < net_ports(n->topology) * n->vcs; q++) {
		n->queue[q].in.first = n->queue[q].out.first = n->queue[q].want = NET_NONE;
		n->queue[q].credits = n->config.input_buffer;
	}
	for (size_t l = 0; l < (size_t)n->topology->hosts * n->lanes; l++)
		n->lane[l].credits = n->config.input_buffer;
	n->free_slot = NET_NONE;
	n->largest = n->config.flit;
	n->ps_per_byte = 8 * PS_PER_S % n->config.rate || 8 * PS_PER_S / n->config.rate > UINT32_MAX
				 ? 0
				 : (uint32_t)(8 * PS_PER_S / n->config.rate);
	n->counters.first_pause = SP_NEVER;
	n->pause_takes = net_link_time(n, NET_PAUSE_BYTES);
	n->pause_lasts = (sp_time)((unsigned __int128)n->pfc.quanta * 512 * PS_PER_S / n->config.rate);
	sp_random_seed(&n->random, n->config.seed, 0);
}

int net_create(const struct net_config *config, struct net **net, char *why, size_t whylen)
{
	uint32_t vcs = 0, headroom;
	struct net_pfc pfc = {0};
	struct net *n;
	int err;

	if (!config->topology || !config->deliver)
		return REFUSE("%s is missing", config->topology ? "deliver()" : "the topology");
	err = check_numbers(config, why, whylen);
	if (!err)
		err = check_routing(config, &vcs, why, whylen);
	if (!err && config->pfc.on)
		err = net_pfc_numbers(config, &pfc, &headroom, why, whylen);
	if (err)
		return err;
	n = calloc(1, sizeof(*n));
	if (!n)
		goto no_memory;
	n->config = *config;
	n->topology = config->topology;
	n->pfc = pfc;
	n->lanes = config->priorities ? config->priorities : 1;
	n->lane_vcs = vcs;
	n->vcs = vcs * n->lanes;
	n->port = calloc(net_ports(n->topology), sizeof(*n->port));
	n->queue = calloc((size_t)net_ports(n->topology) * n->vcs, sizeof(*n->queue));
	n->host = calloc(n->topology->hosts, sizeof(*n->host));
	n->lane = calloc((size_t)n->topology->hosts * n->lanes, sizeof(*n->lane));
	n->pause = pfc.on ? calloc(net_ports(n->topology), sizeof(*n->pause)) : NULL;
	n->order = config->order ? net_order_create() : NULL;
	if (!n->port || !n->queue || !n->host || !n->lane || (pfc.on && !n->pause) || (config->order && !n->order))
		goto no_memory;
	start(n);
	*net = n;
	return 0;
no_memory:
	net_destroy(n);
	snprintf(why, whylen, "out of memory");
	return -ENOMEM;
}

void net_destroy(struct net *n)
{
	if (!n)
		return;
	for (uint32_t g = 0; g < n->groups; g++) {
		free(n->group[g].first);
		free(n->group[g].branch);
	}
	free(n->group);
	net_order_destroy(n->order);
	net_events_free(&n->events);
	free(n->slot);
	free(n->port);
	free(n->queue);
	free(n->host);
	free(n->lane);
	free(n->pause);
	free(n);
}

/* In whole flits, or more than any buffer. */
static uint32_t size_of(const struct net *n, uint32_t bytes)
{
	if (!bytes || bytes > NET_MAX_BYTES)
		return UINT32_MAX;
	return (bytes + n->config.flit - 1) / n->config.flit * n->config.flit;
}

static void refuse(struct net *n, const struct net_packet *packet, uint32_t host, enum net_drop why)
{
	struct net_packet p = *packet;

	p.src = host;
	n->counters.sent++;
	n->counters.dropped[why]++;
	if (n->config.drop)
		n->config.drop(n->config.arg, &p, why, n->now);
}

/* Is the destination a host, or a group of this source? group: NET_NONE for a host. */
static bool is_known(const struct net *n, uint32_t host, uint32_t dst, uint32_t *group)
{
	*group = dst & NET_GROUP ? dst & ~NET_GROUP : NET_NONE;
	if (*group == NET_NONE)
		return dst < n->topology->hosts;
	return *group < n->groups && n->group[*group].source == host;
}

/* A packet as it leaves its host. */
static void slot_fill(struct net *n, struct net_slot *s, const struct net_packet *packet, uint32_t host)
{
	*s = (struct net_slot){.packet = *packet,
			       .next = NET_NONE,
			       .at = n->topology->host_port[host],
			       .group = NET_NONE,
			       .number = NET_UNORDERED,
			       .mid = NET_NONE,
			       .link = NET_NONE,
			       .phase = 1,
			       .priority = packet->priority < n->lanes ? packet->priority : (uint8_t)(n->lanes - 1),
			       .dimension = UINT8_MAX};
	s->vc = (uint8_t)(s->priority * n->lane_vcs);
	s->packet.src = host;
	s->packet.hops = 0;
	s->packet.ecn = false;
	s->packet.late = packet->late < MAX_DELAY ? packet->late : MAX_DELAY;
}

/* The host's link is busy, or the switch has no room: an event when that may be over, if none is to come anyway. */
static void refuse_now(struct net *n, uint32_t h, struct net_lane *lane, uint32_t size)
{
	struct net_host *host = &n->host[h];
	const bool busy = host->link_free > n->now && !host->event;
	const bool paused = net_is_paused(n, lane) && !host->resume;
	uint32_t i;

	lane->wants = size;
	if ((!busy && !paused) || (i = net_slot_take(n)) == NET_NONE)
		return;
	net_slot_drop(n, i); /* there is room for events */
	if (busy) {
		host->event = true;
		net_events_put(&n->events, host->link_free, NET_HOST_FREE, h);
	}
	if (paused) {
		host->resume = true;
		net_events_put(&n->events, lane->paused, NET_HOST_RESUME, h);
	}
}

static void number(struct net *n, struct net_slot *s)
{
	const struct net_packet *p = &s->packet;

	if (!n->order || s->group != NET_NONE)
		return;
	s->number = net_order_sent(n->order, p->src, p->dst, p->flow);
	n->counters.unordered += s->number == NET_UNORDERED;
}

bool net_send(struct net *n, uint32_t h, const struct net_packet *packet, sp_time now)
{
	const uint32_t size = size_of(n, packet->bytes);
	const struct net_config *c = &n->config;
	struct net_host *host = &n->host[h];
	uint32_t group, i;
	struct net_lane *lane;
	struct net_slot *s;

	n->now = now > n->now ? now : n->now;
	if (h >= n->topology->hosts) {
		refuse(n, packet, h, NET_DROP_NO_HOST);
		return true;
	}
	if (!is_known(n, h, packet->dst, &group) || size > c->input_buffer || size > c->output_buffer ||
	    (n->pause && packet->bytes > n->pfc.mtu)) {
		refuse(n, packet, h, is_known(n, h, packet->dst, &group) ? NET_DROP_OVERSIZED : NET_DROP_NO_HOST);
		return true;
	}
	lane = &n->lane[(size_t)h * n->lanes + (packet->priority < n->lanes ? packet->priority : n->lanes - 1)];
	if (host->link_free > n->now || net_is_paused(n, lane) || (c->lossless && !n->pause && lane->credits < size)) {
		refuse_now(n, h, lane, size);
		return false;
	}
	i = net_slot_take(n);
	if (i == NET_NONE) {
		refuse(n, packet, h, NET_DROP_MEMORY);
		return true;
	}
	s = &n->slot[i];
	slot_fill(n, s, packet, h);
	s->size = size;
	s->group = group;
	number(n, s);
	n->largest = size > n->largest ? size : n->largest;
	n->counters.sent++;
	host->link_free = n->now + net_slot_time(n, s);
	if (c->lossless && !n->pause)
		lane->credits -= size;
	if (c->store_forward)
		net_events_put(&n->events, host->link_free + c->link_delay + c->switch_in, NET_ARRIVE, i);
	else
		net_events_follow(&n->events, NET_FROM_HOST, n->now + c->link_delay + c->switch_in, NET_ARRIVE, i, 0);
	return true;
}

sp_time net_next(const struct net *n)
{
	return net_events_next(&n->events);
}

void net_run(struct net *n, sp_time until)
{
	struct net_event e;

	while (net_events_take(&n->events, until, &e)) {
		n->now = e.at;
		n->counters.events++;
		net_event_run(n, &e);
	}
	if (until != SP_NEVER && until > n->now)
		n->now = until;
}

static uint64_t memory(const struct net *n)
{
	const uint64_t ports = net_ports(n->topology);
	uint64_t bytes = sizeof(*n) + ports * sizeof(*n->port) + ports * n->vcs * sizeof(*n->queue) +
			 (uint64_t)n->topology->hosts * (sizeof(*n->host) + n->lanes * sizeof(*n->lane)) +
			 (n->pause ? ports * sizeof(*n->pause) : 0) + (uint64_t)n->slots * sizeof(*n->slot);

	for (uint32_t g = 0; g < n->groups; g++)
		bytes += (n->topology->switches + 1ull + n->group[g].first[n->topology->switches]) * sizeof(uint32_t);
	return bytes + net_events_memory(&n->events) + net_order_memory(n->order);
}

void net_count(const struct net *n, struct net_counters *counters)
{
	*counters = n->counters;
	counters->in_flight = n->used;
	counters->memory = memory(n);
}

sp_time net_serialisation(const struct net *n, uint32_t bytes)
{
	return net_link_time(n, (bytes + n->config.flit - 1) / n->config.flit * n->config.flit);
}
