/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports that the NIC creates: KIND:TARGET[,devargs] becomes a DPDK virtual device, removed with the port. All are
 * control calls. */
#ifndef PIPELINE_PORTS_VDEV_H
#define PIPELINE_PORTS_VDEV_H

#include <rte_ether.h>

#include "../nic.h"

/* A frame is at most mtu + SP_L2_ROOM bytes: an Ethernet header and two VLAN tags, without FCS. */
#define SP_L2_ROOM	   (RTE_ETHER_HDR_LEN + 8)
#define SP_PORT_FRAME(mtu) ((mtu) + SP_L2_ROOM)

#define SP_VDEV_NAME   64
#define SP_VDEV_TARGET 256

enum sp_vdev_kind {
	SP_VDEV_NONE, /* an ethdev created by EAL */
	SP_VDEV_AF_PACKET,
	SP_VDEV_AF_XDP,
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
	char target[SP_VDEV_TARGET]; /* interface, socket, file, name; SP_VDEV_NONE: the device */
	char out[SP_VDEV_TARGET];    /* pcap: the output file, or "" */
	char devargs[SP_VDEV_TARGET];
};

struct sp_vdev_type {
	const char *name, *driver; /* name in nic.ini; DPDK driver */
	bool exclusive;		   /* only one port of this process per target */
	const char *const keys[9]; /* allowed devargs; the NIC derives the others from [nic] */
};
extern const struct sp_vdev_type sp_vdev_types[]; /* by kind */

/* The NIC's settings for a port. */
struct sp_vdev_wants {
	uint32_t mtu;
	uint16_t queues;
	const uint8_t *mac; /* for a TAP interface, or NULL */
};

/* Parses the text of `port = ...`; -EINVAL and an error. Checks the syntax only. */
int sp_vdev_parse(const char *device, struct sp_vdev_spec *spec, struct sp_error *error);
/* Checks that need no device: -ENODEV no such interface, socket, file; -EPERM missing capability; -ENETDOWN,
 * -EADDRINUSE, -EBUSY, -ENOTSUP (mtu). Changes nothing. */
int sp_vdev_check(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *wants, struct sp_error *error);
/* The driver's arguments: the NIC's defaults from `wants`, overridden by devargs. */
int sp_vdev_arguments(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *wants, char *args, size_t room);
/* The kernel's interface below such a port, or NULL. */
const char *sp_vdev_interface(const struct sp_vdev_spec *spec);
/* 0: there is such an Ethernet interface, and it is up. */
int sp_vdev_check_interface(const char *name, struct sp_error *error);

/* virtio-user and vhost: true if the port creates the socket, false if it connects. */
bool sp_vdev_listens(const struct sp_vdev_spec *spec);

struct sp_vdev;
/* Creates the device, or leaves nothing behind on failure. */
int sp_vdev_make(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *wants, struct sp_error *error,
		 struct sp_vdev **vdev);
const char *sp_vdev_name(const struct sp_vdev *vdev);
/* After the port was stopped. NULL is fine. */
void sp_vdev_remove(struct sp_vdev *vdev);

/* Size of a ring slot in the arguments of a net_af_packet device (may be NULL). */
uint32_t sp_vdev_framesz(const char *args);
/* Entries of a ring of a net_virtio_user device; 0: not a number. */
uint32_t sp_vdev_queue_size(const char *args);
/* Slot size needed for a frame: the kernel puts its header first. */
uint32_t sp_vdev_framesz_needed(uint32_t mtu);
/* The interface in a net_pcap device's arguments (may be NULL); false: it uses files. */
bool sp_vdev_pcap_interface(const char *args, char *name, size_t room);
/* Explains why EAL could not create the device with these arguments (--vdev); 0: unknown. */
int sp_vdev_explain(const char *device, int argc, char **argv, struct sp_error *error);
/* True for a PCI address. explain_pci: why that device is no port (never 0). */
bool sp_vdev_is_pci(const char *device);
int sp_vdev_explain_pci(const char *device, struct sp_error *error);

#endif
