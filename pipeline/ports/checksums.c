/* SPDX-License-Identifier: BSD-3-Clause */
#include "checksums.h"
#include "kernel.h"

#include <stdio.h>
#include <string.h>

/* A kernel that trusts the device's word would take such packets; no port passes that word on. */
static enum sp_checksums virtio(const char *interface, char *why, char *todo)
{
	char driver[SP_KERNEL_DRIVER];

	if (!sp_kernel_driver(interface, driver) || strcmp(driver, "virtio_net") ||
	    !sp_kernel_trusts_checksums(interface))
		return SP_CHECKSUMS_MADE;
	snprintf(why, SP_CHECKSUMS_TEXT,
		 "other virtual machines of this host may send UDP and TCP to %s without checksums", interface);
	snprintf(todo, SP_CHECKSUMS_TEXT, "there: sudo ethtool -K INTERFACE tx off");
	return SP_CHECKSUMS_VIRTIO;
}

enum sp_checksums sp_checksums(const char *interface, char why[SP_CHECKSUMS_TEXT], char todo[SP_CHECKSUMS_TEXT])
{
	char peer[IF_NAMESIZE];
	bool abroad;

	*why = *todo = 0;
	if (!sp_kernel_veth(interface, peer, &abroad))
		return virtio(interface, why, todo);
	if (!abroad && *peer && !sp_kernel_leaves_checksums(peer))
		return SP_CHECKSUMS_MADE;
	if (!abroad && *peer) {
		snprintf(why, SP_CHECKSUMS_TEXT, "UDP and TCP come without checksums from %s, the other end of %s",
			 peer, interface);
		snprintf(todo, SP_CHECKSUMS_TEXT, "sudo ethtool -K %s tx off", peer);
		return SP_CHECKSUMS_LEFT;
	}
	snprintf(why, SP_CHECKSUMS_TEXT,
		 "UDP and TCP may come without checksums from %s, the other end of %s, in another network namespace",
		 *peer ? peer : "a veth", interface);
	snprintf(todo, SP_CHECKSUMS_TEXT, "there: sudo ethtool -K %s tx off", *peer ? peer : "INTERFACE");
	return SP_CHECKSUMS_ABROAD;
}
