/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sizes: histograms of packet lengths and of the gaps between packets, in powers of two, as sizes.c does, in eBPF.
 * `forward` sends the packets on the normal way, so that it can stand before anything.
 *
 * Words of state: 0 to 15, packets of up to 2^n - 1 bytes; 16 + n, gaps since the packet before of up to 2^n - 1
 * nanoseconds; 64, time of the latest packet (ps + 1; 0: none).
 */
#include "spindle-bpf.h"

enum { LENGTHS = 0, GAPS = 16, LATEST = 64, WORDS };
SP_BPF_DOC(sizes, "histograms of packets' lengths and of the gaps between them");

enum { FORWARD };
SP_BPF_PARAMETERS(sizes) = {{"forward", "0", "1: packets go on the normal way"}};

/* Bits that v needs. By halves, as there are no loops. */
static inline __attribute__((always_inline)) uint32_t bits(uint64_t v)
{
	uint32_t n = 0, more;

	more = (v >> 32 != 0) << 5, v >>= more, n += more;
	more = (v >> 16 != 0) << 4, v >>= more, n += more;
	more = (v >> 8 != 0) << 3, v >>= more, n += more;
	more = (v >> 4 != 0) << 2, v >>= more, n += more;
	more = (v >> 2 != 0) << 1, v >>= more, n += more;
	more = (v >> 1 != 0), v >>= more, n += more;
	return n + (uint32_t)v;
}

SP_BPF_HANDLER(sizes, WORDS)
{
	const uint64_t before = sp_bpf_state_get(LATEST);
	uint32_t at = bits(p->frame_len);

	sp_bpf_state_add(LENGTHS + (at < 15 ? at : 15), 1);
	if (before && p->now + 1 >= before) {
		at = bits((p->now + 1 - before) / 1000);
		sp_bpf_state_add(GAPS + (at < 47 ? at : 47), 1);
	}
	sp_bpf_state_set(LATEST, p->now + 1);
	return sp_bpf_param(FORWARD) ? SP_FORWARD : SP_DONE;
}
