/* SPDX-License-Identifier: BSD-3-Clause */
/* What one worker, several workers and a companion compute alike: packets, chunks and length of a message. */
#ifndef HANDLERS_SDR_CHUNKS_H
#define HANDLERS_SDR_CHUNKS_H

#include "state.h"

static inline uint64_t sdr_chunk_of(const struct sdr *s, uint64_t packet)
{
	return s->chunk_shift >= 0 ? packet >> s->chunk_shift : packet / s->per_chunk;
}

/* Returns the packet after the last one of the chunk. Divides for the last chunk of the message only. */
static inline uint64_t sdr_chunk_end(const struct sdr *s, uint64_t chunk, uint64_t length)
{
	return (chunk + 1) * s->chunk_bytes <= length ? (chunk + 1) * s->per_chunk : sp_sdr_units(length, s->mtu);
}

/* A mask of `count` bits from `bit` on; 1 <= count <= 64 - bit. */
static inline uint64_t sdr_mask(uint64_t bit, uint64_t count)
{
	return ~0ull >> (64 - count) << bit;
}

static inline bool sdr_full(const uint64_t *words, uint64_t first, uint64_t end)
{
	while (first < end) {
		const uint64_t stop = (first | 63) + 1 < end ? (first | 63) + 1 : end;
		const uint64_t mask = sdr_mask(first & 63, stop - first);

		if ((__atomic_load_n(&words[first / 64], __ATOMIC_SEQ_CST) & mask) != mask)
			return false;
		first = stop;
	}
	return true;
}

static inline bool sdr_bit(const uint64_t *words, uint64_t bit)
{
	return __atomic_load_n(&words[bit / 64], __ATOMIC_SEQ_CST) >> (bit & 63) & 1;
}

/* Adds the fragment of the user's immediate that the packet carries. The first value of a fragment stays. */
static inline uint64_t sdr_immediate(const struct sdr *s, uint64_t immediate, uint32_t index, uint32_t imm)
{
	const unsigned shift = sp_sdr_fragment_shift(s->split, index);

	if (immediate >> (32 + shift) & 1)
		return immediate;
	return immediate | (uint64_t)(imm & sp_sdr_ones(s->split.user)) << shift |
	       (uint64_t)sp_sdr_ones(s->split.user) << (32 + shift);
}

/* May a packet be accepted, by what is known of the message's length? `end` is where the packet ends; `fixes`: it says
 * that the message ends there too. Returns the new extent, or UINT64_MAX if the packet contradicts. */
static inline uint64_t sdr_extend(uint64_t extent, uint64_t posted, uint64_t end, bool fixes)
{
	if (extent & SDR_FIXED)
		return (fixes ? end == (extent & ~SDR_FIXED) : end <= (extent & ~SDR_FIXED)) ? extent : UINT64_MAX;
	if (end > posted || (fixes && extent > end))
		return UINT64_MAX;
	if (fixes)
		return SDR_FIXED | end;
	return end > extent ? end : extent;
}

static inline uint64_t sdr_bitmap(const struct sdr *s, const struct sdr_slot *slot, uint64_t word)
{
	return s->layout.bitmap + slot->index * s->layout.bitmap_stride + word * 8;
}

/* Returns the chunks that are full and have one of the packets `news`, as bits of their word of the chunk bitmap
 * (`word` >> shift). It computes all at once: shifting and AND-ing the bits of packets leaves a bit at the beginning of
 * each full chunk. A chunk without a new packet does not count, as the packets of a reserved chunk are marked, too. For
 * chunks within words (chunk_shift 0 to 6). */
static inline uint64_t sdr_chunks_full(const struct sdr *s, uint64_t word, uint64_t bits, uint64_t news, uint64_t units)
{
	const unsigned shift = (unsigned)s->chunk_shift;
	uint64_t full = bits, touched = news, found = 0;

	if (shift == 0)
		return news;
	/* The last chunk may be short: packets beyond the message's end count as present. */
	if ((word + 1) * 64 > units)
		full |= units & 63 ? ~0ull << (units & 63) : 0;
	for (unsigned i = 0; i < shift; i++) {
		full &= full >> (1u << i);
		touched |= touched >> (1u << i);
	}
	/* One bit per 2^shift packets: the multiples. */
	for (full &= touched & s->chunk_firsts; full; full &= full - 1)
		found |= 1ull << ((unsigned)__builtin_ctzll(full) >> shift);
	return found << ((word << (6 - shift)) & 63);
}

/* The word of the chunk bitmap in which a message of this length ends. */
static inline uint64_t sdr_last_word(const struct sdr *s, uint64_t length)
{
	return (sp_sdr_units(length, s->chunk_bytes) - 1) / 64;
}

/* Prefetches the lines that several workers write for each run of packets: they may have to come from another core. */
static inline void sdr_prefetch(const struct sdr *s, const struct sdr_slot *slot, uint32_t index)
{
	const uint64_t word = sdr_chunk_of(s, index) / 64;

	__builtin_prefetch(&slot->chunk[word], 1);
	__builtin_prefetch(s->area->base + sdr_bitmap(s, slot, word), 1);
}

static inline void sdr_count_complete(struct sp_ctx *c, const struct sdr *s)
{
	uint64_t before;

	c->counters[SDR_MESSAGES]++;
	sp_dma_add64(c, s->area, SDR_CONNECTION(s, completed), 1,
		     &before); /* after `state`: a host that sees this count sees that state */
}

#endif
