/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP and TCP checksums that a sender's kernel leaves to a device, where there is no device: on a veth, and between the
 * virtual machines of one host. No port's driver tells of it (DPDK 22.11), so the NIC sees wrong checksums. */
#ifndef PIPELINE_PORTS_CHECKSUMS_H
#define PIPELINE_PORTS_CHECKSUMS_H

#include <net/if.h>

enum sp_checksums {
	SP_CHECKSUMS_MADE,   /* nothing is known to the contrary */
	SP_CHECKSUMS_LEFT,   /* a veth, whose other end is in this network namespace and leaves them */
	SP_CHECKSUMS_ABROAD, /* a veth, whose other end is in another one: its settings cannot be asked for */
	SP_CHECKSUMS_VIRTIO, /* what this host's other virtual machines send may lack them */
};

#define SP_CHECKSUMS_TEXT 200

/* Of what comes by this interface. why: a sentence that names it; todo: what to do. Both are "" if they are made.
 * Control call. */
enum sp_checksums sp_checksums(const char *interface, char why[SP_CHECKSUMS_TEXT], char todo[SP_CHECKSUMS_TEXT]);

#endif
