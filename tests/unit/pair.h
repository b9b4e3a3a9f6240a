/* SPDX-License-Identifier: BSD-3-Clause */
/* A perfect wire between the ports of two NICs whose workers are threads: frames are copied, in order. What it cannot
 * hold stays with the sender. */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include <pthread.h>
#include <rte_mbuf.h>
#include <string.h>

#include "../../pipeline/nic.h"

#define PAIR_FRAMES 256u

struct pair_wire {
	pthread_mutex_t lock;
	struct rte_mbuf *frame[PAIR_FRAMES];
	unsigned first, count;
	_Atomic bool spread; /* frames come by whichever queue asks first; otherwise by the first */
};

struct pair_end {
	struct pair_wire *in, *out;
};

struct pair {
	struct pair_wire wire[2];
	struct pair_end end[2];
};

static inline void pair_open(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	for (unsigned e = 0; e < 2; e++) {
		pthread_mutex_init(&p->wire[e].lock, NULL);
		p->end[e] = (struct pair_end){.in = &p->wire[!e], .out = &p->wire[e]};
	}
}

static inline void pair_close(struct pair *p)
{
	for (unsigned e = 0; e < 2; e++) {
		struct pair_wire *w = &p->wire[e];

		for (; w->count; w->count--, w->first = (w->first + 1) % PAIR_FRAMES)
			rte_pktmbuf_free(w->frame[w->first]);
		pthread_mutex_destroy(&w->lock);
	}
}

static inline unsigned pair_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct pair_wire *w = ((struct pair_end *)port)->in;
	unsigned n = 0;
	if (queue && !w->spread)
		return 0;
	pthread_mutex_lock(&w->lock);
	max = w->spread && max > 2 ? 2 : max;
	for (; n < max && w->count; n++, w->count--) {
		packet[n] = w->frame[w->first];
		w->first = (w->first + 1) % PAIR_FRAMES;
	}
	pthread_mutex_unlock(&w->lock);
	return n;
}

static inline unsigned pair_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct pair_wire *w = ((struct pair_end *)port)->out;
	unsigned n = 0;
	pthread_mutex_lock(&w->lock);
	for (; n < count && w->count < PAIR_FRAMES; n++) {
		struct rte_mbuf *copy = sp_packet_alloc();
		char *to;

		if (!copy)
			break;
		to = rte_pktmbuf_append(copy, (uint16_t)packet[n]->pkt_len);
		for (struct rte_mbuf *m = packet[n]; m; to += m->data_len, m = m->next)
			memcpy(to, rte_pktmbuf_mtod(m, char *), m->data_len);
		rte_pktmbuf_free(packet[n]);
		w->frame[(w->first + w->count++) % PAIR_FRAMES] = copy;
	}
	pthread_mutex_unlock(&w->lock);
	return n;
}

static inline sp_time pair_next(void *port, uint16_t queue, bool blocked)
{
	return 0;
}

static const struct sp_port_ops pair_ops = {.receive = pair_receive, .transmit = pair_transmit, .next = pair_next};

#endif
