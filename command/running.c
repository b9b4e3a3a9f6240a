/* SPDX-License-Identifier: BSD-3-Clause */
#include "running.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../host-api/spindle.h"

#define SUFFIX ".sock"

/* 0: somebody listens there. */
static int knock(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd, rc = 0;

	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	strcpy(to.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)(const void *)&to, sizeof(to)) && errno != EAGAIN)
		rc = -errno;
	close(fd);
	return rc;
}

static void look_at(struct running *r, const char *name)
{
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int rc;

	for (unsigned i = 0; i < r->names; i++)
		if (!strcmp(r->name[i], name))
			return;
	if (sp_socket_path(name, false, path, sizeof(path)))
		return;
	rc = knock(path);
	if (rc == -EACCES)
		r->locked++;
	if (rc)
		return;
	if (r->names == RUNNING_SHOWN)
		r->more++;
	else
		snprintf(r->name[r->names++], RUNNING_NAME + 1, "%.31s", name); /* as sp_socket_path() has checked */
}

/* Sockets in a directory: NAME.sock; NAME/NAME.sock is one of root's that has become another user's. */
static void look_into(struct running *r, const char *directory)
{
	DIR *dir = opendir(directory);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char name[sizeof(entry->d_name)];
		size_t len = strlen(entry->d_name);
		const bool socket =
			len > sizeof(SUFFIX) - 1 && !strcmp(entry->d_name + len - sizeof(SUFFIX) + 1, SUFFIX);

		if (*entry->d_name == '.' || (!socket && entry->d_type != DT_DIR))
			continue;
		len -= socket ? sizeof(SUFFIX) - 1 : 0;
		snprintf(name, sizeof(name), "%.*s", (int)len, entry->d_name);
		look_at(r, name);
	}
	if (dir)
		closedir(dir);
}

void running_look(struct running *r)
{
	const char *sockets = getenv("SPINDLE_SOCKETS");
	char path[PATH_MAX];
	char *slash;

	memset(r, 0, sizeof(*r));
	if (!sp_socket_path("spindle0", true, path, sizeof(path)) && (slash = strrchr(path, '/'))) {
		*slash = 0;
		look_into(r, path);
	}
	if (!sockets || !*sockets)
		look_into(r, "/run/spindle");
}

void running_list(const struct running *r, char *text, size_t room)
{
	size_t len = 0;

	*text = 0;
	for (unsigned i = 0; i < r->names && len < room; i++)
		len += (size_t)snprintf(text + len, room - len, "%s%s", i ? ", " : "", r->name[i]);
	if (r->more && len < room)
		snprintf(text + len, room - len, ", ...");
}
