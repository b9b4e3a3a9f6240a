/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters of traffic control as the kernel tells them: which of them drop everything. */
#include "../../pipeline/ports/netlink.h"
#include "../lib/suite.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/netlink.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_gact.h>
#include <net/if.h>
#include <string.h>

static struct {
	struct nlmsghdr head;
	struct tcmsg filter;
	uint8_t attributes[512];
} m;

static void begin(uint16_t protocol)
{
	memset(&m, 0, sizeof(m));
	m.head.nlmsg_type = RTM_NEWTFILTER;
	m.head.nlmsg_len = NLMSG_LENGTH(sizeof(m.filter));
	m.filter.tcm_info = TC_H_MAKE(49152u << 16, htons(protocol));
}

/* Opens an attribute, or adds one with data; returns where it begins. */
static struct nlattr *add(uint16_t type, const void *data, size_t len)
{
	struct nlattr *a = (struct nlattr *)((uint8_t *)&m + m.head.nlmsg_len);

	a->nla_type = type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + len);
	if (len)
		memcpy((uint8_t *)a + NLA_HDRLEN, data, len);
	m.head.nlmsg_len += (uint32_t)(NLA_HDRLEN + NLA_ALIGN(len));
	return a;
}

static void end(struct nlattr *a)
{
	a->nla_len = (uint16_t)((uint8_t *)&m + m.head.nlmsg_len - (uint8_t *)a);
}

static enum sp_filter_says says(void)
{
	return sp_netlink_filter(&m, m.head.nlmsg_len);
}

struct shape {
	const char *kind, *action;
	int verdict;
	bool by_chance, second;
	uint32_t flags, chain;
	uint16_t protocol;
};

/* matchall with a gact, as cls_matchall and act_gact dump themselves. */
static void matchall(const struct shape *s)
{
	const struct tc_gact gact = {.action = s->verdict, .refcnt = 1, .bindcnt = 1};
	const struct tc_gact_p chance = {.ptype = PGACT_NETRAND, .pval = 2, .paction = TC_ACT_OK};
	struct nlattr *options, *actions, *one, *inner;

	begin(s->protocol);
	add(TCA_KIND, s->kind, strlen(s->kind) + 1);
	add(TCA_CHAIN, &s->chain, sizeof(s->chain));
	options = add(TCA_OPTIONS, NULL, 0);
	add(TCA_MATCHALL_FLAGS, &s->flags, sizeof(s->flags));
	actions = add(TCA_MATCHALL_ACT | NLA_F_NESTED, NULL, 0);
	one = add(s->second ? 2 : 1, NULL, 0);
	add(TCA_ACT_KIND, s->action, strlen(s->action) + 1);
	inner = add(TCA_ACT_OPTIONS | NLA_F_NESTED, NULL, 0);
	add(TCA_GACT_PARMS, &gact, sizeof(gact));
	if (s->by_chance)
		add(TCA_GACT_PROB, &chance, sizeof(chance));
	end(inner);
	end(one);
	end(actions);
	end(options);
}

#define DROPS "matchall", "gact", TC_ACT_SHOT

TEST(matchall_with_a_drop_drops_everything)
{
	matchall(&(struct shape){DROPS, .protocol = ETH_P_ALL});
	CU_ASSERT_EQUAL(says(), SP_FILTER_DROPS_ALL);
	matchall(&(struct shape){DROPS, .protocol = ETH_P_ALL, .flags = TCA_CLS_FLAGS_NOT_IN_HW});
	CU_ASSERT_EQUAL(says(), SP_FILTER_DROPS_ALL);
}

TEST(whatever_else_is_not_believed)
{
	static const struct shape not [] = {
		{DROPS, .protocol = ETH_P_IP},
		{DROPS, .protocol = ETH_P_ALL, .by_chance = true},
		{DROPS, .protocol = ETH_P_ALL, .second = true},
		{DROPS, .protocol = ETH_P_ALL, .flags = TCA_CLS_FLAGS_SKIP_SW},
		{"matchall", "gact", TC_ACT_OK, .protocol = ETH_P_ALL},
		{"matchall", "gact", TC_ACT_PIPE, .protocol = ETH_P_ALL},
		{"matchall", "mirred", TC_ACT_SHOT, .protocol = ETH_P_ALL},
		{"flower", "gact", TC_ACT_SHOT, .protocol = ETH_P_ALL},
		{"bpf", "gact", TC_ACT_SHOT, .protocol = ETH_P_ALL},
	};

	for (size_t i = 0; i < sizeof(not ) / sizeof(*not ); i++) {
		matchall(&not [i]);
		CU_ASSERT_EQUAL(says(), SP_FILTER_DOES_NOT);
	}
	matchall(&(struct shape){DROPS, .protocol = ETH_P_ALL, .chain = 3}); /* nobody goes there by itself */
	CU_ASSERT_EQUAL(says(), SP_FILTER_NOTHING);
	begin(ETH_P_ALL); /* the announcement of a priority */
	add(TCA_KIND, "matchall", 9);
	CU_ASSERT_EQUAL(says(), SP_FILTER_NOTHING);
	matchall(&(struct shape){DROPS, .protocol = ETH_P_ALL});
	m.head.nlmsg_type = RTM_NEWQDISC;
	CU_ASSERT_EQUAL(says(), SP_FILTER_NOTHING);
}

TEST(a_program_that_returns_drop_drops_everything)
{
	const struct sock_filter drop[2] = {{BPF_RET | BPF_K, 0, 0, TC_ACT_SHOT}, {BPF_RET | BPF_K, 0, 0, TC_ACT_OK}};
	const struct sock_filter pass = {BPF_RET | BPF_K, 0, 0, TC_ACT_OK};
	const struct {
		const void *program;
		size_t len;
		uint32_t flags;
		enum sp_filter_says says;
	} cases[] = {{drop, sizeof(*drop), TCA_BPF_FLAG_ACT_DIRECT, SP_FILTER_DROPS_ALL},
		     {drop, sizeof(*drop), 0, SP_FILTER_DOES_NOT},
		     {drop, sizeof(drop), TCA_BPF_FLAG_ACT_DIRECT, SP_FILTER_DOES_NOT}, /* of one alone it is certain */
		     {&pass, sizeof(pass), TCA_BPF_FLAG_ACT_DIRECT, SP_FILTER_DOES_NOT}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct nlattr *options;

		begin(ETH_P_ALL);
		add(TCA_KIND, "bpf", 4);
		options = add(TCA_OPTIONS, NULL, 0);
		add(TCA_BPF_FLAGS, &cases[i].flags, 4);
		add(TCA_BPF_OPS, cases[i].program, cases[i].len);
		end(options);
		CU_ASSERT_EQUAL(says(), cases[i].says);
	}
}

/* Every length and every byte wrong: nothing outside of the message is read (the sanitizers look on). */
TEST(broken_messages_are_read_within_their_bounds)
{
	matchall(&(struct shape){DROPS, .protocol = ETH_P_ALL});
	const uint32_t len = m.head.nlmsg_len;

	for (uint32_t cut = 0; cut < len; cut++) {
		uint8_t *copy = malloc(cut ? cut : 1);

		memcpy(copy, &m, cut);
		if (cut >= 4)
			memcpy(copy, &cut, 4); /* its own length says so, too */
		CU_ASSERT_NOT_EQUAL(cut < 16 ? SP_FILTER_NOTHING : sp_netlink_filter(copy, cut), SP_FILTER_DROPS_ALL);
		free(copy);
	}
	for (uint32_t at = sizeof(m.head); at < len; at++)
		for (unsigned value = 0; value < 256; value++) {
			uint8_t *copy = malloc(len);

			memcpy(copy, &m, len);
			copy[at] = (uint8_t)value;
			sp_netlink_filter(copy, len);
			free(copy);
		}
}

TEST(an_interface_without_filters_drops_nothing)
{
	CU_ASSERT(sp_netlink_drops_ingress(if_nametoindex("lo")) <= 0);
	CU_ASSERT(sp_netlink_drops_ingress(1u << 30) <= 0); /* there is no such one */
	CU_ASSERT(sp_netlink_add_address(1u << 30, (const uint8_t[16]){0x20, 1, [15] = 1}, 64) < 0);
}

TEST(the_loopback_interface_has_no_other_end_and_no_xdp_to_tell_of)
{
	const unsigned lo = if_nametoindex("lo");
	struct sp_netlink_link link = {.master = 1, .peer = 1, .abroad = true};
	char name[IF_NAMESIZE] = "kept";
	uint64_t features = 1;

	CU_ASSERT_EQUAL(sp_netlink_link(lo, &link), 0);
	CU_ASSERT(link.master == 0 && link.peer == 0 && !link.abroad);
	CU_ASSERT(sp_netlink_link(1u << 30, &link) < 0);
	CU_ASSERT(!sp_netlink_name_abroad(1 << 30, lo, name) && !*name); /* there is no such number */
	CU_ASSERT(sp_netlink_xdp_features(1u << 30, &features) < 0 && features == 0);
}
