/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mailboxes: 64-bit addresses that map to a window each; exact match, sparse, millions of them (RVMA paper, section
 * IV-A). Lines of 64 bytes hold five entries, and a look-up touches one of them in the common case. The table has twice
 * the room that is asked for, and never moves. No locks: one thread.
 */
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

/* Bytes of zeroed, 64-byte aligned memory for so many entries. */
size_t sp_rvma_table_bytes(uint32_t entries);
void sp_rvma_table_init(struct sp_rvma_table *t, uint32_t entries, uint64_t seed, void *memory);
/* A look-up of it comes soon. */
void sp_rvma_table_prefetch(const struct sp_rvma_table *t, uint64_t mailbox);
/* What was put in for that mailbox; UINT32_MAX: nothing. */
uint32_t sp_rvma_table_find(const struct sp_rvma_table *t, uint64_t mailbox);
/* value: below UINT32_MAX. -EEXIST, -ENOSPC: `entries` are in it. */
int sp_rvma_table_add(struct sp_rvma_table *t, uint64_t mailbox, uint32_t value);
int sp_rvma_table_remove(struct sp_rvma_table *t, uint64_t mailbox); /* -ENOENT */
/* Lines that a look-up of that mailbox touches. */
unsigned sp_rvma_table_touched(const struct sp_rvma_table *t, uint64_t mailbox);

#endif
