/* SPDX-License-Identifier: BSD-3-Clause */
/* What hostile.c's program was told, and its verbs that are in traffic.c and pulse.c; each returns the exit status. */
#ifndef TESTS_E2E_HOSTILE_H
#define TESTS_E2E_HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

struct hostile_options {
	const char *nic, *how; /* name or path of the socket */
	uint64_t seed, peer, size, slots, messages, qpn, region, context, stage;
	bool sleep;
};
extern struct hostile_options o;

int traffic(void);
int await(void);
int pulse(void); /* pulse.c's */
int attaches(void);

struct sdr_qp;
/* Prints "qp INFO", reads the peer's from stdin, connects. 0 or -errno, said already. */
int qp_introduce(struct sdr_qp *qp);

#endif
