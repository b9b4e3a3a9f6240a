/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle demo was asked for, and the record of its transfers, one "lane" per scheme. */
#ifndef COMMAND_DEMO_RECORD_H
#define COMMAND_DEMO_RECORD_H

#include <stdio.h>

#include "../../host-api/reliable.h"
#include "../../testbed/link.h"
#include "../../testbed/pcap_port.h"

#define DEMO_LANES	4
#define DEMO_MESSAGES	256
#define DEMO_LINK_QUEUE 16 /* packets */

struct demo_scheme {
	const char *name;
	int scheme; /* enum sdr_reliable_scheme; -1: nothing is sent again */
	enum sdr_code code;
};

struct demo_options {
	const char *file, *capture, *picture; /* capture, picture: files to write, or NULL */
	struct demo_scheme scheme[DEMO_LANES];
	unsigned lanes;
	struct sp_link_config link;
	uint64_t mtu, chunk, message;
	uint32_t k, m;
	bool json, fast, ipv6;
};

/* What happens to a chunk or a packet. In a picture, a later kind covers an earlier one. */
enum demo_kind {
	DEMO_NOTHING,
	DEMO_SENT,
	DEMO_PARITY,
	DEMO_CAME,
	DEMO_RESENT,
	DEMO_LOST,
	DEMO_AGAIN,
	DEMO_REPAIRED,
	DEMO_KINDS
};

struct demo_chunk {
	sp_time sent, lost, came; /* the first time; SP_NEVER. lost: a packet of it */
	uint32_t packets;	  /* distinct ones that the link has not lost */
	bool again;		  /* a packet that had been lost was sent again */
	uint8_t how;		  /* enum demo_kind, once it has come: DEMO_CAME, DEMO_AGAIN or DEMO_REPAIRED */
};

/* A packet that was lost, sent again, or carries parity; and the chunk that it belongs to. */
struct demo_event {
	sp_time at;
	uint32_t chunk;
	uint8_t kind;
};

struct demo_message {
	uint64_t offset, len, chunks, first_chunk, first_packet;
};

/* One transfer. Times count from the first packet of the file. */
struct demo_lane {
	const struct demo_scheme *scheme;
	char title[24];
	struct demo_chunk *chunk;
	uint8_t *packet; /* of each: whether it was sent, lost so far */
	uint64_t *seen;	 /* bits of chunks that have come; each message begins a word */
	struct demo_event *event;
	size_t events, room;
	sp_time time;			 /* until the sender knew that all has arrived, or gave up */
	uint64_t packets, again, parity; /* packets sent: all; sent again; parity */
	uint64_t lost;			 /* packets */
	uint64_t repaired;		 /* chunks, as the NIC counts */
	uint64_t good, differing;	 /* chunks that arrived: the same as sent, or different */
	uint64_t stray;			 /* packets' places that hold what was never sent */
	uint64_t late, duplicates;	 /* packets, as the NIC counts */
	struct sp_link_counters link;	 /* the direction of the file */
};

struct demo {
	struct demo_options o;
	uint64_t size, messages, chunks, packets; /* of the file */
	uint8_t *source;
	struct demo_message *message;
	struct sp_pcap_writer *capture;
	sp_time lossless; /* of the file if nothing is lost: its packets on the wire, and a round trip */
	sp_time longest;  /* of the lanes' times */
	struct demo_lane lane[DEMO_LANES];
};

int demo_fail(const char *what, int err); /* prints a message, returns 1 */
/* Packets, chunks or messages of `unit` bytes in `bytes`: at least one. */
static inline uint64_t demo_units(uint64_t bytes, uint64_t unit)
{
	return bytes ? (bytes - 1) / unit + 1 : 1;
}

/* The s of a plural. */
static inline const char *demo_s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static inline double demo_ms(sp_time t)
{
	return (double)t / (double)SP_MS;
}

/* Time on the link of so many packets, with that payload in all; and of full packets. */
sp_time demo_payload_time(const struct demo *d, uint64_t packets, uint64_t payload);
sp_time demo_wire_time(const struct demo *d, uint64_t packets);

#endif
