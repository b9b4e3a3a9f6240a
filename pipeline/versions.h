/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of a context's handler. A reload gives each context a successor: an object with the new code's state,
 * messages and views, which takes over name, QPs, filter, area and event queue. Workers keep running. Messages, timers,
 * issues and work end on the version that began them; a version is freed once it has drained.
 *
 * Which version a packet belongs to: the old version's message table closes at one moment (sp_messages_close), and a
 * lookup asks the oldest version first. So a message is open in exactly one version, on every worker, and no worker has
 * to wait: before the close all workers open messages in the old table, after it none does.
 */
#ifndef PIPELINE_VERSIONS_H
#define PIPELINE_VERSIONS_H

#include "../handlers/spindle-handler.h"

#include <pthread.h>
#include <stdint.h>

struct sp_error;
struct sp_context;

/* What a version has run and still holds. */
struct sp_version_holds {
	uint64_t packets;
	uint64_t messages, timers, issues, works, waiting, lent; /* waiting: for the scheduler or a header() */
	int64_t kept;
	sp_time now; /* the home worker's */
};

/* nic->control is held, here and below. Makes the successor visible: from now on it is the context. */
void sp_version_publish(struct sp_context *successor);
/* Reads what c holds, and moves c's counts and last error to the newest version, so that sums never go back. */
int sp_version_look(struct sp_context *c,
		    struct sp_version_holds *holds); /* -ETIMEDOUT: a stopped worker is left out */
/* What a version holds, in words: "3 messages open, 1 timer armed"; "nothing". */
const char *sp_version_says(const struct sp_version_holds *holds, char *text, size_t room);
/* Frees a replaced version if it has drained or its time is over; true: it is gone. */
bool sp_version_collect(struct sp_context *c, struct sp_version_holds *holds);
/* The context is being removed, and no lookup finds it any more: ends its older versions. */
void sp_versions_end(struct sp_context *c);
unsigned sp_versions_count(const struct sp_context *c); /* existing versions, the newest included */

/* ---- calls: reload.c, loaded.c ---- */
/* Held by reloads: one at a time in the process, as all NICs share its plug-ins. Taken before nic->control. */
extern pthread_mutex_t sp_reloading;
struct sp_plugin;
struct sp_report;
/* name: a handler's name or a plug-in's file. NULL: *rc is -ENOENT or -EINVAL, and error says why. */
struct sp_plugin *sp_plugin_named(const char *name, struct sp_error *error, int *rc);
bool sp_context_is_of(const struct sp_context *c,
		      const struct sp_plugin *plugin); /* its own handler, not a companion's */
/* Reports a list `copies`, the oldest first. collect: also frees versions that have drained. */
void sp_versions_report(struct sp_report *r, struct sp_context *c, bool collect);
int sp_versions_finish(struct sp_report *r, char **json); /* ends r; json may be NULL. -ENOMEM */

#endif
