/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs on a Spindle NIC: the inside. A process has one attachment (shim_nic), which all of its contexts share,
 * and one lock: whatever calls sp_ holds it. The service thread (service.c) hands out what the NIC has to tell. Calls
 * of this header return 0 or -errno; the public ones return what their manual pages say.
 */
#ifndef HOST_API_VERBS_SHIM_H
#define HOST_API_VERBS_SHIM_H

#include <infiniband/verbs.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "../rdma.h"
#include "bounce.h"
#include "identity.h"
#include "memory.h"

/* ---- events: who has something to tell waits in the queue of a descriptor ---- */
enum shim_kind { SHIM_CONTEXT, SHIM_CHANNEL, SHIM_PD, SHIM_MR, SHIM_CQ, SHIM_SRQ, SHIM_QP, SHIM_AH, SHIM_MW };
struct shim_source {
	struct shim_source *next;
	uint32_t pending; /* bits: enum ibv_event_type, or 1 for a completion queue in its channel */
	enum shim_kind kind;
	void *object; /* the public one */
};
/* fd: an eventfd that counts bits which are pending; a reader takes one, then the first bit under the lock. */
struct shim_queue {
	int fd;
	struct shim_source *first, **last;
};

/* ---- objects; each begins with the public structure ---- */
struct shim_made { /* all of a context, so that it can free what is left */
	struct shim_made *next, **back;
	enum shim_kind kind;
	void *object;
};

struct shim_context {
	struct verbs_context vctx; /* .context is what programs see */
	struct sp_rdma *rdma;	   /* NULL: made by the parent of this process */
	bool ended;		   /* the NIC is gone, or has ended it: calls fail with -EIO */
	struct shim_context *next;
	void (*cm)(struct shim_context *, void *user); /* lock held, for each SP_RDMA_NOTICE_CM */
	void *cm_user;
	struct shim_queue async;
	struct shim_source source; /* events of the device */
	uint32_t events, acked;	   /* of the device */
	struct shim_made *made;
	struct shim_qp **qp;   /* chains by number */
	struct shim_srq **srq; /* by index; NULL: free */
	uint32_t srqs;
	struct shim_region **region; /* chains by lkey */
	uint32_t indirect;	     /* how many of them the NIC does not reach all of */
	struct sp_rdma_limits limits;
};
#define SHIM_CHAINS 1024

struct shim_channel {
	struct ibv_comp_channel ibv;
	struct shim_queue queue;
	struct shim_made made;
};

struct shim_pd {
	struct ibv_pd ibv;
	struct sp_rdma_pd *pd;
	struct shim_made made;
	uint32_t users;
};

struct shim_region {
	struct shim_mr mr; /* first */
	struct shim_made made;
	struct shim_region *next; /* in its chain */
};

struct shim_window {
	struct ibv_mw ibv;
	struct sp_rdma_mw *mw;
	struct shim_made made;
};

struct shim_ah {
	struct ibv_ah ibv;
	struct sp_rdma_target *target;
	struct shim_made made;
};

struct shim_cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	struct sp_rdma_cq *cq;
	struct shim_made made;
	struct shim_source completion, async;
	uint32_t completions, events; /* that were handed out; acknowledgements are in ibv */
	uint32_t users;
	struct shim_qp *last; /* of the completion before */
	uint32_t idle;	      /* empty looks since then */
	/* Extended polling. */
	pthread_mutex_t reading; /* from start_poll to end_poll */
	bool single;
	struct ibv_wc wc;
};

/* What a work request carries through bounce memory. */
struct shim_part {
	struct shim_piece piece;
	uint64_t addr; /* as in the program's SGE */
	uint32_t len, lkey;
	uint64_t at; /* within the message */
};
struct shim_carry {
	struct shim_carry *next;
	unsigned parts;
	struct shim_part part[SP_RDMA_SGES];
};
/* A work request that is under way. The NIC knows its number only: SHIM_SEND, _RECV or _SHARED, then the request's
 * (SRQ: the slot's) number. */
struct shim_slot {
	uint64_t wr_id;
	struct shim_carry *carry; /* NULL: none */
	bool back;		  /* of a send: what has come is the program's: READ, ATOMIC */
};
struct shim_ring {
	struct shim_slot *slot;
	uint32_t room, carries;
	uint64_t posted, done;
};
#define SHIM_KIND 62
enum { SHIM_SEND, SHIM_RECV, SHIM_SHARED };

struct shim_srq {
	struct ibv_srq ibv;
	struct sp_rdma_srq *srq;
	struct shim_made made;
	struct shim_source async;
	uint32_t events, users;
	uint32_t index; /* in the context */
	struct ibv_srq_attr attr;
	uint32_t sges; /* that an entry has room for */
	struct shim_slot *slot;
	uint32_t *free, frees; /* a stack of slots */
};

struct shim_builder { /* ibv_wr_start to ibv_wr_complete */
	pthread_mutex_t busy;
	struct sp_rdma_send_wr *wr;
	struct sp_rdma_sge *sge; /* for each request max_send_sge */
	uint8_t *inlined;	 /* and max_inline_data bytes */
	uint32_t room, count;
	int error; /* the first one, as a positive number */
};

struct shim_qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
	};
	struct sp_rdma_pair *qp;
	struct shim_qp *next; /* in its chain */
	struct shim_made made;
	struct shim_source async;
	uint32_t events;
	struct shim_ring send, recv;
	struct ibv_qp_cap cap;
	uint32_t send_sges, recv_sges; /* that an entry has room for */
	struct ibv_ah_attr route;
	bool all_signaled, extended;
	struct shim_builder build;
};

/* ---- the process's attachment ---- */
struct shim_nic {
	pthread_mutex_t lock;
	uint32_t waiting; /* threads that want the lock */
	struct sp_dev *dev;
	int dead; /* 0, or why the NIC is gone */
	unsigned users;
	struct shim_context *contexts;
	struct shim_bounce *bounce;
	struct shim_carry *carries; /* free ones */
	pthread_t thread;
	int stop; /* eventfd */
	union ibv_gid gid[SHIM_GIDS];
	bool gid4[SHIM_GIDS];
	uint64_t guid; /* network order */
};

#pragma GCC visibility push(hidden)
extern struct shim_nic shim_nic;

/* ---- service.c ---- */
int shim_attach(void); /* counts; shim_detach() for each */
void shim_detach(void);
int shim_begin(struct shim_context *c);	 /* the service thread knows c from now on */
void shim_leave(struct shim_context *c); /* ... no more */
/* As shim_lock(), for callers that spin: those who wait go first. */
void shim_lock_spinning(void);
/* An error of an sp_ call: if the NIC, or the context, is gone, its programs hear of it. Lock held. */
void shim_gone(struct shim_context *c, int rc);

/* ---- async.c: lock held, but for _read ---- */
int shim_queue_open(struct shim_queue *q);
void shim_queue_close(struct shim_queue *q);
void shim_tell(struct shim_queue *q, struct shim_source *s, unsigned bit);
void shim_untell(struct shim_queue *q, struct shim_source *s); /* the object ends */
/* Waits as the descriptor says. Then the lock is held, and *bit is what the source tells. NULL: errno, and it is not.
 */
struct shim_source *shim_queue_read(struct shim_queue *q, unsigned *bit);
/* Waits until all of `events` are acknowledged. */
void shim_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked, uint32_t events);

/* ---- objects.c ---- */
void shim_make(struct shim_context *c, struct shim_made *m, enum shim_kind kind, void *object);
void shim_unmake(struct shim_made *m);
void shim_free_all(struct shim_context *c); /* after its sp_rdma has ended */
int shim_gid_of(const struct ibv_ah_attr *attr, uint8_t ip[16]);

void shim_cq_free(struct shim_cq *q);
void shim_srq_free(struct shim_srq *s); /* lock held, as the next one */
void shim_qp_free(struct shim_qp *qp);
/* Room for more SGEs than the program may name: the NIC reaches one of its ranges in up to three parts. It costs
 * nothing in an entry for few. */
static inline uint32_t shim_entry_sges(uint32_t sges, uint32_t limit)
{
	return 3 * sges < limit ? 3 * sges : limit;
}

/* ---- region.c ---- */
struct shim_region *shim_region_find(struct shim_context *c, uint32_t lkey);
int shim_region_drop(struct shim_region *r); /* -EAGAIN */

/* ---- window.c ---- */
struct ibv_mw *shim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int shim_dealloc_mw(struct ibv_mw *mw);
int shim_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* What a BIND_MW request says of the window. -EINVAL: it must not be so. */
int shim_window_request(uint32_t rkey, const struct ibv_mw_bind_info *info, struct sp_rdma_send_wr *wr);

/* ---- post.c: lock held ---- */
/* The request gets its slot, and what the NIC does not reach is carried. sge: room for qp->send_sges. */
int shim_send_prepare(struct shim_qp *qp, struct sp_rdma_send_wr *wr, struct sp_rdma_sge *sge);
/* Posts what was prepared, one list. *posted of them are; the others have no slots any more. */
int shim_send_post(struct shim_qp *qp, struct sp_rdma_send_wr *wr, unsigned count, unsigned *posted);
int shim_post_error(int rc); /* what ibv_post_send() and its kin return */
int shim_ring_open(struct shim_ring *r, uint32_t room);
void shim_ring_reset(struct shim_ring *r); /* nothing is under way any more */
void shim_slot_empty(struct shim_slot *s);
int shim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int shim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int shim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- poll.c ---- */
int shim_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc);
struct shim_qp *shim_qp_find(struct shim_context *c, uint32_t number);

/* ---- the rest of the context's operations ---- */
struct ibv_cq_ex *shim_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
void shim_cq_extend(struct shim_cq *cq, uint64_t wc_flags); /* poll_ex.c */
struct ibv_srq *shim_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int shim_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_qp *shim_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int shim_qp_extend(struct shim_qp *qp, uint64_t ops); /* post_ex.c. -EOPNOTSUPP: an operation that it has not */
int shim_req_notify_cq(struct ibv_cq *cq, int solicited);
#pragma GCC visibility pop

/* ---- for librdmacm too ---- */
void shim_lock(void);
void shim_unlock(void);
/* Runs fn(arg) under the lock until it returns anything but -EAGAIN; sleeps in between, 30 s in all. */
int shim_until(int (*fn)(void *), void *arg);
void shim_context_set_cm(struct ibv_context *context, void (*cm)(struct shim_context *, void *user), void *user);
struct sp_rdma *shim_context_rdma(struct ibv_context *context);

static inline struct shim_context *shim_context_of(struct ibv_context *context)
{
	return (struct shim_context *)((uint8_t *)context - offsetof(struct shim_context, vctx.context));
}

/* Sets errno from -errno, and returns it as a positive number. */
static inline int shim_errno(int rc)
{
	if (rc)
		errno = -rc;
	return -rc;
}

#endif
