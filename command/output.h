/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that a subcommand writes. */
#ifndef COMMAND_OUTPUT_H
#define COMMAND_OUTPUT_H

#include <stdbool.h>

/* Writing to `output` would destroy `other`: both are one regular file, or would be once one of them exists. FIFOs and
 * devices are nobody's. */
bool output_destroys(const char *output, const char *other);

#endif
