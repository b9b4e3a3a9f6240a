/* SPDX-License-Identifier: BSD-3-Clause */
/* What a plug-in that is reloaded and the test agree on. The test has the functions and the orders; the plug-in finds
 * them in the program that loads it. */
#ifndef TESTS_LIVE_H
#define TESTS_LIVE_H

#include <stdbool.h>
#include <stdint.h>

/* What a packet says. */
struct live_words {
	uint32_t magic, serial;
	uint64_t key; /* UINT64_MAX: no message */
	uint32_t verdict, action;
	uint64_t arg;
};
#define LIVE_MAGIC 0x4C495645u
enum {
	LIVE_KEEP = 1,
	LIVE_RELEASE = 2, /* what was kept first */
	LIVE_TIMER = 4,	  /* arms one for arg ps later */
	LIVE_ISSUE = 8,	  /* starts an issue that asks arg times for more */
	LIVE_WORK = 16,	  /* starts a work of arg slices */
	LIVE_AGAIN = 32,  /* timer() arms it again, as often as it can */
	LIVE_REFUSE = 64, /* header() does */
};
enum { LIVE_CMD_OPEN = 1000 /* key */, LIVE_CMD_MARK /* mark */, LIVE_CMD_ASK /* mark; -ENOENT: another one */ };

/* Each load has a number, 1 and so on. */
unsigned live_loaded(void);
void live_unloaded(unsigned load);
/* what: a(ttach), d(etach), h(eader), p(ayload), c(ompletion): serial is why, t(imer): serial is what arming again
 * said, i(ssue) and w(ork): key is how many more, o: a command, and what came of it, m(igrate): serial is how many
 * packets the other copy had had, M: the same when that is drained; T, I, W: one more has been armed, started, queued;
 * !: what must not be. qp: of the context. */
void live_called(unsigned load, char what, unsigned worker, uint32_t qp, uint64_t key, uint32_t serial);

struct live_orders {
	int attach, migrate; /* to fail with */
	uint32_t fails_at;   /* attach: of contexts with this qp only; 0: all */
	uint32_t qps;	     /* to claim; 0: none */
	uint64_t area;	     /* bytes */
	bool control, arms;  /* a control QP; attach() arms a timer */
};
extern struct live_orders live_orders;

#endif
