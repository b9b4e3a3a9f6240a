/* SPDX-License-Identifier: BSD-3-Clause */
/* Drops of removed contexts, by reason: the NIC's sums still count them. [control] */
#ifndef PIPELINE_OBSERVE_GONE_H
#define PIPELINE_OBSERVE_GONE_H

#include <stdint.h>

struct sp_context;
struct sp_nic;

/* A drop reason's sum. */
struct sp_gone {
	struct sp_gone *next;
	const char *name;
	uint64_t count;
};

void sp_stats_remember(struct sp_nic *nic, const struct sp_context *c);
void sp_stats_remember_drops(struct sp_nic *nic, const char *reason, uint64_t n);
void sp_stats_forget(struct sp_nic *nic);

#endif
