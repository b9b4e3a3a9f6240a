/* SPDX-License-Identifier: BSD-3-Clause */
/* A sink of named values (see spindle-handler.h), written as JSON by jansson. */
#ifndef PIPELINE_REPORT_H
#define PIPELINE_REPORT_H

#include "../handlers/spindle-handler.h"

/* sp_report_new() and sp_report_finish() are in nic.h. A value out of memory or place makes sp_report_finish return
 * NULL. */

#endif
