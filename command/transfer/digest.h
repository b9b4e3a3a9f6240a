/* SPDX-License-Identifier: BSD-3-Clause */
/* The SHA-256 of a transfer. 0, or -1 and an error in t. */
#ifndef COMMAND_TRANSFER_DIGEST_H
#define COMMAND_TRANSFER_DIGEST_H

#include "transfer.h"

int transfer_digest_begin(struct transfer *t);
int transfer_digest(struct transfer *t, const void *bytes, size_t len);
int transfer_digest_end(struct transfer *t);
/* Of all bytes so far; more may follow. */
int transfer_digest_so_far(struct transfer *t, uint8_t digest[TRANSFER_DIGEST]);
/* Begins with the first `bytes` bytes of fd, and reports progress to the peer. *same: they have this digest. */
int transfer_check(struct transfer *t, int fd, uint64_t bytes, const uint8_t digest[TRANSFER_DIGEST], bool *same);

#endif
