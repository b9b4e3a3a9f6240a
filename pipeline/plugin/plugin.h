/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plug-ins and their objects. A struct sp_plugin stays the same over reloads. Each load makes a new struct sp_object
 * with its own code, handlers and copy of the file; a replaced object stays until none of its handlers is in use.
 *
 * Each copied file gets a unique name: dlopen() of a replaced file returns the old code, and a linker that writes into
 * a mapped file changes running code. The copies are regular files, so that perf and gdb can read them. They lie in a
 * directory of this process, which is removed with the last copy or at exit. Threads: under plugin.c's lock.
 */
#ifndef PIPELINE_PLUGIN_PLUGIN_H
#define PIPELINE_PLUGIN_PLUGIN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct sp_error;
struct sp_plugin;
struct sp_object;
struct sp_handler;

const struct sp_plugin *sp_object_plugin(const struct sp_object *object); /* NULL: linked in */
/* name: a handler's name or a plug-in's file; NULL: none. The pointer is valid until someone unloads the plug-in. */
struct sp_plugin *sp_plugin_find(const char *name);
/* True if a plug-in's constructors or destructors have run for more than 5 s; text then names them. Any thread. */
bool sp_plugin_stuck(char *text, size_t room);
/* Loads a plug-in without giving the caller a handle; sp_plugin_drop() unloads it. */
int sp_plugin_load_named(const char *file, struct sp_error *error);
/* Unloads a plug-in however often it was loaded. -EBUSY: its handlers are in use. */
int sp_plugin_drop(struct sp_plugin *plugin);
/* Loads and checks a new object, which lookups do not find yet; file NULL: the plug-in's own file. Then call either
 * sp_plugin_replace() or sp_plugin_discard(). */
int sp_plugin_renew(struct sp_plugin *plugin, const char *file, struct sp_object **object, struct sp_error *error);
void sp_plugin_replace(struct sp_object *by);
void sp_plugin_discard(struct sp_object *object); /* its handlers must not be in use */
/* Unloads replaced objects whose handlers are no longer in use. */
void sp_plugins_collect(void);
/* From here on loads are refused with these words. */
void sp_plugins_shut(const char *why);
/* fn runs under the lock and must not call this module. copy: the load's number in its plug-in, from 1. */
struct sp_object_text {
	const struct sp_object *object;
	const char *file;
	unsigned copy, users, handlers;
	bool replaced;
	const struct sp_handler *const *handler;
};
void sp_objects_each(void (*fn)(void *arg, const struct sp_object_text *text), void *arg);

/* ---- copies of files ---- */
#define SP_PLUGIN_BYTES (256u << 20) /* of a file */

/* Waits up to half a second for a regular file to stop changing; *st is its state. -EAGAIN: it keeps changing. */
int sp_plugin_copy_settle(int fd, struct stat *st);
/* Copies the file fd, whose state is *st; the copy's name ends with `name`. 0 and the copy's absolute path, which the
 * caller frees; -EAGAIN: the file changed meanwhile; another -errno: *why says what failed. */
int sp_plugin_copy_make(int fd, const struct stat *st, const char *name, char **copy, const char **why);
/* Removes and frees copy, and the directory with the last copy. NULL is fine. */
void sp_plugin_copy_remove(char *copy);
/* True if the file fd and the copy have the same bytes. */
bool sp_plugin_copy_same(const char *copy, int fd);
/* dlopen() trusts an object's headers: if the file is cut off, or the linker has not written all of it, loading crashes
 * the process. Returns the fault in words; NULL: none found, or no ELF object, which dlopen() itself reports. */
const char *sp_plugin_copy_wrong(const char *copy);

#endif
