/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two programs, one of which sends the other a message, again and again: by an RVMA put, or as with RDMA, by a write to
 * registered memory and a signal. On the same NICs, over the same packets, with the same public calls.
 *
 * A message begins when it is posted and ends when the receiving program knows that it has arrived. The next one begins
 * when all operations of the one before have ended (acknowledged, buffer posted again); that time is not measured.
 *
 * Threads: one, which also polls the NICs and gives the time. Calls do not wait.
 */
#ifndef TESTBED_BATCH_H
#define TESTBED_BATCH_H

#include "../host-api/spindle.h"
#include "impairment.h"

enum sp_batch_way {
	SP_BATCH_PUT,	    /* RVMA: a put to a mailbox; its buffer is complete after the message's bytes */
	SP_BATCH_LAST_BYTE, /* RDMA: a write; the receiver polls the last byte. Correct only where bytes arrive in order
			     */
	SP_BATCH_BEHIND,    /* RDMA: a write, then at once a send of 1 byte with a receive posted for it. Correct where
			       packets arrive in order; otherwise the receiver has to hold the send back */
	SP_BATCH_AFTERWARDS, /* RDMA: a write, and once it is acknowledged a send of 1 byte. Correct on any network */
	SP_BATCH_EXCHANGE,   /* what RDMA does before its first write: the sender requests, the receiver allocates and
				registers memory and answers with its address. Ends when the sender has the answer */
	SP_BATCH_WAYS,
};

struct sp_batch_config {
	enum sp_batch_way way;
	uint32_t size, mtu; /* size: bytes of the message, 8 to 2^24; mtu: payload bytes of a packet, 0: 4096 */
	uint64_t messages;  /* number of messages; two more before them are not measured */
	/* Called with the time of each message, ps. May be NULL. */
	void (*ended)(void *arg, sp_time time);
	void *ended_arg;
};

struct sp_batch;

/* dev[0] sends, dev[1] receives: embedded NICs with a route to each other. -ENOMEM, -EINVAL, and what the calls of
 * host-api/rvma.h return. */
int sp_batch_create(struct sp_dev *const dev[2], const struct sp_batch_config *config, struct sp_batch **batch);
void sp_batch_destroy(struct sp_batch *batch); /* to be called before the devices are closed; NULL is fine */
/* Does what both programs can do at `now`. 1: all messages have ended. 0: not yet. -errno: failed. */
int sp_batch_step(struct sp_batch *batch, sp_time now);
/* Messages of which bytes were missing when the receiver was told that the message had arrived. */
uint64_t sp_batch_torn(const struct sp_batch *batch);

/* The same in virtual time: two NICs and a link with equal directions. The same seed gives the same times. torn may be
 * NULL. */
int sp_batch_simulate(const struct sp_batch_config *config, const struct sp_link_direction *link, uint64_t seed,
		      uint64_t *torn);

/* Configuration of one of two NICs that know each other: 10.0.0.1 (which = 0) or 10.0.0.2. */
struct sp_nic_config;
void sp_batch_nic(struct sp_nic_config *config, unsigned which);

#endif
