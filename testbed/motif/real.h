/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real NICs that carry the messages of a run: NICs of pipeline/ at the hosts of a network (testbed/net/nics.h), in
 * virtual time, and host programs that use them by libspindle's calls. Every byte that arrives is compared with what
 * was sent. What a host and its NIC take to talk to each other (nic.h: pcie, tx_delay, rx_match) is added by events, as
 * of modelled NICs; the NIC itself takes no time.
 *
 * Two ranks have memory for REAL_SLOTS messages at once, each way. More wait at their sender (rdma: for the answer).
 */
#ifndef TESTBED_MOTIF_REAL_H
#define TESTBED_MOTIF_REAL_H

#include "../../host-api/rdma.h"
#include "../../host-api/rvma.h"
#include "../../pipeline/nic.h"
#include "../net/nics.h"
#include "run_private.h"

#define REAL_SLOTS     2u
#define REAL_PARTNERS  SP_MAX_STATIC /* ranks that one rank talks to, at most */
#define REAL_RANKS_MAX 8192u
#define REAL_MESSAGE   (1ull << 30) /* bytes, at most */
#define REAL_SENDS     16u	    /* rdma: sends of a QP at once */
#define REAL_RECEIVES  32u	    /* ... more than can be on their way to it, so that none finds no receive */
#define REAL_CONTROL   16u	    /* bytes of a receive: a request or an answer */
#define REAL_NOTE      64u	    /* bytes of a notification */

struct slot {
	struct channel *channel;
	uint32_t t;	     /* the transfer that has it; NONE */
	uint32_t completion; /* rdma: that of t; NONE */
	uint8_t number;
	uint8_t head;		    /* rvma: which of the window's two buffers comes next */
	struct rvma_window *window; /* of the receiver */
	struct rvma_op *op;	    /* of the sender; NULL: it has ended */
};

/* From one rank to another. */
struct channel {
	uint32_t src, dst;
	uint64_t most, stride;	 /* bytes of a message, and of its place in memory */
	uint64_t out, in, notes; /* places in the memory of src and of dst */
	struct slot slot[REAL_SLOTS];
	struct queue waiting;	 /* transfers that wait for a slot */
	struct queue asked;	 /* rdma: requests on their way, in their order */
	struct rvma_peer *peer;	 /* dst, as src sees it */
	struct rvma_op *opening; /* a put that begins the session */
};

/* rdma: one end of the QPs of two ranks. */
struct link {
	uint32_t rank, peer;
	struct sp_rdma_pair *qp;
	uint64_t receives; /* place in the rank's memory */
	uint32_t sending;  /* sends that have not completed */
	struct queue waiting;
	struct channel *out, *in; /* NULL: nothing goes that way */
};

struct real_rank {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_mr *mr;
	struct rvma *rvma;
	struct sp_rdma *rdma;
	struct sp_rdma_cq *cq;
	struct sp_rdma_mr *region;
	struct channel **out, **in;
	struct link *link; /* rdma */
	uint32_t outs, ins, links;
	struct slot **sends, **receives; /* rvma: those whose end this rank waits for; rdma-polled: receives */
	uint32_t sending, receiving;
	uint64_t memory; /* bytes of mr */
	sp_time due;	 /* when its NIC must be polled at the latest */
	uint32_t place;	 /* in the heap */
};

struct real {
	struct net_nics *nics;
	struct real_rank *rank; /* [ranks] */
	uint32_t *heap;		/* of ranks, by due */
	uint64_t under_way;	/* messages and sends that NICs have not ended yet */
	uint64_t opening;	/* rvma: sessions that are not open yet */

	bool selective;
	uint64_t resident;	      /* of the process, before */
	struct motif_outcome counted; /* before the program begins */
};

/* ---- real.c ---- */
/* Notes the first error and what it was. */
void real_fail(struct run *r, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
void real_touch(struct run *r, uint32_t rank);					   /* its NIC has something to do now */
struct channel *real_channel(const struct real *real, uint32_t src, uint32_t dst); /* NULL: they do not talk */
struct slot *real_slot(struct channel *c);					   /* a free one, or NULL */
uint8_t *real_source(const struct run *r, const struct slot *s); /* where the sender has its message */
uint8_t *real_landing(const struct run *r, const struct slot *s, unsigned buffer); /* and the receiver */
void real_fill(const struct transfer *x, uint8_t *to);
bool real_filled(const struct run *r, const struct transfer *x, const uint8_t *bytes); /* all of it is there */
uint8_t real_last(const struct transfer *x); /* the last byte of a message that has one */
void real_enqueue(struct run *r, struct queue *q, uint32_t t);
uint32_t real_dequeue(struct run *r, struct queue *q);	 /* NONE: it is empty */
void real_tell(struct run *r, uint8_t kind, uint32_t t); /* the host gets to know */
void real_watch(struct slot **list, uint32_t *count, struct slot *s);
void real_unwatch(struct slot **list, uint32_t *count, uint32_t i);

/* ---- real_open.c ---- */
int real_open(struct run *r, const struct motif_run_config *config, char *why, size_t whylen);
void real_close(struct run *r);
uint64_t real_resident(void); /* bytes of the process */

/* ---- real_rvma.c ---- */
int real_rvma_open(struct run *r, uint32_t rank, struct sp_error *error);
int real_rvma_join(struct run *r, struct channel *c);
void real_rvma_posted(struct run *r, uint32_t t);
void real_rvma_look(struct run *r, uint32_t rank); /* what the rank's NIC has done */

/* ---- real_rdma.c ---- */
int real_rdma_open(struct run *r, uint32_t rank, struct sp_error *error);
int real_rdma_join(struct run *r, struct link *link); /* of both ends */
void real_rdma_posted(struct run *r, uint32_t t);
void real_rdma_look(struct run *r, uint32_t rank);

#endif
