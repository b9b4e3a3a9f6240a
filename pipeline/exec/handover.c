/* SPDX-License-Identifier: BSD-3-Clause */
#include "handover.h"
#include "../engine.h"
#include "../worker.h"

#include <rte_mbuf.h>
#include <stdlib.h>

/* An entry is the mbuf's address with the port in the low bits: mbufs are aligned to cache lines. */
#define PORT_BITS 63ull
static_assert(SP_PORT_LOOP <= PORT_BITS, "a port fits beside an address");

struct sp_handover {
	_Atomic uint32_t head SP_CACHE_ALIGNED; /* next entry to read; written by the reader */
	_Atomic uint32_t tail SP_CACHE_ALIGNED; /* next entry to write; written by the writer */
	uintptr_t entry[SP_HANDOVER];
};

int sp_handover_create(struct sp_nic *nic)
{
	const size_t bytes = nic->workers * sizeof(struct sp_handover);

	for (uint16_t i = 0; nic->workers > 1 && i < nic->workers; i++) {
		nic->worker[i]->handed = aligned_alloc(64, bytes);
		if (!nic->worker[i]->handed)
			return -ENOMEM;
		memset(nic->worker[i]->handed, 0, bytes);
	}
	return 0;
}

void sp_handover_destroy(struct sp_nic *nic)
{
	for (uint16_t i = 0; i < nic->workers && nic->worker[i]; i++) {
		struct sp_handover *all = nic->worker[i]->handed;

		for (uint16_t from = 0; all && from < nic->workers; from++)
			for (uint32_t at = all[from].head; at != all[from].tail; at++)
				rte_pktmbuf_free((void *)(all[from].entry[at % SP_HANDOVER] & ~PORT_BITS));
		free(all);
		nic->worker[i]->handed = NULL;
	}
}

bool sp_handover_give(struct sp_worker *w, uint16_t to, uint16_t port, struct rte_mbuf *packet)
{
	struct sp_handover *q = &w->nic->worker[to]->handed[w->index];
	const uint32_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);

	if (tail - atomic_load_explicit(&q->head, memory_order_acquire) == SP_HANDOVER)
		return false;
	q->entry[tail % SP_HANDOVER] = (uintptr_t)packet | port;
	atomic_store_explicit(&q->tail, tail + 1, memory_order_release);
	w->gave |= 1u << to;
	return true;
}

unsigned sp_handover_take(struct sp_worker *w, uint16_t from, struct rte_mbuf *packet[SP_BURST], uint16_t *port)
{
	struct sp_handover *q = &w->handed[from];
	const uint32_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
	const uint32_t tail = atomic_load_explicit(&q->tail, memory_order_acquire);
	unsigned n = 0;

	if (head == tail)
		return 0;
	*port = (uint16_t)(q->entry[head % SP_HANDOVER] & PORT_BITS);
	for (; head + n != tail && n < SP_BURST; n++) {
		const uintptr_t entry = q->entry[(head + n) % SP_HANDOVER];

		if ((entry & PORT_BITS) != *port)
			break;
		packet[n] = (struct rte_mbuf *)(entry & ~PORT_BITS);
	}
	atomic_store_explicit(&q->head, head + n, memory_order_release);
	return n;
}

static bool is_empty(const struct sp_handover *q)
{
	return atomic_load_explicit(&q->tail, memory_order_acquire) ==
	       atomic_load_explicit(&q->head, memory_order_relaxed);
}

bool sp_handover_waits(const struct sp_worker *w)
{
	for (uint16_t from = 0; w->handed && from < w->nic->workers; from++)
		if (!is_empty(&w->handed[from]))
			return true;
	return false;
}
