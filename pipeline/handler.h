/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers that this process knows: those that are linked in, and those of plug-ins.
 * Threads: any, also at once, except where said; the registry has a lock of its own, which nothing is called under. A
 * handler that is only found, not taken, may go with its plug-in: sp_plugin_unload is a control call for that reason.
 */
#ifndef PIPELINE_HANDLER_H
#define PIPELINE_HANDLER_H

#include "../handlers/spindle-handler.h"

struct sp_error;
struct sp_object; /* a loaded copy of a plug-in */

/* Finds a handler, which stays, with its plug-in, until it is put again: once for each context that has it. NULL. */
const struct sp_handler *sp_handler_take(const char *name);
void sp_handler_hold(const struct sp_handler *h); /* as taken, of one that is known */
void sp_handler_put(const struct sp_handler *h);  /* NULL is fine */
/* sp_handler_take() has found none: says so, or that what is linked in under that name is of another ABI or size.
 * -ENOENT, -EINVAL. */
int sp_handler_missing(const char *name, const char *key, struct sp_error *error);

/* The declaration of a parameter; NULL. */
const struct sp_param *sp_handler_param(const struct sp_handler *h, const char *name);
/* A value as the declaration wants it; 0 and *value, or -EINVAL, -ERANGE. */
int sp_param_parse(const struct sp_param *param, const char *text, uint64_t *value);
unsigned sp_names_count(const char *const *names);

/* Whether a table can be right, of this ABI and size: functions that need each other, names, bounds, sizes. 0, or
 * -EINVAL and words that name the handler. Plug-ins are refused by it; what is linked in, a test goes over. */
int sp_handler_check(const struct sp_handler *h, struct sp_error *error);

/* ---- plug-ins ------------------------------------------------------------------------------------------------------
 */
#define SP_NOTED 64 /* handlers of one plug-in */
struct sp_noted {
	const struct sp_handler *handler[SP_NOTED]; /* as they were registered: nothing of them is checked */
	unsigned count;				    /* may be more than there is room for */
};
/* From here on what this thread registers is noted, and not yet known; NULL: that ends. */
void sp_handlers_note(struct sp_noted *noted);
bool sp_handlers_noting(void);
/* All of them, or none and -EINVAL, -ENOSPC and words (without the file's name). file: for sp_handler_file; it must
 * outlive the object. instead: the object's plug-in is loaded already, and names of its other copies are no reason to
 * refuse; nobody finds the new ones before sp_handlers_switch(). */
int sp_handlers_add(const struct sp_noted *noted, struct sp_object *object, bool instead, const char *file,
		    struct sp_error *error);
/* From here on names mean the handlers of to, and nobody finds those of from any more. */
void sp_handlers_switch(const struct sp_object *from, const struct sp_object *to);
/* All that came with it. -EBUSY: one of them is taken; then all stay. */
int sp_handlers_remove(const struct sp_object *object);
/* Up to SP_NOTED of them; how many users they have together. */
unsigned sp_handlers_of(const struct sp_object *object, const struct sp_handler **handler, unsigned *count);
const struct sp_object *sp_handler_object(const struct sp_handler *h); /* NULL: linked in */

#endif
