/* SPDX-License-Identifier: BSD-3-Clause */
#include "find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../host-api/spindle.h"
#include "../nic_error.h"
#include "../output.h"
#include "../running.h"

#define SUFFIX ".sock"

/* The only one; 0, or 1 after a message. */
static int choose(char *name, size_t room)
{
	struct running r;
	char list[RUNNING_TEXT];

	running_look(&r);
	if (r.names == 1) {
		snprintf(name, room, "%s", r.name[0]);
		return 0;
	}
	if (!r.names && r.locked)
		return command_fail("verbs", "the NIC that runs here is not for this user; see socket-mode in "
					     "spindle-nic.ini(5)");
	if (!r.names)
		return command_fail("verbs", "no NIC runs here; 'spindle run' starts one");
	running_list(&r, list, sizeof(list));
	return command_fail("verbs", "which NIC? These run: %s; name one by -n", list);
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
