/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle wire was asked for, and what it holds while it runs. */
#ifndef COMMAND_WIRE_STATE_H
#define COMMAND_WIRE_STATE_H

#include "../../pipeline/nic.h"
#include "../../testbed/link.h"

#define WIRE_BURST 32

struct sp_port;

/* One direction, from one port to the other. */
struct wire_way {
	struct sp_port *from, *to;
	void *in, *out; /* the link's ends at `from` and at `to` */

	/* Packets that have arrived, and that the driver has not taken yet. */
	struct rte_mbuf *packet[WIRE_BURST];
	sp_time due[WIRE_BURST];
	unsigned first, count;
	bool refusing; /* the driver takes nothing, since: */
	sp_time refused_since;

	/* received + duplicated = oversized + queue_dropped + memory_dropped + lost + refused + sent + in flight */
	uint64_t received, received_bytes;
	uint64_t oversized;	 /* larger than the MTU: not sent */
	uint64_t queue_dropped;	 /* the queue in front of the link was full */
	uint64_t memory_dropped; /* the memory for packets in flight was full */
	uint64_t refused;	 /* the port took nothing for too long */
	uint64_t sent, sent_bytes;
	double late_sum; /* ps, of all sent: from due time to when the driver took it */
	sp_time late_most;
};

struct wire {
	const char *device[2];
	struct sp_link_config config;
	uint32_t mtu;
	sp_time duration; /* SP_NEVER: until a signal */
	bool json;
	char **eal;
	int eal_count;

	struct sp_nic *nic; /* for its two ports only */
	struct sp_link *link;
	struct wire_way way[2]; /* [e]: from port e */
	sp_time ran;		/* how long */
};

#endif
