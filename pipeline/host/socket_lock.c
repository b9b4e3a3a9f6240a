/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int __attribute__((format(printf, 4, 5))) fail(int err, char *text, size_t room, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(text, room, format, list);
	va_end(list);
	return -err;
}

/* A user who can write to the directory could put his own socket at our path. In /tmp, another user may have made the
 * directory, or a symbolic link, before us. */
int sp_socket_directory(const char *name, char *text, size_t room)
{
	struct stat st;

	if (mkdir(name, geteuid() ? 0700 : 0755) && errno != EEXIST)
		return fail(errno, text, room, "%s: %s", name, strerror(errno));
	if (lstat(name, &st))
		return fail(errno, text, room, "%s: %s", name, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return fail(ENOTDIR, text, room, "%s is no directory", name);
	if (st.st_uid != geteuid())
		return fail(EPERM, text, room, "%s belongs to user %u, not to us", name, st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return fail(EPERM, text, room, "others may write to %s: chmod go-w", name);
	return 0;
}

/* The holder's pid from the file; 0: not written yet. */
static long holder(int fd)
{
	char pid[32] = "";

	return pread(fd, pid, sizeof(pid) - 1, 0) > 0 ? strtol(pid, NULL, 10) : 0;
}

/* Mode 0600: a user who can open the file could lock it and keep the NIC out. 0, or -EAGAIN: the holder has removed the
 * file meanwhile. */
static int lock(struct sp_socket_lock *claim, char *text, size_t room)
{
	struct stat open_file, there;

	claim->fd = open(claim->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (claim->fd < 0 && errno == ENOENT)
		return fail(ENOENT, text, room, "the directory %.*s does not exist",
			    (int)(strrchr(claim->lock, '/') - claim->lock), claim->lock);
	if (claim->fd < 0)
		return fail(errno, text, room, "%s: %s", claim->lock, strerror(errno));
	if (flock(claim->fd, LOCK_EX | LOCK_NB)) {
		int err = errno;
		long pid = holder(claim->fd);

		close(claim->fd);
		claim->fd = -1;
		if (err != EWOULDBLOCK)
			return fail(err, text, room, "%s: %s", claim->lock, strerror(err));
		if (pid > 0)
			return fail(EBUSY, text, room, "process %ld runs it already (it holds %s)", pid, claim->lock);
		return fail(EBUSY, text, room, "another process runs it already (it holds %s)", claim->lock);
	}
	if (!fstat(claim->fd, &open_file) && !stat(claim->lock, &there) && open_file.st_dev == there.st_dev &&
	    open_file.st_ino == there.st_ino)
		return 0;
	close(claim->fd);
	claim->fd = -1;
	return -EAGAIN;
}

int sp_socket_lock_take(struct sp_socket_lock *claim, const char *path, bool own, char *text, size_t room)
{
	char pid[32], directory[160];
	int result = 0;

	*claim = (struct sp_socket_lock){.fd = -1};
	if (snprintf(claim->lock, sizeof(claim->lock), "%s.lock", path) >= (int)sizeof(claim->lock))
		return fail(ENAMETOOLONG, text, room, "%s: %s", path, strerror(ENAMETOOLONG));
	if (own) {
		snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
		result = sp_socket_directory(directory, text, room);
	}
	if (result)
		return result;
	do
		result = lock(claim, text, room);
	while (result == -EAGAIN);
	if (result)
		return result;
	int len = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(claim->fd, 0) || pwrite(claim->fd, pid, (size_t)len, 0) != len) {
		result = fail(errno, text, room, "%s: %s", claim->lock, strerror(errno));
		sp_socket_lock_drop(claim);
	}
	return result;
}

void sp_socket_lock_drop(struct sp_socket_lock *claim)
{
	if (claim->fd < 0)
		return;
	unlink(claim->lock);
	close(claim->fd);
	claim->fd = -1;
}
