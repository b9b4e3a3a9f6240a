/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reorder-ring: numbered packets that arrive in any order become a ring in host memory that is read in order.
 *
 * After the out-of-order ring buffer among sPIN's and PsPIN's handlers (Hoefler et al., SC'17; Di Girolamo et al.,
 * ISCA'21). A context has one ring, for the one stream of packets that its filter selects.
 *
 * Packets use SLMP, the Simple Large Message Protocol of FPsPIN: 12 bytes after the UDP header, big endian, with the
 * message number in bytes 4 to 7. Here each packet is a message, and its number is the sequence number: from `first`
 * on, one more for each, and 0 after 2^32 - 1.
 *
 * Host memory: at 0 the head, in a line of 64 bytes of its own. It begins at `first`, and one is added for each packet
 * that can be read. From 64 on the cells, that of packet n at n % cells: 8 bytes (n << 32 | length; LOST: it never
 * arrived) and cell-bytes of data. The application reads up to the head, and then says by the command CONSUMED how far
 * it has read: that is the sender's room. With credit = implicit it need not: cells are free once readable.
 *
 * Packets that arrive twice, too late, or too far ahead are dropped by name. A packet that others have overtaken, and
 * that does not arrive within one to two times `patience`, is given up so that the stream goes on. At the end of a
 * stream nothing is given up: only a later packet shows that one is missing.
 */
#include <stdatomic.h>

#include <spindle-handler.h>

enum { MALFORMED, LATE, REPEATED, BEYOND_WINDOW };
static const char *const drops[] = {"malformed", "late", "repeated", "beyond-window", NULL};
enum { PLACED, GAVE_UP };
static const char *const counters[] = {"placed", "lost", NULL};

enum { SLMP = 12, LINE = 64, CONSUMED = SP_CMD_OWN /* arg[0]: number of the next packet to read */ };
#define LOST UINT32_MAX

/* One word per cell says who may use it: packet number << 2, with one of these. EMPTY to BUSY: the packet's worker (or,
 * for LOST, the timer). BUSY to FULL: the same. FULL to EMPTY, for the packet one round later: the one that makes room.
 * So a packet that is late, repeated or a round ahead finds a word that is not its own, and nobody waits (after
 * Vyukov's bounded queue). */
enum { EMPTY, BUSY, FULL };
#define WORD(n, state) ((uint64_t)(n) << 2 | (state))

struct reorder_ring {
	const struct sp_mem *area;
	_Atomic uint64_t *cell;
	uint32_t mask, bytes; /* mask: cells - 1 */
	bool implicit;	      /* cells are free once readable */
	_Atomic uint32_t head;
	uint32_t tail;	/* the next packet to read [home worker] */
	uint64_t stuck; /* the head when the timer last looked, if later packets had arrived; else no number [home
			   worker] */
	sp_time patience;
	struct sp_timer timer;
};

static int configure(struct sp_ctx *c, uint64_t *area)
{
	struct reorder_ring *s = c->state;
	const uint32_t cells = (uint32_t)sp_param_uint(c, "cells");

	s->mask = cells - 1;
	s->bytes = (uint32_t)sp_param_uint(c, "cell-bytes");
	s->patience = sp_param_uint(c, "patience");
	s->implicit = sp_param_uint(c, "credit") == 1;
	if (cells & s->mask) /* packet numbers wrap at 2^32, which must end a round */
		return sp_fail(c, EINVAL, "cells", "not a power of two");
	if (s->bytes % 8)
		return sp_fail(c, EINVAL, "cell-bytes", "not a multiple of 8");
	*area = LINE + (uint64_t)cells * (8 + s->bytes);
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct reorder_ring *s = c->state;
	const uint32_t cells = s->mask + 1, first = (uint32_t)sp_param_uint(c, "first");

	s->area = sp_host_area(c);
	s->cell = sp_alloc(c, cells * sizeof(*s->cell));
	if (!s->cell)
		return sp_fail(c, ENOMEM, "cells", "no memory for %u cells of %u bytes", cells, s->bytes);
	for (uint32_t n = first; n != first + cells; n++)
		s->cell[n & s->mask] = WORD(n, EMPTY);
	s->head = s->tail = first;
	s->stuck = UINT64_MAX;
	sp_dma_store64(c, s->area, 0, first);
	return sp_timer_arm(c, &s->timer, c->now + s->patience);
}

static void make_room(struct reorder_ring *s, uint32_t n)
{
	s->cell[n & s->mask] = WORD(n + s->mask + 1, EMPTY);
}

/* Moves the head over all packets that have arrived. Any worker may do so; only one steps over each packet. The host's
 * head is added to, so a slower worker that adds late never moves it back. */
static void advance(struct sp_ctx *c, struct reorder_ring *s)
{
	uint32_t head = s->head;

	while (s->cell[head & s->mask] == WORD(head, FULL)) {
		if (!atomic_compare_exchange_strong(&s->head, &head, head + 1))
			continue; /* another worker did it: go on from there */
		if (s->implicit)
			make_room(s, head);
		sp_dma_add64(c, s->area, 0, 1, NULL);
		head++;
	}
}

/* Returns SP_DONE, or why not: the packet is not the one that its cell waits for. */
static uint32_t place(struct sp_ctx *c, struct reorder_ring *s, uint32_t n, const uint8_t *data, uint32_t len)
{
	_Atomic uint64_t *cell = &s->cell[n & s->mask];
	const uint64_t at = LINE + (uint64_t)(n & s->mask) * (8 + s->bytes), word = (uint64_t)n << 32 | len;
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
	c->counters[len == LOST ? GAVE_UP : PLACED]++;
	return SP_DONE;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	struct reorder_ring *s = c->state;
	const uint8_t *n = p->data + 4;
	uint32_t verdict;

	(void)none;
	if (!(p->flags & SP_PKT_UDP) || p->len < SLMP || p->len - SLMP > s->bytes)
		return SP_DROP(MALFORMED);
	verdict = place(c, s, (uint32_t)n[0] << 24 | (uint32_t)n[1] << 16 | (uint32_t)n[2] << 8 | n[3], p->data + SLMP,
			p->len - SLMP);
	if (verdict == SP_DONE)
		advance(c, s);
	return verdict;
}

/* The application has read: the sender has room. */
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

/* If the head has not moved since the last look, and later packets have arrived, its packet is lost. */
static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	struct reorder_ring *s = c->state;
	const uint32_t head = s->head, end = head + s->mask + 1;
	uint32_t next = head;

	while (next != end && s->cell[next & s->mask] != WORD(next, FULL))
		next++;
	if (next != end && s->stuck == head) {
		for (uint32_t n = head; n != next; n++)
			place(c, s, n, NULL, LOST); /* unless it has just arrived */
		advance(c, s);
	}
	s->stuck = next != end ? head : UINT64_MAX;
	sp_timer_arm(c, t, c->now + s->patience);
}

static const char *const credits[] = {"host", "implicit", NULL};

static const struct sp_param params[] = {
	{"cells", SP_UINT, "1024", 2, 1 << 20, "packets that the ring holds; a power of two"},
	{"cell-bytes", SP_UINT, "1472", 8, 9000, "longest payload; a multiple of 8"},
	{"first", SP_UINT, "0", 0, UINT32_MAX, "sequence number of the first packet"},
	{"patience", SP_TIME, "1ms", SP_US, 0, "how long the head waits for a packet that was overtaken"},
	{"credit", SP_STRING, "host", 0, 0, "who makes room: host (CONSUMED), implicit (reading is at once)", credits},
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
	.configure = configure,
	.attach = attach,
	.payload = payload,
	.command = command,
	.timer = timer,
};
SP_HANDLER(reorder_ring)
