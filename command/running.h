/* SPDX-License-Identifier: BSD-3-Clause */
/* The NICs that run on this machine, for messages to users who have named none of them. */
#ifndef COMMAND_RUNNING_H
#define COMMAND_RUNNING_H

#include <stddef.h>

#define RUNNING_NAME  31 /* bytes of a NIC's name */
#define RUNNING_SHOWN 16 /* names that are kept */
#define RUNNING_TEXT  (RUNNING_SHOWN * (RUNNING_NAME + 2) + 6)

struct running {
	char name[RUNNING_SHOWN][RUNNING_NAME + 1];
	unsigned names;
	unsigned more, locked; /* for which there is no room; that do not let this user in */
};

/* Looks where NICs have their sockets, and connects to each for a moment: somebody must listen there. */
void running_look(struct running *r);
/* The names with commas between them; "": none. room: RUNNING_TEXT is enough. */
void running_list(const struct running *r, char *text, size_t room);

#endif
