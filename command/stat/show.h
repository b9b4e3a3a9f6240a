/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_STAT_SHOW_H
#define COMMAND_STAT_SHOW_H

#include "view.h"

/* Tables of a report. before: for the rates; its report is NULL if there is none. */
void stat_show(const struct stat_view *v, const struct stat_sample *now, const struct stat_sample *before, FILE *to);

#endif
