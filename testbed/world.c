/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>

#include "world.h"

struct sp_world {
	sp_time now, grain;
	struct sp_nic **nic;
	size_t nics;
	struct sp_world_host *host;
	size_t hosts;
	uint64_t idle, polls; /* at this time: polls since the last one with an effect, and all polls */
	uint32_t turn;	      /* rotates which worker of a NIC comes first, so that none is always the last */
};

int sp_world_create(struct sp_world **world)
{
	*world = calloc(1, sizeof(**world));
	return *world ? 0 : -ENOMEM;
}

void sp_world_destroy(struct sp_world *world)
{
	if (!world)
		return;
	free(world->nic);
	free(world->host);
	free(world);
}

int sp_world_add_nic(struct sp_world *world, struct sp_nic *nic)
{
	struct sp_nic **more = reallocarray(world->nic, world->nics + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	world->nic = more;
	world->nic[world->nics++] = nic;
	return 0;
}

int sp_world_add_host(struct sp_world *world, const struct sp_world_host *host)
{
	struct sp_world_host *more = reallocarray(world->host, world->hosts + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	world->host = more;
	world->host[world->hosts++] = *host;
	return 0;
}

void sp_world_set_grain(struct sp_world *world, sp_time grain)
{
	world->grain = grain;
}

sp_time sp_world_now(const struct sp_world *world)
{
	return world->now;
}

static sp_time earlier(sp_time a, sp_time b)
{
	return a < b ? a : b;
}

static sp_time hosts_next(const struct sp_world *w)
{
	sp_time next = SP_NEVER;

	for (size_t i = 0; i < w->hosts; i++)
		next = earlier(next, w->host[i].next(w->host[i].arg));
	return next;
}

sp_time sp_world_next(struct sp_world *world)
{
	sp_time next = hosts_next(world);

	for (size_t i = 0; i < world->nics; i++)
		for (uint16_t k = 0; k < sp_nic_workers(world->nic[i]); k++)
			next = earlier(next, sp_nic_next_deadline(world->nic[i], k));
	return next;
}

/* Polls the workers that have something due, or all. */
static unsigned poll_nics(struct sp_world *w, bool all)
{
	unsigned done = 0;

	for (size_t i = 0; i < w->nics; i++) {
		const uint16_t workers = sp_nic_workers(w->nic[i]);

		for (uint16_t j = 0; j < workers; j++) {
			const uint16_t k = (uint16_t)((w->turn + j) % workers);
			unsigned n;

			if (!all && sp_nic_next_deadline(w->nic[i], k) > w->now)
				continue;
			n = sp_nic_poll(w->nic[i], k, w->now);
			w->idle = n ? 0 : w->idle + 1;
			w->polls++;
			done += n;
		}
	}
	return done;
}

/* Everything that happens at the present time, also its effects without delay. */
static int settle(struct sp_world *w)
{
	bool all = true; /* commands may have been posted before this run */
	unsigned done;

	w->idle = w->polls = 0;
	w->turn++;
	do {
		done = poll_nics(w, all);
		all = false;
		if (done || hosts_next(w) <= w->now) {
			for (size_t i = 0; i < w->hosts; i++)
				w->host[i].step(w->host[i].arg, w->now);
			all = w->hosts != 0; /* a NIC finds commands only when polled: they are no deadline */
			w->idle++;	     /* counts hosts, too: one may never end, and there may be no NIC */
			w->polls++;
		}
		if (w->idle > SP_WORLD_IDLE_POLLS || w->polls > SP_WORLD_BUSY_POLLS)
			return -ELOOP;
	} while (done || all || sp_world_next(w) <= w->now);
	return 0;
}

static sp_time grained(const struct sp_world *w, sp_time t)
{
	const sp_time over = w->grain > 1 ? t % w->grain : 0;

	return over && t < SP_NEVER - w->grain ? t + (w->grain - over) : t;
}

int sp_world_run(struct sp_world *world, sp_time until, bool (*done)(void *arg), void *arg)
{
	for (;;) {
		sp_time next;
		int err = settle(world);

		if (err)
			return err;
		if (done && done(arg))
			return 1;
		next = grained(world, sp_world_next(world));
		if (next > until || next == SP_NEVER) {
			if (until != SP_NEVER && until > world->now)
				world->now = until;
			return 0;
		}
		world->now = next; /* settle() left nothing due, so this is later than now */
	}
}
