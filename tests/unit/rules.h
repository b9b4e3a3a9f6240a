/* SPDX-License-Identifier: BSD-3-Clause */
/* Filter rules and packets for tests of rules and of the flow cache. The oracle is libpcap's bpf_filter(). */
#ifndef TESTS_RULES_H
#define TESTS_RULES_H

#include "../../pipeline/rx/flow_cache.h"
#include "../../pipeline/rx/rule.c" /* for rules made of programs, which reach more than expressions do */
#include "../lib/suite.h"

static char owner;
#define OWNER ((struct sp_context *)&owner)

static struct sp_error error;

static inline struct sp_rule *rule_new(const char *expression)
{
	struct sp_rule *rule = NULL;
	int r = sp_rule_create(expression, OWNER, &rule, &error);
	if (r)
		printf("# %s: %s\n", expression, error.text);
	CU_ASSERT_EQUAL_FATAL(r, 0);
	return rule;
}

static inline struct rte_mbuf packet_of(uint8_t *bytes, uint32_t room, uint32_t len)
{
	return (struct rte_mbuf){
		.buf_addr = bytes, .buf_len = (uint16_t)room, .data_len = (uint16_t)len, .pkt_len = len, .nb_segs = 1};
}

static inline struct sp_flow_cache *cache_new(void)
{
	struct sp_flow_cache *c = aligned_alloc(64, sizeof(*c));

	CU_ASSERT_PTR_NOT_NULL_FATAL(c);
	memset(c, 0, sizeof(*c));
	return c;
}

/* Whether the cache, and not only the rules, has to do with such a frame. */
static inline bool is_cached(const struct sp_flow_cache *c, const uint8_t *bytes, uint32_t room, uint32_t len)
{
	const struct sp_flow_cache_mask *mask = len < 15 ? NULL : &c->mask[sp_frame_kind(bytes)];

	return mask && room >= SP_FLOW_CACHE_BYTES && mask->rules && len >= mask->reach;
}

static const char *const expressions[] = {
	"udp port 53",
	"udp port 4791",
	"ip6",
	"tcp",
	"arp",
	"vlan",
	"vlan 100 and udp",
	"host 192.0.2.1 and udp portrange 1000-2000",
	"host 192.0.2.1 and udp portrange 40000-65000",
	"src host 192.0.2.2 and udp",
	"ip6 host 2001:db8::1 or src net 2001:db8::/127",
	"ether[12:2] = 0x800 and ip[2:2] > 500",
	"udp[8] = 0x0c or udp[8] & 0x1f = 0x11",
	"udp[(ip[0] & 15) * 4 - 12:4] & 0xffff != 0 or not udp",
	"len > 1000",
	"less 100",
	"ip[2:2] / (ip[8] - 64) = 3",
	"ip[2:2] % 7 = 3 and ether[5] ^ ether[11] != 0",
	"ether[(len - 5) * 1:4] != 0",
	"ether[len:1] = 0",
	"ether[0x3ffffff0:4] = 0 or ether[6] & 1 = 0",
	"ether[2000:1] = 0 or ip",
	"ip[8] << 30 >> 29 - 1 > 2",
	"- ip[8] < 0xffffff00",
	"ether multicast",
	"icmp or icmp6",
	"not (udp port 4791)",
};
#define EXPRESSIONS (sizeof(expressions) / sizeof(*expressions))

#endif
