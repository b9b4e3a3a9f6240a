/* SPDX-License-Identifier: BSD-3-Clause */
/* EAL for commands that drive ports themselves, without the configuration of a NIC. */
#ifndef COMMAND_PORT_EAL_H
#define COMMAND_PORT_EAL_H

#include "../pipeline/nic.h"

#define PORT_EAL_MOST 32 /* the user's EAL arguments; each port on the PCI bus adds up to two */

/* Calls sp_eal_init() with the user's arguments (argv, count) and with "-a" for each port on the PCI bus, as EAL uses
 * only devices that it is given. If the user's arguments name devices, nothing is added. -E2BIG: too many arguments;
 * else as sp_eal_init(). To be called once, before any other call of DPDK. */
int port_eal_init(const char *const *device, unsigned ports, char **argv, int count, struct sp_error *error);

#endif
