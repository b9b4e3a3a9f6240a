/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, receives: posted, opened, ended; and which message a packet is for. place.c does the rest. */
#include "receive.h"
#include "../mem_range.h"
#include "chunks.h"
#include "connection.h"

/* ---- classify: everything that a packet says about itself must agree ---- */
static __attribute__((cold, noinline)) uint64_t sdr_reject(const struct sdr *s, const struct sp_packet *p)
{
	if (p->opcode != SP_UC_WRITE_ONLY_IMM)
		return SP_REJECT(SDR_BAD_OPCODE);
	if (p->len < SP_SDR_HEADER)
		return SP_REJECT(SDR_SHORT_HEADER);
	if (!__atomic_load_n(&s->open, __ATOMIC_RELAXED))
		return SP_REJECT(SDR_NOT_CONNECTED);

	const struct sp_write_imm *h = (const void *)p->data;
	const uint32_t imm = sp_load_be32(h->immdt.imm), len = p->len - SP_SDR_HEADER;
	const uint64_t id = sp_sdr_imm_id(s->split, imm), at = (uint64_t)sp_sdr_imm_packet(s->split, imm) * s->mtu;

	/* RDMA leaves the key unchecked where there are no bytes. A peer with clear-to-send is one of ours: its key
	 * tells packets without bytes from those of an earlier connection with the same QP numbers. It may be of any
	 * lap here: the message that it leads to decides. */
	if ((len || !s->implicit) && sp_load_be32(h->reth.rkey) - s->rkey >= s->laps)
		return SP_REJECT(SDR_BAD_RKEY);
	if (id >= s->slots)
		return SP_REJECT(SDR_OUT_OF_RANGE);
	if (sp_load_be32(h->reth.dma_len) != len)
		return SP_REJECT(SDR_BAD_LENGTH);
	if (len > s->mtu)
		return SP_REJECT(SDR_OVER_MTU);
	if (sp_load_be64(h->reth.va) != id * s->max_bytes + at)
		return SP_REJECT(SDR_ADDRESS_MISMATCH);
	return SP_REJECT(SDR_OUT_OF_RANGE);
}

uint64_t sdr_classify(struct sp_ctx *c, struct sp_packet *p)
{
	const struct sdr *s = c->state;
	const struct sp_write_imm *h = (const void *)p->data;

	if (unlikely(p->qp_index == SP_QP_CONTROL))
		return SP_NO_MESSAGE;
	if (unlikely(p->opcode != SP_UC_WRITE_ONLY_IMM || p->len < SP_SDR_HEADER))
		return sdr_reject(s, p);

	const uint32_t imm = sp_load_be32(h->immdt.imm), len = p->len - SP_SDR_HEADER;
	const uint64_t id = (uint64_t)imm >> s->id_shift;
	const uint64_t at = (uint64_t)(imm >> s->split.user & s->offset_mask) * s->mtu;
	const uint32_t lap = sp_load_be32(h->reth.rkey) - s->rkey;

	/* One test for all errors. sdr_reject() finds out which one it was: there time no longer matters. */
	if (unlikely((id >= s->slots) | (sp_load_be32(h->reth.dma_len) ^ len) | (len > s->mtu) |
		     (sp_load_be64(h->reth.va) ^ (id * s->max_bytes + at)) | (at + len > s->max_bytes) |
		     ((lap >= s->laps) & ((len != 0) | !s->implicit)) | !__atomic_load_n(&s->open, __ATOMIC_ACQUIRE)))
		return sdr_reject(s, p);
	return SP_SLOT_KEY(id, s->generation_of[p->qp_index] + lap * s->lap_turns);
}

/* Classifies the packets that are like packet[0]: of its QP and message. `key` is its key.
 * What depends on the message is computed once. Each other check is a branch that always goes the same way, which costs
 * less than an OR of all. Returns how many, packet[0] included. */
static inline unsigned sdr_classify_alike(const struct sdr *s, struct sp_packet *const *packet, unsigned n,
					  uint64_t key)
{
	const struct sp_write_imm *first = (const void *)packet[0]->data;
	const uint16_t qp_index = packet[0]->qp_index;
	const uint64_t mtu = s->mtu, base = (uint32_t)key * s->max_bytes;
	const uint32_t id = (uint32_t)key, whole = s->whole_packets, offset_mask = s->offset_mask;
	const uint8_t id_shift = s->id_shift, user = s->split.user;
	uint32_t rkey;
	unsigned i;

	if (!s->lap_turns) /* with implicit credit, packet[0] may have any, if it has no bytes */
		sp_store_be32(&rkey, s->rkey);
	else
		memcpy(&rkey, first->reth.rkey, sizeof(rkey));
	for (i = 1; i < n; i++) {
		struct sp_packet *p = packet[i];
		const struct sp_write_imm *h = (const void *)p->data;
		const uint32_t len = p->len - SP_SDR_HEADER;

		if (unlikely(p->qp_index != qp_index) || unlikely(p->opcode != SP_UC_WRITE_ONLY_IMM) ||
		    unlikely(p->len < SP_SDR_HEADER))
			break;

		const uint32_t imm = sp_load_be32(h->immdt.imm), index = imm >> user & offset_mask;

		if (unlikely((uint64_t)imm >> id_shift != id) || unlikely(index >= whole) || unlikely(len > mtu) ||
		    unlikely(sp_load_be32(h->reth.dma_len) != len) ||
		    unlikely(memcmp(h->reth.rkey, &rkey, sizeof(rkey))) ||
		    unlikely(sp_load_be64(h->reth.va) != base + index * mtu))
			break;
		p->key = key;
	}
	return i;
}

bool sdr_classify_burst(struct sp_ctx *c, struct sp_packet *const *packet, unsigned n)
{
	bool rejects = false;

	for (unsigned i = 0; i < n;) {
		const uint64_t key = packet[i]->key = sdr_classify(c, packet[i]);

		if (unlikely(key > SP_REJECT(256))) {
			rejects |= key != SP_NO_MESSAGE;
			i++;
			continue;
		}
		if (unlikely(c->workers > 1)) { /* see sdr_prefetch(); this word is needed first */
			const struct sdr *s = c->state;

			__builtin_prefetch(&s->slot[(uint32_t)key].taken[sdr_packet_offset(s, packet[i]) / 64], 1);
		}
		i += sdr_classify_alike(c->state, packet + i, n - i, key);
	}
	return rejects;
}

/* ---- what is seen of the sender ---- */
/* A packet of message k has arrived. The peer has as many slots as we, so it has ended messages k - S and older. Their
 * last packets may still be in flight: their slots and generations can be quiet only from now on. */
void sdr_message_seen(struct sp_ctx *c, struct sdr *s, uint64_t k)
{
	const uint64_t seen = __atomic_load_n(&s->highest_seen, __ATOMIC_RELAXED),
		       lap = (uint64_t)s->slots * s->generations;
	uint64_t i = seen > s->slots ? seen - s->slots : 0;

	if (seen > k)
		return;
	if (k > lap + s->slots && i < k - lap - s->slots)
		i = k - lap - s->slots;
	for (; !s->implicit && i + s->slots <= k; i++)
		sdr_raise(&s->quiet[sp_sdr_slot(i, s->slots) * s->generations +
				    sp_sdr_generation(i, s->slots, s->generations)],
			  c->now | 1);
	sdr_raise(&s->highest_seen, k + 1); /* a release, after the times; sdr_has_ended() acquires */
}

/* ---- opening receives ---- */
/* Message k of the slot begins, or is skipped. */
static void sdr_count_opened(struct sdr *s, struct sdr_slot *slot, uint64_t k)
{
	struct sdr_record *r = &s->record[k % s->records];

	__atomic_store_n(&r->late, 0, __ATOMIC_RELAXED);
	r->finished = r->skipped = false;
	__atomic_store_n(&r->message, k + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->opened, slot->opened + 1, __ATOMIC_RELAXED);
}

/* Returns the slot's next receive, or NULL. Steps over cancelled ones. */
static struct sdr_post *sdr_next(struct sp_ctx *c, struct sdr *s, struct sdr_slot *slot)
{
	for (;;) {
		const uint64_t k = slot->opened * s->slots + slot->index;
		struct sdr_post *e = &s->post[k % s->posts];

		if (e->message != k + 1)
			return NULL;
		if (!e->cancelled)
			return e;
		e->message = 0;
		sdr_count_opened(s, slot, k);
		/* It counts as granted, like those after it: its packets may arrive from now on. */
		sdr_raise(&s->quiet[slot->index * s->generations + k / s->slots % s->generations], c->now | 1);
		sdr_publish(c, s, SDR_LINE(s, recv, slot->index, released), k + 1);
	}
}

/* Skips the slot's next receive: its message has passed. Gives its buffer back untouched. */
static void sdr_skip(struct sp_ctx *c, struct sdr *s, struct sdr_slot *slot, struct sdr_post *e)
{
	const uint64_t k = e->message - 1;

	sdr_count_opened(s, slot, k);
	s->record[k % s->records] = (struct sdr_record){.message = k + 1,
							.finished = true,
							.skipped = true,
							.length = e->length,
							.touched = s->record[k % s->records].touched};
	sp_mem_put(c, e->mem);
	*e = (struct sdr_post){.message = 0};
	c->counters[SDR_RELEASED]++;
	sdr_publish(c, s, SDR_LINE(s, recv, slot->index, released), k + 1);
}

/* Puts a receive into its slot. Nobody else accesses the slot: it is free, or there is one worker and the slot rolls
 * over. */
static void sdr_fill(struct sp_ctx *c, struct sdr *s, struct sdr_slot *slot, const struct sdr_post *e)
{
	slot->message = e->message - 1;
	slot->mem = e->mem;
	slot->offset = e->offset;
	slot->posted = e->length;
	slot->generation = (uint32_t)(slot->opened % s->generations);
	slot->tag = sdr_tag(s, slot->opened);
	slot->extent = slot->packets = slot->duplicates = slot->chunks = slot->immediate = 0;
	slot->complete = 0;
	slot->units = sp_sdr_units(e->length, s->mtu);
	if (slot->stats) {
		slot->awaited = sdr_last_word(s, e->length);
		for (unsigned i = 0; i < c->workers; i++) {
			slot->stats[i] = (struct sdr_worker_stats){.packets = 0};
			sdr_publish_progress(c, s, sp_sdr_count(&s->layout, slot->index, i, c->workers), 0);
		}
	}
	sdr_publish_progress(c, s, SDR_LINE(s, recv, slot->index, length), e->length);
	sdr_publish_progress(c, s, SDR_LINE(s, recv, slot->index, packets), 0);
	sdr_publish_progress(c, s, SDR_LINE(s, recv, slot->index, immediate), 0);
	sdr_publish_progress(c, s, SDR_LINE(s, recv, slot->index, state), SP_SDR_OPEN);
	sdr_publish_progress(c, s, SDR_LINE(s, recv, slot->index, message), e->message);
}

static int sdr_open(struct sp_ctx *c, struct sdr *s, struct sdr_slot *slot, struct sdr_post *e)
{
	int rc;

	sdr_fill(c, s, slot, e);
	__atomic_store_n(&slot->state, SDR_OPEN, __ATOMIC_RELEASE);
	rc = sp_message_open(c, sdr_key(slot)); /* from here on packets may come in, on any worker */
	if (rc) {
		__atomic_store_n(&slot->state, SDR_FREE, __ATOMIC_RELEASE);
		sdr_publish_progress(c, s, SDR_LINE(s, recv, slot->index, message), 0);
		return rc;
	}
	sdr_count_opened(s, slot, e->message - 1);
	e->message = 0;
	return 0;
}

/* Has the sender ended message k, the last one with this slot and generation? A packet of message k + S proves it: the
 * sender has as many slots as we. With one generation, a packet of k or later has to do. Or the peer has said so. */
static bool sdr_has_ended(const struct sdr *s, uint64_t k)
{
	const uint64_t seen = __atomic_load_n(&s->highest_seen, __ATOMIC_ACQUIRE);

	return seen > k + (s->generations > 1 ? s->slots : 0) || __atomic_load_n(&s->peer_ended, __ATOMIC_ACQUIRE) > k;
}

/* Until when a slot and generation rest; 0: nothing has ended there. */
static sp_time sdr_rest(const struct sdr *s, uint64_t index)
{
	/* `quiet` is read last: a worker that records the end of a message has written the time before. */
	const sp_time late = __atomic_load_n(&s->late[index], __ATOMIC_RELAXED),
		      quiet = __atomic_load_n(&s->quiet[index], __ATOMIC_RELAXED);
	const sp_time until = (late > quiet ? late : quiet) + s->life, most = quiet + SDR_LIVES_MOST * s->life;

	return !quiet ? 0 : until < most ? until : most;
}

/* Opens receives in the order of posting. With clear-to-send, packets of an earlier message with the same slot and
 * generation may still be in flight. So both must have been quiet for max-packet-life before more is granted. */
void sdr_open_due(struct sp_ctx *c)
{
	struct sdr *s = c->state;
	const uint64_t before = s->next_open;

	while (s->next_open < s->next_post) {
		struct sdr_slot *slot = &s->slot[s->next_open % s->slots];
		struct sdr_post *e = sdr_next(c, s, slot);

		if (e) {
			const uint64_t tag = slot->opened % s->generations;
			const uint64_t lap = (uint64_t)s->slots * s->generations;

			if (!s->implicit && e->message > lap && !sdr_has_ended(s, e->message - 1 - lap)) {
				sp_timer_arm(c, &s->timer[SDR_TIMER_OPEN], c->now + s->cts_interval);
				break;
			}
			const sp_time rest = sdr_rest(s, slot->index * s->generations + tag);

			if (!s->implicit && c->now < rest) {
				sp_timer_arm(c, &s->timer[SDR_TIMER_OPEN], rest);
				break;
			}
			/* -EEXIST: the worker that closes the message before has not left it yet. */
			if (sdr_open(c, s, slot, e)) {
				sp_timer_arm(c, &s->timer[SDR_TIMER_OPEN], c->now + SP_US);
				break;
			}
		}
		__atomic_store_n(&s->next_open, s->next_open + 1, __ATOMIC_RELAXED);
	}
	if (s->next_open != before) {
		sdr_publish_progress(c, s, SDR_CONNECTION(s, granted), s->next_open);
		sdr_cts_start(c);
	}
}

/* ---- the end of a message ---- */
/* A run of touched parts: words [taken, taken_end) and the words [chunk, chunk_end) of the chunk bitmap that these
 * packets' chunks are in. Neighbours may share a word of the latter. */
struct sdr_parts {
	uint64_t taken, taken_end, chunk, chunk_end;
};

/* Takes the first run out of *touched. False: there is none. */
static bool sdr_next_parts(const struct sdr *s, uint64_t *touched, struct sdr_parts *p)
{
	const uint64_t words = (s->max_packets + 511) / 512 * 8, chunk_words = (s->max_chunks + 511) / 512 * 8;

	if (!*touched)
		return false;

	const unsigned first = (unsigned)__builtin_ctzll(*touched);
	const uint64_t beyond = ~(*touched >> first);
	const unsigned end = first + (beyond ? (unsigned)__builtin_ctzll(beyond) : 64);

	*touched &= end < 64 ? ~0ull << end : 0;
	p->taken = (uint64_t)first << s->part_shift;
	p->taken_end = (uint64_t)end << s->part_shift;
	if (p->taken_end > words)
		p->taken_end = words;
	p->chunk = sdr_chunk_of(s, p->taken * 64) / 64;
	p->chunk_end = sdr_chunk_of(s, p->taken_end * 64 - 1) / 64 + 1;
	if (p->chunk_end > chunk_words)
		p->chunk_end = chunk_words;
	return true;
}

/* The chunk bitmap of the message becomes that of the record, whose old one goes. */
static void sdr_keep_chunks(const struct sdr *s, const struct sdr_slot *slot, struct sdr_record *r)
{
	uint64_t *to = s->record_chunks + (uint64_t)(r - s->record) * ((s->max_chunks + 511) / 512 * 8);
	uint64_t old = r->touched, touched = slot->touched;
	struct sdr_parts p;

	while (sdr_next_parts(s, &old, &p))
		memset(to + p.chunk, 0, (p.chunk_end - p.chunk) * 8);
	while (sdr_next_parts(s, &touched, &p))
		memcpy(to + p.chunk, slot->chunk + p.chunk, (p.chunk_end - p.chunk) * 8);
	r->touched = slot->touched;
}

/* All bitmaps of the slot, and the one that the host reads. */
static void sdr_clear(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot)
{
	struct sdr_parts p;

	while (sdr_next_parts(s, &slot->touched, &p)) {
		memset(slot->taken + p.taken, 0, (p.taken_end - p.taken) * 8);
		if (slot->done != slot->taken && slot->done != slot->chunk)
			memset(slot->done + p.taken, 0, (p.taken_end - p.taken) * 8);
		memset(slot->reserved + p.chunk, 0, (p.chunk_end - p.chunk) * 8);
		memset(slot->chunk + p.chunk, 0, (p.chunk_end - p.chunk) * 8);
		for (uint64_t at = p.chunk, stop; at < p.chunk_end; at = stop) {
			stop = at + (1u << 17) < p.chunk_end ? at + (1u << 17) : p.chunk_end;
			sp_dma_write(c, s->area, sdr_bitmap(s, slot, at), slot->chunk + at,
				     (uint32_t)((stop - at) * 8));
		}
	}
}

/* No packet is inside any more. Stores what the report shows, gives the buffer back, clears the bitmaps. */
static void sdr_finish(struct sp_ctx *c, struct sdr *s, struct sdr_slot *slot)
{
	const uint64_t k = slot->message;
	struct sdr_record *r = &s->record[k % s->records];

	if (s->queued && r->message == k + 1) {
		r->length = sdr_length(slot);
		r->packets = slot->packets;
		r->duplicates = slot->duplicates;
		r->immediate = slot->immediate;
		r->complete = slot->complete;
		r->finished = true;
		sdr_keep_chunks(s, slot, r);
	}
	sdr_clear(c, s, slot);
	sp_mem_put(c, slot->mem);
	slot->mem = NULL;
	c->counters[SDR_RELEASED]++;
}

void sdr_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end end)
{
	struct sdr *s = c->state;
	struct sdr_slot *slot = &s->slot[(uint32_t)m->key];
	const uint64_t k = slot->message;

	(void)end;
	/* From now, not from the last packet: the sender repeats packets until it learns that the message is closed. */
	sdr_raise(&s->quiet[slot->index * s->generations + slot->generation], c->now | 1);
	sdr_finish(c, s, slot);
	sdr_publish(c, s, SDR_LINE(s, recv, slot->index, message), 0);
	__atomic_store_n(&slot->state, SDR_FREE, __ATOMIC_RELEASE);
	/* Last: a host that sees it may post the slot's next receive. */
	sdr_publish(c, s, SDR_LINE(s, recv, slot->index, released), k + 1);
}

/* One generation, implicit credit: packets of the next message look like those of this one. So a complete message makes
 * room for the next at once, inside the open message of the pipeline (its key stays the same). */
bool sdr_roll(struct sp_ctx *c, struct sdr *s, struct sdr_slot *slot)
{
	struct sdr_post *e;

	if (!s->queued || s->generations != 1 || !slot->complete)
		return false;
	e = sdr_next(c, s, slot);
	if (!e)
		return false;

	const uint64_t k = slot->message;

	sdr_finish(c, s, slot);
	sdr_publish(c, s, SDR_LINE(s, recv, slot->index, released), k + 1);
	sdr_fill(c, s, slot, e);
	sdr_count_opened(s, slot, e->message - 1);
	e->message = 0;
	return true;
}

/* ---- a packet of no open message ---- */
/*
 * Implicit credit: nobody says when a slot moves on, so the packets decide. A packet whose generation is not that of
 * the open message is either of the next message of the slot with that generation (`turn`, counted within the slot, and
 * k), or it is late: of the message before with that generation, slots * generations messages older. With S slots, G
 * generations and H the highest message accepted:
 *  - k <= H: as a late packet it would be S * G or more behind, and detecting that is not guaranteed.
 *  - k > H + S: it is late, because a sender has no more than S messages in flight. (So after S messages in a row that
 *    are lost whole, the count is lost.)
 *  - between: as a late packet it would be S * (G - 1) to S * G - 1 behind. The PSN decides: RoCE senders count it up
 *    by one per packet of a QP. If it is newer than all accepted on that QP, the packet is of the next message, unless
 *    the newest accepted packet is of the old message, and this packet is as many packets behind it in the message as
 *    in PSNs. The PSN only decides between these two readings. It is never by itself a reason to drop: it means late
 *    only where PSNs were seen to count up from one message to a higher one, and it no longer counts once they did not
 *    (they are all 0, or start again with each message).
 *  - where the PSN says nothing, the packet moves the slot on. With two generations the next message's generation is
 *    also that of the message before; then only if the open message is complete.
 */
static bool sdr_moves_on(const struct sdr *s, const struct sdr_slot *slot, const struct sp_packet *p, uint64_t turn)
{
	const uint64_t k = turn * s->slots + slot->index;

	if (k >= s->next_post)
		return false;
	if (turn < s->generations || s->generations == 1 || k < s->accepted)
		return true;
	if (k >= s->accepted + s->slots)
		return false;

	const struct sdr_newest *newest = &s->newest[p->qp_index];

	if (newest->psn && !s->psn_misleads) {
		const uint32_t last = newest->psn - 1, ahead = (p->psn - last) & SP_ROCE_PSN_MASK;

		if (sdr_psn_after(p->psn, last))
			return !s->psn_counts || newest->message + (uint64_t)s->slots * s->generations != k ||
			       newest->packet + (uint64_t)ahead * s->channels != sdr_packet_offset(s, p);
		if (s->psn_counts)
			return false;
	}
	return s->generations > 2 || slot->state != SDR_OPEN || slot->complete;
}

/* Ends the slot's message, skips the receives before `turn` (fewer than generations), and opens that one. False: it was
 * cancelled. */
static bool sdr_move_on(struct sp_ctx *c, struct sdr *s, struct sdr_slot *slot, uint64_t turn)
{
	struct sdr_post *e;

	if (slot->state == SDR_OPEN)
		sp_message_close(c, sdr_key(slot));
	while ((e = sdr_next(c, s, slot)) && slot->opened < turn)
		sdr_skip(c, s, slot, e);
	return e && slot->opened == turn && slot->state == SDR_FREE && sdr_open(c, s, slot, e) == 0;
}

uint32_t sdr_miss(struct sp_ctx *c, struct sp_packet *p)
{
	struct sdr *s = c->state;
	struct sdr_slot *slot = &s->slot[(uint32_t)p->key];
	const uint32_t tag = (uint32_t)(p->key >> 32), generation = tag % s->generations;
	uint64_t k;

	if (s->queued && sdr_next(c, s, slot)) {
		const uint32_t next = (uint32_t)(slot->opened % s->generations);
		const uint64_t turn = slot->opened + (generation + s->generations - next) % s->generations;

		if (sdr_moves_on(s, slot, p, turn) && sdr_move_on(c, s, slot, turn))
			return SP_AGAIN;
	}
	if (!sdr_latest(s, slot, generation, &k))
		return SP_DROP(tag == generation ? SDR_NOT_POSTED : SDR_BAD_RKEY);
	/* Of an earlier lap, it proves nothing: somebody may have recorded it. Nobody sends one of a later lap. */
	if (tag != sdr_tag(s, k / s->slots))
		return SP_DROP(SDR_BAD_RKEY);

	struct sdr_record *r = &s->record[k % s->records];

	if (__atomic_load_n(&r->message, __ATOMIC_RELAXED) == k + 1)
		__atomic_fetch_add(&r->late, 1, __ATOMIC_RELAXED);
	sdr_raise(&s->late[slot->index * s->generations + generation], c->now | 1);
	sdr_message_seen(c, s, k);
	c->counters[SDR_LATE_PACKETS]++;
	return SP_DROP(SDR_LATE);
}

/* ---- commands ---- */
int sdr_post(struct sp_ctx *c, const struct sp_command *command)
{
	struct sdr *s = c->state;
	const uint64_t k = command->cookie, offset = command->arg[1], length = command->arg[2];
	struct sdr_slot *slot = &s->slot[k % s->slots];
	struct sdr_post *e = &s->post[k % s->posts];
	const struct sp_mem *mem;

	if (!s->receive)
		return -EOPNOTSUPP;
	if (k != s->next_post || length > s->max_bytes || command->arg[0] > UINT32_MAX)
		return -EINVAL;
	if (e->message || (!s->queued && __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != SDR_FREE))
		return -EAGAIN;
	if (mem_range_get(c, command->arg[0], offset, length, &mem))
		return -EFAULT;
	*e = (struct sdr_post){.message = k + 1, .mem = mem, .offset = offset, .length = length};
	s->next_post++;
	if (s->queued) /* the peer needs no clear-to-send: it may send into all that is posted */
		sdr_publish_progress(c, s, SDR_CONNECTION(s, granted), s->next_post);
	if (!s->queued)
		sdr_open_due(c);
	else if (slot->state == SDR_OPEN)
		sdr_roll(c, s, slot);
	else if (sdr_next(c, s, slot) == e)
		sdr_open(c, s, slot, e); /* if that fails, the first packet opens it (sdr_miss) */
	return 0;
}

int sdr_complete(struct sp_ctx *c, const struct sp_command *command)
{
	struct sdr *s = c->state;
	const uint64_t k = command->cookie;
	struct sdr_slot *slot = &s->slot[k % s->slots];
	struct sdr_post *e = &s->post[k % s->posts];

	if (k >= s->next_post)
		return -ENOENT;
	if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == SDR_OPEN && slot->message == k)
		return sp_message_close(c, sdr_key(slot));
	if (e->message != k + 1 || e->cancelled)
		return -ENOENT;
	/* Not open yet. It stays until its turn: only the peer's k-th message is for it. */
	sp_mem_put(c, e->mem);
	e->mem = NULL;
	e->cancelled = true;
	if (!s->queued)
		sdr_open_due(c);
	else
		sdr_next(c, s, slot);
	return 0;
}

void sdr_receive_detach(struct sp_ctx *c)
{
	struct sdr *s = c->state;

	for (uint64_t i = 0; s->post && i < s->posts; i++)
		if (s->post[i].message && s->post[i].mem)
			sp_mem_put(c, s->post[i].mem);
	for (uint32_t i = 0; s->slot && i < s->slots; i++)
		if (s->slot[i].state == SDR_OPEN && s->slot[i].mem)
			sp_mem_put(c, s->slot[i].mem);
}
