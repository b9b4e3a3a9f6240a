/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for the bytes of frames in flight, which may be gigabytes on a long fast link: bounded, allocated in blocks,
 * filled one frame behind the other. A block is reused when its last frame is freed. Frames are freed nearly in the
 * order in which they were taken, so a free list per size would save little, and would keep memory of sizes no longer
 * sent. Threads: one.
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

int sp_frames_init(struct sp_frames *frames);  /* takes one block; -ENOMEM */
void sp_frames_free(struct sp_frames *frames); /* frees all frames, too; a zeroed one is empty */

/* Makes room for two frames of len bytes. A block that it takes is subtracted from *left, in bytes. False: *left or the
 * machine has too little; never while no frame is taken. */
bool sp_frames_ready(struct sp_frames *frames, uint32_t len, uint64_t *left);

/* len bytes, aligned to a cache line, valid until sp_frames_drop(). sp_frames_ready() must have made room. */
uint8_t *sp_frames_take(struct sp_frames *frames, uint32_t len);
void sp_frames_drop(struct sp_frames *frames, uint8_t *bytes);

#endif
