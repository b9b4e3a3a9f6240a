/* SPDX-License-Identifier: BSD-3-Clause */
/* A few messages need no library. Lengths are checked all the same: attributes are read with what the kernel has sent.
 */
#include "netlink.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/genetlink.h>
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
		struct ifinfomsg link;
		struct tcmsg filter;
		struct genlmsghdr generic;
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
static int ask_at(struct request *r, int protocol)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	const int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
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

static int ask(struct request *r)
{
	return ask_at(r, NETLINK_ROUTE);
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

/* ---- XDP ---- */

static bool see_xdp(void *arg, const struct nlmsghdr *m)
{
	const size_t head = NLMSG_LENGTH(sizeof(struct ifinfomsg));
	struct part p;

	if (m->nlmsg_type != RTM_NEWLINK || m->nlmsg_len < head)
		return true;
	p = find(find((struct part){(const uint8_t *)m + head, m->nlmsg_len - head}, IFLA_XDP), IFLA_XDP_PROG_ID);
	if (p.len >= sizeof(uint32_t))
		memcpy(arg, p.data, sizeof(uint32_t));
	return false;
}

static struct request link_request(unsigned index)
{
	return (struct request){
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			 .nlmsg_type = RTM_GETLINK,
			 .nlmsg_flags = NLM_F_REQUEST},
		.link = {.ifi_index = (int)index},
	};
}

int sp_netlink_xdp(unsigned index, uint32_t *program)
{
	struct request r = link_request(index);
	const int s = ask(&r);
	int result;

	*program = 0;
	if (s < 0)
		return s;
	result = listen_to(s, see_xdp, program);
	close(s);
	return result;
}

/* ---- links ---- */

/* The attributes behind a message's own head of so many bytes. */
static struct part attributes(const struct nlmsghdr *m, size_t head)
{
	const size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(head);

	return m->nlmsg_len < skip ? (struct part){0} : (struct part){(const uint8_t *)m + skip, m->nlmsg_len - skip};
}

static bool number_of(struct part in, uint16_t type, uint32_t *value)
{
	const struct part p = find(in, type);

	if (p.len != sizeof(*value))
		return false;
	memcpy(value, p.data, sizeof(*value));
	return true;
}

static bool see_link(void *arg, const struct nlmsghdr *m)
{
	const struct part all = attributes(m, sizeof(struct ifinfomsg));
	struct sp_netlink_link *link = arg;
	uint32_t value;

	if (m->nlmsg_type != RTM_NEWLINK)
		return true;
	if (number_of(all, IFLA_MASTER, &value))
		link->master = value;
	if (number_of(all, IFLA_LINK, &value))
		link->peer = value;
	link->abroad = number_of(all, IFLA_LINK_NETNSID, &value);
	if (link->abroad)
		link->space = (int)value;
	return false;
}

int sp_netlink_link(unsigned index, struct sp_netlink_link *link)
{
	struct request r = link_request(index);
	const int s = ask(&r);
	int result;

	*link = (struct sp_netlink_link){0};
	if (s < 0)
		return s;
	result = listen_to(s, see_link, link);
	close(s);
	return result;
}

static bool see_name(void *arg, const struct nlmsghdr *m)
{
	const struct part name = find(attributes(m, sizeof(struct ifinfomsg)), IFLA_IFNAME);

	if (m->nlmsg_type != RTM_NEWLINK)
		return true;
	if (name.len && name.len <= IF_NAMESIZE && !name.data[name.len - 1])
		memcpy(arg, name.data, name.len);
	return false;
}

bool sp_netlink_name_abroad(int space, unsigned index, char name[IF_NAMESIZE])
{
	struct request r = link_request(index);
	int s;

	*name = 0;
	add(&r, IFLA_TARGET_NETNSID, &space, sizeof(space));
	s = ask(&r);
	if (s < 0)
		return false;
	if (listen_to(s, see_name, name))
		*name = 0;
	close(s);
	return *name;
}

/* ---- what drivers can do for XDP ---- */

/* Of linux/netdev.h, which is younger than the kernel's headers may be. */
enum { DEV_GET = 1, DEV_IFINDEX = 1, DEV_XDP_FEATURES = 3 };

static bool see_family(void *arg, const struct nlmsghdr *m)
{
	const struct part id = find(attributes(m, sizeof(struct genlmsghdr)), CTRL_ATTR_FAMILY_ID);

	if (id.len == sizeof(uint16_t))
		memcpy(arg, id.data, sizeof(uint16_t));
	return false;
}

static bool see_features(void *arg, const struct nlmsghdr *m)
{
	const struct part value = find(attributes(m, sizeof(struct genlmsghdr)), DEV_XDP_FEATURES);

	if (value.len == sizeof(uint64_t))
		memcpy(arg, value.data, sizeof(uint64_t));
	return false;
}

/* One question with one attribute to a family of generic netlink. */
static int ask_family(uint16_t family, uint8_t command, uint16_t attribute, const void *data, uint16_t len,
		      bool (*see)(void *arg, const struct nlmsghdr *m), void *arg)
{
	struct request r = {
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct genlmsghdr)),
			 .nlmsg_type = family,
			 .nlmsg_flags = NLM_F_REQUEST},
		.generic = {.cmd = command, .version = 1},
	};
	int s, result;

	add(&r, attribute, data, len);
	s = ask_at(&r, NETLINK_GENERIC);
	if (s < 0)
		return s;
	result = listen_to(s, see, arg);
	close(s);
	return result;
}

int sp_netlink_xdp_features(unsigned index, uint64_t *features)
{
	static const char name[] = "netdev";
	uint16_t family = 0;
	int r = ask_family(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, name, sizeof(name), see_family,
			   &family);

	*features = 0;
	if (!r && !family)
		r = -ENOENT;
	return r ? r : ask_family(family, DEV_GET, DEV_IFINDEX, &index, sizeof(index), see_features, features);
}
