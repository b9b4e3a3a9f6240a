/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, the inside of a message: packets into its buffer, packet bitmap, chunk bitmap, length, user immediate. */
#include "sdr_state.h"

/* ---- packets into the message: what both forms need ----------------------------------------------------------------
 */
static inline uint64_t sdr_chunk_of(const struct sdr *s, uint64_t packet)
{
	return s->chunk_shift >= 0 ? packet >> s->chunk_shift : packet / s->per_chunk;
}

/* The packet after the chunk's last one. Divides for the last chunk only. */
static inline uint64_t sdr_chunk_end(const struct sdr *s, uint64_t chunk, uint64_t length)
{
	return (chunk + 1) * s->chunk_bytes <= length ? (chunk + 1) * s->per_chunk : sp_sdr_units(length, s->mtu);
}

/* `count` bits from `bit` on; 1 <= count <= 64 - bit */
static inline uint64_t sdr_mask(uint64_t bit, uint64_t count)
{
	return ~0ull >> (64 - count) << bit;
}

static bool sdr_full(const uint64_t *words, uint64_t first, uint64_t end)
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

/* With the fragment of the user's immediate that the packet carries; what has come first stays. */
static inline uint64_t sdr_immediate(const struct sdr *s, uint64_t immediate, uint32_t index, uint32_t imm)
{
	const unsigned shift = sp_sdr_fragment_shift(s->split, index);

	if (immediate >> (32 + shift) & 1)
		return immediate;
	return immediate | (uint64_t)(imm & sp_sdr_ones(s->split.user)) << shift |
	       (uint64_t)sp_sdr_ones(s->split.user) << (32 + shift);
}

/*
 * May a packet be accepted, given what is known of the message's length? `end` is where it ends, `fixes`: it says that
 * the message ends there too. Returns the new extent, or UINT64_MAX: it contradicts.
 */
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

/* ---- one worker: no atomics, words written once per run of packets --------------------------------------------------
 */
struct sdr_run {
	uint64_t first, count; /* packets for which the rest holds: those of one chunk in one word */
	uint64_t word, bits;   /* that word of the packet bitmap; bits is ahead of memory */
	uint64_t mask;	       /* the bits of those packets */
	uint64_t chunk, end;   /* end: packet after the chunk's last */
	uint64_t hword, hbits; /* word of the chunk bitmap, ahead of memory */
	bool wide;	       /* the chunk has packets in other words too */
};

static inline void sdr_run_select(const struct sdr *s, struct sdr_slot *slot, struct sdr_run *r, uint64_t index,
				  uint64_t length)
{
	const uint64_t word = index / 64;

	if (word != r->word) {
		if (r->word != UINT64_MAX)
			slot->claim[r->word] = r->bits;
		r->word = word;
		r->bits = slot->claim[word];
	}
	r->chunk = sdr_chunk_of(s, index);
	r->end = sdr_chunk_end(s, r->chunk, length);

	const uint64_t begin = r->chunk * s->per_chunk, stop = word * 64 + 64;

	r->first = begin > word * 64 ? begin : word * 64;
	r->count = (r->end < stop ? r->end : stop) - r->first;
	r->mask = sdr_mask(r->first & 63, r->count);
	r->wide = begin < word * 64 || r->end > stop;
}

static inline void sdr_run_publish(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sdr_run *r)
{
	if (r->hword == UINT64_MAX)
		return;
	slot->chunk[r->hword] = r->hbits;
	sdr_tell(c, s, sdr_bitmap(s, slot, r->hword), r->hbits);
}

static void sdr_count_complete(struct sp_ctx *c, const struct sdr *s)
{
	uint64_t before;

	c->counters[SDR_MESSAGES]++;
	sp_dma_add64(c, s->area, SDR_CONNECTION(s, completed), 1,
		     &before); /* after its state: who sees this sees that */
}

/* Returns how many packets were dealt with: all, or up to the one that completed the message when the slot rolls over.
 */
static unsigned sdr_place_alone(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot,
				struct sp_packet *const *packet, unsigned n, uint32_t *verdicts)
{
	/* Hoisted: for all that the compiler knows the payload copies change them. */
	const uint32_t mtu = s->mtu, offset_mask = s->offset_mask, user = s->split.user;
	const uint64_t posted = slot->posted, base = slot->offset, immediate_before = slot->immediate;
	const struct sp_mem *mem = slot->mem;
	const bool rolls = s->queued && s->generations == 1;
	struct sdr_run r = {.word = UINT64_MAX, .hword = UINT64_MAX};
	uint64_t extent = slot->extent, length = sdr_length(slot), immediate = immediate_before;
	uint64_t placed = 0, bytes = 0, duplicates = 0, chunks = 0;
	bool complete = slot->complete, completed = false, fixed = false;
	unsigned i;

	for (i = 0; i < n && !(completed && rolls); i++) {
		struct sp_packet *p = packet[i];
		const uint32_t imm = sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt));
		const uint32_t index = imm >> user & offset_mask, len = p->len - SP_SDR_HEADER;
		const uint64_t at = (uint64_t)index * mtu, end = at + len;
		bool fixes = false;

		if (unlikely((len != mtu) | ((p->flags & SP_PKT_SE) != 0) | (end > length))) {
			const uint64_t now = sdr_extend(extent, posted, end, len != mtu || p->flags & SP_PKT_SE);

			/* A packet of no bytes has its place in a message of no bytes only. */
			if (now == UINT64_MAX || (!len && index)) {
				p->verdict = SP_DROP(SDR_BEYOND_END);
				*verdicts |= p->verdict;
				continue;
			}
			fixes = now != extent && now & SDR_FIXED;
			extent = now;
			if (fixes) {
				length = end;
				r.count = 0; /* the last chunk is another one now */
				fixed = true;
			}
		} else if (end > extent) { /* never when fixed: the flag is the highest bit */
			extent = end;
		}
		if (index - r.first >= r.count)
			sdr_run_select(s, slot, &r, index, length);

		const uint64_t bit = 1ull << (index & 63);

		if (unlikely(r.bits & bit)) {
			duplicates++;
			if (!fixes)
				continue;
		} else {
			if (unlikely(sp_dma_write(c, mem, base + at, p->data + SP_SDR_HEADER, len))) {
				p->verdict = SP_ERROR;
				*verdicts |= p->verdict;
				continue;
			}
			r.bits |= bit;
			placed++;
			bytes += len;
			if (user && (uint32_t)(immediate >> 32) != UINT32_MAX)
				immediate = sdr_immediate(s, immediate, index, imm);
		}
		if ((r.bits & r.mask) != r.mask)
			continue;
		if (r.wide) {
			slot->claim[r.word] = r.bits;
			if (!sdr_full(slot->claim, r.chunk * s->per_chunk, r.end))
				continue;
		}
		if (r.chunk / 64 != r.hword) {
			sdr_run_publish(c, s, slot, &r);
			r.hword = r.chunk / 64;
			r.hbits = slot->chunk[r.hword];
		}
		chunks += !(r.hbits >> (r.chunk & 63) & 1);
		r.hbits |= 1ull << (r.chunk & 63);
		if ((slot->chunks + chunks) * s->chunk_bytes >= length && !complete)
			complete = completed = true;
	}

	/* Once per run, and in this order: a host that sees the message complete sees all the rest. */
	if (r.word != UINT64_MAX)
		slot->claim[r.word] = r.bits;
	sdr_run_publish(c, s, slot, &r);
	slot->extent = extent;
	slot->packets += placed;
	slot->duplicates += duplicates;
	slot->chunks += chunks;
	slot->immediate = immediate;
	slot->complete = complete;
	if (fixed)
		sdr_tell(c, s, SDR_LINE(s, recv, slot->index, length), SDR_FIXED | length);
	if (immediate != immediate_before)
		sdr_tell(c, s, SDR_LINE(s, recv, slot->index, immediate), immediate);
	if (placed)
		sdr_tell(c, s, SDR_LINE(s, recv, slot->index, packets), slot->packets);
	if (completed) {
		sdr_tell(c, s, SDR_LINE(s, recv, slot->index, state), SP_SDR_OPEN | SP_SDR_COMPLETE);
		sdr_count_complete(c, s);
	}
	c->counters[SDR_PACKETS] += placed;
	c->counters[SDR_BYTES] += bytes;
	c->counters[SDR_DUPLICATES] += duplicates;
	c->counters[SDR_CHUNKS] += chunks;
	return i;
}

/* ---- several workers -----------------------------------------------------------------------------------------------
 */
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

/* Of the chunks in a word: all bytes of them are there. */
static void sdr_publish(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word, uint64_t chunks)
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

/* False: the packet contradicts. *fixed: this one has fixed the length. */
static bool sdr_extend_shared(struct sdr_slot *slot, uint64_t end, bool fixes, bool *fixed)
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

static void sdr_immediate_shared(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint32_t index,
				 uint32_t imm)
{
	uint64_t old = __atomic_load_n(&slot->immediate, __ATOMIC_RELAXED), next;

	do {
		next = sdr_immediate(s, old, index, imm);
		if (next == old)
			return;
	} while (!__atomic_compare_exchange_n(&slot->immediate, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	sp_dma_or64(c, s->area, SDR_LINE(s, recv, slot->index, immediate), next & ~old);
}

static void sdr_place_shared(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot,
			     struct sp_packet *const *packet, unsigned n, uint32_t *verdicts)
{
	uint64_t placed = 0, duplicates = 0, ignored;

	for (unsigned i = 0; i < n; i++) {
		struct sp_packet *p = packet[i];
		const uint32_t imm = sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt));
		const uint32_t index = imm >> s->split.user & s->offset_mask, len = p->len - SP_SDR_HEADER;
		const uint64_t at = (uint64_t)index * s->mtu, end = at + len, bit = 1ull << (index & 63);
		bool fixed = false;

		if ((!len && index) || !sdr_extend_shared(slot, end, len != s->mtu || p->flags & SP_PKT_SE, &fixed)) {
			p->verdict = SP_DROP(SDR_BEYOND_END);
			*verdicts |= p->verdict;
			continue;
		}
		if (fixed)
			sdr_tell(c, s, SDR_LINE(s, recv, slot->index, length), SDR_FIXED | end);
		if (__atomic_fetch_or(&slot->claim[index / 64], bit, __ATOMIC_RELAXED) & bit) {
			duplicates++;
		} else if (sp_dma_write(c, slot->mem, slot->offset + at, p->data + SP_SDR_HEADER, len)) {
			p->verdict = SP_ERROR;
			*verdicts |= p->verdict;
			continue;
		} else {
			placed++;
			c->counters[SDR_BYTES] += len;
			if (s->split.user)
				sdr_immediate_shared(c, s, slot, index, imm);
			__atomic_fetch_or(&slot->done[index / 64], bit, __ATOMIC_SEQ_CST);
			sdr_check_chunk(c, s, slot, sdr_chunk_of(s, index));
		}
		if (fixed) { /* the packets may all have been there before */
			sdr_check_chunk(c, s, slot, sdr_chunk_of(s, index));
			sdr_check_complete(c, s, slot);
		}
	}
	if (placed) {
		__atomic_fetch_add(&slot->packets, placed, __ATOMIC_RELAXED);
		sp_dma_add64(c, s->area, SDR_LINE(s, recv, slot->index, packets), placed, &ignored);
	}
	if (duplicates)
		__atomic_fetch_add(&slot->duplicates, duplicates, __ATOMIC_RELAXED);
	c->counters[SDR_PACKETS] += placed;
	c->counters[SDR_DUPLICATES] += duplicates;
}

/* What has been accepted, for sdr_miss() to tell a slot's next message from an old one by. */
static void sdr_remember(struct sdr *s, const struct sdr_slot *slot, struct sp_packet *const *packet, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct sp_packet *p = packet[i];
		struct sdr_newest *newest = &s->newest[p->qp_index];
		const bool after = newest->psn && sdr_psn_after(p->psn, newest->psn - 1);

		if (p->verdict != SP_DONE)
			continue;
		if (s->accepted <= slot->message) {
			s->accepted = slot->message + 1;
			s->psn_counts |= after;
			s->psn_misleads |= newest->psn && !after;
		}
		if (after || !newest->psn)
			*newest = (struct sdr_newest){slot->message, sdr_packet_offset(s, p), p->psn + 1};
	}
}

uint32_t sdr_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *packet, unsigned n)
{
	struct sdr *s = c->state;
	uint32_t verdicts = 0;

	if (!m) {
		for (unsigned i = 0; i < n; i++)
			verdicts |= packet[i]->verdict = sdr_control(c, packet[i]);
		return verdicts;
	}

	struct sdr_slot *slot = &s->slot[(uint32_t)m->key];

	if (unlikely(__atomic_load_n(&s->heard, __ATOMIC_RELAXED) <= slot->message))
		sdr_hear(c, s, slot->message);
	if (c->workers > 1) {
		sdr_place_shared(c, s, slot, packet, n, &verdicts);
		return verdicts;
	}
	for (unsigned done = 0; done < n;) {
		done += sdr_place_alone(c, s, slot, packet + done, n - done, &verdicts);
		sdr_roll(c, s, slot);
	}
	if (s->newest)
		sdr_remember(s, slot, packet, n);
	return verdicts;
}

/* ---- what others may ask and tell
 * ------------------------------------------------------------------------------------ */
/* The packet bits of one chunk, from bit 0 on, into the area. */
int sdr_packets(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	struct sdr *s = c->state;
	const struct sdr_slot *slot = &s->slot[command->cookie % s->slots];
	const uint64_t chunk = command->arg[0];

	if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != SDR_OPEN || slot->message != command->cookie)
		return -ENOENT;

	const uint64_t length = sdr_length(slot);

	if (chunk >= sp_sdr_units(length, s->chunk_bytes))
		return -ERANGE;

	const uint64_t first = chunk * s->per_chunk, end = sdr_chunk_end(s, chunk, length);

	for (uint64_t at = first; at < end; at += 64) {
		const uint64_t count = end - at < 64 ? end - at : 64, shift = at & 63;
		uint64_t bits = __atomic_load_n(&slot->done[at / 64], __ATOMIC_RELAXED) >> shift;

		if (shift && count > 64 - shift)
			bits |= __atomic_load_n(&slot->done[at / 64 + 1], __ATOMIC_RELAXED) << (64 - shift);
		sdr_tell(c, s, s->layout.packets + (at - first) / 8, bits & sdr_mask(0, count));
	}
	result->arg[0] = end - first;
	return 0;
}

/* ---- for a companion -----------------------------------------------------------------------------------------------
 */
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

/* 64 bits from `chunk` on; none beyond the longest message. */
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

/* Chunks with packets among these of one word: bit i is chunk `from` + i. */
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

/*
 * Takes packets [at, end) that have not come. Of a chunk of which there are none, whoever has the last packet publishes
 * it. Of others, nobody can find one full before the packets taken are set in `done`, and who does then sees
 * `reserved`. With all set in `done`, nobody writes there any more.
 */
static void sdr_reserve_packets(const struct sdr *s, struct sdr_slot *slot, uint64_t at, uint64_t end, uint64_t from)
{
	for (uint64_t stop; at < end; at = stop) {
		stop = (at | 63) + 1 < end ? (at | 63) + 1 : end;

		const uint64_t mask = sdr_mask(at & 63, stop - at), word = at / 64, shift = from & 63;
		const uint64_t mine = mask & ~__atomic_fetch_or(&slot->claim[word], mask, __ATOMIC_SEQ_CST);
		const uint64_t chunks = sdr_chunks_of(s, word, mine, from) & ~sdr_window(s, slot->reserved, from);

		if (chunks << shift)
			__atomic_fetch_or(&slot->reserved[from / 64], chunks << shift, __ATOMIC_SEQ_CST);
		if (shift && chunks >> (64 - shift))
			__atomic_fetch_or(&slot->reserved[from / 64 + 1], chunks >> (64 - shift), __ATOMIC_SEQ_CST);
		if (mine)
			__atomic_fetch_or(&slot->done[word], mine, __ATOMIC_SEQ_CST);
	}
}

/* Those of the chunks `from` + i of which all packets are done. */
static uint64_t sdr_done(const struct sdr *s, const struct sdr_slot *slot, uint64_t from, uint64_t chunks,
			 uint64_t length)
{
	uint64_t done = 0;

	for (uint64_t left = chunks; left; left &= left - 1) {
		const uint64_t chunk = from + (unsigned)__builtin_ctzll(left);

		if (sdr_full(slot->done, chunk * s->per_chunk, sdr_chunk_end(s, chunk, length)))
			done |= left & -left;
	}
	return done;
}

static int sdr_export_reserve(struct sp_ctx *c, uint64_t key, uint64_t from, uint64_t *chunks)
{
	const struct sdr *s = c->state;
	struct sdr_slot *slot = sdr_export_slot(c, key);
	uint64_t wanted = *chunks, left;
	bool fixed = false;

	*chunks = 0;
	if (!slot)
		return -ENOENT;

	const uint64_t length = sdr_length(slot), all = sp_sdr_units(length, s->chunk_bytes);

	if (from >= all || (all - from < 64 && wanted >> (all - from)))
		return -ERANGE;
	wanted &= ~sdr_window(s, slot->chunk, from);
	left = wanted & ~sdr_window(s, slot->reserved, from);
	/* Another length would be another last chunk. */
	if (left && !sdr_extend_shared(slot, length, true, &fixed))
		return -ERANGE;
	if (fixed)
		sdr_tell(c, s, SDR_LINE(s, recv, slot->index, length), SDR_FIXED | length);
	while (left) { /* those in a row at once */
		const unsigned i = (unsigned)__builtin_ctzll(left);
		const uint64_t beyond = ~(left >> i);
		const unsigned count = beyond ? (unsigned)__builtin_ctzll(beyond) : 64;

		sdr_reserve_packets(s, slot, (from + i) * s->per_chunk, sdr_chunk_end(s, from + i + count - 1, length),
				    from);
		left &= ~sdr_mask(i, count);
	}
	*chunks = sdr_done(s, slot, from, wanted & sdr_window(s, slot->reserved, from), length);
	return *chunks == wanted ? 0 : -EAGAIN;
}

static int sdr_export_supply(struct sp_ctx *c, uint64_t key, uint64_t from, uint64_t chunks)
{
	const struct sdr *s = c->state;
	struct sdr_slot *slot = sdr_export_slot(c, key);
	uint64_t reserved, runs, before;

	if (!slot)
		return -ENOENT;
	reserved = sdr_window(s, slot->reserved, from);
	if (!chunks || chunks & ~reserved)
		return -EINVAL;
	runs = chunks & ~(reserved << 1 | (from && sdr_bit(slot->reserved, from - 1)));
	/* before the chunks' bits */
	sp_dma_add64(c, s->area, SDR_CONNECTION(s, repaired),
		     (unsigned)__builtin_popcountll(chunks) | (uint64_t)__builtin_popcountll(runs) << SP_SDR_RUNS_SHIFT,
		     &before);
	if (chunks << (from & 63))
		sdr_publish(c, s, slot, from / 64, chunks << (from & 63));
	if (from & 63 && chunks >> (64 - (from & 63)))
		sdr_publish(c, s, slot, from / 64 + 1, chunks >> (64 - (from & 63)));
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
