/* SPDX-License-Identifier: BSD-3-Clause */
/* What all subcommands say of a NIC that they cannot attach to. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../host-api/spindle.h"
#include "command.h"

const char *command_nic_name(const char *nic)
{
	const char *name = nic ? nic : getenv("SPINDLE_NIC");

	return name && *name ? name : "spindle0";
}

void command_nic_error(const char *nic, int status, char *text, size_t room)
{
	const char *name = command_nic_name(nic);
	const char *socket = name;
	char path[128];

	if (!strchr(name, '/') && !sp_socket_path(name, false, path, sizeof(path)))
		socket = path;
	switch (status) {
	case -ENOENT:
	case -ECONNREFUSED:
		snprintf(text, room, "NIC %s is not running (%s: %s); 'spindle run' starts one", name, socket,
			 strerror(-status));
		break;
	case -EACCES:
		snprintf(text, room, "NIC %s is not for this user (%s: %s); see socket-mode in spindle-nic.ini(5)",
			 name, socket, strerror(-status));
		break;
	case -EINVAL:
		snprintf(text, room, "'%s' is no name for a NIC: 1 to 31 letters, digits, _ . -", name);
		break;
	case -EUSERS:
		snprintf(text, room, "NIC %s has as many applications as it takes", name);
		break;
	case -EPROTO:
		snprintf(text, room, "NIC %s: what answers at %s is of another version, or no NIC", name, socket);
		break;
	case -ECONNABORTED:
		snprintf(text, room, "NIC %s has died (%s)", name, socket);
		break;
	case -ENODEV:
		snprintf(text, room, "NIC %s does not answer (%s)", name, socket);
		break;
	default:
		snprintf(text, room, "NIC %s: %s: %s", name, socket, strerror(-status));
		break;
	}
}
