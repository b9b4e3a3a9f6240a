/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of `spindle rvma`: rvma.c (options, what the verbs share), rvma_listen.c, rvma_put.c (put and get). */
#ifndef COMMAND_RVMA_COMMAND_H
#define COMMAND_RVMA_COMMAND_H

#include <stdint.h>
#include <stdio.h>

#include "../../host-api/rvma.h"

#define RVMA_SIZE_MOST (1ull << 30) /* of a buffer, and of a put */

struct rvma_asked {
	const char *verb, *nic, *file; /* file: put's, or -o; NULL: none; "-": standard output or input */
	uint64_t mailbox, key, size, timeout;
	bool json;
	/* listen */
	uint64_t buffers, threshold, count, qpn; /* count, 0: no end */
	bool ops, bytes, managed, catch_all, readable;
	/* put, get */
	struct rvma_address peer;
	uint64_t at, piece, back;
	bool has_at, has_size, has_threshold;
};

/* A context on the NIC that was asked for. Everything is closed by rvma_command_close, however far it came. */
struct rvma_ends {
	const struct rvma_asked *asked;
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_peer *peer;
	struct sp_mr *mr;
	int fd; /* of the file; -1 */
};

/* Says what is wrong; -1. */
int rvma_command_fail(const struct rvma_asked *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same of a call to the NIC. */
int rvma_command_nic(const struct rvma_asked *a, const char *what, int rc);
/* The file, the NIC, a context on it. attr: 0 for the defaults. 0 or -1. */
int rvma_command_open(struct rvma_ends *e, const struct rvma_asked *a, const struct rvma_attr *attr, int flags);
void rvma_command_close(struct rvma_ends *e);
int rvma_command_write(const struct rvma_asked *a, int fd, const void *bytes, uint64_t len);
const char *rvma_command_ip(const uint8_t ip[16], char text[64]);

/* 0 or -1. */
int rvma_listen(const struct rvma_asked *a);
int rvma_put_file(const struct rvma_asked *a);
int rvma_get_file(const struct rvma_asked *a);

#endif
