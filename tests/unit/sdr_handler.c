/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdr handler by itself: which packets, commands and parameters it refuses, by what name, and which message a
 * packet is for; what is hostile, bad or late changes nothing. */
#include "../lib/sdr_alone.h"

/* ---- bad packets ---- */

#define REFUSED(change, reason)                                                                                        \
	do {                                                                                                           \
		struct packet *k = alone_packet(1, 2, MTU);                                                            \
		change;                                                                                                \
		if (alone_give(k) != SP_DROP(reason))                                                                  \
			CU_FAIL(#change " is " #reason);                                                               \
	} while (0)

TEST(each_bad_packet_is_dropped_by_name_and_touches_nothing)
{
	alone_attach(&alone_nic, alone_implicit4, 4 * M_BYTES, 1);
	for (uint64_t k = 0; k < 4; k++)
		CU_ASSERT_EQUAL(alone_post_to(&alone_nic, k, k * M_BYTES, M_BYTES), 0);
	REFUSED(k->opcode = 0x2A, SDR_BAD_OPCODE);
	REFUSED(k->opcode = 0x0B, SDR_BAD_OPCODE); /* RC */
	REFUSED(k->rkey ^= 1, SDR_BAD_RKEY);
	REFUSED(k->rkey ^= 0x80000000, SDR_BAD_RKEY); /* all 32 bits */
	REFUSED((k->id = 4, k->va = 4 * M_BYTES + 2 * MTU), SDR_OUT_OF_RANGE);
	REFUSED((k->id = 1023, k->va = 1023 * M_BYTES + 2 * MTU), SDR_OUT_OF_RANGE);
	REFUSED(k->dma_len++, SDR_BAD_LENGTH);
	REFUSED(k->dma_len--, SDR_BAD_LENGTH);
	REFUSED(k->dma_len = 0, SDR_BAD_LENGTH);
	REFUSED(k->len = k->dma_len = MTU + 1, SDR_OVER_MTU);
	REFUSED(k->len = k->dma_len = 4200, SDR_OVER_MTU);
	REFUSED(k->va++, SDR_ADDRESS_MISMATCH);
	REFUSED(k->va -= MTU, SDR_ADDRESS_MISMATCH);
	REFUSED(k->va += M_BYTES, SDR_ADDRESS_MISMATCH); /* the next slot's */
	REFUSED(k->va |= 1ull << 63, SDR_ADDRESS_MISMATCH);
	REFUSED((k->offset = 512, k->va = M_BYTES + 512 * MTU), SDR_OUT_OF_RANGE);
	REFUSED((k->offset = 0x3FFFF, k->va = M_BYTES + 0x3FFFFull * MTU), SDR_OUT_OF_RANGE);

	for (uint32_t len = 0; len < 20; len++) {
		struct packet *k = alone_packet(1, 2, MTU);
		struct sp_packet *p = alone_build(k);
		/* exactly as long as it says: reading on is caught by the address sanitizer */
		uint8_t *exact = malloc(len ? len : 1);

		memcpy(exact, p->data, len);
		p->data = exact;
		p->len = len;
		CU_ASSERT_EQUAL(fake_receive(&alone_nic, p), SP_DROP(SDR_SHORT_HEADER));
		free(exact);
	}
	CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base, 4 * M_BYTES));
	for (uint32_t i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(alone_came(&alone_nic, i), 0);
	CU_ASSERT_EQUAL(alone_nic.taken, 0);
	fake_detach(&alone_nic);
}

TEST(rkey_does_not_matter_without_payload)
{
	alone_attach(&alone_nic, alone_implicit4, M_BYTES, 1);
	alone_post_to(&alone_nic, 0, 0, 0);
	struct packet *k = alone_packet(0, 0, 0);

	k->rkey = 99;
	CU_ASSERT_EQUAL(alone_give(k), SP_DONE);
	CU_ASSERT_EQUAL(alone_line(&alone_nic, 0)->state, SP_SDR_OPEN | SP_SDR_COMPLETE);
	fake_detach(&alone_nic);
}

/* Packets of all kinds, many of them with one field wrong, in runs and not: each has the key that it has alone. */
TEST(a_burst_is_classified_as_its_packets_are)
{
	static struct packet burst[32];
	unsigned rejected = 0, taken = 0, bad = 0;

	for (unsigned round = 0; round < 3000; round++) {
		const char *const credit = round & 1 ? "implicit" : "control";
		const char *const setting[] = {
			"mtu",	       "128",  "queue", "64",	      "max-message-bytes", round & 2 ? "64K" : "65000",
			"chunk-bytes", "512",  "rkey",	"0x12345678", "max-messages",	   "5",
			"credit",      credit, NULL};
		struct sp_packet *run[32];
		bool rejects = false;

		if (round % 100 < 4) {
			if (round)
				fake_detach(&alone_nic);
			alone_attach(&alone_nic, setting, M_BYTES, 1);
			CU_ASSERT_EQUAL(alone_connect_to(&alone_nic, 22, 11), 0);
		}
		const struct sdr *s = alone_nic.c.state;

		for (unsigned i = 0; i < 32; i++) {
			struct packet *k = &burst[i];

			*k = *alone_packet(alone_draw(8) ? 1 : alone_draw(6), alone_draw(515),
					   alone_draw(6) ? MTU : alone_draw(140));
			k->user = alone_draw(16);
			k->va = k->id * s->max_bytes + k->offset * MTU;
			k->qp_index = alone_draw(10) ? 0 : alone_draw(4);
			switch (alone_draw(40)) {
			case 0:
				k->va += alone_draw(2) ? 1 : 1ull << 40;
				break;
			case 1:
				k->rkey++;
				break;
			case 2:
				k->dma_len++;
				break;
			case 3:
				k->opcode++;
				break;
			case 4:
				k->id = 5 + alone_draw(1000);
				break;
			}
			run[i] = alone_build(k);
			if (alone_draw(60) == 0)
				run[i]->len = alone_draw(20);
			if (alone_draw(60) == 0)
				run[i]->qp_index = SP_QP_CONTROL;
		}
		const bool said = alone_nic.h->classify_burst(&alone_nic.c, run, 1 + round % 32);

		for (unsigned i = 0; i < 1 + round % 32; i++) {
			const uint64_t key = alone_nic.h->classify(&alone_nic.c, run[i]);

			bad += run[i]->key != key;
			rejects |= key > SP_REJECT(256) && key != SP_NO_MESSAGE;
			rejected += key > SP_REJECT(256);
			taken += key <= SP_REJECT(256);
		}
		bad += said != rejects;
	}
	fake_detach(&alone_nic);
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT(taken > 5000 && rejected > 2000);
}

/* ---- messages, slots, generations ---- */

TEST(generations_have_their_own_qps)
{
	static const char *const setting[] = {MTU_SETTINGS,  "credit", "implicit", "max-messages", "2", "channels", "3",
					      "generations", "5",      NULL};

	alone_attach(&alone_nic, setting, M_BYTES, 1);
	CU_ASSERT_EQUAL(alone_nic.qps.count, 15);
	for (uint32_t q = 0; q < 15; q++) {
		struct packet *k = alone_packet(1, 0, MTU);

		k->qp_index = q;
		CU_ASSERT_EQUAL(alone_nic.h->classify(&alone_nic.c, alone_build(k)), (uint64_t)(q / 3) << 32 | 1);
	}
	fake_detach(&alone_nic);
}

TEST(what_was_never_posted_is_not_posted_and_what_is_gone_is_late)
{
	alone_attach(&alone_nic, alone_implicit4, 4 * M_BYTES, 1);
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 0, MTU)), SP_DROP(SDR_NOT_POSTED));
	alone_post_to(&alone_nic, 0, 0, M_BYTES);
	CU_ASSERT_EQUAL(alone_give(alone_packet(1, 0, MTU)), SP_DROP(SDR_NOT_POSTED));
	struct packet *k = alone_packet(0, 0, MTU);
	k->qp_index = 1; /* the next generation: nothing is posted for it */
	CU_ASSERT_EQUAL(alone_give(k), SP_DROP(SDR_NOT_POSTED));
	CU_ASSERT_EQUAL(alone_complete(&alone_nic, 0), 0);
	CU_ASSERT_EQUAL(alone_complete(&alone_nic, 0), -ENOENT);
	CU_ASSERT_EQUAL(alone_give(alone_packet(0, 0, MTU)), SP_DROP(SDR_LATE));
	CU_ASSERT(alone_untouched(alone_nic.mem[BUFFER].base, M_BYTES));
	CU_ASSERT_PTR_NOT_NULL(strstr(alone_report(&alone_nic), "packets=0 duplicates=0 late=1 "));
	fake_detach(&alone_nic);
}

TEST(packets_up_to_slots_times_generations_late_change_nothing)
{
	alone_attach(&alone_nic, alone_implicit4, 64 * 256, 1);
	for (uint64_t k = 0; k < 24; k++) {
		alone_post_to(&alone_nic, k, k % 4 * 256, 256);
		alone_give(alone_of_message(k, 4, 4, 0));
		/* every earlier message within the guarantee, again */
		for (uint64_t d = 4; d < 16 && d <= k; d += 4) {
			struct packet *x = alone_of_message(k - d, 4, 4, 1);

			CU_ASSERT_EQUAL(alone_give(x), SP_DROP(SDR_LATE));
		}
		CU_ASSERT(alone_filled(alone_nic.mem[BUFFER].base + k % 4 * 256, MTU, (uint8_t)(k + 1)));
		CU_ASSERT_EQUAL(alone_came(&alone_nic, k % 4), 1);
		CU_ASSERT_EQUAL(*alone_bitmap(&alone_nic, k % 4), 0);
		if (k >= 3)
			CU_ASSERT_EQUAL(alone_complete(&alone_nic, k - 3), 0);
	}
	fake_detach(&alone_nic);
}

/* ---- hostile commands ---- */

TEST(commands_are_not_believed)
{
	alone_attach(&alone_nic, alone_implicit4, 1000, 1);
	CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 1, 0, 10), -EINVAL); /* not the next */
	CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 0, 0, M_BYTES + 1), -EINVAL);
	CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 0, 0, 1001), -EFAULT);
	CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 0, 1001, 0), -EFAULT);
	CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 0, UINT64_MAX, 10), -EFAULT);
	for (uint64_t id = 0; id < 3; id++) {
		const uint64_t ids[] = {0, 5, 1ull << 32 | BUFFER};
		const struct sp_command c = {.op = SP_CMD_POST, .arg = {ids[id], 0, 10}};

		CU_ASSERT(fake_command(&alone_nic, &c, NULL) < 0);
	}
	CU_ASSERT_EQUAL(alone_complete(&alone_nic, 0), -ENOENT);
	CU_ASSERT_EQUAL(alone_complete(&alone_nic, UINT64_MAX), -ENOENT);
	for (uint32_t op = 0; op < 0x200; op++) {
		const struct sp_command c = {.op = (uint16_t)op, .cookie = UINT64_MAX, .arg = {BUFFER, 0, 1, 0, 0, 0}};

		CU_ASSERT(fake_command(&alone_nic, &c, NULL) < 0);
	}
	CU_ASSERT_EQUAL(alone_connect_to(&alone_nic, 1, 2), 0);
	for (uint32_t op = 0; op < 0x200; op++) /* again, connected: no message has that number, not even a free slot */
		if (op != SP_CMD_CLOSE) {
			const struct sp_command c = {.op = (uint16_t)op, .cookie = UINT64_MAX, .arg = {BUFFER, 0, MTU}};

			CU_ASSERT(fake_command(&alone_nic, &c, NULL) < 0);
		}
	CU_ASSERT_EQUAL(alone_nic.refs[BUFFER], 0);
	CU_ASSERT_EQUAL(alone_post_to(&alone_nic, 0, 990, 10), 0);
	fake_detach(&alone_nic);
}

TEST(impossible_parameters_are_refused_by_name)
{
	static const char *const bad[][5] = {
		{"chunk-bytes", "chunk-bytes", "1000", NULL},
		{"split", "split", "10+18+5", NULL},
		{"max-message-bytes", "split", "20+8+4", NULL},
		{"channels", "channels", "4096", NULL},
		{"max-message-bytes", "max-message-bytes", "512M", NULL},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CU_ASSERT_EQUAL(fake_attach(&alone_nic, bad[i] + 1), -EINVAL);
		CU_ASSERT_STRING_EQUAL(alone_nic.error.param, bad[i][0]);
		for (unsigned a = 0; a < alone_nic.allocs; a++)
			free(alone_nic.alloc[a]);
		free(alone_nic.sent);
	}
}
