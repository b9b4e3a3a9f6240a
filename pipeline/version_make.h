/* SPDX-License-Identifier: BSD-3-Clause */
/* A new version of a context's handler, and the end of an older one. nic->control is held by the callers. */
#ifndef PIPELINE_VERSION_MAKE_H
#define PIPELINE_VERSION_MAKE_H

#include "../handlers/spindle-handler.h"

struct sp_context;
struct sp_error;
struct sp_handler;
struct sp_worker;

/* Makes and attaches the version that is to replace old; workers do not see it yet. */
int sp_version_create(struct sp_context *old, const struct sp_handler *h, struct sp_context **version,
		      struct sp_error *error);
void sp_version_discard(struct sp_context *version); /* no worker has seen it */
/* On the home worker, while all stand still. 0 where the handler has no migrate(). */
int sp_version_migrate(struct sp_worker *w, struct sp_context *to, struct sp_context *from, enum sp_migrate when,
		       struct sp_error *error);
/* A version that has been replaced: ends what it still has, offers what is left to the current version's migrate(), and
 * detaches; then it can be freed. */
void sp_version_drain(struct sp_context *c);
void sp_version_free(struct sp_context *c);

#endif
