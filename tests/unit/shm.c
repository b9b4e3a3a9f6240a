/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that an application shares with the NIC, and what it can do to it: the test maps the descriptors that the NIC
 * would hand over, and writes there what it likes. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../lib/remote_app.h"

/* What an application would have mapped. */
static void *mapped(const struct sp_shm *shared, int prot)
{
	void *p = mmap(NULL, shared->bytes, prot, MAP_SHARED, shared->fd, 0);

	CU_ASSERT_PTR_NOT_EQUAL_FATAL(p, MAP_FAILED);
	return p;
}

static struct sp_ring_shared *command_ring(void *queues)
{
	return sp_attach_commands(sp_attach_page(queues, SP_COMMANDS, 0));
}

static struct sp_ring_shared *event_ring(void *events)
{
	return sp_attach_ring(events, SP_EVENTS, 0);
}

/* ---- memory that both sides have ---- */

/* By its seals, or because it is open for reading only. */
static bool refused(int rc)
{
	return rc < 0 && (errno == EPERM || errno == EINVAL || errno == EBADF);
}

static void refuses_another_size_and_more_seals(int fd, size_t bytes)
{
	CU_ASSERT(refused(ftruncate(fd, (off_t)bytes - 4096)));
	CU_ASSERT(refused(ftruncate(fd, 0)));
	CU_ASSERT(refused(ftruncate(fd, (off_t)bytes + 4096)));
	CU_ASSERT(refused(fallocate(fd, 0, (off_t)bytes, 4096)));
	CU_ASSERT(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0 && errno == EPERM);
}

/* The same file, opened anew: what a sealed descriptor refuses, another one must not allow. */
static int reopened(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

TEST(shared_memory_cannot_be_shrunk_grown_or_sealed)
{
	struct sp_shm *s[4];
	struct sp_mr *mr;

	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 0, 0, 0);
	uint32_t id = remote_opened(d, "qp=16;area=10000");
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&d->pub, 9000, &mr), 0);
	s[0] = &d->queues;
	s[1] = sp_device_events(d, id);
	s[2] = sp_device_area(d, id);
	s[3] = sp_device_region(d, mr->id);
	for (unsigned i = 0; i < 4; i++) {
		CU_ASSERT_PTR_NOT_NULL_FATAL(s[i]);
		CU_ASSERT_FATAL(s[i]->fd >= 0);
		CU_ASSERT_EQUAL((size_t)lseek(s[i]->fd, 0, SEEK_END), s[i]->bytes);
		CU_ASSERT_EQUAL(s[i]->bytes % 4096, 0);
		CU_ASSERT_EQUAL(fcntl(s[i]->fd, F_GET_SEALS), i == 2 ? SP_ATTACH_SEALS : 0);
		/* As the application does it. The area is the NIC's to seal. */
		CU_ASSERT(i == 2 || !fcntl(s[i]->fd, F_ADD_SEALS, SP_ATTACH_SEALS));
		refuses_another_size_and_more_seals(s[i]->fd, s[i]->bytes);
		int again = reopened(s[i]->fd);
		CU_ASSERT_FATAL(again >= 0);
		refuses_another_size_and_more_seals(again, s[i]->bytes);
		close(again);
	}
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

TEST(an_area_can_only_be_read_by_the_application)
{
	struct stat st;

	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 0, 0, 0);
	uint32_t id = remote_opened(d, "qp=16;area=10000");
	struct sp_shm *s = sp_device_area(d, id);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	CU_ASSERT_PTR_EQUAL(mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0), MAP_FAILED);
	CU_ASSERT_EQUAL(errno, EACCES);
	CU_ASSERT(pwrite(s->fd, "x", 1, 0) < 0 && errno == EBADF);
	CU_ASSERT(fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0 && errno == EBADF);
	CU_ASSERT(!fstat(s->fd, &st) && !(st.st_mode & 0377)); /* nor can other users open it anew */
	uint64_t *seen = mapped(s, PROT_READ);
	CU_ASSERT(mprotect(seen, s->bytes, PROT_READ | PROT_WRITE) < 0);
	CU_ASSERT_EQUAL(remote_call(d, id, CMD_STORE, 0x1234567890), 0); /* the NIC itself still writes */
	CU_ASSERT_EQUAL(seen[1], 0x1234567890);
	munmap(seen, s->bytes);
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

TEST(a_region_is_the_same_memory_on_both_sides_also_with_holes)
{
	struct sp_command cmd = {.op = CMD_WRITE, .arg = {[1] = 8000, [2] = 4711}};
	struct sp_event e;
	struct sp_mr *mr;
	uint64_t word;

	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 0, 0, 0);
	cmd.context = remote_opened(d, "qp=16");
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&d->pub, 16384, &mr), 0);
	uint8_t *mine = mapped(sp_device_region(d, mr->id), PROT_READ | PROT_WRITE);
	sp_shm_close(sp_device_region(d, mr->id)); /* mapped on both sides: the descriptor has done its work */
	for (unsigned i = 0; i < 16384; i++)
		CU_ASSERT_FATAL(!mine[i]);
	cmd.arg[0] = mr->id;
	CU_ASSERT_EQUAL(sp_command_call(&d->pub, &cmd, &e), 0);
	memcpy(&word, mine + 8000, 8);
	CU_ASSERT_EQUAL(word, 4711);
	CU_ASSERT_EQUAL(madvise(mine, 16384, MADV_REMOVE), 0); /* its data, its loss */
	cmd.op = CMD_PEEK;
	CU_ASSERT_EQUAL(sp_command_call(&d->pub, &cmd, &e), 0);
	CU_ASSERT_EQUAL(e.arg[0], 0);
	cmd.op = CMD_WRITE;
	CU_ASSERT_EQUAL(sp_command_call(&d->pub, &cmd, &e), 0);
	memcpy(&word, mine + 8000, 8);
	CU_ASSERT_EQUAL(word, 4711);
	cmd.arg[1] = 16384 - 7; /* beyond its end */
	CU_ASSERT_EQUAL(sp_command_call(&d->pub, &cmd, &e), -EFAULT);
	munmap(mine, 16384);
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

/* ---- rings that the application writes ---- */

TEST(rubbish_in_the_command_ring_reaches_nobody_and_stops_nobody)
{
	uint64_t seed = 7;
	void *queues;

	dut_start(&dut, 1);
	uint32_t nics = dut_context(&dut, "nics", "greedy", "qp=10");
	struct sp_device *bad = remote_attach(0, 0, 0, 0);
	struct sp_device *good = remote_attach(0, 0, 0, 0);
	uint32_t mine = remote_opened(bad, "qp=16;area=4096");
	uint32_t other = remote_opened(good, "qp=17;area=4096");
	queues = mapped(&bad->queues, PROT_READ | PROT_WRITE);
	struct sp_ring_shared *ring = command_ring(queues);
	for (unsigned round = 1; round <= 3000; round++) {
		struct sp_command fine = {.op = CMD_NOTE, .context = other, .arg = {round}};

		for (unsigned i = 0; i < SP_COMMANDS; i++) {
			struct sp_command c;
			uint64_t *word = (uint64_t *)&c;

			if (round > 1 && i % 32 != round % 32)
				continue;
			for (unsigned k = 0; k < 8; k++)
				word[k] = dut_random(&seed);
			if (i % 4)
				c.context = i % 4 == 1 ? mine : i % 4 == 2 ? other : nics;
			if (i % 3)
				c.op = (uint16_t)(CMD_NOTE + i % 8);
			memcpy(&ring->entry[i], &c, sizeof(c));
		}
		/* Lies about both indexes: 0, all of it, more than there is, backwards. */
		ring->tail = round % 5 == 0 ? 0 : round % 5 == 1 ? UINT32_MAX : (uint32_t)dut_random(&seed);
		ring->head = (uint32_t)dut_random(&seed);
		CU_ASSERT_EQUAL_FATAL(sp_command_post(&good->pub, &fine), 0);
		CU_ASSERT_FATAL(dut_poll(&dut, round) <= SP_COMMANDS_PER_POLL + 1);
		CU_ASSERT_EQUAL_FATAL(remote_state_of(other)->last, round); /* in the same poll */
	}
	CU_ASSERT_EQUAL(remote_state_of(other)->commands, 3000);
	CU_ASSERT_EQUAL(remote_state_of(nics)->commands, 0);
	CU_ASSERT(remote_state_of(mine)->commands > 0); /* what happens to be right is done */
	munmap(queues, bad->queues.bytes);
	sp_dev_close(&bad->pub);
	CU_ASSERT_EQUAL(remote_call(good, other, CMD_NOTE, 1), 0);
	sp_dev_close(&good->pub);
	dut_stop(&dut);
}

TEST(lies_about_events_cost_the_liar_his_own)
{
	uint64_t seed = 3;
	struct sp_event e;
	unsigned n = 0;

	dut_start(&dut, 1);
	struct sp_device *bad = remote_attach(0, 0, 0, 0);
	struct sp_device *good = remote_attach(0, 0, 0, 0);
	uint32_t mine = remote_opened(bad, "qp=16");
	uint32_t other = remote_opened(good, "qp=17");
	struct sp_attach_events *events = mapped(sp_device_events(bad, mine), PROT_READ | PROT_WRITE);
	CU_ASSERT_EQUAL(events->magic, SP_ATTACH_MAGIC);
	CU_ASSERT_EQUAL(events->workers, 1);
	CU_ASSERT_EQUAL(events->entries, SP_EVENTS);
	struct sp_ring_shared *ring = event_ring(events);
	for (unsigned round = 0; round < 1000; round++) {
		const uint32_t lie = (uint32_t)dut_random(&seed);

		ring->head = round % 3 ? lie : UINT32_MAX;
		ring->tail = lie;
		memset(events, (int)lie, 64); /* its magic, its sizes */
		CU_ASSERT_EQUAL(remote_call(bad, mine, CMD_EVENTS, 300), 0);
	}
	/* Back to the truth it works: the NIC has kept its own index. */
	ring->head = bad->opened[mine & (SP_OPENED_LISTS - 1)]->events->writer[0].ring.at;
	CU_ASSERT_EQUAL(remote_call(bad, mine, CMD_EVENTS, 5), 0);
	CU_ASSERT_EQUAL(ring->tail, ring->head + 5);
	memcpy(&e, &ring->entry[(ring->tail - 1) % SP_EVENTS], sizeof(e));
	CU_ASSERT_EQUAL(e.cookie, 4);
	CU_ASSERT_EQUAL(remote_call(good, other, CMD_EVENTS, 100), 0);
	while (sp_event_take(&good->pub, other, &e) == 1) {
		CU_ASSERT_EQUAL(e.context, other);
		CU_ASSERT_EQUAL(e.cookie, n++);
	}
	CU_ASSERT_EQUAL(n, 100);
	munmap(events, sp_device_events(bad, mine)->bytes);
	sp_dev_close(&bad->pub);
	sp_dev_close(&good->pub);
	dut_stop(&dut);
}

/* The application's side: rings take turns, bits of workers that are not there are nothing, and what comes while it
 * looks is found in the next call. */
TEST(events_of_all_workers_are_taken_in_turn)
{
	enum { WORKERS = 3 };
	struct sp_attach_events *events = aligned_alloc(64, sp_attach_events_bytes(WORKERS, SP_EVENTS));
	struct sp_attach_reader turn = {0};
	struct sp_ring writer[WORKERS], reader[WORKERS];
	struct sp_event e = {0};

	memset(events, 0, sp_attach_events_bytes(WORKERS, SP_EVENTS));
	for (unsigned w = 0; w < WORKERS; w++) {
		writer[w] = (struct sp_ring){.shared = sp_attach_ring(events, SP_EVENTS, w), .mask = SP_EVENTS - 1};
		reader[w] = writer[w];
		for (e.cookie = w; e.cookie < 4 * WORKERS; e.cookie += WORKERS)
			CU_ASSERT_EQUAL(sp_ring_put(&writer[w], &e), 0);
	}
	CU_ASSERT_EQUAL(sp_attach_take(events, &turn, reader, WORKERS, &e), -EAGAIN); /* no one has said so */
	events->waiting = ~0ull;
	for (uint64_t i = 0; i < 4 * WORKERS; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_attach_take(events, &turn, reader, WORKERS, &e), 0);
		CU_ASSERT_EQUAL(e.cookie, i);
	}
	CU_ASSERT_EQUAL(sp_attach_take(events, &turn, reader, WORKERS, &e), -EAGAIN);
	CU_ASSERT_EQUAL(events->waiting, 0);
	CU_ASSERT_EQUAL(turn.todo, 0);
	for (unsigned w = WORKERS; w-- > 0;) {
		e.cookie = w;
		CU_ASSERT_EQUAL(sp_ring_put(&writer[w], &e), 0);
		events->waiting |= 1ull << w;
		e.cookie = 99;
		CU_ASSERT_EQUAL(sp_attach_take(events, &turn, reader, WORKERS, &e), 0);
		CU_ASSERT_EQUAL(e.cookie, w);
	}
	for (unsigned i = 0; i < 10; i++) {
		events->waiting = ~0ull; /* a NIC that lies: no loop, and nothing there */
		CU_ASSERT_EQUAL(sp_attach_take(events, &turn, reader, WORKERS, &e), -EAGAIN);
	}
	free(events);
}

static struct sp_ring_shared *flipping;
static struct sp_command flip[2];
static _Atomic bool flipping_ends;

static void *flipper(void *arg)
{
	for (uint32_t i = 0; !atomic_load(&flipping_ends); i++)
		for (unsigned e = 0; e < 64; e++)
			memcpy(&flipping->entry[e], &flip[(i + e) & 1], sizeof(flip[0]));
	return NULL;
}

TEST(an_entry_that_changes_while_it_is_read_is_judged_as_it_was_read)
{
	pthread_t thread;
	void *queues;

	dut_start(&dut, 1);
	struct sp_device *bad = remote_attach(0, 0, 0, 0);
	struct sp_device *good = remote_attach(0, 0, 0, 0);
	uint32_t mine = remote_opened(bad, "qp=16");
	uint32_t other = remote_opened(good, "qp=17");
	queues = mapped(&bad->queues, PROT_READ | PROT_WRITE);
	flipping = command_ring(queues);
	flip[0] = (struct sp_command){.op = CMD_NOTE, .context = mine, .arg = {1}};
	flip[1] = (struct sp_command){.op = CMD_NOTE, .context = other, .arg = {2}};
	atomic_store(&flipping_ends, false);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, flipper, NULL), 0);
	/* Until the other thread has had its share. */
	for (uint64_t round = 0; round < 20000 || (remote_state_of(mine)->commands < 1000 && round < 1000000000);
	     round++) {
		/* The first 64 entries over and over: its index is put back by what it is told. */
		uint32_t at = bad->commands[0].reader.at;

		if (at % SP_COMMANDS >= 32)
			bad->commands[0].reader.at = at & ~(SP_COMMANDS - 1);
		__atomic_store_n(&flipping->tail, bad->commands[0].reader.at + 32, __ATOMIC_RELEASE);
		dut_poll(&dut, round);
	}
	atomic_store(&flipping_ends, true);
	pthread_join(thread, NULL);
	CU_ASSERT(remote_state_of(mine)->commands > 0);
	CU_ASSERT_EQUAL(remote_state_of(mine)->unsteady, 0);
	CU_ASSERT_EQUAL(remote_state_of(other)->commands, 0);
	munmap(queues, bad->queues.bytes);
	sp_dev_close(&bad->pub);
	sp_dev_close(&good->pub);
	dut_stop(&dut);
}

TEST(a_context_that_the_nic_ends_says_so_in_its_events)
{
	struct sp_event e;
	size_t bytes;

	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 0, 0, 0);
	uint64_t all = dut.nic->memory_used;
	uint32_t id = remote_opened(d, "qp=16;area=4096");
	CU_ASSERT_EQUAL(sp_device_home(d, id), 0);
	struct sp_attach_events *events = mapped(sp_device_events(d, id), PROT_READ | PROT_WRITE);
	bytes = sp_device_events(d, id)->bytes;
	CU_ASSERT_EQUAL(events->closed, 0);
	CU_ASSERT_EQUAL(remote_call(d, id, CMD_EVENTS, 3), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
	CU_ASSERT_EQUAL(events->closed, 1);
	CU_ASSERT_EQUAL(event_ring(events)->tail, 3); /* what was said before is there still */
	events->closed = 0;			      /* the NIC does not believe that */
	CU_ASSERT_EQUAL(sp_event_take(&d->pub, id, &e), -ECONNRESET);
	CU_ASSERT_EQUAL(remote_call(d, id, CMD_NOTE, 1), -ECONNRESET);
	CU_ASSERT(dut.nic->memory_used > all);
	CU_ASSERT_EQUAL(sp_context_close(&d->pub, id), 0);
	CU_ASSERT_EQUAL(dut.nic->memory_used, all);
	CU_ASSERT_PTR_NULL(sp_device_events(d, id));
	munmap(events, bytes);
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}
