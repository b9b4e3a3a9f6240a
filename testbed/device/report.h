/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device did, for people and for programs. */
#ifndef TESTBED_DEVICE_REPORT_H
#define TESTBED_DEVICE_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "run.h"

/* The object "device" of spindle replay --json, as spindle-replay(1) describes it. NULL: out of memory. */
json_t *sp_device_report_json(const struct sp_device_run *run);
/* The same as text: a paragraph and a table of the handlers' functions. */
void sp_device_report_text(const struct sp_device_run *run, FILE *out);

#endif
