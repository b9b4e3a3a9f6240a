/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waking applications that sleep. A worker that has something new for one that has armed its bell marks the doorbell as
 * due; this thread writes to the pipes of those that are. Only when the thread sleeps does a worker make a system call,
 * to wake it (a futex).
 *
 * Nothing is lost, because each side first says, then looks, all of it in one order that everybody sees:
 *   application: armed = 1, then looks at events and area      worker: event or area, then looks at armed
 *   thread: asleep = 1, then looks for doorbells that are due  worker: due = 1, then looks at asleep
 * and the bell is disarmed before the byte is written: whoever arms it after that finds what there was to see, or the
 * byte. The application's exchange and the worker's barrier order the two; what it then looks at are words that are
 * released and acquired, so that ThreadSanitizer can follow.
 */
#include "engine.h"
#include "host.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_atomic.h>

/* One page, of which one byte at a time is used: pipes count against the user who makes them, the NIC's. An application
 * can have its end enlarged (F_SETPIPE_SZ), up to pipe-max-size, and as long as that user has not reached
 * pipe-user-pages-soft; once he has, new pipes are a page or two, which is all that a doorbell needs. So that takes
 * memory of the kernel's (1 MiB per application at most, by default 64 MiB per user), and nothing else. */
#define PIPE_BYTES 4096

struct sp_notifier {
	pthread_mutex_t lock; /* of the list; held while it is gone through */
	struct sp_doorbell *doors;
	_Atomic uint32_t asleep; /* [shared] 1: the thread sleeps, or is about to; what it waits on */
	_Atomic bool stop;
	bool running; /* [control] */
	pthread_t thread;
};

int sp_notifier_create(struct sp_nic *nic)
{
	nic->notifier = calloc(1, sizeof(*nic->notifier));
	if (!nic->notifier)
		return -ENOMEM;
	pthread_mutex_init(&nic->notifier->lock, NULL);
	return 0;
}

static void wake(struct sp_notifier *n)
{
	if (atomic_load(&n->asleep) && atomic_exchange(&n->asleep, 0))
		syscall(SYS_futex, &n->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void sp_notifier_destroy(struct sp_nic *nic)
{
	struct sp_notifier *n = nic->notifier;

	if (!n)
		return;
	if (n->running) {
		atomic_store(&n->stop, true);
		wake(n);
		pthread_join(n->thread, NULL);
	}
	pthread_mutex_destroy(&n->lock);
	free(n);
	nic->notifier = NULL;
}

/* Returns how many there were. */
static unsigned ring_due(struct sp_notifier *n)
{
	unsigned rung = 0;

	pthread_mutex_lock(&n->lock);
	for (struct sp_doorbell *door = n->doors; door; door = door->next) {
		ssize_t ignored; /* full, or closed over there: nobody sleeps who would not wake */

		if (!atomic_load(&door->due) || !atomic_exchange(&door->due, 0))
			continue;
		__atomic_store_n(&door->bell->armed, 0, __ATOMIC_SEQ_CST);
		ignored = write(door->write, "", 1);
		(void)ignored;
		rung++;
	}
	pthread_mutex_unlock(&n->lock);
	return rung;
}

static void *notifier_main(void *arg)
{
	struct sp_notifier *n = arg;

	while (!atomic_load(&n->stop)) {
		if (ring_due(n))
			continue;
		atomic_store(&n->asleep, 1);
		if (ring_due(n) || atomic_load(&n->stop))
			atomic_store(&n->asleep, 0);
		else
			syscall(SYS_futex, &n->asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

/* Signals are for the program's own threads; a pipe that nobody reads any more is an error, not SIGPIPE. */
static int start_thread(struct sp_notifier *n)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&n->thread, NULL, notifier_main, n);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	n->running = !r;
	return -r;
}

int sp_doorbell_open(struct sp_nic *nic, struct sp_doorbell *door)
{
	struct sp_notifier *n = nic->notifier;
	int ends[2], r;

	r = n->running ? 0 : start_thread(n);
	if (r)
		return r;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
	door->read = ends[0];
	door->write = ends[1];
	pthread_mutex_lock(&n->lock);
	door->next = n->doors;
	n->doors = door;
	pthread_mutex_unlock(&n->lock);
	return 0;
}

void sp_doorbell_close(struct sp_nic *nic, struct sp_doorbell *door)
{
	struct sp_notifier *n = nic->notifier;

	pthread_mutex_lock(&n->lock);
	for (struct sp_doorbell **at = &n->doors; *at; at = &(*at)->next)
		if (*at == door) {
			*at = door->next;
			break;
		}
	pthread_mutex_unlock(&n->lock);
	close(door->read);
	close(door->write);
}

/* Is anybody to be woken? After a full barrier: what was written before that is seen by whoever arms the bell after
 * this. Only read: a locked operation on the bell would take its line from one worker to the other in each round. */
static bool due(struct sp_doorbell *door)
{
	return __atomic_load_n(&door->bell->armed, __ATOMIC_SEQ_CST) && !atomic_exchange(&door->due, 1);
}

void sp_doorbells_ring(struct sp_worker *w)
{
	bool any = false;

	rte_smp_mb();
	while (w->touched) {
		struct sp_view *v = w->touched;

		w->touched = v->touched_next;
		v->touched = false;
		any |= due(v->context->door);
	}
	if (any)
		wake(w->nic->notifier);
}

void sp_doorbell_ring(struct sp_nic *nic, struct sp_doorbell *door)
{
	rte_smp_mb();
	if (due(door))
		wake(nic->notifier);
}

void sp_touch_forget(struct sp_worker *w, const struct sp_context *c)
{
	for (struct sp_view **at = &w->touched; *at; at = &(*at)->touched_next)
		if ((*at)->context == c) {
			(*at)->touched = false;
			*at = (*at)->touched_next;
			return;
		}
}
