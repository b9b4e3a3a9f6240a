/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock on a NIC's name on this machine. Its holder may use the NIC's socket. The kernel drops the lock when the
 * process ends, so a killed NIC leaves nothing locked. */
#ifndef PIPELINE_HOST_SOCKET_LOCK_H
#define PIPELINE_HOST_SOCKET_LOCK_H

#include <stdbool.h>
#include <stddef.h>

struct sp_socket_lock {
	char lock[160]; /* path of the locked file */
	int fd;
};

/* Takes the lock beside the socket. own: path is in the default directory, which is made if needed. 0, or -errno with
 * text: -EBUSY and the holder, or the fault of the directory. */
int sp_socket_lock_take(struct sp_socket_lock *claim, const char *path, bool own, char *text, size_t room);
/* Makes the directory if it is missing; only this user may own it and write to it. 0, or -errno with text. */
int sp_socket_directory(const char *path, char *text, size_t room);
/* Removes the file and drops the lock. Fine after sp_socket_lock_take() has failed. */
void sp_socket_lock_drop(struct sp_socket_lock *claim);

#endif
