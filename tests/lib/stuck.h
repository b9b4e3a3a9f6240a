/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of calls that do not come back: a port that is fed while workers run, handlers besides faulty.c, and what
 * config.fault has been called with. */
#ifndef TESTS_STUCK_H
#define TESTS_STUCK_H

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "../../pipeline/exec/rings.h"
#include "../../pipeline/observe/watchdog.h"
#include "dut.h"

#define STALL	(100 * SP_MS)
#define PATIENT 30 /* s, for what must come */
#define BAD	16 /* QPs */
#define GOOD	17
#define WORKERS 2

/* ---- a port: what is said goes to a queue, and comes from it in one burst ---- */

extern struct stuck_queue {
	pthread_mutex_t lock;
	struct rte_mbuf *packet[256];
	unsigned count;
} stuck_queue[WORKERS];

extern const struct sp_port_ops stuck_port_ops;
/* A packet for each letter of `what`: to the context with that QP, of message `key`. The queue is locked. */
void stuck_put(unsigned q, uint32_t qp, const char *what, uint8_t key);
/* The same; it locks the queue itself. */
void stuck_say(unsigned q, uint32_t qp, const char *what, uint8_t key);

/* ---- handlers: "good" does right; "linked" is among the NIC's own code, and spins while stuck_spin_on ---- */

extern _Atomic bool stuck_spin_on;
extern _Atomic bool stuck_stays; /* faulty.c stays in its call */
int faulty_stays(void);
/* The plug-in's letter N calls it. */
void faulty_outside(void);

/* ---- what config.fault has been called with: its argument is &stuck_told ---- */

extern struct stuck_told {
	unsigned count;
	struct sp_fault fault[8]; /* strings and frames are copies */
	char context[8][40], handler[8][40], function[8][40], file[8][256];
	uint8_t frame[8][256];
} stuck_told, stuck_fatal;

void stuck_on_fault(void *arg, const struct sp_fault *f);
unsigned stuck_count_of(const struct stuck_told *t);
unsigned stuck_faults(void);

#endif
