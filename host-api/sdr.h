/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SDR, software-defined RDMA: messages that may arrive in part, and a bitmap that says which part (arXiv 2505.05366,
 * section 3). Reliability is for the caller to build on top, from the bitmap and streaming sends.
 *
 * Order: sdr_context_create, sdr_qp_create, sdr_qp_info_get; exchange the struct sdr_qp_info with the peer by any
 * means; sdr_qp_connect. The receiver posts buffers, the sender sends: the k-th message sent lands in the k-th receive
 * posted, and leaves only when that receive is posted (a clear-to-send is exchanged underneath).
 *
 * Results: 0 is success, -EAGAIN "not now, try again" (without effect, unless said otherwise), everything else an
 * error: -EINVAL      an argument is out of its range                -EFAULT  a range is not within its memory region
 *   -EOPNOTSUPP  the QP was made without this direction         -ENODEV  the NIC has ended
 *   -ECONNABORTED  the NIC has died
 *   -ECONNRESET  the QP's context was ended by the NIC          -EIO     the QP does not work any more
 * The last two stay: buffers are the caller's again with sdr_qp_destroy, after -ECONNRESET at once. Bitmaps can be read
 * until sdr_qp_destroy; after -ECONNRESET they say nothing any more.
 * Calls do not wait, do not allocate (but create) and do not drive the NIC: call sp_progress() for an embedded NIC
 * without threads. Calls named ..._wait and sdr_recv_packets_get, sdr_qp_connect do wait, as their comments say.
 * Threads: one at a time for a device and all that hangs off it. Bytes, messages and chunks count from 0.
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
struct sdr_send; /* a message on its way out: valid until sdr_send_poll has said 0 */
struct sdr_recv; /* a posted receive: valid until sdr_recv_complete has said 0 */

/* ---- contexts and QPs ----------------------------------------------------------------------------------------------
 */
struct sdr_context_attr {
	uint32_t channels; /* QPs a generation over which a sender spreads its packets; 0: 1 */
};

int sdr_context_create(struct sp_dev *dev, const struct sdr_context_attr *attr, struct sdr_context **context);
int sdr_context_destroy(struct sdr_context *context); /* -EBUSY while it has QPs */

/* Erasure coding in the NIC (arXiv 2505.05366, section 4): messages come in pairs, 2j is data and 2j + 1 its parity.
 * Data are cut into submessages of k chunks, each with m chunks of parity; what was lost of them is repaired in place
 * and counts as arrived. MDS: any m losses of k + m chunks; k + m is at most 255. XOR: one loss in each of m groups,
 * m is at most k. */
enum sdr_code { SDR_CODE_NONE, SDR_CODE_MDS, SDR_CODE_XOR };
struct sdr_ec {
	enum sdr_code code;
	uint32_t k, m; /* default 32 and 8 */
};
#define SDR_EC_CODES 15

/* Zero is the default for every field. Both ends of a connection need the same in those marked =. */
struct sdr_qp_attr {
	uint32_t mtu;		    /* = payload bytes of a packet, 64 to 4096; default 1024 */
	uint32_t chunk_bytes;	    /* = bytes for one bit of the bitmap, a multiple of mtu; default 65536, or the
					 multiple of mtu below it */
	uint64_t max_message_bytes; /* = at most mtu * 2^(offset bits); default 16 MiB, or that limit if lower */
	uint32_t max_messages;	    /* = in flight, each way; at most 2^(id bits); default 64 */
	uint32_t generations;	/* = default 4; a packet up to max_messages * generations - 1 messages late is told */
	const char *split;	/* = bits of the immediate, "id+offset+user"; default "10+18+4" */
	uint32_t rkey;		/* what packets to us must carry; 0: made from the nonce */
	uint32_t qpn;		/* first of the generations * channels QP numbers; 0: the library takes the first
				   free range from 0x10000 up, in steps of that many rounded up to a power of two */
	uint64_t rate_bps;	/* limit for sending, bit/s; 0: none */
	uint32_t segments;	/* pieces of messages queued for sending; default 1024 */
	uint32_t control_slots; /* datagrams queued for sending, and datagrams of the peer's that are kept; 1 to 4096,
				   default 64 */
	bool no_send, no_recv;
	struct sdr_ec ec;     /* = then max_messages is even, and generations at least 2 with implicit credit */
	bool implicit_credit; /* = the peer sends without clear-to-send, and to it none is needed (plain RDMA peers) */
	uint64_t nonce;	      /* names this connection; 0: random. Give one where runs must repeat exactly */
	sp_time cts_interval; /* first interval at which a clear-to-send is repeated; default 1 ms */
	sp_time max_packet_life; /* quiet time before a slot and generation are used again; default 10 ms */
	int family;		 /* AF_INET or AF_INET6; 0: whichever the NIC has an address of, IPv4 first */
	const char *name;	 /* of the NIC's execution context; NULL: "sdr-" and the QP number */
};

/* error may be NULL; its key is named as in nic.ini. -EADDRINUSE: qpn is taken. -EADDRNOTAVAIL: no address. */
int sdr_qp_create(struct sdr_context *context, const struct sdr_qp_attr *attr, struct sdr_qp **qp,
		  struct sp_error *error);
/* All handles of the QP end with it, buffers are the caller's again. */
int sdr_qp_destroy(struct sdr_qp *qp);

/* What one end tells the other, as it is: 128 bytes, in the byte order of its maker (magic tells if that is not ours).
 */
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
#define SDR_QP_INFO_VERSION 1u

int sdr_qp_info_get(struct sdr_qp *qp, struct sdr_qp_info *info);
/* Waits for the NIC (not for the peer). -EPROTO: the ends do not fit (what differs: sdr_qp_mismatch). -EMSGSIZE: mtu is
 * more than the NIC's port takes. -EISCONN. */
int sdr_qp_connect(struct sdr_qp *qp, const struct sdr_qp_info *peer);
/* The first parameter in which the peer differs, or NULL. */
const char *sdr_qp_mismatch(const struct sdr_qp *qp, const struct sdr_qp_info *peer);
/* Ends the connection: what was not sent is let go. The QP cannot be connected again. */
int sdr_qp_disconnect(struct sdr_qp *qp);

struct sdr_qp_status {
	uint32_t id;	     /* of the NIC's context */
	bool connected;	     /* by us */
	bool peer_seen;	     /* a clear-to-send has come */
	bool peer_restarted; /* the peer has another nonce: it holds nothing of this connection any more */
	bool closed;
	uint64_t may_send;	/* messages that the peer has cleared to be sent, cumulative */
	uint64_t granted;	/* receives open so far, cumulative */
	uint64_t completed;	/* receives that have become complete: when this has not changed, none has */
	uint64_t repaired;	/* chunks that erasure coding has made */
	uint64_t repaired_runs; /* of neighbours, that these were lost in; modulo 2^24 */
	uint64_t queued;	/* pieces of messages that were handed over and have not left */
	int error;		/* 0, or what all further calls return */
	uint32_t control_bytes; /* what a datagram may have; 0: there are none */
	uint64_t control_lost;	/* datagrams that others took the place of before sdr_control_recv took them; counted
				   once it has said that there are no more */
};
int sdr_qp_status(struct sdr_qp *qp, struct sdr_qp_status *status);

/* ---- memory --------------------------------------------------------------------------------------------------------
 */
int sdr_mr_alloc(struct sdr_context *context, uint64_t len, struct sp_mr **mr);		  /* see sp_mr_alloc */
int sdr_mr_reg(struct sdr_context *context, void *addr, uint64_t len, struct sp_mr **mr); /* see sp_mr_reg */
int sdr_mr_dereg(struct sp_mr *mr);							  /* -EBUSY while in use */

/* ---- sending -------------------------------------------------------------------------------------------------------
 */
/* One-shot: len bytes (0 is fine) at offset of mr, with the user's immediate. -EAGAIN: max_messages are in flight, or
 * no room for another segment. -ENOTCONN before sdr_qp_connect. */
int sdr_send_post(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, uint32_t immediate,
		  struct sdr_send **send);
/* A message of `length` bytes (0 is fine), sent piece by piece. The length is said first, so that the end is known. */
int sdr_send_stream_start(struct sdr_qp *qp, uint64_t length, uint32_t immediate, struct sdr_send **send);
/* Sends len bytes as bytes [at, at + len) of the message: any piece, in any order, as often as liked (a
 * retransmission). at is a multiple of mtu, and so is len unless the piece ends the message; 0 only in a message of no
 * bytes, whose one packet it is (mr: NULL). */
int sdr_send_stream_continue(struct sdr_send *send, struct sp_mr *mr, uint64_t offset, uint64_t len, uint64_t at);
/* No more pieces. The handle lives on until sdr_send_poll says 0. */
int sdr_send_stream_end(struct sdr_send *send);
/* 0: the buffers are the caller's again (not: the peer has the message), and the handle is gone, unless it is a stream
 * that was not ended: then all pieces so far have left, and more may follow. -EAGAIN: not yet, for payload may be sent
 * from where it lies: bytes that are changed before this says 0 spoil the packets that they are in (wrong ICRC, dropped
 * by the peer), and no others. After sdr_qp_destroy or -ECONNRESET, sp_mr_free says -EBUSY while a port still has some.
 */
int sdr_send_poll(struct sdr_send *send);
uint64_t sdr_send_message(const struct sdr_send *send); /* k */

/* Bytes of the parity of a message of len bytes, in whole chunks: what sender and receiver post for it. 0: len is 0, or
 * the QP has no erasure coding. */
uint64_t sdr_ec_parity_bytes(const struct sdr_qp *qp, uint64_t len);
/* The codes that the parity of a message may be of: the QP's, which is the first, and with MDS some that have less
 * parity or shorter submessages, none of them more parity for the same data. How many there are; 0: the QP has no
 * erasure coding. Both ends have the same, and the receiver's NIC recognises each. */
unsigned sdr_ec_codes(const struct sdr_qp *qp, struct sdr_ec codes[SDR_EC_CODES]);
/* Sends the parity of the message before, whose data are len bytes at offset of mr, be they sent already or not: the
 * NIC makes it at scratch_offset of scratch, which has room for sdr_ec_parity_bytes(), and sends submessage by
 * submessage. Data and scratch are the caller's again when sdr_send_poll says 0. Nothing else may be sent as message
 * 2j + 1 but a stream that stays empty, for no parity. -EINVAL: the message before is no data, or the parity is longer
 * than max_message_bytes. -EOPNOTSUPP: no erasure coding. Otherwise as sdr_send_post. */
int sdr_send_parity(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, struct sp_mr *scratch,
		    uint64_t scratch_offset, struct sdr_send **send);
/* The same, of code `which` of sdr_ec_codes(). -EINVAL: there is none such, too. */
int sdr_send_parity_of(struct sdr_qp *qp, unsigned which, struct sp_mr *mr, uint64_t offset, uint64_t len,
		       struct sp_mr *scratch, uint64_t scratch_offset, struct sdr_send **send);

/* ---- receiving -----------------------------------------------------------------------------------------------------
 */
/* len bytes (0 to max_message_bytes) at offset of mr for the next message. -EAGAIN: max_messages are posted. */
int sdr_recv_post(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, struct sdr_recv **recv);
/* The live bitmap: bit i of word i/64 is set, once for all, when all bytes of chunk i are in place. chunks: how many
 * there are, by the length known now: it shrinks once when the sender's length turns out to be less than what was
 * posted. Read the words with acquire semantics (sdr_recv_chunk does) before reading the bytes. */
int sdr_recv_bitmap_get(struct sdr_recv *recv, const uint64_t **bitmap, uint64_t *chunks);

static inline bool sdr_recv_chunk(const uint64_t *bitmap, uint64_t chunk)
{
	return __atomic_load_n(&bitmap[chunk / 64], __ATOMIC_ACQUIRE) >> (chunk % 64) & 1;
}

/* The packets of one chunk, packet 0 of the chunk in bit 0 of word 0: `words` has room for `max` of 64 bits (-ENOSPC),
 * *packets gets how many there are. Asks the NIC and waits for its answer. -ERANGE: no such chunk. -EAGAIN: the receive
 * is not open yet. */
int sdr_recv_packets_get(struct sdr_recv *recv, uint64_t chunk, uint64_t *words, size_t max, uint64_t *packets);
/* The user's immediate. mask (may be NULL) gets which bits of it have come. -EAGAIN: not all have yet. -ENODATA: nor
 * will they, the message is complete with too few packets to carry them (or the split has no user bits). */
int sdr_recv_imm_get(struct sdr_recv *recv, uint32_t *immediate, uint32_t *mask);

struct sdr_recv_status {
	uint64_t message;  /* k */
	bool open;	   /* the NIC takes packets for it */
	bool complete;	   /* all chunks are there */
	bool length_known; /* the sender has told; otherwise length is as posted */
	uint64_t length;
	uint64_t packets; /* distinct ones that have come; with several workers some may be counted a moment later */
};
int sdr_recv_status(struct sdr_recv *recv, struct sdr_recv_status *status);
int sdr_recv_test(struct sdr_recv *recv); /* 0: complete, -EAGAIN: not (yet) */
/* Takes the buffer back, complete or not; the slot is free for another receive. Mandatory for each receive. The first
 * call asks the NIC; -EAGAIN until it has let go, then 0 and the handle is gone. Late packets touch nothing. */
int sdr_recv_complete(struct sdr_recv *recv);

/* ---- datagrams: small messages beside the others, for what the two ends have to tell each other ---------------------
 */
#define SDR_CONTROL_BYTES 1024u /* at most; where mtu is below 1028, mtu - 4, but never less than 64 */

/* Sends len bytes (0 is fine) to the peer; they are copied and the caller's again at once. No receive and no
 * clear-to-send is needed, and it works whatever the QP's directions. Like anything else on the network a datagram may
 * be lost, come twice, or overtake others, and one that comes before the peer's sdr_qp_connect is dropped. It is not
 * held up by rate_bps nor counted in it; while data waits too, the NIC sends no more datagrams than packets of data.
 * -EAGAIN: control_slots wait to be sent. -EMSGSIZE: more bytes than SDR_CONTROL_BYTES says. -ENOTCONN.
 * -EOPNOTSUPP: credit is implicit. */
int sdr_control_send(struct sdr_qp *qp, const void *bytes, uint32_t len);
/* Takes the oldest datagram that is there, whose bytes (at most `room`) go to `bytes`: how many they are, 0 is
 * possible. -EAGAIN: there is none. -EMSGSIZE: it has more than room; it stays, and bytes is spoilt. -EOPNOTSUPP:
 * credit is implicit. Of those that come when control_slots are there, each takes the place of the oldest. What has
 * come can be taken after sdr_qp_disconnect, too. */
int sdr_control_recv(struct sdr_qp *qp, void *bytes, uint32_t room);

/* ---- the same, waiting, for programs in real time: drive the NIC (sp_progress, sp_clock) until done or timeout (ps;
 * SP_NEVER: for ever; -ETIMEDOUT) ------------------------------------------------------------------------------------
 */
int sdr_send_wait(struct sdr_send *send, sp_time timeout); /* until sdr_send_poll says 0 */
enum sdr_wait { SDR_WAIT_ALL /* complete */, SDR_WAIT_ANY /* more chunks than *seen; updates *seen */ };
int sdr_recv_wait(struct sdr_recv *recv, enum sdr_wait what, uint64_t *seen, sp_time timeout);
int sdr_recv_complete_wait(struct sdr_recv *recv, sp_time timeout);

#ifdef __cplusplus
}
#endif
#endif
