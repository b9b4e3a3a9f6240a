/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate: sums the 32-bit words of each message, after PsPIN's aggregate (Di Girolamo et al., ISCA'21).
 *
 * Messages use SLMP, the Simple Large Message Protocol of FPsPIN: 12 bytes after the UDP header, big endian: flags (16
 * bits, bit 0: last packet), 16 bits unused, message number (32), offset of the payload in the message (32). All
 * packets but the last carry `segment` bytes, in any order. Words are big endian; the last one of a message is padded
 * with zero bytes. The host gets a ring of results in memory that it shares with the NIC (struct result).
 *
 * A packet that arrives twice is summed once: there is a bit per segment. A message whose sum was published is
 * remembered until `idle` has passed without a packet of it, so a late repeat does not start it again. A message that
 * is incomplete by then is forgotten, without a result.
 */
#include <stdatomic.h>

#include <spindle-handler.h>

enum { MALFORMED, REPEATED };
static const char *const drops[] = {"malformed", "repeated", NULL};
enum { COMPLETE };
static const char *const counters[] = {"complete", NULL};

enum { SLMP = 12, LAST = 1, MESSAGES = 1024 /* at once */, SEGMENTS = 64 /* of a message, at most: bits of a word */ };

/* What the host reads. Results count from 1. Result n is in line (n - 1) % results, and its serial is n, written last.
 * A host that finds another serial was too slow. */
struct result {
	uint64_t serial;
	uint32_t source_port, message;
	uint64_t bytes, sum;
};
static_assert(sizeof(struct result) == 32, "the host reads it");

struct aggregate {
	const struct sp_mem *area;
	uint32_t segment, results;
	_Atomic uint64_t serial; /* of the latest result */
};

struct message {
	_Atomic uint64_t claimed, summed; /* a bit per segment: a worker has it; it is in the sum */
	_Atomic uint64_t all;		  /* the bits of the whole message; 0 until its last packet has arrived */
	_Atomic uint64_t sum, bytes;
	atomic_bool published;
};

static int configure(struct sp_ctx *c, uint64_t *area)
{
	struct aggregate *s = c->state;

	s->segment = (uint32_t)sp_param_uint(c, "segment");
	s->results = (uint32_t)sp_param_uint(c, "results");
	if (s->segment % 4)
		return sp_fail(c, EINVAL, "segment", "%u is not a whole number of 4-byte words", s->segment);
	*area = s->results * sizeof(struct result);
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct aggregate *s = c->state;

	s->area = sp_host_area(c);
	return sp_messages_limit(c, MESSAGES, sp_param_uint(c, "idle"));
}

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* A message is identified by sender's address, port and message number. */
static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	const bool v6 = p->flags & SP_PKT_IPV6;
	uint8_t who[16 + 2 + 4] = {0};

	if (!(p->flags & SP_PKT_UDP) || p->len < SLMP)
		return SP_REJECT(MALFORMED);
	memcpy(who, p->frame + p->l3 + (v6 ? 8 : 12), v6 ? 16 : 4);
	memcpy(who + 16, p->frame + p->l4, 2);
	memcpy(who + 18, p->data + 4, 4);
	return sp_hash(c, who, sizeof(who));
}

static uint64_t sum_of(const uint8_t *data, uint32_t len)
{
	uint8_t rest[4] = {0};
	uint64_t sum = 0;

	for (; len >= 4; data += 4, len -= 4)
		sum += get32(data);
	memcpy(rest, data, len);
	return sum + get32(rest);
}

/* Called once per message, with the packet that completed it. */
static void publish(struct sp_ctx *c, const struct message *m, const struct sp_packet *p)
{
	struct aggregate *s = c->state;
	const uint64_t serial = atomic_fetch_add(&s->serial, 1) + 1,
		       line = (serial - 1) % s->results * sizeof(struct result);
	const struct result r = {.source_port = get32(p->frame + p->l4) >> 16,
				 .message = get32(p->data + 4),
				 .bytes = m->bytes,
				 .sum = m->sum};

	sp_dma_store64(c, s->area, line, 0); /* invalidates the older result */
	sp_dma_write(c, s->area, line + sizeof(r.serial), &r.source_port, sizeof(r) - sizeof(r.serial));
	sp_dma_store64(c, s->area, line, serial);
	c->counters[COMPLETE]++;
}

/* Any worker. Packets that contradict each other, as by an end before others, spoil only their own message. */
static uint32_t payload(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	const struct aggregate *s = c->state;
	struct message *m = message->state;
	const bool last = p->data[1] & LAST;
	const uint32_t offset = get32(p->data + 8), len = p->len - SLMP, index = offset / s->segment;
	uint64_t bit, summed;

	if (offset % s->segment || index >= SEGMENTS || (last ? len > s->segment : len != s->segment))
		return SP_DROP(MALFORMED);
	bit = 1ull << index;
	if (atomic_fetch_or(&m->claimed, bit) & bit)
		return SP_DROP(REPEATED);
	atomic_fetch_add(&m->sum, sum_of(p->data + SLMP, len));
	atomic_fetch_add(&m->bytes, len);
	if (last)
		atomic_fetch_or(&m->all, ~0ull >> (SEGMENTS - 1 - index));
	summed = atomic_fetch_or(&m->summed, bit) | bit; /* after the sum and `all`: the last worker sees both */
	if (summed == m->all && !atomic_exchange(&m->published, true))
		publish(c, m, p);
	return SP_DONE;
}

static const struct sp_param params[] = {
	{"segment", SP_UINT, "1024", 4, 8192, "payload bytes of every packet but a message's last; a multiple of 4"},
	{"results", SP_UINT, "64", 1, 65536, "results that the host's ring holds"},
	{"idle", SP_TIME, "100ms", 0, 0, "forget a message after this time without a packet; 0: never"},
	{NULL},
};

static const struct sp_handler aggregate = {
	SP_HANDLER_HEAD,
	.name = "aggregate",
	.doc = "sums the 32-bit words of messages",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct aggregate),
	.msg_size = sizeof(struct message),
	.messages = SP_MESSAGES_HASHED,
	.configure = configure,
	.attach = attach,
	.classify = classify,
	.payload = payload,
};
SP_HANDLER(aggregate)
