/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_WIRE_SHOW_H
#define COMMAND_WIRE_SHOW_H

#include "state.h"

int wire_show_ready(const struct wire *w);   /* the line that it is ready; 0, or -errno of standard output */
void wire_show_report(const struct wire *w); /* to standard output; warnings to standard error */

#endif
