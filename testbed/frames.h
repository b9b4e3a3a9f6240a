/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for the bytes of frames in flight, which may be gigabytes on a long fat link: taken from the machine in
 * blocks, bounded, filled one frame behind the other. A block is used anew when its last frame is gone; frames leave
 * nearly in the order in which they came, so a free list per size would save little and hold on to memory of sizes no
 * longer sent. Threads: none of its own, one owner.
 */
#ifndef TESTBED_FRAMES_H
#define TESTBED_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#define SP_FRAMES_BLOCK 262144u
#define SP_FRAMES_MOST	16384u /* bytes of one frame */

struct sp_frames_block;

struct sp_frames {
	struct sp_frames_block *current, *free, *all;
};

int sp_frames_init(struct sp_frames *frames);  /* one block; -ENOMEM */
void sp_frames_free(struct sp_frames *frames); /* with all that is in it; zeroed: nothing */

/* Makes room for two frames of len bytes; a block that it takes goes from *left, bytes. False: *left or the machine has
 * too little; never when there is no frame in it. */
bool sp_frames_ready(struct sp_frames *frames, uint32_t len, uint64_t *left);

/* len bytes, at a cache line's beginning, until sp_frames_drop(). There is room, sp_frames_ready() has said so. */
uint8_t *sp_frames_take(struct sp_frames *frames, uint32_t len);
void sp_frames_drop(struct sp_frames *frames, uint8_t *bytes);

#endif
