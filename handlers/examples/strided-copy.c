/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strided-copy: scatters the blocks of a message over host memory as MPI's vector datatype says.
 *
 * sPIN's example of datatypes done by the NIC (Hoefler et al., SC'17, "MPI datatypes"; "strided copy" among PsPIN's
 * handlers, Di Girolamo et al., ISCA'21). The sender packs `count` blocks of block-bytes without gaps. Here they are
 * placed `stride` bytes apart, as the columns of a matrix, and no processor has to unpack them. A packet may begin and
 * end in the middle of a block.
 *
 * Messages use SLMP, the Simple Large Message Protocol of FPsPIN: 12 bytes after the UDP header, big endian: flags (16
 * bits, bit 0: last packet), 16 bits unused, message number (32), offset of the payload in the message (32). All
 * packets but the last carry `segment` bytes. They arrive in any order, and repeats change nothing.
 *
 * Host memory: `slots` times a struct head and a vector; bytes between the blocks are never written. A message has its
 * slot until `idle` has passed without a packet: if it is complete, so that the application can use it and late repeats
 * do not count as a new message; otherwise it is given up then.
 */
#include <stdatomic.h>

#include <spindle-handler.h>

enum { MALFORMED, REPEATED, NO_SLOT };
static const char *const drops[] = {"malformed", "repeated", "no-slot", NULL};
enum { COMPLETE, GIVEN_UP };
static const char *const counters[] = {"complete", "given-up", NULL};

enum { SLMP = 12, LAST = 1, SEGMENTS = 64 /* of a message, at most: bits of a word */ };

struct head {		   /* what the host reads */
	uint64_t complete; /* complete vectors of this slot so far, written after their data */
	uint32_t message, source_port;
};
static_assert(sizeof(struct head) == 16, "the host reads it");

struct strided_copy {
	const struct sp_mem *area;
	atomic_bool *taken; /* per slot; header() takes, completion() gives back */
	uint32_t slots, block, segment;
	uint64_t stride, slot_bytes;
	uint64_t bytes, all; /* of a message; the bits of a whole one */
};

struct message {
	uint32_t slot;			  /* by header() */
	_Atomic uint64_t claimed, placed; /* a bit per segment: a worker has it; it is in host memory */
};

static int configure(struct sp_ctx *c, uint64_t *area)
{
	struct strided_copy *s = c->state;
	const uint64_t count = sp_param_uint(c, "count");

	s->slots = (uint32_t)sp_param_uint(c, "slots");
	s->block = (uint32_t)sp_param_uint(c, "block-bytes");
	s->stride = sp_param_uint(c, "stride");
	s->segment = (uint32_t)sp_param_uint(c, "segment");
	s->bytes = count * s->block;
	s->slot_bytes = sizeof(struct head) + (count * s->stride + 7) / 8 * 8;
	if (s->stride < s->block)
		return sp_fail(c, EINVAL, "stride", "blocks of %u bytes would overlap", s->block);
	if (s->bytes > (uint64_t)SEGMENTS * s->segment)
		return sp_fail(c, EINVAL, "count", "a message would have more than %d packets", SEGMENTS);
	s->all = ~0ull >> (SEGMENTS - 1 - (s->bytes - 1) / s->segment);
	*area = s->slots * s->slot_bytes;
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct strided_copy *s = c->state;

	s->area = sp_host_area(c);
	s->taken = sp_alloc(c, s->slots * sizeof(*s->taken));
	if (!s->taken)
		return sp_fail(c, ENOMEM, "slots", "no memory for %u vectors", s->slots);
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
	struct strided_copy *s = c->state;
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

static uint32_t payload(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	const struct strided_copy *s = c->state;
	struct message *m = message->state;
	const uint32_t offset = get32(p->data + 8), len = p->len - SLMP;
	const uint64_t head = m->slot * s->slot_bytes, vector = head + sizeof(struct head);
	const uint64_t left = offset < s->bytes ? s->bytes - offset : 0;
	uint64_t bit;

	/* A message is as long as the datatype: each packet has one right length, and there is one last packet. */
	if (!left || offset % s->segment || len != (left < s->segment ? left : s->segment) ||
	    (p->data[1] & LAST) != (left <= s->segment))
		return SP_DROP(MALFORMED);
	bit = 1ull << offset / s->segment;
	if (atomic_fetch_or(&m->claimed, bit) & bit)
		return SP_DROP(REPEATED);
	for (uint32_t done = 0, piece; done < len; done += piece) { /* the first and the last may be parts of a block */
		const uint64_t block = (offset + done) / s->block, within = (offset + done) % s->block;

		piece = s->block - within < len - done ? (uint32_t)(s->block - within) : len - done;
		sp_dma_write(c, s->area, vector + block * s->stride + within, p->data + SLMP + done, piece);
	}
	if ((atomic_fetch_or(&m->placed, bit) | bit) == s->all) { /* all bytes are in place; one packet finds it so */
		sp_dma_add64(c, s->area, head, 1, NULL);
		c->counters[COMPLETE]++;
	}
	return SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *message, enum sp_end end)
{
	struct strided_copy *s = c->state;
	const struct message *m = message->state;

	(void)end; /* silent for `idle`, or the context ends */
	c->counters[GIVEN_UP] += m->placed != s->all;
	s->taken[m->slot] = false;
}

static const struct sp_param params[] = {
	{"count", SP_UINT, NULL, 1, 1 << 20, "blocks of a vector"},
	{"block-bytes", SP_UINT, NULL, 1, 1 << 20, "bytes of a block"},
	{"stride", SP_UINT, NULL, 1, 1 << 20, "bytes from the beginning of a block to that of the next"},
	{"segment", SP_UINT, "1024", 1, 8192, "payload of every packet but a message's last"},
	{"slots", SP_UINT, "4", 1, 1024, "messages at once; the packets of more than that are the drop `no-slot`"},
	{"idle", SP_TIME, "10ms", 0, 0, "after this time without a packet a message is over; 0: never"},
	{NULL},
};

static const struct sp_handler strided_copy = {
	SP_HANDLER_HEAD,
	.name = "strided-copy",
	.doc = "scatters messages over host memory by a vector datatype",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct strided_copy),
	.msg_size = sizeof(struct message),
	.messages = SP_MESSAGES_HASHED,
	.configure = configure,
	.attach = attach,
	.classify = classify,
	.header = header,
	.payload = payload,
	.completion = completion,
};
SP_HANDLER(strided_copy)
