/* SPDX-License-Identifier: BSD-3-Clause */
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include "../../pipeline/limits.h"
#include "port.h"

int bench_store_open(struct bench_store *s, uint32_t (*make)(void *arg, uint64_t index, uint8_t *frame), void *arg,
		     uint64_t first, uint64_t step)
{
	uint8_t frame[SP_PACKET_ROOM];
	uint64_t room = 0;
	uint32_t len;

	*s = (struct bench_store){.at = 0};
	while ((len = make(arg, first + s->count * step, frame)) != 0) {
		if (s->count == room) {
			uint8_t *more;

			s->length = room ? s->length : len;
			s->stride = RTE_ALIGN(s->length, 64);
			room = room ? 2 * room : 1024;
			more = aligned_alloc(64, room * s->stride);
			if (!more)
				return -ENOMEM;
			if (s->count)
				memcpy(more, s->frames, s->count * s->stride);
			free(s->frames);
			s->frames = more;
		}
		if (len != s->length)
			return -EINVAL;
		memcpy(s->frames + s->count++ * s->stride, frame, len);
	}
	if (!s->count || s->count % SP_BURST)
		return -EINVAL;
	s->pool = bench_port_pool("store", s->length);
	return s->pool ? 0 : -ENOMEM;
}

void bench_store_close(struct bench_store *s)
{
	rte_mempool_free(s->pool);
	free(s->frames);
	*s = (struct bench_store){.at = 0};
}

unsigned bench_store_receive(struct bench_store *s, struct rte_mbuf **packet)
{
	const uint8_t *frame = s->frames + s->at * s->stride;

	if (rte_pktmbuf_alloc_bulk(s->pool, packet, SP_BURST))
		return 0;
	for (unsigned i = 0; i < SP_BURST; i++, frame += s->stride) {
		rte_memcpy(rte_pktmbuf_mtod(packet[i], void *), frame, s->length);
		packet[i]->data_len = (uint16_t)s->length;
		packet[i]->pkt_len = s->length;
	}
	s->at = s->at + SP_BURST < s->count ? s->at + SP_BURST : 0;
	return SP_BURST;
}
