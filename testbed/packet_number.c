/* SPDX-License-Identifier: BSD-3-Clause */
#include "packet_number.h"

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

static int field = -1;
static uint64_t flag; /* the field is set; new buffers have no flags */

static uint64_t *number_of(const struct rte_mbuf *m)
{
	return RTE_MBUF_DYNFIELD((struct rte_mbuf *)(uintptr_t)m, field, uint64_t *);
}

void sp_packet_number_set(struct rte_mbuf *m, uint64_t number)
{
	static const struct rte_mbuf_dynfield place = {.name = "spindle_packet_number", .size = 8, .align = 8};
	static const struct rte_mbuf_dynflag mark = {.name = "spindle_packet_number"};

	if (!number)
		return;
	if (!flag) {
		const int bit = rte_mbuf_dynflag_register(&mark);

		field = rte_mbuf_dynfield_register(&place);
		if (field < 0 || bit < 0) /* others have taken them all: packets have no numbers then */
			return;
		flag = 1ull << bit;
	}
	m->ol_flags |= flag;
	*number_of(m) = number;
}

uint64_t sp_packet_number(const struct rte_mbuf *m)
{
	return m->ol_flags & flag ? *number_of(m) : 0;
}
