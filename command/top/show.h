/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_TOP_SHOW_H
#define COMMAND_TOP_SHOW_H

#include "../stat/view.h"

/* A NIC, by its latest two samples. */
struct top_nic {
	const char *name;
	struct stat_sample now, before;
};

/* Tables of all NICs together: NICs, workers, contexts, applications; rates since the previous samples. */
void top_show(const struct stat_view *v, const struct top_nic *nic, unsigned nics, FILE *to);

#endif
