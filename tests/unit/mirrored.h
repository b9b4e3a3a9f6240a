/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that captures from the rig's NIC: its rings, and what it finds there. */
#ifndef TESTS_MIRRORED_H
#define TESTS_MIRRORED_H

#include "../../pipeline/mirror.h"
#include "../lib/sender.h"

/* A handler that writes over the frame and sends it back. */
static inline uint32_t spoil(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	memset(p->frame, 0xEE, p->frame_len);
	sp_packet_send(c, p);
	return SP_SENT;
}
static const struct sp_handler spoiler = {SP_HANDLER_HEAD, .name = "spoiler", .payload = spoil};
SP_HANDLER(spoiler)

/* ---- the capturing program ---- */

struct reader {
	struct sp_mirror *mirror;
	struct sp_shared *memory;
	const struct sp_capture_memory *head;
	uint64_t at[SP_MAX_WORKERS];
};

static inline int try_read(struct reader *r, struct sp_capture_request q, struct sp_error *error)
{
	int rc;

	memset(r, 0, sizeof(*r));
	rc = sp_mirror_open(dut.nic, &q, error, &r->mirror, &r->memory);
	if (!rc)
		r->head = r->memory->base;
	return rc;
}

static inline struct reader reading(struct sp_capture_request q)
{
	struct sp_error error = {0};
	struct reader r;
	int rc = try_read(&r, q, &error);

	if (rc)
		printf("# capture: %d %s: %s\n", rc, error.key, error.text);
	CU_ASSERT_EQUAL_FATAL(rc, 0);
	CU_ASSERT_EQUAL(r.head->magic, SP_CAPTURE_MAGIC);
	CU_ASSERT(r.memory->bytes <= 16 << 20);
	return r;
}

static inline struct sp_capture_ring *ring_of(const struct reader *r, unsigned worker)
{
	return (void *)((uint8_t *)r->memory->base + r->head->first + worker * r->head->stride);
}

static inline const struct sp_capture_slot *next_of(struct reader *r, unsigned worker)
{
	struct sp_capture_ring *ring = ring_of(r, worker);
	const uint64_t i = r->at[worker];

	if (ring->tail == i)
		return NULL;
	ring->head = ++r->at[worker];
	return (const void *)((uint8_t *)(ring + 1) + (i & (r->head->slots - 1)) * r->head->slot_bytes);
}

static inline unsigned left(struct reader *r)
{
	unsigned n = 0;

	for (unsigned w = 0; w < r->head->workers; w++)
		while (next_of(r, w))
			n++;
	return n;
}

static inline uint64_t lost(const struct reader *r)
{
	uint64_t n = 0;

	for (unsigned w = 0; w < r->head->workers; w++)
		for (unsigned p = 0; p < SP_CAPTURE_PORTS; p++)
			n += ring_of(r, w)->lost[p];
	return n;
}

#define NO SP_CAPTURE_NO_VERDICT
static inline void expect_of(struct reader *r, unsigned worker, enum sp_capture_fate fate, const char *context,
			     const char *reason, unsigned verdict, int line)
{
	const struct sp_capture_slot *s = next_of(r, worker);

	CU_ASSERT_PTR_NOT_NULL(s);
	if (!s) {
		printf("# line %d: nothing there\n", line);
		return;
	}
	if (s->fate != fate || strcmp(s->context, context) || strcmp(s->reason, reason) || s->verdict != verdict)
		printf("# line %d: fate %u context '%s' reason '%s' verdict %u\n", line, s->fate, s->context, s->reason,
		       s->verdict);
	CU_ASSERT_EQUAL(s->fate, fate);
	CU_ASSERT_STRING_EQUAL(s->context, context);
	CU_ASSERT_STRING_EQUAL(s->reason, reason);
	CU_ASSERT_EQUAL(s->verdict, verdict);
	CU_ASSERT_EQUAL(s->worker, worker);
}
#define expect(r, fate, context, reason, verdict) expect_of(r, 0, SP_CAPTURE_##fate, context, reason, verdict, __LINE__)

static inline void close_capture(struct reader *r)
{
	sp_mirror_close(dut.nic, r->mirror);
}

#define CAPTURE(...) reading((struct sp_capture_request){__VA_ARGS__})

static const uint8_t arp_request[42] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0,   2, 8, 6,
					0,    1,    8,	  0,	6,    4,    0, 1, 2, 0, 0,   0, 0, 2,
					192,  0,    2,	  1,	0,    0,    0, 0, 0, 0, 192, 0, 2, 2};

#endif
