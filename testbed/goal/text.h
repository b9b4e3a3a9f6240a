/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GOAL text, as schedgen writes it and LogGOPSim's txt2bin reads it:
 *
 *	num_ranks 2
 *	rank 0 {
 *	l1: calc 100
 *	l2: send 8b to 1 tag 5 cpu 0 nic 0
 *	l2 requires l1
 *	}
 *	rank 1 {
 *	l1: recv 8b from 0 tag -1
 *	}
 *
 * A statement ends with its line, or with a semicolon. Labels are of their rank, and stand above what names them. A
 * source or tag of -1 is GOAL_ANY. Comments are C's, of both kinds. Ranks may come in any order, each once; one that
 *does not come does nothing.
 */
#ifndef TESTBED_GOAL_TEXT_H
#define TESTBED_GOAL_TEXT_H

#include <stdio.h>

#include "schedule.h"

#define GOAL_LABEL_MAX 255 /* characters */

/* Reads a schedule and finishes it, *g; the caller destroys it. `memory` bounds the bytes that it takes, about 60 for
 * an operation with a label. 0; -EINVAL, -ELOOP, -E2BIG (memory), -EIO, -ENOMEM: why says "NAME:LINE: ..." (a circle of
 * dependencies has the line in which its rank begins). */
int goal_read(FILE *f, const char *name, uint64_t memory, struct goal **g, char *why, size_t whylen);

/* Writes a finished schedule so that goal_read() makes the same of it. 0 or -EIO. */
int goal_write(const struct goal *g, FILE *f);

#endif
