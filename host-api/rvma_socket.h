/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams and streams over RVMA's receiver-managed mode (paper, section IV-B: placement in order of arrival, for the
 * semantics of sockets). A socket is a mailbox: its mailbox number is its port behind a fixed prefix. Everything sent
 * to it, datagrams, connects and the bytes of all streams, lands in one bucket of buffers, one record behind the other.
 * There is no buffer per peer: all memory of a socket is allocated when it is opened.
 *
 * A record is one put of one packet. The NIC refuses a record if the bucket has no room for it. The sender's library
 * retransmits it with growing pauses: that is the flow control between sockets. Each stream also has a window, so that
 * a stream that nobody reads does not hold up the others. Datagrams that nobody reads do hold up the socket.
 *
 * Only the calls named ..._wait wait; they drive the NIC in real time. For the others, rvma_socket_progress does what
 * is due at the given time. Threads: as the device, one at a time. After rvma_socket_open nothing is allocated but a
 * peer (rvma_peer_open) for each stream. -EAGAIN: not now, call again after some progress.
 *
 * Errors besides those named at calls: -EINVAL an argument is out of its range, -ENODEV the NIC has ended,
 * -ECONNABORTED it has died, -ECONNRESET it has ended the context. The last three are permanent.
 *
 * There is no encryption and no authentication: any holder of the key can send to the socket under any name. But
 * records of a stream carry random numbers that only its two ends know.
 */
#ifndef SPINDLE_RVMA_SOCKET_H
#define SPINDLE_RVMA_SOCKET_H

#include "rvma.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rvma_socket;
struct rvma_stream; /* one end of a connection; valid until rvma_stream_close, or until the socket ends */

#define RVMA_SOCKET_MAILBOX 0x5350534F434B0000u /* + port */

/* The full address of a socket: 40 bytes, which one program may send to another unchanged on machines of the same byte
 * order. */
struct rvma_socket_address {
	struct rvma_address address; /* of its context */
	uint16_t port;
	uint16_t reserved[3];
};

/* Zero is the default for every field. */
struct rvma_socket_attr {
	uint16_t port;	  /* 0: the first free one from 49152 up */
	bool datagrams;	  /* accepts datagrams, which the application reads; otherwise they are dropped */
	uint32_t backlog; /* connects that wait for rvma_socket_accept, at most; 0: connects are refused */
	uint64_t key;	  /* of the mailbox and of its peers: all sockets that communicate use the same key */
	uint32_t record;  /* bytes of a datagram, or of a piece of a stream, at most. Default and limit: what one packet
			     of the context holds (its mtu - 64); at least 64 */
	uint32_t buffers; /* in the bucket; default 16, 2 to 4096, */
	uint32_t buffer_bytes; /* each; default 64 KiB; at least 4 records, at most 16 MiB */
	uint32_t waiting; /* records that have arrived and were not read, a quarter of them datagrams; default 1024 plus
			     four per stream; at most 2^20; three quarters must be two per stream */
	uint32_t sending; /* records in flight or to be retransmitted; default 256, 16 to 65536 */
	uint32_t streams; /* open or ending; default 256, at most 65536 */
	uint32_t window;  /* window of a stream in records, if there is room; default 64, 2 to 32768 */
	sp_time timeout;  /* longest time for retransmissions of a record, and for a connect; ps, default 30 s, at most
			     an hour */
	sp_time probe;	  /* silence after which a stream probes its peer; ps, default 1 s, at most an hour */
	uint64_t seed;	  /* of the random numbers; 0: from the kernel. Otherwise runs can be repeated, and the numbers
			     guessed */
};

/* Memory: `buffers` times `buffer_bytes` and (`sending` + `waiting`) records. -EADDRINUSE: the port is in use. -ENOSPC:
 * the context has no free window. -ENOBUFS: it has not so many free buffers. -ENOMEM, -EDQUOT: as sp_mr_alloc. Close
 * the socket before its context. error may be NULL. */
int rvma_socket_open(struct rvma *rvma, const struct rvma_socket_attr *attr, struct rvma_socket **socket,
		     struct sp_error *error);
/* Resets all streams that have not ended; all handles become invalid. -EAGAIN: records are in flight; call again after
 * some progress until it returns anything else. */
int rvma_socket_close(struct rvma_socket *socket);
int rvma_socket_close_wait(struct rvma_socket *socket, sp_time timeout);
int rvma_socket_name(struct rvma_socket *socket, struct rvma_socket_address *name); /* the address for peers */

/* Does all that is due at `now` (ps), which never decreases: retransmits, takes what has arrived, ends what has timed
 * out. An embedded NIC without workers needs sp_progress, too. */
int rvma_socket_progress(struct rvma_socket *socket, sp_time now);
/* When progress is due at the latest; SP_NEVER: only after an event. */
sp_time rvma_socket_deadline(const struct rvma_socket *socket);
/* Waits until there is a datagram, a stream to accept, or one that rvma_socket_ready returns. timeout of all calls
 * named ..._wait: ps, SP_NEVER: no limit; then -EAGAIN. */
int rvma_socket_wait(struct rvma_socket *socket, sp_time timeout);

/* ---- datagrams ---- */
/* Copies the bytes and sends them to a socket that accepts datagrams. The datagram arrives once or not at all, in any
 * order: a refused one is retransmitted until `timeout`. -EMSGSIZE: more than `record`. -EAGAIN: too many are in
 * flight. Otherwise as rvma_peer_open. */
int rvma_socket_sendto(struct rvma_socket *socket, const void *bytes, size_t len, const struct rvma_socket_address *to);
int rvma_socket_sendto_wait(struct rvma_socket *socket, const void *bytes, size_t len,
			    const struct rvma_socket_address *to, sp_time timeout);
/* Takes the oldest. Returns its length, which may be 0. If it is more than `room`, the rest is lost. from may be
 * NULL. */
int rvma_socket_recvfrom(struct rvma_socket *socket, void *bytes, size_t room, struct rvma_socket_address *from);
int rvma_socket_recvfrom_wait(struct rvma_socket *socket, void *bytes, size_t room, struct rvma_socket_address *from,
			      sp_time timeout);

/* ---- streams ---- */
/* Begins a connection. The stream can send once rvma_stream_connected returns 0. -EMFILE: `streams` are open. Otherwise
 * as rvma_peer_open. */
int rvma_socket_connect(struct rvma_socket *socket, const struct rvma_socket_address *to, struct rvma_stream **stream);
/* Connects and waits. If it fails, there is no stream. */
int rvma_socket_connect_wait(struct rvma_socket *socket, const struct rvma_socket_address *to, sp_time timeout,
			     struct rvma_stream **stream);
/* Takes the oldest stream that a peer has connected. from may be NULL. */
int rvma_socket_accept(struct rvma_socket *socket, struct rvma_stream **stream, struct rvma_socket_address *from);
/* Returns an accepted or connecting stream with an event: more data can be read, it can be sent to after -EAGAIN, it
 * has connected, or it has failed. Returns a stream once for all its events, so read it until -EAGAIN. -EAGAIN: no such
 * stream. */
int rvma_socket_ready(struct rvma_socket *socket, struct rvma_stream **stream);
void rvma_stream_set_user(struct rvma_stream *stream, void *user); /* a pointer of the application; NULL at first */
void *rvma_stream_user(const struct rvma_stream *stream);

/* 0; -EAGAIN: not yet. -ECONNREFUSED: no socket listens there, or its backlog is full. -ETIMEDOUT. */
int rvma_stream_connected(const struct rvma_stream *stream);
/* Bytes that rvma_stream_send would take now, at least 1; or its error. */
int rvma_stream_room(struct rvma_stream *stream);
/* Copies as many of the bytes as there is room for, at least 1, and returns their number. -EPIPE: shut down. -ENOTCONN:
 * not connected yet. -ECONNRESET: the peer is gone or has closed the stream. -ETIMEDOUT: the peer had no room for too
 * long. */
int rvma_stream_send(struct rvma_stream *stream, const void *bytes, size_t len);
/* Received bytes, in order, at most `room`: their number. 0: the peer has shut down, and all is read. -ECONNRESET,
 * -ETIMEDOUT. */
int rvma_stream_recv(struct rvma_stream *stream, void *bytes, size_t room);
/* Ends this direction: the peer reads the end after all bytes sent before. The peer can still send. */
int rvma_stream_shutdown(struct rvma_stream *stream);
/* Shuts down and ends the handle. Bytes sent before still arrive, while there is progress. Bytes that the peer sends
 * from now on are answered by a reset. */
void rvma_stream_close(struct rvma_stream *stream);

/* ---- numbers ---- */
struct rvma_socket_status {
	uint64_t sent, received;	    /* records, of all kinds */
	uint64_t again;			    /* records refused and retransmitted */
	uint64_t failed;		    /* datagrams that did not arrive, or may not have */
	uint64_t strays;		    /* received records dropped: unknown stream, unknown type, malformed */
	uint64_t refused;		    /* connects refused */
	uint64_t resets;		    /* streams that failed */
	uint64_t posted;		    /* buffers posted in all */
	uint64_t asked;			    /* times that the NIC was asked for a buffer that was not full */
	uint64_t memory;		    /* bytes of the socket in all: constant */
	uint32_t buffers;		    /* in the bucket: constant */
	uint32_t record;		    /* bytes, as set or by default */
	uint32_t waiting, sending, streams; /* now */
};
void rvma_socket_status(const struct rvma_socket *socket, struct rvma_socket_status *status);

#ifdef __cplusplus
}
#endif
#endif
