/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of a context's handler. A reload gives each context a new version: a struct sp_context of its own with the
 * new code's state, messages and views, which takes over name, QPs, filter, area, event queue and entities. Workers go
 * on meanwhile. Messages, timers, issues and work end in the version that began them: it drains, and goes when nothing
 * is left there. Reports call versions copies.
 *
 * Which version a packet belongs to: an older version's table of messages is closed at one moment
 * (sp_messages_close()), and a message is looked up in the oldest version first. So a message is open in one version,
 * whichever worker asks, and no worker waits: until a table is closed all workers open their messages there, and from
 * then on none does.
 */
#ifndef PIPELINE_CONTROL_VERSIONS_H
#define PIPELINE_CONTROL_VERSIONS_H

#include "../../handlers/spindle-handler.h"

#include <pthread.h>
#include <stdint.h>

struct sp_error;
struct sp_context;

/* What a version has run, and what it still holds. */
struct sp_version_holds {
	uint64_t packets;
	uint64_t messages, timers, issues, works, waiting,
		lent; /* waiting: packets in the backlog or parked, of the current version only */
	int64_t held;
	sp_time now; /* the home worker's */
};

/* nic->control is held, here and below. The version, which no worker has seen yet, is the current one from now on. */
void sp_version_publish(struct sp_context *version);
/* Moves an older version's counts and its last error to the current version: no count of the context ever falls.
 * -ETIMEDOUT: a worker has stopped, and is left out. */
int sp_version_look(struct sp_context *c, struct sp_version_holds *holds);
/* Words for what a version holds, "3 messages open, 1 timer armed"; "nothing". */
const char *sp_version_says(const struct sp_version_holds *holds, char *text, size_t room);
/* Ends a version that has been replaced, if nothing is left there or its time is over. True: it is gone. */
bool sp_version_collect(struct sp_context *c, struct sp_version_holds *holds);
/* The context is being removed, and no worker finds it any more: ends its older versions. */
void sp_versions_end(struct sp_context *c);
unsigned sp_versions_count(const struct sp_context *c); /* those that drain, and the current one */

/* ---- calls: reload.c, loaded.c ---- */
/* One reload at a time in the process, which plug-ins belong to. Taken before nic->control. */
extern pthread_mutex_t sp_reloading;
struct sp_plugin;
struct sp_report;
/* name: a handler's name or a plug-in's file. NULL: *rc is -ENOENT or -EINVAL, and error says why. */
struct sp_plugin *sp_plugin_named(const char *name, struct sp_error *error, int *rc);
/* Whether the context's own handler, not a companion's, comes from that plug-in. */
bool sp_context_is_of(const struct sp_context *c, const struct sp_plugin *plugin);
/* As a list `copies`, the oldest first. collect: ends those that can go at once. */
void sp_versions_report(struct sp_report *r, struct sp_context *c, bool collect);
int sp_versions_finish(struct sp_report *r, char **json); /* ends r; json may be NULL. -ENOMEM */

#endif
