/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ping-pong: sends whole messages back to their sender, after sPIN's ping-pong (Hoefler et al., SC'17).
 *
 * Messages use SLMP, the Simple Large Message Protocol of FPsPIN: 12 bytes after the UDP header, big endian: flags (16
 * bits, bit 0: last packet), 16 bits unused, message number (32), offset of the payload in the message (32). All
 * packets but the last carry `segment` bytes. They arrive in any order, are held until all are there, and go back in
 * the order of their offsets. A repeated packet goes back once. A message that is incomplete after `idle` without a
 * packet is given up.
 *
 * Only MAC addresses, IP addresses and ports are swapped. Internet checksums do not depend on the order of the summed
 * words, so they stay right, and a wrong one stays wrong for the sender to see.
 */
#include <stdatomic.h>

#include <spindle-handler.h>

enum { MALFORMED, UNANSWERABLE, REPEATED, NO_ROOM };
static const char *const drops[] = {"malformed", "unanswerable", "repeated", "no-room", NULL};
enum { ANSWERED, GIVEN_UP, UNSENT };
static const char *const counters[] = {"answered", "given-up", "unsent-packets", NULL};

enum { SLMP = 12, LAST = 1, MESSAGES = 64 /* at once */, SEGMENTS = 64 /* of a message, at most: bits of a word */ };

struct ping_pong {
	uint32_t segment;
};

struct message {
	_Atomic uint64_t claimed, there; /* a bit per segment: a worker has it; it is in `held` */
	_Atomic uint64_t all;		 /* the bits of a whole message; 0 until its last packet has arrived */
	struct sp_packet held[SEGMENTS]; /* each written by the worker that set its bit in `claimed` */
};

static int attach(struct sp_ctx *c)
{
	struct ping_pong *s = c->state;

	s->segment = (uint32_t)sp_param_uint(c, "segment");
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
	const uint8_t *ip = p->frame + p->l3, *udp = p->frame + p->l4;
	uint8_t who[16 + 2 + 4] = {0};

	if (!(p->flags & SP_PKT_UDP) || p->len < SLMP)
		return SP_REJECT(MALFORMED);
	/* Options may be a source route, groups do not send, and another ping-pong would answer the answer for ever. */
	if (udp - ip != (v6 ? 40 : 20) || (p->frame[0] | p->frame[6]) & 1 || !memcmp(udp, udp + 2, 2))
		return SP_REJECT(UNANSWERABLE);
	memcpy(who, ip + (v6 ? 8 : 12), v6 ? 16 : 4);
	memcpy(who + 16, udp, 2);
	memcpy(who + 18, p->data + 4, 4);
	return sp_hash(c, who, sizeof(who));
}

static void swap(uint8_t *a, uint8_t *b, size_t len)
{
	for (; len--; a++, b++) {
		const uint8_t t = *a;
		*a = *b;
		*b = t;
	}
}

/* Any worker. Packets that contradict each other, as by an end before others, never complete a message. */
static uint32_t payload(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	const struct ping_pong *s = c->state;
	struct message *m = message->state;
	const bool last = p->data[1] & LAST;
	const uint32_t offset = get32(p->data + 8), len = p->len - SLMP, index = offset / s->segment;
	uint64_t bit, there;

	if (offset % s->segment || index >= SEGMENTS || (last ? len > s->segment : len != s->segment))
		return SP_DROP(MALFORMED);
	bit = 1ull << index;
	if (atomic_fetch_or(&m->claimed, bit) & bit)
		return SP_DROP(REPEATED);
	if (sp_packet_keep(c, p)) {
		atomic_fetch_and(&m->claimed, ~bit); /* the sender may repeat it */
		return SP_DROP(NO_ROOM);
	}
	m->held[index] = *p;
	if (last)
		atomic_fetch_or(&m->all, ~0ull >> (SEGMENTS - 1 - index));
	there = atomic_fetch_or(&m->there, bit) | bit; /* after `all`: the last worker sees both */
	return there == m->all ? SP_END : SP_DONE;
}

/* Nobody else is in the message now. The NIC owns the packets: each held one is released, however the message ends. */
static void completion(struct sp_ctx *c, struct sp_message *message, enum sp_end end)
{
	struct message *m = message->state;
	const bool whole = end == SP_END_VERDICT;

	for (struct sp_packet *p = m->held; p < m->held + SEGMENTS; p++) {
		const bool v6 = p->flags & SP_PKT_IPV6;

		if (!p->buf)
			continue;
		if (whole) {
			swap(p->frame, p->frame + 6, 6);
			swap(p->frame + p->l3 + (v6 ? 8 : 12), p->frame + p->l3 + (v6 ? 24 : 16), v6 ? 16 : 4);
			swap(p->frame + p->l4, p->frame + p->l4 + 2, 2);
			c->counters[UNSENT] += sp_send_frame(c, p->port, p->frame, p->frame_len) != 0;
		}
		sp_packet_release(c, p->buf);
	}
	c->counters[whole ? ANSWERED : GIVEN_UP]++;
}

static const struct sp_param params[] = {
	{"segment", SP_UINT, "1024", 1, 8192, "payload bytes of every packet but a message's last"},
	{"idle", SP_TIME, "100ms", 0, 0, "give a message up after this time without a packet; 0: never"},
	{NULL},
};

static const struct sp_handler ping_pong = {
	SP_HANDLER_HEAD,
	.name = "ping-pong",
	.doc = "sends whole messages back to their senders",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct ping_pong),
	.msg_size = sizeof(struct message),
	.messages = SP_MESSAGES_HASHED,
	.attach = attach,
	.classify = classify,
	.payload = payload,
	.completion = completion,
};
SP_HANDLER(ping_pong)
