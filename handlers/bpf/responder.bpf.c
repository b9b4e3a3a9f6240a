/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * responder: answers ICMP echo requests (RFC 792) with their replies, as responder.c does, in eBPF.
 *
 * Swaps MAC and IPv4 addresses, sets a fresh TTL, turns type 8 into 0. Checksums are updated for what changed, so a
 * wrong one stays wrong (RFC 1624). Other packets are drops with their reasons: no echo request, a fragment, or a group
 * or unspecified address at either end. `limit` bounds the data that are answered, against amplification.
 */
#include "spindle-bpf.h"

enum { NOT_ICMP, NOT_ECHO, FRAGMENT, NOT_UNICAST, TOO_LONG, NOT_SENT };
SP_BPF_DROPS(responder, "not-icmp\0"
			"not-echo\0"
			"fragment\0"
			"not-unicast\0"
			"too-long\0"
			"not-sent");
enum { ECHOED };
SP_BPF_COUNTERS(responder, "echoed");
enum { LIMIT };
SP_BPF_PARAMETERS(responder) = {{"limit", "1500", "bytes of ICMP that are answered"}};
SP_BPF_DOC(responder, "answers ICMP echo requests");

enum { IP = 14, ICMP = IP + 20, ECHO_REQUEST = 8, FRESH_TTL = 64, PROTOCOL_ICMP = 1 };

static inline __attribute__((always_inline)) int unicast(uint32_t ip)
{
	const uint32_t first = ip >> 24;

	return first != 0 && first != 127 && first < 224;
}

SP_BPF_HANDLER(responder, 0)
{
	const uint32_t ttl = sp_bpf_u16(p, IP + 8);

	if (p->l3 != IP || p->flags & SP_BPF_IPV6 || sp_bpf_u16(p, 12) != 0x0800 ||
	    sp_bpf_u8(p, IP + 9) != PROTOCOL_ICMP)
		return SP_DROP(NOT_ICMP);
	if (sp_bpf_u16(p, IP + 6) & 0x3FFF)
		return SP_DROP(FRAGMENT);
	if (sp_bpf_u8(p, IP) != 0x45 || p->len < 8 || sp_bpf_u16(p, ICMP) != ECHO_REQUEST << 8)
		return SP_DROP(NOT_ECHO);
	if ((p->head[0] | p->head[6]) & 1 || !unicast(sp_bpf_u32(p, IP + 12)) || !unicast(sp_bpf_u32(p, IP + 16)))
		return SP_DROP(NOT_UNICAST);
	if (p->len > sp_bpf_param(LIMIT))
		return SP_DROP(TOO_LONG);
	sp_bpf_swap(0, 6, 6);
	sp_bpf_swap(IP + 12, IP + 16, 4);
	sp_bpf_store(IP + 8, 1, FRESH_TTL);
	sp_bpf_checksum_fix(IP + 10, ttl, FRESH_TTL << 8 | (ttl & 0xFF));
	sp_bpf_store(ICMP, 1, 0);
	sp_bpf_checksum_fix(ICMP + 2, ECHO_REQUEST << 8, 0);
	if (!sp_bpf_answer())
		return SP_DROP(NOT_SENT);
	sp_bpf_count(ECHOED, 1);
	return SP_SENT;
}
