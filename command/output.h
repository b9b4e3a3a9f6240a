/* SPDX-License-Identifier: BSD-3-Clause */
/* The output of subcommands: messages and files. */
#ifndef COMMAND_OUTPUT_H
#define COMMAND_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>

/* Prints "spindle COMMAND: TEXT" as a line to standard error, behind what standard output still holds. Returns 1. */
int command_fail(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the object on standard output, as a line or as flags of json_dumps() say, and drops the reference. 0 or
 * -ENOMEM; also if the object is NULL, or a name in it is not UTF-8. */
int output_json(json_t *object, size_t flags);
/* The size of the terminal at fd; 80 by 24 if it is unknown. */
void output_terminal(int fd, unsigned *columns, unsigned *rows);

/* Whether writing to `output` would destroy `other`: both are one regular file, or would be once it exists. Not for
 * FIFOs and devices. */
bool output_destroys(const char *output, const char *other);

/* Replaces standard output by `to`, and returns a descriptor of the former one, to restore it. For commands whose
 * standard output is for lines that scripts wait for: EAL and drivers print when they start. */
int output_redirect(int to);

#endif
