/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of mailboxes: 64-bit addresses, sparse, millions of them, each of which maps to a window by exact match
 * (RVMA paper, section IV-A). A line of 64 bytes holds five entries. A look-up mostly touches one line. The table has
 * room for twice the entries asked for, and never moves. One thread uses it, without locks. */
#ifndef HANDLERS_RVMA_TABLE_H
#define HANDLERS_RVMA_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct sp_rvma_line;

struct sp_rvma_table {
	struct sp_rvma_line *line;
	uint64_t mask, seed; /* mask: lines - 1 */
	uint32_t count, limit;
};

/* Returns the bytes for so many entries. The memory must be zeroed and 64-byte aligned. */
size_t sp_rvma_table_bytes(uint32_t entries);
void sp_rvma_table_init(struct sp_rvma_table *t, uint32_t entries, uint64_t seed, void *memory);
/* Prefetches the line for a look-up that follows. */
void sp_rvma_table_prefetch(const struct sp_rvma_table *t, uint64_t mailbox);
/* Returns the value of that mailbox, or UINT32_MAX. */
uint32_t sp_rvma_table_find(const struct sp_rvma_table *t, uint64_t mailbox);
/* value: below UINT32_MAX. Returns 0, -EEXIST, or -ENOSPC when `entries` are in use. */
int sp_rvma_table_add(struct sp_rvma_table *t, uint64_t mailbox, uint32_t value);
int sp_rvma_table_remove(struct sp_rvma_table *t, uint64_t mailbox); /* -ENOENT */
/* Returns how many lines a look-up of that mailbox touches. */
unsigned sp_rvma_table_touched(const struct sp_rvma_table *t, uint64_t mailbox);

#endif
