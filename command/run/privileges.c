/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel keeps users, capabilities, no_new_privs and landlock's rules per thread. DPDK's threads run by now, so
 * each thread is sent a signal whose handler does for itself what the first thread does last. What /proc says of all
 * threads is compared with what was wanted: a thread that has been missed is an error, not a hole.
 */
#include "privileges.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS	 1024
#define PATIENCE 10 /* s, for one thread to answer */

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

static struct {
	const struct privileges *wanted;
	sem_t done;
	_Atomic int failed;		 /* errno of the first step that did not work */
	const char *_Atomic failed_step; /* its name */
} now;

static int __attribute__((format(printf, 4, 5))) fail(int err, char *text, size_t room, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(text, room, format, list);
	va_end(list);
	return -err;
}

/* ---- one thread, also in a signal handler: system calls alone, as libc's setuid() is for all threads ---- */

static bool step(const char *name, long result)
{
	int none = 0;

	if (result >= 0)
		return true;
	if (atomic_compare_exchange_strong(&now.failed, &none, errno))
		atomic_store(&now.failed_step, name);
	return false;
}

static bool drop_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (!step("capget", syscall(SYS_capget, &header, data)))
		return false;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= (uint32_t)(keep >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return step("capset", syscall(SYS_capset, &header, data));
}

static void give_up(void)
{
	const struct privileges *w = now.wanted;

	if (!step("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))
		return;
	/* What no program that this one might start could get: only who has CAP_SETPCAP can change that. */
	for (unsigned c = 0; c < 64 && prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (w->regroup && !step("setgroups", syscall(SYS_setgroups, (size_t)w->group_count, w->groups)))
		return;
	if (w->become && (!step("keepcaps", prctl(PR_SET_KEEPCAPS, w->keep != 0, 0, 0, 0)) ||
			  !step("setresgid", syscall(SYS_setresgid, w->group, w->group, w->group)) ||
			  !step("setresuid", syscall(SYS_setresuid, w->user, w->user, w->user))))
		return;
	if (drop_capabilities(w->keep) && w->ruleset >= 0)
		step("landlock_restrict_self", syscall(SYS_landlock_restrict_self, w->ruleset, 0));
}

static void on_signal(int number)
{
	const int before = errno;

	(void)number;
	give_up();
	sem_post(&now.done);
	errno = before;
}

/* ---- all of them ---- */

static unsigned threads(pid_t *id)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	for (struct dirent *e; dir && (e = readdir(dir)) && n < THREADS;)
		if (*e->d_name != '.')
			id[n++] = (pid_t)atoi(e->d_name);
	if (dir)
		closedir(dir);
	return n;
}

static void name_of(pid_t thread, char name[32])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)thread);
	f = fopen(path, "re");
	if (!f || !fgets(name, 32, f))
		strcpy(name, "?");
	name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
}

/* 0: it has done it, or has ended. */
static int tell(pid_t thread, int number, char *text, size_t room)
{
	struct timespec end;
	char name[32];

	if (syscall(SYS_tgkill, getpid(), thread, number))
		return 0;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE;
	while (sem_timedwait(&now.done, &end))
		if (errno != EINTR) {
			name_of(thread, name);
			return fail(ETIMEDOUT, text, room, "thread %s does not give up its rights", name);
		}
	return 0;
}

static bool is_in(const pid_t *id, unsigned count, pid_t thread)
{
	for (unsigned i = 0; i < count; i++)
		if (id[i] == thread)
			return true;
	return false;
}

/* Until there is no thread that has not done it: one may have started another meanwhile. */
static int tell_all(int number, char *text, size_t room)
{
	pid_t *id = calloc(2 * THREADS, sizeof(*id)), *told = id + THREADS;
	unsigned count = 0, before;
	int r = id ? 0 : -ENOMEM;

	if (r)
		return fail(ENOMEM, text, room, "out of memory");
	do {
		const unsigned n = threads(id);

		before = count;
		for (unsigned i = 0; i < n && !r; i++) {
			if (id[i] == gettid() || is_in(told, count, id[i]))
				continue;
			r = count == THREADS ? fail(E2BIG, text, room, "more than %d threads", THREADS)
					     : tell(id[i], number, text, room);
			if (!r)
				told[count++] = id[i];
		}
	} while (!r && count != before);
	free(id);
	return r;
}

/* ---- what /proc says ---- */

static int check_thread(pid_t thread, const struct privileges *w, char *text, size_t room)
{
	static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"};
	char path[64], line[256], name[32];
	bool fenced = false;
	unsigned id[4];
	int r = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)thread);
	f = fopen(path, "re");
	if (!f)
		return 0; /* it has ended */
	name_of(thread, name);
	while (!r && fgets(line, sizeof(line), f)) {
		for (unsigned i = 0; i < 4; i++)
			if (!strncmp(line, sets[i], 7) && strtoull(line + 7, NULL, 16) & ~w->keep)
				r = fail(EPERM, text, room, "thread %s keeps capabilities: %.40s", name, line);
		if (w->become && (!strncmp(line, "Uid:", 4) || !strncmp(line, "Gid:", 4))) {
			const unsigned want = *line == 'U' ? w->user : w->group;

			if (sscanf(line + 4, "%u %u %u %u", &id[0], &id[1], &id[2], &id[3]) != 4 || id[0] != want ||
			    id[1] != want || id[2] != want || id[3] != want)
				r = fail(EPERM, text, room, "thread %s keeps its user or group: %.40s", name, line);
		}
		fenced |= !strncmp(line, "NoNewPrivs:\t1", 13);
	}
	fclose(f);
	return r || fenced ? r : fail(EPERM, text, room, "thread %s could still gain rights", name);
}

static int check(const struct privileges *w, char *text, size_t room)
{
	pid_t *id = calloc(THREADS, sizeof(*id));
	int r = id ? 0 : fail(ENOMEM, text, room, "out of memory");
	const unsigned n = r ? 0 : threads(id);

	if (!r && !n)
		r = fail(ENOENT, text, room, "/proc/self/task cannot be read: is /proc mounted?");
	for (unsigned i = 0; i < n && !r; i++)
		r = check_thread(id[i], w, text, room);
	free(id);
	return r;
}

static int free_signal(const struct sigaction *action)
{
	struct sigaction there;

	for (int n = SIGRTMIN; n <= SIGRTMAX; n++)
		if (!sigaction(n, NULL, &there) && !(there.sa_flags & SA_SIGINFO) && there.sa_handler == SIG_DFL &&
		    !sigaction(n, action, NULL))
			return n;
	return 0;
}

int privileges_give_up(const struct privileges *wanted, char *text, size_t room)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	const int number = free_signal(&action);
	int r;

	if (!number || sem_init(&now.done, 0, 0))
		return fail(EBUSY, text, room, "no signal is left for telling all threads");
	now.wanted = wanted;
	now.failed = 0;
	r = tell_all(number, text, room);
	if (!r)
		give_up();
	signal(number, SIG_DFL);
	if (!r && now.failed)
		r = fail(now.failed, text, room, "%s: %s", now.failed_step, strerror(now.failed));
	if (!r)
		r = check(wanted, text, room);
	sem_destroy(&now.done);
	return r;
}
