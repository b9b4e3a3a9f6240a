/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels.h"

#include <errno.h>
#include <string.h>

#include <valgrind/callgrind.h>

#include "../../handlers/stream_copy.h"
#include "../../handlers/wire/roce.h"
#include "../../pipeline/frame/icrc.h"

#define TIMES	256u
#define PAYLOAD 4096u
#define IP	20u
#define HEAD	(IP + 8 + 12) /* and UDP and BTH */

static struct memory {
	uint8_t from[HEAD + PAYLOAD + 64] __attribute__((aligned(64)));
	uint8_t to[PAYLOAD] __attribute__((aligned(64)));
} memory;

static int open_kernel(const struct bench_options *o, void **state, struct bench_why *why)
{
	for (unsigned i = 0; i < sizeof(memory.from); i++)
		memory.from[i] = (uint8_t)(i * 0x9Du >> 3);
	memory.from[0] = 0x45; /* IPv4 without options */
	*state = &memory;
	return 0;
}

static void close_kernel(void *state)
{
}

static int run_icrc(uint32_t bytes, struct bench_round *round, struct bench_why *why)
{
	uint32_t icrc = 0;

	CALLGRIND_TOGGLE_COLLECT;
	for (unsigned i = 0; i < TIMES; i++)
		icrc = sp_icrc(memory.from, IP, HEAD + bytes);
	CALLGRIND_TOGGLE_COLLECT;
	round->units = TIMES;
	return icrc == sp_icrc_copied(memory.from, IP, HEAD + bytes)
		       ? 0
		       : bench_fail(why, -EPROTO, "the ICRC is not ISA-L's");
}

static int run_place(uint32_t bytes, struct bench_round *round, struct bench_why *why)
{
	memset(memory.to, 0, bytes);
	CALLGRIND_TOGGLE_COLLECT;
	for (unsigned i = 0; i < TIMES; i++)
		sp_stream_copy(memory.to, memory.from + HEAD, bytes);
	CALLGRIND_TOGGLE_COLLECT;
	sp_stream_fence();
	round->units = TIMES;
	return memcmp(memory.to, memory.from + HEAD, bytes) ? bench_fail(why, -EPROTO, "the copy differs") : 0;
}

#define RUN(kernel, bytes)                                                                                             \
	static int run_##kernel##_##bytes(void *state, double seconds, struct bench_round *round,                      \
					  struct bench_why *why)                                                       \
	{                                                                                                              \
		return run_##kernel(bytes, round, why);                                                                \
	}
RUN(icrc, 64)
RUN(icrc, 1024)
RUN(icrc, 4096)
RUN(place, 1024)
RUN(place, 4096)

#define KERNEL(kernel, bytes)                                                                                          \
	{                                                                                                              \
		.name = #kernel "-" #bytes, .open = open_kernel, .run = run_##kernel##_##bytes, .close = close_kernel  \
	}
const struct bench_case counts_kernel[COUNTS_KERNELS] = {
	[COUNTS_ICRC_64] = KERNEL(icrc, 64),	   [COUNTS_ICRC_1024] = KERNEL(icrc, 1024),
	[COUNTS_ICRC_4096] = KERNEL(icrc, 4096),   [COUNTS_PLACE_1024] = KERNEL(place, 1024),
	[COUNTS_PLACE_4096] = KERNEL(place, 4096),
};
