/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_nic.h"

uint32_t rw_mtu = 64; /* of the next NIC */

uint32_t rw_context;

uint8_t *rw_memory;

struct sp_rvma_notification *rw_note; /* [NOTES] */

struct sp_mr *rw_memory_mr, *rw_notes_mr;

uint64_t rw_next_transfer;

sp_time rw_now;

const struct sp_tracer *rw_watcher; /* of the next NIC; NULL: none */

bool rw_fed_only; /* packets wait at the port: the test polls */

struct rv *rw_state(void)
{
	return sp_context_by_id(dut.nic, rw_context)->state;
}

void rw_begin_with(const char *settings)
{
	char all[256];

	dut_start(&dut, 1);
	CU_ASSERT_EQUAL_FATAL(rw_watcher ? sp_nic_trace(dut.nic, rw_watcher) : 0, 0);
	snprintf(all, sizeof(all), "qp=64;session=implicit;mtu=%u;%s", rw_mtu, settings);
	rw_context = dut_context(&dut, "c", "rvma", all);
	rw_memory = aligned_alloc(64, MEMORY);
	rw_note = aligned_alloc(64, NOTES * sizeof(*rw_note));
	CU_ASSERT_FATAL(rw_memory && rw_note);
	memset(rw_memory, 0xEE, MEMORY);
	memset(rw_note, 0, NOTES * sizeof(*rw_note));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, rw_memory, MEMORY, &rw_memory_mr), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, rw_note, NOTES * sizeof(*rw_note), &rw_notes_mr), 0);
	rw_next_transfer = 0;
	rw_now = SP_SEC;
}

void rw_begin(void)
{
	rw_begin_with("window=4096");
}

void rw_stop(void)
{
	dut_check_totals(&dut);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, rw_context), 0);
	CU_ASSERT_EQUAL(sp_mr_free(rw_memory_mr), 0); /* nothing holds it any more */
	CU_ASSERT_EQUAL(sp_mr_free(rw_notes_mr), 0);
	dut_stop(&dut);
	free(rw_memory);
	free(rw_note);
}

struct sp_event rw_answer;

int rw_command(unsigned op, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	const struct sp_command cmd = {.op = (uint16_t)op, .context = rw_context, .arg = {a, b, c, d}};

	memset(&rw_answer, 0, sizeof(rw_answer));
	return sp_command_call(dut.dev, &cmd, &rw_answer);
}

uint64_t rw_window(uint64_t mailbox, uint64_t key, uint64_t threshold, uint64_t flags)
{
	CU_ASSERT_EQUAL_FATAL(rw_command(SP_RVMA_CMD_WINDOW, mailbox, key, threshold, flags), 0);
	CU_ASSERT_NOT_EQUAL(rw_answer.arg[0], 0);
	return rw_answer.arg[0];
}

int rw_post_with(uint64_t id, uint64_t at, uint64_t length, unsigned n, uint64_t threshold)
{
	const struct sp_command cmd = {.op = SP_CMD_POST,
				       .context = rw_context,
				       .cookie = (uintptr_t)rw_memory + at,
				       .arg = {rw_memory_mr->id | (uint64_t)rw_notes_mr->id << 32, at, length,
					       n * sizeof(*rw_note), threshold, id}};

	return sp_command_call(dut.dev, &cmd, NULL);
}

void rw_post(uint64_t id, uint64_t at, uint64_t length, unsigned n)
{
	CU_ASSERT_EQUAL(rw_post_with(id, at, length, n, 0), 0);
}

bool rw_told(unsigned n, uint64_t at, uint64_t length, uint64_t epoch, uint64_t flags, uint64_t puts)
{
	const struct sp_rvma_notification *x = &rw_note[n];

	if (x->address == (uintptr_t)rw_memory + at && x->length == length && x->epoch == epoch && x->flags == flags &&
	    x->puts == puts)
		return true;
	printf("# note %u: address %+lld length %llu epoch %llu flags %llu puts %llu\n", n,
	       (long long)(x->address - (uint64_t)(uintptr_t)rw_memory), (unsigned long long)x->length,
	       (unsigned long long)x->epoch, (unsigned long long)x->flags, (unsigned long long)x->puts);
	return false;
}

bool rw_silent(unsigned n)
{
	static const struct sp_rvma_notification nothing;

	return !memcmp(&rw_note[n], &nothing, sizeof(nothing));
}

struct sp_rvma_window_status *rw_line(uint64_t id)
{
	void *area;
	uint64_t len;

	CU_ASSERT_EQUAL_FATAL(sp_context_area(dut.dev, rw_context, &area, &len), 0);
	return (struct sp_rvma_window_status *)(void *)((uint8_t *)area + ((struct sp_rvma_area *)area)->window) +
	       (uint32_t)id;
}

uint64_t rw_lost(uint64_t id)
{
	const struct sp_rvma_area *area;
	uint64_t len, lost;
	void *base;

	CU_ASSERT_EQUAL_FATAL(sp_context_area(dut.dev, rw_context, &base, &len), 0);
	area = base;
	memcpy(&lost,
	       (const uint8_t *)base + sp_rvma_layout(area->windows, area->ops).lost + (uint32_t)id * sizeof(lost),
	       sizeof(lost));
	return lost;
}

uint64_t rw_refused(enum sp_rvma_status why)
{
	const uint64_t n = rw_state()->refused[why];

	rw_state()->refused[why] = 0;
	return n;
}

bool rw_nothing_refused(void)
{
	for (unsigned i = 0; i < 64; i++)
		if (rw_state()->refused[i])
			return false;
	return true;
}

void be(uint8_t *to, unsigned bytes, uint64_t v)
{
	while (bytes) {
		to[--bytes] = (uint8_t)v;
		v >>= 8;
	}
}

uint8_t rw_pattern(uint8_t fill, uint64_t i)
{
	return (uint8_t)(fill + i * 7 + i / 251);
}

bool rw_filled(uint64_t at, uint8_t fill, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++)
		if (rw_memory[at + i] != rw_pattern(fill, i))
			return false;
	return true;
}

bool rw_untouched(uint64_t at, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++)
		if (rw_memory[at + i] != 0xEE)
			return false;
	return true;
}

void rw_raw(uint8_t opcode, const void *bytes, uint32_t len)
{
	struct frame f;

	dut_roce(&f, FRAME_IP4, QP, (uint32_t)rw_next_transfer, bytes, len);
	f.bytes[f.l4 + 8] = opcode;
	dut_seal(&f);
	dut_feed(&dut, &f);
	if (!rw_fed_only)
		dut_settle(&dut, rw_now);
}

static uint64_t packets_of(uint64_t length)
{
	return length ? (length + rw_mtu - 1) / rw_mtu : 1;
}

struct transfer *rw_start(struct transfer *t)
{
	t->number = rw_next_transfer;
	rw_next_transfer += (packets_of(t->length) + 63) / 64;
	return t;
}

void rw_packet(const struct transfer *t, uint64_t i)
{
	const uint64_t left = t->length > i * rw_mtu ? t->length - i * rw_mtu : 0;
	const uint32_t len = left < rw_mtu ? (uint32_t)left : rw_mtu;
	uint8_t b[56 + 4096] = {0};

	be(b + 8, 8, t->number);
	be(b + 16, 4, i);
	b[20] = 1; /* version */
	b[21] = t->flags;
	be(b + 24, 8, t->length);
	be(b + 32, 8, t->mailbox);
	be(b + 40, 8, t->key);
	be(b + 48, 8, t->offset);
	for (uint32_t k = 0; k < len; k++)
		b[56 + k] = rw_pattern(t->fill, i * rw_mtu + k);
	rw_raw(0xC0, b, 56 + len);
}

void rw_put(uint64_t mailbox, uint64_t key, uint64_t offset, uint64_t length, uint8_t fill)
{
	struct transfer t = {mailbox, key, offset, length, fill, 0, 0};

	rw_start(&t);
	for (uint64_t i = 0; i < packets_of(length); i++)
		rw_packet(&t, i);
}

void rw_get(uint64_t mailbox, uint64_t key, uint64_t offset, uint64_t length, uint32_t back)
{
	uint8_t b[64] = {0};

	be(b + 8, 8, rw_next_transfer++);
	b[20] = 1;
	be(b + 24, 8, length);
	be(b + 32, 8, mailbox);
	be(b + 40, 8, key);
	be(b + 48, 8, offset);
	be(b + 56, 4, back);
	rw_raw(0xC1, b, sizeof(b));
}
