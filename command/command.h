/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The subcommands of `spindle`. argv[0] is the name of the subcommand. On --help, which `spindle help X` gives, it
 * prints its usage to stdout and returns 0. It returns the exit status: 0 done, 1 failed, 2 wrong usage.
 */
#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

int command_demo(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_handler(int argc, char **argv);
int command_send(int argc, char **argv);
int command_recv(int argc, char **argv);
int command_device(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_run(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_top(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_capture(int argc, char **argv);
int command_sim(int argc, char **argv);
int command_noise(int argc, char **argv);
int command_wire(int argc, char **argv);
int command_perf(int argc, char **argv);
int command_rdma(int argc, char **argv);
int command_rvma(int argc, char **argv);
int command_verbs(int argc, char **argv);

#endif
