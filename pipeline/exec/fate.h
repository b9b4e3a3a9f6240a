/* SPDX-License-Identifier: BSD-3-Clause */
/* What becomes of a received packet that no handler's verdict decides about. Whoever frees the burst's buffers looks at
 * sp_packet.buf: NULL means that the buffer has another owner now. */
#ifndef PIPELINE_EXEC_FATE_H
#define PIPELINE_EXEC_FATE_H

#include <rte_branch_prediction.h>

#include "../drop.h"
#include "../observe/tap.h"
#include "../worker.h"

struct sp_entity;

/* Counted by the NIC's own reason; the buffer is freed with the burst. */
static inline void sp_packet_drop(struct sp_worker *w, struct sp_packet *p, enum sp_drop why)
{
	w->drops[why]++;
	if (unlikely(w->tap != NULL))
		w->tap->fate(w, p, SP_CAPTURE_DROPPED, sp_drop_names[why]);
}

/* To the exception port; where there is none, or it takes no more, the packet is dropped. */
void sp_packet_forward(struct sp_worker *w, struct sp_packet *p);
/* Until the next poll: another worker is in the header handler of the packet's message. */
void sp_packet_park(struct sp_worker *w, struct sp_entity *e, struct sp_packet *p);
/* To another worker, which then counts it as received; or dropped, where that worker's queue is full. */
void sp_packet_hand_over(struct sp_worker *w, uint16_t to, struct sp_packet *p);

/* The packet waited for a context that is gone: drops it and frees its buffer. */
void sp_waiting_drop(struct sp_worker *w, struct sp_waiting *waiting);
/* Drops what is parked for a context that goes. */
void sp_parked_purge(struct sp_worker *w, const struct sp_entity *e);

#endif
