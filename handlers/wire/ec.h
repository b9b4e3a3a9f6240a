/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure coding beside SDR (wire/sdr.h): what two NICs, and a NIC and its host program, have to agree upon.
 *
 * Messages come in pairs: 2j is data, 2j + 1 its parity; so there is an even number of slots, and a pair has the same
 * generation. The data's chunks are cut into submessages of k, the last of which may have fewer, k'. Submessage i has
 * m' = ceil(k' m / k) chunks of parity, m but for the last, and they are the chunks i * m, ... i * m + m' - 1 of the
 * parity message, each of full size: what a data chunk lacks of that counts as zeros. handlers/ec/matrix.h says what
 * parity is made of. A message of no bytes has a parity message of none.
 *
 * Both ends need the same k, m and code. That is settled when the connection is made, as SDR's own parameters are, and
 * with them a short list of weaker and shorter codes (sp_ec_codes), any of which the parity of a message may be of: k
 * and m above are that one's. The parity message's user immediate tells the receiver which: it is made of the
 * connection's code and the length of the data, and the place in the list is added to each four bits of it, so that the
 * first packet tells (with 4 user bits) and each later one confirms. Nothing is repaired where it contradicts. The
 * immediate also vouches for the length as posted when the packet that would tell the length was lost: then all of its
 * 32 bits must have come (8 packets of parity with 4 user bits each).
 */
#ifndef SPINDLE_WIRE_EC_H
#define SPINDLE_WIRE_EC_H

#include <stdint.h>

#include "host.h"

enum sp_ec_code_kind { SP_EC_CODE_MDS, SP_EC_CODE_XOR };

#define SP_EC_CHUNKS_MAX 255u /* k + m; XOR: m <= k as well */

static inline uint64_t sp_ec_units(uint64_t bytes, uint64_t unit)
{
	return bytes / unit + (bytes % unit != 0);
}

/* Chunks of parity for so many chunks of data. */
static inline uint64_t sp_ec_parity_chunks(uint32_t k, uint32_t m, uint64_t chunks)
{
	return chunks / k * m + sp_ec_units(chunks % k * m, k);
}

/* Bytes of the parity message for so many bytes of data: also what the sender's and the receiver's scratch take. */
static inline uint64_t sp_ec_parity_bytes(uint32_t k, uint32_t m, uint64_t bytes, uint32_t chunk_bytes)
{
	return sp_ec_parity_chunks(k, m, sp_ec_units(bytes, chunk_bytes)) * chunk_bytes;
}

#define SP_EC_CODES_MAX 15u

struct sp_ec_shape {
	uint8_t k, m;
};

/*
 * The codes of a connection of (k,m), which is the first, in an order that both ends know; how many. Halves of m, then
 * the same of half of k, a quarter and an eighth, as long as there is no more parity for the same data:
 * sp_ec_parity_bytes() of (k,m) is room for each. XOR has no others, nor is there one where packets have no user bits
 * to tell of it.
 */
static inline unsigned sp_ec_codes(enum sp_ec_code_kind code, uint32_t k, uint32_t m, unsigned user_bits,
				   struct sp_ec_shape shape[SP_EC_CODES_MAX])
{
	unsigned count = 0;

	shape[count++] = (struct sp_ec_shape){(uint8_t)k, (uint8_t)m};
	if (code != SP_EC_CODE_MDS || !user_bits)
		return count;
	for (unsigned half = 0; half < 4 && k >> half; half++)
		for (uint32_t rows = half ? m >> half : m / 2; rows && count < SP_EC_CODES_MAX; rows /= 2)
			if (rows * k <= m * (k >> half))
				shape[count++] = (struct sp_ec_shape){(uint8_t)(k >> half), (uint8_t)rows};
	return count;
}

/* The parity message's user immediate, with the connection's code. */
static inline uint32_t sp_ec_immediate(enum sp_ec_code_kind code, uint32_t k, uint32_t m, uint64_t bytes)
{
	const uint64_t parameters = 1 + ((uint64_t)code << 16 | (uint64_t)k << 8 | m);

	return (uint32_t)((parameters * 0x9E3779B97F4A7C15ull) >> 32) ^ (uint32_t)bytes ^ (uint32_t)(bytes >> 32);
}

/* What code `which` of the list changes of it. */
static inline uint32_t sp_ec_immediate_of(uint32_t immediate, unsigned which)
{
	return immediate ^ which * 0x11111111u;
}

/* Bit i: parity of code i has an immediate like this one, of which the bits in `mask` are known. */
static inline uint32_t sp_ec_possible(uint32_t immediate, uint32_t come, uint32_t mask, unsigned codes)
{
	uint32_t possible = 0;

	for (unsigned which = 0; which < codes; which++)
		possible |= (uint32_t) !((sp_ec_immediate_of(immediate, which) ^ come) & mask) << which;
	return possible;
}

/* Commands, besides those of SDR. */
enum sp_ec_command {
	/* Sends message `cookie`, odd and the next, as the parity of the message before it: arg[0..2] memory, offset,
	 * length of that message's data, which must stay as they are until this one is sent; arg[3..4] memory and
	 * offset of scratch for sp_ec_parity_bytes(); arg[5] which of sp_ec_codes(). The NIC encodes, and sends
	 * submessage by submessage as they get ready. To the host it is one segment, sent like that of a one-shot
	 * message. -EINVAL: the message before is no data, there is no such code, or the parity is longer than a
	 * message may be. Others: as SP_SDR_CMD_SEND. */
	SP_EC_CMD_PARITY = SP_CMD_OWN + 0x100,
	/* SP_CMD_QUERY: arg[0] one of enum sp_ec_total; result arg[0] = how many since the context was made. */
};

enum sp_ec_total {
	SP_EC_REPAIRED_CHUNKS,
	SP_EC_DECODED,	     /* submessages */
	SP_EC_FAILED,	     /* submessages of messages that have ended with some of their data missing */
	SP_EC_DECODED_BYTES, /* of chunks repaired */
	SP_EC_DECODE_SLICES,
	SP_EC_MISMATCHES, /* messages whose parity is of another code or length */
	SP_EC_ENCODED,	  /* submessages */
	SP_EC_ENCODED_BYTES,
	SP_EC_ENCODE_SLICES,
	SP_EC_TOTALS
};

#endif
