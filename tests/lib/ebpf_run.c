/* SPDX-License-Identifier: BSD-3-Clause */
#include "ebpf_run.h"

#include <sys/mman.h>

#include <rte_log.h>

#include "suite.h"

/* What a call may do to what is not the program's: it writes all of the stack that is its own. */
static __attribute__((noinline)) void scribble(void)
{
	volatile uint8_t own[1024];

	for (size_t i = 0; i < sizeof(own); i += 8)
		own[i] = 0xA5;
}

#define FAKE(index)                                                                                                    \
	static __attribute__((force_align_arg_pointer))                                                                \
	uint64_t fake_##index(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)                              \
	{                                                                                                              \
		const unsigned n = sp_ebpf_calls[index].func.nb_args;                                                  \
		(void)e;                                                                                               \
		scribble();                                                                                            \
		return oracle_call(n > 0 ? a : 0, n > 1 ? b : 0, n > 2 ? c : 0, n > 3 ? d : 0, index);                 \
	}
#define FAKES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
FAKES(FAKE)
#define NAME(index) fake_##index,
static uint64_t (*const fake[])(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = {FAKES(NAME)};
#define CALLS (sizeof(fake) / sizeof(*fake))
static struct rte_bpf_xsym calls[CALLS];

void ebpf_run_start(struct ebpf_run *r)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CU_ASSERT_PTR_NOT_EQUAL_FATAL(at, MAP_FAILED);
	CU_ASSERT_EQUAL_FATAL(mprotect(at + page, page, PROT_READ | PROT_WRITE), 0);
	CU_ASSERT_EQUAL_FATAL(sp_ebpf_calls_count, CALLS);
	for (size_t i = 0; i < CALLS; i++) {
		calls[i] = sp_ebpf_calls[i];
		calls[i].func.val = fake[i];
	}
	rte_log_set_level_pattern("*bpf*", RTE_LOG_EMERG); /* DPDK refuses some */
	*r = (struct ebpf_run){.packet = (void *)(at + 2 * page - sizeof(struct sp_bpf_packet))};
}

void ebpf_run_stop(struct ebpf_run *r)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	rte_bpf_destroy(r->bpf);
	munmap((uint8_t *)r->packet + sizeof(struct sp_bpf_packet) - 2 * page, 3 * page);
}

bool ebpf_run_load(struct ebpf_run *r, const struct ebpf_insn *ins, uint32_t count)
{
	const struct sp_ebpf_program p = {.ins = (struct ebpf_insn *)(uintptr_t)ins, .count = count};
	struct rte_bpf_prm prm = sp_ebpf_prm(&p);

	rte_bpf_destroy(r->bpf);
	prm.xsym = calls;
	r->bpf = rte_bpf_load(&prm);
	if (r->bpf && sp_ebpf_compiled(&p, r->bpf, &r->jit)) {
		r->misplaced++;
		return false;
	}
	return r->bpf != NULL;
}

static const char *differs(const struct ebpf_run *r, const struct oracle *o, uint64_t returned, uint64_t called,
			   uint64_t by_the_book)
{
	if (called != by_the_book)
		return "calls";
	return returned != o->returned				       ? "what it returns"
	       : memcmp(r->packet, o->packet, sizeof(*r->packet)) != 0 ? "what it leaves in memory"
								       : NULL;
}

const char *ebpf_run_compare(struct ebpf_run *r, struct oracle *o, const struct ebpf_insn *ins, uint32_t count)
{
	struct sp_bpf_packet before;
	const char *what = NULL;
	uint64_t called, got;

	memcpy(&before, o->packet, sizeof(before));
	if (oracle_run(o, ins, count))
		return o->wrong;
	called = oracle_called;
	for (unsigned k = r->jit.func ? 0 : 1; k < 2 && !what; k++) {
		*r->packet = before;
		oracle_called = 0;
		got = k ? rte_bpf_exec(r->bpf, r->packet) : r->jit.func(r->packet);
		what = differs(r, o, got, oracle_called, called);
	}
	return what;
}
