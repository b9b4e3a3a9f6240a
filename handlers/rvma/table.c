/* SPDX-License-Identifier: BSD-3-Clause */
#include "table.h"

#include <assert.h>
#include <errno.h>

#define LINE 5 /* entries */

struct sp_rvma_line {
	uint64_t mailbox[LINE];
	uint32_t value[LINE]; /* + 1; 0: the entry is free */
	uint32_t passed;      /* entries placed further on because this line, theirs or one on their way, was full */
};
static_assert(sizeof(struct sp_rvma_line) == 64, "one cache line");

/* Twice the lines that are needed, as a power of two: 26 to 52 bytes per entry. */
static uint64_t lines(uint32_t entries)
{
	uint64_t n = 1;

	while (n * LINE < 2 * (uint64_t)entries)
		n *= 2;
	return n;
}

size_t sp_rvma_table_bytes(uint32_t entries)
{
	return lines(entries) * sizeof(struct sp_rvma_line);
}

void sp_rvma_table_init(struct sp_rvma_table *t, uint32_t entries, uint64_t seed, void *memory)
{
	*t = (struct sp_rvma_table){.line = memory, .mask = lines(entries) - 1, .seed = seed, .limit = entries};
}

/* A keyed one-to-one hash (after splitmix64), so that nobody can choose mailboxes that share a line. */
static uint64_t home(const struct sp_rvma_table *t, uint64_t mailbox)
{
	uint64_t x = mailbox ^ t->seed;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return ((x ^ x >> 31) + t->seed) & t->mask;
}

static int entry(const struct sp_rvma_line *l, uint64_t mailbox)
{
	for (int i = 0; i < LINE; i++)
		if (l->mailbox[i] == mailbox && l->value[i])
			return i;
	return -1;
}

/* Returns the line that has the mailbox, or NULL. *touched: lines looked at. The walk ends, as at least half of the
 * table is empty. */
static struct sp_rvma_line *walk(const struct sp_rvma_table *t, uint64_t mailbox, int *at, unsigned *touched)
{
	uint64_t i = home(t, mailbox);

	for (*touched = 1;; ++*touched, i = (i + 1) & t->mask) {
		*at = entry(&t->line[i], mailbox);
		if (*at >= 0)
			return &t->line[i];
		if (!t->line[i].passed)
			return NULL;
	}
}

void sp_rvma_table_prefetch(const struct sp_rvma_table *t, uint64_t mailbox)
{
	__builtin_prefetch(&t->line[home(t, mailbox)]);
}

uint32_t sp_rvma_table_find(const struct sp_rvma_table *t, uint64_t mailbox)
{
	unsigned touched;
	int at;
	const struct sp_rvma_line *l = walk(t, mailbox, &at, &touched);

	return l ? l->value[at] - 1 : UINT32_MAX;
}

unsigned sp_rvma_table_touched(const struct sp_rvma_table *t, uint64_t mailbox)
{
	unsigned touched;
	int at;

	walk(t, mailbox, &at, &touched);
	return touched;
}

int sp_rvma_table_add(struct sp_rvma_table *t, uint64_t mailbox, uint32_t value)
{
	uint64_t i = home(t, mailbox);

	if (sp_rvma_table_find(t, mailbox) != UINT32_MAX)
		return -EEXIST;
	if (t->count == t->limit)
		return -ENOSPC;
	for (;; i = (i + 1) & t->mask) {
		struct sp_rvma_line *l = &t->line[i];

		for (int e = 0; e < LINE; e++)
			if (!l->value[e]) {
				l->mailbox[e] = mailbox;
				l->value[e] = value + 1;
				t->count++;
				return 0;
			}
		l->passed++;
	}
}

/* Entries further on stay where they are: the `passed` counts of the lines before lead to them. */
int sp_rvma_table_remove(struct sp_rvma_table *t, uint64_t mailbox)
{
	unsigned touched;
	int at;
	struct sp_rvma_line *l = walk(t, mailbox, &at, &touched);

	if (!l)
		return -ENOENT;
	l->value[at] = 0;
	t->count--;
	for (uint64_t i = home(t, mailbox); &t->line[i] != l; i = (i + 1) & t->mask)
		t->line[i].passed--;
	return 0;
}
