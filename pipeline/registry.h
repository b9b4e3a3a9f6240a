/* SPDX-License-Identifier: BSD-3-Clause */
/* What DPDK keeps once per process, shared by all NICs: EAL, packet buffers, which ethdevs are in use. */
#ifndef PIPELINE_REGISTRY_H
#define PIPELINE_REGISTRY_H

#include <stddef.h>
#include <stdint.h>

struct rte_mempool;

/* The pool that virtual ports and everything sent use; NULL before sp_eal_init. */
struct rte_mempool *sp_registry_pool(void);
struct rte_mempool *sp_registry_pieces(void); /* small ones, see lend.h */
int sp_registry_port_take(uint16_t ethdev);   /* -EBUSY */
void sp_registry_port_release(uint16_t ethdev);
/* Buffers for an ethdev's receive queues; kept for the next NIC on that port. room: bytes of the largest frame. */
struct rte_mempool *sp_registry_port_pool(uint16_t ethdev, uint32_t room, uint32_t count);

/* What EAL was asked to do, for explaining what it did not; the arguments are the registry's. */
int sp_registry_arguments(char ***argv);

/* Between the two, what DPDK logs is kept: the first line is for the error's text. Not where the user has said
 * --log-level: then he wants to see it himself. */
void sp_registry_log_hold(void);
void sp_registry_log_release(char *said, size_t room); /* said: may be NULL */

#endif
