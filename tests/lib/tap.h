/* SPDX-License-Identifier: BSD-3-Clause */
/* A port between a NIC and its link. It shows every frame to the test, hashes frames and times, spreads frames
 * over the receive queues at random, drops frames and delivers frames of the test. */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdlib.h>
#include <rte_mbuf.h>
#include "../../pipeline/nic.h"
#include "../../testbed/flow.h"
#include "../../testbed/random.h"

#define TAP_QUEUES 2
#define TAP_FIFO   16384 /* more than there are packet buffers */

struct tap_injection {
	struct tap_injection *next; /* by time */
	sp_time at;
	uint64_t tag;
	uint32_t len;
	uint8_t frame[];
};

struct tap {
	const struct sp_port_ops *under; /* NULL: nothing below, only what is injected arrives */
	void *under_arg;
	uint16_t queues;
	bool spread;
	struct sp_random random;
	void *arg;
	/* in: to the NIC; false: it gets lost here. tag: of the injection, 0: it came by the link. */
	bool (*seen)(void *arg, bool in, const uint8_t *frame, uint32_t len, uint64_t tag, sp_time now);
	struct {
		struct rte_mbuf **packet;
		uint64_t *tag;
		uint32_t head, tail;
	} fifo[TAP_QUEUES];
	struct tap_injection *injection;
	uint64_t hash, in, out, waiting;
	uint64_t no_buffer;
};

uint64_t tap_mix(uint64_t hash, const uint8_t *bytes, uint32_t len);
void tap_inject(struct tap *t, const uint8_t *frame, uint32_t len, uint64_t tag, sp_time at);
unsigned tap_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);
unsigned tap_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now);
sp_time tap_next(void *port, uint16_t queue, bool transmit_blocked);
extern const struct sp_port_ops tap_ops;
void tap_open(struct tap *t, const struct sp_port_ops *under, void *under_arg, uint16_t queues);
void tap_close(struct tap *t);

#endif
