/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the rvma_socket_ and rvma_stream_ calls: rvma_socket.c (opening), rvma_socket_recv.c (the bucket),
 * rvma_socket_send.c (records on their way), rvma_socket_stream.c. */
#ifndef HOST_API_RVMA_SOCKET_PRIVATE_H
#define HOST_API_RVMA_SOCKET_PRIVATE_H

#include "../handlers/wire/rvma_socket.h"
#include "rvma_private.h"
#include "rvma_socket.h"

#define RVMA_HEAD   ((uint32_t)sizeof(struct sp_rvma_record))
#define RVMA_ROUTES 64u /* peers that datagrams went to last */
#define RVMA_WAYS   4u	/* of these a destination can be in so many places */

/* Of a record's put. */
#define RVMA_RECORD_BYTES(length)                                                                                      \
	(RVMA_HEAD + ((length) + SP_RVMA_RECORD_ALIGN - 1) / SP_RVMA_RECORD_ALIGN * SP_RVMA_RECORD_ALIGN)

/* A record as it was read. Nothing in it is believed. */
struct rvma_heard {
	uint8_t type;
	uint16_t length, record;
	uint32_t sequence, limit;
	uint64_t stream, source;
	struct rvma_socket_address from;
	const uint8_t *bytes;
};

/* A record that has come and was not read: copied out of its buffer, so that whoever does not read holds no buffer. */
struct rvma_cell {
	struct rvma_cell *next;
	struct rvma_socket_address from; /* a datagram's */
	uint32_t sequence;
	uint16_t length, read;
	bool end;
	uint8_t *bytes;
};

struct rvma_route {
	struct rvma_peer *peer; /* NULL: none */
	uint32_t users;		/* slots */
};

/* A record on its way, or waiting to be sent again. */
struct rvma_slot {
	struct rvma_slot *next;
	struct rvma_op *op;	    /* NULL: waiting */
	struct rvma_stream *stream; /* NULL: a datagram, or a reset of what never was a stream */
	struct rvma_route *route;   /* then */
	struct rvma_peer *peer;
	uint64_t mailbox, offset; /* offset: in the socket's region */
	uint32_t size;
	uint8_t type;
	bool refused;
	bool stalled;		     /* waits for room in the context, not for a time */
	sp_time until, retry, pause; /* until: 0: it was not refused yet */
};

enum rvma_stream_state { RVMA_STREAM_FREE, RVMA_STREAM_CONNECTING, RVMA_STREAM_OPEN };

struct rvma_stream {
	struct rvma_socket *socket;
	struct rvma_stream *next; /* free, or in the backlog */
	struct rvma_stream *next_ready, *next_due;
	void *user;
	uint8_t state; /* enum rvma_stream_state */
	bool backlog, ready, due;
	bool owes_accept, owes_window, owes_end, probes; /* to be said when there is room. probes: whatever it says */
	bool greeted;					 /* ours: its ACCEPT came; theirs: was delivered */
	bool shut, ended, closed; /* ended: END was sent; closed: the application has no handle */
	bool wants;		  /* a send found no room */
	int error;
	struct rvma_socket_address to;
	struct rvma_peer *peer;
	uint64_t token, peer_token; /* our name for it, theirs */
	sp_time began, proved;	    /* began: 0: not looked at yet; proved: the peer lived then */

	/* out */
	uint32_t next_out, limit_out; /* sequence numbers; below limit_out the peer takes them */
	uint32_t slots, refused;      /* that are its; of these, that were refused and are not delivered yet */
	uint16_t record;

	/* in: cells by sequence number */
	struct rvma_cell *first, *last;
	uint32_t cells;
	uint32_t consumed;  /* read by the application so far */
	uint32_t told;	    /* the peer may send what is below */
	uint32_t known_end; /* the peer has sent what is below */
	uint32_t missing;   /* gap_since: that one is */
	sp_time gap_since;  /* 0: no gap */
	bool end_known;	    /* END has come: known_end is behind it */
};

struct rvma_list {
	struct rvma_slot *first, *last;
};

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
	bool closing, blocked; /* blocked: a datagram that has come finds no cell */

	/* the bucket: buffer k is in place k % buffers */
	uint64_t posted, taken, puts; /* puts: of the buffers taken */
	uint64_t asked;		      /* + 1: buffer that the NIC was asked for */
	uint64_t notices, slots_at;   /* offsets */
	uint32_t at;		      /* in the oldest buffer */
	uint32_t stride;	      /* of slots and cells */

	uint8_t *cell_bytes;
	struct rvma_cell *cell, *cell_free;
	struct rvma_cell *datagram, *datagram_last;
	uint32_t cells_free, datagrams, datagrams_most;
	uint32_t floating; /* cells that are nobody's: neither a datagram's, nor a stream's own two, nor promised */

	struct rvma_slot *slot, *slot_free;
	struct rvma_list flying, waiting;
	uint32_t slots_free;
	struct rvma_route route[RVMA_ROUTES];

	struct rvma_stream *stream, *stream_free;
	struct rvma_stream *backlog, *backlog_last, *ready, *ready_last, *due, *due_last;
	uint32_t streams_fresh, backlogs; /* from streams_fresh on none has been used */
	bool starved;			  /* a stream wants a slot */
};

/* a comes before b, in numbers that wrap. */
static inline bool rvma_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

#pragma GCC visibility push(hidden)
/* ---- rvma_socket.c ---- */
uint64_t rvma_random(struct rvma_socket *s);
uint64_t rvma_secret(struct rvma_socket *s); /* that nobody can guess, unless the application has given the seed */

/* ---- rvma_socket_recv.c ---- */
int rvma_bucket_post(struct rvma_socket *s); /* buffers, as many as are missing */
int rvma_bucket_take(struct rvma_socket *s); /* what has come */
struct rvma_cell *rvma_cell_take(struct rvma_socket *s, const struct rvma_heard *r); /* NULL: none is free */
void rvma_cell_free(struct rvma_socket *s, struct rvma_cell *c);

/* ---- rvma_socket_send.c ---- */
/* A slot for a record of st, or of none; spare: also from what is kept for other records than data. NULL: none. */
struct rvma_slot *rvma_slot_take(struct rvma_socket *s, struct rvma_stream *st, bool spare);
uint8_t *rvma_slot_bytes(const struct rvma_socket *s, const struct rvma_slot *slot);
/* Writes the header and sends it. */
void rvma_slot_send(struct rvma_socket *s, struct rvma_slot *slot, const struct rvma_heard *record);
/* Records of data that the stream may send, of `most`. */
uint32_t rvma_slots_left(const struct rvma_socket *s, const struct rvma_stream *st, uint32_t most);
void rvma_send_progress(struct rvma_socket *s);
void rvma_send_drop(struct rvma_socket *s); /* all that waits */
sp_time rvma_send_deadline(const struct rvma_socket *s);
/* The peer of a datagram, or of a reset. */
int rvma_route_find(struct rvma_socket *s, const struct rvma_address *address, struct rvma_route **route);
void rvma_slot_route(struct rvma_slot *slot, struct rvma_route *route, uint16_t port);

/* ---- rvma_socket_stream.c ---- */
/* A record of a stream has come. */
void rvma_stream_heard(struct rvma_socket *s, const struct rvma_heard *r);
/* One of its records has ended, and its slot is free. */
void rvma_stream_sent(struct rvma_stream *st, uint8_t type, int rc);
void rvma_stream_fail(struct rvma_stream *st, int error, bool tell);
void rvma_streams_progress(struct rvma_socket *s);
void rvma_streams_end(struct rvma_socket *s);
#pragma GCC visibility pop

#endif
