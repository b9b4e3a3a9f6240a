/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects named values (see spindle-handler.h) and formats them as JSON. */
#ifndef PIPELINE_OBSERVE_REPORT_H
#define PIPELINE_OBSERVE_REPORT_H

#include "../../handlers/spindle-handler.h"

/* sp_report_new() and sp_report_finish() are in nic.h. Lack of memory or a misplaced value makes sp_report_finish
 * return NULL. */

/* For the NIC's own report: each handler's part is made separately, so that a bad part spoils only itself. */
bool sp_report_has(const struct sp_report *report, const char *name); /* in the open object */
/* Moves part's values to the end of the open object in report, and frees part. False, without change: part is spoilt,
 * not closed, NULL, or has a name already in use. */
bool sp_report_adopt(struct sp_report *report, struct sp_report *part);
void sp_report_spoil(struct sp_report *report); /* marks it incomplete: out of memory */

#endif
