/* SPDX-License-Identifier: BSD-3-Clause */
/* A link. The test sends and receives at both ends. */
#ifndef TESTS_LINK_ENDS_H
#define TESTS_LINK_ENDS_H

#include <math.h>
#include <rte_mempool.h>
#include "../../testbed/link.h"
#include "buffers.h"
#include "suite.h"

struct sp_link *link_open(struct sp_link_config config);
/* An IPv4/UDP frame; `number` stands in the last four bytes, `flow` is the UDP source port. */
struct rte_mbuf *link_frame(uint32_t len, uint32_t number, uint16_t flow);
uint32_t link_number_of(struct rte_mbuf *m);
unsigned link_send_at(struct sp_link *link, unsigned end, struct rte_mbuf *m, sp_time now);
int link_receive_at(struct sp_link *link, unsigned end, sp_time now);
sp_time link_next_at(struct sp_link *link, unsigned end);

#endif
