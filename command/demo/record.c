/* SPDX-License-Identifier: BSD-3-Clause */
#include "record.h"
#include "../output.h"

#include <string.h>

int demo_fail(const char *what, int err)
{
	return command_fail("demo", "%s: %s", what, strerror(-err));
}

sp_time demo_payload_time(const struct demo *d, uint64_t packets, uint64_t payload)
{
	/* Ethernet, IP, UDP, BTH, RETH, immediate, ICRC */
	const uint64_t extra = 14 + (d->o.ipv6 ? 40 : 20) + 8 + 12 + 16 + 4 + 4 + SP_LINK_OVERHEAD;
	const uint64_t bits = 8 * (payload + packets * extra);

	return (sp_time)((double)bits / (double)d->o.link.direction->bandwidth * (double)SP_SEC);
}

sp_time demo_wire_time(const struct demo *d, uint64_t packets)
{
	return demo_payload_time(d, packets, packets * d->o.mtu);
}
