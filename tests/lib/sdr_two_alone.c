/* SPDX-License-Identifier: BSD-3-Clause */
#include "sdr_two_alone.h"

struct fake_nic alone_peer;

const char *const alone_control4[] = {MTU_SETTINGS, "max-messages", "4", "generations", "2", NULL};

void alone_pair(uint64_t buffer)
{
	alone_attach(&alone_nic, alone_control4, buffer, 1);
	alone_attach(&alone_peer, alone_control4, buffer, 1);
	CU_ASSERT_EQUAL(alone_connect_to(&alone_nic, 22, 11), 0);
	CU_ASSERT_EQUAL(alone_connect_to(&alone_peer, 11, 22), 0);
	for (uint64_t i = 0; i < buffer; i++)
		alone_nic.mem[BUFFER].base[i] = (uint8_t)(i * 31 + i / 256);
}

void alone_unpair(void)
{
	fake_detach(&alone_nic);
	fake_detach(&alone_peer);
}

uint32_t alone_deliver(struct fake_nic *to, const struct fake_sent *s)
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

void alone_deliver_all(struct fake_nic *from, struct fake_nic *to)
{
	for (unsigned i = 0; i < from->sent_count; i++)
		alone_deliver(to, &from->sent[i]);
	from->sent_count = 0;
}
