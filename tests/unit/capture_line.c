/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of spindle capture: one line whatever a frame holds, and no byte read behind it, which the address sanitizer
 * sees because each frame ends where its memory does. */
#include "../../command/capture/line.h"
#include "../../handlers/wire/roce.h"
#include "../lib/suite.h"

/* A RoCEv2 frame over IPv4, or IPv6, with `opcode` and 64 bytes behind its BTH. Returns its length. */
static size_t roce_frame(uint8_t *f, bool six, uint8_t opcode)
{
	const size_t ip = six ? 40 : 20, udp = 14 + ip, all = udp + 8 + sizeof(struct sp_bth) + 64;

	memset(f, 0, all);
	sp_store_be16(f + 12, six ? 0x86DD : 0x0800);
	f[14] = six ? 0x60 : 0x45;
	f[14 + (six ? 6 : 9)] = 17;
	sp_store_be16(f + 14 + (six ? 4 : 2), (uint16_t)(all - (six ? udp : 14)));
	sp_store_be16(f + udp + 2, SP_ROCE_PORT);
	sp_store_be16(f + udp + 4, (uint16_t)(all - udp));
	f[udp + 8] = opcode;
	return all;
}

/* The line of the frame's first n bytes, checked; the caller frees it. */
static char *line_of(const uint8_t *frame, size_t n)
{
	uint8_t *exact = malloc(n ? n : 1);
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	const struct capture_line line = {
		.time = 1, .port = "p", .frame = exact, .captured = (uint32_t)n, .length = 200, .fate = "fate"};

	memcpy(exact, frame, n);
	CU_ASSERT_EQUAL(capture_line_print(to, &line), 0);
	fclose(to);
	free(exact);
	CU_ASSERT_TRUE(bytes > 8 && !strcmp(text + bytes - 8, " [fate]\n"));
	CU_ASSERT_EQUAL(strcspn(text, "\n"), bytes - 1);
	for (size_t i = 0; i + 1 < bytes; i++)
		CU_ASSERT_TRUE(text[i] >= 0x20 && text[i] < 0x7F);
	return text;
}

TEST(every_opcode_at_every_length_gives_one_line)
{
	uint8_t frame[256];

	for (unsigned six = 0; six < 2; six++)
		for (unsigned opcode = 0; opcode < 256; opcode++) {
			const size_t all = roce_frame(frame, six, (uint8_t)opcode);
			char *text = NULL;

			for (size_t n = 0; n <= all; n++) {
				free(text);
				text = line_of(frame, n);
			}
			CU_ASSERT_PTR_NOT_NULL(strstr(text, "RoCE "));
			CU_ASSERT_PTR_NULL(strstr(text, "[|"));
			free(text);
		}
}

TEST(random_bytes_in_a_frame_give_one_line)
{
	unsigned seed = 1;
	uint8_t frame[256];

	for (unsigned i = 0; i < suite_times(20000); i++) {
		const size_t all = roce_frame(frame, i & 1, (uint8_t)rand_r(&seed));

		for (unsigned k = 0; k < 1 + i % 8; k++)
			frame[(unsigned)rand_r(&seed) % all] = (uint8_t)rand_r(&seed);
		if (i % 5 == 0)
			sp_store_be16(frame + 12, i % 10 ? 0x8100 : 0x0806);
		if (i % 20 == 0)
			sp_store_be16(frame + 20, 1); /* an ARP request */
		free(line_of(frame, (unsigned)rand_r(&seed) % (all + 1)));
	}
}

TEST(a_stream_that_takes_nothing_is_an_error)
{
	FILE *full = fopen("/dev/full", "w");
	const uint8_t frame[14] = {0};
	const struct capture_line line = {.port = "p", .frame = frame, .captured = 14, .length = 14, .fate = "fate"};

	CU_ASSERT_PTR_NOT_NULL_FATAL(full);
	setvbuf(full, NULL, _IOLBF, 0);
	CU_ASSERT_EQUAL(capture_line_print(full, &line), -ENOSPC);
	fclose(full);
}
