/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the sp_rdma_ calls. rdma.c: contexts, control requests, objects and their notices; rdma_slab.c: memory of
 * queues. The others use both. */
#ifndef HOST_API_RDMA_PRIVATE_H
#define HOST_API_RDMA_PRIVATE_H

#include <errno.h>

#include "context.h"
#include "rdma.h"

/* Anything that events name. cookie: number of its slot, and of the slot's use. */
enum verbs_kind { VERBS_CQ, VERBS_SRQ, VERBS_QP, VERBS_CM };
struct verbs_object {
	struct sp_rdma *rdma;
	void *user;
	uint64_t cookie;
	uint32_t id;
	enum verbs_kind kind;
	uint32_t told; /* bits of enum sp_rdma_async, VERBS_TOLD_CQ: not taken yet */
	struct verbs_object *next_told, *next_made, **back_made;
};
#define VERBS_TOLD_CQ (1u << 31)

/* Zeroed memory of a region, at a multiple of 64 bytes. */
struct verbs_slab;
struct verbs_memory {
	struct verbs_slab *slab;
	uint8_t *addr;
	uint64_t offset, len;
};

/* The producer's side of a queue. tail is never read back from shared memory. */
struct verbs_queue {
	struct sp_rdma_queue *head;
	uint8_t *entry;
	uint32_t mask, stride, sges, tail;
};

struct sp_rdma_pd {
	struct sp_rdma *rdma;
	uint32_t id;
	struct sp_rdma_pd *next, **back;
	struct verbs_mr *mrs;
	struct verbs_mw *mws;
	struct sp_rdma_target *targets;
};

struct verbs_mr {
	struct sp_rdma_mr mr; /* first */
	bool fetched;	      /* some of it is the agent's */
	uint8_t *own;	      /* where mr.va is in this process */
	struct verbs_mr *next, **back;
};

struct verbs_mw {
	struct sp_rdma_mw mw; /* first */
	struct verbs_mw *next, **back;
};

struct sp_rdma_target {
	struct sp_rdma_pd *pd;
	uint32_t id;
	struct sp_rdma_target *next, **back;
};

struct sp_rdma_cq {
	struct verbs_object object; /* first */
	struct verbs_memory memory;
	struct sp_rdma_cq_head *head;
	struct sp_rdma_cqe *entry;
	uint32_t log, next; /* next: entries taken, in all */
	bool channel;
};

struct sp_rdma_srq {
	struct verbs_object object; /* first */
	struct verbs_memory memory;
	struct verbs_queue queue;
	struct sp_rdma_pd *pd;
};

struct sp_rdma_pair {
	struct verbs_object object; /* first; id: the QP's number */
	struct verbs_memory memory;
	struct verbs_queue send, recv;
	struct sp_rdma_pd *pd;
	struct sp_rdma_srq *srq;
	enum sp_rdma_qp_type type;
	enum sp_rdma_qp_state state; /* as set last; the NIC may have gone to SQE or ERR */
	uint32_t inlined;
	uint16_t on; /* SP_CMD_ON() of its worker */
	bool owed;   /* a doorbell that the NIC's queue had no room for */
	struct sp_rdma_pair *next_owed;
};

struct sp_rdma_cm {
	struct verbs_object object; /* first */
	struct sp_rdma_cm *next;    /* of the ids with the same remainder */
	enum sp_cm_kind kind;
	bool own; /* made by the NIC for a request: it has no cookie */
};

struct verbs_cm_kept {
	struct verbs_cm_kept *next;
	struct sp_rdma_cm_event event;
};

#define VERBS_CM_CHAINS 256
struct sp_rdma {
	struct sp_dev *dev;
	uint32_t id;
	struct sp_rdma_limits limits;
	struct verbs_slab *slabs;
	struct sp_rdma_pd *pds;
	struct verbs_object *made;
	/* objects by cookie */
	struct verbs_slot {
		struct verbs_object *object;
		uint32_t use, next_free;
	} * slot;
	uint32_t slots, slot_free; /* slot_free: index + 1; 0: none */
	struct sp_rdma_pair *owed;
	struct verbs_object *told, **told_last;
	struct sp_rdma_cm *cm[VERBS_CM_CHAINS];
	struct verbs_cm_kept *kept, **kept_last; /* events that a call has taken on its way to another */
	sp_rdma_agent_fn *serve;		 /* NULL: there is no agent */
	void *serve_user;
	struct verbs_memory staging;
	struct sp_command *answer; /* that the NIC's queue had no room for: a ring */
	uint32_t answer_room, answer_first, answers;
	bool cm_more, cm_news; /* more: the NIC may have events; news: a notice is due */
};

static inline uint32_t verbs_log(uint32_t entries)
{
	uint32_t log = 0;

	while (log < 31 && (1u << log) < entries)
		log++;
	return log;
}

#pragma GCC visibility push(hidden)
/* A request whose answer has exactly out_len bytes. */
int verbs_control(struct sp_rdma *r, uint32_t op, uint32_t qp, const void *in, size_t in_len, void *out,
		  size_t out_len);
int verbs_service(struct sp_rdma *r, uint32_t op, const void *in, size_t in_len, void *out, size_t out_len);
/* An object gets its cookie; 0 or -ENOMEM. */
int verbs_make(struct sp_rdma *r, struct verbs_object *o, enum verbs_kind kind, void *user);
void verbs_unmake(struct verbs_object *o);
struct verbs_object *verbs_find(struct sp_rdma *r, uint64_t cookie, enum verbs_kind kind); /* or NULL */
/* Takes all events of the NIC and notes them. 0 or -errno. */
int verbs_pump(struct sp_rdma *r);
/* Doorbells that were owed. */
int verbs_bells(struct sp_rdma *r);
void verbs_forget_bell(struct sp_rdma_pair *qp);
/* An event of the agent's; posts the answers. */
void verbs_serve(struct sp_rdma *r, const struct sp_event *e);
int verbs_answers(struct sp_rdma *r);
/* Waits for an event of this id; others are kept. */
int verbs_cm_wait_for(struct sp_rdma_cm *cm, struct sp_rdma_cm_event *event, sp_time timeout);

int verbs_alloc(struct sp_rdma *r, uint64_t bytes, struct verbs_memory *m);
void verbs_free(struct verbs_memory *m);
void verbs_slabs_free(struct sp_rdma *r); /* after the context has ended */
uint32_t verbs_memory_id(const struct verbs_memory *m);
#pragma GCC visibility pop

#endif
