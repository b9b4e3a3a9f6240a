/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the sdr_reliable_ calls: reliable.c (both directions), reliable_send.c, reliable_recv.c. */
#ifndef HOST_API_RELIABLE_PRIVATE_H
#define HOST_API_RELIABLE_PRIVATE_H

#include <errno.h>

#include "../handlers/reliability/choice.h"
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
	/* with erasure coding */
	struct sdr_send *parity_send;
	struct sdr_recv *parity_recv;
	bool skipped;	      /* send: over before its turn came, for which it is kept */
	bool judged, plain;   /* send: it is decided that it goes with parity, or without */
	unsigned code;	      /* ... of this one of the QP's */
	bool coded;	      /* it has gone with it */
	uint32_t again, runs; /* units that went again, and in how many runs of neighbours */
	uint32_t latest;      /* of these */
	bool waits;	      /* receive: for repairs, of which there were `come` units at `since` */
	uint64_t come;
	sp_time since;
	struct sdr_reliable_op *before, *after; /* in its list */
};

struct sdr_reliable_list {
	struct sdr_reliable_op *first, *last;
	uint32_t count;
};

/* What is sent, or what is received. Nothing here is looked at without a reason: with a thousand messages in flight a
 * call costs as much as with one. */
struct sdr_reliable_side {
	struct sdr_reliable_op *op;	       /* message k at k % slots */
	uint64_t next;			       /* message */
	struct sdr_reliable_list live, ending; /* live: WAITS or OPEN, in ascending order, which is that of deadlines */
	sp_time timeout;
	bool untimed;	    /* the last of the live ones have no deadline yet */
	bool cancelled;	    /* some are */
	uint64_t seen;	    /* of what the core (send) or the NIC (receive) counts as over: looked for */
	uint64_t good, bad; /* messages over */
};

/* How `auto` chooses. */
struct sdr_auto {
	struct sp_chooser chooser;
	struct sp_loss loss;
	double fixed, measured; /* bandwidth, bit/s; 0: not known */
	double coding;
	sp_time since;			    /* units have been with the NIC, */
	uint64_t bytes;			    /* ... of so many bytes in all; 0: there are none */
	uint32_t repaired, repaired_runs;   /* of the peer's, what has been counted already */
	uint8_t code[SP_CHOICE_CANDIDATES]; /* of the QP's, that each of the chooser's candidates is */
};

/* Erasure coding; all zeros without. */
struct sdr_reliable_ec {
	bool pairs;			  /* messages are two of SDR's, for the QP has erasure coding */
	bool codes;			  /* the scheme sends parity, of some messages at least */
	bool chooses;			  /* ... of which, it finds out: `auto` */
	bool broken;			  /* somebody else has sent on the QP */
	uint64_t stride;		  /* bytes of scratch for one message, and of parity at most */
	uint64_t may_send;		  /* of SDR's messages */
	uint64_t begun;			  /* parity of all messages below is with the NIC, if they have any */
	uint64_t left;			  /* parity of all messages below has left */
	uint32_t under_way;		  /* parity messages with the NIC */
	uint64_t posted;		  /* receives for parity */
	uint64_t repaired, repaired_runs; /* units received, in so many runs of neighbours */
	uint64_t units, coded, fallbacks;
	uint64_t coded_of[SDR_EC_CODES]; /* of `coded`, by code */
};

struct sdr_reliable {
	struct sdr_qp *qp;
	uint64_t chunk_bytes;
	uint32_t slots, mtu, datagram_bytes, queue; /* queue: units with the NIC */
	uint64_t packet_bits;			    /* beyond a packet's payload */
	sp_time now, wake, heard;		    /* heard: latest word of the peer's */
	sp_time quiet;				    /* to be waited for by sdr_reliable_close */
	bool lingers;
	bool abandoned; /* the peer has started anew: everything ends */
	int error;

	struct sdr_reliable_side send, recv;
	uint64_t send_start; /* next one for the core */
	struct sp_rel_sender sender;
	void *sender_memory;
	bool blocked; /* by the NIC, which will have room again; abandoned: for ever */
	bool refusal; /* the NIC would not take something: to be looked into at once */

	struct sp_rel_receiver receiver;
	uint64_t base;		 /* all messages below are complete, or given up by their sender */
	uint32_t *come;		 /* units of complete messages [base, base + slots), by k % slots; 0: not complete */
	bool tell;		 /* some more are complete or refused: */
	uint64_t news, news_end; /* ... within these */
	bool asked;
	struct sp_rel_asked question;

	struct sdr_reliable_ec ec;
	struct sdr_auto choice;

	uint64_t answers, refused;
};

static inline uint32_t sdr_reliable_units(const struct sdr_reliable *r, uint64_t length)
{
	return length ? (uint32_t)((length - 1) / r->chunk_bytes + 1) : 1;
}

#pragma GCC visibility push(hidden)
int sdr_reliable_fail(struct sdr_reliable *r, int error); /* ends all operations; returns error */
static inline struct sdr_reliable_op *sdr_reliable_op_of(const struct sdr_reliable *r,
							 const struct sdr_reliable_side *side, uint64_t k)
{
	return &side->op[k % r->slots];
}
/* 0: another operation may begin. */
int sdr_reliable_ready(const struct sdr_reliable *r, const struct sdr_reliable_side *side);
struct sdr_reliable_op *sdr_reliable_begin(struct sdr_reliable *r, struct sdr_reliable_side *side,
					   const struct sdr_reliable_op *op);
void sdr_reliable_decide(struct sdr_reliable_side *side, struct sdr_reliable_op *op, int result); /* live: ending */
void sdr_reliable_over(struct sdr_reliable_side *side, struct sdr_reliable_op *op);		  /* ending: over */
/* Starts the clocks of new operations, gives up those whose time is over or that were cancelled. */
void sdr_reliable_expire(struct sdr_reliable *r, struct sdr_reliable_side *side,
			 void (*give_up)(struct sdr_reliable *r, struct sdr_reliable_op *op, int error));
static inline sp_time sdr_reliable_side_deadline(const struct sdr_reliable_side *side)
{
	return side->live.first ? side->live.first->deadline : SP_NEVER;
}

void sdr_reliable_send_progress(struct sdr_reliable *r, const struct sdr_qp_status *status);
sp_time sdr_reliable_send_deadline(const struct sdr_reliable *r);
uint32_t sdr_reliable_send_done(const struct sdr_reliable_op *op); /* units */

void sdr_reliable_recv_progress(struct sdr_reliable *r, const struct sdr_qp_status *status);
/* Units. bitmap: where it is, of a receive that is open. */
uint32_t sdr_reliable_recv_done(const struct sdr_reliable_op *op, const uint64_t **bitmap);

/* ---- erasure coding: reliable_ec.c; all but the first only with pairs ---- */
int sdr_ec_open(struct sdr_reliable *r, enum sdr_reliable_scheme scheme); /* sets slots, too */
int sdr_ec_may_send(const struct sdr_reliable *r, uint64_t len);
/* SDR's message for the core's next one's data. False: not now. */
bool sdr_ec_start(struct sdr_reliable *r, struct sdr_reliable_op *op);
/* Hands over parity, but none that is not cleared to be sent: the NIC would not let go of it. True: of all messages. */
bool sdr_ec_begun(struct sdr_reliable *r);
/* Looks which parity has left. False: none since the last call. */
bool sdr_ec_left(struct sdr_reliable *r);
void sdr_ec_sent_again(struct sdr_reliable *r, struct sdr_reliable_op *op, uint32_t unit);
int sdr_ec_post(struct sdr_reliable *r); /* parity's receives; 0: for all */
/* Takes both buffers back. False: not yet. */
bool sdr_ec_recv_over(struct sdr_reliable *r, struct sdr_reliable_op *op);
/* The first unit from `from` on that is missing in the open receive and is about to be repaired; UINT32_MAX: none. */
uint32_t sdr_ec_mending(struct sdr_reliable *r, struct sdr_reliable_op *op, const uint64_t *data, uint64_t chunks,
			uint64_t from);

/* ---- `auto`: reliable_auto.c ---- */
void sdr_auto_open(struct sdr_reliable *r, const struct sdr_reliable_attr *attr);
/* Shall the next message have parity? Then of *code of the QP's. */
bool sdr_auto_wants_parity(struct sdr_reliable *r, uint64_t length, unsigned *code);
void sdr_auto_arrived(struct sdr_reliable *r, const struct sdr_reliable_op *op);
void sdr_auto_sending(struct sdr_reliable *r, uint64_t queued); /* units, before more are handed over */
void sdr_auto_sent(struct sdr_reliable *r, uint64_t bytes);	/* handed over */
#pragma GCC visibility pop

#endif
