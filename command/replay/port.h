/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_REPLAY_PORT_H
#define COMMAND_REPLAY_PORT_H

#include "state.h"

/*
 * Sends a capture by a real port, in real time, and records what comes back. The NIC exists for its port only, which it
 * opens and checks as always. Its packet path does not run: it would drop malformed packets and those of unknown QPs,
 * and a test wants to see these too.
 */
void replay_port_run(struct replay *r);

#endif
