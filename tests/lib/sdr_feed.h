/* SPDX-License-Identifier: BSD-3-Clause */
/* One NIC that receives SDR messages without a link and a peer. The test makes the frames, chooses their queues
 * and logs all results, so that runs with other numbers of workers can be compared. */
#ifndef TESTS_SDR_FEED_H
#define TESTS_SDR_FEED_H

#include "sdr_pair.h"

#define FEED_MESSAGES	96
#define FEED_NONCE	77u
#define FEED_PEER_NONCE 78u
#define FEED_LOG	(1u << 16)

struct feed {
	struct pair *pair; /* parameters, and where failures go */
	struct sp_random random;
	struct tap tap;
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp, *idle;
	struct sdr_qp_info info;
	struct wire_address address[2]; /* the NIC's, the peer's */
	sp_time now;
	uint8_t *memory;
	struct sp_mr *mr;
	uint64_t posted, lengths[FEED_MESSAGES], sizes[FEED_MESSAGES];
	uint32_t immediates[FEED_MESSAGES], id;
	struct sdr_recv *recv[FEED_MESSAGES];
	bool done[FEED_MESSAGES];
	uint64_t frames, *log, entries;
};

/* Runs the script of the seed; the caller frees f->log. */
void feed_run(struct feed *f, struct pair *r, uint16_t workers, uint64_t spread);

#endif
