/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, what a companion may call: see spindle-export.h. */
#include "export.h"
#include "chunks.h"
#include "place_workers.h"
#include "send.h"

static struct sdr_slot *sdr_export_slot(struct sp_ctx *c, uint64_t key)
{
	struct sdr *s = c->state;
	struct sdr_slot *slot = (uint32_t)key < s->slots ? &s->slot[(uint32_t)key] : NULL;

	return slot && __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == SDR_OPEN && sdr_key(slot) == key ? slot
													   : NULL;
}

static void sdr_export_limits(struct sp_ctx *c, struct sp_message_limits *limits)
{
	const struct sdr *s = c->state;

	*limits = (struct sp_message_limits){.messages = s->slots,
					     .chunk_bytes = s->chunk_bytes,
					     .bytes = s->max_bytes,
					     .user_bits = s->split.user,
					     .rolls = s->queued && s->generations == 1};
}

static int sdr_export_extent(struct sp_ctx *c, uint64_t key, struct sp_extent *e)
{
	const struct sdr_slot *slot = sdr_export_slot(c, key);
	uint64_t extent, immediate;

	if (!slot)
		return -ENOENT;
	extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST);
	immediate = __atomic_load_n(&slot->immediate, __ATOMIC_RELAXED);
	*e = (struct sp_extent){.message = slot->message,
				.mem = slot->mem,
				.offset = slot->offset,
				.bytes = extent & SDR_FIXED ? extent & ~SDR_FIXED : slot->posted,
				.fixed = extent & SDR_FIXED,
				.complete = __atomic_load_n(&slot->complete, __ATOMIC_SEQ_CST),
				.immediate = (uint32_t)immediate,
				.mask = (uint32_t)(immediate >> 32)};
	return 0;
}

static uint64_t sdr_export_chunk(struct sp_ctx *c, const struct sp_packet *p)
{
	const struct sdr *s = c->state;

	return sdr_chunk_of(s, sdr_packet_offset(s, p));
}

/* Returns 64 bits from `chunk` on. Bits beyond the longest message are 0. */
static uint64_t sdr_window(const struct sdr *s, const uint64_t *words, uint64_t chunk)
{
	const uint64_t word = chunk / 64, shift = chunk & 63, count = (s->max_chunks + 63) / 64;
	uint64_t bits;

	if (word >= count)
		return 0;
	bits = __atomic_load_n(&words[word], __ATOMIC_SEQ_CST) >> shift;
	if (shift && word + 1 < count)
		bits |= __atomic_load_n(&words[word + 1], __ATOMIC_SEQ_CST) << (64 - shift);
	return bits;
}

static uint64_t sdr_export_present(struct sp_ctx *c, uint64_t key, uint64_t chunk)
{
	const struct sdr_slot *slot = sdr_export_slot(c, key);

	return slot ? sdr_window(c->state, slot->chunk, chunk) : 0;
}

static uint64_t sdr_export_reserved(struct sp_ctx *c, uint64_t key, uint64_t chunk)
{
	const struct sdr_slot *slot = sdr_export_slot(c, key);

	return slot ? sdr_window(c->state, slot->reserved, chunk) : 0;
}

/* Returns the chunks of these packets of a word. Bit i is chunk `from` + i. */
static uint64_t sdr_chunks_of(const struct sdr *s, uint64_t word, uint64_t packets, uint64_t from)
{
	uint64_t chunks = 0;

	while (packets) {
		const uint64_t chunk = sdr_chunk_of(s, word * 64 + (unsigned)__builtin_ctzll(packets));
		const uint64_t end = (chunk + 1) * s->per_chunk - word * 64;

		chunks |= 1ull << (chunk - from);
		packets &= end < 64 ? ~0ull << end : 0;
	}
	return chunks;
}

/* Takes those of the packets [at, end) that have not arrived, and reserves their chunks. If all packets of a chunk have
 * arrived already, the worker that placed the last one publishes it. Otherwise nobody can find the chunk full before
 * the taken packets are set in `done`, and the worker that finds it full after that sees `reserved`. When all bits of a
 * chunk are set in `done`, nobody writes to it any more. */
static void sdr_reserve_packets(const struct sdr *s, struct sdr_slot *slot, uint64_t at, uint64_t end, uint64_t from)
{
	for (uint64_t stop; at < end; at = stop) {
		stop = (at | 63) + 1 < end ? (at | 63) + 1 : end;

		const uint64_t mask = sdr_mask(at & 63, stop - at), word = at / 64, shift = from & 63;

		sdr_touch(s, slot, word);

		const uint64_t mine = mask & ~__atomic_fetch_or(&slot->taken[word], mask, __ATOMIC_SEQ_CST);
		const uint64_t chunks = sdr_chunks_of(s, word, mine, from) & ~sdr_window(s, slot->reserved, from);

		if (chunks << shift)
			__atomic_fetch_or(&slot->reserved[from / 64], chunks << shift, __ATOMIC_SEQ_CST);
		if (shift && chunks >> (64 - shift))
			__atomic_fetch_or(&slot->reserved[from / 64 + 1], chunks >> (64 - shift), __ATOMIC_SEQ_CST);
		if (mine && slot->done != slot->chunk)
			__atomic_fetch_or(&slot->done[word], mine, __ATOMIC_SEQ_CST);
	}
}

/* Returns those of the chunks `from` + i of which all packets are done. */
static uint64_t sdr_done(const struct sdr *s, const struct sdr_slot *slot, uint64_t from, uint64_t chunks,
			 uint64_t length)
{
	uint64_t done = 0;

	if (slot->done == slot->chunk) /* chunks of one packet: a reserved chunk is a taken packet */
		return chunks;
	for (uint64_t left = chunks; left; left &= left - 1) {
		const uint64_t chunk = from + (unsigned)__builtin_ctzll(left);

		if (sdr_full(slot->done, chunk * s->per_chunk, sdr_chunk_end(s, chunk, length)))
			done |= left & -left;
	}
	return done;
}

/* The same for a single worker, without locked operations: these wait for all stores before them. */
static bool sdr_extend_alone(struct sdr_slot *slot, uint64_t end, bool *fixed)
{
	const uint64_t next = sdr_extend(slot->extent, slot->posted, end, true);

	if (next == UINT64_MAX)
		return false;
	*fixed = next != slot->extent;
	slot->extent = next;
	return true;
}

static void sdr_reserve_alone(const struct sdr *s, struct sdr_slot *slot, uint64_t at, uint64_t end, uint64_t from)
{
	for (uint64_t stop; at < end; at = stop) {
		stop = (at | 63) + 1 < end ? (at | 63) + 1 : end;

		const uint64_t mask = sdr_mask(at & 63, stop - at), word = at / 64, shift = from & 63;
		const uint64_t chunks = sdr_chunks_of(s, word, mask & ~slot->taken[word], from);

		slot->touched |= sdr_part(s, word);
		slot->taken[word] |= mask; /* this is `done` too: with one worker they are the same */
		if (chunks << shift)
			slot->reserved[from / 64] |= chunks << shift;
		if (shift && chunks >> (64 - shift))
			slot->reserved[from / 64 + 1] |= chunks >> (64 - shift);
	}
}

/* For chunks of one packet: packet bits are chunk bits, so all are reserved at once. */
static void sdr_reserve_bits(const struct sdr *s, struct sdr_slot *slot, uint64_t from, uint64_t chunks)
{
	const uint64_t word = from / 64, shift = from & 63, low = chunks << shift;
	const uint64_t high = shift ? chunks >> (64 - shift) : 0;

	slot->touched |= sdr_part(s, word) | (high ? sdr_part(s, word + 1) : 0);
	slot->reserved[word] |= low & ~slot->taken[word];
	slot->taken[word] |= low;
	if (!high)
		return;
	slot->reserved[word + 1] |= high & ~slot->taken[word + 1];
	slot->taken[word + 1] |= high;
}

static void sdr_publish_chunks_alone(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word,
				     uint64_t chunks)
{
	const unsigned count = (unsigned)__builtin_popcountll(chunks & ~slot->chunk[word]);

	if (!count)
		return;
	slot->chunk[word] |= chunks;
	slot->chunks += count;
	c->counters[SDR_CHUNKS] += count;
	sdr_publish(c, s, sdr_bitmap(s, slot, word), slot->chunk[word]);
	if (slot->complete || slot->chunks * s->chunk_bytes < sdr_length(slot))
		return;
	slot->complete = 1;
	sdr_publish(c, s, SDR_LINE(s, recv, slot->index, state), SP_SDR_OPEN | SP_SDR_COMPLETE);
	sdr_count_complete(c, s);
}

/* True: a message of this length has the chunk. */
static bool sdr_has(const struct sdr *s, uint64_t length, uint64_t chunk)
{
	return !chunk || (chunk < s->max_chunks && chunk * s->chunk_bytes < length);
}

static int sdr_export_reserve(struct sp_ctx *c, uint64_t key, uint64_t from, uint64_t *chunks)
{
	const struct sdr *s = c->state;
	struct sdr_slot *slot = sdr_export_slot(c, key);
	uint64_t wanted = *chunks, left;
	bool fixed = false;
	int rc = 0;

	*chunks = 0;
	if (!slot)
		return -ENOENT;

	const uint64_t length = sdr_length(slot);

	if (!sdr_has(s, length, from) || (wanted && !sdr_has(s, length, from + 63 - (unsigned)__builtin_clzll(wanted))))
		return -ERANGE;
	wanted &= ~sdr_window(s, slot->chunk, from);
	left = wanted & ~sdr_window(s, slot->reserved, from);
	/* Fixes the length: with another one, another chunk would be the last. */
	if (left && c->workers > 1)
		rc = sdr_fix_length(slot, length, &fixed);
	else if (left && !sdr_extend_alone(slot, length, &fixed))
		rc = -ERANGE;
	if (rc)
		return rc;
	if (fixed)
		sdr_publish(c, s, SDR_LINE(s, recv, slot->index, length), SDR_FIXED | length);
	if (left && c->workers == 1 && s->per_chunk == 1) {
		sdr_reserve_bits(s, slot, from, left);
		left = 0;
	}
	while (left) { /* chunks in a row at once */
		const unsigned i = (unsigned)__builtin_ctzll(left);
		const uint64_t beyond = ~(left >> i);
		const unsigned count = beyond ? (unsigned)__builtin_ctzll(beyond) : 64;

		(c->workers > 1 ? sdr_reserve_packets : sdr_reserve_alone)(
			s, slot, (from + i) * s->per_chunk, sdr_chunk_end(s, from + i + count - 1, length), from);
		left &= ~sdr_mask(i, count);
	}
	*chunks = sdr_done(s, slot, from, wanted & sdr_window(s, slot->reserved, from), length);
	return *chunks == wanted ? 0 : -EAGAIN;
}

/* Counts repaired chunks, and runs of them, for the application. Before their bits are published. */
static void sdr_count_repaired(struct sp_ctx *c, const struct sdr *s, uint64_t chunks, uint64_t runs)
{
	const uint64_t more = (unsigned)__builtin_popcountll(chunks) | (uint64_t)__builtin_popcountll(runs)
									       << SP_SDR_RUNS_SHIFT;
	uint64_t before = 0;

	if (c->workers > 1) {
		sp_dma_add64(c, s->area, SDR_CONNECTION(s, repaired), more, &before);
		return;
	}
	sp_dma_read(c, s->area, SDR_CONNECTION(s, repaired), &before, sizeof(before));
	sdr_publish(c, s, SDR_CONNECTION(s, repaired), before + more);
}

static int sdr_export_supply(struct sp_ctx *c, uint64_t key, uint64_t from, uint64_t chunks)
{
	const struct sdr *s = c->state;
	struct sdr_slot *slot = sdr_export_slot(c, key);
	void (*const publish)(struct sp_ctx *, const struct sdr *, struct sdr_slot *, uint64_t, uint64_t) =
		c->workers > 1 ? sdr_publish_chunks : sdr_publish_chunks_alone;
	uint64_t reserved, runs;

	if (!slot)
		return -ENOENT;
	reserved = sdr_window(s, slot->reserved, from);
	if (!chunks || chunks & ~reserved)
		return -EINVAL;
	runs = chunks & ~(reserved << 1 | (from && sdr_bit(slot->reserved, from - 1)));
	sdr_count_repaired(c, s, chunks, runs);
	if (chunks << (from & 63))
		publish(c, s, slot, from / 64, chunks << (from & 63));
	if (from & 63 && chunks >> (64 - (from & 63)))
		publish(c, s, slot, from / 64 + 1, chunks >> (64 - (from & 63)));
	return 0;
}

const struct sp_export sdr_exports = {
	.limits = sdr_export_limits,
	.extent = sdr_export_extent,
	.chunk = sdr_export_chunk,
	.present = sdr_export_present,
	.reserved = sdr_export_reserved,
	.reserve = sdr_export_reserve,
	.supply = sdr_export_supply,
	.send = sdr_export_send,
	.ready = sdr_export_ready,
};
