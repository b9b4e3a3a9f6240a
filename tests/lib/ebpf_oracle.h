/* SPDX-License-Identifier: BSD-3-Clause */
/* A slow and simple interpreter of eBPF. It knows of each value whether it is a number, an address in one of two
 * memories, or undefined, and stops with a message at the first illegal step. Programs that sp_ebpf_check()
 * accepts run here and compiled; both must give the same result. */
#ifndef TESTS_EBPF_ORACLE_H
#define TESTS_EBPF_ORACLE_H

#include <string.h>
#include "../../handlers/spindle-bpf.h"
#include "../../pipeline/plugin/ebpf/ebpf.h"

enum oracle_kind { ORACLE_NOTHING, ORACLE_NUMBER, ORACLE_PACKET, ORACLE_STACK };

struct oracle_value {
	enum oracle_kind kind;
	uint64_t v; /* of addresses: offset from the piece's first byte */
};

struct oracle {
	struct oracle_value reg[11];
	uint8_t packet[sizeof(struct sp_bpf_packet)], stack[512], set[512]; /* set: 1 written, 2 of an address */
	struct oracle_value spilled[64];				    /* addresses on the stack, by eight bytes */
	const char *wrong;
	uint32_t read; /* words of the packet, by bits */
	uint64_t returned;
	/* Before each instruction; NULL: nobody looks. May set `wrong`, which ends the run. */
	void (*see)(struct oracle *o, uint32_t at, void *arg);
	void *arg;
};

/* What calls do here and in the compiled program: a number made of the arguments, and of how many calls there were. */
extern _Thread_local uint64_t oracle_called;
uint64_t oracle_call(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t index);
/* o->packet is what the program sees. 0 and o->returned, or -1 and o->wrong. */
int oracle_run(struct oracle *o, const struct ebpf_insn *ins, uint32_t count);

#endif
