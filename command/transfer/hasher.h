/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 in a thread of its own, of bytes that another thread adds piece by piece. That one makes all the calls. */
#ifndef COMMAND_TRANSFER_HASHER_H
#define COMMAND_TRANSFER_HASHER_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASHER_DIGEST 32

struct hasher;

/* Goes on with sha, which is the thread's until hasher_end(). Signals should be blocked. NULL: no memory, no thread. */
struct hasher *hasher_begin(EVP_MD_CTX *sha);
bool hasher_room(struct hasher *h); /* hasher_add() does not wait */
/* The bytes stay as they are until hasher_done() has passed them. */
void hasher_add(struct hasher *h, const void *bytes, size_t len);
uint64_t hasher_done(struct hasher *h); /* bytes */
/* The digest of all before the thread and of the first *bytes of what was added: as many as are done, or all. False:
 * the library has failed. */
bool hasher_note(struct hasher *h, bool all, uint64_t *bytes, uint8_t digest[HASHER_DIGEST]);
void hasher_end(struct hasher *h); /* after all that was added; NULL: does nothing */
/* Of what sha has got so far; more may follow. False: the library has failed. */
bool hasher_so_far(const EVP_MD_CTX *sha, uint8_t digest[HASHER_DIGEST]);

#endif
