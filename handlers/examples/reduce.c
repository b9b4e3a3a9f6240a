/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce: adds up the vectors of N senders element by element: the reduce step of an allreduce, in the network, after
 * PsPIN's reduce (Di Girolamo et al., ISCA'21).
 *
 * The vectors of a round arrive as SLMP packets: 12 bytes after the UDP header, big endian: flags (16 bits, not used
 * here), the sender's rank (16), the round (32), offset of the payload in the vector (32). A vector has `elements`
 * 32-bit words, big endian, `segment` bytes to a packet. Round r adds up in slot r % 2 of the memory shared with the
 * host: a word with the round of the sum plus 1 (0: not complete yet), then the sum in words of 64 bits. Two slots are
 * enough: nobody begins round r + 2 of an allreduce before having the sum of round r + 1.
 *
 * A packet that arrives twice is added once: there is a bit per rank and segment. Rounds only go forward: a packet of a
 * round that has ended, or that is older than the latest one in its slot, is dropped. A round that is incomplete after
 * `idle` without a packet is given up; the senders use a new number to try again. Any sender can spoil a sum: the
 * context's filter says who may send.
 */
#include <stdatomic.h>

#include <spindle-handler.h>

enum { MALFORMED, OLD_ROUND, SLOT_BUSY, REPEATED };
static const char *const drops[] = {"malformed", "old-round", "slot-busy", "repeated", NULL};
enum { REDUCED, GIVEN_UP };
static const char *const counters[] = {"reduced", "given-up", NULL};

enum { SLMP = 12, SLOTS = 2, RANKS = 64, SEGMENTS = 64 /* of a vector, at most: bits of a word */ };

/* Who has a slot: state in the upper half, round in the lower. 0: it was never used. */
#define IN_USE (1ull << 32)
#define OVER   (2ull << 32)

struct reduce {
	const struct sp_mem *area;
	uint32_t ranks, bytes /* of a vector on the wire */, segment, segments;
	_Atomic uint64_t owner[SLOTS];
};

struct message {		/* a round */
	_Atomic uint32_t added; /* packets in the sum */
	_Atomic uint64_t claimed[RANKS];
};

static int configure(struct sp_ctx *c, uint64_t *area)
{
	struct reduce *s = c->state;

	s->ranks = (uint32_t)sp_param_uint(c, "ranks");
	s->bytes = (uint32_t)sp_param_uint(c, "elements") * 4;
	s->segment = (uint32_t)sp_param_uint(c, "segment");
	s->segments = (s->bytes + s->segment - 1) / s->segment;
	if (s->segment % 4)
		return sp_fail(c, EINVAL, "segment", "%u is not a whole number of 4-byte words", s->segment);
	if (s->segments > SEGMENTS)
		return sp_fail(c, EINVAL, "elements", "a vector would take %u packets; %d are the most", s->segments,
			       SEGMENTS);
	*area = SLOTS * (8 + 2ull * s->bytes);
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct reduce *s = c->state;

	s->area = sp_host_area(c);
	/* A little above the number of slots, so that header() can refuse the others by name. */
	return sp_messages_limit(c, SLOTS + c->workers, sp_param_uint(c, "idle"));
}

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint64_t slot_at(const struct reduce *s, uint32_t round)
{
	return round % SLOTS * (8 + 2ull * s->bytes);
}

/* A round is a message, whoever sends: the sender's rank counts, not its address. */
static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	const struct reduce *s = c->state;
	uint32_t offset, left;

	if (!(p->flags & SP_PKT_UDP) || p->len < SLMP || get32(p->data) % 65536 >= s->ranks)
		return SP_REJECT(MALFORMED);
	offset = get32(p->data + 8);
	left = s->bytes - offset;
	if (offset % s->segment || offset >= s->bytes || p->len - SLMP != (left < s->segment ? left : s->segment))
		return SP_REJECT(MALFORMED);
	return get32(p->data + 4);
}

/* Takes the slot and clears it. Two rounds may want the same one at the same time, on two workers. */
static uint32_t header(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	struct reduce *s = c->state;
	const uint32_t round = (uint32_t)message->key;
	_Atomic uint64_t *owner = &s->owner[round % SLOTS];
	uint64_t before = *owner, zero = 0;

	(void)p;
	if (before && (int32_t)(round - (uint32_t)before) <= 0)
		return SP_DROP(OLD_ROUND);
	if (before & IN_USE || !atomic_compare_exchange_strong(owner, &before, IN_USE | round))
		return SP_DROP(SLOT_BUSY);
	sp_dma_store64(c, s->area, slot_at(s, round), 0);
	for (uint32_t at = 8; at < 8 + 2 * s->bytes; at += 8)
		sp_dma_write(c, s->area, slot_at(s, round) + at, &zero, 8);
	return SP_DONE;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	struct reduce *s = c->state;
	struct message *m = message->state;
	const uint32_t rank = get32(p->data) % 65536, offset = get32(p->data + 8);
	const uint64_t bit = 1ull << offset / s->segment, sum = slot_at(s, (uint32_t)message->key) + 8 + 2ull * offset;

	if (atomic_fetch_or(&m->claimed[rank], bit) & bit)
		return SP_DROP(REPEATED);
	for (uint32_t i = 0; i < p->len - SLMP; i += 4) /* other workers may be adding other ranks' packets */
		sp_dma_add64(c, s->area, sum + 2ull * i, get32(p->data + SLMP + i), NULL);
	return atomic_fetch_add(&m->added, 1) + 1 == s->ranks * s->segments ? SP_END : SP_DONE;
}

/* Nobody else is in the round now: all additions are visible. */
static void completion(struct sp_ctx *c, struct sp_message *message, enum sp_end end)
{
	struct reduce *s = c->state;
	const uint32_t round = (uint32_t)message->key;

	if (end == SP_END_VERDICT)
		sp_dma_store64(c, s->area, slot_at(s, round), (uint64_t)round + 1);
	c->counters[end == SP_END_VERDICT ? REDUCED : GIVEN_UP]++;
	s->owner[round % SLOTS] = OVER | round;
}

static const struct sp_param params[] = {
	{"ranks", SP_UINT, NULL, 1, RANKS, "senders, each with a vector per round"},
	{"elements", SP_UINT, NULL, 1, 131072, "32-bit words of a vector"},
	{"segment", SP_UINT, "1024", 4, 8192, "payload bytes of every packet but a vector's last; a multiple of 4"},
	{"idle", SP_TIME, "100ms", 0, 0, "give a round up after this time without a packet; 0: never"},
	{NULL},
};

static const struct sp_handler reduce = {
	SP_HANDLER_HEAD,
	.name = "reduce",
	.doc = "adds up the vectors of several senders in host memory",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct reduce),
	.msg_size = sizeof(struct message),
	.messages = SP_MESSAGES_HASHED,
	.configure = configure,
	.attach = attach,
	.classify = classify,
	.header = header,
	.payload = payload,
	.completion = completion,
};
SP_HANDLER(reduce)
