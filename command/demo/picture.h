/* SPDX-License-Identifier: BSD-3-Clause */
/* What became of each chunk over time: time goes to the right, the file downwards. */
#ifndef COMMAND_DEMO_PICTURE_H
#define COMMAND_DEMO_PICTURE_H

#include "record.h"

void demo_timeline(const struct demo *d);     /* as text, on standard output */
int demo_picture_write(const struct demo *d); /* as SVG, to o.picture; 0 or 1 */

#endif
