/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host-copy: places the packets of a message in host memory, and reports when all are there.
 *
 * The simplest use of sPIN (Hoefler et al., SC'17; "host copy" among PsPIN's handlers, Di Girolamo et al., ISCA'21): no
 * packet waits for another, and each byte is copied once, from the wire to its place.
 *
 * Messages use SLMP, the Simple Large Message Protocol of FPsPIN: 12 bytes after the UDP header, big endian: flags (16
 * bits, bit 0: last packet), 16 bits unused, message number (32), offset of the payload in the message (32). All
 * packets but the last carry `segment` bytes. They arrive in any order, and repeats change nothing.
 *
 * Host memory: `slots` times a struct head and room for a message. When a message is complete, its slot's head says so
 * after all of its data, and so does an event. It has its slot until `idle` has passed without a packet: until then
 * late repeats do not count as a new message, and the data is the application's. A message that is incomplete by then
 * is given up.
 */
#include <stdatomic.h>

#include <spindle-handler.h>

enum { MALFORMED, REPEATED, NO_SLOT };
static const char *const drops[] = {"malformed", "repeated", "no-slot", NULL};
enum { COMPLETE, GIVEN_UP };
static const char *const counters[] = {"complete", "given-up", NULL};

enum { SLMP = 12, LAST = 1, SEGMENTS = 64 /* of a message, at most: bits of a word */ };

struct head {		   /* what the host reads */
	uint64_t complete; /* complete messages of this slot so far, written after their data */
	uint32_t message, source_port;
	uint64_t bytes;
};
static_assert(sizeof(struct head) == 24, "the host reads it");

struct host_copy {
	const struct sp_mem *area;
	atomic_bool *taken; /* per slot; header() takes, completion() gives back */
	uint32_t slots, segment;
	uint64_t slot_bytes;
};

struct message {
	uint32_t slot;			  /* by header() */
	_Atomic uint64_t claimed, placed; /* a bit per segment: a worker has it; it is in host memory */
	_Atomic uint64_t all;		  /* the bits of the whole message; 0 until its last packet has arrived */
	_Atomic uint64_t bytes;
	atomic_bool published;
};

static int configure(struct sp_ctx *c, uint64_t *area)
{
	struct host_copy *s = c->state;

	s->slots = (uint32_t)sp_param_uint(c, "slots");
	s->segment = (uint32_t)sp_param_uint(c, "segment");
	s->slot_bytes = sizeof(struct head) + (uint64_t)SEGMENTS * s->segment;
	*area = s->slots * s->slot_bytes;
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct host_copy *s = c->state;

	s->area = sp_host_area(c);
	s->taken = sp_alloc(c, s->slots * sizeof(*s->taken));
	if (!s->taken)
		return sp_fail(c, ENOMEM, "slots", "no memory for %u messages", s->slots);
	/* The NIC's limit is above ours, so that a message beyond ours is dropped under our name. */
	return sp_messages_limit(c, s->slots + c->workers, sp_param_uint(c, "idle"));
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

/* Headers of other messages may run on other workers: the first to find a slot free has it. */
static uint32_t header(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	struct host_copy *s = c->state;
	const uint32_t who[] = {get32(p->data + 4), get32(p->frame + p->l4) >> 16};

	for (uint32_t slot = 0; slot < s->slots; slot++) {
		if (atomic_exchange(&s->taken[slot], true))
			continue;
		((struct message *)message->state)->slot = slot;
		sp_dma_write(c, s->area, slot * s->slot_bytes + offsetof(struct head, message), who, sizeof(who));
		return SP_DONE;
	}
	return SP_DROP(NO_SLOT);
}

/* Once per message, by the worker that completes it. */
static void publish(struct sp_ctx *c, struct message *m)
{
	const struct host_copy *s = c->state;
	const uint64_t head = m->slot * s->slot_bytes, bytes = m->bytes;
	const struct sp_event event = {.type = SP_EVENT_OWN, .cookie = m->slot, .arg = {bytes}};

	sp_dma_write(c, s->area, head + offsetof(struct head, bytes), &bytes, sizeof(bytes));
	sp_dma_add64(c, s->area, head, 1, NULL);
	sp_event_post(c, &event); /* a hint: if the queue is full, the head still says it */
	c->counters[COMPLETE]++;
}

/* Any worker. Packets that contradict each other, as by an end before others, spoil only their own message. */
static uint32_t payload(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	const struct host_copy *s = c->state;
	struct message *m = message->state;
	const bool last = p->data[1] & LAST;
	const uint32_t offset = get32(p->data + 8), len = p->len - SLMP, index = offset / s->segment;
	uint64_t bit, placed;

	if (offset % s->segment || index >= SEGMENTS || (last ? len > s->segment : len != s->segment))
		return SP_DROP(MALFORMED);
	bit = 1ull << index;
	if (atomic_fetch_or(&m->claimed, bit) & bit)
		return SP_DROP(REPEATED);
	sp_dma_write(c, s->area, m->slot * s->slot_bytes + sizeof(struct head) + offset, p->data + SLMP, len);
	atomic_fetch_add(&m->bytes, len);
	if (last)
		atomic_fetch_or(&m->all, ~0ull >> (SEGMENTS - 1 - index));
	placed = atomic_fetch_or(&m->placed, bit) | bit; /* after data and `all`: the last worker sees both */
	if (placed == m->all && !atomic_exchange(&m->published, true))
		publish(c, m);
	return SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *message, enum sp_end end)
{
	struct host_copy *s = c->state;
	const struct message *m = message->state;

	(void)end; /* silent for `idle`, or the context ends */
	c->counters[GIVEN_UP] += !m->published;
	s->taken[m->slot] = false;
}

static const struct sp_param params[] = {
	{"slots", SP_UINT, "16", 1, 4096, "messages at once; the packets of more than that are the drop `no-slot`"},
	{"segment", SP_UINT, "1024", 1, 8192, "payload of every packet but a message's last"},
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
	.configure = configure,
	.attach = attach,
	.classify = classify,
	.header = header,
	.payload = payload,
	.completion = completion,
};
SP_HANDLER(host_copy)
