/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of a run: operations (run.c), messages in their phases, as hosts see them (transfer.c), who receives them
 * (match.c), and the NICs that carry a phase: modelled (modelled.c) or real (real.c). */
#ifndef TESTBED_MOTIF_RUN_PRIVATE_H
#define TESTBED_MOTIF_RUN_PRIVATE_H

#include "../goal/heap.h"
#include "run.h"

#define NONE UINT32_MAX /* no transfer, receive or operation; no rank */

/* Kinds of events, which are in goal_item.rank; wire: a transfer; of EVENT_OP_DONE rank << 32 | operation. */
enum {
	EVENT_OP_DONE,
	EVENT_POSTED,	   /* the NIC that sends this phase has it in its queue */
	EVENT_ASKED,	   /* the receiver's host has a request */
	EVENT_ANSWERED,	   /* the sender's host has the answer */
	EVENT_RECEIVED,	   /* the receiver's host knows that the message is there */
	EVENT_ACKNOWLEDGE, /* the receiving NIC, which has all packets of a write, sends an acknowledgement (modelled)
			    */
	EVENT_ACKED,	   /* the sender's host knows of it */
	EVENT_COMPLETED,   /* the receiver's host has a completion */
};

/* A message from one rank to another, through all its phases. A completion is one of its own, with a parent. */
struct transfer {
	uint64_t bytes;		/* of the message */
	uint64_t sent, arrived; /* packets of this phase */
	uint64_t drawn;		/* packets of this phase whose noise is known */
	uint64_t order;		/* among the messages of this pair of ranks */
	uint32_t src, dst;	/* ranks, of the message */
	uint32_t send, recv;	/* operations; recv NONE: not matched yet */
	uint32_t tag, parent;
	uint32_t byte_ps;     /* of the packets that are sent now; 0: as the links say */
	sp_time late;	      /* of this phase */
	uint32_t next;	      /* in the queue of a NIC, or of free ones */
	uint32_t behind;      /* in a queue of its receiver, also while its acknowledgement is in a NIC's */
	uint8_t phase, users; /* users: what still needs it: packets to come, a receive, a completion */
	bool asked;	      /* matched by a request, not by the message */
	bool told;	      /* the receiver has gone on, or will when its notice has come */
	uint8_t slot, parts;  /* real NICs: its memory at both ends, and what still needs that */
};

struct posted { /* a receive that waits for its message */
	uint32_t op, next;
};

struct pair { /* ranks that talk; key 0: free */
	uint64_t key, sent, taken;
	bool ready; /* the sender knows a buffer, with setup_once */
};

struct queue {
	uint32_t first, last;
};

struct real; /* real.h */
struct run;

struct rank {
	sp_time busy;	       /* of its host, until then (mpi) */
	struct queue nic;      /* transfers that the NIC of its host sends */
	struct queue receives; /* struct posted */
	struct queue waiting;  /* transfers that wait for a receive, in the order of their arrival */
	struct queue held;     /* transfers that have overtaken */
};

/* NICs, which carry one phase of a transfer to the other rank's host. They make r->net. */
struct nic_kind {
	/* 0, or an error and why. */
	int (*open)(struct run *r, const struct motif_run_config *config, char *why, size_t whylen);
	void (*close)(struct run *r);				/* also after an error of open, or without it */
	sp_time (*next)(struct run *r);				/* when the network or a NIC does something; SP_NEVER */
	void (*advance)(struct run *r, sp_time event);		/* all of that time, or more, but not beyond `event` */
	void (*event)(struct run *r, uint8_t kind, uint32_t t); /* EVENT_POSTED, EVENT_ACKNOWLEDGE */
	void (*outcome)(struct run *r);				/* at the end: what only it has counted */
};

extern const struct nic_kind nic_modelled, nic_real;

struct run {
	const struct goal *g;
	struct motif_nic nic;
	struct motif_noise noise;
	struct sp_random latencies, bytes;
	struct stalls *stalls; /* NULL: none */
	sp_time *ends;	       /* of the ranks; NULL: nobody asks */
	const struct nic_kind *kind;
	struct net *net;
	struct real *real; /* of real NICs */
	struct goal_heap events;
	uint64_t age;
	sp_time now, begun; /* begun: of the program: real NICs need some time before */
	int err;	    /* the first */
	char *why;	    /* what it was, if it is not memory; whylen bytes */
	size_t whylen;
	uint32_t ranks, cpus;
	uint32_t *host_of, *rank_of; /* rank_of: NONE: no rank is on that host */
	struct rank *rank;
	sp_time *cpu;	  /* [rank * cpus + cpu]: busy until then */
	uint32_t **waits; /* per rank: of each operation, for how many it waits */
	uint64_t open;	  /* operations that are not done */
	struct transfer *transfer;
	uint32_t transfers, transfer_room, transfer_free;
	struct posted *posted;
	uint32_t posteds, posted_room, posted_free;
	struct pair *pair;
	uint32_t pairs, pair_room; /* a power of 2 */
	uint64_t *ready;	   /* operations that can start, rank << 32 | operation; a stack */
	size_t readies, ready_room;
	struct motif_outcome *o;
};

/* ---- run.c ---- */
/* -EINVAL and a sentence. */
int run_wrong(char *why, size_t whylen, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Bytes on the wire, of all phases. */
uint32_t run_largest_packet(const struct motif_nic *n);
void run_event(struct run *r, sp_time at, uint8_t kind, uint64_t what);
void run_done(struct run *r, uint32_t rank, uint32_t op, sp_time at); /* the operation will be done at that time */
sp_time run_host(struct run *r, uint32_t rank, sp_time cost); /* the host works so long, from now on: the end of it */

/* ---- transfer.c ---- */
void transfer_send(struct run *r, uint32_t rank, uint32_t op);	   /* a send starts */
sp_time transfer_registering(const struct run *r, uint64_t bytes); /* memory of mpi, or giving it back */
/* Transfer and receive have found each other, the last of so many that were looked at; or none was found among them. */
void transfer_matched(struct run *r, uint32_t t, uint32_t looked);
void transfer_looked(struct run *r, uint32_t rank, uint32_t looked);
void transfer_event(struct run *r, const struct goal_item *e);
void transfer_release(struct run *r, uint32_t t);		       /* one less needs it */
uint32_t transfer_completion(struct run *r, uint32_t parent);	       /* of a write, which it keeps; NONE: no memory */
bool transfer_by_completion(const struct run *r);		       /* the receiver learns of a write by one */
bool transfer_is_read(const struct run *r);			       /* a send is done once all bytes are read */
bool transfer_is_acked(const struct run *r, const struct transfer *x); /* somebody waits for its acknowledgement */

/* ---- match.c ---- */
void match_post(struct run *r, uint32_t rank, uint32_t op); /* a receive starts */
/* A message, or the request for one, has come to its receiver's host: in its turn it is matched. */
void match_arrived(struct run *r, uint32_t t);
struct pair *match_pair(struct run *r, uint32_t src, uint32_t dst); /* NULL: no memory, and r->err is set */

#endif
