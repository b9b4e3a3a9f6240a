/* SPDX-License-Identifier: BSD-3-Clause */
/* What DPDK compiles: programs whose jumps it places wrongly are found, and loaded in another layout. */
#include <sys/wait.h>

#include <rte_log.h>

#include "../../pipeline/plugin/handler.h"
#include "../lib/ebpf_oracle.h"
#include "../lib/ebpf_random.h"
#include "../lib/suite.h"

enum { MOST = 64 };

static const char *other_processor(void)
{
#ifdef __x86_64__
	return NULL;
#else
	return "programs are interpreted on this processor";
#endif
}

/* Two registers are saved, by 14 bytes in front; jumps that turn out short save as many. The first jump is over `far`
 * and `near` instructions of 7 and 3 bytes, which is short or long as they are many. */
static uint32_t jumping(struct ebpf_insn *ins, unsigned far, unsigned near)
{
	uint32_t n = 0, jump;

	ins[n++] = (struct ebpf_insn)MOV(0, 0);
	ins[n++] = (struct ebpf_insn)LDX(EBPF_DW, 6, 1, 0);
	ins[n++] = (struct ebpf_insn)LDX(EBPF_DW, 7, 1, 8);
	jump = n++;
	for (unsigned k = 0; k < far; k++)
		ins[n++] = (struct ebpf_insn)ALU(BPF_ADD, 0, 1000);
	for (unsigned k = 0; k < near; k++)
		ins[n++] = (struct ebpf_insn)ALUR(BPF_ADD, 0, 7);
	ins[jump] = (struct ebpf_insn)JMP(BPF_JGT, 6, 5, (int16_t)(n - jump - 1));
	ins[n++] = (struct ebpf_insn)ALU(BPF_ADD, 0, 7);
	ins[n++] = (struct ebpf_insn)OP(BPF_JMP | BPF_JA, 0, 0, 0, 0);
	ins[n++] = (struct ebpf_insn)OP(BPF_JMP | BPF_JA, 0, 0, 0, 0);
	ins[n++] = (struct ebpf_insn)JMP(BPF_JEQ, 6, 3, 0);
	ins[n++] = (struct ebpf_insn)EXIT;
	return n;
}

/* What sp_ebpf_code() says of what DPDK compiles. */
static int compile(struct ebpf_insn *ins, uint32_t count, struct rte_bpf **bpf, struct rte_bpf_jit *jit)
{
	const struct sp_ebpf_program p = {.ins = ins, .count = count};
	const struct rte_bpf_prm prm = sp_ebpf_prm(&p);

	*bpf = rte_bpf_load(&prm);
	CU_ASSERT_PTR_NOT_NULL_FATAL(*bpf);
	return sp_ebpf_compiled(&p, *bpf, jit);
}

/* In a child process: 0: it came to the right result, with the jump taken. */
static int run_apart(struct ebpf_insn *ins, uint32_t count)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct rte_bpf *bpf;
		struct rte_bpf_jit jit;
		struct oracle o = {.packet = {9}};
		struct sp_bpf_packet packet;

		alarm(20);
		memcpy(&packet, o.packet, sizeof(packet));
		(void)compile(ins, count, &bpf, &jit);
		rte_bpf_get_jit(bpf, &jit);
		_exit(oracle_run(&o, ins, count) || jit.func(&packet) != o.returned);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	return status;
}

TEST_IF(other_processor, jumps_that_the_compiler_places_wrongly_are_found)
{
	unsigned wrong = 0, harmful = 0;

	for (unsigned far = 10; far < 25; far++) {
		for (unsigned near = 0; near < 8; near++) {
			struct ebpf_insn ins[MOST];
			const uint32_t n = jumping(ins, far, near);
			struct sp_error error;
			struct rte_bpf_jit jit;
			struct rte_bpf *bpf;

			CU_ASSERT_EQUAL_FATAL(ebpf_check(ins, n, &error), 0);
			if (compile(ins, n, &bpf, &jit)) {
				wrong++;
				harmful += run_apart(ins, n) != 0;
			} else {
				CU_ASSERT_EQUAL(run_apart(ins, n), 0);
			}
			rte_bpf_destroy(bpf);
		}
	}
	printf("# %u of 120 programs are compiled wrongly, %u of them show it\n", wrong, harmful);
	CU_ASSERT(!wrong == !harmful); /* a DPDK without the fault has none */
}

/* Each changed byte of a jump is another target. */
TEST_IF(other_processor, a_jump_elsewhere_is_found)
{
	unsigned tried = 0;

	rte_log_set_level_pattern("*bpf*", RTE_LOG_EMERG); /* DPDK refuses some */
	for (ebpf_seed = 1; ebpf_seed <= 200; ebpf_seed++) {
		const uint64_t began = ebpf_seed;
		struct ebpf_insn ins[ROOM + 8];
		struct sp_ebpf_program p = {.ins = ins, .count = random_program(ins)};
		const struct rte_bpf_prm prm = sp_ebpf_prm(&p);
		struct rte_bpf *bpf = rte_bpf_load(&prm);
		struct rte_bpf_jit jit;

		ebpf_seed = began;
		if (!bpf)
			continue;
		CU_ASSERT_EQUAL(sp_ebpf_compiled(&p, bpf, &jit), 0);
		uint8_t *code = malloc(jit.sz); /* of that size: a sanitizer sees the byte behind it */
		memcpy(code, (const void *)(uintptr_t)jit.func, jit.sz);
		CU_ASSERT_EQUAL(sp_ebpf_code(ins, p.count, code, jit.sz), 0);
		for (size_t len = 0; len < jit.sz; len += 1 + len / 8) /* cut off */
			CU_ASSERT_EQUAL(sp_ebpf_code(ins, p.count, code, len), -EINVAL);
		for (size_t at = 0; at + 6 < jit.sz; at++) {
			/* je, short or long, behind a cmp; what only looks like it is a constant's byte, which is not
			 * looked at */
			if (at < 4 || code[at - 4] != 0x48 || code[at - 3] != 0x83 || code[at - 2] < 0xF8 ||
			    (code[at] & 0xF0) != 0x70)
				continue;
			code[at + 1]++;
			tried += sp_ebpf_code(ins, p.count, code, jit.sz) == -EINVAL;
			code[at + 1]--;
		}
		free(code);
		rte_bpf_destroy(bpf);
	}
	CU_ASSERT(tried > 20);
}

TEST_IF(other_processor, such_a_program_is_loaded_in_another_layout)
{
	static struct object made;
	char file[] = "/tmp/spindle-ebpf-XXXXXX";
	unsigned padded = 0;

	for (unsigned far = 14; far < 19; far++) {
		for (unsigned near = 0; near < 8; near++) {
			struct ebpf_insn ins[MOST];
			const uint32_t n = jumping(ins, far, near);
			struct sp_noted noted = {0};
			struct sp_error error = {.key = ""};
			struct oracle o = {.packet = {9}};
			struct sp_bpf_packet packet;
			struct sp_ebpf *e;
			int fd;

			strcpy(file + strlen(file) - 6, "XXXXXX");
			fd = mkstemp(file);
			object_make(&made, "jumping", ins, n, 0, NULL);
			CU_ASSERT_EQUAL_FATAL(write(fd, made.bytes, made.len), (ssize_t)made.len);
			close(fd);
			CU_ASSERT_EQUAL(sp_ebpf_open(file, &e, &noted, &error), 0);
			unlink(file);
			if (!e) {
				printf("# %s\n", error.text);
				continue;
			}
			padded += e->program[0].count > n;
			memcpy(&packet, o.packet, sizeof(packet));
			CU_ASSERT_EQUAL(oracle_run(&o, ins, n), 0);
			CU_ASSERT_EQUAL(e->program[0].jit.func(&packet), o.returned);
			sp_ebpf_close(e);
		}
	}
	printf("# %u programs of 40 got an instruction more\n", padded);
}
