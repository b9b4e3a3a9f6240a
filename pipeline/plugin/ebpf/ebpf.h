/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers in eBPF: an object of `clang -target bpf` with sections handler/NAME (handlers/spindle-bpf.h) becomes
 * handlers like those of a shared object.
 *
 * What a program may do is decided four times. ebpf_object.c reads the file, each bound checked; libelf never sees it.
 * check.c proves, in one pass in the order of the instructions, that every access stays within the call's copy of
 * the packet and the stack and that no address gets into a number. DPDK's verifier then agrees, in a child process
 * first (dpdk_check.c), since it takes time exponential in the branches; it is not relied on: it believes, for one,
 * that a product that overflows is small. Last, code.c looks where the compiled code jumps to. Calls (ebpf_calls.c)
 * take numbers and check them. Threads: reading and loading are control calls; programs run on any worker.
 */
#ifndef PIPELINE_PLUGIN_EBPF_EBPF_H
#define PIPELINE_PLUGIN_EBPF_EBPF_H

#include <rte_bpf.h>

#include "../../../handlers/spindle-handler.h"

struct sp_error;
struct sp_noted;

#define SP_EBPF_BYTES	 (1u << 20) /* of a file */
#define SP_EBPF_SECTIONS 1024
#define SP_EBPF_PROGRAMS 64
#define SP_EBPF_INS	 4096	       /* of a program: DPDK's jumps and our time are bounded, too */
#define SP_EBPF_TIME	 (10 * SP_SEC) /* to check all of a file */
#define SP_EBPF_STACK	 512
#define SP_EBPF_PADS	 3  /* instructions put in front of a program that is not compiled rightly */
#define SP_EBPF_NAMES	 63 /* of counters, of drop reasons: one more is the NIC's */

/* One handler. Read-only once it is registered. */
struct sp_ebpf_program {
	struct sp_handler handler; /* the registered table */
	char section[64], name[40], doc[160];
	struct sp_param param[9];
	const char *drop[SP_EBPF_NAMES + 2], *counter[SP_EBPF_NAMES + 1];
	unsigned params, drops, counters; /* drops: of the program; the reason behind them is bad-access */
	uint32_t words;			  /* of state */
	struct ebpf_insn *ins;		  /* calls are indices into sp_ebpf_calls */
	uint32_t count;
	uint32_t reads; /* bit n: it may read the copy's bytes 8 n to 8 n + 7 */
	struct rte_bpf *bpf;
	struct rte_bpf_jit jit; /* func NULL: no compiler for this processor */
};

/* The programs of one file, and the file's bytes, which their texts point into. */
struct sp_ebpf {
	uint8_t *bytes;
	unsigned count;
	struct sp_ebpf_program program[];
};

/* ---- plug-ins ---- */
bool sp_ebpf_is(const char *file); /* true for an ELF object for BPF, valid or not */
/* Reads, checks, compiles; the handlers are put into noted. -EINVAL and others, and words without the file's name. */
int sp_ebpf_open(const char *file, struct sp_ebpf **ebpf, struct sp_noted *noted, struct sp_error *error);
void sp_ebpf_close(struct sp_ebpf *ebpf); /* NULL is fine */

/* ---- its parts ---- */
/* Takes over the bytes, also on failure; *ebpf is then NULL. */
int sp_ebpf_read(uint8_t *bytes, size_t len, struct sp_ebpf **ebpf, struct sp_error *error);
/* 0 and *reads (see there), or -EINVAL, -ENOMEM and words that name the instruction. */
int sp_ebpf_check(const struct ebpf_insn *ins, uint32_t count, uint32_t *reads, struct sp_error *error);
/* DPDK's load parameters for a program. */
struct rte_bpf_prm sp_ebpf_prm(const struct sp_ebpf_program *p);
/* Tries in a child process if DPDK loads the program. -EAGAIN: it does, and compiles it wrongly. */
int sp_ebpf_try(const struct sp_ebpf_program *p, struct sp_error *error);
/* *jit: what DPDK has compiled; func NULL: nothing, or for a processor other than x86-64, for which nothing is tested.
 * 0, or -EINVAL, -ENOMEM: do not run it. */
int sp_ebpf_compiled(const struct sp_ebpf_program *p, const struct rte_bpf *bpf, struct rte_bpf_jit *jit);
/* Whether what is compiled for x86-64 jumps as the program does: 0, -EINVAL, -ENOMEM. */
int sp_ebpf_code(const struct ebpf_insn *ins, uint32_t count, const void *code, size_t size);
/* The program with one more instruction, which does nothing. */
int sp_ebpf_pad(struct sp_ebpf_program *p);

extern const struct rte_bpf_xsym sp_ebpf_calls[];
extern const unsigned sp_ebpf_calls_count;
void sp_ebpf_table(struct sp_ebpf_program *p); /* makes p->handler of the rest */

#endif
