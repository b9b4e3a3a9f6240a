/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ec, the way in: which submessages can be repaired, and repairing them. Whoever completes a chunk looks whether its
 * submessage can be repaired now, and if so queues the pair of messages for work on this worker, unless it is queued
 * somewhere already. The work takes the missing chunks for itself (reserve), computes them in place, a slice at a time,
 * and hands them over (supply). Meanwhile it holds both messages: neither buffer is given back under it.
 */
#include "ec_state.h"

#define EC_LOOKS 64 /* submessages looked at in a slice: some 5 us */

static inline void ec_set(uint64_t *bitmap, unsigned i)
{
	bitmap[i / 64] |= 1ull << (i % 64);
}

/* ---- what there is -------------------------------------------------------------------------------------------------
 */
/* False: these are not a pair; or one of no data. */
static bool ec_both(struct sp_ctx *c, struct sp_ctx *first, uint64_t key, struct ec_both *b)
{
	const struct ec *s = c->state;

	b->key = key;
	if (s->first->extent(first, key, &b->data) || s->first->extent(first, ec_parity_key(key), &b->parity))
		return false;
	b->chunks = sp_ec_units(b->data.bytes, s->limits.chunk_bytes);
	return b->parity.message == b->data.message + 1 && b->chunks;
}

static unsigned ec_data(const struct ec *s, uint64_t chunks, uint64_t sub)
{
	const uint64_t at = sub * s->code.k;

	return at >= chunks ? 0 : chunks - at < s->code.k ? (unsigned)(chunks - at) : s->code.k;
}

/* The submessage's data chunks that are missing; how many. */
static unsigned ec_missing_data(struct sp_ctx *c, struct sp_ctx *first, uint64_t key, uint64_t chunks, uint64_t sub,
				uint64_t missing[SP_EC_WORDS])
{
	const struct ec *s = c->state;
	const unsigned data = ec_data(s, chunks, sub);
	unsigned count = 0;

	memset(missing, 0, SP_EC_WORDS * sizeof(*missing));
	for (unsigned at = 0; at < data; at += 64) {
		const uint64_t mask = ~0ull >> (data - at < 64 ? 64 - (data - at) : 0);

		missing[at / 64] = mask & ~s->first->present(first, key, sub * s->code.k + at);
		count += (unsigned)__builtin_popcountll(missing[at / 64]);
	}
	return count;
}

/* Adds those of its parity, which count only as far as there is room for them in the receiver's scratch. */
static void ec_missing_parity(struct sp_ctx *c, struct sp_ctx *first, const struct ec_both *b, uint64_t sub,
			      uint64_t missing[SP_EC_WORDS])
{
	const struct ec *s = c->state;
	const unsigned data = ec_data(s, b->chunks, sub), rows = sp_ec_parity(&s->code, data);
	const uint64_t at = sub * s->code.m, room = b->parity.bytes / s->limits.chunk_bytes;
	uint64_t there = 0;

	for (unsigned i = 0; i < rows; i++) {
		if (i % 64 == 0)
			there = s->first->present(first, ec_parity_key(b->key), at + i);
		if (!(there >> (i % 64) & 1) || at + i >= room)
			ec_set(missing, data + i);
	}
}

enum ec_vouched { EC_RIGHT, EC_WRONG, EC_UNSURE };

/* Is the parity of our code, and the data as long as we think? */
static enum ec_vouched ec_vouch(const struct ec *s, const struct ec_both *b)
{
	const uint32_t expected =
		sp_ec_immediate((enum sp_ec_code_kind)s->code.kind, s->code.k, s->code.m, b->data.bytes);
	const uint64_t bytes = sp_ec_parity_bytes(s->code.k, s->code.m, b->data.bytes, s->limits.chunk_bytes);

	if ((b->parity.immediate ^ expected) & b->parity.mask || (b->parity.fixed && b->parity.bytes != bytes))
		return b->data.fixed ? EC_WRONG : EC_UNSURE;
	return b->data.fixed || b->parity.mask == UINT32_MAX ? EC_RIGHT : EC_UNSURE;
}

/* Can the submessage's data be had, and are some missing? */
static bool ec_repairable(struct sp_ctx *c, struct sp_ctx *first, const struct ec_both *b, uint64_t sub,
			  uint64_t missing[SP_EC_WORDS])
{
	const struct ec *s = c->state;

	if (!ec_missing_data(c, first, b->key, b->chunks, sub, missing))
		return false;
	ec_missing_parity(c, first, b, sub, missing);
	return sp_ec_recoverable(&s->code, ec_data(s, b->chunks, sub), missing);
}

uint64_t ec_lacking(struct sp_ctx *c, uint64_t key)
{
	const struct ec *s = c->state;
	uint64_t missing[SP_EC_WORDS], count = 0;
	struct sp_extent e;
	struct sp_ctx *first;

	sp_first(c, &first);
	if (s->first->extent(first, key, &e) || e.complete)
		return 0;

	const uint64_t chunks = sp_ec_units(e.bytes, s->limits.chunk_bytes);

	for (uint64_t sub = 0; sub * s->code.k < chunks; sub++)
		count += ec_missing_data(c, first, key, chunks, sub, missing) != 0;
	return count;
}

/* ---- looking -------------------------------------------------------------------------------------------------------
 */
static void ec_queue(struct sp_ctx *c, struct ec_pair *pair)
{
	struct ec *s = c->state;
	struct ec_decoder *d = &s->decoder[c->worker];

	if (__atomic_exchange_n(&pair->queued, 1, __ATOMIC_SEQ_CST))
		return;
	d->queue[(d->first + d->count++) % (s->limits.messages / 2)] = (uint32_t)(pair - s->pair);
	sp_work_start(c, &d->work);
}

/* Nothing is wanted, or everything. */
static void ec_want(const struct ec *s, struct ec_pair *pair, bool all)
{
	for (uint64_t word = 0; word < s->wanted_words; word++)
		__atomic_store_n(&pair->wanted[word], all ? UINT64_MAX : 0, __ATOMIC_SEQ_CST);
}

/* Counted once a message. */
static void ec_mismatch(struct sp_ctx *c, struct ec_pair *pair)
{
	if (!__atomic_exchange_n(&pair->wrong, 1, __ATOMIC_RELAXED))
		ec_count(c, SP_EC_MISMATCHES, 1);
}

/* May what is lost be repaired? Otherwise not at all, or not until more is known. */
static bool ec_may(struct sp_ctx *c, struct ec_pair *pair, const struct ec_both *b)
{
	const enum ec_vouched vouched = ec_vouch(c->state, b);

	if (vouched == EC_WRONG)
		ec_mismatch(c, pair);
	else if (vouched == EC_UNSURE)
		__atomic_store_n(&pair->look, 1, __ATOMIC_RELAXED);
	return vouched == EC_RIGHT;
}

static void ec_look_at(struct sp_ctx *c, struct sp_ctx *first, const struct ec_both *b, uint64_t sub)
{
	struct ec *s = c->state;
	struct ec_pair *pair = &s->pair[(uint32_t)b->key / 2];
	uint64_t missing[SP_EC_WORDS];

	if (!ec_repairable(c, first, b, sub, missing) || !ec_may(c, pair, b))
		return;
	__atomic_store_n(&pair->key, b->key, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&pair->wanted[sub / 64], 1ull << (sub % 64), __ATOMIC_SEQ_CST);
	ec_queue(c, pair);
}

void ec_look(struct sp_ctx *c, uint64_t key, uint64_t chunk)
{
	struct ec *s = c->state;
	const bool parity = key & 1;
	struct ec_pair *pair = &s->pair[(uint32_t)key / 2];
	const bool all = __atomic_load_n(&pair->look, __ATOMIC_RELAXED);
	const uint64_t sub = chunk / (parity ? s->code.m : s->code.k), data = key & ~1ull;
	uint64_t missing[SP_EC_WORDS];
	struct sp_message *other;
	struct sp_extent e;
	struct ec_both b;
	struct sp_ctx *first;

	sp_first(c, &first);
	/* Mostly all data come, and then all parity: there is nothing to hold for. */
	if (!parity && !all) {
		unsigned lost;

		if (s->first->extent(first, data, &e))
			return;
		lost = ec_missing_data(c, first, data, sp_ec_units(e.bytes, s->limits.chunk_bytes), sub, missing);
		if (!lost || lost > s->code.m)
			return;
	}
	other = sp_message_hold(c, key ^ 1);
	if (!other) {
		/* Should another worker be about to open it: its packets will look. */
		if (parity)
			__atomic_store_n(&pair->look, 1, __ATOMIC_RELAXED);
		return;
	}
	if (!ec_both(c, first, data, &b))
		;
	else if (!all)
		ec_look_at(c, first, &b, sub);
	else if (ec_vouch(s, &b) != EC_UNSURE) {
		__atomic_store_n(&pair->look, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&pair->key, data, __ATOMIC_SEQ_CST);
		ec_want(s, pair, true); /* the work looks which of them can be repaired */
		ec_queue(c, pair);
	}
	sp_message_release(c, other);
}

/* ---- repairing -----------------------------------------------------------------------------------------------------
 */
/* The next submessage that is wanted, of b. False: none, or too many to look at in a slice. */
static bool ec_next(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_pair *pair,
		    const struct ec_both *b)
{
	const struct ec *s = c->state;
	unsigned looks = EC_LOOKS;

	for (uint64_t word = 0; word < s->wanted_words; word++)
		for (;; looks--) {
			const uint64_t bits = __atomic_load_n(&pair->wanted[word], __ATOMIC_SEQ_CST);

			if (!bits)
				break;
			if (!looks)
				return false;
			/* Before looking: who wants it from now on wants it anew. */
			__atomic_fetch_and(&pair->wanted[word], ~(bits & -bits), __ATOMIC_SEQ_CST);
			d->sub = word * 64 + (unsigned)__builtin_ctzll(bits);
			if (ec_repairable(c, first, b, d->sub, d->missing) && ec_may(c, pair, b))
				return true;
		}
	return false;
}

static void ec_let_go(struct sp_ctx *c, struct ec_decoder *d)
{
	if (d->parity)
		sp_message_release(c, d->parity);
	if (d->data)
		sp_message_release(c, d->data);
	d->data = d->parity = NULL;
	d->running = false;
}

/* Takes a submessage of the pair. False: there is none now. */
static bool ec_take(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_pair *pair)
{
	const struct ec *s = c->state;
	struct ec_both b;

	memset(d->reserved, 0, sizeof(d->reserved));
	for (;;) {
		bool both;

		d->key = __atomic_load_n(&pair->key, __ATOMIC_SEQ_CST);
		d->data = sp_message_hold(c, d->key);
		d->parity = d->data ? sp_message_hold(c, ec_parity_key(d->key)) : NULL;
		both = d->parity && ec_both(c, first, d->key, &b);
		d->bytes = both ? b.data.bytes : 0;
		if (both && ec_next(c, first, d, pair, &b))
			return true;
		ec_let_go(c, d);
		if (both)
			return false;
		/* One of the two has ended, and what was wanted with it; or it is of the next message by now. */
		if (__atomic_load_n(&pair->key, __ATOMIC_SEQ_CST) != d->key)
			continue;
		ec_want(s, pair, false);
		__atomic_store_n(&pair->look, 1, __ATOMIC_RELAXED);
		if (__atomic_load_n(&pair->key, __ATOMIC_SEQ_CST) == d->key)
			return false;
		ec_want(s, pair, true);
	}
}

static bool ec_wants(const struct ec *s, const struct ec_pair *pair)
{
	for (uint64_t word = 0; word < s->wanted_words; word++)
		if (__atomic_load_n(&pair->wanted[word], __ATOMIC_SEQ_CST))
			return true;
	return false;
}

/* Gives the chunks that are missing to nobody else. 0, or -EAGAIN: some are being written to. */
static int ec_reserve(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, unsigned data)
{
	struct ec *s = c->state;
	struct ec_pair *pair = &s->pair[(uint32_t)d->key / 2];
	int waits = 0;

	for (unsigned j = 0; j < data; j++) {
		const uint64_t chunk = d->sub * s->code.k + j, bit = 1ull << (j % 64);
		int rc;

		if (!sp_ec_bit(d->missing, j) || sp_ec_bit(d->reserved, j))
			continue;
		rc = s->first->reserve(first, d->key, chunk);
		if (rc == -EAGAIN) {
			waits = rc;
		} else if (rc) {
			d->missing[j / 64] &= ~bit; /* it is there by now */
		} else {
			d->reserved[j / 64] |= bit;
			__atomic_store_n(&pair->used, 1, __ATOMIC_RELAXED);
			__atomic_fetch_or(&pair->made[chunk / 64], 1ull << (chunk % 64), __ATOMIC_RELAXED);
		}
	}
	return waits;
}

/* False: there is nothing to compute, for nothing is missing any more. */
static bool ec_begin(struct sp_ctx *c, struct ec_decoder *d, const struct ec_both *b, unsigned data)
{
	const struct ec *s = c->state;
	const uint32_t bytes = s->limits.chunk_bytes;
	const uint64_t at = d->sub * s->code.k, to = b->data.offset + at * bytes;
	const uint64_t from = b->parity.offset + d->sub * s->code.m * bytes;
	const uint64_t left = b->data.bytes - (at + data - 1) * bytes;
	const struct sp_ec_submessage sub = {
		.data = data, .bytes = bytes, .last = left < bytes ? (uint32_t)left : bytes, .chunk = d->chunk};
	bool without = false;

	for (unsigned j = 0; j < data; j++) {
		d->chunk[j] = b->data.mem->base + to + (uint64_t)j * bytes;
		if (c->watch && sp_ec_bit(d->missing, j))
			without |= sp_dma_traced(c, b->data.mem, to + (uint64_t)j * bytes, d->chunk[j],
						 j + 1 < data ? bytes : sub.last);
	}
	for (unsigned i = 0, rows = sp_ec_parity(&s->code, data); i < rows; i++)
		d->chunk[data + i] =
			sp_ec_bit(d->missing, data + i) ? NULL : b->parity.mem->base + from + (uint64_t)i * bytes;
	if (sp_ec_decode_start(&d->job, &s->code, &sub, d->missing))
		return false;
	if (without)
		sp_ec_job_dry(&d->job);
	return true;
}

static void ec_supply(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, const struct ec_both *b,
		      unsigned data)
{
	const struct ec *s = c->state;
	const uint32_t bytes = s->limits.chunk_bytes;
	uint64_t made = 0, chunks = 0;

	for (unsigned j = 0; j < data; j++) {
		const uint64_t chunk = d->sub * s->code.k + j, left = b->data.bytes - chunk * bytes;

		if (!sp_ec_bit(d->reserved, j) || s->first->supply(first, d->key, chunk))
			continue;
		chunks++;
		made += left < bytes ? left : bytes;
	}
	ec_count(c, SP_EC_DECODED, chunks != 0);
	ec_count(c, SP_EC_REPAIRED_CHUNKS, chunks);
	ec_count(c, SP_EC_DECODED_BYTES, made);
}

/* One slice of the queue's first pair. */
bool ec_decode(struct sp_ctx *c, struct ec_decoder *d)
{
	struct ec *s = c->state;
	struct ec_pair *pair = &s->pair[d->queue[d->first]];
	struct sp_ctx *first;
	struct ec_both b;

	if (!d->count)
		return false;
	sp_first(c, &first);
	if (!d->data) {
		if (!ec_take(c, first, d, pair)) {
			d->first = (d->first + 1) % (s->limits.messages / 2);
			d->count--;
			__atomic_store_n(&pair->queued, 0, __ATOMIC_SEQ_CST);
			/* Something may be left, and whoever has wanted something meanwhile has found it queued. */
			if (ec_wants(s, pair))
				ec_queue(c, pair);
			return d->count;
		}
	}
	ec_both(c, first, d->key, &b); /* both are held: they are what they were */

	const unsigned data = ec_data(s, b.chunks, d->sub);

	if (!d->running) {
		if (ec_reserve(c, first, d, data))
			return true;
		ec_both(c, first, d->key, &b);	/* once a chunk is reserved, the length stays */
		if (b.data.bytes != d->bytes) { /* on another worker, the sender has contradicted itself */
			ec_mismatch(c, pair);
			ec_let_go(c, d);
			return true;
		}
		d->running = ec_begin(c, d, &b, data);
	}
	if (d->running) {
		ec_count(c, SP_EC_DECODE_SLICES, 1);
		if (sp_ec_job_step(&d->job, SP_EC_SLICE))
			return true;
	}
	ec_supply(c, first, d, &b, data);
	ec_let_go(c, d);
	return true;
}

/* Workers have left, and messages may wait to end until they are released. */
void ec_decode_detach(struct sp_ctx *c)
{
	struct ec *s = c->state;

	for (unsigned w = 0; w < c->workers; w++)
		ec_let_go(c, &s->decoder[w]);
}
