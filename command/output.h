/* SPDX-License-Identifier: BSD-3-Clause */
/* The output of subcommands: messages and files. */
#ifndef COMMAND_OUTPUT_H
#define COMMAND_OUTPUT_H

#include <stdbool.h>

/* Prints "spindle COMMAND: TEXT" as a line to standard error, behind what standard output still holds. Returns 1. */
int command_fail(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether writing to `output` would destroy `other`: both are one regular file, or would be once it exists. Not for
 * FIFOs and devices. */
bool output_destroys(const char *output, const char *other);

/* Replaces standard output by `to`, and returns a descriptor of the former one, to restore it. For commands whose
 * standard output is for lines that scripts wait for: EAL and drivers print when they start. */
int output_redirect(int to);

#endif
