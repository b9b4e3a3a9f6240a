/* SPDX-License-Identifier: BSD-3-Clause */
/* The paths of NICs' sockets. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "spindle.h"

#define SP_SOCKET_SYSTEM "/run/spindle"
#define SP_SOCKET_NAME	 31

static bool sp_socket_named(const char *nic)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	const size_t len = strlen(nic);

	return len && len <= SP_SOCKET_NAME && strspn(nic, allowed) == len;
}

/* Writes DIRECTORY/NAME.sock. */
static int sp_socket_join(const char *directory, const char *nic, char *path, size_t room)
{
	const int len = snprintf(path, room, "%s/%s.sock", directory, nic);

	return len < 0 || (size_t)len >= room || (size_t)len >= sizeof(((struct sockaddr_un *)NULL)->sun_path)
		       ? -ENAMETOOLONG
		       : 0;
}

/* Any user can make a directory in /tmp: one that is not ours could be a trap. */
static int sp_socket_private(char *directory, size_t room)
{
	struct stat st;

	snprintf(directory, room, "/tmp/spindle-%u", (unsigned)geteuid());
	if (lstat(directory, &st))
		return errno == ENOENT ? 0 : -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)) ? 0 : -EPERM;
}

/* Of a NIC that root has started. One that has become another user's has a directory of its own, NAME/NAME.sock. */
static int sp_socket_system(const char *nic, bool mine, char *path, size_t room)
{
	char directory[sizeof(SP_SOCKET_SYSTEM) + SP_SOCKET_NAME + 1];
	int rc = sp_socket_join(SP_SOCKET_SYSTEM, nic, path, room);
	struct stat st;

	if (rc || mine || !stat(path, &st))
		return rc;
	snprintf(directory, sizeof(directory), SP_SOCKET_SYSTEM "/%s", nic);
	rc = sp_socket_join(directory, nic, path, room);
	return !rc && !stat(path, &st) ? 0 : sp_socket_join(SP_SOCKET_SYSTEM, nic, path, room);
}

int sp_socket_path(const char *nic, bool mine, char *path, size_t room)
{
	const char *sockets = secure_getenv("SPINDLE_SOCKETS"), *runtime = secure_getenv("XDG_RUNTIME_DIR");
	char directory[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	struct stat st;
	int rc;

	if (!nic || !sp_socket_named(nic))
		return -EINVAL;
	if (sockets && *sockets)
		return sp_socket_join(sockets, nic, path, room);
	if (geteuid() == 0)
		return sp_socket_system(nic, mine, path, room);
	if (runtime && *runtime) {
		rc = snprintf(directory, sizeof(directory), "%s/spindle", runtime);
		rc = rc < 0 || (size_t)rc >= sizeof(directory) ? -ENAMETOOLONG : 0;
	} else {
		rc = sp_socket_private(directory, sizeof(directory));
	}
	rc = rc ? rc : sp_socket_join(directory, nic, path, room);
	if (mine || (!rc && !stat(path, &st)))
		return rc;
	/* Without one of ours, root's if it exists. */
	if (!sp_socket_system(nic, false, path, room) && !stat(path, &st))
		return 0;
	return rc ? rc : sp_socket_join(directory, nic, path, room);
}
