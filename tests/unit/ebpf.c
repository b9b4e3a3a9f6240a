/* SPDX-License-Identifier: BSD-3-Clause */
/* eBPF objects: what is refused, in which words, and that what is not refused keeps to its memory. */
#include <dirent.h>
#include <sys/wait.h>
#include <time.h>

#include "../lib/ebpf_oracle.h"
#include "../lib/ebpf_random.h"
#include "../lib/suite.h"

#define PACKET_BYTES ((int)sizeof(struct sp_bpf_packet))

/* ---- what the check says ------------------------------------------------------------------------- */
struct hostile {
	const char *what, *words; /* words NULL: may pass */
	struct ebpf_insn ins[12];
};

static const struct hostile hostile[] = {
	{"reads behind the copy", "reaches bytes", {LDX(BPF_B, 0, 1, PACKET_BYTES), EXIT}},
	{"reads eight bytes at its last one", "reaches bytes", {LDX(EBPF_DW, 0, 1, PACKET_BYTES - 1), EXIT}},
	{"reads before the copy", "reaches bytes", {LDX(BPF_W, 0, 1, -4), EXIT}},
	{"writes behind the copy", "reaches bytes", {MOV(0, 0), ST(EBPF_DW, 1, PACKET_BYTES - 4, 1), EXIT}},
	{"reads at an index with no mask",
	 "may be anything",
	 {LDX(BPF_W, 2, 1, 8), ALUR(BPF_ADD, 1, 2), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"reads at an index with too wide a mask",
	 "reaches bytes",
	 {LDX(BPF_W, 2, 1, 8), ALU(BPF_AND, 2, 255), ALUR(BPF_ADD, 1, 2), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"reads at an index with a mask",
	 NULL,
	 {LDX(BPF_W, 2, 1, 8), ALU(BPF_AND, 2, 63), ALUR(BPF_ADD, 1, 2), LDX(BPF_B, 0, 1, 100), EXIT}},
	{"reads before, by a negative index",
	 "reaches bytes",
	 {LDX(BPF_W, 2, 1, 8), ALU(BPF_AND, 2, 63), ALUR(BPF_SUB, 1, 2), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"multiplies so far that it looks small", /* DPDK's verifier of 22.11 takes 2^16 * 2^48 for 0 */
	 "may be anything",
	 {LDX(BPF_H, 2, 1, 8), ALU(BPF_ADD, 2, 1), LDDW(3, 0, 65536), ALUR(BPF_MUL, 2, 3), ALUR(BPF_ADD, 1, 2),
	  LDX(BPF_B, 0, 1, 0), EXIT}},
	{"shifts so far that it looks small",
	 "may be anything",
	 {LDX(BPF_H, 2, 1, 8), ALU(BPF_ADD, 2, 1), ALU(BPF_LSH, 2, 48), ALUR(BPF_ADD, 1, 2), LDX(BPF_B, 0, 1, 0),
	  EXIT}},
	{"adds so far that it looks small",
	 "may be anything",
	 {LDX(EBPF_DW, 2, 1, 0), ALU(BPF_OR, 2, 1), ALU(BPF_ADD, 2, 1), ALUR(BPF_ADD, 1, 2), LDX(BPF_B, 0, 1, 0),
	  EXIT}},
	{"shifts right as if signed",
	 "may be anything",
	 {LDX(EBPF_DW, 2, 1, 0), ALU(EBPF_ARSH, 2, 60), ALUR(BPF_ADD, 1, 2), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"masks 32 bits and negates all",
	 "may be anything",
	 {LDX(BPF_W, 2, 1, 8), ALU(BPF_AND, 2, 7), ALU(BPF_NEG, 2, 0), ALUR(BPF_ADD, 1, 2), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"compares as signed, uses as unsigned",
	 "may be anything",
	 {LDX(EBPF_DW, 2, 1, 0), MOV(0, 0), JMP(EBPF_JSGT, 2, 7, 2), ALUR(BPF_ADD, 1, 2), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"compares on one way and uses on both",
	 "may be anything",
	 {LDX(EBPF_DW, 2, 1, 0), MOV(0, 0), JMP(BPF_JGT, 2, 7, 0), ALUR(BPF_ADD, 1, 2), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"writes r10", "writes r10", {MOV(10, 0), MOV(0, 0), EXIT}},
	{"moves r10", "writes r10", {ALU(BPF_ADD, 10, 8), MOV(0, 0), EXIT}},
	{"loads into r10", "writes r10", {LDX(EBPF_DW, 10, 1, 0), MOV(0, 0), EXIT}},
	{"loads a constant into r10", "writes r10", {LDDW(10, 1, 1), MOV(0, 0), EXIT}},
	{"names r11", "names r11", {MOVR(0, 11), EXIT}},
	{"writes below the stack", "from the stack's end", {MOV(0, 0), ST(EBPF_DW, 10, -520, 1), EXIT}},
	{"writes above the stack", "from the stack's end", {MOV(0, 0), ST(EBPF_DW, 10, 0, 1), EXIT}},
	{"writes across the stack's end", "from the stack's end", {MOV(0, 0), ST(EBPF_DW, 10, -4, 1), EXIT}},
	{"reads stack that was never written", "nothing has been written", {LDX(EBPF_DW, 0, 10, -8), EXIT}},
	{"reads more of the stack than was written",
	 "nothing has been written",
	 {ST(BPF_W, 10, -8, 1), LDX(EBPF_DW, 0, 10, -8), EXIT}},
	{"reads stack that one way alone has written",
	 "nothing has been written",
	 {LDX(BPF_W, 2, 1, 8), JMP(BPF_JEQ, 2, 0, 1), ST(EBPF_DW, 10, -8, 1), LDX(EBPF_DW, 0, 10, -8), EXIT}},
	{"indexes the stack",
	 "address of the stack",
	 {LDX(BPF_W, 2, 1, 8), ALU(BPF_AND, 2, 7), MOVR(3, 10), ALUR(BPF_SUB, 3, 2), ST(BPF_B, 3, -8, 1), MOV(0, 0),
	  EXIT}},
	{"keeps an address", NULL, {STX(EBPF_DW, 10, 1, -8), LDX(EBPF_DW, 2, 10, -8), LDX(BPF_W, 0, 2, 8), EXIT}},
	{"reads a piece of an address", "piece of an address", {STX(EBPF_DW, 10, 1, -8), LDX(BPF_W, 0, 10, -8), EXIT}},
	{"breaks an address and uses it",
	 "nothing has been written",
	 {STX(EBPF_DW, 10, 1, -8), ST(BPF_B, 10, -8, 0), LDX(EBPF_DW, 0, 10, -8), EXIT}},
	{"puts an address into the packet's copy", "stores an address", {STX(EBPF_DW, 1, 10, 0), MOV(0, 0), EXIT}},
	{"stores half an address", "stores an address", {STX(BPF_W, 10, 1, -8), MOV(0, 0), EXIT}},
	{"stores an address across two words", "stores an address", {STX(EBPF_DW, 10, 1, -12), MOV(0, 0), EXIT}},
	{"returns an address", "returns an address", {MOVR(0, 1), EXIT}},
	{"returns the stack's address", "returns an address", {MOVR(0, 10), EXIT}},
	{"returns nothing", "uses r0", {EXIT}},
	{"hands an address to a call", "hands to a call an address", {MOV(2, 8), CALL(0), EXIT}},
	{"calls with a register that holds nothing", "uses r2", {MOV(1, 0), CALL(0), EXIT}},
	{"uses what a call has left in a register",
	 "uses r3",
	 {MOV(1, 0), MOV(2, 1), MOV(3, 7), CALL(0), MOVR(0, 3), EXIT}},
	{"calls what there is not", "which is none of", {CALL(99), EXIT}},
	{"calls number -1", "which is none of", {CALL(-1), EXIT}},
	{"calls a function of its own", "always_inline", {OP(BPF_JMP | EBPF_CALL, 0, 1, 0, 1), EXIT, MOV(0, 0), EXIT}},
	{"calls by register", "is no instruction", {MOV(1, 0), OP(BPF_JMP | EBPF_CALL | BPF_X, 1, 0, 0, 0), EXIT}},
	{"subtracts addresses", "computes with an address", {ALUR(BPF_SUB, 1, 10), MOVR(0, 1), EXIT}},
	{"takes an address from a number", "computes with an address", {MOV(0, 0), ALUR(BPF_SUB, 0, 1), EXIT}},
	{"xors an address", "computes with an address", {ALU(BPF_XOR, 1, 1), MOV(0, 0), EXIT}},
	{"masks an address", "computes with an address", {ALU(BPF_AND, 1, -8), MOV(0, 0), EXIT}},
	{"cuts an address", "cuts an address", {ALU32R(EBPF_MOV, 0, 1), EXIT}},
	{"adds 32 bits to an address", "cuts an address", {ALU32(BPF_ADD, 1, 8), MOV(0, 0), EXIT}},
	{"swaps the bytes of an address",
	 "an address",
	 {OP(BPF_ALU | EBPF_END | EBPF_TO_BE, 1, 0, 0, 64), MOV(0, 0), EXIT}},
	{"compares addresses", "compares an address", {MOV(0, 0), JMPR(BPF_JGT, 1, 10, 0), EXIT}},
	{"compares an address with 0", "compares an address", {MOV(0, 0), JMP(BPF_JEQ, 1, 0, 0), EXIT}},
	{"takes a number for an address",
	 "takes a number for an address",
	 {LDDW(2, 4096, 0), LDX(EBPF_DW, 0, 2, 0), EXIT}},
	{"an address on one way, a number on the other",
	 "uses r2",
	 {LDX(BPF_W, 3, 1, 8), MOV(2, 0), JMP(BPF_JEQ, 3, 0, 1), MOVR(2, 1), LDX(BPF_W, 0, 2, 0), EXIT}},
	{"two addresses, one on each way",
	 "uses r2",
	 {LDX(BPF_W, 3, 1, 8), MOVR(2, 10), JMP(BPF_JEQ, 3, 0, 1), MOVR(2, 1), ST(BPF_W, 2, -8, 0), EXIT}},
	{"two places of the stack, one on each way",
	 "uses r2",
	 {LDX(BPF_W, 3, 1, 8), MOVR(2, 10), JMP(BPF_JEQ, 3, 0, 1), ALU(BPF_ADD, 2, -16), ST(BPF_W, 2, -504, 0),
	  MOV(0, 0), EXIT}},
	{"reads halves of two addresses as one",
	 "piece of an address",
	 {STX(EBPF_DW, 10, 1, -8), STX(EBPF_DW, 10, 1, -16), LDX(EBPF_DW, 2, 10, -12), LDX(BPF_B, 0, 2, 0), EXIT}},
	{"multiplies an address", "computes with an address", {ALU(BPF_MUL, 1, 3), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"negates an address", "computes with an address", {ALU(BPF_NEG, 1, 0), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"shifts an address", "computes with an address", {ALU(BPF_RSH, 1, 1), LDX(BPF_B, 0, 1, 0), EXIT}},
	{"loops", "a loop", {MOV(0, 0), ALU(BPF_ADD, 0, 1), JMP(EBPF_JNE, 0, 9, -2), EXIT}},
	{"loops, and begins at the end",
	 "a loop",
	 {MOV(0, 0), OP(BPF_JMP | BPF_JA, 0, 0, 1, 0), ALU(BPF_ADD, 0, 1), JMP(EBPF_JNE, 0, 9, -2), EXIT}},
	{"loops on the spot", "a loop", {MOV(0, 0), OP(BPF_JMP | BPF_JA, 0, 0, -1, 0), EXIT}},
	{"jumps behind the end", "behind the program's end", {MOV(0, 0), JMP(BPF_JEQ, 0, 0, 1), EXIT}},
	{"jumps far", "behind the program's end", {MOV(0, 0), OP(BPF_JMP | BPF_JA, 0, 0, 32767, 0), EXIT}},
	{"jumps into a constant", "is jumped into", {MOV(0, 0), JMP(BPF_JEQ, 0, 0, 1), LDDW(2, 1, 1), EXIT}},
	{"ends without returning", "does not return", {MOV(0, 0)}},
	{"ends in a call", "does not return", {MOV(0, 0), CALL(5)}},
	{"ends in half a constant", "half of a constant", {OP(BPF_LD | BPF_IMM | EBPF_DW, 0, 0, 0, 1)}},
	{"has code that is never reached", "never reached", {MOV(0, 0), EXIT, MOV(0, 1), EXIT}},
	{"reads a packet by LD_ABS", "LD_ABS", {MOVR(6, 1), OP(BPF_LD | BPF_ABS | BPF_W, 0, 0, 0, 0), EXIT}},
	{"reads a packet by LD_IND", "LD_ABS", {MOVR(6, 1), OP(BPF_LD | BPF_IND | BPF_W, 0, 6, 0, 0), EXIT}},
	{"takes a map's address",
	 "a map or a variable",
	 {OP(BPF_LD | BPF_IMM | EBPF_DW, 0, 1, 0, 3), OP(0, 0, 0, 0, 0), EXIT}},
	{"is atomic", "is atomic", {MOV(0, 0), OP(BPF_STX | EBPF_XADD | EBPF_DW, 1, 0, 0, 0), EXIT}},
	{"compares and exchanges", "is atomic", {MOV(0, 0), OP(BPF_STX | EBPF_XADD | EBPF_DW, 1, 0, 0, 0xF1), EXIT}},
	{"divides by 0", "divides by what may be 0", {MOV(0, 1), ALU(BPF_DIV, 0, 0), EXIT}},
	{"divides by what may be 0",
	 "divides by what may be 0",
	 {MOV(0, 1), LDX(BPF_W, 2, 1, 8), ALUR(BPF_DIV, 0, 2), EXIT}},
	{"divides 32 bits", "instruction 2 divides 32 bits", {MOV(0, 1), MOV(2, 3), ALU32R(BPF_DIV, 0, 2), EXIT}},
	{"divides 32 bits by a constant", "instruction 1 divides 32 bits", {MOV(0, 1), ALU32(BPF_MOD, 0, 3), EXIT}},
	{"makes 16 bits little endian",
	 "little endian, which it is",
	 {MOV(0, -1), OP(BPF_ALU | EBPF_END | EBPF_TO_LE, 0, 0, 0, 16), EXIT}},
	{"divides by what is 0 in 32 bits", "divides 32 bits", {MOV(0, 1), LDDW(2, 0, 1), ALU32R(BPF_MOD, 0, 2), EXIT}},
	{"divides by what was looked at",
	 NULL,
	 {MOV(0, 1), LDX(BPF_W, 2, 1, 8), JMP(BPF_JEQ, 2, 0, 1), ALUR(BPF_DIV, 0, 2), EXIT}},
	{"divides by a copy on the stack of what was looked at",
	 NULL,
	 {LDX(BPF_W, 2, 1, 8), STX(EBPF_DW, 10, 2, -8), MOV(0, 1), JMP(BPF_JEQ, 2, 0, 2), LDX(EBPF_DW, 3, 10, -8),
	  ALUR(BPF_DIV, 0, 3), EXIT}},
	{"divides by that of which a copy was looked at",
	 NULL,
	 {LDX(BPF_W, 2, 1, 8), STX(EBPF_DW, 10, 2, -8), LDX(EBPF_DW, 3, 10, -8), MOV(0, 1), JMP(BPF_JEQ, 3, 0, 1),
	  ALUR(BPF_DIV, 0, 2), EXIT}},
	{"divides by the low half of what has another copy, whose low half was looked at",
	 NULL,
	 {LDX(EBPF_DW, 2, 1, 0), MOVR(3, 2), MOV(0, 1), ALU(BPF_LSH, 3, 32), ALU(BPF_RSH, 3, 32), JMP(BPF_JEQ, 3, 0, 3),
	  ALU(BPF_LSH, 2, 32), ALU(BPF_RSH, 2, 32), ALUR(BPF_DIV, 0, 2), EXIT}},
	{"changes what was looked at, and divides by it",
	 "divides by what may be 0",
	 {LDX(BPF_W, 2, 1, 8), MOVR(3, 2), MOV(0, 1), JMP(BPF_JEQ, 3, 0, 2), ALU(BPF_RSH, 2, 1), ALUR(BPF_DIV, 0, 2),
	  EXIT}},
	{"overwrites a byte of the copy that it divides by",
	 "divides by what may be 0",
	 {LDX(BPF_W, 2, 1, 8), STX(EBPF_DW, 10, 2, -8), MOV(0, 1), JMP(BPF_JEQ, 2, 0, 3), ST(BPF_B, 10, -8, 0),
	  LDX(EBPF_DW, 3, 10, -8), ALUR(BPF_DIV, 0, 3), EXIT}},
	{"has a copy on one way alone",
	 "divides by what may be 0",
	 {LDX(BPF_W, 2, 1, 8), LDX(BPF_W, 3, 1, 12), JMP(BPF_JEQ, 3, 7, 1), MOVR(3, 2), MOV(0, 1),
	  JMP(BPF_JEQ, 2, 0, 1), ALUR(BPF_DIV, 0, 3), EXIT}},
	{"looks at the high half",
	 "divides by what may be 0",
	 {LDX(EBPF_DW, 2, 1, 0), MOVR(3, 2), MOV(0, 1), ALU(BPF_RSH, 3, 32), JMP(BPF_JEQ, 3, 0, 3), ALU(BPF_LSH, 2, 32),
	  ALU(BPF_RSH, 2, 32), ALUR(BPF_DIV, 0, 2), EXIT}},
	{"divides by the masked copy on the stack of what was looked at masked",
	 NULL,
	 {LDX(EBPF_DW, 2, 1, 0), STX(EBPF_DW, 10, 2, -8), ALU(BPF_AND, 2, 255), MOV(0, 1), JMP(BPF_JEQ, 2, 0, 3),
	  LDX(EBPF_DW, 3, 10, -8), ALU(BPF_AND, 3, 255), ALUR(BPF_DIV, 0, 3), EXIT}},
	{"divides by more bits than were looked at",
	 NULL,
	 {LDX(EBPF_DW, 2, 1, 0), MOVR(3, 2), ALU(BPF_AND, 3, 15), MOV(0, 1), JMP(BPF_JEQ, 3, 0, 2),
	  ALU(BPF_AND, 2, 255), ALUR(BPF_DIV, 0, 2), EXIT}},
	{"divides by all of what was looked at masked",
	 NULL,
	 {LDX(EBPF_DW, 2, 1, 0), MOVR(3, 2), ALU(BPF_AND, 3, 15), MOV(0, 1), JMP(BPF_JEQ, 3, 0, 1), ALUR(BPF_DIV, 0, 2),
	  EXIT}},
	{"divides by 16 bits in the other order than looked at",
	 NULL,
	 {LDX(BPF_H, 2, 1, 0), MOV(0, 1), JMP(BPF_JEQ, 2, 0, 2), OP(BPF_ALU | EBPF_END | EBPF_TO_BE, 2, 0, 0, 16),
	  ALUR(BPF_DIV, 0, 2), EXIT}},
	{"divides by 16 of the 32 bits looked at, in the other order",
	 "divides by what may be 0",
	 {LDX(BPF_W, 2, 1, 0), MOV(0, 1), JMP(BPF_JEQ, 2, 0, 2), OP(BPF_ALU | EBPF_END | EBPF_TO_BE, 2, 0, 0, 16),
	  ALUR(BPF_DIV, 0, 2), EXIT}},
	{"divides by fewer bits than were looked at",
	 "divides by what may be 0",
	 {LDX(EBPF_DW, 2, 1, 0), MOVR(3, 2), ALU(BPF_AND, 3, 255), MOV(0, 1), JMP(BPF_JEQ, 3, 0, 2),
	  ALU(BPF_AND, 2, 15), ALUR(BPF_DIV, 0, 2), EXIT}},
	{"overwrites the copy on the stack of what was looked at masked",
	 "divides by what may be 0",
	 {LDX(EBPF_DW, 2, 1, 0), STX(EBPF_DW, 10, 2, -8), LDX(EBPF_DW, 4, 1, 8), ALU(BPF_AND, 2, 255), MOV(0, 1),
	  JMP(BPF_JEQ, 2, 0, 4), STX(EBPF_DW, 10, 4, -8), LDX(EBPF_DW, 3, 10, -8), ALU(BPF_AND, 3, 255),
	  ALUR(BPF_DIV, 0, 3), EXIT}},
	{"overwrites a byte of it",
	 "divides by what may be 0",
	 {LDX(EBPF_DW, 2, 1, 0), STX(EBPF_DW, 10, 2, -8), ALU(BPF_AND, 2, 255), MOV(0, 1), JMP(BPF_JEQ, 2, 0, 4),
	  ST(BPF_B, 10, -8, 0), LDX(EBPF_DW, 3, 10, -8), ALU(BPF_AND, 3, 255), ALUR(BPF_DIV, 0, 3), EXIT}},
	{"looks at a masked copy and something more",
	 "divides by what may be 0",
	 {LDX(EBPF_DW, 2, 1, 0), MOVR(3, 2), ALU(BPF_AND, 3, 255), ALU(BPF_ADD, 3, 1), MOV(0, 1), JMP(BPF_JEQ, 3, 0, 2),
	  ALU(BPF_AND, 2, 255), ALUR(BPF_DIV, 0, 2), EXIT}},
	{"looks at a masked copy on one way alone",
	 "divides by what may be 0",
	 {LDX(EBPF_DW, 2, 1, 0), LDX(BPF_W, 4, 1, 8), MOVR(3, 2), ALU(BPF_AND, 3, 255), MOV(0, 1),
	  JMP(BPF_JEQ, 4, 7, 1), JMP(BPF_JEQ, 3, 0, 2), ALU(BPF_AND, 2, 255), ALUR(BPF_DIV, 0, 2), EXIT}},
	{"shifts by 64", "shifts by", {MOV(0, 1), ALU(BPF_LSH, 0, 64), EXIT}},
	{"shifts 32 bits by 32", "shifts by", {MOV(0, 1), ALU32(BPF_RSH, 0, 32), EXIT}},
	{"shifts by -1", "shifts by", {MOV(0, 1), ALU(EBPF_ARSH, 0, -1), EXIT}},
	{"divides by itself", "by itself", {MOV(0, 1), ALUR(BPF_DIV, 0, 0), EXIT}},
	{"shifts by itself", "by itself", {MOV(0, 1), ALU32R(BPF_LSH, 0, 0), EXIT}},
	{"swaps 8 bits", "swaps 8 bits", {MOV(0, 1), OP(BPF_ALU | EBPF_END | EBPF_TO_BE, 0, 0, 0, 8), EXIT}},
	{"compares 32 bits", "-mcpu=v3", {MOV(0, 1), OP(0x06 | BPF_JEQ, 0, 0, 0, 0), EXIT}},
	{"extends a sign", "-mcpu=v4", {LDX(BPF_B, 0, 1, 0), OP(EBPF_ALU64 | EBPF_MOV | BPF_X, 0, 0, 8, 0), EXIT}},
	{"loads with a sign", "-mcpu=v4", {OP(BPF_LDX | 0x80 | BPF_B, 0, 1, 0, 0), EXIT}},
	{"divides with a sign", "-mcpu=v4", {MOV(0, 9), OP(EBPF_ALU64 | BPF_DIV | BPF_K, 0, 0, 1, 3), EXIT}},
	{"swaps bytes without condition", "-mcpu=v4", {MOV(0, 9), OP(EBPF_ALU64 | EBPF_END, 0, 0, 0, 16), EXIT}},
	{"tests bits", "no instruction", {MOV(0, 1), JMP(BPF_JSET, 0, 1, 0), EXIT}},
	{"has bits that mean nothing", "mean nothing", {OP(EBPF_ALU64 | EBPF_MOV | BPF_K, 0, 3, 0, 1), EXIT}},
	{"has bits in a return", "is no instruction", {MOV(0, 1), OP(BPF_JMP | EBPF_EXIT, 0, 0, 0, 1)}},
	{"has an opcode that is none", NULL, {OP(0xE7, 0, 0, 0, 0), EXIT}},
};

static uint32_t length(const struct ebpf_insn *ins)
{
	uint32_t n = 12;

	while (n && !memcmp(&ins[n - 1], &(const struct ebpf_insn){0}, sizeof(*ins)))
		n--;
	return n;
}

TEST(hostile_instructions_are_refused_in_words)
{
	for (size_t i = 0; i < COUNT(hostile); i++) {
		struct sp_error error;
		const int r = ebpf_check(hostile[i].ins, length(hostile[i].ins), &error);
		const bool good = !hostile[i].words || (r == -EINVAL && strstr(error.text, hostile[i].words));

		if (!good)
			printf("# %s: %d, '%s' where '%s' was to be said\n", hostile[i].what, r, error.text,
			       hostile[i].words);
		CU_ASSERT(good);
		CU_ASSERT(!r || !strncmp(error.text, "instruction ", 12));
	}
}

/* What is good must pass, or the rule above were kept by refusing everything. */
TEST(harmless_programs_pass)
{
	unsigned passed = 0;

	for (size_t i = 0; i < COUNT(hostile); i++) {
		struct sp_error error;

		if (!hostile[i].words && hostile[i].ins[0].code != 0xE7) {
			const int r = ebpf_check(hostile[i].ins, length(hostile[i].ins), &error);

			if (r)
				printf("# %s: %s\n", hostile[i].what, error.text);
			CU_ASSERT_EQUAL(r, 0);
			passed++;
		}
	}
	CU_ASSERT_EQUAL(passed, 10);
}

TEST(every_opcode_is_either_known_or_refused)
{
	static const uint8_t rounds = 8;
	struct oracle o = {0};

	ebpf_seed = 11;
	for (unsigned code = 0; code < 256; code++)
		for (unsigned k = 0; k < rounds; k++) {
			const struct ebpf_insn ins[] = {
				MOV(0, 1), MOV(2, 3), OP((uint8_t)code, 0, code & BPF_X ? 2 : 0, 0, (int)ebpf_any(70)),
				EXIT};
			struct sp_error error;

			if (!ebpf_check(ins, COUNT(ins), &error))
				CU_ASSERT_EQUAL(oracle_run(&o, ins, COUNT(ins)), 0);
		}
}

/* ---- what passes keeps to its memory -------------------------------------------------------------- */
static void fill(struct oracle *o)
{
	for (size_t i = 0; i < sizeof(o->packet); i++)
		o->packet[i] = (uint8_t)(ebpf_any(3) ? ebpf_any(256) : ebpf_any(2) ? 0 : 0xFF);
}

TEST(what_passes_keeps_to_its_memory)
{
	struct ebpf_insn ins[ROOM + 8];
	struct oracle o = {0};

	for (ebpf_seed = 1; ebpf_seed < suite_times(3000); ebpf_seed++) {
		const uint64_t began = ebpf_seed;
		const uint32_t n = random_program(ins);
		struct sp_error error;
		uint32_t reads;

		CU_ASSERT_EQUAL_FATAL(sp_ebpf_check(ins, n, &reads, &error), 0);
		for (unsigned k = 0; k < 8; k++) {
			fill(&o);
			if (oracle_run(&o, ins, n)) {
				printf("# seed %llu: %s\n", (unsigned long long)began, o.wrong);
				CU_FAIL_FATAL("a program that passed does what it may not");
			}
			CU_ASSERT_EQUAL(o.read & ~reads, 0);
		}
		ebpf_seed = began;
	}
}

/* ---- files ----------------------------------------------------------------------------------------- */
static const struct ebpf_insn forwards[] = {MOV(1, 1), MOV(2, 2), CALL(-1), MOV(0, 2), EXIT};

static int read_object(const struct object *o, size_t len, struct sp_error *error)
{
	uint8_t *bytes = malloc(len ? len : 1); /* of that size: a sanitizer sees the byte behind it */
	struct sp_ebpf *e;

	memcpy(bytes, o->bytes, len);
	*error = (struct sp_error){.key = ""};
	int r = sp_ebpf_read(bytes, len, &e, error);
	sp_ebpf_close(e);
	return r;
}

static struct object made;

static void make(void)
{
	object_make(&made, "forwards", forwards, COUNT(forwards), 4, "sp_bpf_load");
}

TEST(objects_are_read)
{
	struct sp_error error;
	struct sp_ebpf *e;

	make();
	uint8_t *bytes = malloc(made.len);
	memcpy(bytes, made.bytes, made.len);
	CU_ASSERT_EQUAL_FATAL(sp_ebpf_read(bytes, made.len, &e, &error), 0);
	CU_ASSERT_EQUAL(e->count, 1);
	CU_ASSERT_STRING_EQUAL(e->program[0].name, "forwards");
	CU_ASSERT_EQUAL(e->program[0].words, 4);
	CU_ASSERT_EQUAL(e->program[0].counters, 2);
	CU_ASSERT_STRING_EQUAL(e->program[0].counter[1], "second");
	CU_ASSERT_STRING_EQUAL(e->program[0].drop[0], "unwanted");
	CU_ASSERT_EQUAL(e->program[0].ins[2].imm, call_index("sp_bpf_load"));
	CU_ASSERT_EQUAL(e->program[0].ins[2].src_reg, 0);
	sp_ebpf_close(e);
}

TEST(files_that_are_cut_off_are_refused)
{
	struct sp_error error;

	make();
	for (size_t len = 0; len < made.len; len++) {
		int r = read_object(&made, len, &error);

		/* The last section ends at an odd place; what is behind it is nobody's. */
		CU_ASSERT(r == -EINVAL || len >= made.len - 8);
		CU_ASSERT(!r || *error.text);
	}
}

TEST(damaged_files_do_no_harm)
{
	static const uint64_t odd[] = {0, 1, 7, 8, UINT32_MAX, UINT64_MAX, UINT64_MAX - 7, INT64_MAX, 65536};
	struct sp_error error;
	unsigned refused = 0;

	for (ebpf_seed = 1; ebpf_seed < 20000; ebpf_seed++) {
		const uint64_t began = ebpf_seed;

		make();
		for (unsigned k = 0; k < 1 + ebpf_seed % 4; k++) {
			const size_t head = sizeof(Elf64_Ehdr) + AT_SECTIONS * sizeof(Elf64_Shdr);
			const size_t at = ebpf_any(3) ? ebpf_any(head) : ebpf_any(made.len - 8);

			if (ebpf_any(2))
				memcpy(made.bytes + (at & ~(size_t)7), &odd[ebpf_any(COUNT(odd))], 8);
			else
				made.bytes[at] ^= (uint8_t)(1 << ebpf_any(8));
		}
		refused += read_object(&made, made.len, &error) != 0;
		ebpf_seed = began;
	}
	CU_ASSERT(refused > 5000);
}

static void says(const char *words)
{
	struct sp_error error;
	int r = read_object(&made, made.len, &error);
	bool good = r == -EINVAL && strstr(error.text, words);

	if (!good)
		printf("# %d, '%s' where '%s' was to be said\n", r, error.text, words);
	CU_ASSERT(good);
	for (const char *c = error.text; *c; c++) /* nothing that a terminal would obey */
		CU_ASSERT(*c >= ' ' && *c < 127);
}

static Elf64_Ehdr *header(void)
{
	make();
	return (Elf64_Ehdr *)(void *)made.bytes;
}

TEST(what_is_wrong_with_a_file_is_said)
{
	header()->e_ident[EI_CLASS] = ELFCLASS32;
	says("32 bits");
	header()->e_ident[EI_DATA] = ELFDATA2MSB;
	says("bpfel");
	header()->e_machine = EM_X86_64;
	says("clang -target bpf");
	header()->e_type = ET_DYN;
	says("is it linked");
	header()->e_shoff = 1 << 20;
	says("cut off");
	header()->e_shnum = 60000;
	says("damaged");
	make();
	object_section(&made, 1)->sh_size--;
	says("no names of sections");
	make();
	object_section(&made, AT_CODE)->sh_size = 12;
	says("1 to 4096 instructions");
	make();
	object_section(&made, AT_CODE)->sh_type = SHT_NOBITS;
	says("0 sections handler/NAME");
	make();
	object_section(&made, AT_ABOUT)->sh_size = 8;
	says("SP_BPF_HANDLER");
	make();
	struct sp_bpf_about *about = (void *)(made.bytes + object_section(&made, AT_ABOUT)->sh_offset);
	about->abi = 7;
	says("built for ABI 7");
	about->abi = SP_BPF_ABI;
	about->state_words = SP_BPF_STATE + 1;
	says("words of state");
	make();
	made.bytes[object_section(&made, AT_COUNTERS)->sh_offset] = 27;
	says("cannot be printed");
	make();
	object_section(&made, AT_COUNTERS)->sh_size = 3;
	says("does not end with a 0 byte");
	object_make(&made, "x", forwards, COUNT(forwards), 0, "memcpy\033[2J");
	says("calls 'memcpy?[2J', which is none");
	make();
	((Elf64_Sym *)(void *)(made.bytes + object_section(&made, AT_SYMBOLS)->sh_offset))[1].st_shndx = AT_ABOUT;
	says("always_inline");
	make();
	((Elf64_Rel *)(void *)(made.bytes + object_section(&made, AT_REL)->sh_offset))->r_info = ELF64_R_INFO(1, 1);
	says("variable or constant");
	make();
	((Elf64_Rel *)(void *)(made.bytes + object_section(&made, AT_REL)->sh_offset))->r_offset = 4096;
	says("relocation outside");
	make(); /* sections may lie over each other */
	object_section(&made, AT_REL)->sh_offset = 0;
	object_section(&made, AT_REL)->sh_size = sizeof(Elf64_Rel) * (COUNT(forwards) + 1);
	says("more relocations than instructions");
}

/* ---- the child process ------------------------------------------------------------------------------ */
static unsigned descriptors(void)
{
	unsigned n = 0;
	DIR *dir = opendir("/proc/self/fd");

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int try(const struct ebpf_insn *ins, uint32_t count, struct sp_error *error)
{
	struct sp_ebpf_program p = {
		.section = "handler/tried", .ins = (struct ebpf_insn *)(uintptr_t)ins, .count = count};
	const unsigned before = descriptors();

	*error = (struct sp_error){.key = ""};
	int r = sp_ebpf_try(&p, error);
	CU_ASSERT_EQUAL(descriptors(), before);
	CU_ASSERT(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD); /* nothing is left of it */
	return r;
}

TEST(the_child_agrees_or_says_why)
{
	static const struct ebpf_insn good[] = {MOV(0, 0), EXIT}, bad[] = {LDX(BPF_W, 0, 1, 4096), EXIT};
	struct sp_error error;

	CU_ASSERT_EQUAL(try(good, COUNT(good), &error), 0);
	CU_ASSERT_EQUAL(try(bad, COUNT(bad), &error), -EINVAL);
	if (!strstr(error.text, "handler/tried") || !strstr(error.text, "boundary"))
		printf("# %s\n", error.text);
	CU_ASSERT(strstr(error.text, "handler/tried") && strstr(error.text, "boundary"));
}

/* Each of them doubles what DPDK's verifier has to look at. */
TEST(a_verification_that_explodes_is_ended)
{
	enum { BRANCHES = 40 };
	struct ebpf_insn ins[6 * BRANCHES + 2];
	struct timespec from, to;
	struct sp_error error;
	uint32_t n = 0;

	ins[n++] = (struct ebpf_insn)MOV(0, 0);
	for (unsigned i = 0; i < BRANCHES; i++) {
		ins[n++] = (struct ebpf_insn)LDX(BPF_B, 2, 1, (int16_t)i);
		ins[n++] = (struct ebpf_insn)JMP(BPF_JGT, 2, 7, 1);
		ins[n++] = (struct ebpf_insn)ALU(BPF_ADD, 0, 1 << i % 16);
		ins[n++] = (struct ebpf_insn)ST(EBPF_DW, 10, -8, (int)i);
	}
	ins[n++] = (struct ebpf_insn)EXIT;
	CU_ASSERT_EQUAL(ebpf_check(ins, n, &error), 0); /* ours takes no time at all */
	clock_gettime(CLOCK_MONOTONIC, &from);
	CU_ASSERT_EQUAL(try(ins, n, &error), -ETIMEDOUT);
	clock_gettime(CLOCK_MONOTONIC, &to);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "too many branches"));
	CU_ASSERT(to.tv_sec - from.tv_sec <= 12); /* bounded, however slow the machine */
}

TEST(a_verifier_that_crashes_is_a_refusal)
{
	struct sp_error error;

	CU_ASSERT_EQUAL(try(NULL, 2, &error), -EINVAL); /* DPDK refuses that by itself */
	CU_ASSERT_EQUAL(try((const struct ebpf_insn *)(uintptr_t)4096, 2, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "crashes on it (signal 11)"));
}
