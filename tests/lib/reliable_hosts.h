/* SPDX-License-Identifier: BSD-3-Clause */
/* The host programs of planet.h: they send and receive reliably, and compare every byte. */
#ifndef TESTS_RELIABLE_HOSTS_H
#define TESTS_RELIABLE_HOSTS_H

#include "../../host-api/reliable.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "suite.h"

#define REL_SOURCE   (1u << 20)
#define REL_CONNS    3
#define REL_MESSAGES 320 /* of a flow */
#define REL_GUARD    64
#define REL_SLACK    (20 * SP_MS) /* until the NIC has sent what waits for the wire, and the buffer is free */
#define U(n)	     ((unsigned long long)(n))

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
	uint64_t seed;
	struct sp_random random;
	char text[200]; /* what failed first */

	/* what a seed stands for; a rule may change it before planet_open */
	struct sp_link_direction link[2];
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
	struct sp_world *world;
	struct sp_link *under;
	struct sp_nic *nic[2];
	struct sp_dev *dev[2];
	struct sdr_context *context[2];
	struct sp_mr *source[2];
	struct conn conn[REL_CONNS];
	uint64_t steps;
};
void __attribute__((format(printf, 3, 4))) rel_expect(struct rel *p, bool right, const char *format, ...);
uint64_t rel_below(struct rel *p, uint64_t bound);
bool rel_end_over(const struct rel *p, const struct conn *c, unsigned e);
void rel_step(void *arg, sp_time now);
sp_time rel_next(void *arg);
bool rel_done(void *arg);

#endif
