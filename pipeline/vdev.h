/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports that the NIC makes itself: KIND:TARGET[,devargs] becomes a DPDK virtual device, and is taken away again. All
 * are control calls. */
#ifndef PIPELINE_VDEV_H
#define PIPELINE_VDEV_H

#include <rte_ether.h>

#include "nic.h"

/* What an MTU means in one place. The NIC's frames are mtu + SP_L2_ROOM bytes at the most: an Ethernet header and two
 * VLAN tags; the port keeps the FCS to itself. */
#define SP_L2_ROOM	   (RTE_ETHER_HDR_LEN + 8)
#define SP_PORT_FRAME(mtu) ((mtu) + SP_L2_ROOM)

#define SP_VDEV_NAME   64
#define SP_VDEV_TARGET 256

enum sp_vdev_kind {
	SP_VDEV_NONE, /* the name of an ethdev that EAL has made */
	SP_VDEV_AF_PACKET,
	SP_VDEV_TAP,
	SP_VDEV_VIRTIO_USER,
	SP_VDEV_VHOST,
	SP_VDEV_RING,
	SP_VDEV_PCAP,
	SP_VDEV_PCAP_IFACE,
	SP_VDEV_NULL,
};

struct sp_vdev_spec {
	enum sp_vdev_kind kind;
	char target[SP_VDEV_TARGET]; /* interface, socket, file, name; of SP_VDEV_NONE the device */
	char out[SP_VDEV_TARGET];    /* of pcap: the file written, or "" */
	char devargs[SP_VDEV_TARGET];
};

struct sp_vdev_type {
	const char *name, *driver; /* in nic.ini; DPDK's */
	bool exclusive;		   /* one target, one port of this process */
	const char *const keys[9]; /* devargs that may be given; what follows from [nic] may not */
};
extern const struct sp_vdev_type sp_vdev_types[]; /* by kind */

/* What the NIC wants of a port. */
struct sp_vdev_wants {
	uint32_t mtu;
	uint16_t queues;
	const uint8_t *mac; /* that a TAP interface is to have, or NULL */
};

/* Takes the words of `port = ...` apart; -EINVAL and why. Looks at nothing but the words. */
int sp_vdev_parse(const char *device, struct sp_vdev_spec *spec, struct sp_error *error);
/* What can be known before it is made: -ENODEV no such interface, socket, file; -EPERM a right is missing; -ENETDOWN,
 * -EADDRINUSE, -EBUSY, -ENOTSUP (mtu). Changes nothing. */
int sp_vdev_check(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *wants, struct sp_error *error);
/* The driver's arguments: those derived from `wants`, then devargs, which win. */
int sp_vdev_arguments(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *wants, char *args, size_t room);
/* The kernel's interface below a port of that kind, or NULL. */
const char *sp_vdev_interface(const struct sp_vdev_spec *spec);

/* Of virtio-user and vhost: does it make the socket, or connect to it? */
bool sp_vdev_listens(const struct sp_vdev_spec *spec);

struct sp_vdev;
/* Makes it; name: the ethdev's (SP_VDEV_NAME bytes). Nothing is left behind on failure. */
int sp_vdev_make(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *wants, struct sp_error *error,
		 struct sp_vdev **vdev);
const char *sp_vdev_name(const struct sp_vdev *vdev);
/* The port must have been stopped. NULL is fine. */
void sp_vdev_remove(struct sp_vdev *vdev);

/* Bytes that a net_af_packet device's ring has for one frame, of its arguments (may be NULL). */
uint32_t sp_vdev_framesz(const char *args);
/* The ring slot that a frame needs: the kernel puts its header before it. */
uint32_t sp_vdev_framesz_needed(uint32_t mtu);
/* The interface that a net_pcap device's arguments (may be NULL) name; false: it has files. */
bool sp_vdev_pcap_interface(const char *args, char *name, size_t room);
/* What the device of that name lacked which EAL was to make with these arguments (--vdev): 0 where nothing is known. */
int sp_vdev_explain(const char *device, int argc, char **argv, struct sp_error *error);
/* Is it the address of a PCI device? And what that lacks to be a port (never 0). */
bool sp_vdev_is_pci(const char *device);
int sp_vdev_explain_pci(const char *device, struct sp_error *error);

#endif
