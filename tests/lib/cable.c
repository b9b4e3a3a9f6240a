/* SPDX-License-Identifier: BSD-3-Clause */
#include "cable.h"

void cable_open(struct cable *p)
{
	memset(p, 0, sizeof(*p));
	for (unsigned e = 0; e < 2; e++) {
		pthread_mutex_init(&p->wire[e].lock, NULL);
		p->end[e] = (struct cable_end){.in = &p->wire[!e], .out = &p->wire[e]};
	}
}

void cable_close(struct cable *p)
{
	for (unsigned e = 0; e < 2; e++) {
		struct cable_wire *w = &p->wire[e];

		for (; w->count; w->count--, w->first = (w->first + 1) % CABLE_FRAMES)
			rte_pktmbuf_free(w->frame[w->first]);
		pthread_mutex_destroy(&w->lock);
	}
}

unsigned cable_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct cable_wire *w = ((struct cable_end *)port)->in;
	unsigned n = 0;
	if (queue && !w->spread)
		return 0;
	pthread_mutex_lock(&w->lock);
	max = w->spread && max > 2 ? 2 : max;
	for (; n < max && w->count; n++, w->count--) {
		packet[n] = w->frame[w->first];
		w->first = (w->first + 1) % CABLE_FRAMES;
	}
	pthread_mutex_unlock(&w->lock);
	return n;
}

unsigned cable_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct cable_wire *w = ((struct cable_end *)port)->out;
	unsigned n = 0;
	pthread_mutex_lock(&w->lock);
	for (; n < count && w->count < CABLE_FRAMES; n++) {
		struct rte_mbuf *copy = sp_packet_alloc();

		if (!copy)
			break;
		char *to = rte_pktmbuf_append(copy, (uint16_t)packet[n]->pkt_len);
		for (struct rte_mbuf *m = packet[n]; m; to += m->data_len, m = m->next)
			memcpy(to, rte_pktmbuf_mtod(m, char *), m->data_len);
		rte_pktmbuf_free(packet[n]);
		w->frame[(w->first + w->count++) % CABLE_FRAMES] = copy;
	}
	pthread_mutex_unlock(&w->lock);
	return n;
}

sp_time cable_next(void *port, uint16_t queue, bool blocked)
{
	return 0;
}

const struct sp_port_ops cable_ops = {.receive = cable_receive, .transmit = cable_transmit, .next = cable_next};
