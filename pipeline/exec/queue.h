/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues of packets that wait on one worker: for another worker to run a message's header handler, in their context's
 * backlog, or for a neighbour's address. First in, first out, bounded. Entries come from a pool that queues can share:
 * so each context has its own queue in the backlog. All of it is [worker]. */
#ifndef PIPELINE_EXEC_QUEUE_H
#define PIPELINE_EXEC_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "../../handlers/spindle-handler.h"

struct sp_entity;
struct sp_record;

struct sp_waiting {
	STAILQ_ENTRY(sp_waiting) next;
	union {
		struct { /* received packet, waits for its context */
			struct sp_packet packet;
			struct sp_entity *entity;
			struct sp_record *record; /* capture record, see capture.h; NULL: none */
		};
		struct { /* packet to send, waits for a neighbour */
			struct rte_mbuf *frame;
			uint8_t next_hop[16];
			sp_time until;
			uint32_t context; /* id of the sender */
			uint16_t port;
		};
	};
};
STAILQ_HEAD(sp_waiting_list, sp_waiting);

struct sp_packet_pool {
	struct sp_waiting_list free;
};

struct sp_packet_queue {
	struct sp_waiting_list list;
	unsigned count;
};

static inline void sp_queue_init(struct sp_packet_queue *q)
{
	STAILQ_INIT(&q->list);
	q->count = 0;
}

static inline void sp_pool_init(struct sp_packet_pool *pool, struct sp_waiting *place, unsigned n)
{
	STAILQ_INIT(&pool->free);
	for (unsigned i = 0; i < n; i++)
		STAILQ_INSERT_TAIL(&pool->free, &place[i], next);
}

static inline struct sp_waiting *sp_pool_take(struct sp_packet_pool *pool) /* NULL: pool is empty */
{
	struct sp_waiting *p = STAILQ_FIRST(&pool->free);

	if (p)
		STAILQ_REMOVE_HEAD(&pool->free, next);
	return p;
}

static inline void sp_pool_give(struct sp_packet_pool *pool, struct sp_waiting *p)
{
	STAILQ_INSERT_HEAD(&pool->free, p, next);
}

static inline void sp_queue_append(struct sp_packet_queue *q, struct sp_waiting *p)
{
	STAILQ_INSERT_TAIL(&q->list, p, next);
	q->count++;
}

static inline struct sp_waiting *sp_queue_take(struct sp_packet_queue *q) /* first entry; NULL: empty */
{
	struct sp_waiting *p = STAILQ_FIRST(&q->list);

	if (p) {
		STAILQ_REMOVE_HEAD(&q->list, next);
		q->count--;
	}
	return p;
}

#endif
