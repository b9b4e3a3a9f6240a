/* SPDX-License-Identifier: BSD-3-Clause */
#include "fault.h"
#include "../engine.h"
#include "../context.h"
#include "../view.h"

#include <rte_common.h>
#include <execinfo.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int signal_number; /* under lock; 0: none yet */
static _Thread_local struct sp_worker *volatile mine;

static const void *interrupted(const ucontext_t *u)
{
#if defined(__x86_64__)
	return (const void *)(uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (const void *)(uintptr_t)u->uc_mcontext.pc;
#else
	(void)u;
	return NULL;
#endif
}

/* The packets of the call, the current one first. */
static void add_frames(const struct sp_doing *d, struct sp_fault *f)
{
	uint32_t used = 0;

	for (uint32_t i = d->at; d->packet && i < d->packets && f->frames < SP_FAULT_FRAMES; i++) {
		const struct sp_packet *p = d->packet[i];

		if (!p->buf && i > d->at) /* sent: its bytes are the port's */
			continue;
		const uint32_t len = RTE_MIN(p->frame_len, SP_FAULT_BYTES);

		if (len > SP_FAULT_BYTES - used)
			break;
		f->frame[f->frames] = p->frame;
		f->frame_len[f->frames++] = len;
		used += len;
	}
}

bool sp_fault_here(const void *ucontext, struct sp_fault *fault)
{
	const struct sp_worker *w = mine;
	const struct sp_view *v = w ? __atomic_load_n(&w->doing.view, __ATOMIC_RELAXED) : NULL;

	if (!v)
		return false;
	*fault = (struct sp_fault){.nic = w->nic->config.name,
				   .context = v->context->name,
				   .handler = v->context->registered->name,
				   .file = v->context->file,
				   .function = sp_doing_name(w->doing.what),
				   .worker = w->index,
				   .at = interrupted(ucontext)};
	add_frames(&w->doing, fault);
	return true;
}

/* snprintf must not be called in a signal handler. */
static const char *copy_name(char *to, size_t room, const char *from)
{
	size_t n = 0;

	for (; n + 1 < room && from[n]; n++)
		to[n] = from[n];
	to[n] = '\0';
	return to;
}

static void copy(struct sp_seen *s)
{
	struct sp_fault *f = &s->fault;
	uint32_t used = 0;

	f->context = copy_name(s->context, sizeof(s->context), f->context);
	f->handler = copy_name(s->handler, sizeof(s->handler), f->handler);
	if (f->file)
		f->file = copy_name(s->file, sizeof(s->file), f->file);
	for (unsigned i = 0; i < f->frames; i++) {
		memcpy(s->bytes + used, f->frame[i], f->frame_len[i]);
		f->frame[i] = s->bytes + used;
		used += f->frame_len[i];
	}
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const struct sp_worker *w = mine;
	struct sp_question *q = w ? w->question : NULL;
	const int before = errno;
	struct sp_seen *s;
	uint32_t asked;

	(void)number;
	(void)info;
	asked = q ? atomic_load_explicit(&q->asked, memory_order_acquire) : 0;
	if (!q || asked == atomic_load_explicit(&q->answered, memory_order_relaxed))
		return; /* an old one, or not the watchdog's */
	s = q->seen;
	s->call = q->polls == w->polls && sp_fault_here(context, &s->fault);
	if (s->call) {
		s->id = w->doing.view->context->id;
		s->what = w->doing.what;
		s->fault.depth = (unsigned)backtrace(s->fault.stack, SP_FAULT_STACK);
		copy(s);
	}
	atomic_store_explicit(&q->answered, asked, memory_order_release); /* `seen` is the watchdog's again */
	errno = before;
}

int sp_fault_signal(int *number)
{
	/* RESTART: what waits goes on waiting where it can. */
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART, .sa_sigaction = on_signal}, there;
	void *stack[1];

	sigemptyset(&action.sa_mask);
	backtrace(stack, 1); /* loads what it needs: later calls do not allocate */
	pthread_mutex_lock(&lock);
	for (int n = SIGRTMAX; n >= SIGRTMIN && !signal_number; n--)
		if (!sigaction(n, NULL, &there) && !(there.sa_flags & SA_SIGINFO) && there.sa_handler == SIG_DFL &&
		    !sigaction(n, &action, NULL))
			signal_number = n;
	*number = signal_number;
	pthread_mutex_unlock(&lock);
	return *number ? 0 : -EBUSY;
}

void sp_fault_thread(struct sp_worker *w)
{
	static _Thread_local stack_t before;
	sigset_t set;

	if (!w) {
		mine = NULL;
		sigaltstack(&before, NULL);
		return;
	}
	sigaltstack(&(stack_t){.ss_sp = w->question->stack, .ss_size = SP_FAULT_SIGNAL_STACK}, &before);
	mine = w;
	__atomic_store_n(&w->question->tid, gettid(), __ATOMIC_RELAXED);
	sigemptyset(&set); /* whatever the thread that started us has blocked */
	pthread_mutex_lock(&lock);
	if (signal_number)
		sigaddset(&set, signal_number);
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
