/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliable messages over SDR: schemes that retransmit what the peer's bitmap shows to be missing. They use only the
 * public sdr_ calls. Acknowledgements are datagrams (sdr_control_send), see handlers/wire/reliability.h.
 *
 * Selective repeat in units of the QP's chunk_bytes (arXiv 2505.05366, section 4). sr-rto retransmits a unit some round
 * trips after it left (3). sr-nack retransmits as soon as an acknowledgement shows the gap. Reordering, repeats and
 * lost acknowledgements do not count as loss. The sender chooses the scheme; the two ends may use different ones. ec-
 * mds and ec-xor send parity behind each message. The peer's NIC repairs lost units from it; what it cannot repair is
 * retransmitted as with sr-nack. auto decides for each message whether it sends parity, and with which of the QP's
 * codes. These three need a QP with erasure coding. There each message is two SDR messages, data and parity, so half of
 * max_messages can be in flight.
 *
 * The k-th message sent lands in the k-th receive posted, even if earlier ones fail. One struct sdr_reliable owns all
 * messages and datagrams of its QP from the first on. Use no other calls that send or receive on that QP.
 *
 * The caller drives it with sdr_reliable_progress: there is no clock and no thread. Calls do not wait; only
 * sdr_reliable_open allocates. Results and threads as in sdr.h. Times are picoseconds.
 */
#ifndef SPINDLE_RELIABLE_H
#define SPINDLE_RELIABLE_H

#include "sdr.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sdr_reliable;
struct sdr_reliable_op; /* a message being sent, or a receive: valid until sdr_reliable_op_free */

enum sdr_reliable_scheme { SDR_SR_RTO, SDR_SR_NACK, SDR_EC_MDS, SDR_EC_XOR, SDR_AUTO };

/* Zero is the default for every field. */
struct sdr_reliable_attr {
	enum sdr_reliable_scheme scheme;
	sp_time rtt;	       /* estimate of the round trip until one is measured; default 1 ms */
	uint32_t rto_quarters; /* sr-rto: time-out in quarters of a round trip; default 12: 3 round trips */
	sp_time reorder; /* sr-nack: how long a later unit may overtake one that is not lost; default an eighth of the
			    round trip */
	sp_time timeout; /* a message not acknowledged after this has failed; default 10 s */
	sp_time recv_timeout; /* a receive not complete after this has failed; default never */
	uint64_t rate_bps;  /* pace of units, bit/s; 0: as fast as the NIC takes them (rate_bps of sdr_qp_attr applies).
			       Set it where units are long against `reorder` */
	uint32_t polls;	    /* acknowledgements requested per round trip; default 32, at most 128 */
	uint32_t in_flight; /* units sent and not acknowledged, a power of two up to 2^20; default: the units of
			       max_messages, 65536 at most */
	uint64_t coding_rate;  /* auto: speed at which the NIC makes parity, bytes/s, times the chunks of parity per k
				  chunks of data; 0: it takes no time */
	uint32_t queued_bytes; /* bytes handed to the NIC and not sent yet, at least two units; default 256 KiB */
};

/* "sr-rto", "sr-nack", "ec-mds", "ec-xor", "auto", or -EINVAL. */
int sdr_reliable_scheme(const char *name);

/* qp: connected or not yet; nothing was sent or posted on it. attr may be NULL. -EINVAL (also: qp does not have the
 * code that the scheme needs), -ENOMEM, -EDQUOT. -EOPNOTSUPP: qp has no datagrams (implicit credit), or they are
 * shorter than 96 bytes (mtu below 100). */
int sdr_reliable_open(struct sdr_qp *qp, const struct sdr_reliable_attr *attr, struct sdr_reliable **reliable);
/* Frees `reliable`; qp stays. quiet 0: at once. Unfinished operations are abandoned, their handles become invalid, and
 * the caller owns their buffers again after sdr_qp_destroy. Otherwise it returns -EAGAIN (call again after some
 * progress) until all messages sent have ended and the peer has requested nothing for `quiet`: until then the peer may
 * still need an acknowledgement. It does not wait for receives. */
int sdr_reliable_close(struct sdr_reliable *reliable, sp_time quiet);

/* Sends len bytes (0 is fine, then mr may be NULL) at offset of mr, with the user's immediate. The timeout begins with
 * the next sdr_reliable_progress. The bytes must not change, and mr must stay registered, until the operation has
 * ended. -EAGAIN: max_messages operations are in use. -ENOTCONN. -ECONNABORTED: the peer has restarted. */
int sdr_reliable_send(struct sdr_reliable *reliable, struct sp_mr *mr, uint64_t offset, uint64_t len,
		      uint32_t immediate, struct sdr_reliable_op **op);
/* Posts len bytes at offset of mr for the next message. -EAGAIN as above. */
int sdr_reliable_recv(struct sdr_reliable *reliable, struct sp_mr *mr, uint64_t offset, uint64_t len,
		      struct sdr_reliable_op **op);

/*
 * -EAGAIN: not ended. Any other result is final; the caller owns the buffer again.
 *   0             the peer has the whole message; the message has arrived
 *   -ETIMEDOUT
 *   -ECANCELED    by sdr_reliable_cancel; of a receive also: the sender has abandoned the message
 *   -EMSGSIZE     the message is longer than the receive
 *   -EREMOTEIO    the peer's receive has failed and takes no more of the message
 *   -ECONNABORTED the peer has restarted (sdr_qp_status: peer_restarted) and has lost this connection: connect new QPs
 * Errors of the QP (sdr.h) end all operations; sdr.h says when the caller owns the buffers again.
 */
int sdr_reliable_poll(const struct sdr_reliable_op *op);
/* After some progress, sdr_reliable_poll returns -ECANCELED unless the operation ended before. */
void sdr_reliable_cancel(struct sdr_reliable_op *op);
/* Frees the handle for another operation. -EBUSY: the operation has not ended. */
int sdr_reliable_op_free(struct sdr_reliable_op *op);

struct sdr_reliable_op_status {
	uint64_t message;     /* its number k */
	uint64_t length;      /* bytes; of a receive as posted until it is complete, then the length of the message */
	uint32_t units, done; /* units of the message; done: acknowledged, or of an open receive: arrived */
	uint32_t immediate, mask; /* of a complete receive: the user's immediate, and which of its bits have arrived */
	const uint64_t *bitmap;	  /* of an open receive: as sdr_recv_bitmap_get; otherwise NULL */
};
void sdr_reliable_op_status(const struct sdr_reliable_op *op, struct sdr_reliable_op_status *status);

/* Does all that is due at `now`, which never decreases. An embedded NIC without workers needs sp_progress, too. 0 or
 * the QP's error. */
int sdr_reliable_progress(struct sdr_reliable *reliable, sp_time now);
/* Call sdr_reliable_progress at this time at the latest, and whenever the NIC has done something (sp_dev_arm).
 * SP_NEVER. */
sp_time sdr_reliable_deadline(const struct sdr_reliable *reliable);

struct sdr_reliable_status {
	uint64_t units, retransmitted; /* first transmissions and retransmissions */
	uint64_t spurious;	       /* retransmissions known to be needless */
	uint64_t polls,
		polls_late; /* requests for acknowledgements; late: those sent because an acknowledgement was overdue */
	uint64_t acks, acks_stale;	 /* acknowledgements received; stale: those without news */
	uint64_t answers;		 /* acknowledgements sent */
	uint64_t refused;		 /* datagrams received that are malformed or inconsistent */
	uint64_t coded;			 /* messages sent with parity */
	uint64_t coded_of[SDR_EC_CODES]; /* by code of the QP (sdr_ec_codes) */
	uint64_t parity;		 /* units of parity sent */
	uint64_t repaired;		 /* units received that were repaired from parity */
	uint64_t fallbacks;		 /* messages sent with parity that needed retransmissions all the same */
	uint64_t sent, sent_failed, received, received_failed; /* messages that have ended */
	uint32_t sending, receiving;			       /* and that have not */
	sp_time rtt, rtt_variation, rtt_least;		       /* rtt_least 0: none measured yet */
};
void sdr_reliable_status(const struct sdr_reliable *reliable, struct sdr_reliable_status *status);

#ifdef __cplusplus
}
#endif
#endif
