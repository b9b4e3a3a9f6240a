/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Older versions of a handler while they drain. A reload gives a context a new version; the messages that are open end
 * in the version that began them, and that version opens no new ones. So while there are older versions, each packet's
 * message is looked up there first. Normally there are none, which costs one branch per context and burst.
 */
#ifndef PIPELINE_EXEC_DRAIN_H
#define PIPELINE_EXEC_DRAIN_H

#include "../context.h"
#include "../view.h"

static inline bool sp_is_draining(const struct sp_context *c)
{
	return __atomic_load_n(&c->older, __ATOMIC_ACQUIRE) != NULL;
}

/* As sp_call_packets(), by all versions of the context; v is the current one's view. */
void sp_drain_packets(struct sp_view *v, struct sp_packet **p, unsigned n);

#endif
