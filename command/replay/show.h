/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of a replay, as text or JSON. */
#ifndef COMMAND_REPLAY_SHOW_H
#define COMMAND_REPLAY_SHOW_H

#include "state.h"

void replay_report_make(struct replay *r); /* r->report: JSON */
void replay_report_print(struct replay *r);

#endif
