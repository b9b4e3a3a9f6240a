/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of the handler `cm`. Its files, each of which calls only those before it:
 *   table      ids, applications, peers, ports
 *   event      what applications are told
 *   mad        messages that go out
 *   end        how ids end, and how connections do
 *   request    what applications ask for
 *   receive    messages that come in
 *   cm         parameters, attach, timers, report
 * The handler runs on its context's home worker only. So nothing here is shared.
 */
#ifndef HANDLERS_CM_STATE_H
#define HANDLERS_CM_STATE_H

#include "../spindle-handler.h"
#include "../wire/cm.h"
#include "../wire/rdma.h"

enum cm_drop {
	CM_BAD_OPCODE, /* not SP_UD_SEND_ONLY */
	CM_BAD_LENGTH, /* no MAD */
	CM_BAD_QKEY,
	CM_NOT_QP1, /* the sender is no general services interface: a program that forges */
	CM_BAD_PKEY,
	CM_BAD_MAD,	  /* version, method or status */
	CM_OTHER_CLASS,	  /* subnet management and others that we do not serve */
	CM_BAD_ATTRIBUTE, /* a message that is not known, or not supported (LAP, APR) */
	CM_BAD_FIELD,	  /* a value that cannot be */
	CM_WRONG_PEER,	  /* the ids are those of a connection with another address or QP */
	CM_UNKNOWN,	  /* no such id, or it is the peer's of another connection */
	CM_UNEXPECTED,	  /* in this state */
	CM_FLOOD,	  /* the peer sends more than `peer-rate` */
	CM_PEERS,	  /* too many peers at once */
	CM_PEER_FULL,	  /* too many connections of this peer wait to be established */
	CM_BACKLOG,	  /* the listener's is full, or its application has no more ids */
};

enum cm_counter {
	CM_REQS,
	CM_REPS,
	CM_RTUS,
	CM_REJS,
	CM_MRAS,
	CM_DREQS,
	CM_DREPS,
	CM_SIDR_REQS,
	CM_SIDR_REPS,
	CM_SENT,
	CM_RETRIES,
	CM_TIMEOUTS,
	CM_DUPLICATES,
	CM_STALES,
	CM_NO_LISTENER,
	CM_ESTABLISHMENTS,
	CM_NOT_SENT,	/* the port had no room; what matters is sent again */
	CM_EVENTS_LATE, /* the application's event queue was full */
	CM_REFUSED,	/* requests of applications */
};

enum cm_state {
	CM_FREE,
	CM_IDLE,
	CM_LISTEN,
	CM_REQ_SENT,
	CM_REQ_RCVD,
	CM_REP_SENT,
	CM_REP_RCVD,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD,
	CM_TIMEWAIT,
	CM_REFUSAL, /* we have rejected; the peer may repeat its REQ or REP, and gets `mad` again */
	CM_SIDR_SENT,
	CM_SIDR_RCVD,
	CM_SIDR_DONE, /* answered; the peer may repeat its SIDR_REQ, and gets `mad` again */
	CM_CLOSED,
	CM_STATES
};

enum { CM_NOTES = 5, CM_PRIVATE = 2 };

struct cm_id;

/* An event that the application has not taken. An id has room for all that can become of it, so none gets lost. */
struct cm_note {
	struct cm_note *next;
	struct cm_id *id;
	int32_t status;
	uint8_t type, private_index; /* CM_PRIVATE: none */
	bool queued;
};

struct cm_app {
	uint32_t context, ids, owed; /* owed: events that found no room */
	uint32_t peers;		     /* that it was the first to speak with */
	bool used;
	struct cm_note *first, **last;
	struct cm_id *list;
};

struct cm_peer {
	uint8_t ip[16];
	struct sp_path *path;
	struct cm_peer *next;	/* of the same bucket, or of the free ones */
	struct cm_app *first;	/* whose id was the first of those that it has; NULL: that one has ended */
	uint32_t refs, pending; /* refs: ids; pending: of them, passive ones that are not established */
	sp_time used, rate_at;	/* rate_at: when a full allowance is there again */
	bool open;
};

enum cm_chain { CM_BY_ID, CM_BY_REMOTE_ID, CM_BY_REMOTE_QP, CM_BY_PORT, CM_CHAINS };

struct cm_id {
	struct sp_timer timer;
	struct cm_id *chain[CM_CHAINS], *app_next, **app_link;
	struct cm_id *orphan_next, *orphan_prev;
	struct cm_app *app; /* NULL: an orphan, which only ends its conversation */
	struct cm_id *listener;
	struct cm_peer *peer;
	uint64_t cookie, tid; /* tid: of the conversation; that of our DREQ is another one */
	uint64_t service;
	uint32_t local, remote; /* communication ids */
	uint32_t kind, port_space, backlog, waiting;
	uint32_t qp, remote_qp, psn, qkey; /* psn, qkey: the peer's */
	uint8_t own[16];
	uint8_t guid[8]; /* the peer's */
	uint16_t own_port, peer_port;
	uint8_t state, tries, retries; /* enum cm_state */
	uint8_t qp_type, responder_resources, initiator_depth, retry_count, rnr_retry_count, srq, path_mtu_code,
		timeout;
	bool passive, selective, in_remote, in_qp, in_port, counted, asked, extended; /* asked: the listener counts it;
										       * extended: an MRA has come */
	sp_time wait;								      /* until the next repetition */
	struct cm_note note[CM_NOTES];
	uint8_t notes;
	uint16_t private_len[CM_PRIVATE];
	uint8_t private_data[CM_PRIVATE][SP_RDMA_PRIVATE];
	struct sp_cm_mad mad; /* what is repeated */
};

struct cm {
	uint32_t ids, ids_per_app, apps, peers, peers_per_app, peer_pending, peer_burst, retries, ports_from;
	uint32_t buckets;
	sp_time peer_gap, retry, accept, timewait, peer_idle;
	bool selective;
	uint8_t guid[8];
	uint32_t psn;
	struct cm_id *id, *free, *orphans, *orphans_last;
	struct cm_id **table[CM_CHAINS];
	struct cm_app *app;
	struct cm_peer *peer, *peer_free, **peer_table;
	uint32_t used, orphan_count, peer_count, sweep;
	struct sp_timer tick; /* peers that nobody uses, events that are owed */
	uint8_t address[16];  /* an address of the NIC, once a message has come there */
	uint64_t states_entered[CM_STATES];
};

static inline struct cm *cm_of(struct sp_ctx *c)
{
	return (struct cm *)c->state;
}

#endif
