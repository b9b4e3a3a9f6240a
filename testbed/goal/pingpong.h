/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to and fro over a connected stream socket, as netgauge's one_one and loggp send them: n messages of some
 * size go, and when all are there one of the same size comes back. Each end is one thread, which blocks.
 */
#ifndef TESTBED_GOAL_PINGPONG_H
#define TESTBED_GOAL_PINGPONG_H

#include <stdint.h>

#define GOAL_PING_SIZE_MAX (1ull << 30)
#define GOAL_PING_MAX	   1024u /* messages at once */

/* One end: answers, until the other one closes. 0; -EPROTO: what came is not of goal_ping(); else an errno, negative.
 * The socket stays the caller's. */
int goal_pong(int fd);

/* The other: `rounds` times `n` messages of `size` bytes and the answer; us[i] is how long round i took, in us, and
 * sent_us[i] (unless NULL) how long the first send() call of it. -EINVAL: a number is out of its bounds; -EPIPE: the
 * other end has closed; else an errno, negative. */
int goal_ping(int fd, uint32_t n, uint64_t size, uint32_t rounds, double *us, double *sent_us);

struct goal_loggp {
	double L, o, g; /* us */
	double G;	/* us a byte */
};

/* What PRTTs (Hoefler et al. 2009) say: o is the median time of a send() call of one byte, L what half a round trip
 * takes beyond two of them, g and G the line through what each further message of a round costs, over its size. As
 * goal_ping(). */
int goal_ping_loggp(int fd, struct goal_loggp *p);

#endif
