/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spindle wire: two real ports, and between them, in real time, a link that does to packets what the testbed's does in
 * virtual time. It is the same link: here the clock on the wall drives it. One thread.
 */
#ifndef COMMAND_WIRE_H
#define COMMAND_WIRE_H

#include "../../pipeline/nic.h"
#include "../../testbed/link.h"

#define WIRE_BURST 32

struct sp_port;

/* One direction: what came by one port, and how it left by the other. */
struct wire_way {
	struct sp_port *from, *to;
	void *in, *out; /* the link's ends on the sides of `from` and `to` */

	/* What has arrived, and the driver has not taken yet. */
	struct rte_mbuf *packet[WIRE_BURST];
	sp_time due[WIRE_BURST];
	unsigned first, count;
	bool refusing; /* the driver took nothing, since: */
	sp_time refused_since;

	/* received + duplicated = oversized + queue_dropped + memory_dropped + lost + refused + sent + in flight */
	uint64_t received, received_bytes;
	uint64_t oversized;	 /* larger than the MTU allows: not sent */
	uint64_t queue_dropped;	 /* the queue before the wire was full */
	uint64_t memory_dropped; /* the memory for what is in flight was full */
	uint64_t refused;	 /* the port took nothing for so long */
	uint64_t sent, sent_bytes;
	double late_sum; /* ps, of all sent: when the driver took it, after it was due */
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

	struct sp_nic *nic; /* for its two ports alone */
	struct sp_link *link;
	struct wire_way way[2]; /* [e]: from port e */
	sp_time ran;		/* how long */
};

void wire_run(struct wire *w);				   /* until its time is over or a signal has come */
uint64_t wire_in_flight(const struct wire *w, unsigned e); /* packets that have not been sent yet */

int wire_show_ready(const struct wire *w);   /* -errno: standard output fails */
void wire_show_report(const struct wire *w); /* to standard output; what was not as asked for, to standard error */

#endif
