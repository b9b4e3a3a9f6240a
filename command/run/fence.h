/* SPDX-License-Identifier: BSD-3-Clause */
/* How `spindle run` is fenced in: docs/security.md. What it is to become is settled first, then the ports are opened,
 * then rights go, then files that are not needed, and when all threads run, system calls. */
#ifndef COMMAND_RUN_FENCE_H
#define COMMAND_RUN_FENCE_H

#include "../../pipeline/config/config.h"
#include "privileges.h"

struct fence {
	struct sp_run_config config;
	bool off; /* --no-sandbox or sandbox = no: neither landlock nor a filter */
	struct privileges wanted;
	bool devices; /* a port has a driver of a real device, or one that we do not know */
};

/* Errors are said on standard error by all of these; they return 0 or the exit status. */

/* Settles who the process will be. */
int fence_user(struct fence *f, const char *file, const struct sp_server_config *server);
/* The socket's path and its directory, for a process that will have another user: he must be able to remove what is in
 * it. named: the path is the configuration's. */
int fence_socket(struct fence *f, const char *nic, bool named, char *path, size_t room);
/* Calls take() as the user that the process will be: for what he must be able to remove. */
int fence_as_user(const struct fence *f, int (*take)(void *arg), void *arg);

struct fence_paths {
	const struct sp_config *config;
	const struct sp_nic_config *nic;
	const char *socket, *faults;
	char **eal;
	int eals;
};
/* The ports are open: gives up rights and, with landlock, files. */
int fence_rights(struct fence *f, const struct fence_paths *paths);
/* All threads run: filters system calls. */
int fence_calls(struct fence *f);

#endif
