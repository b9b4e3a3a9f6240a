/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel.h"
#include "netlink.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- rights ---- */

bool sp_kernel_capable(unsigned capability)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &header, data))
		return false;
	return data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

const char *sp_kernel_setcap(const char *capabilities, char *text, size_t room)
{
	char program[96];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (n <= 0 || n == (ssize_t)sizeof(program) - 1) /* unknown or truncated */
		n = snprintf(program, sizeof(program), "PROGRAM");
	program[n] = 0;
	snprintf(text, room, "sudo setcap %s+ep %s", capabilities, program);
	return text;
}

/* ---- interfaces ---- */

static bool is_tap(int s, const char *name)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq request = {.ifr_data = (void *)&info};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	return !ioctl(s, SIOCETHTOOL, &request) && !strcmp(info.driver, "tun") && !strcmp(info.bus_info, "tap");
}

static bool ask(int s, unsigned long what, const char *name, struct ifreq *request)
{
	memset(request, 0, sizeof(*request));
	snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
	return !ioctl(s, what, request);
}

int sp_kernel_interface(const char *name, struct sp_kernel_interface *interface)
{
	int s = strlen(name) < IF_NAMESIZE ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	struct ifreq request;
	bool known;

	*interface = (struct sp_kernel_interface){0};
	if (s < 0)
		return -ENODEV;
	known = ask(s, SIOCGIFINDEX, name, &request);
	if (known)
		interface->index = (unsigned)request.ifr_ifindex;
	if (known && ask(s, SIOCGIFMTU, name, &request))
		interface->mtu = (uint32_t)request.ifr_mtu;
	if (known && ask(s, SIOCGIFFLAGS, name, &request)) {
		interface->up = request.ifr_flags & IFF_UP;
		interface->link = request.ifr_flags & IFF_RUNNING;
	}
	if (known && ask(s, SIOCGIFHWADDR, name, &request))
		interface->ethernet =
			request.ifr_hwaddr.sa_family == ARPHRD_ETHER || request.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK;
	interface->tap = known && is_tap(s, name);
	close(s);
	return known ? 0 : -ENODEV;
}

/* A value of ethtool(8)'s: false: the driver has none. */
static bool ethtool(const char *name, void *value)
{
	struct ifreq request = {.ifr_data = value};
	int s = strlen(name) < IF_NAMESIZE ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	bool known;

	if (s < 0)
		return false;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	known = !ioctl(s, SIOCETHTOOL, &request);
	close(s);
	return known;
}

unsigned sp_kernel_queues(const char *name)
{
	struct ethtool_channels c = {.cmd = ETHTOOL_GCHANNELS};

	return ethtool(name, &c) && c.max_combined && c.combined_count ? c.combined_count : 1;
}

bool sp_kernel_leaves_checksums(const char *name)
{
	struct ethtool_value v = {.cmd = ETHTOOL_GTXCSUM};

	return ethtool(name, &v) && v.data;
}

bool sp_kernel_trusts_checksums(const char *name)
{
	struct ethtool_value v = {.cmd = ETHTOOL_GRXCSUM};

	return ethtool(name, &v) && v.data;
}

bool sp_kernel_driver(const char *name, char driver[SP_KERNEL_DRIVER])
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

	snprintf(driver, SP_KERNEL_DRIVER, "%s", ethtool(name, &info) ? info.driver : "");
	return *driver;
}

bool sp_kernel_veth(const char *name, char peer[IF_NAMESIZE], bool *abroad)
{
	char driver[SP_KERNEL_DRIVER];
	struct sp_netlink_link link;

	*peer = 0;
	*abroad = false;
	if (!sp_kernel_driver(name, driver) || strcmp(driver, "veth"))
		return false;
	if (sp_netlink_link(if_nametoindex(name), &link))
		return true;
	*abroad = link.abroad;
	if (link.abroad)
		sp_netlink_name_abroad(link.space, link.peer, peer);
	else if (!if_indextoname(link.peer, peer))
		*peer = 0;
	return true;
}

int sp_kernel_set_mtu(const char *name, uint32_t mtu)
{
	struct ifreq request = {.ifr_mtu = (int)mtu};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	if (s < 0)
		return -errno;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	r = ioctl(s, SIOCSIFMTU, &request) ? -errno : 0;
	close(s);
	return r;
}

const char *sp_kernel_interfaces(char *text, size_t room)
{
	struct if_nameindex *all = if_nameindex();
	size_t used = 0;

	*text = 0;
	for (const struct if_nameindex *i = all; i && i->if_index && used < room; i++)
		used += (size_t)snprintf(text + used, room - used, used ? " %s" : "%s", i->if_name);
	if (all)
		if_freenameindex(all);
	return text;
}

int sp_kernel_tap_drops(unsigned index, uint64_t *drops)
{
	struct ifaddrs *all;
	char name[IF_NAMESIZE];
	int r = -ENODEV;

	if (!if_indextoname(index, name) || getifaddrs(&all))
		return r;
	for (const struct ifaddrs *a = all; a && r; a = a->ifa_next)
		if (a->ifa_addr && a->ifa_addr->sa_family == AF_PACKET && a->ifa_data && !strcmp(a->ifa_name, name)) {
			/* the kernel transmits what the NIC receives */
			*drops = ((const struct rtnl_link_stats *)a->ifa_data)->tx_dropped;
			r = 0;
		}
	freeifaddrs(all);
	return r;
}

/* ---- addresses ---- */

static bool same_address(const struct sockaddr *a, const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

	if (a && a->sa_family == AF_INET)
		return !memcmp(ip, mapped, 12) &&
		       !memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr, ip + 12, 4);
	return a && a->sa_family == AF_INET6 &&
	       !memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, ip, 16);
}

bool sp_kernel_owns(const uint8_t ip[16], const char *except, char interface[IF_NAMESIZE])
{
	struct ifaddrs *all;
	bool owns = false;

	if (getifaddrs(&all))
		return false;
	for (const struct ifaddrs *a = all; a && !owns; a = a->ifa_next)
		if (same_address(a->ifa_addr, ip) && (!except || strcmp(a->ifa_name, except))) {
			snprintf(interface, IF_NAMESIZE, "%s", a->ifa_name);
			owns = true;
		}
	freeifaddrs(all);
	return owns;
}

bool sp_kernel_has(const uint8_t ip[16], const char *interface)
{
	struct ifaddrs *all;
	bool has = false;

	if (getifaddrs(&all))
		return false;
	for (const struct ifaddrs *a = all; a && !has; a = a->ifa_next)
		has = same_address(a->ifa_addr, ip) && !strcmp(a->ifa_name, interface);
	freeifaddrs(all);
	return has;
}

/* ---- network namespaces ---- */

int sp_kernel_enter(const char *netns, int *back)
{
	struct stat here, there;
	char path[PATH_MAX];
	int fd, r = 0;

	if (snprintf(path, sizeof(path), "%s%s", strchr(netns, '/') ? "" : "/run/netns/", netns) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	*back = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (*back < 0)
		return -errno;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &there) || fstat(*back, &here))
		r = -errno;
	else if (here.st_dev == there.st_dev && here.st_ino == there.st_ino)
		r = -EEXIST;
	else if (setns(fd, CLONE_NEWNET))
		r = -errno;
	if (fd >= 0)
		close(fd);
	if (r)
		close(*back);
	return r;
}

int sp_kernel_leave(int back)
{
	const int r = setns(back, CLONE_NEWNET) ? -errno : 0;

	close(back);
	return r;
}

/* ---- packet sockets ---- */

/* The driver does not expose its sockets. Find them by ring format and fan-out group, which the driver sets even with
 * one queue pair; other sockets (a capture's) differ. */
static bool is_port_socket(int fd, unsigned index)
{
	struct sockaddr_ll at = {0};
	int domain = 0, version = 0, group = 0;
	socklen_t n = sizeof(domain), len = sizeof(at);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) || domain != AF_PACKET ||
	    getsockname(fd, (struct sockaddr *)&at, &len) || at.sll_ifindex != (int)index ||
	    at.sll_protocol != htons(ETH_P_ALL))
		return false;
	n = sizeof(version);
	if (getsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, &n) || version != TPACKET_V2)
		return false;
	n = sizeof(group);
	return !getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &group, &n) && group != 0;
}

unsigned sp_kernel_sockets(unsigned index, int fd[SP_KERNEL_SOCKETS])
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	for (struct dirent *e; dir && (e = readdir(dir)) && n < SP_KERNEL_SOCKETS;) {
		char *end;
		long number = strtol(e->d_name, &end, 10);

		if (end != e->d_name && !*end && is_port_socket((int)number, index))
			fd[n++] = (int)number;
	}
	if (dir)
		closedir(dir);
	return n;
}

uint64_t sp_kernel_socket_drops(int fd)
{
	struct tpacket_stats s = {0};
	socklen_t n = sizeof(s);

	return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &s, &n) ? 0 : s.tp_drops;
}

int sp_kernel_socket_promiscuous(int fd, unsigned index)
{
	struct packet_mreq request = {.mr_ifindex = (int)index, .mr_type = PACKET_MR_PROMISC};

	return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof(request)) ? -errno : 0;
}

int sp_kernel_promiscuous(unsigned index)
{
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	const int r = fd < 0 ? -errno : sp_kernel_socket_promiscuous(fd, index);

	if (r && fd >= 0)
		close(fd);
	return r ? r : fd;
}
