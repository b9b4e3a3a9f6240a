/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that have segments to send, oldest first. */
#ifndef HANDLERS_SDR_QUEUE_H
#define HANDLERS_SDR_QUEUE_H

#include "state.h"

/* The message to send from now: the oldest one that need not wait; or SDR_NONE. */
static inline uint32_t sdr_queue_next(const struct sdr *s)
{
	uint32_t index = s->first;

	while (index != SDR_NONE && s->sends[index].behind) {
		const uint64_t before = s->sends[index].message - 1;
		const struct sdr_send *t = &s->sends[(before - 1) % s->slots];

		if (t->message != before || t->reach >= t->length)
			break;
		index = s->sends[index].next;
	}
	return index;
}

/* True: data waits for the port or the pace. Data without clear-to-send does not count. */
static inline bool sdr_data_waits(const struct sdr *s)
{
	const uint32_t index = sdr_queue_next(s);

	return index != SDR_NONE && s->sends[index].message <= __atomic_load_n(&s->may_send, __ATOMIC_RELAXED);
}

#pragma GCC visibility push(hidden)
void sdr_queue_add(struct sdr *s, uint32_t index); /* no effect if it is queued */
void sdr_queue_remove(struct sdr *s, struct sdr_send *t);
#pragma GCC visibility pop

#endif
