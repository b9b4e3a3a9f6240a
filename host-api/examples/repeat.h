/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "repeat", a reliability scheme of the simplest kind, to be copied as the beginning of another: the sender sends a
 * message, asks what of it has come, and sends the rest again, until nothing is missing. It needs of Spindle what sdr.h
 * has, and nothing else. docs/reliability.md tells what it leaves to better ones.
 *
 * The k-th message sent lands in the k-th receive posted. One struct repeat owns all messages and datagrams of its QP
 * from the first on. There is no clock and no thread: times are picoseconds of the caller's, results are 0 or -errno.
 */
#ifndef REPEAT_H
#define REPEAT_H

#include <sdr.h>

struct repeat;
struct repeat_op; /* a message on its way out, or a receive: valid until repeat_poll has said other than -EAGAIN */

/* pause: from the moment when the NIC is done with a message's last packet to the question what has come. What the
 * question overtakes is sent again for nothing: queues of the port and reordering shall be over by then. It is also
 * how long the answer may take before the question is repeated, each time after twice as long: at least a round trip.
 * 0: 1 ms. -EINVAL: more than 10 s. -EOPNOTSUPP: qp has no datagrams, or the longest message has more chunks than fit
 * into one as bits. -ENOMEM. */
int repeat_open(struct sdr_qp *qp, sp_time pause, struct repeat **repeat);
/* qp lives on. Buffers of operations that are not over are the caller's again after sdr_qp_destroy. */
void repeat_close(struct repeat *repeat);

/* `until`: when to give up, SP_NEVER to wait for ever. -EAGAIN: max_messages operations of this direction are not over
 * and polled. Otherwise as sdr_send_stream_start and sdr_recv_post. */
int repeat_send(struct repeat *repeat, struct sp_mr *mr, uint64_t offset, uint64_t len, uint32_t immediate,
		sp_time until, struct repeat_op **op);
int repeat_recv(struct repeat *repeat, struct sp_mr *mr, uint64_t offset, uint64_t len, sp_time until,
		struct repeat_op **op);

/* -EAGAIN: not over. Otherwise the handle is gone, the buffer is the caller's again, and *len, which may be NULL, gets
 * the length. 0: the peer has the message; the message is here. -ETIMEDOUT. -ECANCELED: the peer has given the receive
 * up. -EMSGSIZE: the message is longer than this receive (that is known only if the receive holds a packet at least).
 * Errors of repeat_progress end all operations, but buffers are the caller's only after sdr_qp_destroy. */
int repeat_poll(struct repeat_op *op, uint64_t *len);

/* Does what is due at `now`, which never goes back. Who has received all he wants goes on with this until he knows (by
 * other means, or since nothing has come for long) that the peer knows it. 0, or, for good: the QP's error, or
 * -ECONNABORTED: the peer has started anew and knows nothing of this connection. */
int repeat_progress(struct repeat *repeat, sp_time now);
/* When to call it next, at the latest; and whenever the NIC has done something. */
sp_time repeat_deadline(const struct repeat *repeat);
/* Chunks sent so far, those again included. */
uint64_t repeat_chunks(const struct repeat *repeat);

#endif
