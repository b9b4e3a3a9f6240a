/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strided-copy: scatters the blocks of a message over host memory as MPI's vector datatype says.
 *
 * sPIN's example of datatypes done by the NIC (Hoefler et al., SC'17, "MPI datatypes"; "strided copy" among PsPIN's
 * handlers, Di Girolamo et al., ISCA'21). The sender packs `count` blocks of block-bytes without gaps; here they lie
 * `stride` bytes apart, say as the columns of a matrix, and no processor has to unpack them. A packet may begin and end
 * in the middle of a block.
 *
 * Messages are SLMP's, the Simple Large Message Protocol of FPsPIN: behind the UDP header 12 bytes, big endian: flags
 * (16 bits, bit 0: last packet), 16 bits unused, message number (32), offset of the payload in the message (32). All
 * packets carry `segment` bytes, the last one the rest. A message is (source address, port, number). Packets come in
 * any order.
 *
 * Host memory: `slots` lines of 64 bytes, then as many vectors of (count - 1) * stride + block-bytes, one after the
 * other. Bytes between the blocks are never written. A line's first word changes when the slot's vector is complete,
 * after its last byte was written: it counts the vectors of that slot. The second is source port << 32 | message
 * number.
 *
 * A repeated packet changes nothing. A message keeps its slot until `idle` has passed without a packet: when complete,
 * so that the application may use it and late repeats are not taken for a new message; otherwise it is given up then.
 */
#include <stdatomic.h>

#include <spindle-handler.h>

enum { NOT_UDP, SHORT_HEADER, BAD_OFFSET, BAD_LENGTH, BEYOND_END, REPEATED, NO_SLOT };
static const char *const drops[] = {"not-udp",	  "short-header", "bad-offset", "bad-length",
				    "beyond-end", "repeated",	  "no-slot",	NULL};
enum { COMPLETE, GIVEN_UP, PIECES };
static const char *const counters[] = {"complete", "given-up", "pieces", NULL};

enum { SLMP = 12, LAST = 1, LINE = 64, PACKETS = 4096 };

/* ---- state ------------------------------------------------------------------------------------------------------ */
struct strided_copy {
	const struct sp_mem *area;
	_Atomic bool *taken; /* per slot; header() takes, completion() gives back */
	uint32_t slots, block, segment, packets;
	uint64_t stride, bytes, extent; /* bytes: of a message; extent: from a vector's first byte to its last */
	uint64_t seed[2];		/* of the keys */
};

struct message {
	uint64_t slot; /* from 1, by header() */
	_Atomic uint32_t arrived;
	_Atomic uint64_t bitmap[PACKETS / 64]; /* packets that have come; any worker sets */
};

static int attach(struct sp_ctx *c)
{
	struct strided_copy *s = c->state;
	const uint64_t count = sp_param_uint(c, "count");

	s->slots = (uint32_t)sp_param_uint(c, "slots");
	s->block = (uint32_t)sp_param_uint(c, "block-bytes");
	s->stride = sp_param_uint(c, "stride");
	s->segment = (uint32_t)sp_param_uint(c, "segment");
	s->bytes = count * s->block;
	s->extent = (count - 1) * s->stride + s->block;
	s->seed[0] = sp_random(c);
	s->seed[1] = sp_random(c) | 1;
	if (s->stride < s->block)
		return sp_fail(c, EINVAL, "stride", "blocks of %u bytes would overlap", s->block);
	if (s->bytes > (uint64_t)PACKETS * s->segment)
		return sp_fail(c, EINVAL, "count", "a message would have more than %d packets", PACKETS);
	s->packets = (uint32_t)((s->bytes - 1) / s->segment + 1);
	s->taken = sp_alloc(c, s->slots * sizeof(*s->taken));
	s->area = sp_host_area(c, s->slots * (LINE + s->extent));
	if (!s->taken || !s->area)
		return sp_fail(c, ENOMEM, "slots", "no memory for %u vectors", s->slots);
	/* The NIC's limit is above ours: a message too many shall be dropped by our name. */
	return sp_messages_limit(c, s->slots + 64, sp_param_uint(c, "idle"));
}

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint64_t port_and_number(const struct sp_packet *p)
{
	return (uint64_t)(get32(p->frame + p->l4) >> 16) << 32 | get32(p->data + 4);
}

/* ---- the life of a message -------------------------------------------------------------------------------------- */
/* Address, port and number, multiplied by a secret and folded: that two messages share one of the 2^63 keys is left to
 * chance, which nobody outside can help. */
static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	const struct strided_copy *s = c->state;
	const bool v6 = p->flags & SP_PKT_IPV6;
	uint64_t word[3] = {0}, key = s->seed[0];

	if ((p->flags & (SP_PKT_UDP | SP_PKT_ROCE)) != SP_PKT_UDP)
		return SP_REJECT(NOT_UDP);
	if (p->len < SLMP)
		return SP_REJECT(SHORT_HEADER);
	memcpy(word, p->frame + p->l3 + (v6 ? 8 : 12), v6 ? 16 : 4);
	word[2] = port_and_number(p);
	for (unsigned i = 0; i < 3; i++) {
		unsigned __int128 product = (unsigned __int128)(key ^ word[i]) * s->seed[1];
		key = s->seed[0] + ((uint64_t)product ^ (uint64_t)(product >> 64));
	}
	return key >> 1;
}

static uint32_t header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct strided_copy *s = c->state;
	const uint64_t source = port_and_number(p);
	struct message *t = m->state;

	for (uint32_t i = 0; i < s->slots; i++) {
		if (atomic_exchange(&s->taken[i], true))
			continue;
		t->slot = i + 1;
		sp_dma_write(c, s->area, (uint64_t)i * LINE + 8, &source, sizeof(source));
		return SP_DONE;
	}
	return SP_DROP(NO_SLOT);
}

/* len bytes of the message, from `offset` on, to their blocks: the first and the last may be parts of one. */
static void scatter(struct sp_ctx *c, struct strided_copy *s, uint64_t vector, uint64_t offset, const uint8_t *from,
		    uint32_t len)
{
	while (len) {
		const uint64_t block = offset / s->block, within = offset % s->block;
		const uint32_t piece = s->block - within < len ? (uint32_t)(s->block - within) : len;

		sp_dma_write(c, s->area, vector + block * s->stride + within, from, piece);
		c->counters[PIECES]++;
		offset += piece;
		from += piece;
		len -= piece;
	}
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct strided_copy *s = c->state;
	struct message *t = m->state;
	const uint32_t offset = get32(p->data + 8), len = p->len - SLMP, index = offset / s->segment;
	const bool last = p->data[1] & LAST;
	const uint64_t bit = 1ull << index % 64, slot = t->slot - 1;

	if (offset % s->segment)
		return SP_DROP(BAD_OFFSET);
	if (index >= s->packets)
		return SP_DROP(BEYOND_END);
	/* A message is as long as the datatype: there is one right length for each packet, and one last packet. */
	if (last != (index == s->packets - 1) || len != (last ? s->bytes - offset : s->segment))
		return SP_DROP(BAD_LENGTH);
	if (atomic_fetch_or(&t->bitmap[index / 64], bit) & bit)
		return SP_DROP(REPEATED);
	scatter(c, s, s->slots * LINE + slot * s->extent, offset, p->data + SLMP, len);
	/* Each packet counts once, after its bytes: whoever counts the last one knows that all are in place. */
	if (atomic_fetch_add(&t->arrived, 1) + 1 == s->packets) {
		c->counters[COMPLETE]++;
		sp_dma_add64(c, s->area, slot * LINE, 1, NULL);
	}
	return SP_DONE;
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	struct strided_copy *s = c->state;
	struct message *t = m->state;

	(void)why;
	if (!t->slot)
		return; /* the header never ran */
	if (t->arrived != s->packets)
		c->counters[GIVEN_UP]++;
	s->taken[t->slot - 1] = false;
}

static const struct sp_param params[] = {
	{"count", SP_UINT, NULL, 1, 1 << 20, "blocks of a vector"},
	{"block-bytes", SP_UINT, NULL, 1, 1 << 20, "bytes of a block"},
	{"stride", SP_UINT, NULL, 1, 1 << 20, "bytes from the beginning of a block to that of the next"},
	{"segment", SP_UINT, "1024", 1, 9000, "payload of every packet but a message's last"},
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
	.attach = attach,
	.classify = classify,
	.header = header,
	.payload = payload,
	.completion = completion,
};
SP_HANDLER(strided_copy)
