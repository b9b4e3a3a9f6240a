/* SPDX-License-Identifier: BSD-3-Clause */
/* What libibverbs says of the NIC, and the tree of `spindle verbs` as well: GIDs and GUID, made of its addresses. */
#ifndef HOST_API_VERBS_IDENTITY_H
#define HOST_API_VERBS_IDENTITY_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "../spindle.h"

#define SHIM_GIDS 2 /* 0: the first IPv6 address; 1: the first IPv4 address, mapped. One stands in for the other. */

struct shim_identity {
	uint8_t gid[SHIM_GIDS][16]; /* zeros: the NIC has no address */
	bool four[SHIM_GIDS];	    /* it is an IPv4 address */
	uint8_t guid[8];	    /* as on the wire */
};

/* Programs are often told to use index 1, as most RoCE devices have an IPv4 address there: so it is always in use. */
static inline void shim_identify(struct sp_dev *dev, struct shim_identity *id)
{
	uint8_t four[16], six[16];
	const bool has4 = !sp_dev_address(dev, AF_INET, four), has6 = !sp_dev_address(dev, AF_INET6, six);
	uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */

	memset(id, 0, sizeof(*id));
	for (unsigned i = 0; i < SHIM_GIDS; i++) {
		id->four[i] = has4 && (i == 1 || !has6);
		if (has4 || has6)
			memcpy(id->gid[i], id->four[i] ? four : six, 16);
		for (unsigned k = 0; k < 16; k++)
			hash = (hash ^ id->gid[i][k]) * 0x100000001B3u;
	}
	hash = (hash & ~(3ull << 56)) | 2ull << 56; /* locally administered */
	for (unsigned i = 0; i < 8; i++)
		id->guid[i] = (uint8_t)(hash >> (56 - 8 * i));
}

#endif
