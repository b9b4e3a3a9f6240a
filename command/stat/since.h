/* SPDX-License-Identifier: BSD-3-Clause */
/* What a report's counters have risen by since the previous report. */
#ifndef COMMAND_STAT_SINCE_H
#define COMMAND_STAT_SINCE_H

#include <jansson.h>
#include <stdint.h>

/* The increase of a number. If the counter has restarted, its value. */
uint64_t stat_since(const json_t *now, const json_t *before, const char *key);
/* All packets that a context, or a handler's contexts, were given; `packets` of the report are those that it took. */
uint64_t stat_given(const json_t *context);
uint64_t stat_since_given(const json_t *now, const json_t *before);
/* The time that a context has taken of workers, in units of one worker's time, as in top(1): all the time of two
 * workers is 2. now, before: the NIC's reports. */
double stat_share(const json_t *now, const json_t *before, const char *context);
/* The part of its time that a worker had something to do, 0 to 1. now, before: the worker's reports. */
double stat_busy(const json_t *now, const json_t *before);

#endif
