/* SPDX-License-Identifier: BSD-3-Clause */
#include "tx_ring.h"
#include "ports.h"

struct tx_ring tx_ring;

void tx_ring_look(const struct rte_mbuf *m)
{
	tx_ring.last.len = 0;
	tx_ring.last.pieces = m->nb_segs;
	tx_ring.last.second = m->next ? rte_pktmbuf_mtod(m->next, const uint8_t *) : NULL;
	for (const struct rte_mbuf *s = m; s; s = s->next) {
		if (tx_ring.last.len + s->data_len > sizeof(tx_ring.last.bytes))
			abort();
		memcpy(tx_ring.last.bytes + tx_ring.last.len, rte_pktmbuf_mtod(s, const void *), s->data_len);
		tx_ring.last.len += s->data_len;
	}
	CU_ASSERT_EQUAL(tx_ring.last.len, m->pkt_len);
}

static unsigned tx_ring_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	if (tx_ring.full)
		return 0;
	if (tx_ring.most && count > tx_ring.most)
		count = tx_ring.most;
	for (unsigned i = 0; i < count; i++) {
		tx_ring_look(packet[i]);
		tx_ring.sent++;
		tx_ring.lent += packet[i]->nb_segs > 1;
		if (!tx_ring.keeps)
			rte_pktmbuf_free(packet[i]);
		else if (tx_ring.helds < RTE_DIM(tx_ring.held))
			tx_ring.held[tx_ring.helds++] = packet[i];
		else
			abort();
	}
	return count;
}

void tx_ring_free(unsigned at)
{
	rte_pktmbuf_free(tx_ring.held[at]);
	tx_ring.helds--;
	memmove(tx_ring.held + at, tx_ring.held + at + 1, (tx_ring.helds - at) * sizeof(tx_ring.held[0]));
}

void tx_ring_free_all(void)
{
	while (tx_ring.helds)
		tx_ring_free(0);
}

const struct sp_port_ops tx_ring_lending = {port_hear_nothing, tx_ring_transmit, port_never, true},
			 tx_ring_copying = {port_hear_nothing, tx_ring_transmit, port_never, false};

unsigned tx_ring_pieces_in_use;

void tx_ring_start(const struct sp_port_ops *ops)
{
	static const struct sp_neighbour_config known[2] = {{DUT_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}},
							    {DUT_IP6(1), {2, 0, 0, 0, 0, 2}}};

	memset(&tx_ring, 0, sizeof(tx_ring));
	probe_log_clear();
	dut_prepare(&dut, 1);
	tx_ring_pieces_in_use = rte_mempool_in_use_count(sp_process_pieces());
	memcpy(dut.config.neighbour, known, sizeof(known));
	dut.config.neighbours = 2;
	dut.config.mtu = 5000;
	dut.config.port[0].ops = ops;
	dut_create(&dut);
}

void tx_ring_stop(void)
{
	tx_ring_free_all();
	probe_stop();
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_process_pieces()), tx_ring_pieces_in_use);
}

struct sp_mr *test_region(uint64_t bytes)
{
	struct sp_mr *mr;
	uint64_t seed = 5;

	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, bytes, &mr), 0);
	for (uint64_t i = 0; i < bytes; i++)
		((uint8_t *)mr->addr)[i] = (uint8_t)dut_random(&seed);
	return mr;
}

void send_from(uint32_t id, const struct sp_mr *mr, uint64_t offset, uint32_t len)
{
	struct sp_send s = {.dest_qp = 16, .udp_source = 0xC123, .len = len, .offset = offset};

	sender_job.send = &s;
	CU_ASSERT_EQUAL(sender_call(id, CMD_SEND_MEM, 0, mr->id), 0);
	sender_job.send = NULL;
	dut_poll(&dut, 1);
}

struct sp_zc_queue *lender_of(uint32_t id)
{
	return sp_context_by_id(dut.nic, id)->view[0]->zc_queue;
}

bool tx_ring_icrc_ok(void)
{
	uint32_t crc;

	memcpy(&crc, tx_ring.last.bytes + tx_ring.last.len - 4, 4); /* little-endian, as this machine */
	return crc == dut_icrc(tx_ring.last.bytes + 14, tx_ring.last.len - 4 - 14);
}

/* clang-format off: in groups */
const uint32_t lend_lengths[23] = {
	0,
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
	4096,
};
/* clang-format on */
