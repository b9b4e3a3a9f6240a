/* SPDX-License-Identifier: BSD-3-Clause */
/* The process registry: what DPDK has once per process and all NICs share: EAL, packet buffers, ethdevs in use. */
#ifndef PIPELINE_PROCESS_H
#define PIPELINE_PROCESS_H

#include <stddef.h>
#include <stdint.h>

struct rte_mempool;

/* The pool of virtual ports and of all sent packets; NULL before sp_eal_init. */
struct rte_mempool *sp_process_pool(void);
struct rte_mempool *sp_process_pieces(void); /* small buffers for zero copy, see zero_copy.h */
/* For many NICs in one process, before sp_eal_init(), and of no effect after: at least so many packet buffers, and what
 * DPDK needs for them. A NIC holds up to SP_TX_QUEUE of them for a port that is full. */
void sp_process_packets(uint32_t count);
int sp_process_port_take(uint16_t ethdev); /* -EBUSY */
void sp_process_port_release(uint16_t ethdev);
/* A buffer pool for an ethdev's receive queues; the next NIC on that port reuses it. room: bytes of the largest
 * frame. least: buffers that must be free now; some drivers never give all of theirs back. */
struct rte_mempool *sp_process_port_pool(uint16_t ethdev, uint32_t room, uint32_t count, uint32_t least);
/* What one of its buffers takes, with all that is around it, and how many it would have. */
uint32_t sp_process_port_buffer(uint32_t room);
uint32_t sp_process_port_buffers(uint32_t room, uint32_t count);

/* The caller's EAL arguments, for error texts. Returns argc; the registry owns the strings. */
int sp_process_arguments(char ***argv);

/* For processes that the NIC forks: the filter of system calls that `spindle run` has for them. None, and no effect,
 * where a NIC is embedded in a program. program stays the caller's, and must stay. */
struct sock_fprog;
void sp_process_child_filter(const struct sock_fprog *program);
/* In the child, which has no_new_privs from its parent: installs it. Async-signal-safe. 0 or -errno. */
int sp_process_child_confine(void);

/* Between the calls DPDK's log is held back; its first line goes to said. With --log-level it goes to stderr as
 * usual. */
void sp_process_log_hold(void);
void sp_process_log_release(char *said, size_t room); /* said: may be NULL */
/* Off: virtio-user does not tell, several times, that its peer has gone. Why a port does not open is worth knowing. */
void sp_process_log_peers(bool on);

#endif
