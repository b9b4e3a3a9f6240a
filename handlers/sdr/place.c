/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, packets into messages. This file has what a single worker does: buffer, packet bitmap, chunk bitmap, length,
 * user immediate. */
#include "place.h"
#include "chunks.h"
#include "control.h"
#include "copy.h"
#include "place_workers.h"
#include "receive.h"

/* ---- one worker: no atomics, words written once per run of packets ---- */
/* A run of packets of one message. */
struct sdr_run {
	uint64_t word, bits;   /* a word of the packet bitmap; bits: its value, not stored yet */
	uint64_t news;	       /* new bits, whose chunks are to be checked */
	uint64_t hword, hbits; /* a word of the chunk bitmap; hbits: its value, not stored yet */
	uint64_t extent;       /* as in the slot */
	uint64_t length;       /* of the message, as far as it is known */
	uint64_t immediate;    /* as in the slot */
	uint64_t placed, bytes, duplicates;
	uint64_t chunks; /* chunks that have become full */
	uint8_t *window; /* all of the receive; NULL: each write is checked, and may be traced */
	bool streams;	 /* payload goes past the caches */
	bool fixed;	 /* this run has fixed the length */
	bool rolls;	 /* packets after the last one of the message belong to the next message */
	bool completed;	 /* with `rolls`: the message is complete */
	uint32_t verdicts;
};

static inline void sdr_run_publish(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sdr_run *r)
{
	sdr_copied(r->streams);
	if (r->hword == UINT64_MAX)
		return;
	slot->chunk[r->hword] = r->hbits;
	sdr_publish(c, s, sdr_bitmap(s, slot, r->hword), r->hbits);
}

static inline void sdr_run_full(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sdr_run *r,
				uint64_t hword, uint64_t full)
{
	if (!full)
		return;
	if (hword != r->hword) {
		sdr_run_publish(c, s, slot, r);
		r->hword = hword;
		r->hbits = slot->chunk[hword];
	}
	r->chunks += (unsigned)__builtin_popcountll(full & ~r->hbits);
	r->hbits |= full;
}

/* Chunks that do not lie within words, one by one. */
static __attribute__((noinline)) void sdr_run_wide(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot,
						   struct sdr_run *r)
{
	uint64_t news = r->news;

	while (news) {
		const uint64_t chunk = sdr_chunk_of(s, r->word * 64 + (unsigned)__builtin_ctzll(news));
		const uint64_t end = sdr_chunk_end(s, chunk, r->length), after = end - r->word * 64;

		if (sdr_full(slot->taken, chunk * s->per_chunk, end))
			sdr_run_full(c, s, slot, r, chunk / 64, 1ull << (chunk & 63));
		news &= after < 64 ? ~0ull << after : 0;
	}
}

/* Stores the word, and checks the chunks of its new packets. */
static inline void sdr_run_settle(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sdr_run *r)
{
	const unsigned shift = (unsigned)s->chunk_shift;

	if (r->word == UINT64_MAX)
		return;
	slot->taken[r->word] = r->bits;
	slot->touched |= sdr_part(s, r->word);
	if (unlikely(shift > 6)) /* or -1 */
		sdr_run_wide(c, s, slot, r);
	else
		sdr_run_full(c, s, slot, r, r->word >> shift,
			     sdr_chunks_full(s, r->word, r->bits, r->news, slot->units));
	r->news = 0;
}

static inline void sdr_run_select(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sdr_run *r,
				  uint64_t word)
{
	sdr_run_settle(c, s, slot, r);
	r->word = word;
	r->bits = slot->taken[word];
}

static inline bool sdr_run_completes(const struct sdr *s, const struct sdr_slot *slot, const struct sdr_run *r)
{
	const uint64_t chunks = slot->chunks + r->chunks;

	return !slot->complete && chunks && chunks * s->chunk_bytes >= r->length;
}

/* Any packet. */
static __attribute__((noinline)) void sdr_run_packet(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot,
						     struct sdr_run *r, struct sp_packet *p)
{
	const uint32_t imm = sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt));
	const uint32_t index = imm >> s->split.user & s->offset_mask, len = p->len - SP_SDR_HEADER;
	const uint64_t at = (uint64_t)index * s->mtu, end = at + len, bit = 1ull << (index & 63);
	const uint64_t extent = sdr_extend(r->extent, slot->posted, end, len != s->mtu || p->flags & SP_PKT_SE);
	const bool fixes = extent != r->extent && extent & SDR_FIXED;

	/* A packet without bytes is valid only in a message without bytes. */
	if (extent == UINT64_MAX || (!len && index)) {
		p->verdict = SP_DROP(SDR_BEYOND_END);
		r->verdicts |= p->verdict;
		return;
	}
	r->extent = extent;
	if (fixes) { /* the message ends in another chunk now, in that of this packet */
		r->length = end;
		r->fixed = true;
		slot->units = sp_sdr_units(end, s->mtu);
	}
	if (index / 64 != r->word)
		sdr_run_select(c, s, slot, r, index / 64);
	if (r->bits & bit) {
		r->duplicates++;
		if (!fixes)
			return;
	} else {
		if (sdr_write(c, slot, at, p->data + SP_SDR_HEADER, len, r->streams)) {
			p->verdict = SP_ERROR;
			r->verdicts |= p->verdict;
			return;
		}
		r->bits |= bit;
		r->placed++;
		r->bytes += len;
		if (s->split.user)
			r->immediate = sdr_immediate(s, r->immediate, index, imm);
	}
	r->news |= bit;
	if (r->rolls) {
		sdr_run_settle(c, s, slot, r);
		r->completed = sdr_run_completes(s, slot, r);
	}
}

/* Places the packets at the beginning of the run that are plain: full, new, within the length, of the current word.
 * Returns how many. All that it needs is in registers. The copies change none of it, but the compiler cannot know that
 * of memory. */
static inline __attribute__((always_inline)) unsigned sdr_run_plain(const struct sdr *s, struct sdr_run *r,
								    struct sp_packet *const *packet, unsigned n,
								    const uint32_t mtu, const bool immediates)
{
	const uint32_t offset_mask = s->offset_mask, user = s->split.user, fragments = s->fragments;
	const uint64_t first = r->word * 64, length = r->length, ones = sp_sdr_ones(user);
	uint8_t *const base = r->window;
	const bool streams = r->streams;
	uint64_t bits = r->bits, immediate = r->immediate, top = 0;
	unsigned i;

	for (i = 0; i < n && (!immediates || immediate >> 32 != UINT32_MAX); i++) {
		const struct sp_packet *p = packet[i];
		const uint32_t imm = sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt));
		const uint32_t index = imm >> user & offset_mask;
		const uint64_t end = (uint64_t)index * mtu + mtu, bit = 1ull << (index & 63);

		/* length is at most the bytes posted, which the window covers: see sdr_run_begin() */
		if (unlikely(p->len != mtu + SP_SDR_HEADER) || unlikely(p->flags & SP_PKT_SE) ||
		    unlikely(index - first >= 64) || unlikely(end > length) || unlikely(bits & bit))
			break;
		sdr_copy(base + end - mtu, p->data + SP_SDR_HEADER, mtu, streams);
		bits |= bit;
		top = end > top ? end : top;
		if (immediates) { /* sdr_immediate(), without its division */
			const unsigned shift = (index & fragments) * user;

			if (!(immediate >> (32 + shift) & 1))
				immediate |= (imm & ones) << shift | ones << (32 + shift);
		}
	}
	r->news |= bits ^ r->bits;
	r->bits = bits;
	r->immediate = immediate;
	r->placed += i;
	r->bytes += (uint64_t)i * mtu;
	if (top > r->extent) /* never when fixed: the flag is the highest bit */
		r->extent = top;
	return i;
}

static inline void sdr_run_begin(struct sp_ctx *c, const struct sdr *s, const struct sdr_slot *slot, struct sdr_run *r)
{
	*r = (struct sdr_run){.word = UINT64_MAX,
			      .hword = UINT64_MAX,
			      .extent = slot->extent,
			      .length = sdr_length(slot),
			      .immediate = slot->immediate,
			      .rolls = s->queued && s->generations == 1};
	r->window = sp_dma_window(c, slot->mem, slot->offset, slot->posted);
	r->streams = r->window && sdr_streams(s, slot->mem, r->window);
	if (r->rolls || r->length > slot->posted)
		r->window = NULL;
}

/* Returns how many packets were handled: all, or those up to the one that completed the message if the slot rolls over.
 */
static unsigned sdr_place_alone(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot,
				struct sp_packet *const *packet, unsigned n, uint32_t *verdicts)
{
	struct sdr_run r;
	unsigned i = 0;
	bool completed;

	sdr_run_begin(c, s, slot, &r);
	while (i < n && !r.completed) {
		const uint64_t index = sdr_packet_offset(s, packet[i]);
		unsigned plain = 0;

		if (r.window && index * s->mtu < r.length) {
			const bool immediates = s->split.user && r.immediate >> 32 != UINT32_MAX;

			if (index / 64 != r.word)
				sdr_run_select(c, s, slot, &r, index / 64);
			if (immediates)
				plain = sdr_run_plain(s, &r, packet + i, n - i, s->mtu, true);
			else if (s->mtu == 64)
				plain = sdr_run_plain(s, &r, packet + i, n - i, 64, false);
			else
				plain = sdr_run_plain(s, &r, packet + i, n - i, s->mtu, false);
		}
		if (plain)
			i += plain;
		else
			sdr_run_packet(c, s, slot, &r, packet[i++]);
	}

	/* Once per run, and in this order: a host that sees the message complete sees everything else. */
	sdr_run_settle(c, s, slot, &r);
	completed = sdr_run_completes(s, slot, &r);
	sdr_run_publish(c, s, slot, &r);
	slot->extent = r.extent;
	slot->packets += r.placed;
	slot->duplicates += r.duplicates;
	slot->chunks += r.chunks;
	slot->complete |= completed;
	if (r.fixed)
		sdr_publish(c, s, SDR_LINE(s, recv, slot->index, length), SDR_FIXED | r.length);
	if (r.immediate != slot->immediate) {
		slot->immediate = r.immediate;
		sdr_publish(c, s, SDR_LINE(s, recv, slot->index, immediate), r.immediate);
	}
	if (r.placed)
		sdr_publish(c, s, SDR_LINE(s, recv, slot->index, packets), slot->packets);
	if (completed) {
		sdr_publish(c, s, SDR_LINE(s, recv, slot->index, state), SP_SDR_OPEN | SP_SDR_COMPLETE);
		sdr_count_complete(c, s);
	}
	c->counters[SDR_PACKETS] += r.placed;
	c->counters[SDR_BYTES] += r.bytes;
	c->counters[SDR_DUPLICATES] += r.duplicates;
	c->counters[SDR_CHUNKS] += r.chunks;
	*verdicts |= r.verdicts;
	return i;
}

/* Remembers accepted packets. sdr_miss() needs them to tell the next message of a slot from an old one. */
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

	if (unlikely(__atomic_load_n(&s->highest_seen, __ATOMIC_RELAXED) <= slot->message))
		sdr_message_seen(c, s, slot->message);
	if (c->workers > 1) {
		sdr_place_workers(c, s, slot, packet, n, &verdicts);
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

/* Copies the packet bits of one chunk to the area, from bit 0 on. */
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
		sdr_publish(c, s, s->layout.packets + (at - first) / 8, bits & sdr_mask(0, count));
	}
	result->arg[0] = end - first;
	return 0;
}
