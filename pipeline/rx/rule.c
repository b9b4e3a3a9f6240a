/* SPDX-License-Identifier: BSD-3-Clause */
/* libpcap's interpreter runs the filters: it is stateless, and agrees with tcpdump by definition. DPDK's BPF JIT would
 * need a translation to eBPF that works around faults of that library, and would speed up no packet that hits the flow
 * cache. */
#include "rule.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "../../host-api/spindle.h"
#include "../limits.h"
#include "rule_reads.h"

#define SNAPLEN	   262144     /* a program's result for a match; any number but 0 */
#define OFFSET_MAX 0x3FFFFFFF /* beyond any packet */

struct sp_rule {
	struct bpf_program program;
	struct sp_context *context;
	struct sp_rule_reads reads;
};

static int fail(struct sp_error *error, int err, const char *text)
{
	if (error) {
		snprintf(error->key, sizeof(error->key), "filter");
		snprintf(error->text, sizeof(error->text), "%s", text);
	}
	return err;
}

/* Such offsets are errors, or Linux's encoding of metadata: `inbound`, `ifindex 1`. */
static bool outside(const struct bpf_program *program)
{
	for (uint32_t i = 0; i < program->bf_len; i++) {
		const struct bpf_insn *insn = &program->bf_insns[i];
		if (BPF_CLASS(insn->code) == BPF_LD && BPF_MODE(insn->code) == BPF_ABS && insn->k > OFFSET_MAX)
			return true;
	}
	return false;
}

static int compile(struct sp_rule *rule, const char *expression, struct sp_error *error)
{
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, SNAPLEN);
	int r = 0;

	if (!pcap)
		return fail(error, -ENOMEM, "out of memory");
	if (pcap_compile(pcap, &rule->program, expression, 1, PCAP_NETMASK_UNKNOWN))
		r = fail(error, -EINVAL, pcap_geterr(pcap));
	else if (outside(&rule->program))
		r = fail(error, -EINVAL, "the expression needs data that is not in the packet (inbound, ifindex, ...)");
	pcap_close(pcap);
	return r;
}

int sp_rule_create(const char *expression, struct sp_context *context, struct sp_rule **rule, struct sp_error *error)
{
	const size_t len = strnlen(expression, SP_RULE_EXPRESSION_MAX + 1);
	struct sp_rule *new;
	int r;

	if (len > SP_RULE_EXPRESSION_MAX)
		return fail(error, -EINVAL, "the expression is longer than 4096 bytes");
	if (strspn(expression, " \t\r\n") == len) /* libpcap would match every packet */
		return fail(error, -EINVAL, "the expression is empty");
	new = calloc(1, sizeof(*new));
	if (!new)
		return fail(error, -ENOMEM, "out of memory");
	new->context = context;
	r = compile(new, expression, error);
	if (r) {
		sp_rule_destroy(new);
		return r;
	}
	sp_rule_reads_find(&new->program, &new->reads);
	*rule = new;
	return 0;
}

void sp_rule_destroy(struct sp_rule *rule)
{
	if (!rule)
		return;
	pcap_freecode(&rule->program);
	free(rule);
}

/* The interpreter needs contiguous memory. In a zero-copy packet the headers are contiguous, which is enough for most
 * rules. */
static __attribute__((noinline)) bool matches_pieces(const struct sp_rule *rule, const struct rte_mbuf *m)
{
	u_char copy[SP_PACKET_ROOM];
	uint32_t len = RTE_MIN(m->pkt_len, (uint32_t)sizeof(copy));

	if (m->data_len >= SP_FRAME_KIND_END &&
	    rule->reads.known >> sp_frame_kind(rte_pktmbuf_mtod(m, const uint8_t *)) & 1)
		len = RTE_MIN(len, (uint32_t)SP_RULE_READS_BYTES);
	return bpf_filter(rule->program.bf_insns, rte_pktmbuf_read(m, 0, len, copy), m->pkt_len, len) != 0;
}

bool sp_rule_matches(const struct sp_rule *rule, struct rte_mbuf *m)
{
	if (__builtin_expect(m->nb_segs > 1, 0))
		return matches_pieces(rule, m);
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

const struct sp_rule_reads *sp_rule_reads(const struct sp_rule *rule)
{
	return &rule->reads;
}
