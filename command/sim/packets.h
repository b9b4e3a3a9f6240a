/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_SIM_PACKETS_H
#define COMMAND_SIM_PACKETS_H

#include "asked.h"

int sim_packets(const struct sim *s); /* the exit status */

#endif
