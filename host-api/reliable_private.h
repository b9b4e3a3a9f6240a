/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the sdr_reliable_ calls: reliable.c (both directions), reliable_send.c, reliable_recv.c. */
#ifndef HOST_API_RELIABLE_PRIVATE_H
#define HOST_API_RELIABLE_PRIVATE_H

#include <errno.h>

#include "../handlers/reliability/receiver.h"
#include "../handlers/reliability/sender.h"
#include "reliable.h"

enum sdr_reliable_phase {
	SDR_OP_FREE,
	SDR_OP_WAITS,  /* send: for clear-to-send; the core does not know it yet */
	SDR_OP_OPEN,   /* send: the core has it. Receive: posted */
	SDR_OP_ENDING, /* decided; the NIC has the buffer still */
	SDR_OP_OVER,
};

/* Message k is at k % slots of its direction. */
struct sdr_reliable_op {
	struct sdr_reliable *reliable;
	enum sdr_reliable_phase phase;
	bool sends, timed, cancelled;
	bool ended; /* send: sdr_send_stream_end has been called */
	int result;
	uint64_t message, offset, length;
	uint32_t immediate, mask;
	struct sp_mr *mr;
	sp_time deadline; /* once timed */
	struct sdr_send *send;
	struct sdr_recv *recv;
};

struct sdr_reliable {
	struct sdr_qp *qp;
	uint64_t chunk_bytes;
	uint32_t slots, mtu, datagram_bytes, queue; /* queue: units with the NIC */
	uint64_t packet_bits;			    /* beyond a packet's payload */
	sp_time now, wake, heard;		    /* heard: latest word of the peer's */
	sp_time timeout, recv_timeout;
	sp_time quiet; /* to be waited for by sdr_reliable_close */
	bool lingers;
	int error;

	struct sdr_reliable_op *send;		    /* operations that are not OVER are in [send_first, send_next) */
	uint64_t send_first, send_next, send_start; /* send_start: next one for the core */
	struct sp_rel_sender sender;
	void *sender_memory;
	bool blocked; /* by the NIC, which will have room again */
	bool refusal; /* the NIC would not take something: to be looked into at once */

	struct sdr_reliable_op *recv;
	uint64_t recv_first, recv_next;
	struct sp_rel_receiver receiver;
	uint64_t base;	/* all messages below are complete, or given up by their sender */
	uint32_t *come; /* units of complete messages [base, base + slots), by k % slots; 0: not complete */
	bool tell;	/* one more is complete: */
	uint64_t news;	/* the first of those */
	bool asked;
	struct sp_rel_asked question;

	uint64_t answers, refused, sent, sent_failed, received, received_failed;
};

static inline uint32_t sdr_reliable_units(const struct sdr_reliable *r, uint64_t length)
{
	return length ? (uint32_t)((length - 1) / r->chunk_bytes + 1) : 1;
}

#pragma GCC visibility push(hidden)
int sdr_reliable_fail(struct sdr_reliable *r, int error); /* ends all operations; returns error */
/* Message k has been over, its operation freed, or taken by a later one. */
static inline bool sdr_reliable_past(const struct sdr_reliable_op *op, uint64_t k)
{
	return op->message != k || op->phase == SDR_OP_FREE || op->phase == SDR_OP_OVER;
}
/* For all operations: starts its clock; is its time over, or has it been cancelled? Then with what result. */
int sdr_reliable_expired(struct sdr_reliable_op *op, sp_time timeout);

void sdr_reliable_send_progress(struct sdr_reliable *r, const struct sdr_qp_status *status);
sp_time sdr_reliable_send_deadline(const struct sdr_reliable *r);
uint32_t sdr_reliable_send_done(const struct sdr_reliable_op *op); /* units */

void sdr_reliable_recv_progress(struct sdr_reliable *r);
sp_time sdr_reliable_recv_deadline(const struct sdr_reliable *r);
uint32_t sdr_reliable_recv_done(const struct sdr_reliable_op *op); /* units */
#pragma GCC visibility pop

#endif
