/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A packet's number in the capture that it came from, from 1, as other programs count them. It travels with the
 * packet's buffer, and over links. Threads: the first number of a process is set while one thread uses captures.
 */
#ifndef TESTBED_PACKET_NUMBER_H
#define TESTBED_PACKET_NUMBER_H

#include <stdint.h>

struct rte_mbuf;

void sp_packet_number_set(struct rte_mbuf *packet, uint64_t number); /* 0: none */
uint64_t sp_packet_number(const struct rte_mbuf *packet);	     /* 0: of no capture */

#endif
