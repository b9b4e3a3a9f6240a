/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attacks by the kernel: what an application without privileges may do to make a NIC's threads wait. Verb attack of
 * hostile.c's program; how= names the attack. It says "ready" once it is under way, or "skip WHY", and goes on until it
 * is killed. attack_files.c has those that hand over or hold files.
 *
 *   punch     holes in its region before and after sealing, by whoever runs least of all
 *   recvhold  reads the NIC's sockets and eventfd into pages that do not come
 *   fusehold  writes to memory from pages that do not come: the file's lock is held meanwhile
 *   pass      hands over sockets whose last close() lingers; passfuse: files whose last close() waits for us
 *   reports   asks for reports all the time, with many contexts
 *   pages     has the kernel move, collapse, lock, watch and page out its memory while the NIC reads and writes there
 *   mappings  maps its memory very often, in many processes
 *   wakes     many wait for whatever the NIC wakes
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif
#define HUGE_PAGE (2u << 20)
#define PUNCH	  (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

void in_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg))
		die("a thread", -errno);
	pthread_detach(thread);
}

void close_got(struct raw *raw)
{
	for (unsigned i = 0; i < SP_ATTACH_FDS; i++)
		if (raw->got[i] >= 0)
			close(raw->got[i]);
}

/* ---- beside whom the kernel gives us next to nothing ---- */
static void last_processor(void)
{
	cpu_set_t all, one;
	int cpu = CPU_SETSIZE - 1;

	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	while (cpu && !CPU_ISSET(cpu, &all))
		cpu--;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void *spin(void *arg)
{
	last_processor();
	for (;;)
		__asm__ volatile("");
	return arg;
}

/* What this thread does in the kernel takes as long as it can. */
static void run_least(void)
{
	const struct sched_param none = {0};

	last_processor();
	setpriority(PRIO_PROCESS, 0, 19);
	sched_setscheduler(0, SCHED_IDLE, &none);
}

/* ---- the NIC reads and writes in our memory ---- */
static void *streaming(void *arg)
{
	struct raw *raw = arg;

	for (uint64_t i = 0;; i++) {
		if (stream_more(raw, i * 37 * 4096 % (raw->region.bytes - 4096)))
			usleep(200);
		if (i % 8 == 0)
			usleep(1000); /* what it costs the NIC is not what this is about */
	}
	return arg;
}

static void begin_streaming(struct raw *raw)
{
	begin(raw);
	if (stream(raw))
		die("a stream", -EAGAIN);
	in_thread(streaming, raw);
}

/* ---- punch ---- */
static void *punching(void *arg)
{
	struct raw *raw = arg;
	struct memory *all[] = {&raw->queues, &raw->region, &raw->events, &raw->area};

	run_least();
	for (;;)
		for (unsigned i = 0; i < 4; i++)
			if (!fallocate(all[i]->fd, PUNCH, 0, (off_t)all[i]->bytes) ||
			    !madvise(all[i]->at, all[i]->bytes, MADV_REMOVE))
				die("a hole in memory that the NIC uses", -EBADE);
	return arg;
}

static void *punching_unsealed(void *arg)
{
	const struct memory *m = arg;

	run_least();
	while (!fallocate(m->fd, PUNCH, 0, (off_t)m->bytes))
		madvise(m->at, m->bytes, MADV_POPULATE_WRITE);
	return arg;
}

static int punch(struct raw *raw)
{
	static struct memory unsealed;
	struct memory m;
	uint32_t id;

	begin_streaming(raw);
	for (unsigned i = 0; i < 2; i++)
		in_thread(spin, NULL);
	in_thread(punching, raw);
	puts("ready");
	for (;;) { /* seals in the midst of it */
		struct raw other = {.fd = -1};

		hello(&other);
		if (ask_memory(&other, SP_ATTACH_MR_ALLOC, 16 << 20, NULL, 0, &unsealed))
			die("memory", -EPROTO);
		in_thread(punching_unsealed, &unsealed);
		usleep(100000);
		const int r = ask_sealed(&other, &unsealed);

		if (!r && alloc(&other, 4096, &m, &id) == 0)
			unmap(&m);
		close(other.fd);
		close(other.wake);
		close(other.post);
		unmap(&other.queues);
		usleep(100000);
		munmap(unsealed.at, unsealed.bytes); /* the descriptor is the thread's, perhaps */
	}
	return 0;
}

/* ---- reports ---- */
static int reports(struct raw *raw)
{
	struct pollfd ask_again[24];
	unsigned contexts = 0;
	char text[512];

	for (unsigned app = 0; app < 4; app++) {
		struct memory events;

		hello(raw);
		for (;; contexts++) {
			const uint32_t n = settings(text, 0x20000 + contexts * 64, "max-messages", 1);

			if (ask_both(raw, SP_ATTACH_OPEN, 5, text, n, &events))
				break;
			close_got(raw);
			unmap(&events);
		}
		close_got(raw);
	}
	if (contexts < 64)
		die("no contexts", -ENOSPC);
	for (unsigned i = 0; i < 24; i++)
		ask_again[i] = (struct pollfd){.fd = -1};
	puts("ready");
	for (;;) {
		for (unsigned i = 0; i < 24; i++) {
			if (ask_again[i].fd >= 0 && ask_again[i].revents) {
				raw->fd = ask_again[i].fd;
				const int r = reply(raw);

				close_got(raw);
				if (!r && !request(raw->fd, SP_ATTACH_REPORT, NULL, NULL, 0))
					continue;
				close(raw->fd);
				ask_again[i].fd = -1;
			}
			if (ask_again[i].fd < 0) {
				ask_again[i] = (struct pollfd){dial(), POLLIN, 0};
				if (ask_again[i].fd >= 0)
					request(ask_again[i].fd, SP_ATTACH_REPORT, NULL, NULL, 0);
			}
		}
		poll(ask_again, 24, 10);
	}
	return 0;
}

/* ---- pages ---- */
static void *collapsing(void *arg)
{
	struct raw *raw = arg;
	struct memory *all[] = {&raw->region, &raw->queues, &raw->events, &raw->area};
	uint8_t *at[4];

	for (unsigned i = 0; i < 4; i++) { /* a huge page's range, of which the file may be the first part only */
		uint8_t *room = mmap(NULL, 2 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		room += HUGE_PAGE - (uintptr_t)room % HUGE_PAGE;
		at[i] = mmap(room, HUGE_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, all[i]->fd, 0);
		if (at[i] == MAP_FAILED)
			die("mmap", -errno);
	}
	run_least();
	for (;;)
		for (unsigned i = 0; i < 4; i++) {
			madvise(at[i], all[i]->bytes, MADV_POPULATE_READ);
			madvise(at[i], HUGE_PAGE, MADV_COLLAPSE);
			madvise(at[i], HUGE_PAGE, MADV_DONTNEED);
		}
	return arg;
}

static void move(const struct memory *m)
{
	void *page[16];
	int node[16] = {0}, status[16];

	for (size_t i = 0; i < 16; i++)
		page[i] = m->at + i * 4096 % m->bytes;
	syscall(SYS_move_pages, 0, 16, page, node, status, 2 /* MPOL_MF_MOVE */);
	syscall(SYS_mbind, m->at, m->bytes, 2 /* MPOL_BIND */, &(unsigned long){1}, 8, 2 | 1 /* strict */);
}

static int pages(struct raw *raw)
{
	begin_streaming(raw);
	struct memory *all[] = {&raw->region, &raw->queues, &raw->events, &raw->area};
	const int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (faults >= 0 && !ioctl(faults, UFFDIO_API, &(struct uffdio_api){.api = UFFD_API})) {
		uint8_t *again = mmap(NULL, raw->region.bytes, PROT_READ, MAP_SHARED, raw->region.fd, 0);
		struct uffdio_register range = {.range = {(uintptr_t)again, raw->region.bytes},
						.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP};

		ioctl(faults, UFFDIO_REGISTER, &range);
		ioctl(faults, UFFDIO_WRITEPROTECT,
		      &(struct uffdio_writeprotect){.range = range.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP});
	}
	in_thread(spin, NULL);
	in_thread(collapsing, raw);
	puts("ready");
	for (;;) {
		for (unsigned i = 0; i < 4; i++) {
			madvise(all[i]->at, all[i]->bytes, MADV_PAGEOUT);
			madvise(all[i]->at, all[i]->bytes, MADV_COLD);
			mlock(all[i]->at, all[i]->bytes);
			munlock(all[i]->at, all[i]->bytes);
			move(all[i]);
			msync(all[i]->at, all[i]->bytes, MS_SYNC | MS_INVALIDATE);
			fsync(all[i]->fd);
		}
		usleep(1000);
	}
	return 0;
}

/* ---- mappings ---- */
#define MAPPERS	 4
#define MAPPINGS 8000

static void *mapping(void *arg)
{
	const struct memory *m = arg;

	run_least();
	for (;;)
		munmap(mmap(NULL, m->bytes, PROT_READ, MAP_SHARED, m->fd, 0), m->bytes);
	return arg;
}

/* Side by side, for one munmap(). NULL: no room. */
static uint8_t *map_often(const struct memory *m)
{
	uint8_t *all = mmap(NULL, MAPPINGS * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED)
		return NULL;
	for (unsigned i = 0; i < MAPPINGS; i++) {
		const volatile uint8_t *at = mmap(all + i * 4096, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, m->fd, 0);

		if (at == MAP_FAILED)
			break;
		(void)*at;
	}
	return all;
}

static int mappings(struct raw *raw)
{
	begin_streaming(raw);
	fflush(stdout);
	for (unsigned i = 0; i < MAPPERS; i++) {
		const pid_t child = fork();

		if (child)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		map_often(&raw->region);
		for (;;) { /* forks with them */
			const pid_t copy = fork();

			if (!copy)
				_exit(0);
			usleep(400000);
			waitpid(copy, NULL, 0);
		}
	}
	in_thread(spin, NULL);
	in_thread(mapping, &raw->region);
	in_thread(mapping, &raw->queues);
	puts("ready");
	for (unsigned i = 0;; i++) {
		struct memory m;
		uint32_t id;

		if (!alloc(raw, 1 << 20, &m, &id)) {
			uint8_t *all = map_often(&m);

			ask(raw, SP_ATTACH_MR_FREE, id, NULL, 0);
			unmap(&m);
			if (all) /* the kernel allows a process 65,530 */
				munmap(all, MAPPINGS * 4096);
		}
		usleep(20000);
	}
	return 0;
}

/* ---- wakes ---- */
#define WAITERS 3

static void *waiting(void *arg)
{
	const struct raw *raw = arg;
	const int fds[] = {raw->wake, raw->post, raw->fd};
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	const size_t n = limit.rlim_cur < 100000 ? limit.rlim_cur : 100000;
	struct pollfd *wait = calloc(n, sizeof(*wait));

	for (;;) {
		for (size_t i = 0; wait && i < n; i++)
			wait[i] = (struct pollfd){fds[i % 3], POLLPRI, 0};
		poll(wait, n, 10000);
	}
	return arg;
}

static int wakes_many(struct raw *raw)
{
	struct sp_command query = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY};
	struct sp_attach_queues *queues;
	struct rlimit limit;
	uint8_t byte[64];

	begin(raw);
	queues = (void *)raw->queues.at;
	query.context = raw->context;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	setpgid(0, 0);
	fflush(stdout);
	for (unsigned i = 0; i < 100; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	signal(SIGIO, SIG_IGN);
	fcntl(raw->wake, F_SETOWN, -getpgrp());
	fcntl(raw->wake, F_SETFL, O_ASYNC | O_NONBLOCK);
	for (unsigned i = 0; i < WAITERS; i++)
		in_thread(waiting, raw);
	puts("ready");
	for (;;) {
		__atomic_store_n(&queues->bell.armed, 1, __ATOMIC_SEQ_CST);
		put(raw, &query);
		eventfd_write(raw->post, 1);
		while (recv(raw->wake, byte, sizeof(byte), MSG_DONTWAIT) > 0)
			;
		usleep(5000);
	}
	return 0;
}

int attack(struct raw *raw)
{
	const struct {
		const char *how;
		int (*run)(struct raw *);
	} hows[] = {{"punch", punch}, {"recvhold", recvhold}, {"fusehold", fusehold},
		    {"pass", pass},   {"passfuse", passfuse}, {"reports", reports},
		    {"pages", pages}, {"mappings", mappings}, {"wakes", wakes_many}};

	for (size_t i = 0; i < sizeof(hows) / sizeof(*hows); i++)
		if (!strcmp(o.how, hows[i].how))
			return hows[i].run(raw);
	return 2;
}
