/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle rvma was asked for, and what listen, put and get share. */
#ifndef COMMAND_RVMA_ENDS_H
#define COMMAND_RVMA_ENDS_H

#include <stdint.h>
#include <stdio.h>

#include "../../host-api/rvma.h"

#define RVMA_SIZE_MOST (1ull << 30) /* of a buffer or a put */

struct rvma_asked {
	const char *verb, *nic, *file; /* file: put's, or -o; NULL: none; "-": standard output or input */
	uint64_t mailbox, key, size, timeout;
	bool json;
	/* listen */
	uint64_t buffers, threshold, count, qpn; /* count 0: no end */
	bool ops, bytes, managed, catch_all, readable;
	/* put, get */
	struct rvma_address peer;
	uint64_t at, piece, back;
	bool has_at;
};

/* A context on the NIC. rvma_command_close() closes whatever has been opened. */
struct rvma_ends {
	const struct rvma_asked *asked;
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_peer *peer;
	struct sp_mr *mr;
	int fd; /* of the file; -1 */
};

/* Prints a message; -1. */
int rvma_command_fail(const struct rvma_asked *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for -errno of a call to the NIC. */
int rvma_command_nic(const struct rvma_asked *a, const char *what, int rc);
/* Opens the file, the NIC and a context on it. 0 or -1. */
int rvma_command_open(struct rvma_ends *e, const struct rvma_asked *a, const struct rvma_attr *attr, int flags);
void rvma_command_close(struct rvma_ends *e);
int rvma_command_write(const struct rvma_asked *a, int fd, const void *bytes, uint64_t len);
const char *rvma_command_ip(const uint8_t ip[16], char text[64]);

#endif
