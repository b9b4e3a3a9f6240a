/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, messages that have segments to send, oldest first. */
#include "queue.h"

void sdr_queue_add(struct sdr *s, uint32_t index)
{
	struct sdr_send *t = &s->sends[index];
	uint32_t after = s->last;

	if (t->listed)
		return;
	/* New messages go to the end. A message that was sent and has segments again is mostly the oldest. */
	if (s->first != SDR_NONE && t->message < s->sends[s->first].message)
		after = SDR_NONE;
	while (after != SDR_NONE && s->sends[after].message > t->message)
		after = s->sends[after].previous;
	t->previous = after;
	t->next = after == SDR_NONE ? s->first : s->sends[after].next;
	*(after == SDR_NONE ? &s->first : &s->sends[after].next) = index;
	*(t->next == SDR_NONE ? &s->last : &s->sends[t->next].previous) = index;
	t->listed = true;
}

void sdr_queue_remove(struct sdr *s, struct sdr_send *t)
{
	if (!t->listed) /* a companion has not made its bytes yet */
		return;
	*(t->previous == SDR_NONE ? &s->first : &s->sends[t->previous].next) = t->next;
	*(t->next == SDR_NONE ? &s->last : &s->sends[t->next].previous) = t->previous;
	t->listed = false;
}
