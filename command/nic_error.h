/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC that a subcommand attaches to: the option for its name, and the messages if attaching fails. */
#ifndef COMMAND_NIC_ERROR_H
#define COMMAND_NIC_ERROR_H

#include "options.h"

/* A group for `const char *`, NULL by default: -n, --nic. */
extern const struct option_row nic_rows[];
/* The NIC that the option names, or the default. */
const char *command_nic_name(const char *nic);
/* Why sp_attach() or sp_attach_connect() to this NIC (NULL: the default) failed; status: -errno. If it does not run:
 * which ones do. */
void command_nic_error(const char *nic, int status, char *text, size_t room);
/* The same as a message. Returns 1. */
int command_nic_fail(const char *command, const char *nic, int status);

#endif
