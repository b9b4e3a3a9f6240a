/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of the rvma_socket_ and rvma_stream_ calls. A file uses only those above it in this list:
 *   rvma_socket.c              random numbers, cells
 *   rvma_socket_send.c         records on their way out, datagrams
 *   rvma_socket_stream.c       streams
 *   rvma_socket_stream_recv.c  records of streams that have arrived
 *   rvma_socket_recv.c         the bucket of buffers that all records arrive in
 *   rvma_socket_open.c         opening, closing, progress
 *   rvma_socket_wait.c         the calls that wait
 */
#ifndef HOST_API_RVMA_SOCKET_PRIVATE_H
#define HOST_API_RVMA_SOCKET_PRIVATE_H

#include <sys/queue.h>

#include "../handlers/wire/rvma_socket.h"
#include "rvma_private.h"
#include "rvma_socket.h"

#define RVMA_HEAD   ((uint32_t)sizeof(struct sp_rvma_record))
#define RVMA_ROUTES 64u /* peers of datagrams that are cached */
#define RVMA_WAYS   4u	/* the cache is set-associative */

/* Bytes of the put that carries a record of `length` bytes. */
#define RVMA_RECORD_BYTES(length)                                                                                      \
	(RVMA_HEAD + ((length) + SP_RVMA_RECORD_ALIGN - 1) / SP_RVMA_RECORD_ALIGN * SP_RVMA_RECORD_ALIGN)

/* A record in host byte order. One that has arrived is untrusted. */
struct rvma_record {
	uint8_t type;
	uint16_t length, record;
	uint32_t sequence, limit;
	uint64_t stream, source;
	struct rvma_socket_address from;
	const uint8_t *bytes;
};

/* A record that has arrived and that the application has not read. It is a copy: an application that does not read
 * holds no buffer of the bucket. */
struct rvma_cell {
	STAILQ_ENTRY(rvma_cell) link;
	struct rvma_socket_address from; /* of a datagram */
	uint32_t sequence;
	uint16_t length, read;
	bool end;
	uint8_t *bytes;
};

STAILQ_HEAD(rvma_cells, rvma_cell);

struct rvma_route {
	struct rvma_peer *peer; /* NULL: none */
	uint32_t users;		/* slots */
};

/* A record in flight, or waiting to be sent again. */
struct rvma_slot {
	STAILQ_ENTRY(rvma_slot) link;
	struct rvma_op *op;	    /* NULL: waiting */
	struct rvma_stream *stream; /* NULL: a datagram, or a reset for an unknown stream */
	struct rvma_route *route;   /* NULL: of a stream */
	struct rvma_peer *peer;
	uint64_t mailbox, offset; /* offset: in the socket's region */
	uint32_t size;
	uint8_t type;
	bool refused;
	bool stalled;		     /* waits for room in the context, not for a time */
	sp_time until, retry, pause; /* until: 0: not refused yet */
};

enum rvma_stream_state { RVMA_STREAM_FREE, RVMA_STREAM_CONNECTING, RVMA_STREAM_OPEN };

struct rvma_stream {
	struct rvma_socket *socket;
	STAILQ_ENTRY(rvma_stream) link; /* free, or in the backlog */
	STAILQ_ENTRY(rvma_stream) ready_link, due_link;
	void *user;
	uint8_t state;					 /* enum rvma_stream_state */
	bool backlog, ready, due;			 /* is in that list of the socket */
	bool accept_due, window_due, end_due, probe_due; /* records to send once there is a slot */
	bool established;	  /* the ACCEPT has arrived (we connected), or was delivered (we accepted) */
	bool shut, ended, closed; /* ended: END was sent; closed: the application has no handle */
	bool wants_room;	  /* a send found no room */
	int error;
	struct rvma_socket_address to;
	struct rvma_peer *peer;
	uint64_t token, peer_token; /* our name and the peer's name for the stream */
	sp_time began, alive;	    /* began: 0: not seen by a tick yet; alive: the peer was last known to live */

	/* out */
	uint32_t next_out, limit_out; /* sequence numbers; the peer takes those below limit_out */
	uint32_t slots, refused;      /* slots of this stream; those refused and not delivered since */
	uint16_t record;

	/* in: cells by sequence number */
	struct rvma_cells cells;
	struct rvma_cell *last; /* the one with the highest number, unless cells is empty */
	uint32_t consumed;	/* the application has read all below */
	uint32_t limit_in;	/* the peer may send what is below */
	uint32_t known_end;	/* the peer has sent what is below */
	uint32_t missing;	/* number of the record that is missing since gap_since */
	sp_time gap_since;	/* 0: no gap */
	bool end_known;		/* END has arrived: its number is known_end - 1 */
};

STAILQ_HEAD(rvma_slots, rvma_slot);
STAILQ_HEAD(rvma_streams, rvma_stream);

struct rvma_socket {
	struct rvma *rvma;
	struct rvma_socket_attr attr;
	struct rvma_socket_address name;
	struct rvma_window *window;
	struct sp_mr *mr; /* buffers | notifications | slots */
	struct rvma_socket_status status;
	sp_time now, tick;
	uint64_t random;
	int error;
	bool closing, blocked; /* blocked: a datagram that has arrived finds no cell */

	/* the bucket: buffer k is in place k % buffers */
	uint64_t posted, taken, puts; /* puts: into the buffers taken */
	uint64_t asked;		      /* 1 + the buffer that the NIC was last asked to complete early */
	uint64_t notices, slots_at;   /* offsets */
	uint32_t at;		      /* in the oldest buffer */
	uint32_t stride;	      /* of slots and cells */

	uint8_t *cell_bytes;
	struct rvma_cell *cell;
	struct rvma_cells cells, datagram; /* cells: free */
	uint32_t cells_free, datagrams, datagrams_most;
	uint32_t credit; /* cells that no datagram, no stream of its own right and no peer's window can claim */

	struct rvma_slot *slot;
	struct rvma_slots slots, in_flight, waiting; /* slots: free */
	uint32_t slots_free;
	struct rvma_route route[RVMA_ROUTES];
	/* rvma_stream_sent: a pointer, so that sending does not depend on streams */
	void (*sent)(struct rvma_stream *st, uint8_t type, int rc);

	struct rvma_stream *stream;
	struct rvma_streams streams, backlog, ready, due; /* streams: used before and free */
	uint32_t streams_fresh, backlogs;		  /* streams from streams_fresh on were never used */
	bool starved;					  /* a stream that wanted room may have some now */
};

/* a comes before b, in numbers that wrap. */
static inline bool rvma_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

#pragma GCC visibility push(hidden)
/* ---- rvma_socket.c ---- */
uint64_t rvma_entropy(void); /* from the kernel */
uint64_t rvma_random(struct rvma_socket *s);
uint64_t rvma_secret(struct rvma_socket *s); /* nobody can guess it, unless the application has given the seed */
struct rvma_cell *rvma_cell_take(struct rvma_socket *s, const struct rvma_record *r); /* NULL: none is free */
void rvma_cell_free(struct rvma_socket *s, struct rvma_cell *c);

/* ---- rvma_socket_send.c ---- */
/* A slot for a record of st (NULL: of no stream). spare: may come from the slots reserved for records without data.
 * NULL: none is free. */
struct rvma_slot *rvma_slot_take(struct rvma_socket *s, struct rvma_stream *st, bool spare);
uint8_t *rvma_slot_bytes(const struct rvma_socket *s, const struct rvma_slot *slot);
/* Writes the header and sends the record. */
void rvma_slot_send(struct rvma_socket *s, struct rvma_slot *slot, const struct rvma_record *record);
/* DATA records that the stream may send now, at most `most`. */
uint32_t rvma_slots_left(const struct rvma_socket *s, const struct rvma_stream *st, uint32_t most);
void rvma_send_progress(struct rvma_socket *s);
void rvma_send_drop(struct rvma_socket *s); /* drops all records that wait */
sp_time rvma_send_deadline(const struct rvma_socket *s);
/* The cached peer of a datagram or of a reset. */
int rvma_route_find(struct rvma_socket *s, const struct rvma_address *address, struct rvma_route **route);
void rvma_slot_route(struct rvma_slot *slot, struct rvma_route *route, uint16_t port);

/* ---- rvma_socket_stream.c ---- */
struct rvma_stream *rvma_stream_find(const struct rvma_socket *s, uint64_t token); /* NULL: no such stream */
int rvma_stream_new(struct rvma_socket *s, const struct rvma_socket_address *to, struct rvma_stream **out);
void rvma_stream_ready(struct rvma_stream *st); /* rvma_socket_ready names it next */
void rvma_stream_due(struct rvma_stream *st);	/* it has records to send */
void rvma_stream_sent(struct rvma_stream *st, uint8_t type, int rc);
void rvma_stream_fail(struct rvma_stream *st, int error, bool reset);
void rvma_streams_progress(struct rvma_socket *s);
void rvma_streams_end(struct rvma_socket *s);

/* ---- rvma_socket_stream_recv.c ---- */
void rvma_stream_received(struct rvma_socket *s, const struct rvma_record *r);

/* ---- rvma_socket_recv.c ---- */
int rvma_bucket_post(struct rvma_socket *s); /* posts the buffers that are missing */
int rvma_bucket_take(struct rvma_socket *s); /* takes what has arrived */
#pragma GCC visibility pop

#endif
