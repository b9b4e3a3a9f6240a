/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts of rvma on two NICs put records to each other over a bad link, in virtual time. A record holds the
 * number and length of its put, so the buffers show which puts took effect and how often. One seed is one run. */
#ifndef TESTS_RVMA_RECORDS_H
#define TESTS_RVMA_RECORDS_H

#include "../../handlers/wire/rvma.h"
#include "sim.h"

#define REC_ENDS  24
#define REC_FLOWS 32
#define REC_PUTS  4096	     /* of a flow */
#define REC_BYTES (4u << 20) /* of an end's buffer */
#define REC_HEAD  16	     /* of a record: flow and put, length */

struct rec_end {
	bool open;
	unsigned nic;
	uint32_t qp, id, peer[REC_ENDS]; /* peer: + 1 */
	uint64_t window;
	struct sp_dev *dev;
	struct sp_mr *mr;
	uint8_t *memory;
	const uint8_t *area;
	uint32_t *number; /* of each slot, of the latest operation */
	int *busy;	  /* the put in it, or -1: none */
	struct rec_flow **of;
};

struct rec_flow {
	unsigned from, to;
	uint64_t puts, most; /* most: at once; 0: as many as operations */
	uint32_t length[2];  /* of puts, from and to */
	uint64_t mailbox;
	bool fence;
	/* what has come of it */
	uint64_t posted, ended, by[64];
	uint8_t status[REC_PUTS]; /* + 1; 0: not over */
	uint32_t bytes[REC_PUTS];
	uint8_t came[REC_PUTS];
	sp_time over; /* the latest end of a put */
};

struct rec {
	SIM_MEMBERS
	/* what a seed stands for; a rule may change it before rec_open() */
	uint16_t workers[2];
	uint32_t mtu[2], ops, window[2], peers;
	sp_time timeout;
	unsigned ends;
	bool six;
	bool (*lose)(struct rec *y, unsigned from, uint8_t opcode); /* NULL: none besides */
	bool cut[2];						    /* what this NIC sends is lost */
	uint64_t seen[256];					    /* packets on the link, by opcode */
	struct rec_end end[REC_ENDS];
	struct rec_flow flow[REC_FLOWS];
	unsigned flows;
	bool stir; /* there is something to begin */
};
#define rec_expect(y, ...) sim_expect(&(y)->sim, __VA_ARGS__)
#define rec_below(y, n)	   sim_below(&(y)->sim, n)

/* ---- contexts ---- */
int rec_call(struct rec *y, unsigned e, uint16_t op, const uint64_t arg[6], uint64_t cookie, uint16_t flags,
	     struct sp_event *result);

#define REC_ARGS(...)                                                                                                  \
	(const uint64_t[6])                                                                                            \
	{                                                                                                              \
		__VA_ARGS__                                                                                            \
	}

void rec_end_open(struct rec *y, unsigned e);
void rec_end_close(struct rec *y, unsigned e);
struct rec_flow *rec_flow(struct rec *y, unsigned from, unsigned to, uint64_t puts, uint32_t least, uint32_t most);
/* Until all puts have ended, or for so long. */
void rec_run(struct rec *y, sp_time most);
void rec_wait(struct rec *y, sp_time time);

/* ---- what came ---- */
struct sp_rvma_window_status rec_status(const struct rec *y, unsigned e);

/* Of all the records that lie in the end's buffer, each is there once, and as it was sent. */
void rec_read(struct rec *y, unsigned e);
/* The same where the sender went away: its records, all of one length, may be there in part. Those that are whole count
 * as having come. */
void rec_read_torn(struct rec *y, struct rec_flow *f);
/* Each put was delivered, and has come once. */
void rec_all_delivered(struct rec *y, const struct rec_flow *f);
uint64_t rec_counter(struct rec *y, unsigned e, const char *name);
void rec_open(struct rec *y);
/* Runs one(y) for `count` seeds. */
void rec_over_seeds(const char *rule, unsigned count, void (*one)(struct rec *y));

#endif
