/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ec, repairs. A worker takes submessages that can be repaired (find.c), reserves their missing chunks, computes them
 * in place, a slice at a time, and hands them over (supply). Meanwhile it holds both messages, so that neither buffer
 * is given back. Small submessages share a slice, as many as there is time for: what is done once for all of them takes
 * as long as computing one.
 */
#include "decode.h"
#include "find.h"

#define EC_LOOKS 64 /* submessages looked at in a slice: some 5 us */

static void ec_let_go(struct sp_ctx *c, struct ec_decoder *d)
{
	ec_put_back_lost(c, d, d->found);
	d->found = d->repaired = d->along = 0;
	if (d->parity)
		sp_message_release(c, d->parity);
	if (d->data)
		sp_message_release(c, d->data);
	d->data = d->parity = NULL;
	d->running = false;
}

/* Holds both messages of the pair. False: one has ended. */
static bool ec_hold(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_pair *pair,
		    struct ec_both *b)
{
	for (;;) {
		d->key = __atomic_load_n(&pair->key, __ATOMIC_SEQ_CST);
		d->data = sp_message_hold(c, d->key);
		d->parity = d->data ? sp_message_hold(c, ec_parity_key(d->key)) : NULL;
		if (d->parity && ec_both(c, first, d->key, b))
			return true;
		ec_let_go(c, d);
		/* One has ended, so nothing is wanted of them; unless the pair is by now about the next messages. */
		if (__atomic_load_n(&pair->key, __ATOMIC_SEQ_CST) != d->key)
			continue;
		ec_want(c, pair, 0);
		__atomic_store_n(&pair->look, 1, __ATOMIC_RELAXED);
		if (__atomic_load_n(&pair->key, __ATOMIC_SEQ_CST) == d->key)
			return false;
		ec_want(c, pair, UINT64_MAX);
	}
}

/* Reserves the missing chunks for this worker. Returns 0, or -EAGAIN: other workers are writing to some of them. */
static int ec_reserve(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_lost *r)
{
	struct ec *s = c->state;
	struct ec_pair *pair = &s->pair[(uint32_t)d->key / 2];
	int waits = 0;

	for (unsigned at = 0; at < r->data; at += 64) {
		const uint64_t wanted = r->missing[at / 64] & ec_ones(r->data - at) & ~r->reserved[at / 64];
		uint64_t got = wanted;

		if (!wanted)
			continue;
		__atomic_store_n(&pair->used, 1, __ATOMIC_RELAXED);
		if (s->first->reserve(first, d->key, r->sub * d->code->k + at, &got) == -EAGAIN)
			waits = -EAGAIN;
		else
			r->missing[at / 64] &= ~(wanted & ~got); /* the others have arrived meanwhile */
		r->reserved[at / 64] |= got;
	}
	r->ready = !waits;
	return waits;
}

/* Starts the job for a submessage. False: nothing is missing any more. */
static bool ec_begin(struct sp_ctx *c, struct ec_decoder *d, const struct ec_both *b, const struct ec_lost *r,
		     uint64_t at_sub)
{
	const struct ec *s = c->state;
	const uint32_t bytes = s->limits.chunk_bytes;
	const unsigned data = r->data;
	const uint64_t at = at_sub * d->code->k, to = b->data.offset + at * bytes;
	const uint64_t from = b->parity.offset + at_sub * d->code->m * bytes;
	const uint64_t left = b->data.bytes - (at + data - 1) * bytes;
	const bool more = left > bytes; /* another submessage follows */
	const struct sp_ec_submessage sub = {.data = data,
					     .bytes = bytes,
					     .last = left < bytes ? (uint32_t)left : bytes,
					     .cold = b->data.bytes >= SP_EC_LONG,
					     .past = b->data.bytes >= SP_EC_LONG,
					     .data_ahead = more ? (uint64_t)d->code->k * bytes : 0,
					     .parity_ahead = more ? (uint64_t)d->code->m * bytes : 0,
					     .chunk = d->chunk};
	bool without = false;

	for (unsigned j = 0; j < data; j++)
		d->chunk[j] = b->data.mem->base + to + (uint64_t)j * bytes;
	for (unsigned j = 0; c->watch && j < data; j++)
		if (sp_ec_bit(r->missing, j))
			without |= sp_dma_traced(c, b->data.mem, to + (uint64_t)j * bytes, d->chunk[j],
						 j + 1 < data ? bytes : sub.last);
	for (unsigned i = 0, rows = sp_ec_parity(d->code, data); i < rows; i++)
		d->chunk[data + i] =
			sp_ec_bit(r->missing, data + i) ? NULL : b->parity.mem->base + from + (uint64_t)i * bytes;
	if (sp_ec_decode_start(&d->job, d->code, &sub, r->missing))
		return false;
	if (without)
		sp_ec_job_dry(&d->job);
	return true;
}

static bool ec_alike(const struct ec_lost *a, const struct ec_lost *b)
{
	for (unsigned i = 0; i < SP_EC_WORDS; i++)
		if (a->missing[i] != b->missing[i])
			return false;
	return a->data == b->data;
}

/* Repeats the job for this submessage, if it did the same for one before. Otherwise returns false. With short chunks,
 * finding out what to do takes long. */
static bool ec_again(struct sp_ctx *c, struct ec_decoder *d, const struct ec_both *b, const struct ec_lost *r,
		     uint64_t sub)
{
	const uint32_t bytes = c->watch ? 0 : ((const struct ec *)c->state)->limits.chunk_bytes;
	const uint64_t end = (sub * d->code->k + r->data) * bytes, on = sub - d->at;

	if (!bytes || !d->same || sub < d->at || end > b->data.bytes ||
	    (!d->along && (!d->repaired || !ec_alike(r, r - 1))))
		return false;
	sp_ec_job_again(&d->job, on * d->code->k * bytes, on * d->code->m * bytes);
	return true;
}

/* Repeats the job for more submessages of the same row, as many as there is time for. Returns what that took. */
static uint64_t ec_repeat(struct sp_ctx *c, struct ec_decoder *d, const struct ec_lost *r, uint64_t budget)
{
	const uint64_t bytes = ((const struct ec *)c->state)->limits.chunk_bytes;

	if (c->watch || !d->same || d->along == r->count)
		return 0;
	d->along += sp_ec_job_repeat(&d->job, d->code->k * bytes, d->code->m * bytes, r->count - d->along, budget);
	d->at = r->sub + d->along - 1;
	return sp_ec_job_spent(&d->job);
}

/* What a slice has repaired. */
struct ec_made {
	uint64_t submessages, chunks, bytes;
	bool computed;
};

/* Hands over chunks `from` + i, which are in place. */
static bool ec_supply(struct sp_ctx *c, struct sp_ctx *first, const struct ec_decoder *d, const struct ec_both *b,
		      uint64_t from, uint64_t chunks, struct ec_made *made)
{
	const struct ec *s = c->state;
	const uint32_t bytes = s->limits.chunk_bytes;
	const uint64_t chunk = sp_quotient(b->data.bytes - 1, bytes), last = chunk - from,
		       count = (unsigned)__builtin_popcountll(chunks);

	if (!chunks || s->first->supply(first, d->key, from, chunks))
		return false;
	made->chunks += count;
	made->bytes += count * bytes;
	if (last < 64 && chunks >> last & 1)
		made->bytes -= (chunk + 1) * bytes - b->data.bytes;
	return true;
}

static bool ec_supply_wide(struct sp_ctx *c, struct sp_ctx *first, const struct ec_decoder *d, const struct ec_both *b,
			   const struct ec_lost *r, struct ec_made *made)
{
	bool any = false;

	for (unsigned at = 0; at < r->data; at += 64)
		any |= ec_supply(c, first, d, b, r->sub * d->code->k + at, r->reserved[at / 64], made);
	return any;
}

/* Hands over what is repaired, several submessages at once: the fence after stores past the caches takes as long for
 * one, and publishing 64 chunks takes as long as publishing one. */
static void ec_hand_over(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, const struct ec_both *b,
			 struct ec_made *made)
{
	const bool part = d->along;
	struct ec_lost rest;
	unsigned i = 0;

	if (part) { /* part of a row: the others stay */
		rest = d->lost[d->repaired];
		d->lost[d->repaired++].count = d->along;
		rest.sub += d->along;
		rest.count -= d->along;
		d->along = 0;
	}
	if (!d->repaired)
		return;
	sp_ec_job_settle(&d->job);
	while (i < d->repaired) {
		const struct ec_lost *r = &d->lost[i++];
		const uint64_t from = r->sub * d->code->k;
		uint64_t chunks, subs = r->reserved[0] ? r->count : 0;

		if (r->data > 64) {
			made->submessages += ec_supply_wide(c, first, d, b, r, made);
			continue;
		}
		for (chunks = ec_chunks(d, r); i < d->repaired && d->lost[i].sub > r->sub; i++) {
			const struct ec_lost *next = &d->lost[i];
			const uint64_t ahead = next->sub * d->code->k - from;

			if (ahead + (next->count - 1) * d->code->k + next->data > 64)
				break;
			chunks |= ec_chunks(d, next) << ahead;
			subs += next->reserved[0] ? next->count : 0;
		}
		if (ec_supply(c, first, d, b, from, chunks, made))
			made->submessages += subs;
	}
	ec_put_back_lost(c, d, d->repaired);
	if (part)
		d->lost[--d->repaired] = rest;
	d->found -= d->repaired;
	memmove(d->lost, d->lost + d->repaired, d->found * sizeof(*d->lost));
	d->repaired = 0;
}

/* Works on the first entry that is not repaired, for `budget` at most. Returns what it took. *waits: another worker
 * still writes there. */
static uint64_t ec_repair(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_both *b,
			  uint64_t budget, struct ec_made *made, bool *waits)
{
	struct ec *s = c->state;
	struct ec_lost *r = &d->lost[d->repaired];
	const uint64_t sub = r->sub + d->along;
	uint64_t took = SP_EC_ONE;

	if (!d->running) {
		*waits = !r->ready && ec_reserve(c, first, d, r);
		if (*waits)
			return took;
		if (!b->data.fixed)
			ec_both(c, first, d->key, b); /* the length is fixed once a chunk is reserved */
		if (b->data.bytes != d->bytes) {      /* the sender contradicts itself, on another worker */
			ec_mismatch(c, &s->pair[(uint32_t)d->key / 2]);
			memset(r->reserved, 0, sizeof(r->reserved));
			d->same = false;
			d->along = r->count - 1;
		} else {
			d->running = d->same = ec_again(c, d, b, r, sub) || ec_begin(c, d, b, r, sub);
			d->at = sub;
		}
	}
	if (d->running) {
		made->computed = true;
		d->running = sp_ec_job_step(&d->job, budget);
		took += sp_ec_job_spent(&d->job);
	}
	if (d->running)
		return took;
	d->along++;
	if (took < budget)
		took += ec_repeat(c, d, r, budget - took);
	if (d->along == r->count) {
		d->repaired++;
		d->along = 0;
	}
	return took;
}

/* True: there is something to repair. left: of the slice. */
static bool ec_more(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_pair *pair,
		    struct ec_both *b, uint64_t left, unsigned *looks, struct ec_made *made)
{
	if (d->repaired < d->found)
		return true;
	if (b->data.complete)
		return false;
	if (ec_found(d) == EC_BATCH || (d->found && (b->data.bytes != d->bytes || b->code != d->code)))
		ec_hand_over(c, first, d, b, made);
	d->bytes = b->data.bytes;
	d->code = b->code;
	return ec_next(c, first, d, pair, b, left, looks);
}

/* Repairs, for one slice, submessages of the pair whose messages are held. False: nothing is left for now. A slice that
 * begins with entries left over does only those: now and then the messages must be released. */
static bool ec_repairs(struct sp_ctx *c, struct sp_ctx *first, struct ec_decoder *d, struct ec_pair *pair,
		       struct ec_both *b)
{
	const struct ec *s = c->state;
	const bool again = d->found;
	uint64_t left = SP_EC_SLICE, took;
	unsigned looks = EC_LOOKS;
	struct ec_made made = {0};
	bool more, waits = false;

	do {
		if (b->data.complete)
			ec_want(c, pair, 0);
		more = ec_more(c, first, d, pair, b, left, &looks, &made);
		if (!more)
			break;
		took = ec_repair(c, first, d, b, left, &made, &waits);
		left -= took < left ? took : left;
		if (!b->data.fixed)
			s->first->extent(first, d->key, &b->data);
	} while (!waits && !d->running && took <= left && /* the next one may take as long */
		 (!again || d->repaired < d->found));
	ec_hand_over(c, first, d, b, &made);
	s->first->extent(first, d->key, &b->data);
	if (made.computed)
		ec_count(c, SP_EC_DECODE_SLICES, 1);
	if (made.chunks) {
		ec_count(c, SP_EC_DECODED, made.submessages);
		ec_count(c, SP_EC_REPAIRED_CHUNKS, made.chunks);
		ec_count(c, SP_EC_DECODED_BYTES, made.bytes);
	}
	if (d->found)
		return true;
	if (b->data.complete)
		ec_want(c, pair, 0);
	ec_let_go(c, d);
	return more && ec_wants(s, pair); /* a slice for nothing would end the message in it */
}

/* One slice for the first pair in the queue. */
bool ec_decode(struct sp_ctx *c, struct ec_decoder *d)
{
	struct ec *s = c->state;
	struct ec_pair *pair = &s->pair[d->queue[d->first]];
	struct sp_ctx *first;
	struct ec_both b;
	bool held = true;

	if (!d->count)
		return false;
	sp_first(c, &first);
	if (d->data)
		ec_both(c, first, d->key, &b); /* both are still held, so they are a pair */
	else
		held = ec_hold(c, first, d, pair, &b);
	if (held && ec_repairs(c, first, d, pair, &b))
		return true;
	d->first = (d->first + 1) % (s->limits.messages / 2);
	d->count--;
	ec_fetch_and(c, &pair->queued, ~(1ull << c->worker));
	/* Something may be left, or another worker wanted something while the pair was queued. */
	if (ec_wants(s, pair))
		ec_queue(c, pair);
	return d->count;
}

/* Workers have left. Messages that we hold can end now. */
void ec_decode_detach(struct sp_ctx *c)
{
	struct ec *s = c->state;

	for (unsigned w = 0; w < c->workers; w++)
		ec_let_go(c, &s->decoder[w]);
}
