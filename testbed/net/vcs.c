/* SPDX-License-Identifier: BSD-3-Clause */
/* Which routings a topology has, and how many VCs each of them needs to be free of deadlock: route.c says why. */
#include "graph.h"
#include "net.h"

const char *const net_routing_names[NET_ROUTINGS] = {"minimal", "valiant", "adaptive", "ugal", "ecmp", "spray"};

const char *const net_drop_names[NET_DROPS] = {"input_full", "output_full", "oversized", "no_host", "memory"};

static bool has_rings(const struct net_topology *t)
{
	for (uint32_t d = 0; d < t->dimensions; d++)
		if (t->size[d] > 3)
			return true;
	return false;
}

uint32_t net_vcs_needed(const struct net_topology *t, enum net_routing routing)
{
	static const uint8_t fattree[NET_ROUTINGS] = {
		[NET_MINIMAL] = 1, [NET_ADAPTIVE] = 1, [NET_ECMP] = 1, [NET_SPRAY] = 1};
	static const uint8_t dragonfly[NET_ROUTINGS] = {2, 3, 3, 3, 2, 2};
	static const uint8_t hyperx[NET_ROUTINGS] = {[NET_MINIMAL] = 1, [NET_VALIANT] = 2, [NET_ADAPTIVE] = 2};
	uint32_t diameter;

	if (routing >= NET_ROUTINGS)
		return 0;
	switch (t->kind) {
	case NET_STAR:
		return routing == NET_MINIMAL;
	case NET_TORUS:
		return routing == NET_MINIMAL ? 1 + has_rings(t) : routing == NET_VALIANT ? 2 + 2 * has_rings(t) : 0;
	case NET_FATTREE:
		return fattree[routing];
	case NET_DRAGONFLY:
		return dragonfly[routing];
	case NET_HYPERX:
		return routing == NET_ECMP || routing == NET_SPRAY ? t->dimensions : hyperx[routing];
	case NET_GRAPH:
		if (routing == NET_VALIANT || routing == NET_UGAL)
			return 0;
		diameter = t->cyclic ? net_topology_diameter(t) : 1;
		return diameter ? diameter : 1;
	}
	return 0;
}
