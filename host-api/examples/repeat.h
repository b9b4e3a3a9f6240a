/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "repeat", the simplest reliability scheme, to be copied as the beginning of another: the sender sends a message, asks
 * which chunks have arrived, and sends the rest again, until nothing is missing. It uses nothing of Spindle but sdr.h.
 * docs/reliability.md says what it lacks.
 *
 * The k-th message sent lands in the k-th receive posted. One struct repeat owns all messages and datagrams of its QP
 * from the first on. There is no clock and no thread: the caller gives times in picoseconds. Results are 0 or -errno.
 */
#ifndef REPEAT_H
#define REPEAT_H

#include <sdr.h>

struct repeat;
struct repeat_op; /* a message being sent, or a receive: valid until repeat_poll returns anything but -EAGAIN */

/* pause: the time between a message's last packet and the question which chunks have arrived. Packets still in the
 * port's queues or reordered after that time are retransmitted needlessly. It is also how long an answer may take
 * before the question is repeated, each time after twice as long: at least a round trip. 0: 1 ms. -EINVAL: more than 10
 * s. -EOPNOTSUPP: qp has no datagrams, or its longest message has more chunks than one has bits for. -ENOMEM. */
int repeat_open(struct sdr_qp *qp, sp_time pause, struct repeat **repeat);
/* qp stays. The caller owns the buffers of unfinished operations again after sdr_qp_destroy. */
void repeat_close(struct repeat *repeat);

/* `until`: the deadline; SP_NEVER: none. -EAGAIN: max_messages operations of this direction have not ended or were not
 * polled. Otherwise as sdr_send_stream_start and sdr_recv_post. */
int repeat_send(struct repeat *repeat, struct sp_mr *mr, uint64_t offset, uint64_t len, uint32_t immediate,
		sp_time until, struct repeat_op **op);
int repeat_recv(struct repeat *repeat, struct sp_mr *mr, uint64_t offset, uint64_t len, sp_time until,
		struct repeat_op **op);

/* -EAGAIN: not ended. Otherwise the handle becomes invalid, the caller owns the buffer again, and *len, unless len is
 * NULL, is set to the length. 0: the peer has the message; the message has arrived. -ETIMEDOUT. -ECANCELED: the peer
 * has abandoned the receive. -EMSGSIZE: the message is longer than this receive (known only if the receive holds at
 * least one packet). Errors of repeat_progress end all operations, but then the caller owns the buffers only after
 * sdr_qp_destroy. */
int repeat_poll(struct repeat_op *op, uint64_t *len);

/* Does what is due at `now`, which never decreases. A receiver that has all its messages must go on calling it until it
 * knows (by other means, or after a long silence) that the peer knows it. 0, or a permanent error: the QP's, or
 * -ECONNABORTED: the peer has restarted and lost this connection. */
int repeat_progress(struct repeat *repeat, sp_time now);
/* Call repeat_progress at this time at the latest, and whenever the NIC has done something. */
sp_time repeat_deadline(const struct repeat *repeat);
/* Chunks sent so far, with retransmissions. */
uint64_t repeat_chunks(const struct repeat *repeat);

#endif
