/* SPDX-License-Identifier: BSD-3-Clause */
/* What transfer.c and allreduce.c share: how a connection across a way is made, and what is counted of it. */
#ifndef TESTBED_TRANSFER_PRIVATE_H
#define TESTBED_TRANSFER_PRIVATE_H

#include "../handlers/wire/sdr.h"
#include "transfer.h"
#include "world.h"

#define SP_TRANSFER_LAYER3   4200u /* bytes: packets of the largest payload fit */
#define SP_TRANSFER_MESSAGES 4u	   /* at once, of the QP; with erasure coding two pairs */

/* Whole chunks are lost: the fate of the sending of one is drawn with its first packet. */
struct sp_loser {
	struct sp_random random;
	double chunk, packet; /* probabilities */
	struct sp_sdr_split split;
	uint32_t per_chunk; /* packets */
	uint32_t id, index; /* of the last packet of data */
	bool begun, lost;
};

/* One end of a connection. */
struct sp_transfer_end {
	struct sp_nic *nic;
	struct sdr_qp *qp;
	struct sdr_reliable *reliable;
};

int sp_transfer_failed(struct sp_error *error, int rc, const char *what); /* rc */
/* -EINVAL: there is no such message. */
int sp_transfer_check(const struct sp_transfer_config *config, struct sp_error *error);
/* A link; what each of its ends loses is drawn from a stream of the seed, `stream` and the one behind. loser: of both,
 * where they stay. */
int sp_transfer_link(const struct sp_transfer_config *config, uint64_t seed, unsigned stream, struct sp_loser loser[2],
		     struct sp_link **link);
/* Of repair: a slice reads so much of chunks. */
sp_time sp_transfer_slice(const struct sp_transfer_config *config);
struct sdr_context_attr sp_transfer_channels(const struct sp_transfer_config *config);
struct sdr_qp_attr sp_transfer_qp(const struct sp_transfer_config *config, uint64_t nonce);
/* Pages that nobody touches take no memory: payload-less, none is. 0, or -errno. */
int sp_transfer_memory(uint64_t room, uint8_t **bytes);
/* 0: `done` holds; error: of the host programs, which they leave there. -ELOOP: time stands still, or has nothing to
 * do. */
int sp_transfer_run(struct sp_world *world, const int *error, bool (*done)(void *arg), void *arg);
/* What was counted of `messages` from one end to the other, added to n. */
void sp_transfer_tally(const struct sp_transfer_config *config, const struct sp_transfer_end *from,
		       const struct sp_transfer_end *to, const struct sp_link *link, uint64_t messages,
		       struct sp_transfer_counters *n);

#endif
