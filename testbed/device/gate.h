/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device before a NIC that has one handler, whose costs are known: it holds each packet that comes until the device
 * would be done with it, and only then gives it to the NIC. So everything that the handler does happens when it would:
 * what it writes, posts and sends. (watch.h learns what a call costs when it is over, and can hold replies alone.)
 * Packets that find the device's buffer full are dropped.
 */
#ifndef TESTBED_DEVICE_GATE_H
#define TESTBED_DEVICE_GATE_H

#include "run.h"

#define SP_DEVICE_GATED 2048 /* packets that are held at most, whatever the buffer */

struct sp_device_gate_config {
	const struct sp_device *device; /* copied */
	const char *handler;		/* its payload() has a cost in the device's file: else -EINVAL */
	unsigned workers;		/* of the NIC */
	uint32_t words;			/* of the host that each call changes, */
	uint32_t word_every;		/* ... and one more with every so many packets; 0: none */
	uint32_t header;		/* bytes of a frame that are no payload: the rest is written to the host */
	const struct sp_port_ops *ops;	/* the port behind */
	void *port;
};

struct sp_device_gate;

/* -EINVAL, -ENOMEM. */
int sp_device_gate_create(const struct sp_device_gate_config *config, struct sp_device_gate **gate);
void sp_device_gate_destroy(struct sp_device_gate *gate); /* after the NIC; frees what it holds. NULL is fine */
extern const struct sp_port_ops sp_device_gate_ops;	  /* ops_arg: struct sp_device_gate * */
const struct sp_device_run *sp_device_gate_run(const struct sp_device_gate *gate);
uint64_t sp_device_gate_dropped(const struct sp_device_gate *gate);

#endif
