/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers that fire and are armed again, nothing else. */
#ifndef TESTS_COUNTS_TIMERS_H
#define TESTS_COUNTS_TIMERS_H

#include "../../testbed/bench/bench.h"

extern const struct bench_case counts_timers; /* its units: timers that have fired */

#endif
