/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two programs, one of which hands the other a message, again and again: by an RVMA put, or as RDMA does, by a write to
 * registered memory and something that tells of it. On the same NICs, over the same packets, by the same public calls.
 *
 * A message begins when it is posted and ends when the receiving program knows that it is there. The next one begins
 * when all that the one before has caused is over (acknowledged, buffer posted anew), which is not counted.
 *
 * Threads: one, which also polls the NICs: time is whatever it says. Nothing here waits.
 */
#ifndef TESTBED_BATCH_H
#define TESTBED_BATCH_H

#include "../host-api/spindle.h"
#include "impairment.h"

enum sp_batch_way {
	SP_BATCH_PUT,	    /* RVMA: a put to a mailbox, whose buffer is complete after the message's bytes */
	SP_BATCH_LAST_BYTE, /* RDMA: a write, and the receiver polls the last byte: right only where bytes come in
			     * order */
	SP_BATCH_BEHIND,    /* RDMA: a write, and right behind it a send of 1 byte, for which a receive is posted: right
			     * where packets come in order, otherwise the receiver has to wait with it */
	SP_BATCH_AFTERWARDS, /* RDMA: a write, and once it is acknowledged a send of 1 byte: right on any network */
	SP_BATCH_EXCHANGE,   /* what RDMA does before its first write: a request, the receiver allocates and registers
			      * memory, an answer says where; ends when the sender has it */
	SP_BATCH_WAYS,
};

struct sp_batch_config {
	enum sp_batch_way way;
	uint32_t size, mtu; /* bytes: of the message, 8 to 2^24; of a packet's payload, 0: 4096 */
	uint64_t messages;  /* after which it ends; two before them do not count */
	/* Of each message, ps. NULL: none. */
	void (*ended)(void *arg, sp_time time);
	void *ended_arg;
};

struct sp_batch;

/* dev[0] sends, dev[1] receives: embedded NICs that know the way to each other. -ENOMEM, -EINVAL, and what the calls of
 * host-api/rvma.h say. */
int sp_batch_create(struct sp_dev *const dev[2], const struct sp_batch_config *config, struct sp_batch **batch);
void sp_batch_destroy(struct sp_batch *batch); /* before the devices go; NULL is fine */
/* What both programs can do at `now`. 1: all messages have been passed. 0: not yet. -errno: it failed. */
int sp_batch_step(struct sp_batch *batch, sp_time now);
/* Messages of which not all bytes were there when the receiver was told that they were. */
uint64_t sp_batch_torn(const struct sp_batch *batch);

/* All of it in virtual time: two NICs and a link, whose directions are alike. The same seed gives the same times. torn
 * may be NULL. */
int sp_batch_simulate(const struct sp_batch_config *config, const struct sp_link_direction *link, uint64_t seed,
		      uint64_t *torn);

/* One of the NICs: 10.0.0.1 (which = 0) or 10.0.0.2, which know each other, with packets large enough. */
struct sp_nic_config;
void sp_batch_nic(struct sp_nic_config *config, unsigned which);

#endif
