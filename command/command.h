/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The subcommands of `spindle`. Each gets its own name as argv[0], prints its usage to stdout and returns 0 on --help
 * (that is what `spindle help X` calls), and returns the exit status: 0 done, 1 failed, 2 wrong usage.
 */
#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

#include <stddef.h>

int command_demo(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_handler(int argc, char **argv);
int command_send(int argc, char **argv);
int command_recv(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_run(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_capture(int argc, char **argv);
int command_sim(int argc, char **argv);
int command_wire(int argc, char **argv);
int command_rvma(int argc, char **argv);

/* What was wrong when getopt_long() returned '?' or ':' (c), in words; *about: with which argument. */
const char *command_bad_option(int c, char **argv, const char **about);
/* Says of a subcommand that an option's value is not what the option wants (it and its bounds); returns the exit
 * status.
 */
int command_bad_value(const char *command, const char *wants, const char *value);
/* The NIC that an option names, or the default. */
const char *command_nic_name(const char *nic);
/* Why sp_attach() or sp_attach_connect() to this NIC (NULL: the default) has failed, status: -errno. */
void command_nic_error(const char *nic, int status, char *text, size_t room);

#endif
