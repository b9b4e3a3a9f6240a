/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_PERF_SHOW_H
#define COMMAND_PERF_SHOW_H

#include "measure.h"

extern const char *const perf_op_names[], *const perf_way_names[]; /* by perf_plan; up to a NULL */

void perf_show_row(const struct perf_plan *p, const struct perf_row *row);
void perf_show(const struct perf_plan *p, const struct perf_measured *m);
int perf_show_json(const struct perf_plan *p, const struct perf_measured *m); /* 0 or -ENOMEM */

#endif
