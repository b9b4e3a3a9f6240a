/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle demo: demo.c (what is asked for, what it comes to), demo_lane.c (two machines, a link, and the programs on
 * them: one transfer, recorded), demo_watch.c (what the link takes and loses), demo_film.c (the record as it went, on
 * the terminal), demo_picture.c (the record as a picture), demo_show.c (the outcome). */
#ifndef COMMAND_DEMO_H
#define COMMAND_DEMO_H

#include <stdio.h>

#include "../../host-api/reliable.h"
#include "../../testbed/link.h"
#include "../../testbed/tap.h"
#include "../../testbed/world.h"

#define DEMO_LANES	4
#define DEMO_MESSAGES	256
#define DEMO_LINK_QUEUE 16 /* packets */

struct demo_scheme {
	const char *name;
	int scheme; /* enum sdr_reliable_scheme; -1: nothing is sent again */
	enum sdr_code code;
};

struct demo_options {
	const char *file, *capture, *picture; /* the latter: NULL, or where to write them */
	struct demo_scheme scheme[DEMO_LANES];
	unsigned lanes;
	struct sp_link_config link;
	uint64_t mtu, chunk, message;
	uint32_t k, m;
	bool json, fast, ipv6;
};

/* What becomes of a chunk, or of a packet. In the order of what covers what in a picture. */
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

/* A packet that was lost, sent once more, or is of parity; beside the chunk that it belongs to. */
struct demo_event {
	sp_time at;
	uint32_t chunk;
	uint8_t kind;
};

/* One message, as the two host programs know it. */
struct demo_message {
	uint64_t offset, len, chunks, first_chunk, first_packet;
};

/* A transfer: while it runs and afterwards. Times count from the first packet of the file. */
struct demo_lane {
	const struct demo_scheme *scheme;
	char title[24];
	struct demo_chunk *chunk;
	uint8_t *packet; /* of each: whether it was sent, lost so far */
	uint64_t *seen;	 /* bits of chunks that have come; each message begins a word */
	struct demo_event *event;
	size_t events, room;
	sp_time time;			 /* until the sender knew that all of it is there; or it was given up */
	uint64_t packets, again, parity; /* sent: all of the file's and of parity; of these sent again; of parity */
	uint64_t lost;			 /* of packets */
	uint64_t repaired;		 /* chunks, as the NIC counts */
	uint64_t good, differing, stray; /* chunks that came, as they were sent or not; packets' places with others */
	uint64_t late, duplicates;	 /* packets, as the NIC counts */
	struct sp_link_counters link;	 /* file's way */
};

struct demo {
	struct demo_options o;
	uint64_t size, messages, chunks, packets; /* of the file */
	uint8_t *source;
	struct demo_message *message;
	struct sp_capture_writer *capture;
	sp_time lossless; /* what the file takes if nothing is lost: its packets on the wire, and a round trip */
	sp_time longest;  /* of the lanes' */
	struct demo_lane lane[DEMO_LANES];
};

int demo_fail(const char *what, int err); /* says it, returns 1 */
/* Packets, chunks or messages of `unit` bytes that `bytes` take: at least one. */
static inline uint64_t demo_units(uint64_t bytes, uint64_t unit)
{
	return bytes ? (bytes - 1) / unit + 1 : 1;
}

/* The plural's. */
static inline const char *demo_s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static inline double demo_ms(sp_time t)
{
	return (double)t / (double)SP_MS;
}

sp_time demo_wire_time(const struct demo *d, uint64_t packets); /* of full packets */

/* Sends all of the file by the lane's scheme, in virtual time of its own, and compares it. Says what goes wrong. 0 or
 * 1. */
int demo_lane_run(const struct demo *d, struct demo_lane *l);
void demo_lane_free(struct demo_lane *l);

/* ---- between the sender's NIC and the link ---- */
struct demo_watch {
	const struct demo *d;
	struct demo_lane *l;
	const struct sp_port_ops *ops; /* the port behind */
	void *port;
	const struct sp_link *link;
	sp_time begin;
	bool failed; /* no memory for events */
};
extern const struct sp_port_ops demo_watch_ops; /* ops_arg: struct demo_watch * */
/* The receiver has message m's chunks by this bitmap; NULL: all of them. */
void demo_watch_chunks(struct demo_watch *w, const struct demo_message *m, const uint64_t *bitmap, sp_time now);

/* ---- what is shown ---- */
void demo_film(const struct demo *d);
void demo_timeline(const struct demo *d);     /* on standard output */
int demo_picture_write(const struct demo *d); /* to o.picture; 0 or 1 */
int demo_outcome(const struct demo *d);	      /* prints; the exit status */

#endif
