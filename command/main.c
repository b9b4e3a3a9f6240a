/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle SUBCOMMAND: finds the subcommand and calls it. */
#include <errno.h>
#include <fcntl.h>
#include <rte_version.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../pipeline/value.h"
#include "../handlers/isa/isa.h"
#include "../pipeline/nic.h"
#include "command.h"
#include "interrupt.h"

#ifndef SP_VERSION
#define SP_VERSION "unknown (built without meson)"
#endif

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{"demo", command_demo, "send a file between two NICs over a lossy link and watch it arrive"},
	{"replay", command_replay, "run a capture through a NIC in virtual time"},
	{"send", command_send, "send a file to another host, through a running NIC"},
	{"recv", command_recv, "receive files from send"},
	{"perf", command_perf, "throughput and latency between NICs of two hosts, over SDR, RVMA or RDMA"},
	{"rdma", command_rdma, "RDMA between NICs: bandwidth, latency, ping"},
#ifdef SP_VERBS_DIR
	{"verbs", command_verbs, "run an unchanged program for libibverbs on a running NIC"},
#endif
	{"rvma", command_rvma, "RVMA mailboxes from the shell: listen, put, get"},
	{"handler", command_handler, "list handlers, show one with its parameters, begin a new one"},
	{"device", command_device, "show the devices that replay can estimate costs for"},
	{"doctor", command_doctor, "check this machine, and say what to do about problems"},
	{"run", command_run, "run a NIC for programs that attach to it"},
	{"capture", command_capture, "show or record the packets of a running NIC, and what becomes of them"},
	{"stat", command_stat, "show the counters of a running NIC"},
	{"top", command_top, "watch what contexts, workers and applications of NICs do, live"},
	{"wire", command_wire, "join two ports by a link that delays, loses, reorders and corrupts"},
	{"sim", command_sim, "simulate messages over a long link that loses packets, or schedules of many ranks"},
	{"noise", command_noise, "measure what disturbs hosts and messages, for spindle sim"},
	{"bench", command_bench, "measure packets, latency, files and codes, each beside a baseline"},
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static void usage(FILE *to)
{
	fprintf(to, "usage: spindle SUBCOMMAND [OPTIONS]\n"
		    "       spindle help [SUBCOMMAND] | --version\n\n"
		    "A programmable SmartNIC in userspace. Subcommands:\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].help);
	fprintf(to, "\n'spindle help SUBCOMMAND' tells more. Without a NIC, begin with 'spindle demo'.\n");
}

static const struct command *find(const char *name)
{
	const char *names[COMMANDS + 2] = {NULL};

	for (size_t i = 0; i < COMMANDS; i++) {
		if (!strcmp(name, commands[i].name))
			return &commands[i];
		names[i] = commands[i].name;
	}
	names[COMMANDS] = "help";
	const char *near = sp_nearest(name, names);
	fprintf(stderr, "spindle: there is no subcommand '%s'", name);
	if (near)
		fprintf(stderr, "; is '%s' meant?\n", near);
	else
		fprintf(stderr, "; 'spindle help' lists them\n");
	return NULL;
}

static int help(int argc, char **argv)
{
	if (argc < 2) {
		usage(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		printf("usage: spindle help [SUBCOMMAND]\n");
		return 0;
	}
	const struct command *command = find(argv[1]);
	char *arguments[] = {argv[1], (char *)"--help", NULL};
	return command ? command->run(2, arguments) : 2;
}

/* If descriptor 0, 1 or 2 is closed, the next open() would get it, and output would go to that file. */
static void hold_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
			return;
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help(argc - 1, argv + 1);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("spindle %s (%s)\n", SP_VERSION, rte_version());
		return 0;
	}
	const struct command *command = find(argv[1]);
	char why[256];
	int wrong = sp_isa_check(why, sizeof(why));
	if (wrong) {
		fprintf(stderr, "spindle: %s\n", why);
		return wrong == -EINVAL ? 2 : 1;
	}
	return command ? command->run(argc - 1, argv + 1) : 2;
}

int main(int argc, char **argv)
{
	hold_descriptors();
	interrupt_clean();
	int status = run(argc, argv);
	errno = 0;
	if (!status && (fflush(stdout) || ferror(stdout))) {
		fprintf(stderr, "spindle %s: standard output: %s\n", argv[1],
			errno ? strerror(errno) : "not all could be written");
		return 1;
	}
	return status;
}
