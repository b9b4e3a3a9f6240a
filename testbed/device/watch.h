/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells a device what a NIC does: each packet that comes to a context, and each call of a handler, by way of the NIC's
 * trace. The NIC's packet path knows nothing of it. The device decides when the frames of a call leave; a port of it
 * (sp_device_port_ops), before the NIC's own, holds them until then. What handlers write to the host and post to it is
 * there at once, as without a device: handlers read it again, so it cannot be held back. The report and the trace tell
 * when the host would have seen it.
 */
#ifndef TESTBED_DEVICE_WATCH_H
#define TESTBED_DEVICE_WATCH_H

#include "../../pipeline/observe/trace.h"
#include "run.h"

/* That a port holds: half of the packet pool. Then the NIC drops, as at a full port. */
#define SP_DEVICE_FRAMES 4096
#define SP_DEVICE_INNER	 64 /* calls within one that wait for its end */

struct sp_device_watch;

/* Before the first context (sp_nic_trace). The caller owns the run, which must outlive the watch. Errors of
 * sp_nic_trace(), -ENOMEM. */
int sp_device_watch_create(struct sp_device_run *run, struct sp_device_watch **watch);
int sp_device_watch_add(struct sp_device_watch *watch, struct sp_nic *nic);
/*
 * What is known now that a call has ended, for the leave() of a tracer that was added after the watch. n > 0: the times
 * of n calls: those within it, in the order in which they ended, and of itself, the last. 0: it was a call within
 * another one, and gets its times with that. -ENOENT: it takes no time, or too many were within the outer one.
 */
int sp_device_watch_ended(const struct sp_device_watch *watch, const struct sp_device_result **result);
void sp_device_watch_destroy(struct sp_device_watch *watch); /* after the NIC; NULL is fine */

/* A port that holds what the NIC sends until the device has sent it. The watch must be there before the NIC polls. */
struct sp_device_port {
	struct sp_device_watch *watch;
	unsigned index;		       /* of the port */
	const struct sp_port_ops *ops; /* the port behind */
	void *port;
	struct { /* a heap: the earliest first */
		sp_time at;
		uint64_t number;
		struct rte_mbuf *frame;
	} held[SP_DEVICE_FRAMES];
	unsigned helds;
	uint64_t number;
	bool blocked; /* the port behind did not take the frame that is due */
};
extern const struct sp_port_ops sp_device_port_ops; /* ops_arg: struct sp_device_port * */
/* Sends all that is held, at its times, once the NIC is gone or no longer polled. */
void sp_device_port_flush(struct sp_device_port *port);

/* For the port: when the frame, which the NIC has just handed over, leaves. 0: at once. */
sp_time sp_device_watch_frame(struct sp_device_watch *watch, unsigned port, const void *frame, uint32_t len);

#endif
