/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reorder-ring: numbered packets, in any order, become a ring in host memory that is read in order.
 *
 * After the out-of-order ring buffer among sPIN's and PsPIN's handlers (Hoefler et al., SC'17; Di Girolamo et al.,
 * ISCA'21). A context has one ring, for the one stream of packets that its filter picks.
 *
 * Packets are SLMP's, the Simple Large Message Protocol of FPsPIN: behind the UDP header 12 bytes, big endian: flags
 * (16 bits, bit 0: last packet of the message), 16 bits unused, message number (32), offset (32). Here each packet is a
 * message (flag set, offset 0), and its number is the sequence number: from `first` on, one more for each, and 0 after
 * 2^32 - 1.
 *
 * Host memory: at 0 the head, how many packets can be read; it has a line of 64 bytes to itself. From 64 on the cells:
 * packet n, counted from 0, is in cell n % cells. A cell is 8 bytes (sequence number << 32 | length; LOST: it never
 * came) and cell-bytes of data. The application reads from its own index up to the head and then says, by the command
 * CONSUMED, how far it has come: that is the sender's room. With credit = implicit nobody has to: cells are free once
 * readable.
 *
 * What comes twice, too late, or too far ahead is dropped by name. A packet that others have overtaken and that does
 * not come within `patience` is given up, so that the stream goes on; its cell says LOST. At the end of a stream
 * nothing is given up: that a packet is missing is known only by a later one.
 */
#include <stdatomic.h>

#include <spindle-handler.h>

enum { NOT_UDP, SHORT_HEADER, NOT_WHOLE, TOO_LONG, LATE, REPEATED, BEYOND_WINDOW };
static const char *const drops[] = {"not-udp", "short-header", "not-whole",	"too-long",
				    "late",    "repeated",     "beyond-window", NULL};
enum { PLACED, OVERTAKEN, GAVE_UP };
static const char *const counters[] = {"placed", "overtaken", "lost", NULL};

enum { SLMP = 12, LAST = 1, LINE = 64, CONSUMED = SP_CMD_OWN /* arg[0]: packets read in all */ };
#define LOST UINT32_MAX

/* ---- state ------------------------------------------------------------------------------------------------------ */
/*
 * Per cell one word says whose turn it is: packet number << 2 | one of these. EMPTY -> BUSY: the packet's worker (or,
 * for LOST, the timer). BUSY -> FULL: the same. FULL -> EMPTY for the packet one round later: whoever makes it room. So
 * a packet that is late, repeated or a round ahead finds a word that is not its own, and nobody waits (after Vyukov's
 * bounded queue).
 */
enum { EMPTY, BUSY, FULL };
#define WORD(n, state) ((uint64_t)(n) << 2 | (state))

struct reorder_ring {
	const struct sp_mem *area;
	_Atomic uint64_t *cell;
	uint32_t cells, bytes, first;
	bool implicit; /* cells are free once readable */
	sp_time patience;
	_Atomic uint32_t head;	   /* packets readable; who moves it on adds to the host's */
	_Atomic uint32_t furthest; /* packets up to the furthest one that came */
	uint32_t tail;		   /* packets consumed [home worker] */
	uint32_t seen;		   /* head at the timer's last look [home worker] */
	sp_time since;		   /* last look at which it had moved, or had nothing to wait for [home worker] */
	struct sp_timer timer;
};

static int attach(struct sp_ctx *c)
{
	struct reorder_ring *s = c->state;
	const char *credit = sp_param_string(c, "credit");

	s->cells = (uint32_t)sp_param_uint(c, "cells");
	s->bytes = (uint32_t)sp_param_uint(c, "cell-bytes");
	s->first = (uint32_t)sp_param_uint(c, "first");
	s->patience = sp_param_uint(c, "patience");
	s->implicit = !strcmp(credit, "implicit");
	if (!s->implicit && strcmp(credit, "host"))
		return sp_fail(c, EINVAL, "credit", "host or implicit, not %s", credit);
	if (s->cells & (s->cells - 1)) /* packet numbers wrap at 2^32, in the middle of no round */
		return sp_fail(c, EINVAL, "cells", "not a power of two");
	if (s->patience && s->patience < SP_US)
		return sp_fail(c, EINVAL, "patience", "0, or 1us and more");
	if (s->bytes % 8)
		return sp_fail(c, EINVAL, "cell-bytes", "not a multiple of 8");
	s->cell = sp_alloc(c, s->cells * sizeof(*s->cell));
	s->area = sp_host_area(c, LINE + (uint64_t)s->cells * (8 + s->bytes));
	if (!s->cell || !s->area)
		return sp_fail(c, ENOMEM, "cells", "no memory for %u cells of %u bytes", s->cells, s->bytes);
	for (uint32_t i = 0; i < s->cells; i++)
		s->cell[i] = WORD(i, EMPTY);
	s->since = c->now;
	return s->patience ? sp_timer_arm(c, &s->timer, c->now + s->patience / 4) : 0;
}

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* ---- packets ---------------------------------------------------------------------------------------------------- */
static void make_room(struct reorder_ring *s, uint32_t n)
{
	s->cell[n & (s->cells - 1)] = WORD(n + s->cells, EMPTY);
}

/* Moves the head over all that is there. Any worker may find it so; each packet is stepped over by one of them. The
 * host's head is added to: what a slower worker adds late never takes it back. */
static void advance(struct sp_ctx *c, struct reorder_ring *s)
{
	uint32_t head = s->head;

	while (s->cell[head & (s->cells - 1)] == WORD(head, FULL)) {
		if (!atomic_compare_exchange_strong(&s->head, &head, head + 1))
			continue; /* another did: go on from where it is now */
		if (s->implicit)
			make_room(s, head);
		sp_dma_add64(c, s->area, 0, 1, NULL);
		head++;
	}
}

/* SP_DONE, or why not: the packet is not the one that its cell waits for. */
static uint32_t place(struct sp_ctx *c, struct reorder_ring *s, uint32_t n, const uint8_t *data, uint32_t len)
{
	_Atomic uint64_t *cell = &s->cell[n & (s->cells - 1)];
	const uint64_t at = LINE + (uint64_t)(n & (s->cells - 1)) * (8 + s->bytes);
	const uint64_t word = (uint64_t)(s->first + n) << 32 | len;
	uint64_t turn = WORD(n, EMPTY);
	int32_t ahead;

	if (!atomic_compare_exchange_strong(cell, &turn, WORD(n, BUSY))) {
		ahead = (int32_t)(n - (uint32_t)(turn >> 2));
		return SP_DROP(ahead > 0 ? BEYOND_WINDOW : ahead < 0 ? LATE : REPEATED);
	}
	sp_dma_write(c, s->area, at, &word, sizeof(word));
	if (len != LOST)
		sp_dma_write(c, s->area, at + 8, data, len);
	*cell = WORD(n, FULL);
	return SP_DONE;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	struct reorder_ring *s = c->state;
	uint32_t n, furthest, verdict;

	(void)none;
	if ((p->flags & (SP_PKT_UDP | SP_PKT_ROCE)) != SP_PKT_UDP)
		return SP_DROP(NOT_UDP);
	if (p->len < SLMP)
		return SP_DROP(SHORT_HEADER);
	if (!(p->data[1] & LAST) || get32(p->data + 8))
		return SP_DROP(NOT_WHOLE);
	if (p->len - SLMP > s->bytes)
		return SP_DROP(TOO_LONG);
	n = get32(p->data + 4) - s->first;
	verdict = place(c, s, n, p->data + SLMP, p->len - SLMP);
	if (verdict != SP_DONE)
		return verdict;
	c->counters[PLACED]++;
	furthest = s->furthest;
	if ((int32_t)(n - furthest) < 0)
		c->counters[OVERTAKEN]++;
	while ((int32_t)(n - furthest) >= 0 && !atomic_compare_exchange_weak(&s->furthest, &furthest, n + 1))
		;
	advance(c, s);
	return SP_DONE;
}

/* The application has read up to packet arg[0]: room for the sender. */
static int command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	struct reorder_ring *s = c->state;
	const uint32_t to = (uint32_t)command->arg[0];

	(void)result;
	if (command->op != CONSUMED || s->implicit)
		return -EOPNOTSUPP;
	if (to - s->tail > s->head - s->tail)
		return -EINVAL; /* back, or beyond what can be read */
	while (s->tail != to)
		make_room(s, s->tail++);
	return 0;
}

/* Looks four times per patience; `since` is when all was still well. A head that stands for so long while others are
 * beyond it has lost its packet. */
static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct reorder_ring *s = c->state;
	uint32_t head = s->head;

	if (head != s->seen || head == s->furthest) {
		s->seen = head;
		s->since = c->now;
	} else if (c->now - s->since >= s->patience + s->patience / 4) {
		for (; head != s->furthest && place(c, s, head, NULL, LOST) == SP_DONE; head++)
			c->counters[GAVE_UP]++;
		advance(c, s);
	}
	sp_timer_arm(c, t, c->now + s->patience / 4);
}

static void report(struct sp_ctx *c, struct sp_report *r)
{
	const struct reorder_ring *s = c->state;

	sp_report_uint(r, "head", s->head);
	sp_report_uint(r, "tail", s->implicit ? s->head : s->tail);
	sp_report_uint(r, "furthest", s->furthest);
}

static const struct sp_param params[] = {
	{"cells", SP_UINT, "1024", 2, 1 << 20, "packets that the ring holds; a power of two"},
	{"cell-bytes", SP_UINT, "1472", 8, 9000, "longest payload; a multiple of 8"},
	{"first", SP_UINT, "0", 0, UINT32_MAX, "sequence number of the first packet"},
	{"patience", SP_TIME, "1ms", 0, 0, "how long the head waits for a packet that was overtaken; 0: for ever"},
	{"credit", SP_STRING, "host", 0, 0,
	 "who makes room: host (the command CONSUMED), implicit (reading is at once)"},
	{NULL},
};

static const struct sp_handler reorder_ring = {
	SP_HANDLER_HEAD,
	.name = "reorder-ring",
	.doc = "puts numbered packets in order, in a ring in host memory",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct reorder_ring),
	.attach = attach,
	.payload = payload,
	.command = command,
	.timer = timer,
	.report = report,
};
SP_HANDLER(reorder_ring)
