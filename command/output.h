/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a subcommand writes to. */
#ifndef COMMAND_OUTPUT_H
#define COMMAND_OUTPUT_H

#include <stdbool.h>

/* Writing to `output` would destroy `other`: both are one regular file, or would be once one of them exists. FIFOs and
 * devices are nobody's. */
bool output_destroys(const char *output, const char *other);

/* Puts `to` in the place of standard output, and returns a descriptor of what was there before: for commands whose
 * standard output is for lines that scripts wait for, while EAL and drivers, which print, start. Back with that one. */
int output_redirect(int to);

#endif
