/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs in DPDK's hands: compiled and interpreted, with calls that do what the oracle's do. */
#ifndef TESTS_EBPF_RUN_H
#define TESTS_EBPF_RUN_H

#include "ebpf_oracle.h"

struct ebpf_run {
	struct rte_bpf *bpf;
	struct rte_bpf_jit jit;
	struct sp_bpf_packet *packet; /* the end of its page, behind which is nobody's */
	uint64_t misplaced;	      /* programs that sp_ebpf_code() refuses */
};

void ebpf_run_start(struct ebpf_run *r);
void ebpf_run_stop(struct ebpf_run *r);
/* False: DPDK refuses the program, or compiles it wrongly. */
bool ebpf_run_load(struct ebpf_run *r, const struct ebpf_insn *ins, uint32_t count);
/* NULL, or in what the compiled, or else the interpreted program differs from the oracle, which runs it first, and
 * which must not find fault with it. o->packet is what it sees, and is left as the oracle leaves it. */
const char *ebpf_run_compare(struct ebpf_run *r, struct oracle *o, const struct ebpf_insn *ins, uint32_t count);

#endif
