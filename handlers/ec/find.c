/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ec, which submessages can be repaired. The worker that completes a chunk looks whether its submessage can be repaired
 * now. If so, it marks the submessage as wanted and queues the pair of messages for work on itself. The work (decode.c)
 * takes wanted submessages one after the other, whichever worker has marked them. So workers that have found some share
 * them all.
 */
#include "find.h"

static inline void ec_set(uint64_t *bitmap, unsigned i)
{
	bitmap[i / 64] |= 1ull << (i % 64);
}

/* Finds the code of the parity. What has arrived of its immediate must fit exactly one of our codes, and the data must
 * have the length that we assume. If it fits none, then either the data are shorter than posted, or the parity is not
 * ours. */
static void ec_recognise(const struct ec *s, struct ec_both *b)
{
	uint32_t possible =
		sp_ec_possible(ec_immediate(s, b->data.bytes), b->parity.immediate, b->parity.mask, s->codes);

	for (unsigned i = 0; i < s->codes && b->parity.fixed; i++)
		if (possible >> i & 1 &&
		    b->parity.bytes !=
			    s->limits.chunk_bytes * sp_ec_parity_chunks(s->code[i].k, s->code[i].m, b->chunks))
			possible &= ~(1u << i);
	b->mismatch = !possible && b->data.fixed;
	b->code = NULL;
	if (possible && !(possible & (possible - 1)) && (b->data.fixed || b->parity.mask == UINT32_MAX))
		b->code = &s->code[__builtin_ctz(possible)];
}

bool ec_both(struct sp_ctx *c, struct sp_ctx *first, uint64_t key, struct ec_both *b)
{
	const struct ec *s = c->state;

	b->key = key;
	if (s->first->extent(first, key, &b->data) || s->first->extent(first, ec_parity_key(key), &b->parity))
		return false;
	b->chunks = sp_ec_units(b->data.bytes, s->limits.chunk_bytes);
	if (b->parity.message != b->data.message + 1 || !b->chunks)
		return false;
	ec_recognise(s, b);
	return true;
}

static unsigned ec_data(const struct sp_ec_code *code, uint64_t chunks, uint64_t sub)
{
	const uint64_t at = sub * code->k;

	return at >= chunks ? 0 : chunks - at < code->k ? (unsigned)(chunks - at) : code->k;
}

/* Sets `missing` to the missing data chunks of the submessage. Returns how many. */
static unsigned ec_missing_data(struct sp_ctx *c, struct sp_ctx *first, const struct sp_ec_code *code, uint64_t key,
				uint64_t chunks, uint64_t sub, uint64_t missing[SP_EC_WORDS])
{
	const struct ec *s = c->state;
	const unsigned data = ec_data(code, chunks, sub);
	unsigned count = 0;

	memset(missing, 0, SP_EC_WORDS * sizeof(*missing));
	for (unsigned at = 0; at < data; at += 64) {
		missing[at / 64] = ec_ones(data - at) & ~s->first->present(first, key, sub * code->k + at);
		count += (unsigned)__builtin_popcountll(missing[at / 64]);
	}
	return count;
}

/* Adds the missing chunks of its parity. Parity beyond the receiver's scratch counts as missing. */
static void ec_missing_parity(struct sp_ctx *c, struct sp_ctx *first, const struct ec_both *b, uint64_t sub,
			      uint64_t missing[SP_EC_WORDS])
{
	const struct ec *s = c->state;
	const unsigned data = ec_data(b->code, b->chunks, sub), rows = sp_ec_parity(b->code, data);
	const uint64_t at = sub * b->code->m, room = b->parity.bytes / s->limits.chunk_bytes;
	uint64_t there = 0;

	for (unsigned i = 0; i < rows; i++) {
		if (i % 64 == 0)
			there = s->first->present(first, ec_parity_key(b->key), at + i);
		if (!(there >> (i % 64) & 1) || at + i >= room)
			ec_set(missing, data + i);
	}
}

/* True: the submessage lacks data and can be repaired. The code is known. */
static bool ec_repairable(struct sp_ctx *c, struct sp_ctx *first, const struct ec_both *b, uint64_t sub,
			  uint64_t missing[SP_EC_WORDS])
{
	if (!ec_missing_data(c, first, b->code, b->key, b->chunks, sub, missing))
		return false;
	ec_missing_parity(c, first, b, sub, missing);
	return sp_ec_recoverable(b->code, ec_data(b->code, b->chunks, sub), missing);
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
	const struct sp_ec_code *code = &s->code[__atomic_load_n(&s->pair[(uint32_t)key / 2].code, __ATOMIC_RELAXED)];

	for (uint64_t sub = 0; sub * code->k < chunks; sub++)
		count += ec_missing_data(c, first, code, key, chunks, sub, missing) != 0;
	return count;
}

/* ---- looking ---- */
void ec_queue(struct sp_ctx *c, struct ec_pair *pair)
{
	struct ec *s = c->state;
	struct ec_decoder *d = &s->decoder[c->worker];
	const uint64_t bit = 1ull << c->worker;

	if (ec_fetch_or(c, &pair->queued, bit) & bit)
		return;
	d->queue[(d->first + d->count++) % (s->limits.messages / 2)] = (uint32_t)(pair - s->pair);
	sp_work_start(c, &d->work);
}

void ec_want(const struct sp_ctx *c, struct ec_pair *pair, uint64_t count)
{
	const struct ec *s = c->state;

	for (uint64_t word = 0; word < s->wanted_words; word++)
		ec_store(c, &pair->wanted[word], word * 64 < count ? ec_ones(count - word * 64) : 0);
}

bool ec_wants(const struct ec *s, const struct ec_pair *pair)
{
	for (uint64_t word = 0; word < s->wanted_words; word++)
		if (__atomic_load_n(&pair->wanted[word], __ATOMIC_SEQ_CST))
			return true;
	return false;
}

void ec_mismatch(struct sp_ctx *c, struct ec_pair *pair)
{
	if (!__atomic_exchange_n(&pair->mismatch, 1, __ATOMIC_RELAXED))
		ec_count(c, SP_EC_MISMATCHES, 1);
}

/* True: the code is known, so lost chunks may be repaired. Otherwise never, or not before more is known. */
static bool ec_may(struct sp_ctx *c, struct ec_pair *pair, const struct ec_both *b)
{
	const struct ec *s = c->state;

	if (b->code)
		__atomic_store_n(&pair->code, (uint32_t)(b->code - s->code), __ATOMIC_RELAXED);
	else if (b->data.complete)
		;
	else if (b->mismatch)
		ec_mismatch(c, pair);
	else
		__atomic_store_n(&pair->look, 1, __ATOMIC_RELAXED);
	return b->code;
}

/* Looks at the submessages of these chunks of data or parity. All chunks have arrived before, so each is looked at
 * once. */
static void ec_look_at(struct sp_ctx *c, struct sp_ctx *first, const struct ec_both *b, bool parity,
		       const uint64_t *chunk, unsigned count)
{
	struct ec *s = c->state;
	struct ec_pair *pair = &s->pair[(uint32_t)b->key / 2];
	uint64_t missing[SP_EC_WORDS], sub, before = UINT64_MAX;

	if (!ec_may(c, pair, b))
		return;
	for (unsigned i = 0; i < count; i++, before = sub) {
		sub = chunk[i] / (parity ? b->code->m : b->code->k);
		if (sub == before || !ec_repairable(c, first, b, sub, missing))
			continue;
		ec_store(c, &pair->key, b->key);
		ec_fetch_or(c, &pair->wanted[sub / 64], 1ull << (sub % 64));
		ec_queue(c, pair);
	}
}

void ec_look(struct sp_ctx *c, uint64_t key, const uint64_t *chunk, unsigned count)
{
	struct ec *s = c->state;
	const bool parity = key & 1;
	struct ec_pair *pair = &s->pair[(uint32_t)key / 2];
	const bool all = __atomic_load_n(&pair->look, __ATOMIC_RELAXED);
	const uint64_t data = key & ~1ull;
	struct sp_message *other;
	struct ec_both b;
	struct sp_ctx *first;

	sp_first(c, &first);
	/* Mostly all data arrive before any parity: then there is no other message to hold. */
	other = sp_message_hold(c, key ^ 1);
	if (!other) {
		/* another worker may be about to open it: then its packets look */
		if (parity)
			__atomic_store_n(&pair->look, 1, __ATOMIC_RELAXED);
		return;
	}
	if (!ec_both(c, first, data, &b))
		;
	else if (!all)
		ec_look_at(c, first, &b, parity, chunk, count);
	else if (b.code || b.mismatch) {
		__atomic_store_n(&pair->look, 0, __ATOMIC_RELAXED);
		if (b.code && b.chunks <= b.code->k) { /* a slice that found nothing to do would take longer */
			ec_look_at(c, first, &b, false, &(const uint64_t){0}, 1);
			goto out;
		}
		ec_store(c, &pair->key, data);
		/* the work finds out which of them can be repaired */
		ec_want(c, pair, sp_ec_units(b.chunks, b.code ? b.code->k : s->least));
		ec_queue(c, pair);
	}
out:
	sp_message_release(c, other);
}

/* ---- taking submessages to repair ---- */
static void ec_put_back(struct sp_ctx *c, const struct ec_decoder *d, uint64_t word, uint64_t subs)
{
	const struct ec *s = c->state;

	ec_fetch_and(c, &s->pair[(uint32_t)d->key / 2].taken[word], ~subs);
}

void ec_put_back_lost(struct sp_ctx *c, const struct ec_decoder *d, unsigned count)
{
	uint64_t word = 0, subs = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct ec_lost *r = &d->lost[i];

		if (subs && word != r->sub / 64) {
			ec_put_back(c, d, word, subs);
			subs = 0;
		}
		word = r->sub / 64;
		subs |= ec_ones(r->count) << (r->sub % 64);
	}
	if (subs)
		ec_put_back(c, d, word, subs);
}

/* Chunks of a row of submessages, read with one call. */
struct ec_window {
	uint64_t sub, data, parity; /* the first submessage; bits of its chunks and those behind that have arrived */
};

static bool ec_narrow(const struct sp_ec_code *code)
{
	return code->k <= 64 && code->m <= 64;
}

static void ec_window(struct sp_ctx *c, struct sp_ctx *first, const struct ec_both *b, uint64_t sub,
		      struct ec_window *w)
{
	const struct ec *s = c->state;
	const uint64_t at = sub * b->code->m;

	w->sub = sub;
	w->data = s->first->present(first, b->key, sub * b->code->k);
	w->parity = s->first->present(first, ec_parity_key(b->key), at);
	if (w->parity && /* a division takes longer */
	    (at + 64 - (unsigned)__builtin_clzll(w->parity)) * s->limits.chunk_bytes > b->parity.bytes) {
		const uint64_t room = b->parity.bytes / s->limits.chunk_bytes;

		w->parity &= at < room ? ec_ones(room - at) : 0;
	}
}

/* Returns how many of the `n` submessages in a window have the same `width` bits as the first one. */
static unsigned ec_run(uint64_t window, unsigned width, unsigned n)
{
	const uint64_t unlike = n > 1 ? (window ^ window >> width) & ec_ones((uint64_t)(n - 1) * width) : 0;

	return unlike ? (unsigned)__builtin_ctzll(unlike) / width + 1 : n;
}

/* As ec_repairable(), for the first of `n` submessages in the window and those after it that lack the same. *count: how
 * many these are, whether or not they can be repaired. */
static bool ec_repairable_in(const struct ec *s, const struct ec_both *b, const struct ec_window *w, uint64_t sub,
			     unsigned n, struct ec_lost *r, unsigned *count)
{
	const struct sp_ec_code *code = b->code;
	const unsigned data = ec_data(code, b->chunks, sub), rows = sp_ec_parity(code, data);
	const unsigned i = (unsigned)(sub - w->sub);
	const uint64_t chunks = w->data >> i * code->k, parities = w->parity >> i * code->m;
	const uint64_t bytes = (uint64_t)code->k * s->limits.chunk_bytes;
	uint64_t lost, parity;

	if ((sub + n) * bytes > b->data.bytes) { /* the last one's chunk is short, or there are fewer chunks */
		const uint64_t whole = b->data.bytes / bytes;

		n = sub + 1 < whole ? (unsigned)(whole - sub) : 1;
	}
	*count = ec_run(parities, code->m, ec_run(chunks, code->k, n));
	lost = data ? ec_ones(data) & ~chunks : 0;
	if (!lost)
		return false;
	parity = ec_ones(rows) & ~parities;
	r->sub = sub;
	r->data = data;
	r->count = *count;
	r->missing[0] = lost | (data < 64 ? parity << data : 0);
	r->missing[1] = data < 64 ? parity >> (64 - data) : parity;
	r->missing[2] = r->missing[3] = 0;
	r->reserved[0] = lost; /* mostly that is what is reserved */
	r->reserved[1] = r->reserved[2] = r->reserved[3] = 0;
	r->ready = true;
	return sp_ec_recoverable(code, data, r->missing);
}

/* Splits the entries from number `from` on into one per submessage, with nothing reserved. */
static void ec_split(struct ec_decoder *d, unsigned from)
{
	unsigned to = from;

	for (unsigned i = from; i < d->found; i++)
		to += d->lost[i].count;
	for (unsigned i = d->found, at = to; i-- > from;) {
		struct ec_lost one = d->lost[i];

		one.count = 1;
		one.reserved[0] = 0;
		one.ready = false;
		for (unsigned left = d->lost[i].count; left--;) {
			one.sub = d->lost[i].sub + left;
			d->lost[--at] = one; /* never before i; entry i itself is written last */
		}
	}
	d->found = to;
}

/* Reserves at once the missing chunks of all entries from number `from` on: the call takes most of the time. If that
 * does not get all of them, each entry reserves its own when it is next. */
static void ec_reserve_all(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, unsigned from,
			   const struct ec_window *w, uint64_t chunks)
{
	struct ec *s = c->state;
	uint64_t got = chunks;

	__atomic_store_n(&s->pair[(uint32_t)d->key / 2].used, 1, __ATOMIC_RELAXED);
	if (s->first->reserve(first, d->key, w->sub * d->code->k, &got) || got != chunks)
		ec_split(d, from);
}

/* Notes those submessages of a word that can be repaired. Returns the others. */
static uint64_t ec_note_all(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, const struct ec_both *b,
			    uint64_t word, uint64_t subs)
{
	struct ec_lost *r;
	uint64_t others = 0;

	for (; subs; subs &= subs - 1) {
		r = &d->lost[d->found];
		r->sub = word * 64 + (unsigned)__builtin_ctzll(subs);
		if (!ec_repairable(c, first, b, r->sub, r->missing)) {
			others |= subs & -subs;
			continue;
		}
		r->data = ec_data(b->code, b->chunks, r->sub);
		r->count = 1;
		r->ready = false;
		memset(r->reserved, 0, sizeof(r->reserved));
		d->found++;
	}
	return others;
}

/* The same, where a window shows the chunks of all. */
static uint64_t ec_note_narrow(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, const struct ec_both *b,
			       uint64_t word, uint64_t subs)
{
	const unsigned from = d->found;
	uint64_t others = 0, chunks = 0;
	struct ec_window w;
	unsigned count;

	ec_window(c, first, b, word * 64 + (unsigned)__builtin_ctzll(subs), &w);
	while (subs) {
		struct ec_lost *r = &d->lost[d->found];
		const unsigned bit = (unsigned)__builtin_ctzll(subs);
		const uint64_t beyond = ~(subs >> bit);
		const bool can = ec_repairable_in(c->state, b, &w, word * 64 + bit,
						  beyond ? (unsigned)__builtin_ctzll(beyond) : 64, r, &count);
		const uint64_t these = ec_ones(count) << bit;

		subs &= ~these;
		if (!can) {
			others |= these;
			continue;
		}
		chunks |= ec_chunks(d, r) << (r->sub - w.sub) * b->code->k;
		d->found++;
	}
	if (chunks)
		ec_reserve_all(c, first, d, from, &w, chunks);
	return others;
}

/* This worker has taken the submessages `subs` of a word. Notes those that can be repaired, and gives back the others.
 * A chunk that arrived meanwhile found them taken, so the others are looked at once more. */
static void ec_note(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_pair *pair,
		    const struct ec_both *b, uint64_t word, uint64_t subs)
{
	uint64_t others = subs;
	struct ec_both now;

	if (ec_may(c, pair, b))
		others = (ec_narrow(b->code) ? ec_note_narrow : ec_note_all)(c, first, d, b, word, subs);
	if (!others)
		return;
	ec_put_back(c, d, word, others);
	if (c->workers == 1 || !ec_both(c, first, d->key, &now) || !ec_may(c, pair, &now))
		return;
	for (uint64_t missing[SP_EC_WORDS]; others; others &= others - 1)
		if (ec_repairable(c, first, &now, word * 64 + (unsigned)__builtin_ctzll(others), missing))
			ec_fetch_or(c, &pair->wanted[word], others & -others);
}

/* Estimates for how many submessages `left` lasts: other workers may want some, too. */
static unsigned ec_most(const struct ec *s, const struct ec_decoder *d, const struct sp_ec_code *code, uint64_t left)
{
	const unsigned room = EC_BATCH - ec_found(d), width = code->k > code->m ? code->k : code->m;
	const uint64_t cost = SP_EC_ONE + (uint64_t)code->k * s->limits.chunk_bytes * (code->kind == SP_EC_XOR ? 1 : 2);
	unsigned most = width < 64 ? 64 / width : 1;

	most = most < room ? most : room;
	return left >= cost * most ? most : left > cost ? (unsigned)(left / cost) : 1;
}

bool ec_next(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_pair *pair,
	     const struct ec_both *b, uint64_t left, unsigned *looks)
{
	const struct ec *s = c->state;
	const struct sp_ec_code *code = b->code ? b->code : s->code;
	const unsigned most = ec_most(s, d, code, left), before = d->found;
	uint64_t word = d->sub / 64; /* mostly they become wanted in order */

	for (uint64_t words = s->wanted_words; words; words--, word = word + 1 < s->wanted_words ? word + 1 : 0)
		for (uint64_t bits; (bits = __atomic_load_n(&pair->wanted[word], __ATOMIC_SEQ_CST));) {
			const unsigned from = (unsigned)__builtin_ctzll(bits);

			if (!*looks)
				return false;
			bits &= ec_ones(most) << from;
			/* Cleared before looking: a worker that wants it from now on sets it again. */
			ec_fetch_and(c, &pair->wanted[word], ~bits);
			d->sub = word * 64 + from;
			bits &= ~ec_fetch_or(c, &pair->taken[word], bits);
			*looks -= *looks < most ? *looks : most;
			if (bits)
				ec_note(c, first, d, pair, b, word, bits);
			if (d->found > before)
				return true;
		}
	return false;
}
