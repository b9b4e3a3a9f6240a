/* SPDX-License-Identifier: BSD-3-Clause */
#include "port_eal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../pipeline/ports/vdev.h"

static bool names_devices(char **argv, int count)
{
	for (int i = 0; i < count; i++)
		if (!strncmp(argv[i], "-a", 2) || !strncmp(argv[i], "-b", 2) || !strncmp(argv[i], "--allow", 7) ||
		    !strncmp(argv[i], "--block", 7) || !strcmp(argv[i], "--no-pci"))
			return true;
	return false;
}

int port_eal_init(const char *const *device, unsigned ports, char **argv, int count, struct sp_error *error)
{
	static char allow[] = "-a", name[SP_MAX_PORTS][64]; /* EAL keeps its arguments */
	char *all[PORT_EAL_MOST + 2 * SP_MAX_PORTS + 1];
	int n = 0;

	if (count > PORT_EAL_MOST || ports > SP_MAX_PORTS) {
		snprintf(error->text, sizeof(error->text), "more than %d EAL arguments", PORT_EAL_MOST);
		return -E2BIG;
	}
	for (unsigned i = 0; i < ports && !names_devices(argv, count); i++) {
		if (!sp_vdev_is_pci(device[i]))
			continue;
		snprintf(name[i], sizeof(name[i]), "%s", !strncmp(device[i], "pci:", 4) ? device[i] + 4 : device[i]);
		all[n++] = allow;
		all[n++] = name[i];
	}
	for (int i = 0; i < count; i++)
		all[n++] = argv[i];
	all[n] = NULL;
	return sp_eal_init(n, n ? all : NULL, error);
}
