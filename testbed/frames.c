/* SPDX-License-Identifier: BSD-3-Clause */
#include "frames.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define LINE 64u

/* At the beginning of memory that is aligned to its size: a frame's address gives its block. */
struct sp_frames_block {
	struct sp_frames_block *next_free, *next;
	uint32_t used, frames;
};
static_assert(sizeof(struct sp_frames_block) <= LINE, "the first frame begins at the second line");
static_assert(LINE + 2 * SP_FRAMES_MOST <= SP_FRAMES_BLOCK, "two frames fit in a block");

static bool block_add(struct sp_frames *f)
{
	struct sp_frames_block *b = aligned_alloc(SP_FRAMES_BLOCK, SP_FRAMES_BLOCK);

	if (!b)
		return false;
	*b = (struct sp_frames_block){.next_free = f->free, .next = f->all, .used = LINE};
	f->free = f->all = b;
	return true;
}

static void block_next(struct sp_frames *f)
{
	f->current = f->free;
	f->free = f->free->next_free;
}

int sp_frames_init(struct sp_frames *f)
{
	*f = (struct sp_frames){0};
	if (!block_add(f))
		return -ENOMEM;
	block_next(f);
	return 0;
}

void sp_frames_free(struct sp_frames *f)
{
	for (struct sp_frames_block *b = f->all, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	*f = (struct sp_frames){0};
}

static uint32_t lines(uint32_t len)
{
	return (len + LINE - 1) & ~(LINE - 1);
}

bool sp_frames_ready(struct sp_frames *f, uint32_t len, uint64_t *left)
{
	if (2 * lines(len) <= SP_FRAMES_BLOCK - f->current->used)
		return true;
	if (!f->free) {
		if (*left < SP_FRAMES_BLOCK || !block_add(f))
			return false;
		*left -= SP_FRAMES_BLOCK;
	}
	return true;
}

uint8_t *sp_frames_take(struct sp_frames *f, uint32_t len)
{
	struct sp_frames_block *b = f->current;
	uint8_t *bytes;

	if (lines(len) > SP_FRAMES_BLOCK - b->used) {
		block_next(f);
		b = f->current;
	}
	bytes = (uint8_t *)b + b->used;
	b->used += lines(len);
	b->frames++;
	return bytes;
}

void sp_frames_drop(struct sp_frames *f, uint8_t *bytes)
{
	struct sp_frames_block *b = (struct sp_frames_block *)((uintptr_t)bytes & ~(uintptr_t)(SP_FRAMES_BLOCK - 1));

	if (--b->frames)
		return;
	b->used = LINE;
	if (b == f->current)
		return; /* refill from the beginning, which is still in the cache */
	b->next_free = f->free;
	f->free = b;
}
