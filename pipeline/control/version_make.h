/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a new version of a context's handler, and ends an older one. Callers hold nic->control. */
#ifndef PIPELINE_CONTROL_VERSION_MAKE_H
#define PIPELINE_CONTROL_VERSION_MAKE_H

#include "../../handlers/spindle-handler.h"

struct sp_context;
struct sp_error;
struct sp_handler;
struct sp_worker;

/* Makes and attaches a successor of old; workers do not see it yet. */
int sp_version_create(struct sp_context *old, const struct sp_handler *h, struct sp_context **version,
		      struct sp_error *error);
void sp_version_discard(struct sp_context *version); /* no worker has seen it */
/* On the home worker, while all workers stand still. 0 if the handler has no migrate(). */
int sp_version_migrate(struct sp_worker *w, struct sp_context *to, struct sp_context *from, enum sp_migrate when,
		       struct sp_error *error);
/* Ends a replaced version's messages, timers, issues and work, offers the rest to the current version's migrate(), and
 * detaches. After that the version can be freed. */
void sp_version_drain(struct sp_context *c);
void sp_version_free(struct sp_context *c);

#endif
