/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread wakes applications that sleep, and learns from parked applications that they have posted.
 *
 * A worker that has news for an application with an armed bell pushes the doorbell on a stack. The thread takes the
 * stack and sends a byte for each doorbell. A worker makes a system call only to wake the thread.
 *
 * Nothing is lost. Each side writes first, then reads, and all sides see one order of these steps:
 *   application: arms, then reads events and area           worker: event or area, then reads armed
 *   thread: asleep = 1, then reads the stack                worker: pushes, then reads asleep
 * The thread clears armed before it sends. An application that arms after that finds the news, or the byte. The
 * application's locked operation and the worker's barrier order the first line; events and area are released and
 * acquired, so that ThreadSanitizer can follow.
 *
 * An application that has armed for what it receives is not rung for the progress of its own posts: its bell stays
 * armed. If it then arms for any news, that is a locked operation as the first one was, after which it looks again: it
 * sees the progress whose worker read the bell before. Bits that are armed go only when the thread clears all of them,
 * and then a byte follows.
 *
 * Nothing that an application does makes the thread wait. It sends with MSG_DONTWAIT to a socket of its own, whose
 * flags and buffer the application cannot change, and which receives nothing. It never reads the eventfd: an edge of
 * the epoll is all that it needs, so neither the eventfd's value nor its flags matter.
 */
#include "../engine.h"
#include "../exec/rings.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_atomic.h>

#define RINGS 32 /* posts of parked applications taken at once */

struct sp_notifier {
	/* Keeps doorbells alive while parked applications' posts are taken. Never held over a send. */
	pthread_mutex_t lock;
	struct sp_doorbell *_Atomic due;     /* [shared] stack */
	struct sp_doorbell *_Atomic sending; /* [shared] the doorbell that the thread uses now */
	_Atomic uint32_t asleep;	     /* [shared] 1: the thread sleeps, or is about to */
	_Atomic bool stop;
	bool running;	 /* [control]; the fields below are valid while true */
	int epoll, wake; /* wake: eventfd, for workers; in the epoll, as the applications' are */
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
		eventfd_write(n->wake, 1);
}

void sp_notifier_destroy(struct sp_nic *nic)
{
	struct sp_notifier *n = nic->notifier;

	if (!n)
		return;
	if (n->running) {
		atomic_store(&n->stop, true);
		eventfd_write(n->wake, 1);
		pthread_join(n->thread, NULL);
		close(n->wake);
		close(n->epoll);
	}
	pthread_mutex_destroy(&n->lock);
	free(n);
	nic->notifier = NULL;
}

static void send_due(struct sp_notifier *n)
{
	struct sp_doorbell *door = atomic_exchange(&n->due, NULL), *next;

	for (; door; door = next) {
		next = door->next;
		atomic_store(&n->sending, door); /* before `due` is cleared: see sp_doorbell_close() */
		atomic_store(&door->due, 0);
		__atomic_store_n(&door->bell->armed, 0, __ATOMIC_SEQ_CST);
		/* Ignore errors: a full socket wakes the application anyway, and a closed one has no sleeper. */
		(void)!send(door->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	atomic_store(&n->sending, NULL);
}

/* Sleeps until a worker or a parked application wakes it, and makes those applications active. */
static void take_posts(struct sp_notifier *n)
{
	struct epoll_event post[RINGS];
	struct pollfd p = {.fd = n->epoll, .events = POLLIN};
	int posts;

	poll(&p, 1, -1);
	pthread_mutex_lock(&n->lock);
	posts = epoll_wait(n->epoll, post, RINGS, 0);
	for (int i = 0; i < posts; i++) {
		struct sp_doorbell *door = post[i].data.ptr;
		struct sp_device *d = door ? container_of(door, struct sp_device, door) : NULL;

		for (unsigned w = 0; d && w < d->nic->workers; w++)
			sp_commands_wake(&d->commands[w]);
	}
	pthread_mutex_unlock(&n->lock);
}

static void *notifier_main(void *arg)
{
	struct sp_notifier *n = arg;

	while (!atomic_load(&n->stop)) {
		send_due(n);
		atomic_store(&n->asleep, 1);
		if (!atomic_load(&n->due) && !atomic_load(&n->stop))
			take_posts(n);
		atomic_store(&n->asleep, 0);
	}
	return NULL;
}

/* Each write is an edge, as no one reads the eventfd. */
static int watch(struct sp_notifier *n, int fd, struct sp_doorbell *door)
{
	struct epoll_event edge = {.events = EPOLLIN | EPOLLET, .data.ptr = door};

	return epoll_ctl(n->epoll, EPOLL_CTL_ADD, fd, &edge) ? -errno : 0;
}

/* Signals are for the program's own threads. */
static int start_thread(struct sp_notifier *n)
{
	sigset_t all, before;
	int r;

	n->epoll = epoll_create1(EPOLL_CLOEXEC);
	n->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = n->epoll < 0 || n->wake < 0 ? -errno : watch(n, n->wake, NULL);
	if (!r) {
		sigfillset(&all);
		sigdelset(&all, SIGSYS); /* as a crash, it is told */
		pthread_sigmask(SIG_SETMASK, &all, &before);
		r = -pthread_create(&n->thread, NULL, notifier_main, n);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	n->running = !r;
	if (r && n->epoll >= 0)
		close(n->epoll);
	if (r && n->wake >= 0)
		close(n->wake);
	return r;
}

int sp_doorbell_open(struct sp_nic *nic, struct sp_doorbell *door, bool attached)
{
	struct sp_notifier *n = nic->notifier;
	const int small = 1; /* the kernel's minimum holds about five bytes; one is enough */
	int ends[2], r;

	r = n->running ? 0 : start_thread(n);
	if (r)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		return -errno;
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	shutdown(ends[0], SHUT_RD); /* we accept no data or descriptors from the application */
	door->fd = ends[0];
	door->application = ends[1];
	door->ring = attached ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
	if (!attached)
		return 0;
	r = door->ring < 0 ? -errno : watch(n, door->ring, door);
	if (r)
		sp_doorbell_close(nic, door);
	return r;
}

void sp_doorbell_given(struct sp_doorbell *door)
{
	close(door->application);
	door->application = -1;
}

void sp_doorbell_mute(struct sp_nic *nic, struct sp_doorbell *door)
{
	if (door->ring < 0)
		return;
	pthread_mutex_lock(&nic->notifier->lock);
	epoll_ctl(nic->notifier->epoll, EPOLL_CTL_DEL, door->ring, NULL);
	pthread_mutex_unlock(&nic->notifier->lock);
}

void sp_doorbell_close(struct sp_nic *nic, struct sp_doorbell *door)
{
	const struct timespec pause = {.tv_nsec = 10000};

	/* No worker pushes it any more, and the thread drops it soon: a send does not wait. */
	while (atomic_load(&door->due) || atomic_load(&nic->notifier->sending) == door)
		nanosleep(&pause, NULL);
	close(door->fd);
	if (door->application >= 0)
		close(door->application);
	if (door->ring >= 0)
		close(door->ring);
}

/* Wakes the application if its bell is armed for such news. Call it after a full barrier: an application that arms
 * later sees what was written before. Only reads the bell: an atomic exchange in each poll would move its line between
 * workers.
 */
static void ring(struct sp_notifier *n, struct sp_doorbell *door, unsigned news)
{
	const uint32_t armed = __atomic_load_n(&door->bell->armed, __ATOMIC_SEQ_CST);

	if (!armed || (armed == SP_BELL_RECEIVE && !(news & SP_NEWS_OTHER)) || atomic_exchange(&door->due, 1))
		return;
	door->next = atomic_load_explicit(&n->due, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&n->due, &door->next, door))
		;
	wake(n);
}

void sp_doorbells_ring(struct sp_worker *w)
{
	struct sp_view *v;
	unsigned news;

	rte_smp_mb();
	while ((v = SLIST_FIRST(&w->touched))) {
		SLIST_REMOVE_HEAD(&w->touched, touched_next);
		news = v->touched;
		v->touched = 0;
		ring(w->nic->notifier, v->context->door, news);
	}
}

void sp_doorbell_ring(struct sp_nic *nic, struct sp_doorbell *door)
{
	rte_smp_mb();
	ring(nic->notifier, door, SP_NEWS_OTHER);
}

void sp_touch_forget(struct sp_worker *w, const struct sp_context *c)
{
	struct sp_view *v = c->view[w->index];

	if (v->touched)
		SLIST_REMOVE(&w->touched, v, sp_view, touched_next);
	v->touched = 0;
}
