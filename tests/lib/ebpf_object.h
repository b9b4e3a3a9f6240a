/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds eBPF object files from instructions, without clang. Each object has one handler. */
#ifndef TESTS_EBPF_OBJECT_H
#define TESTS_EBPF_OBJECT_H

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include "../../handlers/spindle-bpf.h"
#include "../../pipeline/plugin/ebpf/ebpf.h"

/* clang-format off: kept in columns */
#define OP(c, d, s, o, i)                                                                                              \
	{                                                                                                              \
		.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)                                    \
	}

#define MOV(d, i)	  OP(EBPF_ALU64 | EBPF_MOV | BPF_K, d, 0, 0, i)
#define MOVR(d, s)	  OP(EBPF_ALU64 | EBPF_MOV | BPF_X, d, s, 0, 0)
#define ALU(op, d, i)	  OP(EBPF_ALU64 | (op) | BPF_K, d, 0, 0, i)
#define ALUR(op, d, s)	  OP(EBPF_ALU64 | (op) | BPF_X, d, s, 0, 0)
#define ALU32(op, d, i)	  OP(BPF_ALU | (op) | BPF_K, d, 0, 0, i)
#define ALU32R(op, d, s)  OP(BPF_ALU | (op) | BPF_X, d, s, 0, 0)
#define LDX(sz, d, s, o)  OP(BPF_LDX | BPF_MEM | (sz), d, s, o, 0)
#define STX(sz, d, s, o)  OP(BPF_STX | BPF_MEM | (sz), d, s, o, 0)
#define ST(sz, d, o, i)	  OP(BPF_ST | BPF_MEM | (sz), d, 0, o, i)
#define LDDW(d, lo, hi)	  OP(BPF_LD | BPF_IMM | EBPF_DW, d, 0, 0, lo), OP(0, 0, 0, 0, hi)
#define JMP(op, d, i, o)  OP(BPF_JMP | (op) | BPF_K, d, 0, o, i)
#define JMPR(op, d, s, o) OP(BPF_JMP | (op) | BPF_X, d, s, o, 0)
#define CALL(n)		  OP(BPF_JMP | EBPF_CALL, 0, 0, 0, n)
#define EXIT		  OP(BPF_JMP | EBPF_EXIT, 0, 0, 0, 0)

/* clang-format on */

/* Indices of calls, which objects name. */
int call_index(const char *name);

struct object {
	uint8_t bytes[65536];
	size_t len;
};

enum { AT_CODE = 2, AT_ABOUT, AT_COUNTERS, AT_SYMBOLS, AT_REL, AT_DROPS, AT_SECTIONS };
Elf64_Shdr *object_section(struct object *o, unsigned index);

/* calls: the name of what the first call with imm -1 goes to; NULL: none. */
void object_make(struct object *o, const char *id, const struct ebpf_insn *ins, uint32_t count, uint32_t words,
		 const char *calls);

#endif
