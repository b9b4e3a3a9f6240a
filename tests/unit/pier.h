/* SPDX-License-Identifier: BSD-3-Clause */
/* A port that may keep what it is given, as a driver may until its ring is full, and a NIC on it. */
#ifndef TESTS_PIER_H
#define TESTS_PIER_H

#include "../../pipeline/lend.h"
#include "../../pipeline/memory.h"

#include "rig_send.h"

static struct {
	struct rte_mbuf *held[4096];
	unsigned helds;
	bool keeps, full;
	unsigned most; /* that it takes at once; 0: all */
	struct {
		uint32_t len;
		uint16_t pieces;
		const uint8_t *second; /* where its second piece lies */
		uint8_t bytes[5200];
	} last;
	unsigned sent, lent;
} pier;

static inline unsigned pier_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	return 0;
}

static inline void pier_look(const struct rte_mbuf *m)
{
	pier.last.len = 0;
	pier.last.pieces = m->nb_segs;
	pier.last.second = m->next ? rte_pktmbuf_mtod(m->next, const uint8_t *) : NULL;
	for (const struct rte_mbuf *s = m; s; s = s->next) {
		if (pier.last.len + s->data_len > sizeof(pier.last.bytes))
			abort();
		memcpy(pier.last.bytes + pier.last.len, rte_pktmbuf_mtod(s, const void *), s->data_len);
		pier.last.len += s->data_len;
	}
	CU_ASSERT_EQUAL(pier.last.len, m->pkt_len);
}

static inline unsigned pier_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	if (pier.full)
		return 0;
	if (pier.most && count > pier.most)
		count = pier.most;
	for (unsigned i = 0; i < count; i++) {
		pier_look(packet[i]);
		pier.sent++;
		pier.lent += packet[i]->nb_segs > 1;
		if (!pier.keeps)
			rte_pktmbuf_free(packet[i]);
		else if (pier.helds < RTE_DIM(pier.held))
			pier.held[pier.helds++] = packet[i];
		else
			abort();
	}
	return count;
}

static inline sp_time pier_next(void *arg, uint16_t queue, bool blocked)
{
	return SP_NEVER;
}

static inline void give_back(unsigned at)
{
	rte_pktmbuf_free(pier.held[at]);
	pier.helds--;
	memmove(pier.held + at, pier.held + at + 1, (pier.helds - at) * sizeof(pier.held[0]));
}

static inline void give_all_back(void)
{
	while (pier.helds)
		give_back(0);
}

static const struct sp_port_ops lending = {pier_receive, pier_transmit, pier_next, true},
				copying = {pier_receive, pier_transmit, pier_next, false};

/* ---- a NIC on it ---- */

static unsigned pieces_in_use;

static inline void open_nic(const struct sp_port_ops *ops)
{
	static const struct sp_neighbour_config known[2] = {{RIG_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}},
							    {RIG_IP6(1), {2, 0, 0, 0, 0, 2}}};

	memset(&pier, 0, sizeof(pier));
	rig_log_clear();
	rig_prepare(&rig, 1);
	pieces_in_use = rte_mempool_in_use_count(sp_registry_pieces());
	memcpy(rig.config.neighbour, known, sizeof(known));
	rig.config.neighbours = 2;
	rig.config.mtu = 5000;
	rig.config.port[0].ops = ops;
	rig_create(&rig);
}

static inline void close_nic(void)
{
	give_all_back();
	end();
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_registry_pieces()), pieces_in_use);
}

static inline struct sp_mr *region(uint64_t bytes)
{
	struct sp_mr *mr;
	uint64_t seed = 5;

	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(rig.dev, bytes, &mr), 0);
	for (uint64_t i = 0; i < bytes; i++)
		((uint8_t *)mr->addr)[i] = (uint8_t)rig_random(&seed);
	return mr;
}

static inline void send_from(uint32_t id, const struct sp_mr *mr, uint64_t offset, uint32_t len)
{
	struct sp_send s = {.dest_qp = 16, .udp_source = 0xC123, .len = len, .offset = offset};

	tell.send = &s;
	CU_ASSERT_EQUAL(call(id, CMD_SEND_MEM, 0, mr->id), 0);
	tell.send = NULL;
	rig_poll(&rig, 1);
}

static inline struct sp_lender *lender(uint32_t id)
{
	return sp_context_by_id(rig.nic, id)->view[0]->lender;
}

static inline bool seal_is_right(void)
{
	uint32_t crc;

	memcpy(&crc, pier.last.bytes + pier.last.len - 4, 4); /* little-endian, as this machine */
	return crc == rig_icrc(pier.last.bytes + 14, pier.last.len - 4 - 14);
}

/* Of payload: about the bounds from which it is lent, and what fits packets. */
static const uint32_t lengths[] = {0,
				   1,
				   SP_LEND_MIN - 5,
				   SP_LEND_MIN - 4,
				   SP_LEND_MIN - 3,
				   SP_LEND_MIN - 2,
				   SP_LEND_MIN - 1,
				   SP_LEND_MIN,
				   SP_LEND_MIN + 1,
				   SP_LEND_MIN + 2,
				   SP_LEND_MIN + 3,
				   SP_LEND_MIN + 4,
				   1431,
				   1432,
				   1433,
				   1434,
				   1435,
				   1436,
				   1800,
				   4093,
				   4094,
				   4095,
				   4096};

#endif
