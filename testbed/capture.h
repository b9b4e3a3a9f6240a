/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures as a port: what a file holds arrives at its own time stamps, what the NIC sends is written to another file.
 * Reads pcap and pcapng, in microseconds and nanoseconds; Ethernet. Writes pcap in nanoseconds.
 * Time: picoseconds since the first packet. Threads: one thread polls all queues of the port.
 * A capture may be read several times over, and at a rate instead of its time stamps (struct sp_capture_pace).
 */
#ifndef TESTBED_CAPTURE_H
#define TESTBED_CAPTURE_H

#include "../pipeline/nic.h"

#define SP_CAPTURE_SPAN (200 * 86400 * SP_SEC) /* a capture may last 200 days: sp_time wraps after 213 */

struct sp_capture;
struct sp_capture_writer;

struct sp_capture_counters {
	uint64_t packets, bytes; /* handed out */
	uint64_t passes;	 /* begun */
	uint64_t backwards;	 /* time stamp before the previous packet's; handed out at the previous packet's time */
	uint64_t snapped;	 /* shorter in the capture than it was on the wire; handed out as it stands */
	uint64_t oversized;	 /* larger than a packet buffer; not handed out, and an error */
};

/*
 * Opens a capture and reads its first packet. queues: the workers of the NIC it feeds; flows are spread over them.
 * -errno when the file cannot be opened, -EINVAL when it is empty, no capture, or not of Ethernet; error says which.
 */
int sp_capture_open(const char *file, uint16_t queues, struct sp_capture **capture, struct sp_error *error);
void sp_capture_close(struct sp_capture *capture);

/* How the packets are spread over time. Zeroed: once, at their time stamps. */
struct sp_capture_pace {
	/* How often the file is gone through. The first packet of a pass follows the last one of the pass before at the
	 * first pass's mean gap, its duration by its packets less one; 1 us where there is one packet, or no duration.
	 */
	uint64_t passes; /* 0: 1 */
	/* One of the two replaces the time stamps. Fractions of a picosecond are carried over: exact in the long run.
	 */
	uint64_t bits;	  /* bit/s: each packet follows the one before as on a wire of that rate, see link.h */
	uint64_t packets; /* 1/s */
};
#define SP_CAPTURE_MAX_RATE 1000000000000000ull /* of either */
/* Before anything is handed out. -EINVAL and error: several passes over what is no regular file, a rate too high. */
int sp_capture_pace(struct sp_capture *capture, const struct sp_capture_pace *pace, struct sp_error *error);

void sp_capture_count(const struct sp_capture *capture, struct sp_capture_counters *counters);
/* Nothing is left to hand out. */
bool sp_capture_ended(const struct sp_capture *capture);
/* How the reading went: 0, or -EINVAL and what was wrong: cut off, damaged, oversized packets. What came before a cut
 * has been handed out. */
int sp_capture_status(const struct sp_capture *capture, struct sp_error *error);
/* Time stamp of the first packet, nanoseconds since 1970; 0 when there is none. */
uint64_t sp_capture_start(const struct sp_capture *capture);

/* start: what time 0 is written as, nanoseconds since 1970. An existing file is overwritten. -errno and error. */
int sp_capture_create(const char *file, uint64_t start, struct sp_capture_writer **writer, struct sp_error *error);
/* What has been written so far becomes a whole capture; for signal handlers too. */
void sp_capture_flush(struct sp_capture_writer *writer);
/* Flushes and closes; 0, or -errno and error if anything could not be written. */
int sp_capture_finish(struct sp_capture_writer *writer, struct sp_error *error);

/* For struct sp_port_config: either may be NULL (nothing arrives; what is sent goes nowhere). */
struct sp_capture_port {
	struct sp_capture *in;
	struct sp_capture_writer *out;
};
extern const struct sp_port_ops sp_capture_ops; /* ops_arg: struct sp_capture_port * */

#endif
