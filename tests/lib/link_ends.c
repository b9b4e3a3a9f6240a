/* SPDX-License-Identifier: BSD-3-Clause */
#include "link_ends.h"

struct sp_link *link_open(struct sp_link_config config)
{
	struct sp_link *link = NULL;
	struct sp_error error;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_link_create(&config, &link), 0);
	return link;
}

struct rte_mbuf *link_frame(uint32_t len, uint32_t number, uint16_t flow)
{
	struct rte_mbuf *m = sp_packet_alloc();
	uint8_t *p = m ? (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len) : NULL;

	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	memset(p, 0, len);
	p[12] = 8;
	p[14] = 0x45;
	p[23] = 17;
	memcpy(p + 26, "\x0a\x00\x00\x01\x0a\x00\x00\x02", 8);
	p[34] = (uint8_t)(flow >> 8);
	p[35] = (uint8_t)flow;
	memcpy(p + len - 4, &number, 4);
	return m;
}

uint32_t link_number_of(struct rte_mbuf *m)
{
	uint32_t number;

	memcpy(&number, rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len - 4), 4);
	return number;
}

unsigned link_send_at(struct sp_link *link, unsigned end, struct rte_mbuf *m, sp_time now)
{
	unsigned sent = sp_link_ops.transmit(sp_link_port(link, end), 0, &m, 1, now);

	if (!sent)
		rte_pktmbuf_free(m);
	return sent;
}

int link_receive_at(struct sp_link *link, unsigned end, sp_time now)
{
	struct rte_mbuf *m;

	if (!sp_link_ops.receive(sp_link_port(link, end), 0, &m, 1, now))
		return -1;
	int number = (int)link_number_of(m);
	rte_pktmbuf_free(m);
	return number;
}

sp_time link_next_at(struct sp_link *link, unsigned end)
{
	return sp_link_ops.next(sp_link_port(link, end), 0, false);
}
