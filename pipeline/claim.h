/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC's name on this machine: who holds it has the right to its socket. Held by a lock that ends with the process,
 * so what a killed one left behind is nobody's. */
#ifndef PIPELINE_CLAIM_H
#define PIPELINE_CLAIM_H

#include <stdbool.h>
#include <stddef.h>

struct sp_claim {
	char lock[160]; /* path of the file that is locked */
	int fd;
};

/* Makes the directory of sockets, if that is where path is (own), and takes the lock beside the socket. 0, or -errno
 * with text: who holds it (-EBUSY), what is wrong with the directory. */
int sp_claim_take(struct sp_claim *claim, const char *path, bool own, char *text, size_t room);
/* Makes this directory if it is not there; it must be ours, and nobody else's to write to. 0, or -errno with text. */
int sp_claim_directory(const char *path, char *text, size_t room);
/* Removes the file and lets go. Also when sp_claim_take() has failed. */
void sp_claim_drop(struct sp_claim *claim);

#endif
