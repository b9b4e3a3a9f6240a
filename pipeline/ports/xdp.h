/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports by AF_XDP: what DPDK's net_af_xdp and the kernel want, but do not say. Control calls. */
#ifndef PIPELINE_PORTS_XDP_H
#define PIPELINE_PORTS_XDP_H

#include "../limits.h"
#include "vdev.h"

#define SP_XDP_DESCRIPTORS 2048 /* as many as the driver gives the kernel at once: no ring is full before these are */
#define SP_XDP_HEADROOM	   256	/* bytes that the kernel leaves free before a frame, behind the buffer's own headroom */

/* Checks as sp_vdev_check() does. */
int sp_xdp_check(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *wants, struct sp_error *error);
/* The AF_XDP sockets that a device's queues have made: the driver forgets to close them, and their queues would stay
 * taken as long as this process lives. */
struct sp_xdp_sockets {
	unsigned count;
	struct sp_xdp_socket {
		int fd;
		uint64_t inode;
	} of[SP_MAX_WORKERS];
};
/* Around the making of the queues: one device at a time in a process. Between them the driver's libraries put one
 * program on the interface, pinned nowhere, and say nothing. */
void sp_xdp_begin(void);
void sp_xdp_end(struct sp_xdp_sockets *made);
/* When the device is gone: those that are still open. */
void sp_xdp_close(const struct sp_xdp_sockets *made);
/* The largest MTU whose frames fit: the kernel takes buffers of at most a page. */
uint32_t sp_xdp_largest_mtu(void);
/* Does the port take all that the interface receives, so that the kernel sees nothing of it? */
bool sp_xdp_takes_all(const struct sp_vdev_spec *spec);

#endif
