/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of making and removing a context, shared by add, remove and reload. Callers hold nic->control. */
#ifndef PIPELINE_CONTROL_CONTEXT_PARTS_H
#define PIPELINE_CONTROL_CONTEXT_PARTS_H

struct sp_context;
struct sp_context_config;
struct sp_device;
struct sp_error;
struct sp_handler;
struct sp_nic;
struct sp_worker;

/* -EINVAL: the handler cannot be a context's first handler. */
int sp_context_check(const struct sp_handler *h, struct sp_error *error);
/* Takes over the caller's reference on h, also on failure. NULL: no memory. */
struct sp_context *sp_context_create(struct sp_nic *nic, const char *name, const struct sp_handler *h,
				     struct sp_device *device);
/* Allocates state, views, entities, events and settings, all that attach() needs. */
int sp_context_prepare(struct sp_context *c, const struct sp_context_config *config, struct sp_error *error);
/* Runs attach(), the companion's too, on the home worker, so that it may send packets, arm timers and start issues. */
int sp_context_attach(struct sp_context *c, struct sp_error *error);

/* Removes the context's waiting packets, timers, issues and work from all workers; from one. */
void sp_context_purge(struct sp_context *c);
void sp_context_purge_worker(struct sp_worker *w, struct sp_context *c);
/* Ends the context's messages and detaches it, on the home worker, after the other workers were purged. */
void sp_context_end(struct sp_context *c);
void sp_context_end_messages(struct sp_worker *w, struct sp_context *c);
/* NULL is fine. */
void sp_context_free(struct sp_context *c);

#endif
