/* SPDX-License-Identifier: BSD-3-Clause */
/* The attachment that all contexts of the process share, its lock, and the thread that hands out what the NIC has to
 * tell, also while the program polls memory and calls nothing. */
#include "shim.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SERVICE_TURN  64  /* notices of a context before others get the lock */
#define SERVICE_LOOK  100 /* ms: what the NIC's queues had no room for is tried again */
#define SERVICE_YIELD 16

struct shim_nic shim_nic = {.lock = PTHREAD_MUTEX_INITIALIZER, .stop = -1};

/* Contexts come and go one at a time: their thread does, too. Taken before the lock. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* ---- the lock ---- */
void shim_lock(void)
{
	if (!pthread_mutex_trylock(&shim_nic.lock))
		return;
	__atomic_fetch_add(&shim_nic.waiting, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&shim_nic.lock);
	__atomic_fetch_sub(&shim_nic.waiting, 1, __ATOMIC_RELAXED);
}

void shim_unlock(void)
{
	pthread_mutex_unlock(&shim_nic.lock);
}

/* The mutex is not fair: who spins would take it again before a thread that it has woken runs. */
void shim_lock_spinning(void)
{
	for (int i = 0; i < SERVICE_YIELD && __atomic_load_n(&shim_nic.waiting, __ATOMIC_RELAXED); i++)
		sched_yield();
	shim_lock();
}

int shim_until(int (*fn)(void *), void *arg)
{
	struct timespec pause = {.tv_nsec = 20000};
	const sp_time end = sp_clock() + 30 * SP_SEC;
	int rc;

	for (;;) {
		shim_lock();
		rc = fn(arg);
		shim_unlock();
		if (rc != -EAGAIN || sp_clock() >= end)
			return rc;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 2000000)
			pause.tv_nsec *= 2;
	}
}

/* ---- what the NIC tells ---- */
static void hand_out(struct shim_context *c, const struct sp_rdma_notice *n)
{
	switch (n->kind) {
	case SP_RDMA_NOTICE_CM:
		if (c->cm)
			c->cm(c, c->cm_user);
		return;
	case SP_RDMA_NOTICE_CQ: {
		struct shim_cq *q = n->user;

		if (q->ibv.channel)
			shim_tell(&((struct shim_channel *)q->ibv.channel)->queue, &q->completion, 0);
		return;
	}
	case SP_RDMA_NOTICE_ASYNC:
		if (n->async == SP_RDMA_ASYNC_SRQ_LIMIT && n->srq)
			((struct shim_srq *)n->user)->attr.srq_limit = 0; /* it tells once */
		shim_tell(&c->async,
			  n->cq	   ? &((struct shim_cq *)n->user)->async
			  : n->srq ? &((struct shim_srq *)n->user)->async
				   : &((struct shim_qp *)n->user)->async,
			  n->async);
		return;
	}
}

void shim_gone(struct shim_context *c, int rc)
{
	if (rc == -ENODEV || rc == -ECONNABORTED)
		shim_nic.dead = rc;
	else if (rc != -ECONNRESET)
		return;
	for (struct shim_context *x = shim_nic.contexts; x; x = x->next) {
		if ((!shim_nic.dead && x != c) || x->ended)
			continue;
		x->ended = true;
		shim_tell(&x->async, &x->source, IBV_EVENT_DEVICE_FATAL);
		/* Who sleeps until a completion comes finds that none will. */
		for (struct shim_made *m = x->made; m; m = m->next) {
			struct shim_cq *q = m->object;

			if (m->kind == SHIM_CQ && q->ibv.channel)
				shim_tell(&((struct shim_channel *)q->ibv.channel)->queue, &q->completion, 0);
		}
		if (x->cm)
			x->cm(x, x->cm_user);
	}
}

/* False: there is more. */
static bool take_notices(struct shim_context *c)
{
	struct sp_rdma_notice n;
	int rc;

	if (c->ended)
		return true;
	for (int i = 0; i < SERVICE_TURN; i++) {
		rc = sp_rdma_notice_take(c->rdma, &n);
		if (rc != 1) {
			shim_gone(c, rc);
			return true;
		}
		hand_out(c, &n);
	}
	return false;
}

static void *serve(void *arg)
{
	const int stop = *(int *)arg;

	for (;;) {
		struct pollfd wait[2] = {{.fd = stop, .events = POLLIN}, {.events = POLLIN}};
		bool done = true;
		int rc;

		shim_lock();
		rc = shim_nic.dead ? shim_nic.dead : sp_dev_arm(shim_nic.dev);
		if (rc)
			shim_gone(NULL, rc);
		for (struct shim_context *c = shim_nic.contexts; c && !rc; c = c->next)
			done &= take_notices(c);
		wait[1].fd = shim_nic.dead ? -1 : sp_dev_fd(shim_nic.dev);
		shim_unlock();
		poll(wait, 2, !done ? 0 : wait[1].fd < 0 ? -1 : SERVICE_LOOK);
		if (wait[0].revents)
			return NULL;
	}
}

static int thread_begin(void)
{
	sigset_t all, before;
	int rc;

	shim_nic.stop = eventfd(0, EFD_CLOEXEC);
	if (shim_nic.stop < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&shim_nic.thread, NULL, serve, &shim_nic.stop);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		close(shim_nic.stop);
		shim_nic.stop = -1;
	}
	return -rc;
}

static void thread_end(void)
{
	eventfd_write(shim_nic.stop, 1);
	pthread_join(shim_nic.thread, NULL);
	close(shim_nic.stop);
	shim_nic.stop = -1;
}

/* ---- fork: the child has no thread, and must not touch the NIC's memory ---- */
static void fork_prepare(void)
{
	pthread_mutex_lock(&opening);
	pthread_mutex_lock(&shim_nic.lock);
	shim_memory_fork();
}

static void fork_parent(void)
{
	shim_memory_fork_parent();
	pthread_mutex_unlock(&shim_nic.lock);
	pthread_mutex_unlock(&opening);
}

/* The parent's contexts stay as they are, but they have ended. A child may attach by itself. */
static void fork_child(void)
{
	shim_memory_fork_child();
	for (struct shim_context *c = shim_nic.contexts; c; c = c->next) {
		c->ended = true;
		c->rdma = NULL;
	}
	if (shim_nic.stop >= 0)
		close(shim_nic.stop);
	shim_nic = (struct shim_nic){.lock = PTHREAD_MUTEX_INITIALIZER, .stop = -1};
	pthread_mutex_init(&opening, NULL);
}

__attribute__((constructor)) static void fork_watch(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- attaching ---- */
static int attach(void)
{
	struct shim_identity id;
	int rc;

	if (shim_nic.users) {
		shim_nic.users++;
		return 0;
	}
	rc = sp_attach(NULL, &shim_nic.dev);
	if (rc)
		return rc;
	shim_nic.bounce = shim_bounce_open(shim_nic.dev);
	if (!shim_nic.bounce) {
		sp_dev_close(shim_nic.dev);
		return -ENOMEM;
	}
	shim_nic.dead = 0;
	shim_nic.users = 1;
	shim_identify(shim_nic.dev, &id);
	memcpy(shim_nic.gid, id.gid, sizeof(shim_nic.gid));
	memcpy(shim_nic.gid4, id.four, sizeof(shim_nic.gid4));
	memcpy(&shim_nic.guid, id.guid, sizeof(shim_nic.guid));
	return 0;
}

int shim_attach(void)
{
	int rc;

	shim_lock();
	rc = attach();
	shim_unlock();
	return rc;
}

void shim_detach(void)
{
	shim_lock();
	if (shim_nic.users && !--shim_nic.users) { /* 0: what the parent of this process had */
		while (shim_nic.carries) {
			struct shim_carry *x = shim_nic.carries;

			shim_nic.carries = x->next;
			free(x);
		}
		shim_memory_close();
		shim_bounce_close(shim_nic.bounce);
		sp_dev_close(shim_nic.dev);
		shim_nic.dev = NULL;
		shim_nic.bounce = NULL;
	}
	shim_unlock();
}

int shim_begin(struct shim_context *c)
{
	int rc = 0;

	pthread_mutex_lock(&opening);
	if (shim_nic.stop < 0)
		rc = thread_begin();
	if (!rc) {
		shim_lock();
		c->next = shim_nic.contexts;
		shim_nic.contexts = c;
		shim_unlock();
	}
	pthread_mutex_unlock(&opening);
	return rc;
}

void shim_leave(struct shim_context *c)
{
	struct shim_context **at = &shim_nic.contexts;
	bool last;

	pthread_mutex_lock(&opening);
	shim_lock();
	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	last = !shim_nic.contexts && shim_nic.stop >= 0;
	shim_unlock();
	if (last)
		thread_end();
	pthread_mutex_unlock(&opening);
}

/* ---- librdmacm's ---- */
void shim_context_set_cm(struct ibv_context *context, void (*cm)(struct shim_context *, void *user), void *user)
{
	struct shim_context *c = shim_context_of(context);

	c->cm = cm;
	c->cm_user = user;
}

struct sp_rdma *shim_context_rdma(struct ibv_context *context)
{
	return shim_context_of(context)->rdma;
}
