/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports of the simulated NIC. */
#ifndef COMMAND_REPLAY_PORTS_H
#define COMMAND_REPLAY_PORTS_H

#include "state.h"

/* After the configuration is read, before a file is written: r->ports, and whether captures and expectations fit them.
 * 0, or -errno after a message. */
int replay_ports_count(struct replay *r);
int replay_ports_set(struct replay *r); /* after replay_files_open(): what the NIC is given as ports */

#endif
