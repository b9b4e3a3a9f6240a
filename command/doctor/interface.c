/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's network interfaces: what RoCE they carry, and which kind of port suits them. */
#include "interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "../../pipeline/ports/checksums.h"
#include "../../pipeline/ports/kernel.h"
#include "../../pipeline/ports/netlink.h"
#include "../../pipeline/ports/xdp.h"

/* Bytes around the payload: IP, UDP 8, BTH 12, RETH 16, immediate 4, ICRC 4. */
#define OVERHEAD4 (20 + 8 + 12 + 16 + 4 + 4)
#define OVERHEAD6 (40 + 8 + 12 + 16 + 4 + 4)

struct seen {
	const char *name;
	char driver[SP_KERNEL_DRIVER]; /* "virtual": none that tells */
	struct sp_kernel_interface kernel;
};

/* ---- RoCE ---- */

static void roce(struct doctor *d, const struct seen *i)
{
	const int mtu = (int)i->kernel.mtu;
	unsigned path_mtu = 4096;
	char item[64];

	snprintf(item, sizeof(item), "interface %s", i->name);
	while (path_mtu > 128 && mtu < (int)path_mtu + OVERHEAD6)
		path_mtu /= 2;
	if (path_mtu <= 128) {
		doctor_say(d, ATTENTION, item, "not usable for RoCE", "%s, MTU %d is too small", i->driver, mtu);
		return;
	}
	doctor_say(
		d, path_mtu < 1024 ? ATTENTION : FINE, item,
		path_mtu < 1024
			? "raise its MTU (1108 carries the default path MTU 1024), or set a smaller mtu in the context"
			: NULL,
		"%s, MTU %d, %s; payload up to %d (IPv4) or %d (IPv6) bytes a packet, path MTU %u fits%s", i->driver,
		mtu, i->kernel.link ? "link up" : "no link", mtu - OVERHEAD4, mtu - OVERHEAD6, path_mtu,
		path_mtu < 4096 ? "; 4096 needs an MTU of 4160 (IPv4) or 4180 (IPv6)" : "");
}

/* ---- which kind of port ---- */

/* An address of the kernel's on the interface that others may know; false: it has none. */
static bool kernels_address(const char *name, char text[INET6_ADDRSTRLEN])
{
	struct ifaddrs *all;

	*text = 0;
	if (getifaddrs(&all))
		return false;
	for (const struct ifaddrs *a = all; a && !*text; a = a->ifa_next) {
		const int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_UNSPEC;
		const struct sockaddr_in6 *six = (const void *)a->ifa_addr;
		const struct sockaddr_in *four = (const void *)a->ifa_addr;

		if (strcmp(a->ifa_name, name))
			continue;
		if (family == AF_INET)
			inet_ntop(family, &four->sin_addr, text, INET6_ADDRSTRLEN);
		else if (family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
			inet_ntop(family, &six->sin6_addr, text, INET6_ADDRSTRLEN);
	}
	freeifaddrs(all);
	return *text;
}

enum xdp { NO_XDP, COPIES, NO_COPIES };

/* Kernels before 6.3 do not tell what their drivers can do. Of these it is known, but not which of them copy. */
static enum xdp xdp_of(const struct seen *i)
{
	static const char *const known[] = {"veth",    "virtio_net", "ixgbe",	"i40e",	     "ice",
					    "igb",     "igc",	     "mlx4_en", "ena",	     "mlx5_core",
					    "bnxt_en", "nfp",	     "qede",	"hv_netvsc", "gve"};
	const uint64_t needed = SP_XDP_BASIC | SP_XDP_REDIRECT;
	uint64_t features;

	if (!sp_netlink_xdp_features(i->kernel.index, &features))
		return (features & needed) != needed ? NO_XDP : features & SP_XDP_ZEROCOPY ? NO_COPIES : COPIES;
	for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++)
		if (!strcmp(i->driver, known[k]))
			return COPIES;
	return NO_XDP;
}

static void spare(struct doctor *d, const char *item, const struct seen *i)
{
	const enum xdp xdp = xdp_of(i);
	const unsigned queues = sp_kernel_queues(i->name);
	char advice[200];

	if (xdp == NO_XDP) {
		snprintf(advice, sizeof(advice), "port = af_packet:%s", i->name);
		doctor_say(d, FINE, item, advice, "the kernel has no address there; driver %s, without XDP", i->driver);
		return;
	}
	if (i->kernel.mtu > sp_xdp_largest_mtu()) {
		snprintf(advice, sizeof(advice), "port = af_packet:%s; af_xdp:%s for an MTU of at most %u", i->name,
			 i->name, sp_xdp_largest_mtu());
	} else {
		int n = snprintf(
			advice, sizeof(advice),
			"port = af_xdp:%s if the NIC is to have it alone, af_packet:%s if the kernel uses it too",
			i->name, i->name);
		if (queues > 1)
			snprintf(advice + n, sizeof(advice) - (size_t)n,
				 "; first as many queues as workers: sudo ethtool -L %s combined 1", i->name);
	}
	doctor_say(d, FINE, item, advice, "the kernel has no address there; driver %s, with XDP%s", i->driver,
		   xdp == NO_COPIES ? " and without copies" : "");
}

static void suits(struct doctor *d, const struct seen *i)
{
	char item[64], address[INET6_ADDRSTRLEN], advice[200];

	snprintf(item, sizeof(item), "port on %s", i->name);
	if (!kernels_address(i->name, address)) {
		spare(d, item, i);
		return;
	}
	snprintf(advice, sizeof(advice), "port = af_packet:%s, beside the kernel, and another address for the NIC",
		 i->name);
	doctor_say(d, FINE, item, advice, "the kernel has %s there: not spare", address);
}

static void checksums(struct doctor *d, const struct seen *i)
{
	char item[64], why[SP_CHECKSUMS_TEXT], todo[SP_CHECKSUMS_TEXT];
	const enum sp_checksums state = sp_checksums(i->name, why, todo);
	/* as spindle run has it: own offloads that are off mean that somebody has thought of it */
	const bool likely =
		state == SP_CHECKSUMS_LEFT || (state == SP_CHECKSUMS_ABROAD && sp_kernel_leaves_checksums(i->name));

	snprintf(item, sizeof(item), "checksums on %s", i->name);
	if (state != SP_CHECKSUMS_MADE)
		doctor_say(d, likely ? ATTENTION : FINE, item, todo, "%s", why);
}

/* ---- all of them ---- */

static void interface(struct doctor *d, const char *name)
{
	struct seen i = {.name = name};
	struct sp_netlink_link link;

	if (sp_kernel_interface(name, &i.kernel))
		return;
	if (!sp_kernel_driver(name, i.driver))
		strcpy(i.driver, "virtual");
	roce(d, &i);
	/* What belongs to a bridge or a bond is that one's. */
	if (!i.kernel.up || !i.kernel.ethernet || sp_netlink_link(i.kernel.index, &link) || link.master)
		return;
	suits(d, &i);
	checksums(d, &i);
}

void doctor_interfaces(struct doctor *d)
{
	struct if_nameindex *all = if_nameindex();
	unsigned count = 0;

	for (struct if_nameindex *i = all; i && i->if_index; i++)
		if (strcmp(i->if_name, "lo")) {
			interface(d, i->if_name);
			count++;
		}
	if_freenameindex(all);
	if (!count)
		doctor_say(d, FINE, "interface", NULL,
			   "none besides lo: ports are captures, taps or links inside the process");
}
