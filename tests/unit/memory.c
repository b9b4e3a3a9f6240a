/* SPDX-License-Identifier: BSD-3-Clause */
/* Between host and NIC: regions of memory, commands one way, events the other. */
#include "../lib/memory_nic.h"

#define GUARD 64

static uint8_t guarded[GUARD + SIZE + GUARD] __attribute__((aligned(64)));

static void copy_everywhere(struct sp_ctx *c)
{
	static const uint64_t at[] = {0,
				      1,
				      SIZE - 9,
				      SIZE - 8,
				      SIZE - 7,
				      SIZE - 1,
				      SIZE,
				      SIZE + 1,
				      SIZE + GUARD,
				      1ull << 32,
				      (1ull << 32) + 1,
				      UINT64_MAX - 8,
				      UINT64_MAX - 1,
				      UINT64_MAX};
	static const uint32_t len[] = {0, 1, 7, 8, 9, SIZE - 1, SIZE, SIZE + 1, SIZE + GUARD, UINT32_MAX};
	static uint8_t buffer[512];
	uint64_t faults = 0;

	memset(buffer, 0xEE, sizeof(buffer));
	for (unsigned i = 0; i < sizeof(at) / sizeof(*at); i++)
		for (unsigned k = 0; k < sizeof(len) / sizeof(*len); k++) {
			bool inside_it = at[i] <= SIZE && at[i] + len[k] <= SIZE;

			CU_ASSERT_EQUAL(sp_dma_write(c, memo_mem, at[i], buffer, len[k]), inside_it ? 0 : -EFAULT);
			CU_ASSERT_EQUAL(sp_dma_read(c, memo_mem, at[i], buffer, len[k]), inside_it ? 0 : -EFAULT);
			CU_ASSERT_PTR_EQUAL(sp_dma_window(c, memo_mem, at[i], len[k]),
					    inside_it ? memo_mem->base + at[i] : NULL);
			faults += 2 * !inside_it;
		}
	c->watch = 1; /* writes are traced: none may go past sp_dma_write() */
	CU_ASSERT_PTR_NULL(sp_dma_window(c, memo_mem, 0, SIZE));
	c->watch = 0;
	for (unsigned i = 0; i < sizeof(at) / sizeof(*at); i++) {
		bool fits = at[i] <= SIZE - 8, even = at[i] % 8 == 0;
		int expect = !fits ? -EFAULT : even ? 0 : -EINVAL;

		CU_ASSERT_EQUAL(sp_dma_or64(c, memo_mem, at[i], UINT64_MAX), expect);
		CU_ASSERT_EQUAL(sp_dma_add64(c, memo_mem, at[i], 5, NULL), expect);
		CU_ASSERT_EQUAL(sp_dma_store64(c, memo_mem, at[i], 7), expect);
		faults += 3 * !fits;
	}
	CU_ASSERT_EQUAL(sp_view_of(c)->dma_faults, faults);
}

TEST(nothing_outside_a_region_is_reached_and_every_try_is_counted)
{
	struct sp_mr *mr;

	memo_start(0);
	memset(guarded, 0x11, sizeof(guarded));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, guarded + GUARD, SIZE, &mr), 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(memo_get(mr->id));
	memo_inside(copy_everywhere);
	for (unsigned i = 0; i < GUARD; i++)
		CU_ASSERT(guarded[i] == 0x11 && guarded[GUARD + SIZE + i] == 0x11);
	CU_ASSERT(guarded[GUARD + SIZE - 1] == 0xEE);
	memo_put(memo_mem);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	memo_stop();
}

static void do_atomics(struct sp_ctx *c)
{
	uint64_t old = 0;

	CU_ASSERT_EQUAL(sp_dma_store64(c, memo_mem, 8, 0xF0), 0);
	CU_ASSERT_EQUAL(sp_dma_or64(c, memo_mem, 8, 0x0F), 0);
	CU_ASSERT_EQUAL(sp_dma_add64(c, memo_mem, 8, 1, &old), 0);
	CU_ASSERT_EQUAL(old, 0xFF);
	CU_ASSERT_EQUAL(sp_dma_add64(c, memo_mem, 8, UINT64_MAX, &old), 0);
	CU_ASSERT_EQUAL(old, 0x100);
	CU_ASSERT_EQUAL(sp_dma_read(c, memo_mem, 8, &old, 8), 0);
	CU_ASSERT_EQUAL(old, 0xFF);
}

TEST(atomics_do_what_they_say)
{
	struct sp_mr *mr;

	memo_start(0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 24, &mr), 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(memo_get(mr->id));
	memo_inside(do_atomics);
	CU_ASSERT(((uint64_t *)mr->addr)[0] == 0 && ((uint64_t *)mr->addr)[1] == 0xFF &&
		  ((uint64_t *)mr->addr)[2] == 0);
	memo_put(memo_mem);
	sp_mr_free(mr);
	memo_stop();
}

static void one_odd(struct sp_ctx *c)
{
	CU_ASSERT_EQUAL(sp_dma_or64(c, memo_mem, 0, 1), -EINVAL);
	CU_ASSERT_EQUAL(sp_dma_or64(c, memo_mem, 7, 1), 0); /* what counts is the address */
}

TEST(alignment_is_that_of_the_address)
{
	struct sp_mr *mr;

	memo_start(0);
	memset(guarded, 0, sizeof(guarded));
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(dut.dev, guarded + 1, 32, &mr), 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(memo_get(mr->id));
	memo_inside(one_odd);
	CU_ASSERT_EQUAL(guarded[8], 1);
	memo_put(memo_mem);
	sp_mr_free(mr);
	memo_stop();
}

TEST(memory_of_the_nics_making_is_zeroed_and_page_aligned)
{
	struct sp_mr *mr;

	memo_start(0);
	for (unsigned round = 0; round < 3; round++) {
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 10000, &mr), 0);
		CU_ASSERT_EQUAL((uintptr_t)mr->addr % 4096, 0);
		for (unsigned i = 0; i < 10000; i++)
			if (((uint8_t *)mr->addr)[i]) {
				CU_FAIL("not zero");
				break;
			}
		memset(mr->addr, 0xFF, 10000);
		CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	}
	memo_stop();
}

TEST(invalid_memory_is_not_registered)
{
	struct sp_mr *mr;

	memo_start(0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dut.dev, 0, &mr), -EINVAL);
	CU_ASSERT_EQUAL(sp_mr_reg(dut.dev, NULL, 10, &mr), -EINVAL);
	CU_ASSERT_EQUAL(sp_mr_reg(dut.dev, guarded, 0, &mr), -EINVAL);
	CU_ASSERT_EQUAL(sp_mr_reg(dut.dev, (void *)(UINTPTR_MAX - 10), 100, &mr), -EINVAL);
	CU_ASSERT(sp_mr_alloc(dut.dev, UINT64_MAX, &mr) < 0);
	CU_ASSERT(sp_mr_alloc(dut.dev, UINT64_MAX / 2, &mr) < 0);
	memo_stop();
}

static int add_region(void *addr, uint64_t len, uint32_t owner, struct sp_mem **m)
{
	const enum sp_backing_kind kind = owner ? SP_BACKING_SHARED : SP_BACKING_PRIVATE;
	struct sp_backing b;
	int r = sp_memory_back(dut.nic, NULL, addr, len, kind, &b);

	if (r)
		return r;
	r = sp_memory_insert(dut.nic, &b, owner, m);
	if (r)
		sp_memory_unback(dut.nic, &b);
	return r;
}

TEST(an_old_id_never_names_a_new_region)
{
	struct sp_mem *m;

	memo_start(0);
	CU_ASSERT_PTR_NULL(memo_get(0));
	CU_ASSERT_PTR_NULL(memo_get(UINT32_MAX));
	CU_ASSERT_EQUAL_FATAL(add_region(guarded, SIZE, 0, &m), 0);
	uint32_t first = m->id;
	CU_ASSERT_PTR_NOT_NULL(memo_get(first));
	memo_put(memo_mem);
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, first, 0), 0);
	CU_ASSERT_PTR_NULL(memo_get(first));
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, first, 0), -ENOENT);
	for (unsigned i = 0; i < 70000; i++) { /* every place in the table is used again */
		if (add_region(guarded, SIZE, 0, &m) || m->id == first)
			CU_FAIL("id used again");
		if (i % 1000 == 0)
			CU_ASSERT_PTR_NULL(memo_get(first));
		sp_memory_remove(dut.nic, m->id, 0);
	}
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, first, 0), -ENOENT);
	memo_stop();
}

TEST(the_table_of_regions_is_bounded)
{
	struct sp_mem *m;
	unsigned n = 0;
	uint32_t last = 0;

	memo_start(0);
	while (n < 100000 && !add_region(guarded, 1, 0, &m)) {
		n++;
		last = m->id;
	}
	CU_ASSERT_EQUAL(n, 65536);
	CU_ASSERT_EQUAL(add_region(guarded, 1, 0, &m), -ENOMEM);
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, last, 0), 0);
	CU_ASSERT_EQUAL(add_region(guarded, 1, 0, &m), 0);
	memo_stop(); /* frees them all */
}

TEST(a_region_in_use_cannot_be_freed)
{
	struct sp_mr *mr;

	memo_start(0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, 4096, &mr), 0);
	const struct sp_mem *twice = memo_get(mr->id);
	CU_ASSERT_PTR_EQUAL(memo_get(mr->id), twice);
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
	memo_put(twice);
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
	memo_put(twice);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	memo_stop();
}

TEST(a_region_is_its_owners_alone)
{
	struct sp_mem *theirs;

	memo_start(0);
	CU_ASSERT_EQUAL_FATAL(add_region(NULL, 100, 5, &theirs), 0);
	CU_ASSERT_PTR_NULL(memo_get(theirs->id)); /* the context belongs to owner 0 */
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, theirs->id, 0), -ENOENT);
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, theirs->id, 5), 0); /* having been looked at has not held it */
	CU_ASSERT_EQUAL_FATAL(add_region(NULL, 100, 5, &theirs), 0);
	sp_memory_remove_owner(dut.nic, 5);
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, theirs->id, 5), -ENOENT);
	memo_stop();
}

TEST(memory_is_limited_and_contexts_count)
{
	struct sp_mr *mr, *none;
	struct sp_error error;
	uint32_t other;

	memo_start(1 << 20);
	uint64_t used = dut.nic->memory_used;
	CU_ASSERT(used > 0); /* the context's state */
	CU_ASSERT_EQUAL(sp_mr_alloc(dut.dev, (1 << 20) + 1, &none), -EDQUOT);
	CU_ASSERT_EQUAL(sp_mr_alloc(dut.dev, (1 << 20) - used + 1, &none), -EDQUOT);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dut.dev, (1 << 20) - used, &mr), 0);
	CU_ASSERT_EQUAL(sp_mr_reg(dut.dev, guarded, 1, &none), -EDQUOT);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "b", "memo", "qp=17", &other, &error), -ENOMEM);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "memory-limit"));
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	CU_ASSERT_EQUAL(dut.nic->memory_used, used);
	CU_ASSERT_EQUAL(dut_try_context(&dut, "b", "memo", "qp=17;area=2M", &other, &error), -ENOMEM);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "no memory for the 2097152 bytes that handler memo shares"));
	CU_ASSERT_EQUAL(dut.nic->memory_used, used); /* what failed gives everything back */
	other = dut_context(&dut, "b", "memo", "qp=17");
	CU_ASSERT(dut.nic->memory_used > used);
	sp_nic_context_remove(dut.nic, other);
	CU_ASSERT_EQUAL(dut.nic->memory_used, used);
	sp_nic_context_remove(dut.nic, memo_id);
	CU_ASSERT_EQUAL(dut.nic->memory_used, QUEUES); /* the device's */
	memo_stop();
}

TEST(a_contexts_area_is_the_hosts_too)
{
	uint64_t len = 7, used;
	struct sp_setting setting[] = {{"qp", "20"}, {"area", "5000"}};
	uint32_t other;
	void *addr;

	memo_start(0);
	CU_ASSERT_EQUAL(sp_context_area(dut.dev, memo_id, &addr, &len), 0);
	CU_ASSERT_PTR_NULL(addr);
	CU_ASSERT_EQUAL(len, 0);
	CU_ASSERT(sp_context_area(dut.dev, 12345, &addr, &len) < 0);
	used = dut.nic->memory_used;
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dut.dev, "b", "memo", setting, 2, &other, NULL), 0);
	CU_ASSERT_EQUAL(sp_context_area(dut.dev, other, &addr, &len), 0);
	CU_ASSERT_EQUAL(len, 5000);
	CU_ASSERT(!memcmp(addr, "area\0\0\0", 8));
	CU_ASSERT_EQUAL(sp_memory_remove(dut.nic, sp_context_by_id(dut.nic, other)->area->id, 0), -EBUSY);
	CU_ASSERT_EQUAL(sp_context_close(dut.dev, other), 0);
	CU_ASSERT_EQUAL(dut.nic->memory_used, used);
	memo_stop();
}
