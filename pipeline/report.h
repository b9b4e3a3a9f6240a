/* SPDX-License-Identifier: BSD-3-Clause */
/* A sink of named values (see spindle-handler.h), written as JSON by jansson. */
#ifndef PIPELINE_REPORT_H
#define PIPELINE_REPORT_H

#include "../handlers/spindle-handler.h"

/* sp_report_new() and sp_report_finish() are in nic.h. A value out of memory or place makes sp_report_finish return
 * NULL. */

/* For the NIC's own report: the part that one handler says is made apart, so that a bad one spoils itself alone. */
bool sp_report_has(const struct sp_report *report, const char *name); /* in the object that is open */
/* Moves the values of part to the end of the object that is open in report, and frees part. False: part is spoilt, not
 * closed, NULL, or has a name that is there already; then it leaves nothing. */
bool sp_report_adopt(struct sp_report *report, struct sp_report *part);
void sp_report_spoil(struct sp_report *report); /* it is not whole: there was no memory */

#endif
