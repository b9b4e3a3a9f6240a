/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_REPLAY_ARGUMENTS_H
#define COMMAND_REPLAY_ARGUMENTS_H

#include "state.h"

int replay_arguments(struct replay *r, int argc, char **argv); /* OPTIONS_GO_ON, or the exit status */

#endif
