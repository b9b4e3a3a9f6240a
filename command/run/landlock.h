/* SPDX-License-Identifier: BSD-3-Clause */
/* Which files a process may still reach: landlock(7), by its system calls, as Debian 12 has no library for it. */
#ifndef COMMAND_RUN_LANDLOCK_H
#define COMMAND_RUN_LANDLOCK_H

enum landlock_access {
	LANDLOCK_READ,	/* files and directories below */
	LANDLOCK_WRITE, /* make, write and remove files, sockets and directories as well */
};

/* The version of the kernel's landlock; 0 or -errno: it has none, or it is off. */
int landlock_version(void);
/* A descriptor of rules that allow nothing yet, neither files nor TCP; -errno: no landlock here. */
int landlock_rules(void);
/* Allows it below path. What does not exist needs no rule. 0 or -errno. */
int landlock_allow(int rules, const char *path, enum landlock_access access);

#endif
