/* SPDX-License-Identifier: BSD-3-Clause */
/* Which bytes of a frame the program of a filter rule can read. The flow cache compares these bytes and no others. */
#ifndef PIPELINE_RX_RULE_READS_H
#define PIPELINE_RX_RULE_READS_H

#include <stdint.h>

#include "../../handlers/wire/roce.h"

#define SP_RULE_READS_BYTES 64 /* bytes further back are not tracked */

struct bpf_program;

/* A program branches on the Ethernet type, and uses the IPv4 header's length as an offset. So the bytes that it reads
 * depend on the frame's kind: 0 to 15 are IPv4 with that header length in words. */
enum { SP_FRAME_IP4, SP_FRAME_IP6 = 16, SP_FRAME_OTHER, SP_FRAME_KINDS };
#define SP_FRAME_KIND_END 15 /* bytes 12 to 14 decide the kind */

static inline unsigned sp_frame_kind(const uint8_t *frame)
{
	const uint16_t type = sp_load_be16(frame + 12);

	if (type == 0x0800)
		return SP_FRAME_IP4 + (frame[14] & 15);
	return type == 0x86DD ? SP_FRAME_IP6 : SP_FRAME_OTHER;
}

struct sp_rule_reads {
	uint64_t bytes[SP_FRAME_KINDS]; /* a bit for each byte */
	uint32_t known;			/* a bit for each kind whose `bytes` are complete */
};

void sp_rule_reads_find(const struct bpf_program *program, struct sp_rule_reads *reads);

#endif
