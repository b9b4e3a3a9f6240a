/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure coding for SDR (wire/sdr.h): what two NICs, and a NIC and its host program, have to agree on.
 *
 * Messages come in pairs: 2j is data, 2j + 1 is its parity. So the number of slots is even, and a pair has one
 * generation. The chunks of the data are cut into submessages of k; the last one may have fewer, k'. Submessage i has
 * m' = ceil(k' m / k) chunks of parity (m but for the last), which are the chunks i * m, ... i * m + m' - 1 of the
 * parity message. Each has full size: a shorter data chunk counts as padded with zeros. handlers/ec/matrix.h says how
 * parity is computed. A message of no bytes has a parity message of no bytes.
 *
 * Both ends need the same k, m and code. They settle these when they connect, like SDR's own parameters. With them goes
 * a short list of weaker and shorter codes (sp_ec_codes), and the parity of a message may use any code of the list: k
 * and m above are those of that code. The parity message's user immediate says which: it is made of the connection's
 * code and the length of the data, and the place in the list is added to each four bits of it. So the first packet says
 * it (with 4 user bits), and each later one confirms it. Where the immediate contradicts, nothing is repaired. It also
 * confirms the length as posted when the packet that fixes the length was lost: for that all of its 32 bits must have
 * arrived (8 packets of parity with 4 user bits each).
 */
#ifndef SPINDLE_WIRE_EC_H
#define SPINDLE_WIRE_EC_H

#include <stdint.h>

#include "host.h"

enum sp_ec_code_kind { SP_EC_CODE_MDS, SP_EC_CODE_XOR };

#define SP_EC_CHUNKS_MAX 255u /* k + m; XOR: also m <= k */

/* a / b. Many processors take three times as long to divide 64 bits as 32. */
static inline uint64_t sp_quotient(uint64_t a, uint64_t b)
{
	return (a | b) >> 32 ? a / b : (uint32_t)a / (uint32_t)b;
}

static inline uint64_t sp_ec_units(uint64_t bytes, uint64_t unit)
{
	const uint64_t whole = sp_quotient(bytes, unit);

	return whole + (whole * unit != bytes);
}

/* Chunks of parity for so many chunks of data. */
static inline uint64_t sp_ec_parity_chunks(uint32_t k, uint32_t m, uint64_t chunks)
{
	const uint64_t whole = sp_quotient(chunks, k);

	return whole * m + sp_ec_units((chunks - whole * k) * m, k);
}

/* Bytes of the parity message for so many bytes of data. The scratch memory of sender and receiver has as many. */
static inline uint64_t sp_ec_parity_bytes(uint32_t k, uint32_t m, uint64_t bytes, uint32_t chunk_bytes)
{
	return sp_ec_parity_chunks(k, m, sp_ec_units(bytes, chunk_bytes)) * chunk_bytes;
}

#define SP_EC_CODES_MAX 15u

struct sp_ec_shape {
	uint8_t k, m;
};

/* Lists the codes of a connection of (k,m), in an order that both ends know. Returns how many. (k,m) is the first. Then
 * come halves of m, then the same with a half, a quarter and an eighth of k, as long as there is no more parity for the
 * same data: sp_ec_parity_bytes() of (k,m) is enough for each. XOR has no other codes; neither has a connection without
 * user bits, as its packets cannot say which. */
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

/* What code `which` of the list changes in it. */
static inline uint32_t sp_ec_immediate_of(uint32_t immediate, unsigned which)
{
	return immediate ^ which * 0x11111111u;
}

/* Bit i: parity of code i has such an immediate, as far as the bits in `mask` are known. */
static inline uint32_t sp_ec_possible(uint32_t immediate, uint32_t come, uint32_t mask, unsigned codes)
{
	uint32_t possible = 0;

	for (unsigned which = 0; which < codes; which++)
		possible |= (uint32_t) !((sp_ec_immediate_of(immediate, which) ^ come) & mask) << which;
	return possible;
}

/* Commands, in addition to those of SDR. */
enum sp_ec_command {
	/* Sends message `cookie`, which is odd and the next one, as the parity of the message before it. arg[0..2]:
	 * memory, offset, length of that message's data, which must not change until this one is sent; arg[3..4]:
	 * memory and offset of scratch for sp_ec_parity_bytes(); arg[5]: which of sp_ec_codes(). The NIC encodes, and
	 * sends each submessage as it becomes ready. To the host it is one segment, sent like that of a one-shot
	 * message. -EINVAL: the message before is no data, there is no such code, or the parity is longer than a
	 * message may be. Others: as SP_SDR_CMD_SEND. */
	SP_EC_CMD_PARITY = SP_CMD_OWN + 0x100,
	/* SP_CMD_QUERY: arg[0] one of enum sp_ec_total; result arg[0] = how many since the context was made. */
};

enum sp_ec_total {
	SP_EC_REPAIRED_CHUNKS,
	SP_EC_DECODED,	     /* submessages */
	SP_EC_FAILED,	     /* submessages of messages that ended while some of their data was missing */
	SP_EC_DECODED_BYTES, /* of chunks repaired */
	SP_EC_DECODE_SLICES,
	SP_EC_MISMATCHES, /* messages whose parity has another code or length */
	SP_EC_ENCODED,	  /* submessages */
	SP_EC_ENCODED_BYTES,
	SP_EC_ENCODE_SLICES,
	SP_EC_TOTALS
};

#endif
