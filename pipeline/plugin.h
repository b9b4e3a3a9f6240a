/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of plug-ins, each of a name of its own: dlopen() of a file that was replaced returns the old code, and a
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

#define SP_PLUGIN_BYTES (256u << 20) /* of a file */

/* Copies what fd reads, which is a regular file of size bytes; name: what the copy's name ends with. 0 and the copy's
 * absolute path, which the caller frees; or -errno. -EAGAIN: the file's size changed meanwhile; why: what could not be
 * done, for other errors. */
int sp_plugin_copy_make(int fd, size_t size, const char *name, char **copy, const char **why);
/* Also removes the directory with the last one. Frees copy; NULL is fine. */
void sp_plugin_copy_remove(char *copy);
/* Has the file that fd reads the copy's bytes? */
bool sp_plugin_copy_same(const char *copy, int fd);
/* dlopen() maps what the headers of a shared object name: where the file ends before that, using it ends the process.
 * True for what is no such file at all: dlopen() says what it is. */
bool sp_plugin_copy_whole(const char *copy);

#endif
