/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Divisors that are tested, and live on the stack between the test and the division: more values are needed behind
 * calls than there are registers that calls keep. The test reads the object to see that clang has spilled them.
 */
#include "spindle-bpf.h"

enum { AT = 42 }; /* UDP's data */
#define LOAD(i) sp_bpf_load(AT + 4 * (i), 4)

/* Numbers of 64 bits. */
SP_BPF_HANDLER(spilled, 8)
{
	uint64_t x = LOAD(0), a = LOAD(1), b = LOAD(2), c = LOAD(3), d = LOAD(4), e = LOAD(5);

	if (!x)
		return SP_DONE;
	sp_bpf_state_set(0, a ^ b);
	sp_bpf_state_set(1, b + c * 3);
	sp_bpf_state_set(2, (c ^ d) + e);
	sp_bpf_state_set(3, (a + b + c + d + e) / x);
	sp_bpf_state_set(4, a / x + b);
	sp_bpf_state_set(5, (b ^ c ^ d ^ e) % x);
	return SP_DONE;
}

/* Of 32 bits: clang cuts them again and again, for the test and for each division. */
SP_BPF_HANDLER(cut, 8)
{
	uint32_t x = (uint32_t)LOAD(0), y = (uint32_t)LOAD(1);
	uint64_t a = LOAD(1), b = LOAD(2), c = LOAD(3), d = LOAD(4), e = LOAD(5);

	if (!x || y < 5)
		return SP_DONE;
	sp_bpf_state_set(0, a ^ b);
	sp_bpf_state_set(1, b + c * 3);
	sp_bpf_state_set(2, (c ^ d) + e);
	sp_bpf_state_set(3, (a + b + c + d + e) / x);
	sp_bpf_state_set(4, a / x + b);
	sp_bpf_state_set(5, (uint32_t)(b ^ c ^ d ^ e) % x);
	sp_bpf_state_set(6, (uint32_t)(b ^ c ^ d ^ e) % (y - 3));
	return SP_DONE;
}

/* Tested last where they come back from the stack. */
SP_BPF_HANDLER(late, 8)
{
	uint32_t x = p->len, y = p->frame_len;
	uint64_t a = p->l3, b = p->l4, c = p->flags, d = p->source_port, e = p->destination_port;

	sp_bpf_state_set(0, a ^ b);
	sp_bpf_state_set(1, b + c * 3);
	sp_bpf_state_set(2, (c ^ d) + e);
	if (!x || y <= 50)
		return SP_DONE;
	sp_bpf_state_set(3, (a + b + c + d + e) / x);
	sp_bpf_state_set(4, a / x + b);
	sp_bpf_state_set(5, (uint32_t)(b ^ c ^ d ^ e) % x);
	sp_bpf_state_set(6, (d * e) / (y - 50));
	return SP_DONE;
}

/* Tested first, in the registers that were stored a moment before. */
SP_BPF_HANDLER(early, 8)
{
	uint32_t x = p->len, y = p->frame_len;
	uint64_t a = p->l3, b = p->l4, c = p->flags, d = p->source_port, e = p->destination_port, f = p->opcode,
		 g = p->port, h = p->worker;

	if (!x || y < 5)
		return SP_DONE;
	sp_bpf_state_set(0, a ^ b);
	sp_bpf_state_set(1, b + c * 3);
	sp_bpf_state_set(2, (c ^ d) + e);
	sp_bpf_state_set(3, (a + b + c + d + e) / x);
	sp_bpf_state_set(4, a / x + b + f + g);
	sp_bpf_state_set(5, (uint32_t)(b ^ c ^ d ^ e) % x);
	sp_bpf_state_set(6, (uint32_t)(b ^ c ^ d ^ e) % y + h);
	if (y > 60)
		sp_bpf_state_set(7, x * 1000 / (y - 50));
	return SP_DONE;
}
