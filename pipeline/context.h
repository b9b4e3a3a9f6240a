/* SPDX-License-Identifier: BSD-3-Clause */
/* Execution contexts: made, found, taken down. nic->control is held by the callers. */
#ifndef PIPELINE_CONTEXT_H
#define PIPELINE_CONTEXT_H

#include "../handlers/spindle-handler.h"

#include <stddef.h>
#include <stdint.h>

struct sp_worker;
struct sp_handler;
struct sp_nic;
struct sp_context_config;
struct sp_device;
struct sp_context;
struct sp_error;

/* device: that opens it, or NULL: the NIC's own. -EDQUOT: beyond a limit of the application's. */
int sp_context_add(struct sp_nic *nic, const struct sp_context_config *config, struct sp_device *device,
		   struct sp_context **context, struct sp_error *error);
/* Ends its messages, timers, issues and work on every worker, then detaches and frees it. */
void sp_context_remove(struct sp_context *c);
/* ---- copies of a context's handler ---- */
/* Makes and attaches what is to take over from old; workers do not see it yet. */
int sp_context_succeed(struct sp_context *old, const struct sp_handler *h, struct sp_context **successor,
		       struct sp_error *error);
void sp_context_discard(struct sp_context *successor); /* which nobody has seen */
/* On the home worker, while all stand still. 0 where the handler has no migrate(). */
int sp_context_migrate(struct sp_worker *w, struct sp_context *to, struct sp_context *from, enum sp_migrate when,
		       struct sp_error *error);
/* A copy that has been replaced: ends what it still has, hands over and detaches; and frees it. */
void sp_context_drain(struct sp_context *c);
void sp_context_free(struct sp_context *c);
/* By id; also from workers. NULL. */
struct sp_context *sp_context_by_id(struct sp_nic *nic, uint32_t id);
/* What c may be told of another context: names are the business of its own application. */
const char *sp_context_name_for(const struct sp_context *c, const struct sp_context *other);
uint64_t sp_context_sum(const struct sp_context *c,
			size_t field); /* of a uint64_t in struct sp_view, over the workers */

/* stats.c: what a context that goes away has counted stays in the NIC's sums; and the end of that. */
void sp_stats_remember(struct sp_nic *nic, const struct sp_context *c);
void sp_stats_remember_drops(struct sp_nic *nic, const char *reason, uint64_t n);
void sp_stats_forget(struct sp_nic *nic);

#endif
