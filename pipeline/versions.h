/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of a context's handler. A reload gives each context a successor: an object of its own with the new code's
 * state, messages and views, which takes over name, QPs, filter, area and event queue. Workers go on meanwhile.
 * Messages, timers, issues and work end on the copy that began them; it goes when nothing is left there.
 *
 * Which packet is whose: an older copy's table of messages is closed at one moment (sp_messages_close), and who looks
 * for a message asks the oldest copy first. So a message is open in one copy, whichever worker asks, without any worker
 * having to wait: until a table is closed all open their messages there, and from then on nobody does.
 */
#ifndef PIPELINE_VERSIONS_H
#define PIPELINE_VERSIONS_H

#include "../handlers/spindle-handler.h"

#include <pthread.h>
#include <stdint.h>

struct sp_error;
struct sp_context;

/* What a copy has run, and what it still holds. */
struct sp_version_holds {
	uint64_t packets;
	uint64_t messages, timers, issues, works, waiting, lent; /* waiting: packets for their turn or a header() */
	int64_t kept;
	sp_time now; /* the home worker's */
};

/* nic->control is held, here and below. The successor, which nobody has seen yet, is the context from now on. */
void sp_version_publish(struct sp_context *successor);
/* Its counts so far, and its last fault, become the newest copy's: nothing of the context is less than it was. */
int sp_version_look(struct sp_context *c,
		    struct sp_version_holds *holds); /* -ETIMEDOUT: a worker has stopped, and is left out */
/* Words for what a copy holds, "3 messages open, 1 timer armed"; "nothing". */
const char *sp_version_says(const struct sp_version_holds *holds, char *text, size_t room);
/* A copy that has been replaced goes, if nothing is left there, or its time is over. */
bool sp_version_collect(struct sp_context *c, struct sp_version_holds *holds);
/* The context goes, and nobody finds it any more: so do its older copies. */
void sp_versions_end(struct sp_context *c);
unsigned sp_versions_count(const struct sp_context *c); /* in flight, the newest included */

/* ---- calls: reload.c, loaded.c ---- */
/* One at a time in the process, since a plug-in is the process's. Taken before nic->control. */
extern pthread_mutex_t sp_reloading;
struct sp_plugin;
struct sp_report;
/* By a handler's name or by its file; NULL, -ENOENT or -EINVAL in *rc, and words. */
struct sp_plugin *sp_plugin_named(const char *name, struct sp_error *error, int *rc);
bool sp_context_is_of(const struct sp_context *c,
		      const struct sp_plugin *plugin); /* its own handler, not a companion's */
/* As a list `copies`, the oldest first. collect: those that can go at once do. */
void sp_versions_report(struct sp_report *r, struct sp_context *c, bool collect);
int sp_versions_finish(struct sp_report *r, char **json); /* ends it; json may be NULL. -ENOMEM */

#endif
