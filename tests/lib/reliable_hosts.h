/* SPDX-License-Identifier: BSD-3-Clause */
/* The host programs of reliable_pair.h. They send and receive reliable messages and compare every byte. */
#ifndef TESTS_RELIABLE_HOSTS_H
#define TESTS_RELIABLE_HOSTS_H

#include "../../host-api/reliable.h"
#include "sim.h"

#define REL_SOURCE   (1u << 20)
#define REL_CONNS    3
#define REL_MESSAGES 320 /* of a flow */
#define REL_GUARD    64
#define REL_SLACK    (20 * SP_MS) /* until the NIC has sent what waits for the wire, and the buffer is free */

extern uint8_t rel_source[REL_SOURCE];

struct message {
	uint64_t length, posted, source;
	uint32_t immediate;
	struct sdr_reliable_op *send, *recv;
	int sent, received; /* -EAGAIN: not over */
	sp_time began[2];   /* sending, receiving */
};

struct flow { /* from one end to the other */
	uint64_t messages, next_send, next_recv, over_send, over_recv;
	struct message message[REL_MESSAGES];
	uint8_t *arena; /* a buffer per slot, with guards */
	struct sp_mr *arena_mr;
};

struct conn {
	struct sdr_qp *qp[2];
	struct sdr_qp_info info[2];
	struct sdr_reliable *reliable[2];
	struct flow flow[2];
};

struct rel {
	SIM_MEMBERS
	/* what a seed stands for; a rule may change it before rel_open() */
	uint16_t workers;
	unsigned conns;
	struct sdr_context_attr context_attr;
	struct sdr_qp_attr qp;
	struct sdr_reliable_attr attr;
	bool dead[2];  /* that host program has stopped */
	bool alone[2]; /* that end does not connect */
	bool quiet;    /* no more operations are begun */
	bool fails;    /* messages may fail */
	bool liar;     /* end 1 of the first connection: what it says has come may not have */
	bool (*lose)(void *arg, const uint8_t *frame, uint32_t len); /* not NULL: besides; arg: this */
	unsigned cancel; /* not 0: in one step of so many an operation is cancelled */
	sp_time linger;	 /* not 0: an end whose messages are over closes with that */
	struct sp_dev *dev[2];
	struct sdr_context *context[2];
	struct sp_mr *source[2];
	struct conn conn[REL_CONNS];
};
#define rel_expect(p, ...) sim_expect(&(p)->sim, __VA_ARGS__)
#define rel_below(p, n)	   sim_below(&(p)->sim, n)
bool rel_end_over(const struct rel *p, const struct conn *c, unsigned e);
void rel_step(void *arg, sp_time now);
sp_time rel_next(void *arg);
bool rel_done(void *arg);

#endif
