/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks of `spindle doctor` that need DPDK or nic.ini. */
#ifndef COMMAND_DOCTOR_PORT_H
#define COMMAND_DOCTOR_PORT_H

#include "finding.h"

void doctor_dpdk(struct doctor *d);
void doctor_config(struct doctor *d);

#endif
