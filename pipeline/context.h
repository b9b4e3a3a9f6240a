/* SPDX-License-Identifier: BSD-3-Clause */
/* Execution contexts: made, found, taken down. nic->control is held by the callers. */
#ifndef PIPELINE_CONTEXT_H
#define PIPELINE_CONTEXT_H

#include "worker.h"

/* device: that opens it, or NULL: the NIC's own. -EDQUOT: beyond a limit of the application's. */
int sp_context_add(struct sp_nic *nic, const struct sp_context_config *config, struct sp_device *device,
		   struct sp_context **context, struct sp_error *error);
/* Ends its messages, timers, issues and work on every worker, then detaches and frees it. */
void sp_context_remove(struct sp_context *c);
/* By id; also from workers. NULL. */
struct sp_context *sp_context_by_id(struct sp_nic *nic, uint32_t id);
/* Memory that attach() wants; says why not when it is the application's limit. Give back with sp_memory_credit. */
int sp_context_charge(struct sp_context *c, uint64_t bytes);
/* Zeroed, 64-byte aligned memory of the context's, accounted but for what is behind `bytes`, freed with it. */
void *sp_context_alloc(struct sp_context *c, size_t bytes, size_t more);
/* Of a watched context: bytes of a block of sp_alloc's that has been written behind; 0: none of the next SP_CANARIES.
 */
#define SP_CANARIES 64
size_t sp_context_overrun(struct sp_context *c);
uint64_t sp_context_sum(const struct sp_context *c,
			size_t field); /* of a uint64_t in struct sp_view, over the workers */

/* stats.c: what a context that goes away has counted stays in the NIC's sums; and the end of that. */
void sp_stats_remember(struct sp_nic *nic, const struct sp_context *c);
void sp_stats_forget(struct sp_nic *nic);

#endif
