/* SPDX-License-Identifier: BSD-3-Clause */
/* What transfer.c and allreduce.c share: making a connection over a path, and its counters. */
#ifndef TESTBED_TRANSFER_PRIVATE_H
#define TESTBED_TRANSFER_PRIVATE_H

#include "../handlers/wire/sdr.h"
#include "transfer.h"
#include "world.h"

#define SP_TRANSFER_LAYER3   4200u /* layer-3 MTU, bytes: packets of the largest payload fit */
#define SP_TRANSFER_MESSAGES 4u	   /* max_messages of the QP; with erasure coding two pairs */

/* Loses whole chunks: the fate of a transmission of a chunk is drawn with its first packet. */
struct sp_chunk_loss {
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

int sp_transfer_failed(struct sp_error *error, int rc, const char *what); /* returns rc */
/* -EINVAL: not a valid message. */
int sp_transfer_check(const struct sp_transfer_config *config, struct sp_error *error);
/* A link. The losses of its two ends are drawn from the streams `stream` and `stream` + 1 of the seed. chunk_loss:
 * state of both, which must stay valid. */
int sp_transfer_link(const struct sp_transfer_config *config, uint64_t seed, unsigned stream,
		     struct sp_chunk_loss chunk_loss[2], struct sp_link **link);
/* Time of a slice of a repair, which reads a fixed number of bytes of chunks. */
sp_time sp_transfer_slice(const struct sp_transfer_config *config);
struct sdr_context_attr sp_transfer_channels(const struct sp_transfer_config *config);
struct sdr_qp_attr sp_transfer_qp(const struct sp_transfer_config *config, uint64_t nonce);
/* Memory that is allocated when touched: payload-less runs touch none. 0 or -errno. */
int sp_transfer_memory(uint64_t room, uint8_t **bytes);
/* Runs until `done` returns true. *error: set by the host programs to end the run. -ELOOP: time stands still, or
 * nothing is left to do. */
int sp_transfer_run(struct sp_world *world, const int *error, bool (*done)(void *arg), void *arg);
/* Adds the counters of `messages` from one end to the other to n. */
void sp_transfer_tally(const struct sp_transfer_config *config, const struct sp_transfer_end *from,
		       const struct sp_transfer_end *to, const struct sp_link *link, uint64_t messages,
		       struct sp_transfer_counters *n);

#endif
