/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks of `spindle doctor` that look at the kernel's interfaces. */
#ifndef COMMAND_DOCTOR_INTERFACE_H
#define COMMAND_DOCTOR_INTERFACE_H

#include "finding.h"

void doctor_interfaces(struct doctor *d);

#endif
