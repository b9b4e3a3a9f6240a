/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded: paths below /dev/infiniband and /sys/class/infiniband* lead into the tree that `spindle verbs` has
 * made, $SPINDLE_VERBS_TREE, as UCX, perftest and others have them built in. All other paths, and paths relative to a
 * directory, are libc's as they were. No call allocates, so that a program's own malloc may open files. Programs that
 * make system calls by themselves (Go) see the real directories.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEVICES "/dev/infiniband"
#define CLASSES "/sys/class/infiniband" /* and _verbs, _mad, ... */

static char root[PATH_MAX];
static size_t root_len;
static bool known; /* atomic; two threads would write the same */

static void find_root(void)
{
	const char *tree = secure_getenv("SPINDLE_VERBS_TREE");
	const size_t len = tree ? strlen(tree) : 0;

	if (len && len < sizeof(root) / 2) {
		memcpy(root, tree, len);
		root_len = len;
	}
	__atomic_store_n(&known, true, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void find_root_first(void)
{
	if (!known)
		find_root();
}

static bool ours(const char *path)
{
	const size_t devices = sizeof(DEVICES) - 1;

	if (path[0] != '/')
		return false;
	if (!strncmp(path, CLASSES, sizeof(CLASSES) - 1))
		return true;
	return !strncmp(path, DEVICES, devices) && (!path[devices] || path[devices] == '/');
}

/* The path itself, or in the tree; NULL and errno: it is too long there. */
static const char *led(const char *path, char moved[PATH_MAX])
{
	if (!path || !ours(path))
		return path;
	if (!__atomic_load_n(&known, __ATOMIC_ACQUIRE))
		find_root();
	if (!root_len)
		return path;
	const size_t len = strlen(path);
	if (root_len + len >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	memcpy(moved, root, root_len);
	memcpy(moved + root_len, path, len + 1);
	return moved;
}

/* The next library's function of that name, or NULL and ENOSYS. */
static void *next_of(void **kept, const char *name)
{
	void *next = __atomic_load_n(kept, __ATOMIC_RELAXED);

	if (!next) {
		next = dlsym(RTLD_NEXT, name);
		__atomic_store_n(kept, next, __ATOMIC_RELAXED);
	}
	if (!next)
		errno = ENOSYS;
	return next;
}

/* A function of libc whose argument `path` may be led elsewhere. */
#define LED(type, failed, name, parameters, ...)                                                                       \
	type name parameters;                                                                                          \
	type name parameters                                                                                           \
	{                                                                                                              \
		static void *kept;                                                                                     \
		type(*const next) parameters = next_of(&kept, #name);                                                  \
		char moved[PATH_MAX];                                                                                  \
		const char *const given = path;                                                                        \
                                                                                                                       \
		if (!next)                                                                                             \
			return failed;                                                                                 \
		path = led(given, moved);                                                                              \
		return path || !given ? next(__VA_ARGS__) : failed;                                                    \
	}

/* ---- opening ---- */
/* With a mode as third argument if a file may be made. */
#define MODE_OF(flags)                                                                                                 \
	mode_t mode = 0;                                                                                               \
	if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) {                                                     \
		va_list more;                                                                                          \
		va_start(more, flags);                                                                                 \
		mode = va_arg(more, mode_t);                                                                           \
		va_end(more);                                                                                          \
	}

#define OPEN(name)                                                                                                     \
	int name(const char *path, int flags, ...)                                                                     \
	{                                                                                                              \
		static void *kept;                                                                                     \
		int (*const next)(const char *, int, ...) = next_of(&kept, #name);                                     \
		char moved[PATH_MAX];                                                                                  \
		const char *const to = led(path, moved);                                                               \
		MODE_OF(flags)                                                                                         \
                                                                                                                       \
		return next && (to || !path) ? next(to, flags, mode) : -1;                                             \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                   \
	int name(int at, const char *path, int flags, ...)                                                             \
	{                                                                                                              \
		static void *kept;                                                                                     \
		int (*const next)(int, const char *, int, ...) = next_of(&kept, #name);                                \
		char moved[PATH_MAX];                                                                                  \
		const char *const to = led(path, moved);                                                               \
		MODE_OF(flags)                                                                                         \
                                                                                                                       \
		return next && (to || !path) ? next(at, to, flags, mode) : -1;                                         \
	}
OPENAT(openat)
OPENAT(openat64)

/* What _FORTIFY_SOURCE makes of them. */
LED(int, -1, __open_2, (const char *path, int flags), path, flags)
LED(int, -1, __open64_2, (const char *path, int flags), path, flags)
LED(int, -1, __openat_2, (int at, const char *path, int flags), at, path, flags)
LED(int, -1, __openat64_2, (int at, const char *path, int flags), at, path, flags)

LED(FILE *, NULL, fopen, (const char *path, const char *mode), path, mode)
LED(FILE *, NULL, fopen64, (const char *path, const char *mode), path, mode)

/* ---- directories ---- */
typedef int chosen_fn(const struct dirent *);
typedef int order_fn(const struct dirent **, const struct dirent **);
typedef int chosen64_fn(const struct dirent64 *);
typedef int order64_fn(const struct dirent64 **, const struct dirent64 **);
typedef int glob_error_fn(const char *, int);

LED(DIR *, NULL, opendir, (const char *path), path)
LED(int, -1, chdir, (const char *path), path)
LED(int, -1, scandir, (const char *path, struct dirent ***list, chosen_fn *chosen, order_fn *order), path, list, chosen,
    order)
LED(int, -1, scandir64, (const char *path, struct dirent64 ***list, chosen64_fn *chosen, order64_fn *order), path, list,
    chosen, order)
LED(int, GLOB_ABORTED, glob, (const char *path, int flags, glob_error_fn *error, glob_t *found), path, flags, error,
    found)
LED(int, GLOB_ABORTED, glob64, (const char *path, int flags, glob_error_fn *error, glob64_t *found), path, flags, error,
    found)

/* ---- what is there ---- */
LED(int, -1, stat, (const char *path, struct stat *st), path, st)
LED(int, -1, lstat, (const char *path, struct stat *st), path, st)
LED(int, -1, stat64, (const char *path, struct stat64 *st), path, st)
LED(int, -1, lstat64, (const char *path, struct stat64 *st), path, st)
LED(int, -1, fstatat, (int at, const char *path, struct stat *st, int flags), at, path, st, flags)
LED(int, -1, fstatat64, (int at, const char *path, struct stat64 *st, int flags), at, path, st, flags)
LED(int, -1, statx, (int at, const char *path, int flags, unsigned mask, struct statx *st), at, path, flags, mask, st)
/* Of programs that were linked with glibc before 2.33. */
LED(int, -1, __xstat, (int version, const char *path, struct stat *st), version, path, st)
LED(int, -1, __lxstat, (int version, const char *path, struct stat *st), version, path, st)
LED(int, -1, __xstat64, (int version, const char *path, struct stat64 *st), version, path, st)
LED(int, -1, __lxstat64, (int version, const char *path, struct stat64 *st), version, path, st)
LED(int, -1, __fxstatat, (int version, int at, const char *path, struct stat *st, int flags), version, at, path, st,
    flags)
LED(int, -1, __fxstatat64, (int version, int at, const char *path, struct stat64 *st, int flags), version, at, path, st,
    flags)

LED(int, -1, access, (const char *path, int mode), path, mode)
LED(int, -1, eaccess, (const char *path, int mode), path, mode)
LED(int, -1, euidaccess, (const char *path, int mode), path, mode)
LED(int, -1, faccessat, (int at, const char *path, int mode, int flags), at, path, mode, flags)

LED(ssize_t, -1, getxattr, (const char *path, const char *name, void *value, size_t room), path, name, value, room)
LED(ssize_t, -1, lgetxattr, (const char *path, const char *name, void *value, size_t room), path, name, value, room)
LED(ssize_t, -1, listxattr, (const char *path, char *names, size_t room), path, names, room)
LED(ssize_t, -1, llistxattr, (const char *path, char *names, size_t room), path, names, room)

/* ---- where a path leads: into the tree, where the answer is good for further calls ---- */
LED(ssize_t, -1, readlink, (const char *path, char *link, size_t room), path, link, room)
LED(ssize_t, -1, readlinkat, (int at, const char *path, char *link, size_t room), at, path, link, room)
LED(ssize_t, -1, __readlink_chk, (const char *path, char *link, size_t room, size_t most), path, link, room, most)
LED(ssize_t, -1, __readlinkat_chk, (int at, const char *path, char *link, size_t room, size_t most), at, path, link,
    room, most)
LED(char *, NULL, realpath, (const char *path, char *full), path, full)
LED(char *, NULL, __realpath_chk, (const char *path, char *full, size_t most), path, full, most)
LED(char *, NULL, canonicalize_file_name, (const char *path), path)
