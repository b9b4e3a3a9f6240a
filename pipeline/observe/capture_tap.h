/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker's side of captures: records of packets under way, and the rings that programs read. */
#ifndef PIPELINE_OBSERVE_CAPTURE_TAP_H
#define PIPELINE_OBSERVE_CAPTURE_TAP_H

#include "../../handlers/wire/capture.h"
#include "../limits.h"
#include "tap.h"
#include "../mem/shm.h"

struct sp_rule;

#define SP_OFFER 64 /* frames that a queue hands to its port at once, at the most */

/* One worker's ring. [worker], but head in the ring */
struct lane {
	struct sp_capture_ring *ring;
	uint64_t tail, lost[SP_CAPTURE_PORTS]; /* the ring's are copies for the program */
	unsigned staged;		       /* slots written behind tail */
	uint8_t offered[SP_OFFER];	       /* what became of each frame offered to a port: */
} SP_CACHE_ALIGNED;
enum { NOT_WANTED, STAGED, LOST };

struct sp_capture {
	unsigned index;	      /* in nic->capture and the workers' lists; [control] */
	struct sp_rule *rule; /* NULL: all. This and the next three lines: read-only from the start */
	bool drops;
	char context[40];
	uint32_t slots, slot_bytes, snaplen;
	struct sp_shm memory;
	struct lane lane[SP_MAX_WORKERS];
};

struct sp_record {
	struct sp_record *next; /* free list */
	uint32_t wanted;	/* by which mirrors, bits */
	uint32_t reserved;
	struct sp_capture_slot slot; /* and SP_PACKET_ROOM bytes of frame */
};

/* A worker's part; [worker] once w->mirrors shows it. */
struct sp_captures {
	struct sp_capture *capture[SP_MAX_CAPTURES];
	uint64_t wall; /* ns since the epoch at `since` */
	sp_time since;
	/* the burst at hand: struct sp_packet, and their records, NULL where nobody wants them */
	const uint8_t *packets;
	size_t stride;
	unsigned count;
	struct sp_record *record[SP_BURST > SP_PARKED ? SP_BURST : SP_PARKED];
	struct sp_record *free;
	uint32_t sender[SP_PORT_LOOP + 1][SP_TX_QUEUE]; /* beside the queues: contexts, 0: none */
	struct {
		uint64_t round, tsc;
	} queued[SP_PORT_LOOP + 1][SP_TX_QUEUE]; /* the same: when */
	uint8_t *records;
};

static inline void recycle(struct sp_captures *ms, struct sp_record *r)
{
	r->next = ms->free;
	ms->free = r;
}

/* While w->mirrors is not NULL. */
extern const struct sp_tap_calls sp_capture_tap;

#endif
