/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, packets into a message by several workers: as sdr_place.c, with one locked operation for a run's packets. */
#include "sdr_copy.h"
#include "sdr_place.h"

/*
 * Two orders carry the argument, both by sequentially consistent accesses:
 *  - a worker sets its packet's bit in `done`, then looks at the chunk's other bits and at the extent; one that fixes
 * the length sets the extent, then looks at the last chunk's bits. Whichever comes second sees the first: the chunk is
 *    found full by somebody, and the bit in `chunk` decides by whom it is published.
 *  - the same between `chunks` (added to after publication) and the extent, for who finds the message complete.
 * Bytes are visible with their chunk's bit: every copy comes before its bit in `done`, whoever publishes has read those
 * bits, and publication is a release.
 */
static void sdr_check_complete(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot)
{
	const uint64_t chunks = __atomic_load_n(&slot->chunks, __ATOMIC_SEQ_CST);

	if (!chunks || chunks * s->chunk_bytes < sdr_length(slot))
		return;
	if (__atomic_exchange_n(&slot->complete, 1, __ATOMIC_SEQ_CST))
		return;
	sp_dma_or64(c, s->area, SDR_LINE(s, recv, slot->index, state), SP_SDR_COMPLETE);
	sdr_count_complete(c, s);
}

void sdr_publish(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word, uint64_t chunks)
{
	const uint64_t news = chunks & ~__atomic_fetch_or(&slot->chunk[word], chunks, __ATOMIC_SEQ_CST);
	const unsigned count = (unsigned)__builtin_popcountll(news);

	if (!news)
		return;
	sp_dma_or64(c, s->area, sdr_bitmap(s, slot, word), news);
	__atomic_fetch_add(&slot->chunks, count, __ATOMIC_SEQ_CST);
	c->counters[SDR_CHUNKS] += count;
	sdr_check_complete(c, s, slot);
}

static void sdr_check_chunk(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t chunk)
{
	if (sdr_full(slot->done, chunk * s->per_chunk, sdr_chunk_end(s, chunk, sdr_length(slot))) &&
	    !sdr_bit(slot->reserved, chunk))
		sdr_publish(c, s, slot, chunk / 64, 1ull << (chunk & 63));
}

bool sdr_extend_shared(struct sdr_slot *slot, uint64_t end, bool fixes, bool *fixed)
{
	uint64_t extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST), next;

	do {
		next = sdr_extend(extent, slot->posted, end, fixes);
		if (next == UINT64_MAX)
			return false;
		if (next == extent)
			return true;
	} while (!__atomic_compare_exchange_n(&slot->extent, &extent, next, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	*fixed = fixes;
	return true;
}

/* What a run of packets has come to. */
struct sdr_sum {
	uint64_t placed, bytes, duplicates;
	uint32_t verdicts;
};

/* Fragments that a run has brought: those that nobody else has brought meanwhile count. */
static void sdr_immediates_shared(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t brought)
{
	uint64_t old = __atomic_load_n(&slot->immediate, __ATOMIC_RELAXED), next;

	do {
		const uint64_t fresh = brought >> 32 & ~(old >> 32);

		next = old | fresh << 32 | (brought & fresh);
		if (next == old)
			return;
	} while (!__atomic_compare_exchange_n(&slot->immediate, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	sp_dma_or64(c, s->area, SDR_LINE(s, recv, slot->index, immediate), next & ~old);
}

/* Of packets whose bits have just been set in a word of `done`, which is now `done`. */
static void sdr_check_chunks(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word, uint64_t done,
			     uint64_t news)
{
	const unsigned shift = (unsigned)s->chunk_shift;

	if (shift <= 6) {
		const uint64_t units = sp_sdr_units(sdr_length(slot), s->mtu); /* after the bits: see above */
		const uint64_t full = sdr_chunks_full(s, word, done, news, units);

		if (full)
			sdr_publish(c, s, slot, word >> shift,
				    full & ~__atomic_load_n(&slot->reserved[word >> shift], __ATOMIC_SEQ_CST));
		return;
	}
	while (news) {
		const uint64_t chunk = sdr_chunk_of(s, word * 64 + (unsigned)__builtin_ctzll(news));
		const uint64_t after = (chunk + 1) * s->per_chunk - word * 64;

		sdr_check_chunk(c, s, slot, chunk);
		news &= after < 64 ? ~0ull << after : 0;
	}
}

/* Packets in a row that are as most are: full, of one word of the bitmap, and none says where the message ends. Each
 * word that workers share is touched once for all of them. Returns how many; 0: the first is none such. */
static unsigned sdr_place_plain(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot,
				struct sp_packet *const *packet, unsigned n, bool streams, struct sdr_sum *sum)
{
	const uint64_t word = sdr_packet_offset(s, packet[0]) / 64;
	uint64_t bits = 0, top = 0, news, brought;
	bool fixed = false;
	unsigned run;

	for (run = 0; run < n; run++) {
		const struct sp_packet *p = packet[run];
		const uint64_t index = sdr_packet_offset(s, p), bit = 1ull << (index & 63);

		if (p->len != s->mtu + SP_SDR_HEADER || p->flags & SP_PKT_SE || index / 64 != word || bits & bit)
			break;
		bits |= bit;
		top = index > top ? index : top;
	}
	if (!run || !sdr_extend_shared(slot, (top + 1) * s->mtu, false, &fixed))
		return 0;
	news = bits & ~__atomic_fetch_or(&slot->claim[word], bits, __ATOMIC_RELAXED);
	brought = __atomic_load_n(&slot->immediate, __ATOMIC_RELAXED);
	sum->duplicates += (unsigned)__builtin_popcountll(bits & ~news);
	for (unsigned i = 0; i < run; i++) {
		struct sp_packet *p = packet[i];
		const uint32_t imm = sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt));
		const uint32_t index = imm >> s->split.user & s->offset_mask;
		const uint64_t bit = 1ull << (index & 63);

		if (!(news & bit))
			continue;
		if (sdr_write(c, slot, (uint64_t)index * s->mtu, p->data + SP_SDR_HEADER, s->mtu, streams)) {
			news &= ~bit;
			p->verdict = SP_ERROR;
			sum->verdicts |= p->verdict;
		} else if (s->split.user && brought >> 32 != UINT32_MAX) {
			brought = sdr_immediate(s, brought, index, imm);
		}
	}
	if (!news)
		return run;
	sum->placed += (unsigned)__builtin_popcountll(news);
	sum->bytes += (uint64_t)(unsigned)__builtin_popcountll(news) * s->mtu;
	if (s->split.user)
		sdr_immediates_shared(c, s, slot, brought);
	sdr_copied(streams);
	sdr_check_chunks(c, s, slot, word, news | __atomic_fetch_or(&slot->done[word], news, __ATOMIC_SEQ_CST), news);
	return run;
}

/* One packet, whatever it is. */
static void sdr_place_one(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sp_packet *p,
			  bool streams, struct sdr_sum *sum)
{
	const uint32_t imm = sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt));
	const uint32_t index = imm >> s->split.user & s->offset_mask, len = p->len - SP_SDR_HEADER;
	const uint64_t at = (uint64_t)index * s->mtu, end = at + len, bit = 1ull << (index & 63);
	bool fixed = false;

	if ((!len && index) || !sdr_extend_shared(slot, end, len != s->mtu || p->flags & SP_PKT_SE, &fixed)) {
		p->verdict = SP_DROP(SDR_BEYOND_END);
		sum->verdicts |= p->verdict;
		return;
	}
	if (fixed)
		sdr_tell(c, s, SDR_LINE(s, recv, slot->index, length), SDR_FIXED | end);
	if (__atomic_fetch_or(&slot->claim[index / 64], bit, __ATOMIC_RELAXED) & bit) {
		sum->duplicates++;
	} else if (sdr_write(c, slot, at, p->data + SP_SDR_HEADER, len, streams)) {
		p->verdict = SP_ERROR;
		sum->verdicts |= p->verdict;
		return;
	} else {
		sum->placed++;
		sum->bytes += len;
		if (s->split.user)
			sdr_immediates_shared(c, s, slot, sdr_immediate(s, 0, index, imm));
		sdr_copied(streams);
		__atomic_fetch_or(&slot->done[index / 64], bit, __ATOMIC_SEQ_CST);
		sdr_check_chunk(c, s, slot, sdr_chunk_of(s, index));
	}
	if (fixed) { /* the packets may all have been there before */
		sdr_check_chunk(c, s, slot, sdr_chunk_of(s, index));
		sdr_check_complete(c, s, slot);
	}
}

void sdr_place_shared(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sp_packet *const *packet,
		      unsigned n, uint32_t *verdicts)
{
	const bool streams = !c->watch && sdr_streams(s, slot->mem, slot->mem->base + slot->offset);
	struct sdr_sum sum = {0};
	uint64_t ignored;

	for (unsigned i = 0; i < n;) {
		const unsigned plain = sdr_place_plain(c, s, slot, packet + i, n - i, streams, &sum);

		if (!plain)
			sdr_place_one(c, s, slot, packet[i], streams, &sum);
		i += plain ? plain : 1;
	}
	if (sum.placed) {
		__atomic_fetch_add(&slot->packets, sum.placed, __ATOMIC_RELAXED);
		sp_dma_add64(c, s->area, SDR_LINE(s, recv, slot->index, packets), sum.placed, &ignored);
	}
	if (sum.duplicates)
		__atomic_fetch_add(&slot->duplicates, sum.duplicates, __ATOMIC_RELAXED);
	c->counters[SDR_PACKETS] += sum.placed;
	c->counters[SDR_BYTES] += sum.bytes;
	c->counters[SDR_DUPLICATES] += sum.duplicates;
	*verdicts |= sum.verdicts;
}
