/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal of spindle stat, and its keys. */
#ifndef COMMAND_STAT_SCREEN_H
#define COMMAND_STAT_SCREEN_H

#include "view.h"

/* Prints the tables; on a terminal they replace the previous ones. */
void stat_draw(struct stat_view *v, const struct stat_sample *now, const struct stat_sample *before);
/* begin: the keys of the terminal at standard input come one by one, without echo, if this process is in its
 * foreground. end: restores the terminal. Both may be called again and again. */
void stat_keys_begin(struct stat_view *v);
void stat_keys_end(struct stat_view *v);
/* Handles the keys that were pressed. True: the table has changed. *quit: the user ends the command. */
bool stat_keys(struct stat_view *v, bool *quit);

#endif
