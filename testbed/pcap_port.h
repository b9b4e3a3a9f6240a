/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures as a port: the packets of a file arrive at their time stamps; packets that the NIC sends are written to
 * another file. Reads pcap and pcapng, in microseconds and nanoseconds; Ethernet. Writes pcap in nanoseconds, or pcapng
 * with an interface for each of several ports. Time: picoseconds since the first packet. Threads: one polls all queues
 * of the port. A capture can be read several times in a row, and at a rate instead of its time stamps (struct
 * sp_pcap_pace).
 */
#ifndef TESTBED_PCAP_PORT_H
#define TESTBED_PCAP_PORT_H

#include "../pipeline/nic.h"

#define SP_CAPTURE_SPAN (200 * 86400 * SP_SEC) /* a capture may last 200 days: sp_time wraps after 213 */

struct sp_pcap;
struct sp_pcap_writer;

struct sp_pcap_counters {
	uint64_t packets, bytes; /* handed out */
	uint64_t passes;	 /* passes begun */
	uint64_t backwards; /* packets with an earlier time stamp than the one before; handed out at that one's time */
	uint64_t snapped;   /* packets cut short in the capture; handed out as they are */
	uint64_t oversized; /* packets larger than a packet buffer; skipped, and an error */
};

/*
 * Opens a capture and reads its first packet. queues: workers of the NIC; flows are spread over them. -errno: the file
 * cannot be opened. -EINVAL: it is empty, no capture, or not Ethernet. error has the text.
 */
int sp_pcap_open(const char *file, uint16_t queues, struct sp_pcap **capture, struct sp_error *error);
/* The same, of the packets of one interface of a pcapng file; SP_RECORDS_ALL, see records.h. */
int sp_pcap_open_interface(const char *file, int interface, uint16_t queues, struct sp_pcap **capture,
			   struct sp_error *error);
void sp_pcap_close(struct sp_pcap *capture);

/* When packets are handed out. Zeroed: once, at their time stamps. */
struct sp_pcap_pace {
	/* How often the file is read. The gap between two passes is the mean gap of the first pass: its duration
	 * divided by its packets less one; 1 us if it has one packet or no duration. */
	uint64_t passes; /* 0: 1 */
	/* One of these two replaces the time stamps. Fractions of a picosecond are carried over, so the rate is
	 * exact. */
	uint64_t bits;	  /* bit/s: packets follow each other as on a wire of that rate, see link.h */
	uint64_t packets; /* 1/s */
};
#define SP_CAPTURE_MAX_RATE 1000000000000000ull /* of either */
/* To be called before the first packet is handed out. -EINVAL and error: several passes of a file that is not regular,
 * or too high a rate. */
int sp_pcap_pace(struct sp_pcap *capture, const struct sp_pcap_pace *pace, struct sp_error *error);

/*
 * Puts captures on one clock, after sp_pcap_pace(): time 0 is the first packet of all of them, and sp_pcap_start() is
 * the same for all. With several passes, each begins for all at once: the gap before it is the mean gap of their
 * packets together. At a given rate nothing changes: each goes by itself from time 0. -EINVAL and error: a capture
 * begins too late, or cannot be read twice.
 */
int sp_pcap_join(struct sp_pcap *const capture[], unsigned captures, struct sp_error *error);

void sp_pcap_count(const struct sp_pcap *capture, struct sp_pcap_counters *counters);
/* Whether all packets were handed out. */
bool sp_pcap_ended(const struct sp_pcap *capture);
/* Whether reading went well: 0, or -EINVAL and error: cut off, damaged, oversized packets. Packets before the cut were
 * handed out. */
int sp_pcap_status(const struct sp_pcap *capture, struct sp_error *error);
/* Time stamp of the first packet, nanoseconds since 1970; 0 when there is none. */
uint64_t sp_pcap_start(const struct sp_pcap *capture);

/* start: what time 0 is written as, nanoseconds since 1970. An existing file is overwritten. -errno and error. */
int sp_pcap_create(const char *file, uint64_t start, struct sp_pcap_writer **writer, struct sp_error *error);
/* The same as pcapng, with an interface "port0", "port1", ... for each of so many ports. */
int sp_pcap_create_ports(const char *file, uint64_t start, unsigned ports, struct sp_pcap_writer **writer,
			 struct sp_error *error);
/* Makes the file a complete capture of all packets so far; may be called in signal handlers. */
void sp_pcap_flush(struct sp_pcap_writer *writer);
/* Flushes and closes; 0, or -errno and error if anything could not be written. */
int sp_pcap_finish(struct sp_pcap_writer *writer, struct sp_error *error);

/* For struct sp_port_config. Either may be NULL: no packets arrive; packets sent are dropped. */
struct sp_pcap_port {
	struct sp_pcap *in;
	struct sp_pcap_writer *out; /* several ports may share it: then it is in the order of sending */
	uint32_t interface;	    /* of this port, in the file */
};
extern const struct sp_port_ops sp_pcap_ops; /* ops_arg: struct sp_pcap_port * */

#endif
