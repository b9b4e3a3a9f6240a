/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel of this machine says, may and has where a port meets it: rights, interfaces, addresses, packet
 * sockets. Control calls only: all of them make system calls. */
#ifndef PIPELINE_KERNEL_H
#define PIPELINE_KERNEL_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_KERNEL_SOCKETS 64 /* of one interface that are looked after */

/* Is one of the process's effective capabilities (CAP_NET_RAW, ... of linux/capability.h). */
bool sp_kernel_capable(unsigned capability);
/* "sudo setcap cap_net_raw+ep /usr/bin/spindle": what gives this program `capabilities`. */
const char *sp_kernel_setcap(const char *capabilities, char *text, size_t room);

struct sp_kernel_interface {
	unsigned index; /* in this network namespace */
	uint32_t mtu;
	bool up, ethernet, tap;
};
int sp_kernel_interface(const char *name, struct sp_kernel_interface *interface); /* -ENODEV */
int sp_kernel_set_mtu(const char *name, uint32_t mtu);				  /* -errno; needs CAP_NET_ADMIN */
/* "eth0 eth1 lo": those that there are. */
const char *sp_kernel_interfaces(char *text, size_t room);
/* Packets that the kernel had for a TUN/TAP interface's program, and no room. */
int sp_kernel_tap_drops(unsigned index, uint64_t *drops);

/* Is `ip` (IPv4 mapped) an address of the kernel's own, other than on the interface `except` (NULL: none)? Then its
 * interface: the kernel would answer there for what is the NIC's. */
bool sp_kernel_owns(const uint8_t ip[16], const char *except, char interface[IF_NAMESIZE]);

/* The sockets of this process that net_af_packet receives an interface's packets by; how many. */
unsigned sp_kernel_sockets(unsigned index, int fd[SP_KERNEL_SOCKETS]);
/* Packets that the kernel had for this socket and no room, since the last call. */
uint64_t sp_kernel_socket_drops(int fd);
/* Everything on the wire, for as long as the socket is open: unlike IFF_PROMISC nothing to be taken back. */
int sp_kernel_socket_promiscuous(int fd, unsigned index);

#endif
