/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs do to memory that is registered: they fork, unmap, move and protect it; and random sequences of all
 * that, with a peer that writes, against a model. */
#include <limits.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../../testbed/random.h"
#include "../lib/verbs_peer.h"

#define KIB 1024ul

extern char **environ;

static uint8_t *anonymous(size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CU_ASSERT_FATAL(p != MAP_FAILED);
	return p;
}

static int ended(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

TEST(a_child_and_its_parent_do_not_see_each_others_writes)
{
	uint8_t *p, bytes[100];
	struct shim_mr mr;
	pid_t child;
	int go[2], done[2];
	char byte = 0;

	verbs_open();
	p = anonymous(3 * 64 * KIB);
	memset(p, 1, 3 * 64 * KIB);
	mr = verbs_reg(p + 64 * KIB, 64 * KIB);
	CU_ASSERT_FATAL(mr.direct && !pipe(go) && !pipe(done));
	child = fork();
	if (!child) {
		int wrong = 0;

		close(go[1]); /* a parent that fails does not leave it behind */
		for (size_t i = 0; i < 3 * 64 * KIB; i++)
			wrong |= p[i] != 1;
		memset(p, 2, 3 * 64 * KIB);
		wrong |= write(done[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1;
		for (size_t i = 0; i < 3 * 64 * KIB; i++)
			wrong |= p[i] != 2;
		/* To it, nothing is registered. */
		wrong |= shim_areas != NULL;
		_exit(wrong);
	}
	CU_ASSERT_EQUAL_FATAL(read(done[0], &byte, 1), 1);
	for (size_t i = 0; i < 3 * 64 * KIB; i += 64)
		CU_ASSERT(p[i] == 1);
	memset(p, 3, 3 * 64 * KIB);
	memset(bytes, 4, sizeof(bytes));
	CU_ASSERT(verbs_write(&mr, 0, bytes, sizeof(bytes)) && p[64 * KIB] == 4 && p[64 * KIB + 100] == 3);
	CU_ASSERT_EQUAL(write(go[1], &byte, 1), 1);
	CU_ASSERT_EQUAL(ended(child), 0);
	verbs_dereg(&mr);
	CU_ASSERT(p[64 * KIB] == 4 && p[64 * KIB + 100] == 3);
	for (unsigned i = 0; i < 2; i++) {
		close(go[i]);
		close(done[i]);
	}
	munmap(p, 3 * 64 * KIB);
	verbs_shut();
}

TEST(other_programs_can_be_run_meanwhile)
{
	char *const argv[] = {"true", NULL};
	struct shim_mr mr;
	uint8_t *p;
	pid_t child;
	FILE *f;

	verbs_open();
	p = anonymous(256 * KIB);
	mr = verbs_reg(p, 256 * KIB);
	for (unsigned i = 0; i < 5; i++) {
		p[i] = (uint8_t)(i + 1);
		CU_ASSERT_EQUAL(system("exit 3"), 3 << 8);
		CU_ASSERT_FATAL(!posix_spawnp(&child, "true", NULL, NULL, argv, environ));
		CU_ASSERT_EQUAL(ended(child), 0);
		f = popen("echo 1", "r");
		CU_ASSERT(f && fgetc(f) == '1' && !pclose(f));
		child = fork();
		if (!child) {
			execvp("true", argv);
			_exit(1);
		}
		CU_ASSERT_EQUAL(ended(child), 0);
		CU_ASSERT(p[i] == i + 1 && verbs_write(&mr, i, "x", 1) && p[i] == 'x');
	}
	verbs_dereg(&mr);
	munmap(p, 256 * KIB);
	verbs_shut();
}

TEST(memory_that_the_program_moves_comes_back_where_it_is)
{
	uint8_t *p, *q;
	struct shim_mr mr, again;

	verbs_open();
	p = anonymous(256 * KIB);
	q = anonymous(256 * KIB);
	p[5000] = 7;
	mr = verbs_reg(p, 256 * KIB);
	CU_ASSERT_FATAL(mremap(p, 256 * KIB, 256 * KIB, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q);
	CU_ASSERT(verbs_write(&mr, 5001, "y", 1) && q[5000] == 7 && q[5001] == 'y');
	/* The place is used for something else, which is registered. */
	CU_ASSERT_FATAL(mmap(p, 256 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
			p);
	p[5000] = 8;
	again = verbs_reg(p, 256 * KIB);
	munmap(q + 4096 * 20, 4096);
	CU_ASSERT(!mprotect(q + 4096 * 30, 4096, PROT_READ) && !mprotect(q + 4096 * 40, 4096, PROT_NONE));
	verbs_dereg(&mr);
	CU_ASSERT(q[5000] == 7 && q[5001] == 'y' && p[5000] == 8 && again.direct);
	CU_ASSERT(verbs_write(&again, 5001, "z", 1) && p[5001] == 'z');
	verbs_dereg(&again);
	CU_ASSERT(p[5000] == 8 && p[5001] == 'z');
	munmap(p, 256 * KIB);
	munmap(q, 256 * KIB);
	/* Unmapped, and its place taken, while it is registered. */
	p = anonymous(256 * KIB);
	mr = verbs_reg(p, 256 * KIB);
	munmap(p, 256 * KIB);
	CU_ASSERT_FATAL(mmap(p, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	CU_ASSERT(verbs_write(&mr, 0, "a", 1) && !p[0]); /* the region's bytes are still there for the peer */
	verbs_dereg(&mr);
	CU_ASSERT(!p[0]);
	munmap(p, 64 * KIB);
	verbs_shut();
}

TEST(what_malloc_gives_can_be_registered_and_resized)
{
	struct shim_mr mr;
	uint8_t *p;

	verbs_open();
	p = malloc(1024 * KIB);
	memset(p, 9, 1024 * KIB);
	for (unsigned i = 0; i < 8; i++) {
		const size_t len = (512 + 300 * i) * KIB;

		mr = verbs_reg(p, 512 * KIB);
		CU_ASSERT(verbs_write(&mr, 512 * KIB - 1, &(uint8_t){(uint8_t)(10 + i)}, 1));
		verbs_dereg(&mr);
		p = realloc(p, len);
		CU_ASSERT_FATAL(p && p[0] == 9 && p[512 * KIB - 1] == 10 + i);
		memset(p + 512 * KIB, 1, len - 512 * KIB);
	}
	free(p);
	verbs_shut();
}

/* ---- a model ---- */
enum { PAGES = 96, REGIONS = 12, OPS = 60 };

struct model {
	struct sp_random random;
	uint8_t *memory; /* PAGES, all mapped at all times */
	uint8_t byte[PAGES * 4096];
	struct shim_mr mr[REGIONS];
	size_t start[REGIONS], len[REGIONS];
	bool dirty[REGIONS]; /* some of it was thrown away or replaced: the peer must not look */
};

static uint64_t below(struct model *m, uint64_t n)
{
	return sp_random_next(&m->random) % n;
}

static void forget(struct model *m, size_t start, size_t len)
{
	for (unsigned i = 0; i < REGIONS; i++)
		m->dirty[i] |= m->len[i] && m->start[i] / 4096 * 4096 < start + len &&
			       start < (m->start[i] + m->len[i] + 4095) / 4096 * 4096;
}

static const char *step(struct model *m)
{
	const unsigned i = (unsigned)below(m, REGIONS);
	const size_t at = below(m, PAGES * 4096 - 1), room = PAGES * 4096 - at;
	const size_t pages = (at / 4096) * 4096, count = 4096 * (1 + below(m, 8));
	uint8_t bytes[5000];

	switch (below(m, 12)) {
	default: /* register, deregister */
		if (m->len[i]) {
			verbs_dereg(&m->mr[i]);
			m->len[i] = 0;
			return NULL;
		}
		m->start[i] = at;
		m->len[i] = 1 + below(m, room > 60000 ? 60000 : room);
		m->mr[i] = verbs_reg(m->memory + at, m->len[i]);
		m->dirty[i] = false;
		/* Another region's bytes may lie in areas that this place has nothing to do with any more. */
		return NULL;
	case 6: /* the program writes */
	case 7: {
		const size_t n = room < sizeof(bytes) ? room : sizeof(bytes);

		for (size_t k = 0; k < n; k++)
			m->memory[at + k] = m->byte[at + k] = (uint8_t)(at * 3 + k + below(m, 2));
		return NULL;
	}
	case 8: /* the peer writes */
	case 9: {
		size_t off, n;

		if (!m->len[i] || m->dirty[i])
			return NULL;
		off = below(m, m->len[i]);
		n = 1 + below(m, m->len[i] - off);
		n = n > sizeof(bytes) ? sizeof(bytes) : n;
		memset(bytes, (int)below(m, 256), n);
		if (!verbs_write(&m->mr[i], off, bytes, (uint32_t)n))
			return "a WRITE failed";
		memcpy(m->byte + m->start[i] + off, bytes, n);
		n = n > 100 ? 100 : n;
		if (!verbs_read(&m->mr[i], off, bytes, (uint32_t)n) || memcmp(bytes, m->byte + m->start[i] + off, n))
			return "a READ has other bytes";
		return NULL;
	}
	case 10: /* the program maps something else there, or moves it and takes it back */
		if (pages + count > PAGES * 4096)
			return NULL;
		if (below(m, 2)) {
			uint8_t *away = anonymous(count);

			if (mremap(m->memory + pages, count, count, MREMAP_MAYMOVE | MREMAP_FIXED, away) != away ||
			    mremap(away, count, count, MREMAP_MAYMOVE | MREMAP_FIXED, m->memory + pages) !=
				    m->memory + pages)
				return errno == EFAULT ? NULL : "mremap";
			return NULL;
		}
		if (mmap(m->memory + pages, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) == MAP_FAILED)
			return "mmap";
		memset(m->byte + pages, 0, count);
		forget(m, pages, count);
		return NULL;
	case 11: {
		pid_t child = below(m, 4) ? -1 : fork();

		if (!child) {
			const int wrong = memcmp(m->memory, m->byte, PAGES * 4096) != 0;

			memset(m->memory, 0xEE, PAGES * 4096);
			_exit(wrong);
		}
		return child > 0 && ended(child) ? "a child has other bytes" : NULL;
	}
	}
}

static const char *run(uint64_t seed)
{
	static struct model m;
	const char *wrong = NULL;

	memset(&m, 0, sizeof(m));
	sp_random_seed(&m.random, seed, 0);
	m.memory = anonymous(PAGES * 4096);
	for (unsigned i = 0; i < OPS && !wrong; i++) {
		wrong = step(&m);
		if (!wrong && memcmp(m.memory, m.byte, PAGES * 4096))
			wrong = "the program has other bytes";
	}
	for (unsigned i = 0; i < REGIONS; i++)
		if (m.len[i])
			verbs_dereg(&m.mr[i]);
	if (!wrong && memcmp(m.memory, m.byte, PAGES * 4096))
		wrong = "the program has other bytes in the end";
	if (!wrong && shim_areas)
		wrong = "areas are left";
	munmap(m.memory, PAGES * 4096);
	return wrong;
}

TEST(random_sequences_are_as_the_model_says)
{
	const char *only = getenv("SPINDLE_SEED");
	const uint64_t first = only ? strtoull(only, NULL, 10) : 1;
	const uint64_t count = only ? 1 : getenv("SPINDLE_LONG") ? 3000 : suite_times(20);
	unsigned bad = 0;

	verbs_open();
	for (uint64_t seed = first; seed < first + count && bad < 3; seed++) {
		const char *wrong;

		shim_by_mprotect = seed % 4 == 3;
		wrong = run(seed);
		if (wrong)
			printf("# seed %llu: %s\n", (unsigned long long)seed, wrong);
		bad += wrong != NULL;
	}
	shim_by_mprotect = false;
	CU_ASSERT_EQUAL(bad, 0);
	verbs_shut();
}
