/* SPDX-License-Identifier: BSD-3-Clause */
/* Applications on two NICs use RVMA at random over a bad link, in virtual time. rvma_watch.h compares what they
 * see with the model. One seed is one run. */
#ifndef TESTS_RVMA_APPS_H
#define TESTS_RVMA_APPS_H

#include "rvma_acts.h"

/* ---- their lives ---- */
void app_open(struct apps *a, struct app *x);

void apps_random(struct apps *a);
void apps_open(struct apps *a);
/* Until `limit` operations and commands are done and all of them have ended. */
void apps_run(struct apps *a, uint64_t limit);
/* The same, but then one of them is no more, in the middle of it all. The others go on once they have noticed. */
void apps_run_to_death(struct apps *a, uint64_t limit, unsigned c, bool silent);
void apps_close(struct apps *a);

#endif
