/* SPDX-License-Identifier: BSD-3-Clause */
/* Two NICs, a link, taps at both ends, and connections whose host programs act at random in virtual time. Expected
 * results come from the frames alone (wire.h). One seed is one run. */
#ifndef TESTS_SDR_PAIR_H
#define TESTS_SDR_PAIR_H

#include <rte_mempool.h>
#include "sdr_hosts.h"

/* qpn: 0, or the first QP number at both ends. */
struct conn *pair_conn_open(struct pair *r, uint32_t qpn, uint64_t messages0, uint64_t messages1);
/* Ends the QP at one end; the host programs of both stop. */
void pair_conn_close(struct pair *r, struct conn *c, unsigned e);
/* What the QPs used is free again: memory can be deregistered, contexts go. */
void pair_conn_free(struct pair *r, struct conn *c);
void pair_check_totals(struct pair *r);
/* Makes NICs and link from r->p. */
void pair_open(struct pair *r);

extern struct pair_sum {
	uint64_t runs, delivered, placed, duplicates, late, beyond, maybe, injected, injected_late, completed, messages,
		cts;
	uint64_t fixed, immediates;
} pair_sum;

/* Runs until all host programs are done, then until nothing is under way. */
void pair_run(struct pair *r);
void pair_close(struct pair *r);

/* ---- seeds ---- */
void pair_init(struct pair *r, uint64_t seed);

/* Runs one(r) for `count` seeds, times 20 with SPINDLE_LONG=1; only for the seed N with SPINDLE_SEED=N. */
void pair_seeds(const char *rule, unsigned count, void (*one)(struct pair *r));

#endif
