/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies packets from the capture rings of a NIC (wire/capture.h) into a pcapng file, or prints them. One thread. */
#ifndef COMMAND_CAPTURE_RINGS_H
#define COMMAND_CAPTURE_RINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../../handlers/wire/capture.h"

#define CAPTURE_WORKERS_MAX 256

struct capture_rings {
	const void *memory; /* mapped */
	uint64_t bytes;	    /* of memory */
	FILE *to;
	bool lines;	  /* of text, one a packet, and no pcapng */
	uint64_t written; /* packets */
	/* private: */
	struct sp_capture_memory shape; /* a copy of the memory's head */
	uint64_t head[CAPTURE_WORKERS_MAX], tail[CAPTURE_WORKERS_MAX];
	int interface[SP_CAPTURE_PORTS]; /* its number in the file, -1: not written yet */
	int interfaces;
	uint64_t packets[SP_CAPTURE_PORTS];
	uint64_t start; /* ns since the epoch */
};

/* Whether all that the memory's head describes lies within the memory. Must be called first. */
bool capture_rings_sound(struct capture_rings *c);
/* Writes the start and the end of the file. 0 or -errno. */
int capture_rings_begin(struct capture_rings *c);
int capture_rings_finish(struct capture_rings *c);
/* Writes and flushes what is in the rings now, sorted by time, until `limit` packets are written in all (0: no limit).
 * Returns the number of packets; -EPROTO: the rings are corrupt; -errno. */
int capture_rings_look(struct capture_rings *c, uint64_t limit);
/* Packets lost because the rings were full. */
uint64_t capture_rings_lost(const struct capture_rings *c);

#endif
