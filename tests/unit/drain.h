/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes all packet buffers of the process, and gives them back. */
#ifndef TESTS_DRAIN_H
#define TESTS_DRAIN_H

#include <rte_mbuf.h>

#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"

static struct rte_mbuf *drained[SP_PACKET_POOL];
static unsigned drained_count;

static inline void drain(void)
{
	while (drained_count < SP_PACKET_POOL && (drained[drained_count] = sp_packet_alloc()))
		drained_count++;
}

static inline void refill(void)
{
	rte_pktmbuf_free_bulk(drained, drained_count);
	drained_count = 0;
}

#endif
