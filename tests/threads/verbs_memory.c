/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the program has registered while its threads use it: what is substituted, what is the agent's, and that
 * neither loses a byte. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../lib/verbs_peer.h"

#define KIB 1024ul

static uint8_t *anonymous(size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CU_ASSERT_FATAL(p != MAP_FAILED);
	return p;
}

static uint8_t fresh(uint32_t i, unsigned round)
{
	return (uint8_t)(i * 7 + (i >> 8) + round * 31 + 1);
}

/* Is this page an area's? */
static int is_area(void *user, const struct shim_vma *v)
{
	const uintptr_t at = *(uintptr_t *)user;

	return at >= v->start && at < v->end ? shim_area_of(v) ? 1 : 2 : 0;
}

static bool substituted(const void *p)
{
	uintptr_t at = (uintptr_t)p;
	bool is;

	verbs_lock();
	is = shim_vmas(is_area, &at) == 1;
	verbs_unlock();
	return is;
}

/* ---- what is substituted, and what is not ---- */

TEST(whole_mappings_are_substituted_and_come_back)
{
	uint8_t *p, bytes[8192];
	struct shim_mr mr;

	verbs_open();
	p = anonymous(256 * KIB);
	memset(p, 0x11, 256 * KIB);
	mr = verbs_reg(p + 4096 + 100, 100 * KIB);
	CU_ASSERT(mr.direct && mr.segments == 1);
	CU_ASSERT(substituted(p + 4096) && substituted(p + 104 * KIB) && !substituted(p) &&
		  !substituted(p + 112 * KIB));
	CU_ASSERT(shim_memory_direct(&mr, mr.iova, 100 * KIB));
	CU_ASSERT_PTR_EQUAL(shim_memory_at(&mr, mr.iova + 5), p + 4096 + 105);
	verbs_idle(true); /* nobody serves: so it is the NIC that reaches it */
	memset(bytes, 0x22, sizeof(bytes));
	CU_ASSERT(verbs_write(&mr, 0, bytes, sizeof(bytes)));
	CU_ASSERT(p[4195] == 0x11 && p[4196] == 0x22 && p[4196 + 8191] == 0x22 && p[4196 + 8192] == 0x11);
	p[4196] = 0x33;
	CU_ASSERT(verbs_read(&mr, 0, bytes, 100));
	CU_ASSERT(bytes[0] == 0x33 && bytes[1] == 0x22);
	verbs_idle(false);
	verbs_dereg(&mr);
	CU_ASSERT(!substituted(p + 4096) && !substituted(p + 104 * KIB));
	CU_ASSERT(p[4195] == 0x11 && p[4196] == 0x33 && p[4197] == 0x22 && p[4196 + 8192] == 0x11);
	/* It can be thrown away, and is empty then, as private memory is. */
	CU_ASSERT(!madvise(p, 256 * KIB, MADV_DONTNEED) && !p[4196]);
	munmap(p, 256 * KIB);
	verbs_shut();
}

/* Registers it, lets the peer write and add, and looks at the neighbours. */
static void is_the_agents(const char *what, uint8_t *p, size_t len)
{
	uint8_t bytes[1000], back[1000];
	uint64_t before = 0;
	struct shim_mr mr = verbs_reg(p + 24, len - 48);

	memset(p, 0x11, len);
	if (mr.direct || substituted(p + len / 2))
		printf("# %s is substituted\n", what);
	CU_ASSERT(!mr.direct && !substituted(p + len / 2));
	CU_ASSERT(!shim_memory_direct(&mr, mr.iova, 1));
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = fresh(i, 0);
	for (uint32_t at = 0; at < 9; at++) {
		const uint32_t n = (uint32_t)(len - 64 < sizeof(bytes) ? len - 64 : sizeof(bytes)) - at * 3;

		memset(p, 0x11, len);
		CU_ASSERT(verbs_write(&mr, at, bytes, n));
		CU_ASSERT(!memcmp(p + 24 + at, bytes, n) && p[23 + at] == 0x11 && p[24 + at + n] == 0x11);
		CU_ASSERT(verbs_read(&mr, at, back, n) && !memcmp(back, bytes, n));
	}
	memcpy(p + 24, (uint64_t[]){41}, 8);
	if (!((uintptr_t)p % 8)) {
		CU_ASSERT(verbs_add(&mr, 0, 2, &before) && before == 41);
		CU_ASSERT(*(uint64_t *)(void *)(p + 24) == 43);
	}
	verbs_dereg(&mr);
}

static uint64_t data[1024];

static void *on_a_stack(void *arg)
{
	uint64_t own[4096];

	is_the_agents("a thread's stack", (uint8_t *)own, sizeof(own));
	return arg;
}

#ifndef __SANITIZE_ADDRESS__ /* which has heaps of its own */
/* Memory of one of malloc's further heaps. */
static void *on_a_heap(void *arg)
{
	uint8_t *p = malloc(120 * KIB);

	is_the_agents("a thread's heap", p, 100 * KIB);
	free(p);
	return arg;
}
#endif

TEST(files_shared_and_huge_pages_heaps_and_stacks_are_the_agents)
{
	char name[] = "verbs-XXXXXX";
	uint64_t own[4096];
	pthread_t thread;
	uint8_t *p;
	int fd;

	verbs_open();
	is_the_agents("data", (uint8_t *)data, sizeof(data));
	is_the_agents("the stack", (uint8_t *)own, sizeof(own));
	p = sbrk(200 * KIB);
	is_the_agents("the heap", p, 200 * KIB);
	pthread_create(&thread, NULL, on_a_stack, NULL);
	pthread_join(thread, NULL);
#ifndef __SANITIZE_ADDRESS__
	pthread_create(&thread, NULL, on_a_heap, NULL);
	pthread_join(thread, NULL);
#endif
	fd = mkstemp(name);
	CU_ASSERT_FATAL(fd >= 0 && !unlink(name) && !ftruncate(fd, 256 * KIB));
	p = mmap(NULL, 256 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	is_the_agents("a private file", p, 256 * KIB);
	munmap(p, 256 * KIB);
	p = mmap(NULL, 256 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	is_the_agents("a shared file", p, 256 * KIB);
	munmap(p, 256 * KIB);
	close(fd);
	p = mmap(NULL, 256 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	is_the_agents("shared memory", p, 256 * KIB);
	munmap(p, 256 * KIB);
	p = mmap(NULL, 2048 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (p != MAP_FAILED) {
		is_the_agents("a huge page", p, 2048 * KIB);
		munmap(p, 2048 * KIB);
	}
	p = anonymous(256 * KIB);
	mprotect(p, 100 * KIB, PROT_NONE);
	mprotect(p + 140 * KIB, 116 * KIB, PROT_NONE);
	is_the_agents("a small mapping", p + 100 * KIB, 40 * KIB);
	munmap(p, 256 * KIB);
	p = anonymous(256 * KIB);
	if (!syscall(SYS_mlock, p, 4096)) /* sanitizers make none of the call */
		is_the_agents("memory of a process that has locked some", p, 256 * KIB);
	munmap(p, 256 * KIB);
	verbs_shut();
}

TEST(what_is_not_there_or_read_only_is_refused)
{
	struct shim_mr mr;
	uint8_t *p;

	verbs_open();
	p = anonymous(256 * KIB);
	munmap(p + 128 * KIB, 4096);
	verbs_lock();
	CU_ASSERT_EQUAL(shim_memory_register(NULL, verbs_near.pd, p, 256 * KIB, 0, VERBS_ALL, &mr), -EFAULT);
	mprotect(p, 4096, PROT_READ);
	CU_ASSERT_EQUAL(shim_memory_register(NULL, verbs_near.pd, p, 8192, 0, VERBS_ALL, &mr), -EFAULT);
	CU_ASSERT_EQUAL(shim_memory_register(NULL, verbs_near.pd, p, 0, 0, VERBS_ALL, &mr), -EINVAL);
	CU_ASSERT_EQUAL(shim_memory_register(NULL, verbs_near.pd, p, SIZE_MAX, 0, VERBS_ALL, &mr), -EINVAL);
	CU_ASSERT_EQUAL(shim_memory_register(NULL, verbs_near.pd, p, 8192, 0, SP_RDMA_REMOTE_READ, &mr), 0);
	CU_ASSERT_EQUAL(mr.segments, 2);
	verbs_unlock();
	verbs_dereg(&mr);
	munmap(p, 256 * KIB);
	verbs_shut();
}

TEST(a_region_has_at_most_as_many_segments_as_the_nic_takes)
{
	const size_t len = 400 * 68 * KIB;
	struct shim_mr mr;
	uint8_t *p, byte = 5;
	unsigned reached = 0;

	verbs_open();
	p = anonymous(len);
	/* Every other piece is of another kind. */
	for (unsigned i = 0; i < 200; i++)
		CU_ASSERT_FATAL(mmap(p + (2 * i + 1) * 68 * KIB, 68 * KIB, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	mr = verbs_reg(p, len);
	CU_ASSERT(!mr.direct && mr.segments <= SP_RDMA_SEGMENTS);
	for (unsigned i = 0; i < 400; i += 7, reached++)
		CU_ASSERT(verbs_write(&mr, i * 68 * KIB + 5, &byte, 1) && p[i * 68 * KIB + 5] == 5);
	verbs_dereg(&mr);
	munmap(p, len);
	verbs_shut();
}

/* ---- threads ---- */

struct writer {
	pthread_t thread;
	uint8_t *memory;
	size_t words; /* every second is its own, from the first or the second on */
	unsigned own;
	_Atomic bool stop;
	_Atomic uint64_t wrote;
};

__attribute__((no_sanitize("thread"))) static void *write_words(void *arg)
{
	struct writer *w = arg;
	uint64_t s = 88172645463325252ull + w->own;

	for (; !w->stop; sched_yield())
		for (unsigned i = 0; i < 1000; i++) {
			s ^= s << 13;
			s ^= s >> 7;
			s ^= s << 17;
			((volatile uint64_t *)(void *)w->memory)[2 * (s % (w->words / 2)) + w->own]++;
			w->wrote++;
		}
	return NULL;
}

static void writers_against_registrations(bool by_mprotect)
{
	const unsigned times = getenv("SPINDLE_LONG") ? 1000 : 100;
	struct writer w[2];
	uint8_t *p;

	verbs_open();
	shim_by_mprotect = by_mprotect;
	p = anonymous(128 * KIB);
	for (unsigned i = 0; i < 2; i++) {
		w[i] = (struct writer){.memory = p, .words = 128 * KIB / 8, .own = i};
		CU_ASSERT_FATAL(!pthread_create(&w[i].thread, NULL, write_words, &w[i]));
	}
	/* On a busy machine each registration may hold a writer again before it had a turn. */
	for (unsigned i = 0; i < 2; i++)
		while (!w[i].wrote)
			sched_yield();
	for (unsigned i = 0; i < times; i++) {
		struct shim_mr mr = verbs_reg(p, 128 * KIB);

		CU_ASSERT(mr.direct);
		verbs_dereg(&mr);
	}
	for (unsigned i = 0; i < 2; i++) {
		uint64_t sum = 0;

		w[i].stop = true;
		pthread_join(w[i].thread, NULL);
		for (size_t k = i; k < w[i].words; k += 2)
			sum += ((uint64_t *)(void *)p)[k];
		if (sum != w[i].wrote)
			printf("# of %llu words %lld are lost\n", (unsigned long long)w[i].wrote,
			       (long long)(w[i].wrote - sum));
		CU_ASSERT(sum == w[i].wrote);
	}
	munmap(p, 128 * KIB);
	shim_by_mprotect = false;
	verbs_shut();
}

TEST(writers_lose_no_word_through_registrations)
{
	writers_against_registrations(false);
}

TEST(nor_where_there_is_no_userfaultfd)
{
	writers_against_registrations(true);
}

/* A page that was never touched has no protection of its own. */
TEST(first_writes_to_fresh_memory_are_not_lost)
{
	verbs_open();
	for (unsigned i = 0; i < suite_times(50); i++) {
		uint8_t *p = anonymous(64 * KIB);
		struct writer w = {.memory = p, .words = 64 * KIB / 8};
		struct shim_mr mr;
		uint64_t sum = 0;

		pthread_create(&w.thread, NULL, write_words, &w);
		mr = verbs_reg(p, 64 * KIB);
		w.stop = true;
		pthread_join(w.thread, NULL);
		for (size_t k = 0; k < w.words; k++)
			sum += ((uint64_t *)(void *)p)[k];
		CU_ASSERT_EQUAL(sum, w.wrote);
		verbs_dereg(&mr);
		munmap(p, 64 * KIB);
	}
	verbs_shut();
}

struct spinner {
	pthread_t thread;
	volatile uint8_t *last, *first;
	uint32_t len;
	_Atomic unsigned round; /* that it waits for; UINT_MAX: the end */
	_Atomic unsigned seen;
	unsigned wrong;
};

__attribute__((no_sanitize("thread"))) static void *spin(void *arg)
{
	struct spinner *s = arg;

	for (unsigned round; (round = s->round) != UINT_MAX;) {
		if (round == s->seen || *s->last != (uint8_t)round) {
			sched_yield();
			continue;
		}
		for (uint32_t i = 0; i < s->len; i++)
			s->wrong += s->first[i] != (uint8_t)round;
		s->seen = round;
	}
	return NULL;
}

TEST(who_sees_the_last_byte_sees_all)
{
	static uint8_t memory[20100], bytes[20000];
	struct spinner s = {.first = memory};
	struct shim_mr mr;

	verbs_open();
	mr = verbs_reg(memory, sizeof(memory));
	CU_ASSERT(!mr.direct);
	pthread_create(&s.thread, NULL, spin, &s);
	for (unsigned round = 1; round <= suite_times(100); round++) {
		const uint32_t at = round % 13, len = 1 + round * 997 % 20000;

		memset(bytes, (int)(uint8_t)round, len);
		s.first = memory + at;
		s.len = len;
		s.last = memory + at + len - 1;
		memset(memory, (int)(uint8_t)(round + 100), sizeof(memory));
		s.round = round;
		CU_ASSERT(verbs_write(&mr, at, bytes, len));
		for (unsigned i = 0; s.seen != round && i < 100000; i++)
			usleep(10);
		CU_ASSERT_EQUAL(s.seen, round);
	}
	s.round = UINT_MAX;
	pthread_join(s.thread, NULL);
	CU_ASSERT_EQUAL(s.wrong, 0);
	verbs_dereg(&mr);
	verbs_shut();
}

struct neighbour {
	pthread_t thread;
	volatile uint8_t *byte[2];
	_Atomic bool stop;
	uint64_t lost;
};

__attribute__((no_sanitize("thread"))) static void *write_beside(void *arg)
{
	struct neighbour *n = arg;

	for (uint8_t value = 0; !n->stop; value++)
		for (unsigned i = 0; i < 2; i++) {
			*n->byte[i] = value;
			sched_yield();
			n->lost += *n->byte[i] != value;
		}
	return NULL;
}

static void neighbours_of(uint8_t *p, bool direct)
{
	uint8_t bytes[999];
	uint64_t before = 0;

	for (unsigned round = 0; round < suite_times(20); round++) {
		struct neighbour n = {.byte = {p + 101 + round, p + 101 + round + 1000}};
		struct shim_mr mr = verbs_reg(p + 102 + round, 999);

		CU_ASSERT_EQUAL_FATAL(mr.direct, direct);
		pthread_create(&n.thread, NULL, write_beside, &n);
		memset(bytes, (int)round, sizeof(bytes));
		for (unsigned i = 0; i < 5; i++)
			CU_ASSERT(verbs_write(&mr, 0, bytes, sizeof(bytes)));
		n.stop = true;
		pthread_join(n.thread, NULL);
		CU_ASSERT_EQUAL(n.lost, 0);
		CU_ASSERT(!memcmp(p + 102 + round, bytes, sizeof(bytes)));
		verbs_dereg(&mr);
	}
	/* The program's own additions and the peer's, on one word. */
	if (!direct) {
		struct shim_mr mr = verbs_reg(p, 64);

		memset(p, 0, 64);
		for (unsigned i = 0; i < 50; i++) {
			__atomic_fetch_add((uint64_t *)(void *)(p + 8), 1000, __ATOMIC_SEQ_CST);
			CU_ASSERT(verbs_add(&mr, 8, 1, &before));
			CU_ASSERT_EQUAL(before, 1000ull * (i + 1) + i);
		}
		CU_ASSERT_EQUAL(*(uint64_t *)(void *)(p + 8), 50050);
		verbs_dereg(&mr);
	}
}

TEST(neighbours_are_written_at_once)
{
	uint8_t *p;

	verbs_open();
	neighbours_of((uint8_t *)data, false);
	p = anonymous(64 * KIB);
	neighbours_of(p, true);
	munmap(p, 64 * KIB);
	verbs_shut();
}

/* ---- bounce memory ---- */

TEST(bounce_memory_is_taken_by_size_has_keys_and_a_limit)
{
	static struct shim_piece many[3000];
	struct sp_rdma_pd *pd = NULL;
	struct shim_piece piece[2];
	struct shim_bounce *b;
	uint32_t key[4];
	void *before;
	unsigned n = 0, tries = 0;
	int rc;

	verbs_open();
	verbs_lock();
	b = shim_bounce_open(verbs_near.dev);
	CU_ASSERT_FATAL(b && !sp_rdma_pd_alloc(verbs_near.rdma, &pd));
	CU_ASSERT(!shim_bounce_take(b, 100, &piece[0]) && !shim_bounce_take(b, 256, &piece[1]));
	CU_ASSERT(piece[0].bytes == 256 && piece[0].addr != piece[1].addr && piece[0].chunk == piece[1].chunk);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(shim_bounce_lkey(b, i % 2 ? pd : verbs_near.pd, &piece[i / 2], &key[i]), 0);
	CU_ASSERT(key[0] == key[2] && key[1] == key[3] && key[0] != key[1]);
	CU_ASSERT_EQUAL(sp_rdma_pd_dealloc(pd), -EBUSY);
	while (shim_bounce_leave(b, pd) == -EAGAIN)
		usleep(20);
	CU_ASSERT_EQUAL(sp_rdma_pd_dealloc(pd), 0);
	before = piece[0].addr;
	shim_bounce_give(b, &piece[0]);
	shim_bounce_give(b, &piece[0]); /* none any more */
	CU_ASSERT(!shim_bounce_take(b, 1, &piece[0]) && piece[0].addr == before);
	for (; n < 3000 && !shim_bounce_take(b, 256, &many[n]); n++)
		memset(many[n].addr, (int)n, 256);
	CU_ASSERT_EQUAL(n, 3000);
	while (n) {
		CU_ASSERT_EQUAL(*(uint8_t *)many[n - 1].addr, (uint8_t)(n - 1));
		shim_bounce_give(b, &many[--n]);
	}
	/* Up to the limit, and from idle memory of other sizes. */
	while (n < 3000 && !shim_bounce_take(b, 1 << 24, &many[n]))
		n++;
	CU_ASSERT(n && n <= SHIM_BOUNCE_LIMIT >> 24);
	CU_ASSERT_EQUAL(shim_bounce_take(b, 1 << 24, &piece[1]), -ENOMEM);
	CU_ASSERT_EQUAL(shim_bounce_take(b, UINT64_MAX, &piece[1]), -ENOMEM);
	while (n)
		shim_bounce_give(b, &many[--n]);
	/* A busy machine may take its time to free what was let go of. */
	while ((rc = shim_bounce_take(b, 1 << 23, &many[0])) == -ENOMEM && tries++ < 20)
		usleep(100000);
	CU_ASSERT_EQUAL(rc, 0);
	shim_bounce_give(b, &many[0]);
	shim_bounce_close(b);
	verbs_unlock();
	verbs_shut();
}
