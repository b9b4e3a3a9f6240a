/* SPDX-License-Identifier: BSD-3-Clause */
#include "recover.h"
#include "exec_context.h"
#include "metered.h"

#include <link.h>
#include <stdio.h>
#include <ucontext.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int signal_number; /* under lock; 0: none yet */
static _Thread_local struct sp_worker *volatile mine;

const char *sp_doing_name(uint32_t what)
{
	static const char *const name[] = {
		[SP_DOING_NOTHING] = "",	[SP_DOING_PACKETS] = "payload",	      [SP_DOING_TIMER] = "timer",
		[SP_DOING_COMMAND] = "command", [SP_DOING_ISSUE] = "issue",	      [SP_DOING_WORK] = "work",
		[SP_DOING_MIGRATE] = "migrate", [SP_DOING_CLASSIFY] = "classify",     [SP_DOING_MISS] = "miss",
		[SP_DOING_HEADER] = "header",	[SP_DOING_COMPLETION] = "completion", [SP_DOING_ATTACH] = "attach",
		[SP_DOING_DETACH] = "detach",	[SP_DOING_REPORT] = "report",
	};

	return what < sizeof(name) / sizeof(*name) && name[what] ? name[what] : "";
}

/* ---- whose code ---- */

struct search {
	uintptr_t of, ours;
	struct sp_code *code;
};

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct search *s = arg;
	struct sp_code code = {.segments = 0};
	bool of = false, ours = false;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uintptr_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;

		if (p->p_type != PT_LOAD)
			continue;
		of |= s->of >= start && s->of < end;
		ours |= s->ours >= start && s->ours < end;
		if (p->p_flags & PF_X && code.segments < SP_CODE_SEGMENTS) {
			code.start[code.segments] = start;
			code.end[code.segments++] = end;
		}
	}
	if (of && !ours)
		*s->code = code;
	return of;
}

void sp_code_find(const struct sp_handler *h, struct sp_code *code)
{
	struct search s = {.of = (uintptr_t)h, .ours = (uintptr_t)&look, .code = code};

	*code = (struct sp_code){.segments = 0};
	if (!sp_handler_file(h))
		return;
	dl_iterate_phdr(look, &s);
}

static bool holds(const struct sp_code *code, uintptr_t at)
{
	for (unsigned i = 0; i < code->segments; i++)
		if (at >= code->start[i] && at < code->end[i])
			return true;
	return false;
}

/* ---- the signal ---- */

static uintptr_t interrupted(const ucontext_t *u)
{
#if defined(__x86_64__)
	return (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return u->uc_mcontext.pc;
#else
	(void)u;
	return 0; /* nobody's code */
#endif
}

/* From here on instruction by instruction, each followed by SIGTRAP, or no longer. False: this processor cannot. */
static bool step(ucontext_t *u, bool on)
{
#if defined(__x86_64__)
	const greg_t trap = 1 << 8; /* TF of EFLAGS */

	u->uc_mcontext.gregs[REG_EFL] =
		on ? u->uc_mcontext.gregs[REG_EFL] | trap : u->uc_mcontext.gregs[REG_EFL] & ~trap;
	return true;
#else
	(void)u, (void)on;
	return false;
#endif
}

/* Is what comes next a system call? */
static bool is_system_call(uintptr_t at)
{
#if defined(__x86_64__)
	const uint8_t *code = (const uint8_t *)at;

	return (code[0] == 0x0F && (code[1] == 0x05 || code[1] == 0x34)) || (code[0] == 0xCD && code[1] == 0x80);
#else
	(void)at;
	return true;
#endif
}

/* Those of the call, the one that it is at first. */
static void copy_frames(const struct sp_doing *d, struct sp_seen *s)
{
	uint32_t used = 0;

	for (uint32_t i = d->at; d->packet && i < d->packets && s->frames < SP_FAULT_FRAMES; i++) {
		const struct sp_packet *p = d->packet[i];

		if (!p->buf && i > d->at) /* sent: its bytes are the port's */
			continue;
		const uint32_t len = RTE_MIN(p->frame_len, SP_FAULT_BYTES);

		if (len > SP_FAULT_BYTES - used)
			break;
		memcpy(s->bytes + used, p->frame, len);
		s->frame_at[s->frames] = used;
		s->frame_len[s->frames++] = len;
		used += len;
	}
}

/* By hand: snprintf may not be called here. */
static void copy_name(char *to, size_t room, const char *from)
{
	size_t n = 0;

	for (; n + 1 < room && from[n]; n++)
		to[n] = from[n];
	to[n] = '\0';
}

/* Whose code is at `at`: one of a pair calls the other. NULL: neither's. */
static const struct sp_context *whose(const struct sp_view *v, uintptr_t at)
{
	const struct sp_context *own = v->context, *other = own->first ? own->first : own->companion;

	return holds(&own->code, at) ? own : other && holds(&other->code, at) ? other : NULL;
}

static bool is_linked(const struct sp_context *own)
{
	const struct sp_context *other = own->first ? own->first : own->companion;

	return !own->code.segments && (!other || !other->code.segments);
}

static struct sp_view *call_of(const struct sp_worker *w)
{
	return w->catcher->polls == w->polls ? __atomic_load_n(&w->doing.view, __ATOMIC_RELAXED) : NULL;
}

/* in: whose code it is in. Returns whether that is to be left, by leave(). */
static bool answer(struct sp_worker *w, struct sp_view *v, const struct sp_context *in)
{
	struct sp_catch *c = w->catcher;
	const bool taken = in && c->marked;

	c->left = 0;
	c->seen->call = v != NULL;
	c->seen->taken = taken;
	if (in)
		copy_name(c->seen->handler, sizeof(c->seen->handler), in->registered->name);
	if (taken) {
		c->culprit = v;
		c->marked = 0;
	}
	/* From here on `seen` is the warden's. */
	atomic_store_explicit(&c->answered, atomic_load_explicit(&c->asked, memory_order_relaxed),
			      memory_order_release);
	return taken;
}

static void on_trap(int number, siginfo_t *info, void *context);

/* Has anybody else got SIGTRAP since, or does this thread not take it? Then a trap would be his, or the end. */
static bool may_step(const ucontext_t *u)
{
	struct sigaction now;

	return sigismember(&u->uc_sigmask, SIGTRAP) == 0 && !sigaction(SIGTRAP, NULL, &now) &&
	       now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_trap;
}

/* On the worker's thread, wherever it is: within the handler's call its context cannot go, for that the worker would
 * have to come by. Nothing but copies, and at the end the jump. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	struct sp_worker *w = mine;
	struct sp_catch *c = w ? w->catcher : NULL;
	const struct sp_context *in = NULL;
	struct sp_view *v;
	const int before = errno;
	bool taken, goes_on;

	(void)number;
	(void)info;
	if (!c)
		return;
	if (atomic_load_explicit(&c->asked, memory_order_acquire) ==
	    atomic_load_explicit(&c->answered, memory_order_relaxed))
		return; /* an old one, or not the warden's */
	v = call_of(w);
	if (v) {
		const struct sp_context *own = v->context;
		struct sp_seen *s = c->seen;

		in = whose(v, interrupted(context));
		copy_name(s->context, sizeof(s->context), own->name);
		copy_name(s->handler, sizeof(s->handler), own->registered->name);
		s->id = own->id;
		s->what = w->doing.what;
		s->linked = is_linked(own);
		copy_frames(&w->doing, s);
	}
	goes_on = v && !in && c->steps && c->marked && !c->seen->linked && !is_system_call(interrupted(context)) &&
		  may_step(context) && step(context, true);
	if (goes_on)
		c->left = c->steps;
	taken = !goes_on && answer(w, v, in);
	errno = before;
	if (taken)
		siglongjmp(c->mark, 1);
}

/* After each instruction, while `left` is not 0. */
static void on_trap(int number, siginfo_t *info, void *context)
{
	struct sp_worker *w = mine;
	struct sp_catch *c = w ? w->catcher : NULL;
	const uintptr_t at = interrupted(context);
	const struct sp_context *in;
	struct sp_view *v;

	if (info->si_code != TRAP_TRACE) { /* nobody's: as if we were not there */
		signal(number, SIG_DFL);
		raise(number);
		return;
	}
	if (!c || !c->left) { /* the flag has been put by with others meanwhile, and got back */
		step(context, false);
		return;
	}
	v = call_of(w);
	in = v ? whose(v, at) : NULL;
	if (v && !in && --c->left && !is_system_call(at))
		return;
	step(context, false);
	if (answer(w, v, in))
		siglongjmp(c->mark, 1);
}

int sp_recover_signal(int *number)
{
	/* NODEFER: a jump out of it leaves the mask as it was. RESTART: what waits goes on waiting where it can. */
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER}, there;
	int r = 0;

	sigemptyset(&action.sa_mask);
	pthread_mutex_lock(&lock);
	action.sa_sigaction = on_trap;
	if (!sigaction(SIGTRAP, NULL, &there) && !(there.sa_flags & SA_SIGINFO) && there.sa_handler == SIG_DFL)
		sigaction(SIGTRAP, &action, NULL);
	action.sa_sigaction = on_signal;
	for (int n = SIGRTMAX; n >= SIGRTMIN && !signal_number; n--)
		if (!sigaction(n, NULL, &there) && !(there.sa_flags & SA_SIGINFO) && there.sa_handler == SIG_DFL &&
		    !sigaction(n, &action, NULL))
			signal_number = n;
	*number = signal_number;
	r = signal_number ? 0 : -EBUSY;
	pthread_mutex_unlock(&lock);
	return r;
}

void sp_recover_thread(struct sp_worker *w)
{
	sigset_t set;

	mine = w;
	if (!w || !w->catcher)
		return;
	__atomic_store_n(&w->catcher->tid, gettid(), __ATOMIC_RELAXED);
	sigemptyset(&set); /* whatever the thread that started us has blocked */
	pthread_mutex_lock(&lock);
	if (signal_number)
		sigaddset(&set, signal_number);
	sigaddset(&set, SIGTRAP);
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* After the jump. */
static struct sp_view *recover(struct sp_worker *w)
{
	struct sp_view *v = w->catcher->culprit;
	struct sp_context *c = v->context->first ? v->context->first : v->context;

	w->catcher->culprit = NULL;
	for (struct sp_context *one = c; one; one = one->companion)
		atomic_store_explicit(&one->aborted, true, memory_order_relaxed);
	sp_context_disable(c, SP_NEVER);
	sp_doing_end(w);
	return v;
}

struct sp_view *sp_guard(struct sp_worker *w, void (*fn)(struct sp_worker *w, void *arg), void *arg)
{
	if (unlikely(!w->catcher)) {
		fn(w, arg);
		return NULL;
	}
	if (sigsetjmp(w->catcher->mark, 0))
		return recover(w);
	w->catcher->marked = 1;
	fn(w, arg);
	w->catcher->marked = 0;
	return NULL;
}
