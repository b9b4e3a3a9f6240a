/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC under test with a port that keeps packets as a driver does until its TX ring is full. */
#ifndef TESTS_TX_RING_H
#define TESTS_TX_RING_H

#include "../../pipeline/tx/zero_copy.h"
#include "../../pipeline/mem/memory.h"
#include "sender.h"

extern struct tx_ring {
	struct rte_mbuf *held[4096];
	unsigned helds;
	bool keeps, full;
	unsigned most; /* that it takes at once; 0: all */
	struct {
		uint32_t len;
		uint16_t pieces;
		const uint8_t *second; /* where its second piece lies */
		uint8_t bytes[5200];
	} last;
	unsigned sent, lent;
} tx_ring;

void tx_ring_look(const struct rte_mbuf *m);
void tx_ring_free(unsigned at);
void tx_ring_free_all(void);
extern const struct sp_port_ops tx_ring_lending, tx_ring_copying;

/* ---- a NIC on it ---- */

extern unsigned tx_ring_pieces_in_use;
void tx_ring_start(const struct sp_port_ops *ops);
void tx_ring_stop(void);
struct sp_mr *test_region(uint64_t bytes);
void send_from(uint32_t id, const struct sp_mr *mr, uint64_t offset, uint32_t len);
struct sp_zc_queue *lender_of(uint32_t id);
bool tx_ring_icrc_ok(void);
/* Of payload: about the bounds from which it is lent, and what fits packets. */
extern const uint32_t lend_lengths[23];

#endif
