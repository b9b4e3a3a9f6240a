/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose word a plug-in's file is. Whoever can write to the file, or to a directory or symbolic link on the way to it,
 * can run code in the NIC: all of them must belong to root or to the user of this process, and nobody else may write
 * there. The way is walked by descriptors, each checked before the next step, so that a swap meanwhile changes nothing.
 */
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_LINKS 40 /* as the kernel follows */

struct walk {
	int fd;		     /* the directory that has been reached */
	char seen[PATH_MAX]; /* its path, for messages */
	char left[PATH_MAX]; /* the rest of the way */
	unsigned links;
	char *why;
	size_t room;
};

static int __attribute__((format(printf, 3, 4))) refuse(struct walk *w, int err, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(w->why, w->room, format, list);
	va_end(list);
	return -err;
}

/* Long paths keep their ends. */
static const char *end_of(const char *path)
{
	const size_t len = strlen(path);

	return len > 80 ? path + len - 80 : path;
}

static bool mapped(uint32_t uid)
{
	unsigned long from, outside, count;
	FILE *f = fopen("/proc/self/uid_map", "re");
	bool is = !f;

	while (f && !is && fscanf(f, "%lu %lu %lu", &from, &outside, &count) == 3)
		is = uid >= from && uid - from < count;
	if (f)
		fclose(f);
	return is;
}

/* In a user namespace all owners outside of it, the machine's root among them, look like one user that does not exist
 * inside. Nothing else can be known of them. */
static bool outside(uint32_t uid)
{
	unsigned long overflow = 65534;
	FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");

	if (f && fscanf(f, "%lu", &overflow) != 1)
		overflow = 65534;
	if (f)
		fclose(f);
	return uid == overflow && !mapped(uid);
}

/* Nobody but its owner removes or replaces what is in a sticky directory: such as /tmp. */
static int check(struct walk *w, const char *path, const struct stat *st)
{
	const bool sticky = S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX;

	if (st->st_uid && st->st_uid != geteuid() && !outside(st->st_uid))
		return refuse(w, EPERM, "%s belongs to user %u: only root's plug-ins are loaded%s", end_of(path),
			      (unsigned)st->st_uid, geteuid() ? ", and those of the NIC's own user" : "");
	/* what is neither file nor directory is refused later, in other words */
	if ((S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)) && st->st_mode & (S_IWGRP | S_IWOTH) && !sticky)
		return refuse(w, EPERM, "others than its owner may write to %s (mode %04o): chmod go-w", end_of(path),
			      (unsigned)st->st_mode & 07777);
	return 0;
}

static int failed(struct walk *w, const char *path)
{
	const int err = errno;

	return refuse(w, err, "%s: %s%s", end_of(path), strerror(err),
		      err == EACCES
			      ? " (a running NIC reads plug-ins only where plugin and plugin-directory of [nic] say)"
			      : "");
}

/* From here on the way begins at the root. */
static int restart(struct walk *w)
{
	struct stat st;

	if (w->fd >= 0)
		close(w->fd);
	strcpy(w->seen, "/");
	w->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return w->fd < 0 || fstat(w->fd, &st) ? failed(w, "/") : check(w, "/", &st);
}

/* The next name of the rest of the way; "": it has ended. */
static void next(struct walk *w, char *name, size_t room)
{
	const char *from = w->left + strspn(w->left, "/");
	const size_t len = strcspn(from, "/");

	snprintf(name, room, "%.*s", (int)len, from);
	memmove(w->left, from + len, strlen(from + len) + 1);
}

static int follow(struct walk *w, int link, const char *path)
{
	char to[PATH_MAX], all[PATH_MAX];
	const ssize_t n = readlinkat(link, "", to, sizeof(to) - 1);

	if (n < 0)
		return failed(w, path);
	to[n] = 0;
	if (++w->links > MOST_LINKS)
		return refuse(w, ELOOP, "%s: %s", end_of(path), strerror(ELOOP));
	if (snprintf(all, sizeof(all), "%s/%s", to, w->left) >= (int)sizeof(all))
		return refuse(w, ENAMETOOLONG, "%s: %s", end_of(path), strerror(ENAMETOOLONG));
	strcpy(w->left, all);
	return *to == '/' ? restart(w) : 0;
}

static int last(struct walk *w, const char *name, const char *path, struct stat *st)
{
	/* Opening a FIFO or a device could block or have side effects. */
	const int fd = openat(w->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	int r;

	if (fd < 0)
		return failed(w, path);
	r = fstat(fd, st) ? failed(w, path)
			  : check(w, path, st); /* of what has been opened, whatever was there before */
	if (!r)
		return fd;
	close(fd);
	return r;
}

/* One step. 1: go on; else the end, a descriptor or -errno. */
static int step(struct walk *w, struct stat *st, int *result)
{
	char name[NAME_MAX + 2], path[PATH_MAX];
	int fd;

	next(w, name, sizeof(name));
	if (snprintf(path, sizeof(path), "%s%s%s", w->seen, w->seen[1] ? "/" : "", name) >= (int)sizeof(path)) {
		*result = refuse(w, ENAMETOOLONG, "%s: %s", end_of(w->seen), strerror(ENAMETOOLONG));
		return 0;
	}
	fd = openat(w->fd, *name ? name : ".", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	*result = fd < 0 || fstat(fd, st) ? failed(w, path) : check(w, path, st);
	if (!*result && S_ISLNK(st->st_mode)) {
		*result = follow(w, fd, path);
	} else if (!*result && (!*name || !S_ISDIR(st->st_mode) || !w->left[strspn(w->left, "/")])) {
		if (w->left[strspn(w->left, "/")])
			*result = refuse(w, ENOTDIR, "%s: %s", end_of(path), strerror(ENOTDIR));
		else
			*result = last(w, *name ? name : ".", path, st);
		close(fd);
		return 0;
	} else if (!*result) {
		close(w->fd);
		w->fd = fd;
		strcpy(w->seen, path);
		return 1;
	}
	if (fd >= 0)
		close(fd);
	return !*result;
}

int sp_plugin_trusted(const char *file, struct stat *st, char *why, size_t room)
{
	struct walk *w = malloc(sizeof(*w));
	char here[PATH_MAX] = "";
	int r;

	if (!w)
		return -ENOMEM;
	*w = (struct walk){.fd = -1, .why = why, .room = room};
	if (*file != '/' && !getcwd(here, sizeof(here)))
		r = failed(w, ".");
	else if (snprintf(w->left, sizeof(w->left), "%s/%s", here, file) >= (int)sizeof(w->left))
		r = refuse(w, ENAMETOOLONG, "%s", strerror(ENAMETOOLONG));
	else
		r = restart(w);
	if (!r)
		while (step(w, st, &r))
			;
	if (w->fd >= 0)
		close(w->fd);
	free(w);
	return r;
}
