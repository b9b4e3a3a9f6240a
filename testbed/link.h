/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A full-duplex link between two ports, in virtual time. Each direction is a wire of finite bandwidth behind a bounded
 * queue, then a network that delays, loses, repeats, reorders and corrupts (impairment.h). The same seed gives the same
 * bytes and times.
 *
 * Payload-less, for sweeps: of each frame longer than SP_LINK_WHOLE only the first bytes (headers) are kept while it is
 * in flight. Exact remain every length, so also all times and counters, and what is lost, repeated and reordered. The
 * receiver gets a frame of full length whose bytes beyond those kept are whatever its buffer held before. What a
 * receiver would notice of a corrupted packet it cannot notice here, for nobody can check an ICRC: the link loses each
 * packet or copy that it corrupts, as if the receiver had dropped it. Skipped are the copying of payload and the memory
 * for it. Both NICs have to know, too: not to compute and not to check an ICRC.
 *
 * Threads: one thread owns the link and everything attached to it (virtual time has one owner).
 */
#ifndef TESTBED_LINK_H
#define TESTBED_LINK_H

#include "../pipeline/nic.h"
#include "impairment.h"

#define SP_LINK_HEAD   128u	    /* bytes kept of a payload-less frame, if not said otherwise */
#define SP_LINK_WHOLE  1280u	    /* payload-less, frames up to this are kept whole: all that carries control */
#define SP_LINK_MEMORY (2ull << 30) /* memory for packets in flight in one direction, by default */

struct sp_link_config {
	struct sp_link_direction direction[2]; /* [e]: what end e sends */
	uint16_t queues[2];		       /* receive queues of the port at end e = its NIC's workers; 0: 1 */
	uint64_t seed;
	uint64_t memory;   /* bytes per direction, at most 2^44, see sp_link_create; 0: SP_LINK_MEMORY */
	bool payload_less; /* see above */
	uint32_t head;	   /* bytes kept then, SP_LINK_MIN_FRAME to 9600; 0: SP_LINK_HEAD */
	/* [e]: decides for each packet that end e sends whether it is lost, besides the losses of the impairments.
	 * frame: its first bytes, SP_LINK_HEAD or all; len: of the whole packet. NULL: loses none. */
	bool (*lose[2])(void *arg, const uint8_t *frame, uint32_t len);
	void *lose_arg[2];
};

struct sp_link_counters {
	uint64_t offered; /* accepted from the sender: delivered + lost - duplicated once nothing is in flight */
	uint64_t lost, duplicated, reordered;
	uint64_t corrupted; /* packets, repeats included; payload-less: counted as lost, too */
	uint64_t delivered; /* packets handed to the receiver, repeats included */
	uint64_t bytes;	    /* bytes of frames delivered */
	uint64_t oversized; /* among the lost: larger than any packet buffer. Not 0: the results are wrong */
	uint64_t held; /* times that the sender was blocked although the queue had room, because memory was used up: the
			  results are not exact from then on */
	uint64_t waited; /* times that a packet had arrived and the process had no packet buffer for it: it is received
			    later than it arrived, so the results are not exact */
};

struct sp_link;

/*
 * -EINVAL: sp_link_check() refuses a direction, or another value is out of bounds; -ENOMEM. Packets in flight take
 * memory of the link, which grows as needed and is freed with the link. At its bound the sender is blocked until a
 * packet arrives. On arrival a packet needs one of the process's packet buffers.
 */
int sp_link_create(const struct sp_link_config *config, struct sp_link **link);
void sp_link_destroy(struct sp_link *link); /* frees the packets in flight */

/* For struct sp_port_config: ops, and ops_arg of the port at end 0 or 1. */
extern const struct sp_port_ops sp_link_ops;
void *sp_link_port(struct sp_link *link, unsigned end);

/* Changes what end `direction` sends from the next packet on: another wire and network, but the same queue. -EINVAL:
 * sp_link_check(). */
int sp_link_change(struct sp_link *link, unsigned direction, const struct sp_link_direction *config);
void sp_link_count(const struct sp_link *link, unsigned direction, struct sp_link_counters *counters);
/* Packets sent and not yet received. */
uint64_t sp_link_in_flight(const struct sp_link *link, unsigned direction);

#endif
