/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle demo, in three: demo.c (what is asked for, what it comes to), demo_transfer.c (two machines and the programs
 * on them), demo_show.c (the picture while it runs, the outcome). */
#ifndef COMMAND_DEMO_H
#define COMMAND_DEMO_H

#include "../host-api/sdr.h"
#include "../testbed/link.h"
#include "../testbed/tap.h"
#include "../testbed/world.h"

#define DEMO_LINK_QUEUE 64 /* packets */

struct demo_options {
	const char *file, *capture; /* capture: NULL, or where to write what both sides send */
	double loss, duplicate, reorder;
	uint64_t seed, bandwidth, mtu, chunk, message;
	sp_time delay;
	bool json, fast, ipv6;
};

enum demo_message_state { WAITING, POSTED, ENDING, ENDED };

/* One message, as the two host programs know it. */
struct demo_message {
	struct sdr_send *send;
	struct sdr_recv *recv;
	uint64_t offset, len, chunks, first_chunk;
	enum demo_message_state state;
	bool sent; /* the sender has its buffer back */
	sp_time sent_at;
	uint64_t packets; /* that had come when the receiver last looked */
	sp_time progress_at;
	bool complete;
};

/* One machine: a NIC and the program on it. */
struct demo_side {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr;
	uint32_t id; /* of the NIC's execution context */
};

struct demo {
	struct demo_options o;
	struct demo_side side[2]; /* sender, receiver */
	struct sp_link *link;
	struct sp_capture_writer *capture;
	struct sp_tap tap[2]; /* between link and NICs, for the capture */
	struct sp_world *world;
	uint64_t size, messages, chunks, window;
	struct demo_message *message;
	uint8_t *arrived; /* per chunk: 1 */
	uint64_t next_send, next_post, first_open, ended;
	sp_time patience; /* a message of which nothing has come for so long has ended ... */
	sp_time drain;	  /* ... counted from when the last packet can have left the sender's queues */
	sp_time reorder_delay;
	sp_time expected; /* about how long all of it takes */
	int failure;	  /* what a call in the middle of it all has said */
	const char *failed;
	/* the outcome */
	uint64_t good, differing, stray;
	sp_time ended_at;
};

struct demo_view {
	bool live;
	unsigned width, height; /* of the terminal when last drawn */
	unsigned columns, rows; /* for the bitmap */
	unsigned drawn;		/* lines on the screen */
	uint64_t lines;		/* plain: progress lines printed */
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

/* Link, world, NICs, QPs; says what goes wrong. 0 or 1. Close in any case. */
int demo_open(struct demo *d);
void demo_close(struct demo *d);
void demo_step(void *arg, sp_time now); /* of both host programs; arg: struct demo * */
bool demo_finished(void *arg);

void demo_view_init(struct demo_view *v, bool live);
void demo_show(struct demo *d, struct demo_view *v, bool last);
int demo_outcome(struct demo *d); /* compares, prints; the exit status */

#endif
