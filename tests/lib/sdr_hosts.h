/* SPDX-License-Identifier: BSD-3-Clause */
/* The host programs: they post, send and complete at random, and compare all results and every byte of their
 * buffers with the frames that the taps saw. */
#ifndef TESTS_SDR_HOSTS_H
#define TESTS_SDR_HOSTS_H

#include "sdr_watch.h"

/* ---- receiving ---- */
bool pair_all_are(const uint8_t *b, uint64_t n, uint8_t value);

void pair_buffer_fill(struct pair *r, struct flow *f, struct buffer *b);
void pair_buffer_check_idle(struct pair *r, struct flow *f, const struct buffer *b);

/* ---- the host programs, and the whole ---- */
bool pair_flow_done(const struct flow *f);

bool pair_done(void *arg);
void pair_step(void *arg, sp_time now);
sp_time pair_next(void *arg);

#endif
