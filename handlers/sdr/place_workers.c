/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, packets into a message by several workers: as place.c, with one locked operation for the packets of a run. */
#include "place_workers.h"
#include "chunks.h"
#include "copy.h"

/*
 * Words that several workers write travel between their cores, and each transfer takes as long as placing several small
 * packets. So a run writes few such words: `taken` (which packets have a worker), `done` (which are in place; where a
 * chunk is one packet, `chunk` itself) and the word of the chunk bitmap that the host reads. sdr_prefetch() asks for
 * them early, so that they arrive while packets are copied. The other words that a run reads are hardly ever written:
 * the length, and which word the message waits for. Each worker counts for itself.
 *
 * Three orders carry the argument. All accesses in them are sequentially consistent: of two workers, the second one
 * sees what the first one wrote.
 *  - Chunks. A worker that placed a packet writes its bit in `done`, then reads the chunk's other bits and the length.
 *    A worker that fixes the length writes the length, then reads the bits of the last chunk. So at least one of them
 *    sees the full chunk. If two do, both publish it. After that both set its bit in `chunk`, and the first to set it
 *    counts the chunk.
 *  - Completion. A worker that published a chunk writes its bit in `chunk`, then reads `awaited`. A worker that finds
 *    the awaited word full writes another word's number to `awaited`, then reads that word again, and the length, which
 *    may have been fixed meanwhile. So either the awaited word is not full, or a worker is about to check it. When all
 *    words are full, a worker finds that, and `complete` decides which one publishes it.
 *  - Length. A worker that takes a packet writes its bit in `taken`, then reads the length, and clears the bit again if
 *    the packet is beyond. A worker that fixes the length writes it to `extent` as SDR_FIXING, then reads which packets
 *    beyond it are taken, and withdraws it if there are any. So two packets that contradict each other cannot both
 *    stay. Until that check is done, others go by the length as posted: nothing is published, and no message is
 * complete, by a length that is withdrawn later.
 *
 * Payload is visible to a host that sees its chunk's bit. Each copy comes before the packet's bit in `done`; the worker
 * that publishes has read those bits (or they are its own); and publishing is a release. The bit in `chunk` is set
 * after that: a worker that finds all of `chunk` full publishes the message as complete after each chunk was published.
 */
static void sdr_complete_now(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot)
{
	if (__atomic_exchange_n(&slot->complete, 1, __ATOMIC_SEQ_CST))
		return;
	sp_dma_or64(c, s->area, SDR_LINE(s, recv, slot->index, state), SP_SDR_COMPLETE);
	sdr_count_complete(c, s);
}

/* True: all chunks that this word of the bitmap has of a message of this length are published. */
static inline bool sdr_word_full(const struct sdr *s, const struct sdr_slot *slot, uint64_t word, uint64_t length)
{
	const uint64_t bits = __atomic_load_n(&slot->chunk[word], __ATOMIC_SEQ_CST);
	uint64_t mask = ~0ull;

	if ((word + 1) * 64 * s->chunk_bytes > length) {
		const uint64_t chunks = sp_sdr_units(length, s->chunk_bytes);

		mask = chunks > word * 64 ? sdr_mask(0, chunks - word * 64 < 64 ? chunks - word * 64 : 64) : 0;
	}
	return (bits & mask) == mask;
}

/* Publishes the message as complete, or finds a word for it to wait for. Words before `from` are full. It tries the
 * last word first: packets mostly arrive in order, so while that word is not full no other one is read, and `awaited`
 * stays. */
static void sdr_await(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t from)
{
	for (;;) {
		const uint64_t length = sdr_length(slot), last = sdr_last_word(s, length);
		uint64_t word = last;

		if (sdr_word_full(s, slot, last, length))
			for (word = from; word < last && sdr_word_full(s, slot, word, length); word++)
				;
		if (word == last && sdr_word_full(s, slot, last, length)) {
			sdr_complete_now(c, s, slot);
			return;
		}
		if (word != last)
			from = word;
		__atomic_store_n(&slot->awaited, word, __ATOMIC_SEQ_CST);
		if (sdr_length(slot) == length && !sdr_word_full(s, slot, word, length))
			return;
	}
}

void sdr_publish_chunks(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word, uint64_t chunks)
{
	uint64_t news;

	if (!(chunks & ~__atomic_load_n(&slot->chunk[word], __ATOMIC_RELAXED)))
		return;
	sp_dma_or64(c, s->area, sdr_bitmap(s, slot, word), chunks);
	news = chunks & ~__atomic_fetch_or(&slot->chunk[word], chunks, __ATOMIC_SEQ_CST);
	c->counters[SDR_CHUNKS] += (unsigned)__builtin_popcountll(news);
	if (__atomic_load_n(&slot->awaited, __ATOMIC_SEQ_CST) == word) {
		const uint64_t length = sdr_length(slot);

		if (sdr_word_full(s, slot, word, length))
			sdr_await(c, s, slot, word < sdr_last_word(s, length) ? word : 0);
	}
}

static void sdr_check_chunk(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t chunk)
{
	if (sdr_full(slot->done, chunk * s->per_chunk, sdr_chunk_end(s, chunk, sdr_length(slot))) &&
	    !sdr_bit(slot->reserved, chunk))
		sdr_publish_chunks(c, s, slot, chunk / 64, 1ull << (chunk & 63));
}

/* ---- length ---- */
/* Is one of the packets [first, end) taken? Only parts are looked at that were touched: the packets of a large message
 * that contradict each other must not cost a look at all of it each time. */
static bool sdr_any_taken(const struct sdr *s, const struct sdr_slot *slot, uint64_t first, uint64_t end)
{
	const uint64_t touched = __atomic_load_n(&slot->touched, __ATOMIC_SEQ_CST), part = 64ull << s->part_shift;

	for (uint64_t stop; first < end; first = stop) {
		stop = (first | 63) + 1 < end ? (first | 63) + 1 : end;
		if (!(touched & sdr_part(s, first / 64)))
			stop = (first / part + 1) * part;
		else if (__atomic_load_n(&slot->taken[first / 64], __ATOMIC_SEQ_CST) &
			 sdr_mask(first & 63, stop - first))
			return true;
	}
	return false;
}

/* The end that no packet may exceed. */
static inline uint64_t sdr_limit(const struct sdr_slot *slot, uint64_t extent)
{
	return extent ? extent & ~(SDR_FIXED | SDR_FIXING) : slot->posted;
}

enum sdr_fix {
	SDR_KNOWN,     /* it was the length already */
	SDR_FIXES,     /* now it is the length */
	SDR_DUPLICATE, /* another worker has the same packet and is about to fix the length */
	SDR_CONTRADICTS,
};

/* A packet says that the message ends at `end`. */
static enum sdr_fix sdr_fix(const struct sdr *s, struct sdr_slot *slot, uint64_t end)
{
	uint64_t extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST);

	if (end > slot->posted)
		return SDR_CONTRADICTS;
	if (!extent && __atomic_compare_exchange_n(&slot->extent, &extent, SDR_FIXING | end, false, __ATOMIC_SEQ_CST,
						   __ATOMIC_SEQ_CST)) {
		/* Full packets that would end beyond; or, if this packet is short, its own place. */
		const bool beyond = sdr_any_taken(s, slot, end / s->mtu, sp_sdr_units(slot->posted, s->mtu));

		__atomic_store_n(&slot->extent, beyond ? 0 : SDR_FIXED | end, __ATOMIC_SEQ_CST);
		return beyond ? SDR_CONTRADICTS : SDR_FIXES;
	}
	if (sdr_limit(slot, extent) != end)
		return SDR_CONTRADICTS;
	return extent & SDR_FIXED ? SDR_KNOWN : SDR_DUPLICATE;
}

int sdr_fix_length(struct sdr_slot *slot, uint64_t length, bool *fixed)
{
	uint64_t extent = 0;

	/* No packet can have been taken beyond the bytes posted. */
	if (length == slot->posted && __atomic_compare_exchange_n(&slot->extent, &extent, SDR_FIXED | length, false,
								  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		*fixed = true;
		return 0;
	}
	extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST);
	if (extent == (SDR_FIXED | length))
		return 0;
	return extent & SDR_FIXED ? -ERANGE : -EAGAIN;
}

/* ---- packets ---- */
/* Sums of a run, and what it began with. */
struct sdr_sum {
	uint64_t placed, bytes, duplicates;
	uint64_t extent; /* as last read */
	uint32_t verdicts;
	uint8_t *window; /* all of the receive; NULL: each write is checked, and may be traced */
	bool streams;
};

/* Publishes fragments of the immediate that the run has brought, unless another worker was first. */
static void sdr_publish_immediates(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t brought)
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

/* Checks the chunks of packets whose bits have just been set in a word of `done`. done: its new value. */
static void sdr_check_chunks(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word, uint64_t done,
			     uint64_t news)
{
	const unsigned shift = (unsigned)s->chunk_shift;

	if (shift <= 6) {
		const uint64_t length = sdr_length(slot); /* read after the bits were set: see above */
		const uint64_t units = (word + 1) * 64 * s->mtu <= length ? UINT64_MAX : sp_sdr_units(length, s->mtu);
		const uint64_t full = sdr_chunks_full(s, word, done, news, units);

		if (full)
			sdr_publish_chunks(c, s, slot, word >> shift,
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

/* Packets of a word that this worker has taken are in place. */
static inline void sdr_placed(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word,
			      uint64_t news, bool streams)
{
	sdr_copied(streams);
	if (s->per_chunk == 1) /* we took the packet, so nobody else has the chunk or has reserved it */
		sdr_publish_chunks(c, s, slot, word, news);
	else
		sdr_check_chunks(c, s, slot, word, news | __atomic_fetch_or(&slot->done[word], news, __ATOMIC_SEQ_CST),
				 news);
}

/* Copies packets of a run to their places behind base, which are known to exist. in_order: all are taken, and each goes
 * right behind the one before. */
static inline __attribute__((always_inline)) void sdr_copy_run(const struct sdr *s, uint8_t *base,
							       struct sp_packet *const *packet, unsigned run,
							       const uint32_t mtu, uint64_t news, bool in_order,
							       bool streams)
{
	const uint32_t offset_mask = s->offset_mask, user = s->split.user;

	if (likely(in_order)) {
		uint8_t *to = base + (uint64_t)sdr_packet_offset(s, packet[0]) * mtu;

		for (unsigned i = 0; i < run; i++, to += mtu)
			sdr_copy(to, packet[i]->data + SP_SDR_HEADER, mtu, streams);
		return;
	}
	for (unsigned i = 0; i < run; i++) {
		const struct sp_packet *p = packet[i];
		const uint32_t index =
			sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt)) >> user & offset_mask;

		if (likely(news >> (index & 63) & 1))
			sdr_copy(base + (uint64_t)index * mtu, p->data + SP_SDR_HEADER, mtu, streams);
	}
}

/* The same with a check of each write. Returns the bits of packets that are in place. */
static uint64_t sdr_write_run(struct sp_ctx *c, const struct sdr *s, const struct sdr_slot *slot,
			      struct sp_packet *const *packet, unsigned run, uint64_t news, struct sdr_sum *sum)
{
	for (unsigned i = 0; i < run; i++) {
		struct sp_packet *p = packet[i];
		const uint32_t index = sdr_packet_offset(s, p);
		const uint64_t bit = 1ull << (index & 63);

		if (!(news & bit) ||
		    !sdr_write(c, slot, (uint64_t)index * s->mtu, p->data + SP_SDR_HEADER, s->mtu, sum->streams))
			continue;
		news &= ~bit;
		p->verdict = SP_ERROR;
		sum->verdicts |= p->verdict;
	}
	return news;
}

/* Publishes the fragments of the user's immediate that those packets carry whose bits are in `news`. */
static void sdr_bring(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sp_packet *const *packet,
		      unsigned run, uint64_t news)
{
	uint64_t brought = __atomic_load_n(&slot->immediate, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < run && brought >> 32 != UINT32_MAX; i++) {
		const uint32_t imm = sp_load_be32(packet[i]->data + offsetof(struct sp_write_imm, immdt));
		const uint32_t index = imm >> s->split.user & s->offset_mask;

		if (news >> (index & 63) & 1)
			brought = sdr_immediate(s, brought, index, imm);
	}
	sdr_publish_immediates(c, s, slot, brought);
}

/* Places the packets at the beginning that are plain: full, of one word of the bitmap, and none says where the message
 * ends. Each word that workers share is accessed once for all of them. Returns how many; 0: the first one is not plain.
 */
static unsigned sdr_place_plain(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot,
				struct sp_packet *const *packet, unsigned n, struct sdr_sum *sum)
{
	const uint32_t mtu = s->mtu, offset_mask = s->offset_mask, user = s->split.user;
	const uint64_t first = sdr_packet_offset(s, packet[0]) & ~63ull, limit = sdr_limit(slot, sum->extent);
	const uint64_t word = first / 64;
	const uint32_t begin = sdr_packet_offset(s, packet[0]);
	uint64_t bits = 0, news, extent;
	uint32_t astray = 0;
	unsigned run;

	for (run = 0; run < n; run++) {
		const struct sp_packet *p = packet[run];
		const uint32_t index =
			sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt)) >> user & offset_mask;
		const uint64_t bit = 1ull << (index & 63);

		if (unlikely(p->len != mtu + SP_SDR_HEADER) || unlikely(p->flags & SP_PKT_SE) ||
		    unlikely(index - first >= 64) || unlikely((uint64_t)index * mtu + mtu > limit) ||
		    unlikely(bits & bit))
			break;
		bits |= bit;
		astray |= index ^ (begin + run);
		if (mtu == 64) /* fetches the line before it is copied: locked operations wait for earlier stores */
			__builtin_prefetch(slot->mem->base + slot->offset + (uint64_t)index * 64, 1);
	}
	if (!run)
		return 0;
	sdr_touch(s, slot, word);
	news = bits & ~__atomic_fetch_or(&slot->taken[word], bits, __ATOMIC_SEQ_CST);
	extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST);
	if (unlikely(extent != sum->extent)) { /* packets before the end may still be valid: go on one by one */
		sum->extent = extent;
		if (news)
			__atomic_fetch_and(&slot->taken[word], ~news, __ATOMIC_SEQ_CST);
		return 0;
	}
	sum->duplicates += (unsigned)__builtin_popcountll(bits & ~news);
	if (unlikely(!sum->window))
		news = sdr_write_run(c, s, slot, packet, run, news, sum);
	else if (mtu == 64)
		sdr_copy_run(s, sum->window, packet, run, 64, news, !astray && news == bits, false);
	else
		sdr_copy_run(s, sum->window, packet, run, mtu, news, !astray && news == bits, sum->streams);
	if (unlikely(!news))
		return run;
	sum->placed += (unsigned)__builtin_popcountll(news);
	sum->bytes += (uint64_t)(unsigned)__builtin_popcountll(news) * mtu;
	if (user && __atomic_load_n(&slot->immediate, __ATOMIC_RELAXED) >> 32 != UINT32_MAX)
		sdr_bring(c, s, slot, packet, run, news);
	sdr_placed(c, s, slot, word, news, sum->streams);
	return run;
}

static void sdr_beyond(struct sp_packet *p, struct sdr_sum *sum)
{
	p->verdict = SP_DROP(SDR_BEYOND_END);
	sum->verdicts |= p->verdict;
}

/* Any packet. */
static void sdr_place_one(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sp_packet *p,
			  struct sdr_sum *sum)
{
	const uint32_t imm = sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt));
	const uint32_t index = imm >> s->split.user & s->offset_mask, len = p->len - SP_SDR_HEADER;
	const uint64_t at = (uint64_t)index * s->mtu, end = at + len, bit = 1ull << (index & 63);
	enum sdr_fix fix = SDR_KNOWN;
	uint64_t before;

	if (len != s->mtu || p->flags & SP_PKT_SE)
		fix = !len && index ? SDR_CONTRADICTS : sdr_fix(s, slot, end);
	else if (end > sdr_limit(slot, __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST)))
		fix = SDR_CONTRADICTS;
	if (fix == SDR_CONTRADICTS) {
		sdr_beyond(p, sum);
		return;
	}
	if (fix == SDR_DUPLICATE) {
		sum->duplicates++;
		return;
	}
	if (fix == SDR_FIXES)
		sdr_publish(c, s, SDR_LINE(s, recv, slot->index, length), SDR_FIXED | end);
	sdr_touch(s, slot, index / 64);
	before = __atomic_fetch_or(&slot->taken[index / 64], bit, __ATOMIC_SEQ_CST);
	sum->extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST);
	if (end > sdr_limit(slot, sum->extent)) {
		if (!(before & bit))
			__atomic_fetch_and(&slot->taken[index / 64], ~bit, __ATOMIC_SEQ_CST);
		sdr_beyond(p, sum);
		return;
	}
	if (before & bit) {
		sum->duplicates++;
	} else if (sdr_write(c, slot, at, p->data + SP_SDR_HEADER, len, sum->streams)) {
		p->verdict = SP_ERROR;
		sum->verdicts |= p->verdict;
		return;
	} else {
		sum->placed++;
		sum->bytes += len;
		if (s->split.user)
			sdr_publish_immediates(c, s, slot, sdr_immediate(s, 0, index, imm));
		sdr_placed(c, s, slot, index / 64, bit, sum->streams);
	}
	if (fix == SDR_FIXES) { /* all packets of the last chunk may have arrived before */
		if (s->per_chunk > 1)
			sdr_check_chunk(c, s, slot, sdr_chunk_of(s, index));
		sdr_await(c, s, slot, 0);
	}
}

void sdr_place_workers(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sp_packet *const *packet,
		       unsigned n, uint32_t *verdicts)
{
	struct sdr_worker_stats *stats = &slot->stats[c->worker];
	struct sdr_sum sum = {.extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST)};

	sdr_prefetch(s, slot, sdr_packet_offset(s, packet[0]));
	sum.window = sp_dma_window(c, slot->mem, slot->offset, slot->posted);
	sum.streams = sum.window && sdr_streams(s, slot->mem, sum.window);
	for (unsigned i = 0; i < n;) {
		const unsigned plain = sdr_place_plain(c, s, slot, packet + i, n - i, &sum);

		if (!plain)
			sdr_place_one(c, s, slot, packet[i], &sum);
		i += plain ? plain : 1;
	}
	if (sum.placed) {
		__atomic_store_n(&stats->packets, stats->packets + sum.placed, __ATOMIC_RELAXED);
		sdr_publish(c, s, sp_sdr_count(&s->layout, slot->index, c->worker, c->workers), stats->packets);
	}
	if (sum.duplicates)
		__atomic_store_n(&stats->duplicates, stats->duplicates + sum.duplicates, __ATOMIC_RELAXED);
	c->counters[SDR_PACKETS] += sum.placed;
	c->counters[SDR_BYTES] += sum.bytes;
	c->counters[SDR_DUPLICATES] += sum.duplicates;
	*verdicts |= sum.verdicts;
}
