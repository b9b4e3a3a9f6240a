/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC's name on this machine: who holds it has the right to its socket. Held by a lock that ends with the process,
 * so what a killed one left behind is nobody's. */
#ifndef COMMAND_CLAIM_H
#define COMMAND_CLAIM_H

#include <stdbool.h>
#include <stddef.h>

struct claim {
	char lock[160]; /* path of the file that is locked */
	int fd;
};

/* Makes the directory of sockets, if that is where path is (own), and takes the lock beside the socket. 0, or -errno
 * with text: who holds it (-EBUSY), what is wrong with the directory. */
int claim_take(struct claim *claim, const char *path, bool own, char *text, size_t room);
/* Makes this directory if it is not there; it must be ours, and nobody else's to write to. 0, or -errno with text. */
int claim_directory(const char *path, char *text, size_t room);
/* Removes the file and lets go. Also when claim_take() has failed. */
void claim_drop(struct claim *claim);

#endif
