/* SPDX-License-Identifier: BSD-3-Clause */
/* The local kernel around a port: capabilities, interfaces, addresses, packet sockets. Control calls only: all make
 * system calls. */
#ifndef PIPELINE_PORTS_KERNEL_H
#define PIPELINE_PORTS_KERNEL_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_KERNEL_SOCKETS 64 /* limit of sockets per interface */

/* True if the capability (CAP_NET_RAW, ... of linux/capability.h) is effective. */
bool sp_kernel_capable(unsigned capability);
/* The command that gives this program `capabilities`: "sudo setcap cap_net_raw+ep /usr/bin/spindle". */
const char *sp_kernel_setcap(const char *capabilities, char *text, size_t room);

struct sp_kernel_interface {
	unsigned index; /* in this network namespace */
	uint32_t mtu;
	bool up, link, ethernet, tap;
};
int sp_kernel_interface(const char *name, struct sp_kernel_interface *interface); /* -ENODEV */
int sp_kernel_set_mtu(const char *name, uint32_t mtu);				  /* -errno; needs CAP_NET_ADMIN */
/* Queue pairs in use, as AF_XDP counts them; 1 where the driver does not tell. */
unsigned sp_kernel_queues(const char *name);
/* Does the interface leave checksums of what is sent to the device? */
bool sp_kernel_leaves_checksums(const char *name);
/* Does it take the device's word for checksums of what is received? */
bool sp_kernel_trusts_checksums(const char *name);
/* Its driver, as ethtool(8) names it: "veth", "virtio_net", "ice"; false: it has none that tells. */
#define SP_KERNEL_DRIVER 32
bool sp_kernel_driver(const char *name, char driver[SP_KERNEL_DRIVER]);
/* The other end of a veth: true if the interface is one; peer: its name, or "" where the kernel does not tell us;
 * abroad: it is in another network namespace. */
bool sp_kernel_veth(const char *name, char peer[IF_NAMESIZE], bool *abroad);
/* All interfaces: "eth0 eth1 lo". */
const char *sp_kernel_interfaces(char *text, size_t room);
/* Packets that the kernel dropped because a TUN/TAP interface's queue was full. */
int sp_kernel_tap_drops(unsigned index, uint64_t *drops);

/* True if the kernel owns `ip` (IPv4 mapped) on an interface other than `except` (NULL: any), which is returned: the
 * kernel would answer the NIC's peers there. */
bool sp_kernel_owns(const uint8_t ip[16], const char *except, char interface[IF_NAMESIZE]);
bool sp_kernel_has(const uint8_t ip[16], const char *interface); /* this interface has it */

/* Puts this thread into another network namespace, a name under /run/netns or a path; *back: for sp_kernel_leave().
 * -ENOENT, -EPERM (CAP_SYS_ADMIN), -EEXIST: it is the thread's own. */
int sp_kernel_enter(const char *netns, int *back);
int sp_kernel_leave(int back); /* -errno: the thread is still there */

/* This process's net_af_packet receive sockets of an interface; returns their number. */
unsigned sp_kernel_sockets(unsigned index, int fd[SP_KERNEL_SOCKETS]);
/* Packets dropped because this socket's ring was full, since the last call. */
uint64_t sp_kernel_socket_drops(int fd);
/* Receives all frames while the socket is open; unlike IFF_PROMISC, closing the socket ends it. */
int sp_kernel_socket_promiscuous(int fd, unsigned index);
/* A socket that receives nothing, but keeps the interface promiscuous while it is open; or -errno. */
int sp_kernel_promiscuous(unsigned index);

#endif
