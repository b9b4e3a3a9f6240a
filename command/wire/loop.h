/* SPDX-License-Identifier: BSD-3-Clause */
/* The packet loop of spindle wire. */
#ifndef COMMAND_WIRE_LOOP_H
#define COMMAND_WIRE_LOOP_H

#include "state.h"

void wire_run(struct wire *w);				   /* until its time is over or a signal has come */
uint64_t wire_in_flight(const struct wire *w, unsigned e); /* packets from port e that have not been sent yet */

#endif
