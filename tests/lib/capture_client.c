/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_client.h"

/* A handler that writes over the frame and sends it back. */
static uint32_t spoil(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	memset(p->frame, 0xEE, p->frame_len);
	sp_packet_send(c, p);
	return SP_SENT;
}

static const struct sp_handler spoiler = {SP_HANDLER_HEAD, .name = "spoiler", .payload = spoil};
SP_HANDLER(spoiler)

int cap_try_read(struct reader *r, struct sp_capture_request q, struct sp_error *error)
{
	memset(r, 0, sizeof(*r));
	struct sp_shm memory;
	int rc;

	CU_ASSERT_EQUAL_FATAL(sp_shm_private(sp_capture_bytes(dut.nic, &q), &memory), 0);
	sp_capture_init(dut.nic, &q, memory.base);
	r->memory = memory;
	rc = sp_capture_open(dut.nic, &q, &memory, error, &r->capture);
	if (rc)
		sp_shm_destroy(&memory);
	else
		r->head = r->memory.base;
	return rc;
}

struct reader cap_reading(struct sp_capture_request q)
{
	struct sp_error error = {0};
	struct reader r;
	int rc = cap_try_read(&r, q, &error);

	if (rc)
		printf("# capture: %d %s: %s\n", rc, error.key, error.text);
	CU_ASSERT_EQUAL_FATAL(rc, 0);
	CU_ASSERT_EQUAL(r.head->magic, SP_CAPTURE_MAGIC);
	CU_ASSERT(r.memory.bytes <= 16 << 20);
	return r;
}

struct sp_capture_ring *cap_ring_of(const struct reader *r, unsigned worker)
{
	return (void *)((uint8_t *)r->memory.base + r->head->first + worker * r->head->stride);
}

const struct sp_capture_slot *cap_next_of(struct reader *r, unsigned worker)
{
	struct sp_capture_ring *ring = cap_ring_of(r, worker);
	const uint64_t i = r->at[worker];

	if (ring->tail == i)
		return NULL;
	ring->head = ++r->at[worker];
	return (const void *)((uint8_t *)(ring + 1) + (i & (r->head->slots - 1)) * r->head->slot_bytes);
}

unsigned cap_left(struct reader *r)
{
	unsigned n = 0;

	for (unsigned w = 0; w < r->head->workers; w++)
		while (cap_next_of(r, w))
			n++;
	return n;
}

uint64_t cap_lost(const struct reader *r)
{
	uint64_t n = 0;

	for (unsigned w = 0; w < r->head->workers; w++)
		for (unsigned p = 0; p < SP_CAPTURE_PORTS; p++)
			n += cap_ring_of(r, w)->lost[p];
	return n;
}

void cap_expect_of(struct reader *r, unsigned worker, enum sp_capture_fate fate, const char *context,
		   const char *reason, unsigned verdict, int line)
{
	const struct sp_capture_slot *s = cap_next_of(r, worker);

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

void cap_close(struct reader *r)
{
	sp_capture_close(dut.nic, r->capture, 0);
}

const uint8_t arp_request[42] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0,   0, 0, 0, 2, 8, 6, 0, 1, 8, 0,   6, 4, 0,
				 1,    2,    0,	   0,	 0,    0,    2, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2};
