/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, packets into a message by several workers: as place.c, with one locked operation for a run's packets. */
#include "place_workers.h"
#include "chunks.h"
#include "copy.h"

/*
 * What is written by several workers travels between their cores, and each way takes as long as placing several small
 * packets. So a run of packets writes few words that others write: who has a packet (`claim`), that it is there
 * (`done`; where a chunk is a packet, `chunk` itself), and the chunk's bit that the host reads. They are asked for
 * before they are needed (sdr_prefetch()), and come while packets are copied. What else a run looks at is hardly ever
 * written: the length, and the word that the message waits for. What is counted, for the host and for the report, is
 * counted by each worker for itself.
 *
 * Three orders carry the argument, all by sequentially consistent accesses; in each, whichever comes second sees the
 * first:
 *  - A worker sets its packet's bit in `done`, then looks at the chunk's other bits and at the length; one that fixes
 *    the length sets it, then looks at the last chunk's bits. So a chunk is found full by somebody. If by two, both
 *    publish it, and the bit in `chunk`, set after that, decides for whom it counts.
 *  - A worker sets a bit in `chunk`, then looks at whether its word is the one that the message waits for (`watch`);
 *    whoever makes another word that one, because the former is full, looks at that word afterwards, and at the length,
 *    which may have been fixed meanwhile. So it always waits for a word that is not full, or somebody is about to look
 *    at it: when all are full, somebody finds that, and `complete` decides who tells.
 *  - A worker takes its packet's bit in `claim`, then looks at the length, and gives the bit back if it is beyond; one
 *    that fixes the length says so in `extent`, then looks at what has been taken beyond, and takes its word back if
 *    there is any. So no two packets stay that contradict each other. Until it has looked, others reckon with the
 *    length as posted: nothing is published, and nothing complete, by a length that does not stay.
 * Bytes are visible with their chunk's bit: every copy comes before its bit in `done`, whoever publishes has read those
 * bits (or they are its own), and publication is a release. A chunk's bit in `chunk` comes after that for the host: who
 * finds all of them tells that the message is complete after the host has been told of each.
 */
static void sdr_complete_now(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot)
{
	if (__atomic_exchange_n(&slot->complete, 1, __ATOMIC_SEQ_CST))
		return;
	sp_dma_or64(c, s->area, SDR_LINE(s, recv, slot->index, state), SP_SDR_COMPLETE);
	sdr_count_complete(c, s);
}

/* Have all chunks been published that a word of the bitmap has of a message of this length? */
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

/* Is the message complete, and if not, which word does it wait for? Those before `from` are full. The last one comes
 * first: as packets mostly come in order, nobody need look at any other one, or say that it waits for that, before. */
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
static bool sdr_any(const uint64_t *words, uint64_t first, uint64_t end)
{
	for (uint64_t stop; first < end; first = stop) {
		stop = (first | 63) + 1 < end ? (first | 63) + 1 : end;
		if (__atomic_load_n(&words[first / 64], __ATOMIC_SEQ_CST) & sdr_mask(first & 63, stop - first))
			return true;
	}
	return false;
}

/* What no packet may reach beyond. */
static inline uint64_t sdr_limit(const struct sdr_slot *slot, uint64_t extent)
{
	return extent ? extent & ~(SDR_FIXED | SDR_FIXING) : slot->posted;
}

enum sdr_fix {
	SDR_KNOWN,     /* the length was this already */
	SDR_FIXES,     /* now it is */
	SDR_DUPLICATE, /* another worker has the same packet and is about to fix the length */
	SDR_CONTRADICTS,
};

/* A packet says that the message ends where it does, at `end`. */
static enum sdr_fix sdr_fix(const struct sdr *s, struct sdr_slot *slot, uint64_t end)
{
	uint64_t extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST);

	if (end > slot->posted)
		return SDR_CONTRADICTS;
	if (!extent && __atomic_compare_exchange_n(&slot->extent, &extent, SDR_FIXING | end, false, __ATOMIC_SEQ_CST,
						   __ATOMIC_SEQ_CST)) {
		/* From the first whose end as a full packet is beyond; with a short one, that is its own place. */
		const bool beyond = sdr_any(slot->taken, end / s->mtu, sp_sdr_units(slot->posted, s->mtu));

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

	/* Nothing can have been taken beyond what was posted. */
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
/* What a run of packets has come to, and what it began with. */
struct sdr_sum {
	uint64_t placed, bytes, duplicates;
	uint64_t extent; /* as last seen */
	uint32_t verdicts;
	bool direct; /* all of the receive lies within its region, and nobody wants to hear of each write */
	bool streams;
};

/* Fragments that a run has brought: those that nobody else has brought meanwhile count. */
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

/* Of packets whose bits have just been set in a word of `done`, which is now `done`. */
static void sdr_check_chunks(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word, uint64_t done,
			     uint64_t news)
{
	const unsigned shift = (unsigned)s->chunk_shift;

	if (shift <= 6) {
		const uint64_t length = sdr_length(slot); /* after the bits: see above */
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

/* Packets of a word that this worker has claimed are there. */
static inline void sdr_placed(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word,
			      uint64_t news, bool streams)
{
	sdr_copied(streams);
	if (s->per_chunk == 1) /* claimed by us: so the chunk is nobody else's, and nobody has reserved it */
		sdr_publish_chunks(c, s, slot, word, news);
	else
		sdr_check_chunks(c, s, slot, word, news | __atomic_fetch_or(&slot->done[word], news, __ATOMIC_SEQ_CST),
				 news);
}

/* Copies packets in a row whose place is known to be there. in_order: each one's place is next to that of the packet
 * before, and all have been claimed. */
static inline __attribute__((always_inline)) void sdr_copy_run(const struct sdr *s, const struct sdr_slot *slot,
							       struct sp_packet *const *packet, unsigned run,
							       const uint32_t mtu, uint64_t news, bool in_order,
							       bool streams)
{
	const uint32_t offset_mask = s->offset_mask, user = s->split.user;
	uint8_t *const base = slot->mem->base + slot->offset;

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

/* The same where each write is to be looked at. Returns which are there. */
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

/* The fragments of the user's immediate that those of a run carry whose bits are in `news`. */
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

/* Packets in a row that are as most are: full, of one word of the bitmap, and none says where the message ends. Each
 * word that workers stats is touched once for all of them. Returns how many; 0: the first is none such. */
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
		if (mtu == 64) /* its line is here when it is copied: locked operations wait for what was written */
			__builtin_prefetch(slot->mem->base + slot->offset + (uint64_t)index * 64, 1);
	}
	if (!run)
		return 0;
	news = bits & ~__atomic_fetch_or(&slot->taken[word], bits, __ATOMIC_SEQ_CST);
	extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST);
	if (unlikely(extent != sum->extent)) { /* those before the end are as good as ever: once more, one by one */
		sum->extent = extent;
		if (news)
			__atomic_fetch_and(&slot->taken[word], ~news, __ATOMIC_SEQ_CST);
		return 0;
	}
	sum->duplicates += (unsigned)__builtin_popcountll(bits & ~news);
	if (unlikely(!sum->direct))
		news = sdr_write_run(c, s, slot, packet, run, news, sum);
	else if (mtu == 64)
		sdr_copy_run(s, slot, packet, run, 64, news, !astray && news == bits, false);
	else
		sdr_copy_run(s, slot, packet, run, mtu, news, !astray && news == bits, sum->streams);
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

/* One packet, whatever it is. */
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
	if (fix == SDR_FIXES) { /* the packets may all have been there before */
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
	sum.direct = !c->watch && sp_mem_holds(slot->mem, slot->offset, slot->posted);
	sum.streams = !c->watch && sdr_streams(s, slot->mem, slot->mem->base + slot->offset);
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
