/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual time for any number of NICs and host programs: the event loop that gives `now`. It need not know links: their
 * arrivals are deadlines of the NICs. Everything runs in the order in which it was added, on the caller's thread.
 */
#ifndef TESTBED_WORLD_H
#define TESTBED_WORLD_H

#include "../pipeline/nic.h"

/* Time stands still: after this many polls without effect, or this many in all, the run ends with an error. */
#define SP_WORLD_IDLE_POLLS 1000000u
#define SP_WORLD_BUSY_POLLS 1000000000u

/* A host program. step: does what can be done at `now`. It is called at its time and whenever a NIC has done something.
 * next: when it must be called at the latest; SP_NEVER: only after a NIC has done something. */
struct sp_world_host {
	void (*step)(void *arg, sp_time now);
	sp_time (*next)(void *arg);
	void *arg;
};

struct sp_world;

int sp_world_create(struct sp_world **world);			  /* time 0; -ENOMEM */
void sp_world_destroy(struct sp_world *world);			  /* frees neither NICs nor hosts */
int sp_world_add_nic(struct sp_world *world, struct sp_nic *nic); /* -ENOMEM */
int sp_world_add_host(struct sp_world *world, const struct sp_world_host *host);
/* Time advances in steps that end at multiples of `grain` (ps; 0 or 1: exact). What is due within a step happens
 * together at its end, or at the end of the run if that is earlier: late by less than a grain, but with fewer polls.
 * Call it before sp_world_run. */
void sp_world_set_grain(struct sp_world *world, sp_time grain);
sp_time sp_world_now(const struct sp_world *world);
/* The time of the next event; SP_NEVER. */
sp_time sp_world_next(struct sp_world *world);

/*
 * Runs everything due up to and including `until` (SP_NEVER: until nothing is left to do), or until done(arg) is true;
 * done is asked each time nothing more happens at the present time. It may be NULL. 0: `until` is reached, or there
 * will be no further event (then the time stays); 1: done; -ELOOP: time stands still.
 */
int sp_world_run(struct sp_world *world, sp_time until, bool (*done)(void *arg), void *arg);

#endif
