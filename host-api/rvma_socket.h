/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams and streams over RVMA's receiver-managed mode (paper, section IV-B: placement in order of arrival, for the
 * semantics of sockets). A socket is a mailbox: its number is its port behind a fixed prefix. All that others send to
 * it, datagrams, connects and the bytes of all streams, lands in one bucket of buffers, one record behind the other.
 * There is no buffer per peer: what a socket takes was allocated when it was opened, for one peer or a thousand.
 *
 * A record is one put of one packet. What the bucket has no room for the NIC refuses, and the sender's library sends it
 * again, later and later: that is the flow control between socket and sockets. Of a stream the receiver also says up to
 * which record it takes, so that a stream nobody reads does not hold up the others. Datagrams that nobody reads do.
 *
 * Nothing waits but calls ..._wait, which drive the NIC in real time. For all others rvma_socket_progress does what is
 * due, at the time that it is told. Threads: as the device: one at a time. Nothing is allocated after rvma_socket_open
 * but a peer (rvma_peer_open) for each stream. Calls that say -EAGAIN: not now, again after some progress.
 *
 * Errors beside those named at calls: -EINVAL an argument is out of its range, -ENODEV the NIC has ended, -ECONNABORTED
 * it has died, -ECONNRESET it has ended the context; a socket stays in the latter three.
 *
 * Not secret, not authenticated: who has the key can send to the socket, in anybody's name. But a stream's records
 * carry random numbers that only its two ends know.
 */
#ifndef SPINDLE_RVMA_SOCKET_H
#define SPINDLE_RVMA_SOCKET_H

#include "rvma.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rvma_socket;
struct rvma_stream; /* one end of a connection; valid until rvma_stream_close, or the socket's end */

#define RVMA_SOCKET_MAILBOX 0x5350534F434B0000u /* + port */

/* The whole name of a socket: 40 bytes, which one program may tell another as they are on machines of one kind. */
struct rvma_socket_address {
	struct rvma_address address; /* of its context */
	uint16_t port;
	uint16_t reserved[3];
};

/* Zero is the default for every field. */
struct rvma_socket_attr {
	uint16_t port;	       /* 0: one that is free, from 49152 on */
	bool datagrams;	       /* takes datagrams, which the application reads; otherwise they are thrown away */
	uint32_t backlog;      /* connects taken and not accepted yet, at the most; 0: none are taken */
	uint64_t key;	       /* of the mailbox, and of those sent to: all sockets that talk have the same */
	uint32_t record;       /* bytes of a datagram, or of a piece of a stream, at the most; default: what one packet
				  of the context holds (its mtu less 64), which is also the limit; at least 64 */
	uint32_t buffers;      /* in the bucket; default 16, 2 to 4096, */
	uint32_t buffer_bytes; /* each; default 64 KiB; at least 4 records, at most 16 MiB */
	uint32_t waiting;      /* records that have come and were not read, a quarter of them datagrams; default 1024
				  and four per stream; to 2^20; three quarters must be two per stream */
	uint32_t sending;      /* records on their way, or to be sent again; default 256, 16 to 65536 */
	uint32_t streams;      /* at once, also those that are ending; default 256, at most 65536 */
	uint32_t window; /* records of one stream that may come unread, if there is room; default 64, 2 to 32768 */
	sp_time timeout; /* how long a record may be refused, a connect may take; ps, default 30 s, to an hour */
	sp_time probe;	 /* how long a stream is silent before its peer is asked; ps, default 1 s, to an hour */
	uint64_t seed;	 /* of the random numbers; 0: from the kernel. Not 0: runs can be repeated, and guessed */
};

/* Memory: `buffers` times `buffer_bytes` and (`sending` + `waiting`) records. -EADDRINUSE: the port has a socket.
 * -ENOSPC: the context has no window for it. -ENOBUFS: nor so many buffers. -ENOMEM, -EDQUOT: as sp_mr_alloc. Close it
 * before its context. error may be NULL. */
int rvma_socket_open(struct rvma *rvma, const struct rvma_socket_attr *attr, struct rvma_socket **socket,
		     struct sp_error *error);
/* Streams are reset, and all handles end with it. -EAGAIN: it is closing; records are on their way: again, after some
 * progress, until it says something else. */
int rvma_socket_close(struct rvma_socket *socket);
int rvma_socket_close_wait(struct rvma_socket *socket, sp_time timeout);
int rvma_socket_name(struct rvma_socket *socket, struct rvma_socket_address *name); /* what others reach it by */

/* Does all that is due at `now` (ps), which never goes back: sends again, takes what has come, ends what has timed out.
 * An embedded NIC without workers needs sp_progress besides. */
int rvma_socket_progress(struct rvma_socket *socket, sp_time now);
/* When progress is due at the latest, whatever happens; SP_NEVER: not before something does. */
sp_time rvma_socket_deadline(const struct rvma_socket *socket);
/* Until there is something to take: a datagram, a stream to accept, one that rvma_socket_ready names. timeout of all
 * calls ..._wait: ps, SP_NEVER: for ever, then -EAGAIN. */
int rvma_socket_wait(struct rvma_socket *socket, sp_time timeout);

/* ---- datagrams -----------------------------------------------------------------------------------------------------
 */
/* To a socket that takes datagrams. The bytes are copied. It arrives once or not at all, in any order: refused ones go
 * again until `timeout`. 0; -EMSGSIZE: more than `record`; -EAGAIN: too many are on their way; as rvma_peer_open. */
int rvma_socket_sendto(struct rvma_socket *socket, const void *bytes, size_t len, const struct rvma_socket_address *to);
int rvma_socket_sendto_wait(struct rvma_socket *socket, const void *bytes, size_t len,
			    const struct rvma_socket_address *to, sp_time timeout);
/* The oldest: its length, which may be 0, or more than `room`: then the rest of it is lost. from may be NULL. */
int rvma_socket_recvfrom(struct rvma_socket *socket, void *bytes, size_t room, struct rvma_socket_address *from);
int rvma_socket_recvfrom_wait(struct rvma_socket *socket, void *bytes, size_t room, struct rvma_socket_address *from,
			      sp_time timeout);

/* ---- streams -------------------------------------------------------------------------------------------------------
 */
/* Begins a connection; bytes can be sent when rvma_stream_connected says 0. -EMFILE: `streams` are open. As
 * rvma_peer_open. */
int rvma_socket_connect(struct rvma_socket *socket, const struct rvma_socket_address *to, struct rvma_stream **stream);
/* Begins it, and waits for it; what fails leaves no stream. */
int rvma_socket_connect_wait(struct rvma_socket *socket, const struct rvma_socket_address *to, sp_time timeout,
			     struct rvma_stream **stream);
/* The oldest that has connected to us. from may be NULL. */
int rvma_socket_accept(struct rvma_socket *socket, struct rvma_stream **stream, struct rvma_socket_address *from);
int rvma_socket_accept_wait(struct rvma_socket *socket, struct rvma_stream **stream, struct rvma_socket_address *from,
			    sp_time timeout);
/* One of the accepted or connecting streams that has something new, each once per news: it can be read on, sent to
 * again after -EAGAIN, has connected or failed. Read it until -EAGAIN. -EAGAIN: none has. */
int rvma_socket_ready(struct rvma_socket *socket, struct rvma_stream **stream);
void rvma_stream_set_user(struct rvma_stream *stream, void *user); /* whatever the application likes; NULL at first */
void *rvma_stream_user(const struct rvma_stream *stream);

/* 0, -EAGAIN: not yet. -ECONNREFUSED: nobody listens there, or too many do so. -ETIMEDOUT. */
int rvma_stream_connected(const struct rvma_stream *stream);
/* How many bytes rvma_stream_send would take now, at least 1; or its error. */
int rvma_stream_room(struct rvma_stream *stream);
/* As many of the bytes as there is room for, at least 1: their number. They are copied. -EPIPE: it was shut down.
 * -ENOTCONN: not yet. -ECONNRESET: the peer is gone, or has closed it. -ETIMEDOUT: the peer has no room for too long.
 */
int rvma_stream_send(struct rvma_stream *stream, const void *bytes, size_t len);
/* All of them: 0, or the error, or -EAGAIN: some may have gone. */
int rvma_stream_send_wait(struct rvma_stream *stream, const void *bytes, size_t len, sp_time timeout);
/* What has come, in order, at the most `room`: bytes; 0: the peer has shut down, all is read. -ECONNRESET,
 * -ETIMEDOUT. */
int rvma_stream_recv(struct rvma_stream *stream, void *bytes, size_t room);
int rvma_stream_recv_wait(struct rvma_stream *stream, void *bytes, size_t room, sp_time timeout);
/* No more bytes will go: the peer reads the end behind those that have. It can still send to us. */
int rvma_stream_shutdown(struct rvma_stream *stream);
/* The same, and nothing more is read: the handle is gone. What was sent arrives all the same, while there is progress;
 * what the peer sends from now on is answered by a reset. */
void rvma_stream_close(struct rvma_stream *stream);

/* ---- numbers -------------------------------------------------------------------------------------------------------
 */
struct rvma_socket_status {
	uint64_t sent, received; /* records, of all kinds */
	uint64_t again;		 /* that were refused, and sent once more */
	uint64_t failed;	 /* datagrams that did not arrive, or of which that is not known */
	uint64_t strays;  /* records that came and were thrown away: no such stream, no such kind, not well formed */
	uint64_t refused; /* connects */
	uint64_t resets;  /* streams that did not end well */
	uint64_t posted;  /* buffers, again and again */
	uint64_t asked;	  /* times that the NIC was asked for a buffer that was not full */
	uint64_t memory;  /* bytes of the socket, all together: never changes */
	uint32_t buffers; /* in the bucket: never changes */
	uint32_t record;  /* as agreed with itself: bytes */
	uint32_t waiting, sending, streams; /* now */
};
void rvma_socket_status(const struct rvma_socket *socket, struct rvma_socket_status *status);

#ifdef __cplusplus
}
#endif
#endif
