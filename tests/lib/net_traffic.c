/* SPDX-License-Identifier: BSD-3-Clause */
#include "net_traffic.h"

#include <stdlib.h>

#include "suite.h"

#define NONE UINT32_MAX

static void delivered(void *arg, const struct net_packet *p, sp_time now)
{
	struct traffic *t = arg;
	struct traffic_packet *q = &t->packet[p->tag];

	CU_ASSERT_EQUAL(p->src, q->src);
	CU_ASSERT((q->dst & NET_GROUP) || p->dst == q->dst);
	CU_ASSERT_EQUAL(p->bytes, q->bytes);
	q->times++;
	q->arrived = now;
	q->hops = p->hops;
	q->ecn = p->ecn;
	t->end = now;
	t->digest = (t->digest ^ (p->tag << 32) ^ p->dst ^ now) * 0x100000001B3u;
}

static void dropped(void *arg, const struct net_packet *p, enum net_drop why, sp_time now)
{
	struct traffic *t = arg;

	t->drops++;
	t->packet[p->tag].dropped = true;
	t->digest = (t->digest ^ (p->tag << 32) ^ why ^ now) * 0x100000001B3u;
}

static void send_more(struct traffic *t, uint32_t h, sp_time now)
{
	while (t->first[h] != NONE) {
		struct traffic_packet *p = &t->packet[t->first[h]];

		const struct net_packet packet = {
			.dst = p->dst, .bytes = p->bytes, .flow = p->flow, .priority = p->priority, .tag = t->first[h]};

		if (!net_send(t->net, h, &packet, now)) {
			t->early++;
			return;
		}
		p->sent = now;
		t->first[h] = p->next;
	}
}

static void has_room(void *arg, uint32_t host, sp_time now)
{
	send_more(arg, host, now);
}

void traffic_open(struct traffic *t, const char *topology, struct net_config config)
{
	char why[256] = "";

	*t = (struct traffic){0};
	CU_ASSERT_EQUAL_FATAL(net_topology_parse(topology, &t->topology, why, sizeof(why)), 0);
	config.topology = t->topology;
	config.deliver = delivered;
	config.room = has_room;
	config.drop = dropped;
	config.arg = t;
	CU_ASSERT_EQUAL_FATAL(net_create(&config, &t->net, why, sizeof(why)), 0);
	t->first = malloc(net_topology_hosts(t->topology) * sizeof(*t->first));
	t->last = malloc(net_topology_hosts(t->topology) * sizeof(*t->last));
	for (uint32_t h = 0; h < net_topology_hosts(t->topology); h++)
		t->first[h] = NONE;
}

void traffic_close(struct traffic *t)
{
	net_destroy(t->net);
	net_topology_destroy(t->topology);
	free(t->packet);
	free(t->first);
	free(t->last);
}

uint32_t traffic_add(struct traffic *t, uint32_t src, uint32_t dst, uint32_t bytes, sp_time from, uint64_t flow)
{
	if (t->count == t->room) {
		t->room = t->room * 2 + 64;
		t->packet = realloc(t->packet, t->room * sizeof(*t->packet));
	}
	t->packet[t->count] = (struct traffic_packet){
		.src = src, .dst = dst, .bytes = bytes, .from = from, .flow = flow, .next = NONE};
	return t->count++;
}

bool traffic_run(struct traffic *t)
{
	struct net_counters c;
	uint64_t out = 0;

	for (uint32_t i = 0; i < t->count; i++) {
		const uint32_t h = t->packet[i].src;
		const bool idle = t->first[h] == NONE;

		if (idle)
			t->first[h] = i;
		else
			t->packet[t->last[h]].next = i;
		t->last[h] = i;
		net_run(t->net, t->packet[i].from);
		if (idle && t->first[h] == i)
			send_more(t, h, t->packet[i].from);
	}
	net_run(t->net, SP_NEVER);
	net_count(t->net, &c);
	for (unsigned r = 0; r < NET_DROPS; r++)
		out += c.dropped[r];
	for (uint32_t h = 0; h < net_topology_hosts(t->topology); h++)
		if (t->first[h] != NONE)
			return false;
	return out == t->drops && c.sent == t->count && c.sent + c.copied == c.delivered + out && c.in_flight == 0 &&
	       net_next(t->net) == SP_NEVER;
}
