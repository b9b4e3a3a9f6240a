/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A full-duplex link between two ports, in virtual time. Each direction is a wire of finite bandwidth behind a bounded
 * queue, then a network that delays, loses, repeats and reorders. The same seed gives the same bytes and times.
 * Threads: one thread owns the link and everything attached to it (virtual time has one owner).
 */
#ifndef TESTBED_LINK_H
#define TESTBED_LINK_H

#include "../pipeline/nic.h"

/* What a frame costs on the wire beyond its own bytes: preamble and delimiter 8, FCS 4, gap 12; and never less than 60.
 */
#define SP_LINK_OVERHEAD  24
#define SP_LINK_MIN_FRAME 60

/* One direction. Probabilities are per packet and independent; all-zero is a perfect, infinitely fast wire. */
struct sp_link_direction {
	uint64_t bandwidth; /* bit/s; 0: no limit */
	sp_time delay;	    /* propagation: end of sending to arrival */
	double loss;	    /* packet never arrives (it still takes its time on the wire) */
	double duplicate;   /* packet arrives twice */
	double reorder;	    /* packet arrives reorder_delay later than it should */
	sp_time reorder_delay;
	uint32_t queue; /* packets that the sender may have waiting for the wire; 0: 256 */
};

struct sp_link_config {
	struct sp_link_direction direction[2]; /* [e]: what end e sends */
	uint16_t queues[2];		       /* receive queues of the port at end e = its NIC's workers; 0: 1 */
	uint64_t seed;
};

struct sp_link_counters {
	uint64_t offered; /* taken from the sender: delivered + lost - duplicated once nothing is in flight */
	uint64_t lost, duplicated, reordered;
	uint64_t delivered; /* packets handed to the receiver, repeats included */
	uint64_t bytes;	    /* bytes of frames delivered */
	uint64_t oversized; /* losses and missed repeats of packets larger than any buffer: the run is not what was
			       asked for */
	uint64_t held;	    /* times that the sender was held back although the queue had room, see sp_link_create */
};

struct sp_link;

/*
 * -EINVAL: a probability that is none (NaN too), a delay or queue out of bounds; -ENOMEM. All memory is taken here:
 * room for as many packets as bandwidth, delays and queue can have on the way, at most half of the process's packet
 * buffers per direction; beyond that the sender is held back, and also where a packet has to be copied without a buffer
 * being left.
 */
int sp_link_create(const struct sp_link_config *config, struct sp_link **link);
void sp_link_destroy(struct sp_link *link); /* frees what is in flight */

/* For struct sp_port_config: ops and ops_arg of the port at end 0 or 1. */
extern const struct sp_port_ops sp_link_ops;
void *sp_link_port(struct sp_link *link, unsigned end);

/* Direction e is what end e sends. */
void sp_link_count(const struct sp_link *link, unsigned direction, struct sp_link_counters *counters);
/* Packets sent and not yet received. */
uint64_t sp_link_in_flight(const struct sp_link *link, unsigned direction);

#endif
