/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliable messages over SDR: schemes that send again what the peer's bitmap shows to be missing. They are made of the
 * public sdr_ calls alone, acknowledgements are datagrams (sdr_control_send) as in handlers/wire/reliability.h.
 *
 * Selective repeat in units of the QP's chunk_bytes (arXiv 2505.05366, section 4). sr-rto sends a unit again so many
 * round trips after it left (3), sr-nack as soon as an answer of the peer's shows the gap. Neither takes reordering,
 * repeats or lost acknowledgements for loss. Both ends use one scheme or different ones: that is the sender's matter.
 * ec-mds and ec-xor send parity behind each message, from which the peer's NIC repairs what was lost; what it cannot
 * repair goes again as with sr-nack. auto decides about parity, and of which of the QP's codes, for each message. On a
 * QP with erasure coding, which these three need, each message is two of SDR's, data and parity, and half of
 * max_messages can be in flight.
 *
 * The k-th message sent lands in the k-th receive posted, whatever becomes of those before. One struct sdr_reliable
 * owns all messages and datagrams of its QP from the first on; use no other calls that send or receive on it.
 *
 * Driven by sdr_reliable_progress: there is no clock and no thread; neither waits nor allocates but
 * sdr_reliable_open. Results and threads as in sdr.h. Times are picoseconds.
 */
#ifndef SPINDLE_RELIABLE_H
#define SPINDLE_RELIABLE_H

#include "sdr.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sdr_reliable;
struct sdr_reliable_op; /* a message on its way out, or a receive: valid until sdr_reliable_op_free */

enum sdr_reliable_scheme { SDR_SR_RTO, SDR_SR_NACK, SDR_EC_MDS, SDR_EC_XOR, SDR_AUTO };

/* Zero is the default for every field. */
struct sdr_reliable_attr {
	enum sdr_reliable_scheme scheme;
	sp_time rtt;	       /* round trip, as believed until measured; default 1 ms */
	uint32_t rto_quarters; /* sr-rto: time-out in quarters of a round trip; default 12: 3 round trips */
	sp_time reorder;       /* sr-nack: a unit overtaken by less is not lost; default an eighth of the round trip */
	sp_time timeout;       /* a message not acknowledged after this has failed; default 10 s */
	sp_time recv_timeout;  /* a receive not complete after this has failed; default never */
	uint64_t rate_bps;     /* units leave at this rate, bit/s; 0: as fast as the NIC takes them (sdr_qp_attr's
				  rate_bps holds). Give one where units are long against `reorder` */
	uint32_t polls;	       /* acknowledgements asked for in a round trip; default 32, at most 128 */
	uint32_t in_flight;    /* units sent and not acknowledged, a power of two up to 2^20; default: what
				  max_messages have, 65536 at most */
	uint64_t coding_rate; /* auto: bytes a second that the NIC makes parity of, times chunks of parity for each k of
				 data; 0: as if it took no time */
	uint32_t queued_bytes; /* handed to the NIC and not sent yet, at least two units; default 256 KiB */
};

/* "sr-rto", "sr-nack", "ec-mds", "ec-xor", "auto", or -EINVAL. */
int sdr_reliable_scheme(const char *name);

/* qp: connected, or about to be; nothing was sent or posted on it. attr may be NULL. -EINVAL (also: qp has not
 * the code that the scheme needs), -ENOMEM, -EDQUOT; -EOPNOTSUPP: qp
 * has no datagrams (implicit credit), or they have fewer than 96 bytes (mtu below 100). */
int sdr_reliable_open(struct sdr_qp *qp, const struct sdr_reliable_attr *attr, struct sdr_reliable **reliable);
/* Lets go of `reliable`, qp lives on. quiet 0: at once, operations that are not over are given up, their handles are
 * gone and their buffers the caller's again after sdr_qp_destroy. Otherwise -EAGAIN (call again, after some progress)
 * until all messages sent are over and the peer has asked nothing for that long: it may not have heard yet that its
 * messages have come. Receives are not waited for. */
int sdr_reliable_close(struct sdr_reliable *reliable, sp_time quiet);

/* Sends len bytes (0 is fine, then mr may be NULL) at offset of mr, with the user's immediate. The timeout begins with
 * the next sdr_reliable_progress. The bytes must stay as they are, and mr registered, until the operation is over.
 * -EAGAIN: max_messages operations are not freed. -ENOTCONN. -ECONNABORTED: the peer has started anew. */
int sdr_reliable_send(struct sdr_reliable *reliable, struct sp_mr *mr, uint64_t offset, uint64_t len,
		      uint32_t immediate, struct sdr_reliable_op **op);
/* Posts len bytes at offset of mr for the next message. -EAGAIN as above. */
int sdr_reliable_recv(struct sdr_reliable *reliable, struct sp_mr *mr, uint64_t offset, uint64_t len,
		      struct sdr_reliable_op **op);

/*
 * -EAGAIN: not over. Anything else, which stays: it is over, the buffer is the caller's again.
 * 0: the peer has all of it; the message is here. -ETIMEDOUT. -ECANCELED: by sdr_reliable_cancel; or of a receive,
 * whose message is not complete: its sender has given it up. -EMSGSIZE: the message is longer
 * than the receive. -EREMOTEIO: the peer's receive has failed, it takes no more of the message. -ECONNABORTED: the peer
 * has started anew (sdr_qp_status: peer_restarted) and knows nothing of this connection: connect new QPs. Errors of the
 * QP, as sdr.h says, end all operations; then buffers are the caller's as said there.
 */
int sdr_reliable_poll(const struct sdr_reliable_op *op);
/* Gives it up: with some progress, sdr_reliable_poll says -ECANCELED, if it was not over by then. */
void sdr_reliable_cancel(struct sdr_reliable_op *op);
/* The handle is gone, its place free for another. -EBUSY: it is not over. */
int sdr_reliable_op_free(struct sdr_reliable_op *op);

struct sdr_reliable_op_status {
	uint64_t message;	  /* k */
	uint64_t length;	  /* bytes; of a receive as posted until it is complete, then the message's */
	uint32_t units, done;	  /* of the message, and of these acknowledged; of a receive: come, while it is open */
	uint32_t immediate, mask; /* of a complete receive: the user's immediate, and which of its bits have come */
	const uint64_t *bitmap;	  /* of a receive that is open: as sdr_recv_bitmap_get says; otherwise NULL */
};
void sdr_reliable_op_status(const struct sdr_reliable_op *op, struct sdr_reliable_op_status *status);

/* Does all that is due at `now`, which never goes back; an embedded NIC without workers needs sp_progress besides. 0 or
 * the QP's error. */
int sdr_reliable_progress(struct sdr_reliable *reliable, sp_time now);
/* When to call it next, at the latest; and whenever the NIC has done something (sp_dev_arm). SP_NEVER. */
sp_time sdr_reliable_deadline(const struct sdr_reliable *reliable);

struct sdr_reliable_status {
	uint64_t units, retransmitted;	 /* sent for the first time, and again */
	uint64_t spurious;		 /* of the latter, known to have been needless */
	uint64_t polls, polls_late;	 /* sent, and of these since an answer failed to come in time */
	uint64_t acks, acks_stale;	 /* come, and of these such as brought nothing new */
	uint64_t answers;		 /* acknowledgements sent */
	uint64_t refused;		 /* datagrams that are none of these or cannot be true */
	uint64_t coded;			 /* messages sent with parity, */
	uint64_t coded_of[SDR_EC_CODES]; /* ... of each of the QP's codes (sdr_ec_codes) */
	uint64_t parity;		 /* units of it */
	uint64_t repaired;		 /* units received that were made from parity */
	uint64_t fallbacks;		 /* messages sent with parity of which units went again all the same */
	uint64_t sent, sent_failed, received, received_failed; /* messages over */
	uint32_t sending, receiving;			       /* and not over */
	sp_time rtt, rtt_variation, rtt_least;		       /* rtt_least 0: none was measured yet */
};
void sdr_reliable_status(const struct sdr_reliable *reliable, struct sdr_reliable_status *status);

#ifdef __cplusplus
}
#endif
#endif
