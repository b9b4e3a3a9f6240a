/* SPDX-License-Identifier: BSD-3-Clause */
/* Crashes of handlers, and exit() called by one. */
#include "guard_private.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK (256u << 10)
#define NEAR  65536u /* bytes from the stack pointer */

static const int crashes[SP_GUARD_CRASHES] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/* ---- words in a signal handler ---- */
char *sp_guard_put_call(char *to, const char *end, const struct sp_guard *g)
{
	const struct sp_guard_level *l = sp_guard_innermost(g);

	to = sp_put(to, end, g->config.program ? g->config.program : "spindle");
	to = sp_put(to, end, ": context ");
	to = sp_put(to, end, l->context);
	to = sp_put(to, end, ", handler ");
	to = sp_put(to, end, l->handler);
	to = sp_put(to, end, ", ");
	to = sp_put(to, end, sp_called_name(l->function));
	if (!l->packet && !l->after)
		return sp_put(to, end, ", before the first packet: ");
	to = sp_put(to, end, !l->packet ? ", after packet " : l->packet == l->last_packet ? ", packet " : ", packets ");
	to = sp_put_number(to, end, l->packet ? l->packet : l->after, 10);
	if (l->packet != l->last_packet) {
		to = sp_put(to, end, " to ");
		to = sp_put_number(to, end, l->last_packet, 10);
	}
	return sp_put(to, end, ": ");
}

void sp_guard_say_at_once(struct sp_guard *g, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(STDERR_FILENO, text, len);

		if (n < 0 && errno != EINTR)
			break;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	if (g->config.crash)
		g->config.crash(g->config.arg);
}

/* ---- a crash ---- */
/* An address near the stack pointer: the stack has overflowed. */
static bool near_stack(const ucontext_t *at, uintptr_t address)
{
#if defined(__x86_64__)
	const uintptr_t sp = (uintptr_t)at->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
	const uintptr_t sp = (uintptr_t)at->uc_mcontext.sp;
#else
	const uintptr_t sp = 0;
#endif
	return address - sp + NEAR < 2 * NEAR;
}

static void say_crash(struct sp_guard *g, int sig, const siginfo_t *info, const ucontext_t *at)
{
	static const char *const what[SP_GUARD_CRASHES] = {"segmentation fault", "bus error",
							   "arithmetic error (division by 0)", "illegal instruction",
							   "abort()"};
	char text[512] = "", *end = text + sizeof(text) - 1, *to = sp_guard_put_call(text, end, g);
	size_t i;

	for (i = 0; crashes[i] != sig; i++)
		;
	to = sp_put(to, end, what[i]);
	if ((sig == SIGSEGV || sig == SIGBUS) && info->si_code > 0) {
		to = sp_put(to, end, " at address 0x");
		to = sp_put_number(to, end, (uintptr_t)info->si_addr, 16);
		if ((uintptr_t)info->si_addr < 4096)
			to = sp_put(to, end, " (a null pointer)");
		else if (near_stack(at, (uintptr_t)info->si_addr))
			to = sp_put(to, end, " (the stack is used up)");
	}
	*to++ = '\n';
	sp_guard_say_at_once(g, text, (size_t)(to - text));
}

/* A handler must not end the process with success. */
static void exited(void)
{
	struct sp_guard *g = sp_guard_here;
	char text[512], *end = text + sizeof(text) - 1, *to;

	if (!g || !g->depth || sp_guard_held || gettid() != g->thread)
		return;
	to = sp_guard_put_call(text, end, g);
	to = sp_put(to, end, "called exit()");
	*to++ = '\n';
	sp_guard_say_at_once(g, text, (size_t)(to - text));
	_exit(1);
}

static void crashed(int sig, siginfo_t *info, void *at)
{
	struct sp_guard *g = sp_guard_here;
	size_t i;

	for (i = 0; crashes[i] != sig; i++)
		;
	sigaction(sig, g ? &g->old[i] : &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	if (g)
		g->running = 0; /* the next handler of the signal may take its time: a sanitizer's report */
	if (g && g->depth && !sp_guard_held && gettid() == g->thread)
		say_crash(g, sig, info, at);
	/* A fault occurs again when the instruction is repeated, and then reaches the previous handler. A signal that
	 * was sent must be sent again. */
	if (info->si_code <= 0)
		raise(sig);
}

/* A stack of its own: after endless recursion the normal one is full. */
int sp_guard_crashes_take(struct sp_guard *g)
{
	struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	static bool exits_seen; /* atexit() cannot be undone */

	if (!exits_seen && atexit(exited))
		return -ENOMEM;
	exits_seen = true;
	g->stack = (stack_t){.ss_size = STACK};
	g->stack.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g->stack.ss_sp == MAP_FAILED)
		return -ENOMEM;
	sigaltstack(&g->stack, &g->old_stack);
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGVTALRM);
	for (size_t i = 0; i < SP_GUARD_CRASHES; i++)
		sigaction(crashes[i], &action, &g->old[i]);
	return 0;
}

void sp_guard_crashes_give(struct sp_guard *g)
{
	for (size_t i = 0; i < SP_GUARD_CRASHES; i++)
		sigaction(crashes[i], &g->old[i], NULL);
	sigaltstack(&g->old_stack, NULL);
	munmap(g->stack.ss_sp, STACK);
}
