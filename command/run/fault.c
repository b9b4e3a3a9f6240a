/* SPDX-License-Identifier: BSD-3-Clause */
#include "fault.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../pipeline/plugin/plugin.h"
#include "../../testbed/pcapng.h"
#include "../../testbed/words.h"
#include "../output.h"
#include "calls.h"

#define MOST_FAULTS 256		  /* at most so many faults in the file: a faulty handler must not fill a disk */
#define MOST_BYTES  (16u << 20)	  /* at most so many bytes of frames in it */
#define LAST_WORDS  5		  /* s; a report of a crash that takes longer has hung */
#define PATIENCE    (2 * SP_SEC)  /* with a stopped worker, at the end of the NIC */
#define DETACH	    (30 * SP_SEC) /* for removing contexts after the workers have ended: large tables take time */

/* ---- the report: async-signal-safe, as a signal handler calls it, too ---- */

static void say(const char *text, size_t len)
{
	while (len) {
		const ssize_t n = write(STDERR_FILENO, text, len);

		if (n < 0 && errno != EINTR)
			return;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static void say_word(const char *word)
{
	say(word, strlen(word));
}

/* "worker 0 has been in payload() of handler h, context c, for 1000 ms and runs"; crash: its name, or NULL. */
static char *put_fault(char *to, const char *end, const struct sp_fault *fault, const char *crash)
{
	to = sp_put(to, end, "worker ");
	to = sp_put_number(to, end, fault->worker, 10);
	to = sp_put(to, end, crash ? " has crashed in " : " has been in ");
	to = sp_put(to, end, fault->function);
	to = sp_put(to, end, "() of handler ");
	to = sp_put(to, end, fault->handler);
	to = sp_put(to, end, ", context ");
	to = sp_put(to, end, fault->context);
	if (crash) {
		to = sp_put(to, end, ": ");
		return sp_put(to, end, crash);
	}
	to = sp_put(to, end, ", for ");
	to = sp_put_number(to, end, fault->since / SP_MS, 10);
	return sp_put(to, end, fault->runs ? " ms and runs" : " ms and waits");
}

static char *put_place(char *to, const char *end, const char *file, const void *at)
{
	to = sp_put(to, end, file ? " (plug-in " : "");
	to = sp_put(to, end, file ? file : "");
	to = sp_put(to, end, file ? ")" : "");
	to = sp_put(to, end, at ? ", instruction at 0x" : "");
	return at ? sp_put_number(to, end, (uintptr_t)at, 16) : to;
}

static int open_file(const char *path)
{
	/* Only for this user, as it holds others' packets; a symbolic link must not redirect it. */
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	int result;

	if (fd < 0)
		return -errno;
	result = pcapng_begin_fd(fd, "spindle run", "faults");
	if (!result)
		return fd;
	close(fd);
	return result;
}

static int write_frames(struct run_fault *f, const struct sp_fault *fault, char *comment, size_t room)
{
	char *const end = comment + room - 1, *const behind = comment + strlen(comment);
	struct timespec now;
	int result = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	for (unsigned i = 0; i < fault->frames && !result; i++) {
		const struct pcapng_packet packet = {.time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
						     .captured = fault->frame_len[i],
						     .length = fault->frame_len[i],
						     .frame = fault->frame[i],
						     .queue = fault->worker,
						     .comment = comment};

		*sp_put(behind, end, i ? " (waits behind it)" : "") = '\0';
		result = pcapng_packet_fd(f->file, &packet);
		f->bytes += fault->frame_len[i];
	}
	return result;
}

/* Writes the frames, and appends the outcome to the message. */
static char *keep(struct run_fault *f, const struct sp_fault *fault, char *comment, size_t room, char *to,
		  const char *end)
{
	int result = 0;

	if (!fault->frames || f->over)
		return to;
	to = sp_put(to, end, "; ");
	if (f->faults == MOST_FAULTS || f->bytes >= MOST_BYTES) {
		f->over = true;
		return sp_put(sp_put(to, end, f->path), end, " is full");
	}
	if (f->file < 0)
		result = f->file = open_file(f->path);
	if (result >= 0)
		result = write_frames(f, fault, comment, room);
	if (result < 0) {
		f->over = true;
		to = sp_put(sp_put(to, end, f->path), end, ": ");
		return sp_put(to, end, strerrordesc_np(-result));
	}
	f->faults++;
	to = sp_put_number(to, end, fault->frames, 10);
	to = sp_put(to, end, fault->frames == 1 ? " packet in " : " packets in ");
	return sp_put(to, end, f->path);
}

static char *put_name(char *to, const char *end, const char *nic)
{
	return sp_put(sp_put(sp_put(to, end, "spindle run: NIC "), end, nic), end, ": ");
}

/* Prints one line: the fault, the plug-in and the instruction, and where the packets are. It is printed in two pieces,
 * because the second step may crash, too. */
static void report(struct run_fault *f, const struct sp_fault *fault, const char *crash)
{
	char line[1024] = "", comment[240], *end = line + sizeof(line) - 1, *to = put_name(line, end, fault->nic);
	char *const text = to;

	to = put_fault(to, end, fault, crash);
	*to = '\0';
	*sp_put(comment, comment + sizeof(comment) - 1, text) = '\0';
	to = put_place(to, end, fault->file, fault->at);
	say(line, (size_t)(to - line));
	to = line;
	if (!fault->fatal) /* otherwise the first report has written them */
		to = keep(f, fault, comment, sizeof(comment), to, end);
	to = sp_put(to, end, fault->fatal || crash ? ": the NIC ends\n" : "\n");
	say(line, (size_t)(to - line));
}

static void __attribute__((noreturn)) end_nic(struct run_fault *f)
{
	f->abandon(f->arg);
	_exit(RUN_FAULT);
}

/* ---- calls that do not come back: on the watchdog's thread ---- */

static void on_fault(void *arg, const struct sp_fault *fault)
{
	report(arg, fault, NULL);
	if (!fault->fatal)
		return;
	backtrace_symbols_fd(fault->stack, (int)fault->depth, STDERR_FILENO);
	end_nic(arg);
}

/* ---- crashes ---- */

static const struct {
	int number;
	const char *name;
} crashes[RUN_CRASHES] = {{SIGSEGV, "segmentation fault"}, {SIGBUS, "bus error"}, {SIGFPE, "arithmetic error"},
			  {SIGILL, "illegal instruction"}, {SIGABRT, "abort()"},  {SIGSYS, "forbidden system call"}};
static struct run_fault *crash_of; /* set before the signal handlers are installed */

static void too_long(int number)
{
	(void)number;
	end_nic(crash_of);
}

/* The filter's: see calls.c. */
static char *put_call(char *to, const char *end, int number)
{
	const char *name = calls_name(number);

	to = sp_put(to, end, " ");
	return name ? sp_put(to, end, name) : sp_put_number(to, end, (unsigned)number, 10);
}

static void on_crash(int number, siginfo_t *info, void *context)
{
	static _Atomic pid_t crashed; /* the thread that reports */
	const struct sigaction expired = {.sa_handler = too_long};
	const bool has_address = (number == SIGSEGV || number == SIGBUS) && info->si_code > 0;
	char name[64], *end = name + sizeof(name) - 1, *to = name;
	struct sp_fault fault;
	void *stack[SP_FAULT_STACK];
	pid_t none = 0;
	size_t i = 0;

	if (!atomic_compare_exchange_strong(&crashed, &none, gettid())) {
		if (none == gettid()) /* the report has crashed, too */
			end_nic(crash_of);
		for (;;)
			pause();
	}
	sigaction(SIGALRM, &expired, NULL);
	alarm(LAST_WORDS);
	while (crashes[i].number != number)
		i++;
	to = sp_put(to, end, crashes[i].name);
	to = sp_put(to, end, has_address ? " at address 0x" : "");
	to = has_address ? sp_put_number(to, end, (uintptr_t)info->si_addr, 16) : to;
	if (number == SIGSYS)
		to = put_call(to, end, info->si_syscall);
	*to = '\0';
	if (!sp_fault_here(context, &fault)) {
		say_word("spindle run: ");
		say_word(name);
		say_word(" outside of handlers' calls\n");
		backtrace_symbols_fd(stack, backtrace(stack, SP_FAULT_STACK), STDERR_FILENO);
		sigaction(number, &crash_of->before[i], NULL);
		raise(number); /* at once, as SA_NODEFER leaves it unblocked */
		return;
	}
	report(crash_of, &fault, name);
	backtrace_symbols_fd(stack, backtrace(stack, SP_FAULT_STACK), STDERR_FILENO);
	end_nic(crash_of);
}

void run_fault_set(struct run_fault *f, struct sp_nic_config *config, const char *socket, void (*abandon)(void *arg),
		   void *arg)
{
	/* SA_NODEFER: a crash in the report arrives here as well. */
	const struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	const char *slash = strrchr(socket, '/');
	void *stack[1];

	if (config->fault_capture)
		snprintf(f->path, sizeof(f->path), "%s", config->fault_capture);
	else
		snprintf(f->path, sizeof(f->path), "%.*s%s-faults.pcapng", slash ? (int)(slash + 1 - socket) : 0,
			 socket, config->name);
	f->file = -1;
	f->abandon = abandon;
	f->arg = arg;
	config->fault = on_fault;
	config->fault_arg = f;
	backtrace(stack, 1); /* loads its library now: later calls do not allocate */
	crash_of = f;
	for (size_t i = 0; i < RUN_CRASHES; i++)
		sigaction(crashes[i].number, &action, &f->before[i]);
}

void run_fault_close(struct run_fault *f)
{
	for (size_t i = 0; crash_of && i < RUN_CRASHES; i++)
		sigaction(crashes[i].number, &f->before[i], NULL);
	crash_of = NULL;
	if (f->file >= 0)
		close(f->file);
	f->file = -1;
}

/* ---- the end ---- */

static void leave(struct run_leave *l, const char *why)
{
	command_fail("run", "%s: ended without waiting for it", why);
	l->abandon(l->arg);
	_exit(1);
}

/* How long the NIC's end has been delayed by a call that does not return. The NIC must exist meanwhile. */
static sp_time looked(struct run_leave *l, sp_time *since, char *text, size_t room)
{
	const sp_time now = sp_clock();

	pthread_mutex_lock(&l->lock);
	if (!l->stopped && !sp_nic_stopped(l->nic, text, room) && !sp_plugin_stuck(text, room))
		*since = now;
	pthread_mutex_unlock(&l->lock);
	return now - *since;
}

static bool flag(struct run_leave *l, const bool *which)
{
	pthread_mutex_lock(&l->lock);
	const bool set = *which;
	pthread_mutex_unlock(&l->lock);
	return set;
}

static void *watch(void *arg)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	struct run_leave *l = arg;
	sp_time since = sp_clock();
	char text[256];

	while (!flag(l, &l->stopped)) {
		if (looked(l, &since, text, sizeof(text)) > PATIENCE)
			leave(l, text);
		nanosleep(&pause, NULL);
	}
	for (since = sp_clock(); !flag(l, &l->ended); nanosleep(&pause, NULL))
		if (sp_clock() - since > DETACH)
			leave(l, "a handler's detach() does not come back");
	/* exit() runs destructors of plug-ins that are still loaded; normally exit() ends this thread. */
	for (since = sp_clock(); sp_clock() - since < DETACH; nanosleep(&pause, NULL))
		;
	leave(l, "a plug-in's destructor does not come back");
	return NULL;
}

void run_leave_start(struct run_leave *l, struct sp_nic *nic, void (*abandon)(void *arg), void *arg)
{
	l->nic = nic;
	l->abandon = abandon;
	l->arg = arg;
	l->stopped = l->ended = false;
	pthread_mutex_init(&l->lock, NULL);
	l->started = !pthread_create(&l->thread, NULL, watch, l);
}

static void set(struct run_leave *l, bool *which)
{
	pthread_mutex_lock(&l->lock);
	*which = true;
	pthread_mutex_unlock(&l->lock);
}

void run_leave_stopped(struct run_leave *l)
{
	if (l->started)
		set(l, &l->stopped);
}

void run_leave_end(struct run_leave *l)
{
	if (!l->started)
		return;
	pthread_detach(l->thread);
	set(l, &l->ended);
	l->started = false;
}
