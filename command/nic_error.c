/* SPDX-License-Identifier: BSD-3-Clause */
#include "nic_error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../host-api/spindle.h"
#include "output.h"
#include "running.h"

const struct option_row nic_rows[] = {
	{"nic", 'n', OPTION_STRING, "NAME", "the NIC, or the path of its socket (default: $SPINDLE_NIC, or spindle0)",
	 0, sizeof(const char *)},
	{0},
};

const char *command_nic_name(const char *nic)
{
	const char *name = nic ? nic : getenv("SPINDLE_NIC");

	return name && *name ? name : "spindle0";
}

void command_nic_error(const char *nic, int status, char *text, size_t room)
{
	const char *name = command_nic_name(nic);
	const char *socket = name;
	char path[128], list[RUNNING_TEXT];
	struct running running;

	if (!strchr(name, '/') && !sp_socket_path(name, false, path, sizeof(path)))
		socket = path;
	switch (status) {
	case -ENOENT:
	case -ECONNREFUSED:
		running_look(&running);
		running_list(&running, list, sizeof(list));
		snprintf(text, room, "NIC %s is not running (%s: %s); %s%s", name, socket, strerror(-status),
			 *list ? "these run: " : "'spindle run' starts one", list);
		break;
	case -EACCES:
		snprintf(text, room, "NIC %s is not for this user (%s: %s); see socket-mode in spindle-nic.ini(5)",
			 name, socket, strerror(-status));
		break;
	case -EINVAL:
		snprintf(text, room, "'%s' is no name for a NIC: it has 1 to 31 letters, digits, _ . -", name);
		break;
	case -EUSERS:
		snprintf(text, room, "NIC %s has as many applications as it allows", name);
		break;
	case -EPROTO:
		snprintf(text, room, "NIC %s: the program at %s has another version, or is no NIC", name, socket);
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

int command_nic_fail(const char *command, const char *nic, int status)
{
	char text[400 + RUNNING_TEXT];

	command_nic_error(nic, status, text, sizeof(text));
	return command_fail(command, "%s", text);
}
