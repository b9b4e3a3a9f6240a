/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC that `spindle verbs` uses. */
#ifndef COMMAND_VERBS_FIND_H
#define COMMAND_VERBS_FIND_H

#include <limits.h>

struct verbs_nic {
	char nic[PATH_MAX];    /* for sp_attach(): a name, or the full path of a socket */
	char socket[PATH_MAX]; /* its path */
	char name[64];	       /* of the device: the NIC's, or that of its socket without suffix */
};

/* nic: what -n says; NULL: $SPINDLE_NIC, or the only one that runs and lets this user in. 0, or 1 after a message. */
int verbs_find(const char *nic, struct verbs_nic *found);

#endif
