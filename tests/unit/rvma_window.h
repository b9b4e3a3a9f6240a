/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An rvma context of a NIC on the bench, with a session that is taken as read (session = implicit): packets of puts and
 * gets, written here byte by byte, come by the port; the test is the host, and looks at its memory.
 */
#ifndef TESTS_RVMA_WINDOW_H
#define TESTS_RVMA_WINDOW_H

#include "../../handlers/rvma_state.h"
#include "../../pipeline/watch.h"
#include "../lib/dut.h"

#define QP 0x40
#ifndef MTU
#define MTU 64u
#endif
#define MEMORY (1u << 20)
#define NOTES  256u

static uint32_t context;
static uint8_t *memory;
static struct sp_rvma_notification *note; /* [NOTES] */
static struct sp_mr *memory_mr, *notes_mr;
static uint64_t next_transfer;
static sp_time now;
static const struct sp_watch *watcher; /* of the next NIC; NULL: none */
static bool fed_only;		       /* packets wait at the port: the test polls */

static inline struct rv *state(void)
{
	return sp_context_by_id(dut.nic, context)->state;
}

static inline void begin_with(const char *settings)
{
	char all[256];

	dut_start(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(watcher ? sp_nic_watch(dut.nic, watcher) : 0, 0);
	snprintf(all, sizeof(all), "qp=64;session=implicit;mtu=%u;%s", MTU, settings);
	context = dut_context(&dut, "c", "rvma", all);
	memory = aligned_alloc(64, MEMORY);
	note = aligned_alloc(64, NOTES * sizeof(*note));
	CU_ASSERT_FATAL(memory && note);
	memset(memory, 0xEE, MEMORY);
	memset(note, 0, NOTES * sizeof(*note));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, memory, MEMORY, &memory_mr), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, note, NOTES * sizeof(*note), &notes_mr), 0);
	next_transfer = 0;
	now = SP_SEC;
}

static inline void begin(void)
{
	begin_with("window=4096");
}

static inline void end(void)
{
	dut_check_totals(&dut);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, context), 0);
	CU_ASSERT_EQUAL(sp_mr_free(memory_mr), 0); /* nothing holds it any more */
	CU_ASSERT_EQUAL(sp_mr_free(notes_mr), 0);
	dut_stop(&dut);
	free(memory);
	free(note);
}

/* ---- the host ---- */
static struct sp_event answer;

static inline int command(unsigned op, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	const struct sp_command cmd = {.op = (uint16_t)op, .context = context, .arg = {a, b, c, d}};

	memset(&answer, 0, sizeof(answer));
	return sp_command_call(dut.dev, &cmd, &answer);
}

static inline uint64_t window(uint64_t mailbox, uint64_t key, uint64_t threshold, uint64_t flags)
{
	CU_ASSERT_EQUAL_FATAL(command(SP_RVMA_CMD_WINDOW, mailbox, key, threshold, flags), 0);
	CU_ASSERT_NOT_EQUAL(answer.arg[0], 0);
	return answer.arg[0];
}

/* Bytes [at, at + length) of memory; the notification goes to note[n]. threshold 0: the window's. */
static inline int post_with(uint64_t id, uint64_t at, uint64_t length, unsigned n, uint64_t threshold)
{
	const struct sp_command cmd = {
		.op = SP_CMD_POST,
		.context = context,
		.cookie = (uintptr_t)memory + at,
		.arg = {memory_mr->id | (uint64_t)notes_mr->id << 32, at, length, n * sizeof(*note), threshold, id}};

	return sp_command_call(dut.dev, &cmd, NULL);
}

static inline void post(uint64_t id, uint64_t at, uint64_t length, unsigned n)
{
	CU_ASSERT_EQUAL(post_with(id, at, length, n, 0), 0);
}

/* note[n] says: this buffer, this length, epoch and flags, and so many whole puts. */
static inline bool told(unsigned n, uint64_t at, uint64_t length, uint64_t epoch, uint64_t flags, uint64_t puts)
{
	const struct sp_rvma_notification *x = &note[n];

	if (x->address == (uintptr_t)memory + at && x->length == length && x->epoch == epoch && x->flags == flags &&
	    x->puts == puts)
		return true;
	printf("# note %u: address %+lld length %llu epoch %llu flags %llu puts %llu\n", n,
	       (long long)(x->address - (uint64_t)(uintptr_t)memory), (unsigned long long)x->length,
	       (unsigned long long)x->epoch, (unsigned long long)x->flags, (unsigned long long)x->puts);
	return false;
}

static inline bool silent(unsigned n)
{
	static const struct sp_rvma_notification nothing;

	return !memcmp(&note[n], &nothing, sizeof(nothing));
}

static inline struct sp_rvma_window_status *line(uint64_t id)
{
	void *area;
	uint64_t len;

	CU_ASSERT_EQUAL_FATAL(sp_context_area(dut.dev, context, &area, &len), 0);
	return (struct sp_rvma_window_status *)(void *)((uint8_t *)area + ((struct sp_rvma_area *)area)->window) +
	       (uint32_t)id;
}

/* How many were refused so since the last time that this was asked. */
static inline uint64_t refused(enum sp_rvma_status why)
{
	const uint64_t n = state()->refused[why];

	state()->refused[why] = 0;
	return n;
}

static inline bool nothing_refused(void)
{
	for (unsigned i = 0; i < 64; i++)
		if (state()->refused[i])
			return false;
	return true;
}

/* ---- the network ---- */
struct transfer {
	uint64_t mailbox, key, offset, length;
	uint8_t fill, flags;
	uint64_t number; /* filled in by start() */
};

static inline void be(uint8_t *to, unsigned bytes, uint64_t v)
{
	while (bytes) {
		to[--bytes] = (uint8_t)v;
		v >>= 8;
	}
}

/* What byte i of a put is. */
static inline uint8_t pattern(uint8_t fill, uint64_t i)
{
	return (uint8_t)(fill + i * 7 + i / 251);
}

static inline bool filled(uint64_t at, uint8_t fill, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++)
		if (memory[at + i] != pattern(fill, i))
			return false;
	return true;
}

static inline bool untouched(uint64_t at, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++)
		if (memory[at + i] != 0xEE)
			return false;
	return true;
}

static inline void raw(uint8_t opcode, const void *bytes, uint32_t len)
{
	struct frame f;

	dut_roce(&f, FRAME_IP4, QP, (uint32_t)next_transfer, bytes, len);
	f.bytes[f.l4 + 8] = opcode;
	dut_seal(&f);
	dut_feed(&dut, &f);
	if (!fed_only)
		dut_settle(&dut, now);
}

static inline uint64_t packets_of(uint64_t length)
{
	return length ? (length + MTU - 1) / MTU : 1;
}

/* Gives the transfer its number. */
static inline struct transfer *start(struct transfer *t)
{
	t->number = next_transfer;
	next_transfer += (packets_of(t->length) + 63) / 64;
	return t;
}

static inline void packet(const struct transfer *t, uint64_t i)
{
	const uint64_t left = t->length > i * MTU ? t->length - i * MTU : 0;
	const uint32_t len = left < MTU ? (uint32_t)left : MTU;
	uint8_t b[56 + MTU] = {0};

	be(b + 8, 8, t->number);
	be(b + 16, 4, i);
	b[20] = 1; /* version */
	b[21] = t->flags;
	be(b + 24, 8, t->length);
	be(b + 32, 8, t->mailbox);
	be(b + 40, 8, t->key);
	be(b + 48, 8, t->offset);
	for (uint32_t k = 0; k < len; k++)
		b[56 + k] = pattern(t->fill, i * MTU + k);
	raw(0xC0, b, 56 + len);
}

/* All of a put. */
static inline void put(uint64_t mailbox, uint64_t key, uint64_t offset, uint64_t length, uint8_t fill)
{
	struct transfer t = {mailbox, key, offset, length, fill, 0, 0};

	start(&t);
	for (uint64_t i = 0; i < packets_of(length); i++)
		packet(&t, i);
}

static inline void get(uint64_t mailbox, uint64_t key, uint64_t offset, uint64_t length, uint32_t back)
{
	uint8_t b[64] = {0};

	be(b + 8, 8, next_transfer++);
	b[20] = 1;
	be(b + 24, 8, length);
	be(b + 32, 8, mailbox);
	be(b + 40, 8, key);
	be(b + 48, 8, offset);
	be(b + 56, 4, back);
	raw(0xC1, b, sizeof(b));
}

#define APPEND UINT64_MAX

#endif
