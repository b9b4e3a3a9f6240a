/* SPDX-License-Identifier: BSD-3-Clause */
#include "freeing.h"
#include "../engine.h"
#include "../user.h"
#include "account.h"
#include "reaper.h"
#include "shm.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_common.h>

#define SLICE_MEMORIES 64 /* unmapped in one slice of work, at most */

struct freed {
	TAILQ_ENTRY(freed) next;
	uint64_t id;
	struct sp_account *account; /* or NULL */
	struct sp_user *user;	    /* whose memory it is since the account has gone; or NULL */
	uint32_t uid;
	uint64_t charged;
	struct sp_shm shared; /* base NULL: unmapped */
	enum sp_reaped what;
	int fd;	      /* ours; -1: closed */
	bool told;    /* SOCKET: the reaper has a copy */
	bool leaving; /* SOCKET: no longer in use */
	bool held;    /* the reaper says so */
};
TAILQ_HEAD(freed_list, freed);

struct sp_freeing {
	pthread_mutex_t lock;	   /* protects all below */
	struct freed_list mapped;  /* memory of which some is mapped, or whose descriptor could not be sent yet */
	struct freed_list reaping; /* the reaper has it */
	struct freed_list sockets; /* in use: the reaper has a copy */
	uint64_t id;
	unsigned servers;
	struct sp_reaper reaper;
	bool lost; /* the reaper is gone */
};

int sp_freeing_create(struct sp_nic *nic)
{
	struct sp_freeing *f = nic->freeing = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	pthread_mutex_init(&f->lock, NULL);
	TAILQ_INIT(&f->mapped);
	TAILQ_INIT(&f->reaping);
	TAILQ_INIT(&f->sockets);
	f->reaper.socket = -1;
	return 0;
}

void sp_freeing_destroy(struct sp_nic *nic)
{
	if (!nic->freeing)
		return;
	pthread_mutex_destroy(&nic->freeing->lock);
	free(nic->freeing);
	nic->freeing = NULL;
}

int sp_freeing_begin(struct sp_nic *nic)
{
	struct sp_freeing *f = nic->freeing;
	int r = 0;

	pthread_mutex_lock(&f->lock);
	if (!f->servers) {
		r = sp_reaper_start(&f->reaper);
		f->lost = false;
	}
	f->servers += !r;
	pthread_mutex_unlock(&f->lock);
	return r;
}

/* Gone for good: credits its bytes. The lock is held, here and below. */
static void finish(struct sp_nic *nic, struct freed_list *list, struct freed *g)
{
	TAILQ_REMOVE(list, g, next);
	sp_memory_credit(nic, g->account, g->charged);
	if (g->user)
		atomic_fetch_sub(&g->user->memory, g->charged);
	free(g);
}

/* False: the reaper cannot take it now. */
static bool give(struct sp_nic *nic, struct freed *g)
{
	struct sp_freeing *f = nic->freeing;
	const int r = f->lost ? -EPIPE : sp_reaper_give(&f->reaper, g->what, g->id, g->uid, g->fd);

	f->lost |= r == -EPIPE;
	if (r == -EAGAIN)
		return false;
	if (g->fd >= 0)
		close(g->fd);
	g->fd = -1;
	if (r) { /* the reaper is gone: who else has it keeps it */
		finish(nic, &f->mapped, g);
		return true;
	}
	TAILQ_REMOVE(&f->mapped, g, next);
	TAILQ_INSERT_TAIL(&f->reaping, g, next);
	return true;
}

/* Tells the reaper of sockets that it does not know yet, and of those that are no longer in use. */
static void tell_sockets(struct sp_nic *nic)
{
	struct sp_freeing *f = nic->freeing;
	struct freed *g, *next;

	for (g = TAILQ_FIRST(&f->sockets); g; g = next) {
		next = TAILQ_NEXT(g, next);
		if (!g->told)
			g->told = !f->lost && !sp_reaper_give(&f->reaper, SP_REAP_SOCKET, g->id, g->uid, g->fd);
		if (!g->told || !g->leaving || f->lost || !sp_reaper_lives(&f->reaper))
			continue; /* without a reaper, ours would be the last close */
		close(g->fd);
		g->fd = -1;
		g->what = SP_REAP_RELEASE;
		TAILQ_REMOVE(&f->sockets, g, next);
		TAILQ_INSERT_TAIL(&f->mapped, g, next);
		give(nic, g);
	}
}

void sp_freeing_end(struct sp_nic *nic)
{
	struct sp_freeing *f = nic->freeing;
	struct freed *g;

	pthread_mutex_lock(&f->lock);
	if (!--f->servers) {
		while ((g = TAILQ_FIRST(&f->mapped))) {
			while (sp_shm_less(&g->shared))
				;
			if (g->fd >= 0)
				close(g->fd);
			finish(nic, &f->mapped, g);
		}
		while ((g = TAILQ_FIRST(&f->reaping)))
			finish(nic, &f->reaping, g);
		while ((g = TAILQ_FIRST(&f->sockets))) { /* the reaper could not be told */
			close(g->fd);
			finish(nic, &f->sockets, g);
		}
		sp_reaper_stop(&f->reaper);
	}
	pthread_mutex_unlock(&f->lock);
}

void sp_freeing_memory(struct sp_nic *nic, struct sp_account *account, uint32_t uid, struct sp_shm *shared,
		       uint64_t charged)
{
	struct sp_freeing *f = nic->freeing;
	struct freed *g = shared->file >= 0 ? malloc(sizeof(*g)) : NULL;
	bool waits = false;

	if (g) {
		sp_shm_close(shared);
		*g = (struct freed){.account = account,
				    .uid = uid,
				    .charged = charged,
				    .shared = *shared,
				    .what = SP_REAP_FILE,
				    .fd = shared->file};
		pthread_mutex_lock(&f->lock);
		if (f->servers) {
			waits = true;
			g->id = ++f->id;
			TAILQ_INSERT_TAIL(&f->mapped, g, next);
		}
		pthread_mutex_unlock(&f->lock);
	}
	if (waits) {
		*shared = (struct sp_shm){.fd = -1, .file = -1};
		return;
	}
	free(g);
	sp_shm_destroy(shared);
	sp_memory_credit(nic, account, charged);
}

uint64_t sp_freeing_hold(struct sp_nic *nic, uint32_t uid, int fd)
{
	struct sp_freeing *f = nic->freeing;
	struct freed *g = malloc(sizeof(*g));
	uint64_t id = 0;

	if (!g)
		return 0;
	*g = (struct freed){.uid = uid, .what = SP_REAP_SOCKET, .fd = fd, .shared = {.fd = -1, .file = -1}};
	pthread_mutex_lock(&f->lock);
	id = g->id = ++f->id;
	TAILQ_INSERT_TAIL(&f->sockets, g, next);
	tell_sockets(nic);
	pthread_mutex_unlock(&f->lock);
	return id;
}

bool sp_freeing_ready(struct sp_nic *nic)
{
	return !nic->freeing->lost && sp_reaper_ready(&nic->freeing->reaper);
}

void sp_freeing_let_go(struct sp_nic *nic, uint64_t id)
{
	struct sp_freeing *f = nic->freeing;
	struct freed *g;

	pthread_mutex_lock(&f->lock);
	TAILQ_FOREACH (g, &f->sockets, next)
		if (g->id == id)
			break;
	if (g) {
		shutdown(g->fd, SHUT_RDWR);
		g->leaving = true;
		tell_sockets(nic);
	}
	pthread_mutex_unlock(&f->lock);
}

static void take_reports(struct sp_nic *nic)
{
	struct sp_freeing *f = nic->freeing;
	enum sp_reap_state state;
	struct freed *g;
	uint64_t id;
	int r = 0;

	while (!f->lost && !(r = sp_reaper_take(&f->reaper, &id, &state))) {
		TAILQ_FOREACH (g, &f->reaping, next)
			if (g->id == id)
				break;
		if (!g)
			continue;
		if (state == SP_REAP_DONE)
			finish(nic, &f->reaping, g);
		else
			g->held = true;
	}
	if (!f->lost && r == -EPIPE) {
		f->lost = true; /* what it kept is closed now */
		while ((g = TAILQ_FIRST(&f->reaping)))
			finish(nic, &f->reaping, g);
	}
	if (f->lost) { /* somebody has killed it */
		sp_reaper_stop(&f->reaper);
		f->lost = sp_reaper_start(&f->reaper) != 0;
		TAILQ_FOREACH (g, &f->sockets, next)
			g->told = false;
	}
	tell_sockets(nic);
}

void sp_freeing_work(struct sp_nic *nic)
{
	struct sp_freeing *f = nic->freeing;
	size_t room = SP_SHM_SLICE;
	struct freed *g, *next;

	pthread_mutex_lock(&f->lock);
	take_reports(nic);
	g = TAILQ_FIRST(&f->mapped);
	for (unsigned i = 0; i < SLICE_MEMORIES && room && g; i++, g = next) {
		const size_t some = RTE_MIN(g->shared.bytes, SP_SHM_SLICE);

		next = TAILQ_NEXT(g, next);
		if (some > room)
			break;
		room -= some;
		if (!sp_shm_less(&g->shared) && !give(nic, g))
			break;
	}
	pthread_mutex_unlock(&f->lock);
}

int sp_freeing_next(struct sp_nic *nic)
{
	struct sp_freeing *f = nic->freeing;
	const struct freed *g;
	int next;

	pthread_mutex_lock(&f->lock);
	g = TAILQ_FIRST(&f->mapped);
	next = !g ? -1 : g->shared.base ? 0 : SP_FREEING_PAUSE;
	pthread_mutex_unlock(&f->lock);
	return next;
}

int sp_freeing_fd(struct sp_nic *nic)
{
	return nic->freeing->lost ? -1 : nic->freeing->reaper.socket;
}

static uint64_t sum(const struct freed_list *list, const struct sp_account *account, uint64_t *held)
{
	const struct freed *g;
	uint64_t bytes = 0;

	TAILQ_FOREACH (g, list, next)
		if (!account || g->account == account) {
			bytes += g->charged;
			*held += g->held ? g->charged : 0;
		}
	return bytes;
}

uint64_t sp_freeing_bytes(struct sp_nic *nic, const struct sp_account *account, uint64_t *held)
{
	struct sp_freeing *f = nic->freeing;
	uint64_t bytes;

	*held = 0;
	pthread_mutex_lock(&f->lock);
	bytes = sum(&f->mapped, account, held) + sum(&f->reaping, account, held);
	pthread_mutex_unlock(&f->lock);
	return bytes;
}

uint32_t sp_freeing_held(struct sp_nic *nic, uint32_t uid)
{
	struct sp_freeing *f = nic->freeing;
	const struct freed *g;
	uint32_t held = 0;

	pthread_mutex_lock(&f->lock);
	TAILQ_FOREACH (g, &f->reaping, next)
		held += g->held && g->uid == uid;
	if (f->lost)
		held = UINT32_MAX;
	pthread_mutex_unlock(&f->lock);
	return held;
}

static void disown(struct freed_list *list, const struct sp_account *account)
{
	struct freed *g;

	TAILQ_FOREACH (g, list, next)
		if (g->account == account) {
			g->account = NULL;
			g->user = account->user;
			if (g->user)
				atomic_fetch_add(&g->user->memory, g->charged);
		}
}

void sp_freeing_disown(struct sp_nic *nic, const struct sp_account *account)
{
	struct sp_freeing *f = nic->freeing;

	if (!account)
		return;
	pthread_mutex_lock(&f->lock);
	disown(&f->mapped, account);
	disown(&f->reaping, account);
	pthread_mutex_unlock(&f->lock);
}
