/* SPDX-License-Identifier: BSD-3-Clause */
/* EAL for commands that drive ports themselves, without a configuration of a NIC. */
#ifndef COMMAND_PORT_EAL_H
#define COMMAND_PORT_EAL_H

#include "../pipeline/nic.h"

#define PORT_EAL_MOST 32 /* EAL arguments of the user; each port on the PCI bus may add two */

/*
 * sp_eal_init() with the user's arguments (argv, count; NULL, 0) and, for each of these ports that is on the PCI bus,
 * the word that EAL may have it: EAL takes no device that it is not told of. Where the user says himself which devices
 * EAL gets, nothing is added. -E2BIG: too many; else as sp_eal_init(). Before any other call of DPDK's, once.
 */
int port_eal_init(const char *const *device, unsigned ports, char **argv, int count, struct sp_error *error);

#endif
