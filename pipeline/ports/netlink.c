/* SPDX-License-Identifier: BSD-3-Clause */
/* Three messages need no library. Lengths are checked all the same: attributes are read with what the kernel has sent.
 */
#include "netlink.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/netlink.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_gact.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER 32768 /* bytes; the kernel's dumps come in pieces of at most that */

/* ---- asking ---- */

struct request {
	struct nlmsghdr head;
	union {
		struct ifaddrmsg address;
		struct tcmsg filter;
	};
	uint8_t attributes[128];
};

static void add(struct request *r, uint16_t type, const void *data, uint16_t len)
{
	struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type};
	uint8_t *at = (uint8_t *)r + NLMSG_ALIGN(r->head.nlmsg_len);

	memcpy(at, &a, sizeof(a));
	memcpy(at + NLA_HDRLEN, data, len);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + NLA_ALIGN(a.nla_len);
}

/* A socket with the request on its way, or -errno. */
static int ask(struct request *r)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	const int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int error;

	if (s < 0)
		return -errno;
	r->head.nlmsg_seq = 1;
	if (sendto(s, r, r->head.nlmsg_len, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) ==
	    (ssize_t)r->head.nlmsg_len)
		return s;
	error = errno;
	close(s);
	return -error;
}

/* Reads answers until one ends it: see(), on a message, returns false; an error, or the last of a dump. 0 or -errno. */
static int listen_to(int s, bool (*see)(void *arg, const struct nlmsghdr *m), void *arg)
{
	_Alignas(struct nlmsghdr) uint8_t buffer[ANSWER];

	for (;;) {
		ssize_t got = recv(s, buffer, sizeof(buffer), 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? -errno : -EPIPE;
		for (const struct nlmsghdr *m = (const void *)buffer; NLMSG_OK(m, got); m = NLMSG_NEXT(m, got)) {
			if (m->nlmsg_type == NLMSG_DONE)
				return 0;
			if (m->nlmsg_type == NLMSG_ERROR)
				return m->nlmsg_len < NLMSG_LENGTH(sizeof(int)) ? -EBADMSG
										: *(const int *)NLMSG_DATA(m);
			if (!see(arg, m))
				return 0;
		}
	}
}

/* ---- addresses ---- */

static bool see_nothing(void *arg, const struct nlmsghdr *m)
{
	(void)arg;
	(void)m;
	return true;
}

int sp_netlink_add_address(unsigned index, const uint8_t ip[16], uint8_t prefix)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	const bool four = !memcmp(ip, mapped, 12);
	const uint16_t len = four ? 4 : 16;
	const uint32_t flags = IFA_F_NODAD;
	struct request r = {
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
			 .nlmsg_type = RTM_NEWADDR,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE},
		.address = {.ifa_family = four ? AF_INET : AF_INET6,
			    .ifa_prefixlen = prefix ? prefix : (uint8_t)(8 * len),
			    .ifa_index = index},
	};
	int s, result;

	add(&r, IFA_LOCAL, ip + 16 - len, len);
	add(&r, IFA_ADDRESS, ip + 16 - len, len);
	if (!four)
		add(&r, IFA_FLAGS, &flags, sizeof(flags));
	s = ask(&r);
	if (s < 0)
		return s;
	result = listen_to(s, see_nothing, NULL);
	close(s);
	return result;
}

/* ---- filters ---- */

/* An attribute's data and length. */
struct part {
	const uint8_t *data;
	size_t len;
};

static struct part find(struct part in, uint16_t type)
{
	while (in.len >= NLA_HDRLEN) {
		struct nlattr a;

		memcpy(&a, in.data, sizeof(a));
		if (a.nla_len < NLA_HDRLEN || a.nla_len > in.len)
			break;
		if ((a.nla_type & NLA_TYPE_MASK) == type)
			return (struct part){in.data + NLA_HDRLEN, a.nla_len - NLA_HDRLEN};
		const size_t whole = NLA_ALIGN(a.nla_len);

		if (whole > in.len)
			break;
		in = (struct part){in.data + whole, in.len - whole};
	}
	return (struct part){0};
}

static bool is(struct part p, const char *text)
{
	return p.len == strlen(text) + 1 && !memcmp(p.data, text, p.len);
}

static uint32_t number(struct part p) /* 0 where it is missing */
{
	uint32_t n = 0;

	if (p.len == sizeof(n))
		memcpy(&n, p.data, sizeof(n));
	return n;
}

/* The first action decides, as a drop ends the rest; one by chance is none. */
static bool acts_drop(struct part actions)
{
	const struct part first = find(actions, 1), options = find(first, TCA_ACT_OPTIONS);
	const struct part parameters = find(options, TCA_GACT_PARMS);
	struct tc_gact gact;

	if (!is(find(first, TCA_ACT_KIND), "gact") || parameters.len != sizeof(gact) ||
	    find(options, TCA_GACT_PROB).data)
		return false;
	memcpy(&gact, parameters.data, sizeof(gact));
	return gact.action == TC_ACT_SHOT;
}

static bool matchall_drops(struct part options)
{
	return !(number(find(options, TCA_MATCHALL_FLAGS)) & TCA_CLS_FLAGS_SKIP_SW) &&
	       acts_drop(find(options, TCA_MATCHALL_ACT));
}

/* Direct action: what the program returns is what is done. */
static bool bpf_drops(struct part options)
{
	const struct sock_filter drop = {.code = BPF_RET | BPF_K, .k = TC_ACT_SHOT};
	const struct part program = find(options, TCA_BPF_OPS);

	return number(find(options, TCA_BPF_FLAGS)) & TCA_BPF_FLAG_ACT_DIRECT &&
	       !(number(find(options, TCA_BPF_FLAGS_GEN)) & TCA_CLS_FLAGS_SKIP_SW) && program.len == sizeof(drop) &&
	       !memcmp(program.data, &drop, sizeof(drop));
}

enum sp_filter_says sp_netlink_filter(const void *message, size_t len)
{
	const struct nlmsghdr *m = message;
	struct part all, options;
	struct tcmsg filter;

	if (len < NLMSG_LENGTH(sizeof(filter)) || m->nlmsg_len < NLMSG_LENGTH(sizeof(filter)) || m->nlmsg_len > len ||
	    m->nlmsg_type != RTM_NEWTFILTER)
		return SP_FILTER_NOTHING;
	memcpy(&filter, NLMSG_DATA(m), sizeof(filter));
	all = (struct part){(const uint8_t *)m + NLMSG_SPACE(sizeof(filter)),
			    m->nlmsg_len - NLMSG_SPACE(sizeof(filter))};
	options = find(all, TCA_OPTIONS);
	/* Without options it announces a priority's filters; other chains are gone to from chain 0 alone. */
	if (!options.data || number(find(all, TCA_CHAIN)))
		return SP_FILTER_NOTHING;
	if (TC_H_MIN(filter.tcm_info) == htons(ETH_P_ALL) &&
	    ((is(find(all, TCA_KIND), "matchall") && matchall_drops(options)) ||
	     (is(find(all, TCA_KIND), "bpf") && bpf_drops(options))))
		return SP_FILTER_DROPS_ALL;
	return SP_FILTER_DOES_NOT;
}

/* The kernel tells filters in the order in which it asks them. */
static bool see_first(void *arg, const struct nlmsghdr *m)
{
	enum sp_filter_says *says = arg;

	*says = sp_netlink_filter(m, m->nlmsg_len);
	return *says == SP_FILTER_NOTHING;
}

int sp_netlink_drops_ingress(unsigned index)
{
	struct request r = {
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg)),
			 .nlmsg_type = RTM_GETTFILTER,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.filter = {.tcm_family = AF_UNSPEC,
			   .tcm_ifindex = (int)index,
			   .tcm_parent = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)}, /* the qdisc ingress has it, too */
	};
	enum sp_filter_says says = SP_FILTER_NOTHING;
	int s = ask(&r), result;

	if (s < 0)
		return s;
	result = listen_to(s, see_first, &says);
	close(s);
	return result ? result : says == SP_FILTER_DROPS_ALL;
}
