/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of systems. Times in ps, G in ps a byte; where a system has one row for all, far is near. */
#include "system.h"

#include <stddef.h>

#define HOP(l, g_, G_)                                                                                                 \
	{                                                                                                              \
		.L = (l), .g = (g_), .G = (G_)                                                                         \
	}
#define BOTH(l, g_, G_) .near = HOP(l, g_, G_), .far = HOP(l, g_, G_)

#define SYSTEMS                                                                                                        \
	X("alps", "Alps (Slingshot)", .near = HOP(1900000, 0, 79), .far = HOP(1900000, 0, 92), .o = 230000, .S = 4096, \
	  .nodes_per_switch = 16)                                                                                      \
	X("aws", "AWS, c5n.metal", .near = HOP(28000000, 0, 170), .far = HOP(28000000, 22000000, 300), .S = 65536,     \
	  .nodes_per_switch = 32)                                                                                      \
	X("aws-normal", "AWS, c5.18xlarge", BOTH(21700000, 22000000, 400), .o = 2000000, .S = 32768,                   \
	  .nodes_per_switch = 32)                                                                                      \
	X("azure", "Azure, HC44rs, 100 Gbit/s", BOTH(1300000, 1500000, 86), .o = 150000, .S = 4096,                    \
	  .nodes_per_switch = 1)                                                                                       \
	X("azure-200g", "Azure, HBv2, 200 Gbit/s", BOTH(1700000, 1000000, 46), .S = 4096, .nodes_per_switch = 1)       \
	X("azure-normal", "Azure, F72s_v2", BOTH(30000000, 180000, 1100), .o = 5000000, .S = 131072,                   \
	  .nodes_per_switch = 1)                                                                                       \
	X("daint", "Piz Daint (Aries)", .near = HOP(500000, 6000000, 110), .far = HOP(500000, 6000000, 140),           \
	  .S = 4096, .nodes_per_switch = 16)                                                                           \
	X("deep-est", "DEEP-EST (InfiniBand)", BOTH(1600000, 5500000, 89), .o = 350000, .S = 4096,                     \
	  .nodes_per_switch = 32)                                                                                      \
	X("gcp", "Google Cloud, c2-standard-60", BOTH(23000000, 0, 390), .S = 65536, .nodes_per_switch = 22)           \
	X("gcp-normal", "Google Cloud, normal", BOTH(20000000, 3990000, 420), .o = 2000000, .S = 65536,                \
	  .nodes_per_switch = 22)                                                                                      \
	X("oracle", "Oracle Cloud, metal", .near = HOP(1600000, 5000000, 100), .far = HOP(1600000, 5000000, 105),      \
	  .o = 150000, .S = 4096, .nodes_per_switch = 8)

#define X(n, ...) {.name = n, .title = __VA_ARGS__},
const struct goal_system goal_systems[] = {SYSTEMS{.name = NULL}};
#undef X
#define X(n, ...) n,
const char *const goal_system_names[] = {SYSTEMS NULL};
#undef X

struct goal_loggops goal_system_loggops(const struct goal_system *s, enum goal_racks racks)
{
	struct goal_loggops p = {.hop = {s->near, s->far},
				 .nodes_per_switch = s->nodes_per_switch,
				 .o = s->o,
				 .S = s->S,
				 .handshake = true};

	if (racks == GOAL_NEAR) {
		p.nodes_per_switch = 0;
		p.hop[1] = s->near;
	} else if (racks == GOAL_PUBLISHED) {
		p.hop[0].g = s->far.g;
		p.hop[1].L = s->near.L;
		p.hop[1].G = s->near.G;
	}
	return p;
}
