/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs look at below /dev/infiniband and /sys/class/infiniband*, as a tree of files. There is one for each NIC
 * and user, in $XDG_RUNTIME_DIR/spindle/verbs or /tmp/spindle-UID/verbs. It stays: the next run brings it up to date,
 * by renaming, so that several may do so at once, and programs that run see files whole.
 */
#ifndef COMMAND_VERBS_TREE_H
#define COMMAND_VERBS_TREE_H

#include "../../host-api/verbs/identity.h"
#include "find.h"

/* Writes its path. 0, or 1 after a message. */
int verbs_tree(const struct verbs_nic *nic, const struct shim_identity *id, char path[PATH_MAX]);

#endif
