/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_DEMO_OUTCOME_H
#define COMMAND_DEMO_OUTCOME_H

#include "record.h"

/* Prints the results, compared with the source, as a table or JSON. The exit status. */
int demo_outcome(const struct demo *d);

#endif
