/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plug-ins and their copies. A plug-in is what sp_plugin_load() gives: it stays the same while what its file has become
 * is loaded in its place. Each time that is another object, with code, handlers and a copy of the file of its own; one
 * that has been replaced stays until none of its handlers is in use.
 *
 * Copies of files each have a name of their own: dlopen() of a file that was replaced returns the old code, and a
 * linker that writes into a file pulls it from under whoever runs it. The copies are regular files, so that perf and
 * gdb can read them, in a directory of this process's alone, which is there as long as there are copies in it, and is
 * removed at exit. Threads: under plugin.c's lock.
 */
#ifndef PIPELINE_PLUGIN_H
#define PIPELINE_PLUGIN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct sp_error;
struct sp_plugin;
struct sp_object;
struct sp_handler;

const struct sp_plugin *sp_object_plugin(const struct sp_object *object); /* NULL: of what is linked in */
/* By a handler's name or by its file; NULL. It is there as long as nobody unloads it. */
struct sp_plugin *sp_plugin_find(const char *name);
/* Are a plug-in's constructors or destructors running, and for longer than anybody should wait? In words which. Any
 * thread. */
bool sp_plugin_stuck(char *text, size_t room);
/* Loaded by name, for nobody who would unload it by its handle. */
int sp_plugin_load_named(const char *file, struct sp_error *error);
/* -EBUSY: handlers are in use. Else it is unloaded, however often it was loaded. */
int sp_plugin_drop(struct sp_plugin *plugin);
/* Loads and checks what is to replace it, which nobody finds yet; file NULL: the one that it came from. Then one of the
 * two. */
int sp_plugin_renew(struct sp_plugin *plugin, const char *file, struct sp_object **object, struct sp_error *error);
void sp_plugin_replace(struct sp_object *by);
void sp_plugin_discard(struct sp_object *object); /* none of its handlers is in use */
/* Objects that have been replaced, and that nobody uses any more, go. */
void sp_plugins_collect(void);
/* Under a lock: fn calls nothing of these. copy: 1, 2, ... of the plug-in's. */
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

/* Waits a little until the regular file that fd reads stays as it is; st: how. -EAGAIN: it does not. */
int sp_plugin_copy_settle(int fd, struct stat *st);
/* Copies what fd reads, which is as st says; name: what the copy's name ends with. 0 and the copy's absolute path,
 * which the caller frees; or -errno. -EAGAIN: the file has changed meanwhile; why: what could not be done, for other
 * errors. */
int sp_plugin_copy_make(int fd, const struct stat *st, const char *name, char **copy, const char **why);
/* Also removes the directory with the last one. Frees copy; NULL is fine. */
void sp_plugin_copy_remove(char *copy);
/* Has the file that fd reads the copy's bytes? */
bool sp_plugin_copy_same(const char *copy, int fd);
/* dlopen() believes the headers of a shared object: where the file ends before what they name, or a linker has not
 * written that yet, loading it ends the process. In words what is wrong; NULL: nothing, or it is no such file at all,
 * and dlopen() says so. */
const char *sp_plugin_copy_wrong(const char *copy);

#endif
