/* SPDX-License-Identifier: BSD-3-Clause */
/* What all threads of `spindle run` give up once the ports are open. */
#ifndef COMMAND_RUN_PRIVILEGES_H
#define COMMAND_RUN_PRIVILEGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PRIVILEGES_GROUPS 256

struct privileges {
	bool become; /* user, group and groups are set; otherwise the process stays who it is */
	uid_t user;
	gid_t group;
	bool regroup; /* groups are set */
	gid_t groups[PRIVILEGES_GROUPS];
	unsigned group_count;
	uint64_t keep; /* capabilities, those that the process has; all others are given up */
	int ruleset;   /* of landlock; -1: none */
};

/* In all threads: user, groups, capabilities, no_new_privs and the ruleset. All threads must be able to take a signal;
 * threads that they create later have the same. 0, or -errno and text: which thread could not, or has kept what. Then
 * the process must end. */
int privileges_give_up(const struct privileges *wanted, char *text, size_t room);

#endif
