/* SPDX-License-Identifier: BSD-3-Clause */
/* Two sdr handlers, each alone with a stand-in for its NIC; the test carries what they send from one to the other. */
#ifndef TESTS_SDR_TWO_H
#define TESTS_SDR_TWO_H

#include "sdr_alone.h"

static struct fake_nic peer;
static const char *const control4[] = {MTU_SETTINGS, "max-messages", "4", "generations", "2", NULL};

static inline void pair(uint64_t buffer)
{
	attach(&nic, control4, buffer, 1);
	attach(&peer, control4, buffer, 1);
	CU_ASSERT_EQUAL(connect_to(&nic, 22, 11), 0);
	CU_ASSERT_EQUAL(connect_to(&peer, 11, 22), 0);
	for (uint64_t i = 0; i < buffer; i++)
		nic.mem[BUFFER].base[i] = (uint8_t)(i * 31 + i / 256);
}

static inline void unpair(void)
{
	fake_detach(&nic);
	fake_detach(&peer);
}

static inline uint32_t deliver(struct fake_nic *to, const struct fake_sent *s)
{
	static uint8_t bytes[sizeof(s->bytes)];
	struct sp_packet p = {.data = bytes,
			      .len = s->send.ext_len + s->send.len,
			      .opcode = s->send.opcode,
			      .flags = SP_PKT_ROCE | s->send.flags,
			      .dest_qp = s->send.dest_qp,
			      .qp_index = s->send.dest_qp == 0xF00001 ? SP_QP_CONTROL
								      : (uint16_t)(s->send.dest_qp - 0x100)};

	memcpy(bytes, s->bytes, p.len);
	return fake_receive(to, &p);
}

static inline void deliver_all(struct fake_nic *from, struct fake_nic *to)
{
	for (unsigned i = 0; i < from->sent_count; i++)
		deliver(to, &from->sent[i]);
	from->sent_count = 0;
}

#endif
