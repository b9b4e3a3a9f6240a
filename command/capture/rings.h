/* SPDX-License-Identifier: BSD-3-Clause */
/* From the rings of a NIC that captures (wire/capture.h) into a pcapng file. One thread. */
#ifndef COMMAND_CAPTURE_RINGS_H
#define COMMAND_CAPTURE_RINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../../handlers/wire/capture.h"

#define CAPTURE_WORKERS_MAX 256

struct capture_rings {
	const void *memory; /* mapped */
	uint64_t bytes;	    /* of it */
	FILE *to;
	uint64_t written; /* packets */
	/* its own: */
	struct sp_capture_memory shape; /* what the memory said at first */
	uint64_t head[CAPTURE_WORKERS_MAX], tail[CAPTURE_WORKERS_MAX];
	int interface[SP_CAPTURE_PORTS]; /* number of it in the file, -1: not there yet */
	int interfaces;
	uint64_t packets[SP_CAPTURE_PORTS];
	uint64_t start; /* ns since the epoch */
};

/* Does what the NIC says of its memory lie within it? Before anything else. */
bool capture_rings_sound(struct capture_rings *c);
/* What the file begins with, and ends with; 0 or -errno. */
int capture_rings_begin(struct capture_rings *c);
int capture_rings_finish(struct capture_rings *c);
/* Writes and flushes what is in the rings now, by time (each ring is in order, the rings among themselves need not be),
 * until `limit` packets are written in all (0: no limit). How many it were; -EPROTO: the rings make no sense; -errno.
 */
int capture_rings_look(struct capture_rings *c, uint64_t limit);
/* Packets that found no place in the rings. */
uint64_t capture_rings_lost(const struct capture_rings *c);

#endif
