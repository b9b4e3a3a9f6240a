/* SPDX-License-Identifier: BSD-3-Clause */
/* What the attacks share. */
#ifndef TESTS_E2E_ATTACK_H
#define TESTS_E2E_ATTACK_H

#include "hostile_raw.h"

void in_thread(void *(*run)(void *), void *arg);
void close_got(struct raw *raw); /* what came with the last reply */

/* attack_files.c's */
int recvhold(struct raw *raw);
int fusehold(struct raw *raw);
int pass(struct raw *raw);
int passfuse(struct raw *raw);

#endif
