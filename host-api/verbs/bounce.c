/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces are of sizes that are powers of two. A chunk is one region of the NIC and holds pieces of one size; the stack
 * of its free ones is not in shared memory. Chunks that are not in use stay, until the limit is reached or memory is
 * wanted for another size.
 */
#include "bounce.h"

#include <errno.h>
#include <stdlib.h>

#define SMALLEST 8u  /* log2 of the bytes of a piece */
#define LARGEST	 31u /* ... of a message */
#define CLASSES	 (LARGEST - SMALLEST + 1)
#define CHUNK	 (256ull << 10) /* bytes at least */

/* A chunk in a protection domain. */
struct shim_bounce_key {
	struct shim_bounce_key *next;
	struct sp_rdma_pd *pd;
	struct sp_rdma_mr *mr;
};

struct shim_chunk {
	struct shim_chunk *next, **back; /* of its size: those with free pieces, or those that are full */
	struct sp_mr *memory;
	struct shim_bounce_key *keys;
	unsigned size; /* log2 */
	uint32_t pieces, free;
	uint32_t stack[]; /* `free` pieces are free */
};

struct shim_bounce {
	struct sp_dev *dev;
	uint64_t bytes;
	struct shim_chunk *open[CLASSES], *full[CLASSES];
};

struct shim_bounce *shim_bounce_open(struct sp_dev *dev)
{
	struct shim_bounce *b = calloc(1, sizeof(*b));

	if (b)
		b->dev = dev;
	return b;
}

static void leave_list(struct shim_chunk *c)
{
	*c->back = c->next;
	if (c->next)
		c->next->back = c->back;
}

static void enter_list(struct shim_chunk *c, struct shim_chunk **list)
{
	c->next = *list;
	c->back = list;
	if (c->next)
		c->next->back = &c->next;
	*list = c;
}

/* Lets go of its keys in pd (NULL: in all). */
static int drop_keys(struct shim_chunk *c, const struct sp_rdma_pd *pd)
{
	for (struct shim_bounce_key **at = &c->keys, *k; (k = *at);) {
		int rc;

		if (pd && k->pd != pd) {
			at = &k->next;
			continue;
		}
		rc = sp_rdma_mr_dereg(k->mr);
		if (rc)
			return rc;
		*at = k->next;
		free(k);
	}
	return 0;
}

static bool drop_chunk(struct shim_bounce *b, struct shim_chunk *c)
{
	if (drop_keys(c, NULL) || sp_mr_free(c->memory))
		return false;
	b->bytes -= (uint64_t)c->pieces << c->size;
	leave_list(c);
	free(c);
	return true;
}

/* Chunks without a piece in use, of any size but this. */
static bool drop_idle(struct shim_bounce *b, unsigned size)
{
	bool some = false;

	for (unsigned i = 0; i < CLASSES; i++)
		for (struct shim_chunk *c = i == size - SMALLEST ? NULL : b->open[i], *next; c; c = next) {
			next = c->next;
			some |= c->free == c->pieces && drop_chunk(b, c);
		}
	return some;
}

static int grow(struct shim_bounce *b, unsigned size)
{
	const uint64_t bytes = CHUNK >> size ? CHUNK : 1ull << size;
	const uint32_t pieces = (uint32_t)(bytes >> size);
	struct shim_chunk *c;
	int rc;

	if (bytes > SHIM_BOUNCE_LIMIT - b->bytes)
		return -ENOMEM;
	c = calloc(1, sizeof(*c) + pieces * sizeof(c->stack[0]));
	if (!c)
		return -ENOMEM;
	rc = sp_mr_alloc(b->dev, bytes, &c->memory);
	if (rc) {
		free(c);
		return rc == -EDQUOT ? -ENOMEM : rc;
	}
	b->bytes += bytes;
	c->size = size;
	c->pieces = c->free = pieces;
	for (uint32_t i = 0; i < pieces; i++)
		c->stack[i] = pieces - 1 - i;
	enter_list(c, &b->open[size - SMALLEST]);
	return 0;
}

int shim_bounce_take(struct shim_bounce *b, size_t bytes, struct shim_piece *piece)
{
	unsigned size = SMALLEST;
	struct shim_chunk *c;

	while (size < LARGEST && 1ull << size < bytes)
		size++;
	if (bytes > 1ull << size)
		return -ENOMEM;
	if (!b->open[size - SMALLEST]) {
		int rc = grow(b, size);

		if (rc == -ENOMEM && drop_idle(b, size))
			rc = grow(b, size);
		if (rc)
			return rc;
	}
	c = b->open[size - SMALLEST];
	*piece = (struct shim_piece){c, (uint8_t *)c->memory->addr + ((uint64_t)c->stack[--c->free] << size),
				     1ull << size};
	if (!c->free) {
		leave_list(c);
		enter_list(c, &b->full[size - SMALLEST]);
	}
	return 0;
}

void shim_bounce_give(struct shim_bounce *b, struct shim_piece *piece)
{
	struct shim_chunk *c = piece->chunk;

	if (!c)
		return;
	if (!c->free) {
		leave_list(c);
		enter_list(c, &b->open[c->size - SMALLEST]);
	}
	c->stack[c->free++] = (uint32_t)((uint64_t)((uint8_t *)piece->addr - (uint8_t *)c->memory->addr) >> c->size);
	*piece = (struct shim_piece){NULL};
}

int shim_bounce_lkey(struct shim_bounce *b, struct sp_rdma_pd *pd, const struct shim_piece *piece, uint32_t *lkey)
{
	struct shim_chunk *c = piece->chunk;
	struct shim_bounce_key *k = c->keys;
	int rc;

	(void)b;
	while (k && k->pd != pd)
		k = k->next;
	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k)
			return -ENOMEM;
		rc = sp_rdma_mr_reg(pd, c->memory, 0, c->memory->len, SP_RDMA_LOCAL_WRITE, &k->mr);
		if (rc) {
			free(k);
			return rc;
		}
		k->pd = pd;
		k->next = c->keys;
		c->keys = k;
	}
	*lkey = k->mr->lkey;
	return 0;
}

static struct shim_chunk **list_of(struct shim_bounce *b, unsigned i)
{
	return i < CLASSES ? &b->open[i] : &b->full[i - CLASSES];
}

int shim_bounce_leave(struct shim_bounce *b, struct sp_rdma_pd *pd)
{
	int first = 0;

	for (unsigned i = 0; i < 2 * CLASSES; i++)
		for (struct shim_chunk *c = *list_of(b, i); c; c = c->next) {
			const int rc = drop_keys(c, pd);

			first = first ? first : rc;
		}
	return first;
}

void shim_bounce_forget(struct shim_bounce *b, const struct sp_rdma_pd *pd)
{
	for (unsigned i = 0; i < 2 * CLASSES; i++)
		for (struct shim_chunk *c = *list_of(b, i); c; c = c->next)
			for (struct shim_bounce_key **at = &c->keys, *k; (k = *at);) {
				if (k->pd != pd) {
					at = &k->next;
					continue;
				}
				*at = k->next;
				free(k);
			}
}

void shim_bounce_close(struct shim_bounce *b)
{
	for (unsigned i = 0; b && i < 2 * CLASSES; i++)
		for (struct shim_chunk *c = *list_of(b, i), *next; c; c = next) {
			next = c->next;
			while (c->keys) {
				struct shim_bounce_key *k = c->keys;

				c->keys = k->next;
				free(k);
			}
			sp_mr_free(c->memory); /* what is still in use goes with the device */
			free(c);
		}
	free(b);
}
