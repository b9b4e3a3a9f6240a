/* SPDX-License-Identifier: BSD-3-Clause */
/* What check.c knows of the registers and the stack before an instruction. */
#ifndef PIPELINE_PLUGIN_EBPF_STATE_H
#define PIPELINE_PLUGIN_EBPF_STATE_H

#include "ebpf.h"

#include "value.h"

#define SP_EBPF_SLOTS (SP_EBPF_STACK / 8)

struct sp_ebpf_slot {
	struct sp_ebpf_value
		whole; /* eight bytes that were stored at once; SP_EBPF_NOTHING: in pieces, which are numbers */
	uint8_t set;   /* bit per byte */
};

struct sp_ebpf_state {
	struct sp_ebpf_value reg[EBPF_REG_NUM];
	struct sp_ebpf_slot slot[SP_EBPF_SLOTS]; /* 0: the lowest */
};

/* Keeps in a what holds in both. */
void sp_ebpf_state_meet(struct sp_ebpf_state *a, const struct sp_ebpf_state *b);
/* Bytes of the stack from its lowest on; v: what is stored there. */
void sp_ebpf_state_store(struct sp_ebpf_state *s, unsigned at, unsigned size, const struct sp_ebpf_value *v);
/* For the number in a register `op k` holds, so it does for its copies: in registers, and spilled to the stack. */
void sp_ebpf_state_narrow(struct sp_ebpf_state *s, unsigned reg, unsigned op, uint64_t k);

/* sp_ebpf_check(), which tells what it knows before each instruction. see: NULL, or its listener. */
typedef void sp_ebpf_see(void *arg, uint32_t at, const struct sp_ebpf_state *state);
int sp_ebpf_check_seen(const struct ebpf_insn *ins, uint32_t count, uint32_t *reads, struct sp_error *error,
		       sp_ebpf_see *see, void *arg);

#endif
