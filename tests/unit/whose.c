/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that are not for the NIC, whatever they say: IPv6 packets that play IPv4, and other VLANs. */
#include "../lib/sender.h"
#define RULE(rule) TEST_BETWEEN(probe_start, probe_stop, rule)

RULE(an_ipv6_packet_does_not_pass_for_one_of_an_ipv4_peer)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	struct frame f, four;

	sender_job.runs = 0; /* it is there */
	uint32_t a = dut_context(&dut, "a", "sender", "qp=0x10;peer=4");
	dut_roce(&four, FRAME_IP4, 0x10, 0, NULL, 8);
	for (unsigned to = 0; to < 2; to++) {
		dut_roce(&f, FRAME_IP6, 0x10, 0, NULL, 8);
		memcpy(f.bytes + f.l3 + 8, mapped, 12);
		memcpy(f.bytes + f.l3 + 20, four.bytes + four.l3 + 12, 4);
		if (to) {
			memcpy(f.bytes + f.l3 + 24, mapped, 12);
			memcpy(f.bytes + f.l3 + 36, four.bytes + four.l3 + 16, 4);
		}
		dut_seal(&f);
		dut_feed(&dut, &f);
	}
	dut_feed(&dut, &four);
	dut_settle(&dut, 1);
	CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), 1);
	CU_ASSERT_EQUAL(dut_dropped("mapped-address"), 2);
}

/* Puts tags (type << 16 | number and priority) behind the MAC addresses. */
static void tagged(struct frame *to, const struct frame *f, const uint32_t *tag, unsigned tags)
{
	*to = *f;
	memcpy(to->bytes + 12 + 4 * tags, f->bytes + 12, f->len - 12);
	to->len += 4 * tags;
	for (unsigned i = 0; i < tags; i++) {
		frame_put16(to, 12 + 4 * i, tag[i] >> 16);
		frame_put16(to, 14 + 4 * i, tag[i] & 0xFFFF);
	}
}

TEST(frames_of_other_vlans_are_for_filters_and_the_exception_port_only)
{
	static const struct {
		unsigned tags;
		uint32_t tag[2];
		unsigned vlan; /* it is in; 4095: in none that a NIC can have */
	} wrap[] = {
		{0, {0}, 0},
		{1, {0x81000000}, 0},
		{1, {0x8100E000}, 0}, /* a priority */
		{1, {0x88A80000}, 0},
		{1, {0x81000005}, 5},
		{1, {0x81006005}, 5},
		{2, {0x81000000, 0x81000005}, 5},
		{1, {0x81000006}, 6},
		{1, {0x81000FFF}, 4095},
		{1, {0x88A80005}, 4095},
		{2, {0x88A80007, 0x81000005}, 4095},
		{2, {0x81000005, 0x81000005}, 4095},
	};
	const unsigned wraps = sizeof(wrap) / sizeof(*wrap);
	static const uint8_t arp[] = {0, 1, 8, 0, 6, 4, 0, 1};

	for (unsigned round = 0; round < 8; round++) {
		const unsigned vlan = round & 1 ? 5 : 0;
		const bool exception = round & 2;
		unsigned here = 0;

		dut_prepare(&dut, 1);
		dut.config.vlan = (uint16_t)vlan;
		if (exception)
			dut_with_exception(&dut);
		dut_create(&dut);
		const uint32_t a = dut_context(&dut, "a", "plain", "qp=0x10");
		const uint32_t b = dut_context(&dut, "b", "plain", "filter=udp port 7 or (vlan and udp port 7)");
		for (unsigned i = 0; i < wraps; i++) {
			struct frame f, t;

			here += wrap[i].vlan == vlan;
			dut_roce(&f, round & 4 ? FRAME_IP6 : FRAME_IP4, 0x10, i, NULL, 8);
			tagged(&t, &f, wrap[i].tag, wrap[i].tags);
			dut_feed(&dut, &t);
			/* A question for the NIC's MAC address */
			memset(f.bytes, 0xFF, 6);
			memcpy(f.bytes + 6, dut_peer_mac, 6);
			frame_put16(&f, 12, 0x0806);
			memcpy(f.bytes + 14, arp, 8);
			memcpy(f.bytes + 22, dut_peer_mac, 6);
			memcpy(f.bytes + 28, dut_peer4 + 12, 4);
			memset(f.bytes + 32, 0, 6);
			memcpy(f.bytes + 38, dut_own4 + 12, 4);
			f.len = 60;
			tagged(&t, &f, wrap[i].tag, wrap[i].tags);
			dut_feed(&dut, &t);
		}
		dut_settle(&dut, 1);
		CU_ASSERT_EQUAL(dut_counter(&dut, a, "packets"), here);
		CU_ASSERT_EQUAL(dut_counter(&dut, b, "packets"), 0);
		CU_ASSERT_EQUAL(dut.port.sents, here); /* answers */
		CU_ASSERT_EQUAL(dut_dropped("wrong-vlan"), exception ? 0 : 2 * (wraps - here));
		if (exception)
			CU_ASSERT_EQUAL(dut.exception.sents, 2 * (wraps - here));
		for (unsigned i = 0; i < 3; i++) {
			static const unsigned which[] = {0, 4, 7}; /* none, 5, 6 */
			struct frame f, t;

			dut_udp(&f, 7, NULL, 0);
			tagged(&t, &f, wrap[which[i]].tag, wrap[which[i]].tags);
			dut_feed(&dut, &t);
		}
		dut_settle(&dut, 2);
		CU_ASSERT_EQUAL(dut_counter(&dut, b, "packets"), 3);
		dut_check_totals(&dut);
		probe_stop();
	}
}
