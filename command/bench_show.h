/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle bench prints of a case. */
#ifndef COMMAND_BENCH_SHOW_H
#define COMMAND_BENCH_SHOW_H

#include <jansson.h>

#include "../testbed/bench.h"

void bench_show_list(void);
/* r NULL: the case was skipped, why says why. */
void bench_show_text(const struct bench_case *c, bool icrc, const struct bench_result *r, const char *why);
json_t *bench_show_json(const struct bench_case *c, bool icrc, const struct bench_result *r, const char *why);

#endif
