/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of making a context and of taking it down, which adding, removing and reloading have in common.
 * nic->control is held by the callers. */
#ifndef PIPELINE_CONTEXT_PARTS_H
#define PIPELINE_CONTEXT_PARTS_H

struct sp_context;
struct sp_context_config;
struct sp_device;
struct sp_error;
struct sp_handler;
struct sp_nic;
struct sp_worker;

/* -EINVAL: such a handler cannot be the first one of a context. */
int sp_context_check(const struct sp_handler *h, struct sp_error *error);
/* h has been taken, and is given back with the context, or here. NULL: no memory. */
struct sp_context *sp_context_create(struct sp_nic *nic, const char *name, const struct sp_handler *h,
				     struct sp_device *device);
/* State, views, entities, events and settings: what attach() needs. */
int sp_context_prepare(struct sp_context *c, const struct sp_context_config *config, struct sp_error *error);
/* On the home worker, so that attach() may send, arm and start like any other call; the companion's, too. */
int sp_context_attach(struct sp_context *c, struct sp_error *error);

/* Takes what workers have of the context: what waits, timers, issues, work. On all of them; on one. */
void sp_context_purge(struct sp_context *c);
void sp_context_purge_worker(struct sp_worker *w, struct sp_context *c);
/* On the home worker, when the others have nothing of the context any more: ends its messages and detaches. */
void sp_context_end(struct sp_context *c);
void sp_context_end_messages(struct sp_worker *w, struct sp_context *c);
/* NULL is fine. */
void sp_context_free(struct sp_context *c);

#endif
