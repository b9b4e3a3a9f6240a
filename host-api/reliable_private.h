/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of the sdr_reliable_ calls. A file uses only those above it in this list:
 *   reliable.c           operations and their lists
 *   reliable_auto.c      the scheme `auto`
 *   reliable_ec.c        erasure coding
 *   reliable_recv.c, reliable_send.c
 *   reliable_endpoint.c  opening, closing, progress
 */
#ifndef HOST_API_RELIABLE_PRIVATE_H
#define HOST_API_RELIABLE_PRIVATE_H

#include <errno.h>

#include "../handlers/reliability/choice.h"
#include "../handlers/reliability/receiver.h"
#include "../handlers/reliability/sender.h"
#include "reliable.h"

enum sdr_reliable_phase {
	SDR_OP_FREE,
	SDR_OP_WAITS,  /* send: for clear-to-send; the core (handlers/reliability/) does not know it yet */
	SDR_OP_OPEN,   /* send: the core has it. Receive: posted */
	SDR_OP_ENDING, /* the result is known; the NIC still has the buffer */
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
	sp_time deadline; /* valid once timed */
	struct sdr_send *send;
	struct sdr_recv *recv;
	/* with erasure coding */
	struct sdr_send *parity_send;
	struct sdr_recv *parity_recv;
	bool skipped;	      /* send: ended before its turn; its place in the order is kept */
	bool judged, plain;   /* send: whether it gets parity is decided; plain: without */
	unsigned code;	      /* index of the QP's code */
	bool coded;	      /* it was sent with parity */
	uint32_t again, runs; /* units retransmitted, and in how many runs of neighbours */
	uint32_t latest;      /* the last one retransmitted */
	bool waits;	      /* receive: waits for repairs; at `since` there were `come` units */
	uint64_t come;
	sp_time since;
	struct sdr_reliable_op *before, *after; /* in its list */
};

struct sdr_reliable_list {
	struct sdr_reliable_op *first, *last;
	uint32_t count;
};

/* One direction. No call walks all operations: with a thousand messages in flight it costs as much as with one. */
struct sdr_reliable_side {
	struct sdr_reliable_op *op;	       /* message k at k % slots */
	uint64_t next;			       /* number of the next message */
	struct sdr_reliable_list live, ending; /* live: WAITS or OPEN, by number and so by deadline */
	sp_time timeout;
	bool untimed;	    /* the last live operations have no deadline yet */
	bool cancelled;	    /* some operations are cancelled */
	uint64_t seen;	    /* how many the core (send) or the NIC (receive) has ended, as last looked up */
	uint64_t good, bad; /* messages over */
};

/* State of `auto`. */
struct sdr_auto {
	struct sp_chooser chooser;
	struct sp_loss loss;
	double fixed, measured; /* bandwidth, bit/s; 0: not known */
	double coding;
	sp_time since;			    /* since when units have been with the NIC without a pause */
	uint64_t bytes;			    /* bytes of these; 0: no units are with the NIC */
	uint32_t repaired, repaired_runs;   /* of the peer, as counted last */
	uint8_t code[SP_CHOICE_CANDIDATES]; /* the QP's code of each candidate of the chooser */
};

/* Erasure coding; all zero without. */
struct sdr_reliable_ec {
	bool pairs;			  /* each message is two SDR messages, because the QP has erasure coding */
	bool codes;			  /* the scheme sends parity for some messages at least */
	bool chooses;			  /* `auto` decides for which */
	bool broken;			  /* another caller has sent on the QP */
	uint64_t stride;		  /* bytes of scratch memory per message, the most that its parity takes */
	uint64_t may_send;		  /* SDR messages cleared for sending */
	uint64_t begun;			  /* the NIC has the parity, if any, of all messages below */
	uint64_t left;			  /* the parity of all messages below has left */
	uint32_t under_way;		  /* parity messages with the NIC */
	uint64_t posted;		  /* receives for parity */
	uint64_t repaired, repaired_runs; /* units received from repairs, and in how many runs of neighbours */
	uint64_t units, coded, fallbacks;
	uint64_t coded_of[SDR_EC_CODES]; /* of `coded`, by code */
};

struct sdr_reliable {
	struct sdr_qp *qp;
	uint64_t chunk_bytes;
	uint32_t slots, mtu, datagram_bytes, queue; /* queue: units that may be with the NIC */
	uint64_t packet_bits;			    /* of a packet beyond its payload */
	sp_time now, wake, heard;		    /* heard: when the peer last requested an acknowledgement */
	sp_time quiet;				    /* how long sdr_reliable_close waits for silence */
	bool lingers;
	bool abandoned; /* the peer has restarted: everything ends */
	int error;

	struct sdr_reliable_side send, recv;
	uint64_t send_start; /* the message that the core gets next */
	struct sp_rel_sender sender;
	void *sender_memory;
	bool blocked; /* by the NIC until it has room again; for ever if abandoned */
	bool refusal; /* the NIC has refused a unit: check its status at once */

	struct sp_rel_receiver receiver;
	uint64_t base;		 /* all messages below are complete, or abandoned by their sender */
	uint32_t *come;		 /* units of complete messages [base, base + slots), by k % slots; 0: not complete */
	bool tell;		 /* the peer must hear of messages that are complete or refused */
	uint64_t news, news_end; /* their numbers are within [news, news_end) */
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
int sdr_reliable_fail(struct sdr_reliable *r, int error); /* Ends all operations; returns error. */
static inline struct sdr_reliable_op *sdr_reliable_op_of(const struct sdr_reliable *r,
							 const struct sdr_reliable_side *side, uint64_t k)
{
	return &side->op[k % r->slots];
}
/* 0: another operation may begin. */
int sdr_reliable_ready(const struct sdr_reliable *r, const struct sdr_reliable_side *side);
struct sdr_reliable_op *sdr_reliable_begin(struct sdr_reliable *r, struct sdr_reliable_side *side,
					   const struct sdr_reliable_op *op);
void sdr_reliable_decide(struct sdr_reliable_side *side, struct sdr_reliable_op *op,
			 int result);						    /* moves it from live to ending */
void sdr_reliable_over(struct sdr_reliable_side *side, struct sdr_reliable_op *op); /* from ending to over */
/* Sets the deadlines of new operations. Ends those that are past theirs or cancelled. */
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
/* Units. *bitmap: of an open receive, its bitmap. */
uint32_t sdr_reliable_recv_done(const struct sdr_reliable_op *op, const uint64_t **bitmap);

/* ---- erasure coding: reliable_ec.c; all but the first only with pairs ---- */
int sdr_ec_open(struct sdr_reliable *r, enum sdr_reliable_scheme scheme); /* also sets slots */
int sdr_ec_may_send(const struct sdr_reliable *r, uint64_t len);
/* Begins the SDR message for the data of the message that the core gets next. False: not now. */
bool sdr_ec_start(struct sdr_reliable *r, struct sdr_reliable_op *op);
/* Hands parity to the NIC, but only what is cleared for sending: the NIC would keep the rest. True: of all messages. */
bool sdr_ec_begun(struct sdr_reliable *r);
/* Finds out which parity has left. False: none since the last call. */
bool sdr_ec_left(struct sdr_reliable *r);
void sdr_ec_sent_again(struct sdr_reliable *r, struct sdr_reliable_op *op, uint32_t unit);
int sdr_ec_post(struct sdr_reliable *r); /* posts receives for parity; 0: for all */
/* Takes both buffers back. False: not yet. */
bool sdr_ec_recv_over(struct sdr_reliable *r, struct sdr_reliable_op *op);
/* The first unit from `from` on that is missing and is about to be repaired; UINT32_MAX: none. */
uint32_t sdr_ec_mending(struct sdr_reliable *r, struct sdr_reliable_op *op, const uint64_t *data, uint64_t chunks,
			uint64_t from);

/* ---- `auto`: reliable_auto.c ---- */
void sdr_auto_open(struct sdr_reliable *r, const struct sdr_reliable_attr *attr);
/* Whether the next message gets parity, and with which of the QP's codes. */
bool sdr_auto_wants_parity(struct sdr_reliable *r, uint64_t length, unsigned *code);
void sdr_auto_arrived(struct sdr_reliable *r, const struct sdr_reliable_op *op);
void sdr_auto_sending(struct sdr_reliable *r, uint64_t queued); /* units with the NIC, before more are handed over */
void sdr_auto_sent(struct sdr_reliable *r, uint64_t bytes);	/* handed over */
#pragma GCC visibility pop

#endif
