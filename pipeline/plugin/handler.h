/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's table of handlers: linked-in ones and those of plug-ins. Threads: any, except where noted; the table
 * has its own lock, and calls nothing while it holds that. sp_plugin_unload is a control call because a handler that
 * was found, but not taken, can go with its plug-in.
 */
#ifndef PIPELINE_PLUGIN_HANDLER_H
#define PIPELINE_PLUGIN_HANDLER_H

#include "../../handlers/spindle-handler.h"

struct sp_error;
struct sp_object;
struct sp_plugin; /* one load of a plug-in */

/* Finds a handler and takes a reference (one per context), which keeps it and its plug-in until sp_handler_put(). */
const struct sp_handler *sp_handler_take(const char *name);
void sp_handler_hold(const struct sp_handler *h); /* takes another reference */
void sp_handler_put(const struct sp_handler *h);  /* NULL is fine */
/* The error after sp_handler_take() found nothing: -ENOENT, or -EINVAL if the linked-in handler of that name has
 * another ABI or size. */
int sp_handler_missing(const char *name, const char *key, struct sp_error *error);

/* The declaration of a parameter; NULL: not declared. */
const struct sp_param *sp_handler_param(const struct sp_handler *h, const char *name);
/* Parses text as a value of param's type, within its bounds. 0, -EINVAL or -ERANGE. */
int sp_param_parse(const struct sp_param *param, const char *text, uint64_t *value);
unsigned sp_names_count(const char *const *names);

/* Checks a handler's table of this ABI and size: functions that need each other, names, bounds, sizes. 0, or -EINVAL
 * and words that name the handler. Loading a plug-in checks its handlers; a test checks the linked-in ones. */
int sp_handler_check(const struct sp_handler *h, struct sp_error *error);

/* ---- plug-ins ------------------------------------------------------------------------------------------------------
 */
#define SP_NOTED 64 /* handlers per plug-in */
struct sp_noted {
	const struct sp_handler *handler[SP_NOTED]; /* as registered, not checked yet */
	unsigned count;				    /* may exceed SP_NOTED */
};
/* Collects the handlers that this thread registers in *noted instead of the table; NULL: ends that. */
void sp_handlers_note(struct sp_noted *noted);
bool sp_handlers_noting(void);
/* Adds all noted handlers, or none with -EINVAL or -ENOSPC and words without the file's name. file: for
 * sp_handler_file; must outlive the object. instead: the object replaces one of the same plug-in and may use its names;
 * lookups find its handlers only after sp_handlers_switch(). */
int sp_handlers_add(const struct sp_noted *noted, struct sp_object *object, const struct sp_plugin *plugin,
		    bool instead, const char *file, struct sp_error *error);
/* From here on lookups find the handlers of `to` and no longer those of `from`. */
void sp_handlers_switch(const struct sp_object *from, const struct sp_object *to);
/* Removes all handlers of the object. -EBUSY: one of them is in use; then all stay. */
int sp_handlers_remove(const struct sp_object *object);
/* Lists up to SP_NOTED handlers of the object. Returns the sum of their users. */
unsigned sp_handlers_of(const struct sp_object *object, const struct sp_handler **handler, unsigned *count);
const struct sp_object *sp_handler_object(const struct sp_handler *h); /* NULL: linked in */

#endif
