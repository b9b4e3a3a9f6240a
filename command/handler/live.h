/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle handler load, unload, reload, attach, detach, status: handlers of a running NIC. */
#ifndef COMMAND_HANDLER_LIVE_H
#define COMMAND_HANDLER_LIVE_H

#include <stdbool.h>

bool handler_live_is(const char *word); /* is it one of these words? */
/* argv[0]: that word. Returns the exit status. */
int handler_live(int argc, char **argv);

#endif
