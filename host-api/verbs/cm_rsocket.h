/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets: streams over the RC connections of librdmacm, in the wire format of Linux' rsockets. Each file calls only
 * those before it:
 *   cm_stream          the buffers and the QP of a connection, and the messages between its ends
 *   cm_rsocket_state   descriptors, events of the connection, and how threads wait
 *   cm_rsocket         making, binding, listening, connecting, ending
 *   cm_rsocket_data    sending and receiving, and memory that the peer writes to
 *   cm_rsocket_option  options
 *   cm_rsocket_poll    rpoll() and rselect()
 * Locks, in this order: `sending` or `receiving` of a socket for as long as such a call takes; its `lock` while
 * something of it changes, but never while a thread sleeps; the table of descriptors; those of cm.h.
 */
#ifndef HOST_API_VERBS_CM_RSOCKET_H
#define HOST_API_VERBS_CM_RSOCKET_H

#include "cm.h"

#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/uio.h>

/* ---- on the wire ---- */
struct shim_rs_place { /* in the writer's byte order; in the private data in the network's */
	uint64_t addr;
	uint32_t rkey, len;
};

struct shim_rs_mapped {
	uint64_t offset;
	struct shim_rs_place place;
};

struct shim_rs_hello { /* the private data of both ends */
	uint8_t version, flags;
	uint16_t credits; /* messages that the peer may send */
	uint8_t reserved[3], maps;
	struct shim_rs_place targets; /* where the peer tells of more room; len counts entries. The maps come after. */
	struct shim_rs_place first;   /* the room that there is from the beginning */
};
_Static_assert(sizeof(struct shim_rs_hello) == 40, "as Linux has it");

/* Immediate data: what it is in the upper three bits, a number in the others. */
enum { SHIM_RS_DATA = 0, SHIM_RS_CREDITS = 4, SHIM_RS_MAPPED = 6, SHIM_RS_CONTROL = 7 };
enum { SHIM_RS_DISCONNECT, SHIM_RS_KEEPALIVE, SHIM_RS_SHUTDOWN };

/* ---- here ---- */
#define SHIM_RS_TARGETS	 2    /* entries in which the peer tells of room; the two halves of its buffer */
#define SHIM_RS_CONTROLS 4    /* messages beyond the credits that may be under way */
#define SHIM_RS_LEAST	 2048 /* with less room, a socket is not writable */
#define SHIM_RS_MAPS	 127

#pragma GCC visibility push(hidden)
enum shim_rs_state {
	SHIM_RS_OPEN,
	SHIM_RS_BOUND,
	SHIM_RS_LISTENING,
	SHIM_RS_CONNECTING,
	SHIM_RS_ACCEPTING, /* the peer has yet to say that it is ready */
	SHIM_RS_CONNECTED,
	SHIM_RS_ENDED, /* what has come can still be read */
};

struct shim_rs_request { /* of a listener, until raccept() */
	struct rdma_cm_event *event;
	struct shim_rs_request *next;
};

struct shim_rs_watch { /* a thread that sleeps */
	struct shim_rs_watch *next, **back;
	int bell; /* an eventfd of the thread */
};

struct shim_rs_map { /* riomap() */
	struct shim_rs_map *next;
	struct ibv_mr *mr;
	void *buf;
	size_t len;
	uint64_t offset;
	int index; /* -1: the peer does not write there */
	bool told;
};

struct shim_rs {
	int fd; /* the event channel's */
	unsigned generation, users;
	int family;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	pthread_mutex_t lock, sending, receiving;
	struct shim_rs_watch *watches;
	enum shim_rs_state state;
	int error;	    /* told once */
	bool gone;	    /* closed while threads are in calls */
	bool reads, writes; /* what the program has not shut down */
	bool peer_writes;   /* more may come */
	struct shim_rs_request *requests, **last_request;
	/* Options. */
	bool nonblocking, nodelay, keepalive, oob_inline, reuse, v6only, lingers;
	int linger; /* seconds */
	int keep_idle, keep_interval, keep_count;
	uint32_t send_entries, recv_entries, inlined, send_size, recv_size, maps;
	/* The connection. */
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	bool armed;
	uint8_t *memory; /* targets and maps, then the buffer for what comes, then the one for what goes */
	size_t memory_size;
	struct ibv_mr *target_mr, *recv_mr, *send_mr;
	/* Sending. */
	uint8_t *send_buffer;
	uint32_t send_at, send_room;	     /* bytes */
	uint32_t entries;		     /* of the send queue, free */
	uint32_t controls;		     /* of SHIM_RS_CONTROLS, free */
	uint16_t sent, may_send;	     /* messages: may_send is the first that has to wait */
	struct shim_rs_place *targets, room; /* room: the target in use */
	uint32_t next_target;
	struct shim_rs_mapped *maps_of_peer;
	/* Receiving. */
	uint8_t *recv_buffer;
	uint32_t recv_at, recv_bytes;	     /* what has come */
	uint32_t granted;		     /* room that the peer has */
	uint32_t give_at, free_bytes;	     /* room to be given back */
	uint32_t *message, first, messages;  /* lengths: a ring of recv_entries */
	uint16_t received, granted_messages; /* messages: tell the peer by then */
	struct shim_rs_place peer_targets;
	uint32_t peer_target;
	struct shim_rs_place peer_maps;
	bool swap; /* the peer has the other byte order */
	struct shim_rs_map *mapped;
};

static inline bool shim_rs_has_peer(const struct shim_rs *rs)
{
	return rs->state == SHIM_RS_CONNECTED || rs->state == SHIM_RS_ACCEPTING;
}

/* What readv() and writev() walk through. */
struct shim_rs_cursor {
	const struct iovec *iov;
	size_t skip;
};

/* ---- cm_stream.c: the lock is held ---- */
int shim_rs_setup(struct shim_rs *rs); /* QP and buffers. 0, or -1 and errno */
void shim_rs_teardown(struct shim_rs *rs);
void shim_rs_hello(struct shim_rs *rs, struct shim_rs_hello *to);
int shim_rs_learn(struct shim_rs *rs, const void *private_data, size_t len); /* 0, or -1 and EPROTO */
void shim_rs_end(struct shim_rs *rs, int error);			     /* 0: in order */
bool shim_rs_take_completions(struct shim_rs *rs);			     /* whether something has changed */
void shim_rs_give_credits(struct shim_rs *rs);
bool shim_rs_can_send(const struct shim_rs *rs);
/* Sends of `left` bytes what can be sent now, and moves the cursor. Bytes, or -1 and errno. */
ssize_t shim_rs_put(struct shim_rs *rs, struct shim_rs_cursor *from, size_t left);
/* ... to what the peer has mapped at that offset. */
ssize_t shim_rs_put_at(struct shim_rs *rs, struct shim_rs_cursor *from, size_t left, uint64_t offset);
size_t shim_rs_get(struct shim_rs *rs, struct shim_rs_cursor *to, size_t left, bool peek);
int shim_rs_control(struct shim_rs *rs, uint32_t what);
void shim_rs_tell_maps(struct shim_rs *rs); /* as many as can be sent */
bool shim_rs_all_sent(const struct shim_rs *rs);

/* ---- cm_rsocket_state.c ---- */
struct shim_rs *shim_rs_new(int family, struct rdma_event_channel *channel, struct rdma_cm_id *id);
int shim_rs_insert(struct shim_rs *rs);
struct shim_rs *shim_rs_find(int fd); /* NULL: none */
struct shim_rs *shim_rs_of(int fd);   /* NULL, and errno. shim_rs_put_back() when done */
void shim_rs_put_back(struct shim_rs *rs);
struct shim_rs *shim_rs_remove(int fd); /* no other call finds it any more */
/* The lock is held in what follows. */
bool shim_rs_progress(struct shim_rs *rs); /* all that has happened. Whether something has */
/* Those who sleep look again. */
void shim_rs_ring(struct shim_rs *rs);
/* Before a sleep: the descriptors will tell. True: something has happened meanwhile. */
bool shim_rs_arm(struct shim_rs *rs);
int shim_rs_bell(void); /* this thread's, silent. -1 and errno */
void shim_rs_watch(struct shim_rs *rs, struct shim_rs_watch *w, int bell);
void shim_rs_unwatch(struct shim_rs_watch *w);
/* Sleeps, without the lock, until something happens. -1 and EINTR, or ETIMEDOUT. */
int shim_rs_wait(struct shim_rs *rs, int timeout_ms);
uint64_t shim_rs_now(void);		    /* us */
int shim_rs_take_error(struct shim_rs *rs); /* 0: none */
#define SHIM_RS_SPIN 10			    /* us */
#pragma GCC visibility pop

#endif
