/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal of spindle stat, and its keys. */
#ifndef COMMAND_STAT_SCREEN_H
#define COMMAND_STAT_SCREEN_H

#include "view.h"

/* Prints what show() writes, at most v->width columns; on a terminal it replaces what was there. */
void stat_draw_with(struct stat_view *v, void (*show)(const struct stat_view *v, void *arg, FILE *to), void *arg);
/* The same for the tables of stat_show(). */
void stat_draw(struct stat_view *v, const struct stat_sample *now, const struct stat_sample *before);
/* begin: the keys of the terminal at standard input come one by one, without echo, if this process is in its
 * foreground. end: restores the terminal. Both may be called again and again. */
void stat_keys_begin(struct stat_view *v);
void stat_keys_end(struct stat_view *v);
/* Handles the keys that were pressed. True: the table has changed. *quit: the user ends the command. */
bool stat_keys(struct stat_view *v, bool *quit);

#endif
