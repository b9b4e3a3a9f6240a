/* SPDX-License-Identifier: BSD-3-Clause */
#include "buffers.h"

static struct rte_mbuf *drained[SP_PACKET_POOL];
static unsigned drained_count;

void buffers_take_all(void)
{
	while (drained_count < SP_PACKET_POOL && (drained[drained_count] = sp_packet_alloc()))
		drained_count++;
}

void buffers_give_back(void)
{
	rte_pktmbuf_free_bulk(drained, drained_count);
	drained_count = 0;
}
