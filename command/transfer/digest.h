/* SPDX-License-Identifier: BSD-3-Clause */
/* The SHA-256 of a transfer. 0, or -1 and an error in t. */
#ifndef COMMAND_TRANSFER_DIGEST_H
#define COMMAND_TRANSFER_DIGEST_H

#include "transfer.h"

int transfer_digest_begin(struct transfer *t);
int transfer_digest(struct transfer *t, const void *bytes, size_t len);
int transfer_digest_end(struct transfer *t); /* after all that transfer_hash() was given */
/* Of all bytes so far; more may follow. */
int transfer_digest_so_far(struct transfer *t, uint8_t digest[TRANSFER_DIGEST]);
/* Begins with the first `bytes` bytes of fd, and reports progress to the peer. *same: they have this digest. */
int transfer_check(struct transfer *t, int fd, uint64_t bytes, const uint8_t digest[TRANSFER_DIGEST], bool *same);

/* In a thread of its own, in order: the transfer goes on meanwhile. The bytes must stay as they are until
 * transfer_hashed() has passed them. */
int transfer_hash(struct transfer *t, const void *bytes, size_t len);
bool transfer_hash_room(struct transfer *t);  /* for one more call */
uint64_t transfer_hashed(struct transfer *t); /* bytes of all calls that are done */
/* Of the first *bytes of what transfer_hash() was given, all of them done: the latest that is known. With `all`, waits
 * until all is done. */
int transfer_hash_note(struct transfer *t, bool all, uint64_t *bytes, uint8_t digest[TRANSFER_DIGEST]);

#endif
