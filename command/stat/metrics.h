/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_STAT_METRICS_H
#define COMMAND_STAT_METRICS_H

#include "view.h"

#define STAT_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* The report as OpenMetrics text. False: no memory. */
bool stat_metrics(const json_t *report, FILE *to);

#endif
