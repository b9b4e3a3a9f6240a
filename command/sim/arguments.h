/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_SIM_ARGUMENTS_H
#define COMMAND_SIM_ARGUMENTS_H

#include "asked.h"

/* OPTIONS_GO_ON, or the exit status. */
int sim_arguments(struct sim *s, int argc, char **argv);

#endif
