/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams between the queue pairs of sdr_qps.h. Their bytes follow from number and length, so a receiver can
 * check them. */
#ifndef TESTS_DATAGRAMS_H
#define TESTS_DATAGRAMS_H

#include "sdr_qps.h"

#define LONGEST (MTU - 4)

uint64_t dgram_counter(struct qp_end *e, const char *name);
uint64_t dgram_lost(struct qp_end *e);
int dgram_send(struct qp_end *e, uint32_t number, uint32_t len);
/* Takes one, which must be whole: its number. */
uint32_t dgram_recv(struct qp_end *e, uint32_t *len);

#endif
