/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts of one worker whose packets say their cost in cycles, and a port where the packets of each arrive at a
 * given rate. The time of the NIC follows the cycles. */
#ifndef TESTS_TENANTS_H
#define TESTS_TENANTS_H

#include <rte_cycles.h>
#include "../../pipeline/exec/rings.h"
#include "../../pipeline/exec/scheduler.h"
#include "dut.h"

#define TENANTS	     24
#define TENANT_QP    64
#define TENANT_USERS 8
#define TENANT_QUEUE 1024 /* descriptors of the port */

struct tenant {
	/* the test's wishes; times in cycles */
	uint32_t weight;
	uint32_t user, app;	/* whose it is: a uid, and which of that user's applications; 0: the NIC's own */
	uint64_t cost, every;	/* of a packet; between arrivals, 0: none come */
	uint64_t vary;		/* cost is 1 to so many times as much, at random */
	unsigned burst;		/* arrive at once */
	uint64_t from, until;	/* arrivals; until 0: for ever */
	uint64_t slices, slice; /* deferred work: so many works at a time, which never end; cycles of a slice */
	uint64_t issue;		/* a call of issue(), which never ends, takes so many */
	uint32_t frame;		/* it sends frames of so many bytes, as many as it may; 0: none */
	/* what became of it */
	uint32_t id;
	uint64_t next; /* arrival */
	uint32_t serial, last, reordered;
	uint64_t missed, came, done, had; /* missed: at the port; had: cycles, of packets, slices and issues */
	uint64_t sliced, issued, sent;	  /* calls; frames */
	uint32_t *wait;			  /* cycles from arrival to handler, of each packet */
	unsigned room;
};

struct tenant_words {
	uint32_t tenant, serial;
	uint64_t arrival, cost;
};

extern struct tenancy {
	struct tenant tenant[TENANTS];
	unsigned tenants;
	uint64_t ticks, us; /* now; in a microsecond */
	uint64_t seed;
	struct tenant_words queue[TENANT_QUEUE];
	unsigned head, count;
	uint64_t received;
	uint64_t backlog_most, idle; /* polls that did nothing while packets waited */
	struct frame frame[TENANTS];
	struct sp_user_limits limits[TENANT_USERS]; /* of users, by uid */
	struct sp_device *device[TENANTS];	    /* the tenant's application; one of several, too */
	void (*look)(void);			    /* after every poll */
} tenancy;

/* ---- their port ---- */

/* ---- their handler ---- */

struct tenant_state {
	uint32_t index;
	struct sp_work work[256];
	struct sp_issue issue;
};

/* ---- a test ---- */

void tenants_begin(void);
/* Microseconds; every: 0: none come. */
struct tenant *tenant_add(uint32_t weight, double cost, double every);
/* Of another user. */
struct tenant *tenant_of(struct tenant *t, uint32_t user, uint32_t app);
void tenants_enter(void);
struct sp_view *tenant_view(const struct tenant *t);
struct sp_worker *tenants_worker(void);
/* Of the time that all tenants had. */
double tenant_part(const struct tenant *t);
double tenants_part_of(uint32_t user, uint32_t app);
/* One poll, and what it costs the worker itself; or, when there is nothing to do, until there is. */
unsigned tenants_poll(uint64_t end);
/* For so many microseconds. */
void tenants_run(double us);
/* Nothing more arrives; what is there ends. */
void tenants_settle(void);
/* Received = taken + forwarded + dropped + parked; returns how many are wrong. */
uint64_t tenants_lost(void);
void tenants_stop(void);
/* In microseconds, of those that have been handled; sorts them. */
double tenant_quantile(struct tenant *t, double q);

#endif
