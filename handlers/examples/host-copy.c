/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host-copy: puts the packets of a message straight to their places in host memory, and tells when all are there.
 *
 * What sPIN is for at its simplest (Hoefler et al., SC'17; "host copy" among PsPIN's handlers, Di Girolamo et al.,
 * ISCA'21): no packet waits for another, and each byte is copied once, from the wire to where it is wanted.
 *
 * Messages are SLMP's, the Simple Large Message Protocol of FPsPIN: behind the UDP header 12 bytes, big endian: flags
 * (16 bits, bit 0: last packet), 16 bits unused, message number (32), offset of the payload in the message (32). All
 * packets but the last carry `segment` bytes. A message is (source address, port, number). Packets come in any order.
 *
 * Host memory: `slots` lines of 64 bytes, then as many buffers of max-bytes. A line's first word changes when there is
 * news of its slot: serial << 32 | length in bytes (GIVEN_UP: no length), stored after all of the data; the serial
 * counts the slot's messages from 1. The second word is source port << 32 | message number. An event says the same.
 *
 * A repeated packet changes nothing. A message that is not complete after `idle` without a packet is given up; what has
 * come of it stays in the buffer. A complete one keeps its slot for `idle` too: for so long late repeats are not taken
 * for a new message, and the application has the buffer to itself.
 */
#include <stdatomic.h>

#include <spindle-handler.h>

enum { NOT_UDP, SHORT_HEADER, BAD_OFFSET, BAD_LENGTH, TOO_LONG, CONTRADICTION, REPEATED, NO_SLOT };
static const char *const drops[] = {"not-udp",	     "short-header", "bad-offset", "bad-length", "too-long",
				    "contradiction", "repeated",     "no-slot",	   NULL};
enum { COMPLETE, INCOMPLETE };
static const char *const counters[] = {"complete", "given-up", NULL};

enum { SLMP = 12, LAST = 1, LINE = 64 };
#define GIVEN_UP UINT32_MAX

/* ---- state ------------------------------------------------------------------------------------------------------ */
struct slot {
	_Atomic bool taken; /* who takes it writes serial */
	uint32_t serial;
	_Atomic uint64_t *bitmap; /* packets that have come; any worker sets */
};

struct host_copy {
	const struct sp_mem *area;
	struct slot *slot;
	uint32_t slots, max, segment, words; /* words of a bitmap */
	uint64_t seed[2];		     /* of the keys */
};

struct message {
	struct slot *slot;	 /* by header() */
	_Atomic uint64_t end;	 /* packets << 32 | bytes in all, from the last packet; 0: not known yet */
	_Atomic uint32_t beyond; /* packets up to the furthest one that came */
	_Atomic uint32_t arrived;
};

static int attach(struct sp_ctx *c)
{
	struct host_copy *s = c->state;
	_Atomic uint64_t *bitmap;

	s->slots = (uint32_t)sp_param_uint(c, "slots");
	s->max = (uint32_t)sp_param_uint(c, "max-bytes");
	s->segment = (uint32_t)sp_param_uint(c, "segment");
	s->words = (s->max - 1) / s->segment / 64 + 1;
	s->seed[0] = sp_random(c);
	s->seed[1] = sp_random(c) | 1;
	s->slot = sp_alloc(c, s->slots * sizeof(*s->slot));
	bitmap = sp_alloc(c, sizeof(*bitmap) * s->slots * s->words);
	s->area = sp_host_area(c, (uint64_t)s->slots * (LINE + s->max));
	if (!s->slot || !bitmap || !s->area)
		return sp_fail(c, ENOMEM, "slots", "no memory for %u messages of %u bytes", s->slots, s->max);
	for (uint32_t i = 0; i < s->slots; i++)
		s->slot[i].bitmap = bitmap + (size_t)i * s->words;
	/* The NIC's limit is above ours: a message too many shall be dropped by our name. */
	return sp_messages_limit(c, s->slots + 64, sp_param_uint(c, "idle"));
}

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint32_t source_port(const struct sp_packet *p)
{
	return get32(p->frame + p->l4) >> 16;
}

/* ---- the life of a message -------------------------------------------------------------------------------------- */
/* Address, port and number, multiplied by a secret and folded: that two messages share one of the 2^63 keys is left to
 * chance, which nobody outside can help. */
static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	const struct host_copy *s = c->state;
	const bool v6 = p->flags & SP_PKT_IPV6;
	uint64_t word[3] = {0}, key = s->seed[0];

	if ((p->flags & (SP_PKT_UDP | SP_PKT_ROCE)) != SP_PKT_UDP)
		return SP_REJECT(NOT_UDP);
	if (p->len < SLMP)
		return SP_REJECT(SHORT_HEADER);
	memcpy(word, p->frame + p->l3 + (v6 ? 8 : 12), v6 ? 16 : 4);
	word[2] = (uint64_t)source_port(p) << 32 | get32(p->data + 4);
	for (unsigned i = 0; i < 3; i++) {
		unsigned __int128 product = (unsigned __int128)(key ^ word[i]) * s->seed[1];
		key = s->seed[0] + ((uint64_t)product ^ (uint64_t)(product >> 64));
	}
	return key >> 1;
}

static uint32_t header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct host_copy *s = c->state;
	struct message *t = m->state;
	const uint64_t source = (uint64_t)source_port(p) << 32 | get32(p->data + 4);

	for (uint32_t i = 0; i < s->slots; i++) {
		struct slot *slot = &s->slot[i];
		if (atomic_exchange(&slot->taken, true))
			continue;
		slot->serial++;
		for (uint32_t k = 0; k < s->words; k++)
			atomic_store_explicit(&slot->bitmap[k], 0, memory_order_relaxed);
		t->slot = slot;
		sp_dma_write(c, s->area, (uint64_t)i * LINE + 8, &source, sizeof(source));
		return SP_DONE;
	}
	return SP_DROP(NO_SLOT);
}

/* News of a slot: after everything else that was written there. */
static void tell(struct sp_ctx *c, const struct slot *slot, uint32_t length)
{
	struct host_copy *s = c->state;
	const uint64_t i = (uint64_t)(slot - s->slot);
	struct sp_event event = {.type = SP_EVENT_OWN, .cookie = i, .arg = {slot->serial, length}};

	event.status = length == GIVEN_UP ? -ETIMEDOUT : 0;
	sp_dma_store64(c, s->area, i * LINE, (uint64_t)slot->serial << 32 | length);
	sp_event_post(c, &event); /* where the queue is full the line still says it */
}

/*
 * Any worker, at the same time. A packet announces how far it reaches before it looks for the end, and the last one
 * sets the end before it looks how far others reached: of two that contradict each other at least one sees it, and does
 * not count. So `arrived` reaches the number of packets only when exactly those are there, and one worker sees it do
 * so.
 */
static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct host_copy *s = c->state;
	struct message *t = m->state;
	struct slot *slot = t->slot;
	const bool last = p->data[1] & LAST;
	const uint32_t offset = get32(p->data + 8), len = p->len - SLMP, index = offset / s->segment;
	const uint64_t place = (uint64_t)s->slots * LINE + (uint64_t)(slot - s->slot) * s->max + offset;
	uint64_t bit = 1ull << index % 64, end = 0;
	uint32_t beyond;

	if (offset % s->segment)
		return SP_DROP(BAD_OFFSET);
	if (last ? len > s->segment || (!len && offset) : len != s->segment)
		return SP_DROP(BAD_LENGTH);
	if ((uint64_t)offset + len > s->max)
		return SP_DROP(TOO_LONG);
	for (beyond = t->beyond; beyond <= index && !atomic_compare_exchange_weak(&t->beyond, &beyond, index + 1);)
		;
	if (last)
		atomic_compare_exchange_strong(&t->end, &end, (uint64_t)(index + 1) << 32 | (offset + len));
	end = t->end;
	if (end &&
	    (t->beyond > end >> 32 || last != (index + 1 == end >> 32) || (last && (uint32_t)end != offset + len)))
		return SP_DROP(CONTRADICTION);
	if (atomic_fetch_or(&slot->bitmap[index / 64], bit) & bit)
		return SP_DROP(REPEATED);
	sp_dma_write(c, s->area, place, p->data + SLMP, len);
	if (atomic_fetch_add(&t->arrived, 1) + 1 != t->end >> 32)
		return SP_DONE;
	c->counters[COMPLETE]++;
	tell(c, slot, (uint32_t)t->end);
	return SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	struct message *t = m->state;

	if (!t->slot)
		return; /* the header never ran */
	if (why != SP_END_DETACH && (!t->end || t->arrived != t->end >> 32)) {
		c->counters[INCOMPLETE]++;
		tell(c, t->slot, GIVEN_UP);
	}
	t->slot->taken = false;
}

static const struct sp_param params[] = {
	{"slots", SP_UINT, "16", 1, 4096, "messages at once; the packets of more than that are the drop `no-slot`"},
	{"max-bytes", SP_UINT, "64K", 1, 1 << 30, "the longest message"},
	{"segment", SP_UINT, "1024", 1, 9000, "payload of every packet but a message's last"},
	{"idle", SP_TIME, "10ms", 0, 0, "after this time without a packet a message is over; 0: never"},
	{NULL},
};

static const struct sp_handler host_copy = {
	SP_HANDLER_HEAD,
	.name = "host-copy",
	.doc = "places the packets of messages in host memory",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct host_copy),
	.msg_size = sizeof(struct message),
	.messages = SP_MESSAGES_HASHED,
	.attach = attach,
	.classify = classify,
	.header = header,
	.payload = payload,
	.completion = completion,
};
SP_HANDLER(host_copy)
