/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Filter rules: libpcap compiles the expression to classic BPF, this file translates that to eBPF, and DPDK makes
 * machine code of it.
 *
 * rte_bpf_convert() was turned down for the translation: up to DPDK 25 it indexes by A where classic BPF indexes by X,
 * so that `udp port 53` looks in the wrong place. Ours also goes around what is wrong below it (DPDK 22.11):
 *  - the JIT truncates an immediate operand of JSET that fits into a byte: always a register here;
 *  - the JIT gets jumps backward by 127 or 128 bytes wrong, and a second exit jumps back to the first: there is one
 *    exit, at the end;
 *  - rte_pktmbuf_read() adds offset and length in 32 bits, so an offset just below 2^32, such as udp[udp[4:2] - 12:4]
 *    makes of a short length, passes its check and reads out of bounds: offsets are bounded before;
 *  - the verifier follows every path through the program, and twenty terms like `host A and port P` joined by `or` keep
 *    it busy for half a minute, forty for ever: paths are counted first.
 * A rule that gets no machine code runs in libpcap's own interpreter, which takes the compiled program as it is, holds
 * no state, and says by definition what tcpdump says.
 */
#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bpf.h>
#include <rte_log.h>
#include <rte_mbuf.h>

#include "../host-api/spindle.h"
#include "front.h"
#include "match.h"

#define SNAPLEN	     262144	/* what a program returns for a match; any number but 0 */
#define OFFSET_MAX   0x3FFFFFFF /* no packet is that long, and twice that does not wrap */
#define VERIFIER_MAX 4000000u	/* instructions that the verifier may have to visit: some 0.1 s */

struct sp_rule {
	uint64_t (*run)(void *mbuf); /* machine code, or NULL */
	struct bpf_program program;  /* libpcap's, for the interpreter */
	struct rte_bpf *bpf;	     /* owns the machine code */
	struct sp_context *context;
	struct sp_front_reads reads;
};

/* ---- classic BPF to eBPF ---- */

/* A is R0, where LD_ABS and LD_IND put their result; the packet must be in R6 for them. X and T survive their calls. */
enum {
	A = EBPF_REG_0,
	ARGUMENT = EBPF_REG_1,
	PACKET = EBPF_REG_6,
	X = EBPF_REG_7,
	T = EBPF_REG_8,
	FRAME = EBPF_REG_10
};
#define GROWTH 6 /* eBPF instructions that one classic instruction becomes at most */
#define FRINGE 4 /* and those before the first and after the last */

struct translation {
	struct ebpf_insn *insn;
	uint32_t *target; /* of a jump: the classic instruction it goes to; else NONE */
	uint32_t *at;	  /* where each classic instruction begins */
	uint32_t count;
	uint32_t end; /* what stands for the exit among the targets: one past the last classic instruction */
};
#define NONE UINT32_MAX

static void emit(struct translation *t, unsigned code, unsigned destination, unsigned source, int16_t off, uint32_t imm)
{
	t->target[t->count] = NONE;
	t->insn[t->count++] = (struct ebpf_insn){.code = (uint8_t)code,
						 .dst_reg = destination & 15,
						 .src_reg = source & 15,
						 .off = off,
						 .imm = (int32_t)imm};
}

static void emit_move(struct translation *t, unsigned destination, unsigned source)
{
	emit(t, EBPF_ALU64 | EBPF_MOV | BPF_X, destination, source, 0, 0);
}

static void emit_constant(struct translation *t, unsigned destination, uint32_t k)
{
	emit(t, BPF_ALU | EBPF_MOV | BPF_K, destination, 0, 0, k); /* 32 bits: the upper half becomes 0 */
}

static void emit_jump(struct translation *t, unsigned op, unsigned source, uint32_t imm, uint32_t target)
{
	emit(t, BPF_JMP | op, op == BPF_JA ? 0 : A, source, 0, imm);
	t->target[t->count - 1] = target;
}

/* By way of the only exit, which stands last. */
static void emit_return(struct translation *t)
{
	emit_jump(t, BPF_JA, 0, 0, t->end);
}

static int16_t scratch(uint32_t k)
{
	return (int16_t)(-4 * (int)(BPF_MEMWORDS - k));
}

static bool load(struct translation *t, const struct bpf_insn *i)
{
	unsigned to = BPF_CLASS(i->code) == BPF_LD ? A : X;
	switch (BPF_MODE(i->code)) {
	case BPF_IMM:
		emit_constant(t, to, i->k);
		return true;
	case BPF_LEN:
		emit(t, BPF_LDX | BPF_MEM | BPF_W, to, PACKET, offsetof(struct rte_mbuf, pkt_len), 0);
		return true;
	case BPF_MEM:
		emit(t, BPF_LDX | BPF_MEM | BPF_W, to, FRAME, scratch(i->k), 0);
		return i->k < BPF_MEMWORDS;
	case BPF_IND:
		emit(t, BPF_JMP | EBPF_JLE | BPF_K, X, 0, 2, OFFSET_MAX);
		emit_constant(t, A, 0);
		emit_return(t);
		emit(t, BPF_LD | BPF_IND | BPF_SIZE(i->code), A, X, 0, i->k);
		return i->k <= OFFSET_MAX;
	case BPF_ABS:
		emit(t, BPF_LD | BPF_ABS | BPF_SIZE(i->code), A, 0, 0, i->k);
		return i->k <= OFFSET_MAX;
	case BPF_MSH: /* X = 4 * ([k] & 15), the length of an IPv4 header */
		emit_move(t, T, A);
		emit(t, BPF_LD | BPF_ABS | BPF_B, A, 0, 0, i->k);
		emit(t, BPF_ALU | BPF_AND | BPF_K, A, 0, 0, 15);
		emit(t, BPF_ALU | BPF_LSH | BPF_K, A, 0, 0, 2);
		emit_move(t, X, A);
		emit_move(t, A, T);
		return i->k <= OFFSET_MAX;
	default:
		return false;
	}
}

static bool arithmetic(struct translation *t, const struct bpf_insn *i)
{
	bool by_x = BPF_SRC(i->code) == BPF_X;
	switch (BPF_OP(i->code)) {
	case BPF_DIV:
	case BPF_MOD:
		if (by_x || !i->k) /* by 0 ends the program; rare enough for the interpreter */
			return false;
		break;
	case BPF_LSH:
	case BPF_RSH:
		if (by_x || i->k > 31) /* means 0 to libpcap, and k & 31 to the processor */
			return false;
		break;
	case BPF_ADD:
	case BPF_SUB:
	case BPF_MUL:
	case BPF_AND:
	case BPF_OR:
	case BPF_XOR:
		break;
	case BPF_NEG:
		emit(t, BPF_ALU | BPF_NEG, A, 0, 0, 0);
		return true;
	default:
		return false;
	}
	emit(t, BPF_ALU | BPF_OP(i->code) | (by_x ? BPF_X : BPF_K), A, by_x ? X : 0, 0, by_x ? 0 : i->k);
	return true;
}

static bool jump(struct translation *t, const struct bpf_insn *i, uint32_t next)
{
	unsigned op = BPF_OP(i->code);
	if (op == BPF_JA || i->jt == i->jf) {
		emit_jump(t, BPF_JA, 0, 0, next + (op == BPF_JA ? i->k : i->jt));
		return true;
	}
	if (op != BPF_JEQ && op != BPF_JGT && op != BPF_JGE && op != BPF_JSET)
		return false;
	if (BPF_SRC(i->code) == BPF_X) {
		emit_jump(t, op | BPF_X, X, 0, next + i->jt);
	} else if (op == BPF_JSET || i->k > INT32_MAX) { /* immediates are signed */
		emit_constant(t, T, i->k);
		emit_jump(t, op | BPF_X, T, 0, next + i->jt);
	} else {
		emit_jump(t, op | BPF_K, 0, i->k, next + i->jt);
	}
	if (i->jf)
		emit_jump(t, BPF_JA, 0, 0, next + i->jf);
	return true;
}

static bool translate_one(struct translation *t, const struct bpf_insn *i, uint32_t next)
{
	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
	case BPF_LDX:
		return load(t, i);
	case BPF_ST:
	case BPF_STX:
		emit(t, BPF_STX | BPF_MEM | BPF_W, FRAME, BPF_CLASS(i->code) == BPF_ST ? A : X, scratch(i->k), 0);
		return i->k < BPF_MEMWORDS;
	case BPF_ALU:
		return arithmetic(t, i);
	case BPF_JMP:
		return jump(t, i, next);
	case BPF_RET:
		if (BPF_RVAL(i->code) == BPF_K)
			emit_constant(t, A, i->k);
		emit_return(t);
		return true;
	default:
		if (BPF_MISCOP(i->code) == BPF_TAX)
			emit_move(t, X, A);
		else
			emit_move(t, A, X);
		return true;
	}
}

/* False: DPDK cannot run this program. */
static bool translate(struct translation *t, const struct bpf_program *program)
{
	t->end = program->bf_len;
	emit_constant(t, A, 0);
	emit_constant(t, X, 0);
	emit_move(t, PACKET, ARGUMENT);
	for (uint32_t i = 0; i < program->bf_len; i++) {
		t->at[i] = t->count;
		if (!translate_one(t, &program->bf_insns[i], i + 1))
			return false;
	}
	t->at[t->end] = t->count;
	emit(t, BPF_JMP | EBPF_EXIT, 0, 0, 0, 0);
	for (uint32_t i = 0; i < t->count; i++) {
		if (t->target[i] == NONE)
			continue;
		if (t->target[i] > t->end)
			return false;
		uint32_t distance = t->at[t->target[i]] - i - 1; /* forward only */
		if (distance > INT16_MAX)
			return false;
		t->insn[i].off = (int16_t)distance;
	}
	return true;
}

/* What the verifier visits when it follows every path to its end; at most VERIFIER_MAX + 1. Jumps go forward only, so
 * one pass from the end does it. visits: scratch, one per instruction. */
static uint32_t paths(const struct translation *t, uint32_t *visits)
{
	for (uint32_t i = t->count; i-- > 0;) {
		const struct ebpf_insn *insn = &t->insn[i];
		bool is_jump = BPF_CLASS(insn->code) == BPF_JMP, ends = insn->code == (BPF_JMP | EBPF_EXIT);
		uint32_t taken = i + 1 + (uint32_t)insn->off;
		uint64_t n = 1;
		if (is_jump && !ends && taken < t->count)
			n += visits[taken];
		if (!ends && insn->code != (BPF_JMP | BPF_JA) && i + 1 < t->count)
			n += visits[i + 1];
		visits[i] = n > VERIFIER_MAX ? VERIFIER_MAX + 1 : (uint32_t)n;
	}
	return visits[0];
}

/* Machine code for the rule, if it can be had. */
static void compile(struct sp_rule *rule)
{
	size_t most = (size_t)rule->program.bf_len * GROWTH + FRINGE;
	struct translation t = {.insn = calloc(most, sizeof(*t.insn)),
				.target = calloc(most, sizeof(*t.target)),
				.at = calloc(most, sizeof(*t.at))};
	struct rte_bpf_jit jit = {0};
	if (!t.insn || !t.target || !t.at || !translate(&t, &rule->program) || paths(&t, t.at) > VERIFIER_MAX)
		goto out;
	struct rte_bpf_prm prm = {.ins = t.insn,
				  .nb_ins = t.count,
				  .prog_arg = {.type = RTE_BPF_ARG_PTR_MBUF, .size = sizeof(struct rte_mbuf)}};
	/* What it refuses is no error here, and a library does not print. */
	rte_log_set_level_pattern("lib.bpf", RTE_LOG_EMERG);
	rule->bpf = rte_bpf_load(&prm);
	if (rule->bpf && !rte_bpf_get_jit(rule->bpf, &jit))
		rule->run = jit.func;
out:
	free(t.insn);
	free(t.target);
	free(t.at);
}

/* ---- rules ---- */

static int fail(struct sp_error *error, int err, const char *text)
{
	if (error) {
		snprintf(error->key, sizeof(error->key), "filter");
		snprintf(error->text, sizeof(error->text), "%s", text);
	}
	return err;
}

/* Such offsets are either nonsense or Linux's way to ask for what is no part of the packet: `inbound`, `ifindex 1`. */
static bool outside(const struct bpf_program *program)
{
	for (uint32_t i = 0; i < program->bf_len; i++) {
		const struct bpf_insn *insn = &program->bf_insns[i];
		if (BPF_CLASS(insn->code) == BPF_LD && BPF_MODE(insn->code) == BPF_ABS && insn->k > OFFSET_MAX)
			return true;
	}
	return false;
}

int sp_rule_create(const char *expression, struct sp_context *context, struct sp_rule **rule, struct sp_error *error)
{
	size_t len = strnlen(expression, SP_RULE_EXPRESSION_MAX + 1);
	if (len > SP_RULE_EXPRESSION_MAX)
		return fail(error, -EINVAL, "the expression is longer than 4096 bytes");
	if (strspn(expression, " \t\r\n") == len) /* to libpcap that means: every packet */
		return fail(error, -EINVAL, "the expression is empty");
	struct sp_rule *r = calloc(1, sizeof(*r));
	if (!r)
		return fail(error, -ENOMEM, "out of memory");
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, SNAPLEN);
	if (!pcap) {
		free(r);
		return fail(error, -ENOMEM, "out of memory");
	}
	if (pcap_compile(pcap, &r->program, expression, 1, PCAP_NETMASK_UNKNOWN)) {
		fail(error, -EINVAL, pcap_geterr(pcap));
		pcap_close(pcap);
		free(r);
		return -EINVAL;
	}
	pcap_close(pcap);
	if (outside(&r->program)) {
		pcap_freecode(&r->program);
		free(r);
		return fail(error, -EINVAL,
			    "the expression asks for what is not in the packet (inbound, ifindex, ...)");
	}
	compile(r);
	sp_front_reads(&r->program, &r->reads);
	r->context = context;
	*rule = r;
	return 0;
}

void sp_rule_destroy(struct sp_rule *rule)
{
	if (!rule)
		return;
	rte_bpf_destroy(rule->bpf);
	pcap_freecode(&rule->program);
	free(rule);
}

bool sp_rule_matches(const struct sp_rule *rule, struct rte_mbuf *m)
{
	if (__builtin_expect(rule->run != NULL, 1))
		return rule->run(m) != 0;
	if (m->nb_segs > 1) { /* it knows one piece */
		u_char copy[SP_PACKET_ROOM];
		const uint32_t len = RTE_MIN(m->pkt_len, (uint32_t)sizeof(copy));

		return bpf_filter(rule->program.bf_insns, rte_pktmbuf_read(m, 0, len, copy), m->pkt_len, len) != 0;
	}
	return bpf_filter(rule->program.bf_insns, rte_pktmbuf_mtod(m, const u_char *), m->pkt_len, m->data_len) != 0;
}

struct sp_context *sp_rule_context(const struct sp_rule *rule)
{
	return __atomic_load_n(&rule->context, __ATOMIC_ACQUIRE);
}

void sp_rule_give(struct sp_rule *rule, struct sp_context *context)
{
	__atomic_store_n(&rule->context, context, __ATOMIC_RELEASE);
}

const struct sp_front_reads *sp_rule_reads(const struct sp_rule *rule)
{
	return &rule->reads;
}

bool sp_rule_compiled(const struct sp_rule *rule)
{
	return rule->run != NULL;
}
