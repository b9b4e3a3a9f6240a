/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of a measurement: NICs, their applications, and what they are compared with. They live in a house: a
 * temporary directory, and perhaps two network namespaces. Closing it removes everything. If this process dies, they
 * die, too. */
#ifndef TESTBED_BENCH_CHILDREN_H
#define TESTBED_BENCH_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_LINK     3 /* the descriptor that connects a child with its counterpart */
#define BENCH_ARGS     16
/* Seconds to wait for a working child. A busy machine must not reach it. */
#define BENCH_PATIENCE 120

struct bench_child {
	pid_t pid;	 /* 0: none */
	int out;	 /* its standard output */
	unsigned number; /* its standard error is in the file errors.NUMBER */
};

struct bench_why;

struct bench_house {
	char dir[80];
	pid_t holder[2];  /* processes that hold the namespaces; 0: none */
	int user, net[2]; /* descriptors of the namespaces; -1: none */
	struct bench_child nic[2];
	unsigned mtu;	       /* of NICs; 0: the default */
	unsigned applications; /* that they have places for; 0: the default */
};

/* All return 0, or -errno with the reason in why. -EINTR: bench_stopped(). */
int bench_house_open(struct bench_house *house, struct bench_why *why);
/* Two network namespaces joined by a veth link: left0 with 198.51.100.1, right0 with .2. -EPERM: not permitted here. */
int bench_house_spaces(struct bench_house *house, struct bench_why *why);
void bench_house_close(struct bench_house *house);

/* How to start one: "spindle" is this program, others are searched in $PATH. */
struct bench_start {
	const char *const *argv;
	bool linked, both; /* both: standard error goes to the same place as standard output */
	bool fed;	   /* its standard input is `in`; otherwise empty */
	int in;
	int link;  /* linked: becomes the child's BENCH_LINK */
	int space; /* namespace 0 or 1; -1: that of this process */
};
int bench_child_start(const struct bench_house *house, const struct bench_start *start, struct bench_child *child,
		      struct bench_why *why);
/* Reads the next line of its output, without newline. If there is none, why has the last line of its standard error. */
int bench_child_line(const struct bench_house *house, struct bench_child *child, double seconds, char *line,
		     size_t line_room, struct bench_why *why);
/* Waits for its end; 0: exit status 0. */
int bench_child_end(const struct bench_house *house, struct bench_child *child, double seconds, struct bench_why *why);
void bench_child_stop(struct bench_child *child); /* ends it in any state */
/* Runs two that are linked with each other, `first` started first, and reads the one line that `second` prints. */
int bench_children_pair(const struct bench_house *house, const struct bench_start *first,
			const struct bench_start *second, double seconds, char *line, size_t line_room,
			struct bench_why *why);

/* Starts `spindle run` with port `port`, as left (which = 0, 192.0.2.1) or right (1, 192.0.2.2); it is up when this
 * returns. house->mtu is its MTU, if it is not 0; applications the same. */
int bench_nic_start(struct bench_house *house, unsigned which, const char *port, int space, struct bench_why *why);
/* Starts both, joined: kind "vhost" by vhost-user; "af_packet" or "af_xdp" by ports of that kind on the veth between
 * the two namespaces. BENCH_SKIPPED: the kernel has no such port for us. */
int bench_nics_start(struct bench_house *house, const char *kind, struct bench_why *why);
/* Stops those that run, the last one started first. */
void bench_nics_stop(struct bench_house *house);

#endif
