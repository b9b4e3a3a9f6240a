/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes random programs that sp_ebpf_check() accepts. They grow by one checked instruction at a time. */
#ifndef TESTS_EBPF_RANDOM_H
#define TESTS_EBPF_RANDOM_H

#include "../../pipeline/nic.h"
#include "ebpf_object.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

extern uint64_t ebpf_seed;
uint64_t ebpf_any(uint64_t below);
int ebpf_check(const struct ebpf_insn *ins, uint32_t count, struct sp_error *error);
enum { LENGTH = 40, ROOM = LENGTH + 120 };

/* Ends a program of n instructions, which has its packet's address on the stack at `saved`, with those that put what
 * its registers and stack hold into the packet's copy, where it can be compared; returns how many it has then. */
uint32_t ebpf_tell(struct ebpf_insn *ins, uint32_t n, int saved);
/* Instructions that the check lets pass, one after the other; behind them those that put what the registers and the
 * stack hold into the packet's copy, where it can be compared. */
uint32_t random_program(struct ebpf_insn *ins);

#endif
