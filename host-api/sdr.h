/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SDR, software-defined RDMA: messages that may arrive in part, and a bitmap that shows which chunks have arrived
 * (arXiv 2505.05366, section 3). The caller builds reliability on top, with the bitmap and streaming sends.
 *
 * Order: sdr_context_create, sdr_qp_create, sdr_qp_info_get; exchange the struct sdr_qp_info with the peer by any
 * means; sdr_qp_connect. The receiver posts buffers, the sender sends. The k-th message sent lands in the k-th receive
 * posted. The NIC sends it only when that receive is posted: it waits for a clear-to-send of the peer.
 *
 * Results: 0 is success. -EAGAIN means not now, try again; the call had no effect unless its comment says otherwise.
 * Everything else is an error:
 *   -EINVAL       an argument is out of its range
 *   -EFAULT       a range is not within its memory region
 *   -EOPNOTSUPP   the QP was created without this direction
 *   -ENODEV       the NIC has ended
 *   -ECONNABORTED the NIC has died
 *   -ECONNRESET   the NIC has ended the QP's context
 *   -EIO          the QP does not work any more
 * The last two are permanent. The application owns its buffers again after sdr_qp_destroy, after -ECONNRESET at once.
 * Bitmaps can be read until sdr_qp_destroy; after -ECONNRESET their content is undefined.
 *
 * Calls do not wait, and do not drive the NIC: call sp_progress() for an embedded NIC without threads. Only the create
 * calls allocate. Calls named ..._wait, sdr_recv_packets_get and sdr_qp_connect do wait, as their comments say.
 * Threads: one at a time for a device and everything opened on it. Bytes, messages and chunks count from 0.
 */
#ifndef SPINDLE_SDR_H
#define SPINDLE_SDR_H

#include <stdbool.h>

#include "spindle.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sdr_context;
struct sdr_qp;
struct sdr_send; /* a message being sent: valid until sdr_send_poll returns 0 */
struct sdr_recv; /* a posted receive: valid until sdr_recv_complete returns 0 */

/* ---- contexts and QPs ---- */
struct sdr_context_attr {
	uint32_t channels; /* QPs per generation that a sender spreads its packets over; 0: 1 */
};

int sdr_context_create(struct sp_dev *dev, const struct sdr_context_attr *attr, struct sdr_context **context);
int sdr_context_destroy(struct sdr_context *context); /* -EBUSY while it has QPs */

/* Erasure coding in the NIC (arXiv 2505.05366, section 4): messages come in pairs, 2j is data and 2j + 1 its parity.
 * The data is cut into submessages of k chunks, each with m chunks of parity. The receiver's NIC repairs lost chunks in
 * place; they count as arrived. MDS: any m losses of k + m chunks; k + m is at most 255. XOR: one loss in each of m
 * groups, m is at most k. */
enum sdr_code { SDR_CODE_NONE, SDR_CODE_MDS, SDR_CODE_XOR };
struct sdr_ec {
	enum sdr_code code;
	uint32_t k, m; /* default 32 and 8 */
};
#define SDR_EC_CODES 15

/* Zero is the default for every field. Fields marked = must be the same at both ends of a connection. */
struct sdr_qp_attr {
	uint32_t mtu;		    /* = payload bytes of a packet, 64 to 4096; default 1024 */
	uint32_t chunk_bytes;	    /* = bytes for one bit of the bitmap, a multiple of mtu; default 65536, or the
					 multiple of mtu below it */
	uint64_t max_message_bytes; /* = at most mtu * 2^(offset bits); default 16 MiB, or that limit if lower */
	uint32_t max_messages;	    /* = in flight, each way; at most 2^(id bits); default 64 */
	uint32_t generations; /* = default 4; the NIC recognises packets that are up to max_messages * generations - 1
				 messages late */
	const char *split;    /* = bits of the immediate, "id+offset+user"; default "10+18+4" */
	uint32_t rkey;	   /* key that packets to this QP must carry; 0: made from the nonce. Without implicit_credit it
			      goes up by one after max_messages * generations messages */
	uint32_t qpn;	   /* first of the generations * channels QP numbers; 0: the first free range from 0x10000 up,
			      aligned to that number rounded up to a power of two */
	uint64_t rate_bps; /* limit for sending, bit/s; 0: none */
	uint32_t segments; /* pieces of messages queued for sending; default 1024 */
	uint32_t control_slots; /* datagrams queued for sending, and received datagrams that are kept; 1 to 4096,
				   default 64 */
	bool no_send, no_recv;
	struct sdr_ec ec;     /* = with a code, max_messages is even, and generations at least 2 with implicit credit */
	bool implicit_credit; /* = both ends send without clear-to-send (plain RDMA peers) */
	uint64_t nonce;	      /* identifies this connection; 0: random. Set it where runs must repeat exactly */
	sp_time cts_interval; /* first interval at which a clear-to-send is repeated; default 1 ms */
	sp_time max_packet_life; /* quiet time before a slot and generation are used again; default 10 ms */
	int family;		 /* AF_INET or AF_INET6; 0: the family of the NIC's address, IPv4 first */
	const char *name;	 /* of the NIC's execution context; NULL: "sdr-" and the QP number */
};

/* error may be NULL; its key is named as in nic.ini. -EADDRINUSE: qpn is taken. -EADDRNOTAVAIL: no address. */
int sdr_qp_create(struct sdr_context *context, const struct sdr_qp_attr *attr, struct sdr_qp **qp,
		  struct sp_error *error);
/* All handles of the QP become invalid, the application owns the buffers again. -EAGAIN, -EBUSY: call again. */
int sdr_qp_destroy(struct sdr_qp *qp);

/* The description that one end sends to the other unchanged: 128 bytes in the byte order of its maker. magic shows
 * whether that is ours. */
struct sdr_qp_info {
	uint32_t magic, version;
	uint8_t ip[16];		   /* IPv4 mapped into IPv6 */
	uint32_t qpn, control_qpn; /* control_qpn 0: implicit credit */
	uint64_t nonce;
	uint32_t rkey, mtu, chunk_bytes, max_messages, generations, channels;
	uint64_t max_message_bytes;
	uint8_t split[3];	     /* id, offset, user bits */
	uint8_t ec_code, ec_k, ec_m; /* enum sdr_code; k and m 0 with SDR_CODE_NONE */
	uint8_t reserved[50];
};
#define SDR_QP_INFO_MAGIC   0x51524453u
#define SDR_QP_INFO_VERSION 2u

int sdr_qp_info_get(struct sdr_qp *qp, struct sdr_qp_info *info);
/* Waits for the NIC (not for the peer). -EPROTO: the parameters of the two ends differ (sdr_qp_mismatch says which).
 * -EMSGSIZE: mtu is more than the NIC's port takes. -EISCONN. */
int sdr_qp_connect(struct sdr_qp *qp, const struct sdr_qp_info *peer);
/* The first parameter in which the peer differs, or NULL. */
const char *sdr_qp_mismatch(const struct sdr_qp *qp, const struct sdr_qp_info *peer);
/* Ends the connection and drops what was not sent. The QP cannot be connected again. */
int sdr_qp_disconnect(struct sdr_qp *qp);

struct sdr_qp_status {
	uint32_t id;	     /* of the NIC's context */
	bool connected;	     /* on this side */
	bool peer_seen;	     /* a clear-to-send has arrived */
	bool peer_restarted; /* the peer has another nonce: it has lost this connection */
	bool closed;
	uint64_t may_send;  /* messages that the peer has cleared for sending, cumulative */
	uint64_t granted;   /* receives that the peer may send to, cumulative: open ones, or, with implicit credit,
			       all posted */
	uint64_t completed; /* receives completed, cumulative: unchanged means that no further receive is complete */
	uint64_t repaired;  /* chunks repaired by erasure coding */
	uint64_t repaired_runs; /* runs of neighbouring chunks that these were lost in; modulo 2^24 */
	uint64_t queued;	/* pieces of messages handed over that have not left */
	int error;		/* 0, or what all further calls return */
	uint32_t control_bytes; /* maximum length of a datagram; 0: no datagrams */
	uint64_t control_lost;	/* received datagrams overwritten before sdr_control_recv took them; counted once it has
				   returned -EAGAIN */
};
int sdr_qp_status(struct sdr_qp *qp, struct sdr_qp_status *status);

/* ---- memory ---- */
int sdr_mr_alloc(struct sdr_context *context, uint64_t len, struct sp_mr **mr);		  /* see sp_mr_alloc */
int sdr_mr_reg(struct sdr_context *context, void *addr, uint64_t len, struct sp_mr **mr); /* see sp_mr_reg */
int sdr_mr_dereg(struct sp_mr *mr);							  /* -EBUSY while in use */

/* ---- sending ---- */
/* One-shot: len bytes (0 is fine) at offset of mr, with the user's immediate. -EAGAIN: max_messages are in flight, or
 * no room for another segment. -ENOTCONN before sdr_qp_connect. */
int sdr_send_post(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, uint32_t immediate,
		  struct sdr_send **send);
/* Begins a message of `length` bytes (0 is fine) that is sent piece by piece. */
int sdr_send_stream_start(struct sdr_qp *qp, uint64_t length, uint32_t immediate, struct sdr_send **send);
/* Sends len bytes as bytes [at, at + len) of the message: any piece, in any order, any number of times (a
 * retransmission). at is a multiple of mtu. len is one, too, unless the piece ends the message. len is 0 only in a
 * message of no bytes: its one packet (mr: NULL). */
int sdr_send_stream_continue(struct sdr_send *send, struct sp_mr *mr, uint64_t offset, uint64_t len, uint64_t at);
/* No more pieces follow. The handle stays valid until sdr_send_poll returns 0. */
int sdr_send_stream_end(struct sdr_send *send);
/* 0: the caller owns the buffers again (the peer may not have the message yet) and the handle is invalid. Of a stream
 * that was not ended, 0 means that all pieces so far have left; more may follow. -EAGAIN: not yet. The port may send
 * payload from where it lies: bytes changed before 0 spoil the packets that they are in (wrong ICRC, dropped by the
 * peer), but no others. After sdr_qp_destroy or -ECONNRESET, sp_mr_free returns -EBUSY while a port still has such a
 * packet. */
int sdr_send_poll(struct sdr_send *send);
uint64_t sdr_send_message(const struct sdr_send *send); /* its number k */

/* Bytes of parity of a message of len bytes, in whole chunks: sender and receiver post that much. 0: len is 0, or the
 * QP has no erasure coding. */
uint64_t sdr_ec_parity_bytes(const struct sdr_qp *qp, uint64_t len);
/* Writes the codes that the parity of a message may use and returns their number; 0: the QP has no erasure coding. The
 * first is the QP's code. With MDS there are others with less parity or shorter submessages, none with more parity for
 * the same data. Both ends have the same codes, and the receiver's NIC recognises each. */
unsigned sdr_ec_codes(const struct sdr_qp *qp, struct sdr_ec codes[SDR_EC_CODES]);
/* Sends the parity of the message before. Its data are len bytes at offset of mr, sent already or not. The NIC makes
 * the parity at scratch_offset of scratch, which has room for sdr_ec_parity_bytes(), and sends it submessage by
 * submessage. The caller owns data and scratch again when sdr_send_poll returns 0. As message 2j + 1, nothing else may
 * be sent but a stream that stays empty: no parity. -EINVAL: the message before is no data, or the parity is longer
 * than max_message_bytes. -EOPNOTSUPP: no erasure coding. Otherwise as sdr_send_post. */
int sdr_send_parity(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, struct sp_mr *scratch,
		    uint64_t scratch_offset, struct sdr_send **send);
/* The same with code `which` of sdr_ec_codes(). -EINVAL: no such code, too. */
int sdr_send_parity_of(struct sdr_qp *qp, unsigned which, struct sp_mr *mr, uint64_t offset, uint64_t len,
		       struct sp_mr *scratch, uint64_t scratch_offset, struct sdr_send **send);

/* ---- receiving ---- */
/* len bytes (0 to max_message_bytes) at offset of mr for the next message. -EAGAIN: max_messages are posted. */
int sdr_recv_post(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, struct sdr_recv **recv);
/* The live bitmap: bit i of word i/64 is set when all bytes of chunk i are in place, and never cleared. chunks: their
 * number by the length known now. It shrinks once if the sender's length turns out to be less than what was posted.
 * Read the words with acquire semantics (sdr_recv_chunk does) before reading the bytes. */
int sdr_recv_bitmap_get(struct sdr_recv *recv, const uint64_t **bitmap, uint64_t *chunks);

static inline bool sdr_recv_chunk(const uint64_t *bitmap, uint64_t chunk)
{
	return __atomic_load_n(&bitmap[chunk / 64], __ATOMIC_ACQUIRE) >> (chunk % 64) & 1;
}

/* The bitmap of the packets of one chunk, packet 0 of the chunk in bit 0 of word 0. `words` has room for `max` words of
 * 64 bits (-ENOSPC); *packets is set to the number of packets. Asks the NIC and waits for its answer. -ERANGE: no such
 * chunk. -EAGAIN: the receive is not open yet. */
int sdr_recv_packets_get(struct sdr_recv *recv, uint64_t chunk, uint64_t *words, size_t max, uint64_t *packets);
/* The user's immediate. *mask (may be NULL) is set to the bits of it that have arrived. -EAGAIN: not all have arrived
 * yet. -ENODATA: they never will, because the complete message has too few packets to carry them, or the split has no
 * user bits. */
int sdr_recv_imm_get(struct sdr_recv *recv, uint32_t *immediate, uint32_t *mask);

struct sdr_recv_status {
	uint64_t message;  /* k */
	bool open;	   /* the NIC accepts packets for it */
	bool complete;	   /* all chunks have arrived */
	bool length_known; /* the sender has announced it; otherwise length is as posted */
	uint64_t length;
	uint64_t packets; /* distinct packets that have arrived; with several workers some are counted a moment later */
};
int sdr_recv_status(struct sdr_recv *recv, struct sdr_recv_status *status);
int sdr_recv_test(struct sdr_recv *recv); /* 0: complete, -EAGAIN: not (yet) */
/* Takes the buffer back, complete or not, and frees the slot for another receive. Every receive needs it. The first
 * call asks the NIC. -EAGAIN until the NIC has released the buffer, then 0 and the handle is invalid. Late packets do
 * not write to the buffer. */
int sdr_recv_complete(struct sdr_recv *recv);

/* ---- datagrams: small messages between the two libraries ---- */
#define SDR_CONTROL_BYTES 1024u /* maximum length; where mtu is below 1028: mtu - 4, but never less than 64 */

/* Copies len bytes (0 is fine) and sends them to the peer. Needs no receive and no clear-to-send, and works for any
 * direction of the QP. A datagram may be lost, repeated or reordered. The peer drops one that arrives before its
 * sdr_qp_connect. rate_bps does not apply. While data waits too, the NIC sends no more datagrams than packets of data.
 * -EAGAIN: control_slots wait to be sent. -EMSGSIZE: more than SDR_CONTROL_BYTES. -ENOTCONN. -EOPNOTSUPP: credit is
 * implicit. */
int sdr_control_send(struct sdr_qp *qp, const void *bytes, uint32_t len);
/* Takes the oldest received datagram: copies at most `room` bytes and returns its length, which may be 0. -EAGAIN:
 * none. -EMSGSIZE: it is longer than room; it stays, and the content of bytes is undefined. -EOPNOTSUPP: credit is
 * implicit. When control_slots are full, a new datagram overwrites the oldest. Works after sdr_qp_disconnect, too. */
int sdr_control_recv(struct sdr_qp *qp, void *bytes, uint32_t room);

/* ---- calls that wait, in real time ----
 * They drive the NIC (sp_progress, sp_clock) until done or timeout (ps; SP_NEVER: no limit): then -ETIMEDOUT. */
int sdr_send_wait(struct sdr_send *send, sp_time timeout); /* until sdr_send_poll says 0 */
enum sdr_wait { SDR_WAIT_ALL /* complete */, SDR_WAIT_ANY /* more chunks than *seen; updates *seen */ };
int sdr_recv_wait(struct sdr_recv *recv, enum sdr_wait what, uint64_t *seen, sp_time timeout);
int sdr_recv_complete_wait(struct sdr_recv *recv, sp_time timeout);

#ifdef __cplusplus
}
#endif
#endif
