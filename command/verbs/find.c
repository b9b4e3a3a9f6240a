/* SPDX-License-Identifier: BSD-3-Clause */
#include "find.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../host-api/spindle.h"
#include "../nic_error.h"
#include "../output.h"

#define SUFFIX ".sock"
#define NAME   31 /* bytes of a NIC's name */
#define SHOWN  16 /* names in a message */

/* NICs that somebody serves. */
struct running {
	char name[SHOWN][NAME + 1];
	unsigned names;
	unsigned more, locked; /* for which there is no room; that do not let this user in */
};

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
	if (r->names == SHOWN)
		r->more++;
	else
		snprintf(r->name[r->names++], NAME + 1, "%.31s", name); /* as sp_socket_path() has checked */
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

static void look_around(struct running *r)
{
	const char *sockets = getenv("SPINDLE_SOCKETS");
	char path[PATH_MAX];
	char *slash;

	if (!sp_socket_path("spindle0", true, path, sizeof(path)) && (slash = strrchr(path, '/'))) {
		*slash = 0;
		look_into(r, path);
	}
	if (!sockets || !*sockets)
		look_into(r, "/run/spindle");
}

/* The only one; 0, or 1 after a message. */
static int choose(char *name, size_t room)
{
	struct running r = {.names = 0};
	char list[SHOWN * (NAME + 2) + 1] = "";
	size_t len = 0;

	look_around(&r);
	if (r.names == 1) {
		snprintf(name, room, "%s", r.name[0]);
		return 0;
	}
	if (!r.names && r.locked)
		return command_fail("verbs", "the NIC that runs here is not for this user; see socket-mode in "
					     "spindle-nic.ini(5)");
	if (!r.names)
		return command_fail("verbs", "no NIC runs here; 'spindle run' starts one");
	for (unsigned i = 0; i < r.names; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "", r.name[i]);
	return command_fail("verbs", "which NIC? These run: %s%s; name one by -n", list, r.more ? ", ..." : "");
}

/* The device's name: DIR/NAME.sock -> NAME. */
static void name_of(struct verbs_nic *n)
{
	const char *slash = strrchr(n->socket, '/'), *base = slash ? slash + 1 : n->socket;
	size_t len = strlen(base);

	if (len > sizeof(SUFFIX) - 1 && !strcmp(base + len - sizeof(SUFFIX) + 1, SUFFIX))
		len -= sizeof(SUFFIX) - 1;
	snprintf(n->name, sizeof(n->name), "%.*s", (int)len, base);
}

int verbs_find(const char *nic, struct verbs_nic *n)
{
	const char *given = nic ? nic : getenv("SPINDLE_NIC");
	int rc;

	if (given && strlen(given) >= sizeof(n->nic))
		return command_nic_fail("verbs", nic, -ENAMETOOLONG);
	if (given && *given)
		strcpy(n->nic, given);
	else if (choose(n->nic, sizeof(n->nic)))
		return 1;
	if (!strchr(n->nic, '/')) {
		rc = sp_socket_path(n->nic, false, n->socket, sizeof(n->socket));
		if (rc)
			return command_nic_fail("verbs", n->nic, rc);
	} else {
		/* The command may change its directory. */
		if (!realpath(n->nic, n->socket))
			return command_nic_fail("verbs", n->nic, -errno);
		strcpy(n->nic, n->socket);
	}
	name_of(n);
	return 0;
}
