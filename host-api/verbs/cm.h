/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librdmacm on a Spindle NIC: the inside. Its files, each of which calls only those before it:
 *   cm_device    the NIC, its addresses, forks
 *   cm_channel   event channels: queues of events behind a descriptor
 *   cm_id        ids: making, binding, resolving, options, ending
 *   cm_qp        QPs and SRQs of ids, and the states that QPs go through
 *   cm_connect   listening, connecting, disconnecting
 *   cm_event     what the NIC tells, and how programs get it
 *   cm_endpoint  addresses and endpoints: rdma_getaddrinfo(), rdma_create_ep()
 *   cm_multicast  what is refused
 * Upon all of them: rsockets (cm_rsocket.h).
 * The library takes two locks: shim_lock() around sp_ calls, then shim_cm.mutex for queues and counts of events. The
 * service thread of libibverbs fills the queues, under both: there, no call of libibverbs is allowed.
 */
#ifndef HOST_API_VERBS_CM_H
#define HOST_API_VERBS_CM_H

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../rdma.h"

/* ---- of libibverbs (shim.h) ---- */
struct shim_context;
void shim_lock(void);
void shim_unlock(void);
void shim_context_set_cm(struct ibv_context *context, void (*cm)(struct shim_context *, void *user), void *user);
struct sp_rdma *shim_context_rdma(struct ibv_context *context);

#pragma GCC visibility push(hidden)
struct shim_cm_id;

/* An event on its way to the program. */
struct shim_cm_event {
	struct rdma_cm_event event; /* first */
	struct shim_cm_event *next;
	struct shim_cm_id *owner; /* who counts it: event.id, but for CONNECT_REQUEST the listener */
	uint8_t private_data[SP_RDMA_PRIVATE];
};

struct shim_cm_channel {
	struct rdma_event_channel channel; /* first; fd: readable while `first` is not NULL */
	int other;			   /* what is written here is read at fd */
	bool told;			   /* the descriptor is readable, or one who waits has just read it */
	unsigned generation, waiting;	   /* waiting: threads that read fd */
	struct shim_cm_event *first, **last;
};

enum shim_cm_state {
	SHIM_CM_IDLE,
	SHIM_CM_BOUND,
	SHIM_CM_ADDRESS, /* resolved */
	SHIM_CM_ROUTE,	 /* resolved */
	SHIM_CM_CONNECT,
	SHIM_CM_LISTEN,
	SHIM_CM_REQUEST, /* the peer asks */
	SHIM_CM_ACCEPT,
};

struct shim_cm_id {
	struct rdma_cm_id id; /* first */
	struct sp_rdma_cm *cm;
	struct shim_cm_id *next, **back; /* all ids */
	struct shim_cm_id *unseen;	 /* its listener, until the program has the CONNECT_REQUEST */
	enum shim_cm_state state;
	unsigned generation;
	bool sync, removed, failed; /* failed: a QP did not take the connection, and nothing more is told */
	bool peer_known;
	uint32_t reported, acked; /* events that the program got, and gave back */
	uint8_t responder_resources, initiator_depth;
	uint8_t tos, ack_timeout; /* options; ack_timeout 0: the default */
	bool shared, one_family;
	uint8_t ip[16], peer_ip[16]; /* on the wire, IPv4 mapped */
	uint32_t psn;		     /* from which on the peer sends */
	uint32_t peer_psn, peer_qp, peer_qkey;
	uint8_t path_mtu_code, timeout, retry_count, rnr_retry_count;
	void *connect; /* private data of the address, which go before the program's */
	size_t connect_len;
	struct ibv_qp_init_attr *qp_init; /* of requests that rdma_get_request() gets */
};

#define SHIM_CM_GIDS 16
extern struct shim_cm {
	pthread_mutex_t mutex;
	pthread_cond_t acked; /* some event was */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct shim_cm_id *ids;
	unsigned generation; /* counts forks: what a parent made is of no use in the child */
	uint8_t reads, path_mtu_code, gids;
	uint8_t gid[SHIM_CM_GIDS][16]; /* zero: none */
} shim_cm;

static inline struct shim_cm_id *shim_cm_of(struct rdma_cm_id *id)
{
	return (struct shim_cm_id *)id;
}

static inline bool shim_cm_datagram(const struct shim_cm_id *x)
{
	return x->id.qp_type == IBV_QPT_UD;
}

/* -1, and errno. */
static inline int shim_cm_fail(int error)
{
	errno = error;
	return -1;
}

/* ---- cm_device.c ---- */
int shim_cm_open(void); /* the NIC: once. 0, or -1 and errno */
/* The NIC's address that `wanted` stands for: one of its own, any of that family (all zero), or loopback. False: none.
 */
bool shim_cm_own_address(const struct sockaddr *wanted, uint8_t ip[16]);
int shim_cm_gid_index(const uint8_t ip[16]);	    /* -1: none */
socklen_t shim_cm_length(const struct sockaddr *a); /* 0: not a family that is known */
bool shim_cm_is_any(const struct sockaddr *a);
bool shim_cm_is_loopback(const struct sockaddr *a);
void shim_cm_ip_of(const struct sockaddr *a, uint8_t ip[16]);
void shim_cm_sockaddr(const uint8_t ip[16], uint16_t port, int family, struct sockaddr_storage *to);
__be16 *shim_cm_port(struct sockaddr *a); /* NULL: no family */
uint32_t shim_cm_random(void);

/* ---- cm_channel.c: the mutex is held ---- */
void shim_cm_push(struct shim_cm_channel *c, struct shim_cm_event *e);
/* Takes all out that belong to the id: its own, and those of ids that the program has not seen. */
struct shim_cm_event *shim_cm_take_all(struct shim_cm_channel *c, const struct shim_cm_id *x);
/* Without it: waits as the descriptor says. The owner counts it. NULL: errno. */
struct shim_cm_event *shim_cm_wait(struct shim_cm_channel *c);

/* ---- cm_id.c ---- */
/* cm NULL: it is made. NULL: errno. */
struct shim_cm_id *shim_cm_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
			       enum ibv_qp_type type, struct sp_rdma_cm *cm);
int shim_cm_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps,
		   enum ibv_qp_type type);
int shim_cm_use_device(struct shim_cm_id *x);
int shim_cm_route(struct shim_cm_id *x);
/* Of a synchronous id: waits for the outcome. 0, or -1 and errno. */
int shim_cm_complete(struct shim_cm_id *x);
bool shim_cm_stale(const struct shim_cm_id *x); /* the parent of this process made it; errno */
/* An event about the id that is not the NIC's. 0 or ENOMEM. */
int shim_cm_tell(struct shim_cm_id *x, enum rdma_cm_event_type type, int status);

/* ---- cm_qp.c: 0, or -1 and errno ---- */
int shim_cm_to_rtr(struct shim_cm_id *x);
int shim_cm_to_rts(struct shim_cm_id *x);
int shim_cm_to_error(struct shim_cm_id *x);

/* ---- cm_connect.c ---- */
int shim_cm_ready(struct shim_cm_id *x);

/* ---- cm_event.c ---- */
void shim_cm_notice(struct shim_context *context, void *user);
#pragma GCC visibility pop

#endif
