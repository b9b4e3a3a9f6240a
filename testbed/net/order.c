/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of packets by flow: a hash table with open addressing that doubles when it is half full. */
#include "order.h"

#include <stdlib.h>

#include "../random.h"

struct flow {
	uint64_t flow;
	uint32_t src, dst;
	uint32_t sent, highest; /* highest: 1 + the number of the latest that has arrived */
	bool used;
};

struct net_order {
	struct flow *flow;
	uint32_t room, count;
};

static struct flow *place(struct net_order *o, uint32_t src, uint32_t dst, uint64_t flow)
{
	uint64_t state = ((uint64_t)src << 32 | dst) ^ flow * 0x9E3779B97F4A7C15u;
	uint32_t i = (uint32_t)sp_splitmix(&state) & (o->room - 1);

	while (o->flow[i].used && (o->flow[i].src != src || o->flow[i].dst != dst || o->flow[i].flow != flow))
		i = (i + 1) & (o->room - 1);
	return &o->flow[i];
}

struct net_order *net_order_create(void)
{
	struct net_order *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->room = 1024;
	o->flow = calloc(o->room, sizeof(*o->flow));
	if (!o->flow) {
		free(o);
		return NULL;
	}
	return o;
}

void net_order_destroy(struct net_order *o)
{
	if (!o)
		return;
	free(o->flow);
	free(o);
}

size_t net_order_memory(const struct net_order *o)
{
	return o ? sizeof(*o) + o->room * sizeof(*o->flow) : 0;
}

static bool grow(struct net_order *o)
{
	struct net_order more = {.room = o->room * 2, .count = o->count};

	more.flow = calloc(more.room, sizeof(*more.flow));
	if (!more.flow)
		return false;
	for (uint32_t i = 0; i < o->room; i++)
		if (o->flow[i].used)
			*place(&more, o->flow[i].src, o->flow[i].dst, o->flow[i].flow) = o->flow[i];
	free(o->flow);
	*o = more;
	return true;
}

uint32_t net_order_sent(struct net_order *o, uint32_t src, uint32_t dst, uint64_t flow)
{
	struct flow *f = place(o, src, dst, flow);

	if (!f->used) {
		if (o->count == NET_MAX_FLOWS || (o->count * 2 >= o->room && !grow(o)))
			return NET_UNORDERED;
		f = place(o, src, dst, flow);
		*f = (struct flow){.flow = flow, .src = src, .dst = dst, .used = true};
		o->count++;
	}
	return f->sent == NET_UNORDERED ? NET_UNORDERED : f->sent++;
}

bool net_order_late(struct net_order *o, uint32_t src, uint32_t dst, uint64_t flow, uint32_t number)
{
	struct flow *f = place(o, src, dst, flow);

	if (!f->used)
		return false;
	if (number + 1 < f->highest)
		return true;
	f->highest = number + 1;
	return false;
}
