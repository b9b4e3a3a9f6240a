/* SPDX-License-Identifier: BSD-3-Clause */
/* LogGOPS parameters of real systems, as De Sensi et al. (2022) measured and used them. */
#ifndef TESTBED_GOAL_SYSTEM_H
#define TESTBED_GOAL_SYSTEM_H

#include "loggops.h"

struct goal_system {
	const char *name, *title;
	struct goal_hop near, far; /* within a switch; beyond */
	sp_time o;
	uint64_t S;
	uint32_t nodes_per_switch;
};

extern const struct goal_system goal_systems[]; /* up to one without a name */
extern const char *const goal_system_names[];	/* the same order, up to a NULL */

enum goal_racks {
	GOAL_FAR,	/* within a switch by its values, beyond by those of beyond */
	GOAL_NEAR,	/* all in one rack */
	GOAL_PUBLISHED, /* as the published runs: g is the far one, and L and G are the near ones everywhere, unless
			   they are drawn */
};

/* Parameters of a system, with handshakes; what is drawn, and from which seed, is the caller's to add. */
struct goal_loggops goal_system_loggops(const struct goal_system *s, enum goal_racks racks);

#endif
