/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue of 64-byte entries between one writer and one reader, in memory that both map. Neither trusts the other: each
 * side uses its own size, only compares indexes that it reads from the other, and copies entries before use. */
#ifndef SPINDLE_WIRE_RING_H
#define SPINDLE_WIRE_RING_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

struct sp_ring_entry {
	uint64_t word[8];
};

struct sp_ring_shared {
	uint32_t head; /* next entry to read; the reader writes it */
	uint8_t pad0[60];
	uint32_t tail; /* next entry to write; the writer writes it */
	uint8_t pad1[60];
	struct sp_ring_entry entry[];
} __attribute__((aligned(64)));

/* The view of one side. at: its own index, never read back from shared memory. */
struct sp_ring {
	struct sp_ring_shared *shared;
	uint32_t mask; /* entries - 1 */
	uint32_t at;
};

#define SP_RING_BYTES(entries) (sizeof(struct sp_ring_shared) + (size_t)(entries) * sizeof(struct sp_ring_entry))

static inline int sp_ring_put(struct sp_ring *r, const void *entry)
{
	/* A reader with a wrong index loses only its own entries. */
	uint32_t head = __atomic_load_n(&r->shared->head, __ATOMIC_ACQUIRE);

	if (r->at - head > r->mask)
		return -EAGAIN;
	memcpy(&r->shared->entry[r->at & r->mask], entry, sizeof(struct sp_ring_entry));
	__atomic_store_n(&r->shared->tail, ++r->at, __ATOMIC_RELEASE);
	return 0;
}

static inline int sp_ring_take(struct sp_ring *r, void *entry)
{
	if (__atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE) == r->at)
		return -EAGAIN;
	memcpy(entry, &r->shared->entry[r->at & r->mask], sizeof(struct sp_ring_entry));
	__atomic_store_n(&r->shared->head, ++r->at, __ATOMIC_RELEASE);
	return 0;
}

static inline int sp_ring_empty(const struct sp_ring *r)
{
	return __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE) == r->at;
}

#endif
