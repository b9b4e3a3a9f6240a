/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program's memory as regions. Whole pages of private anonymous mappings are substituted: a NIC-made area with the
 * same bytes takes their place, so that the NIC reaches them itself. All else is the agent's. docs/verbs.md. Lock held,
 * for all calls. 0 or -errno.
 */
#ifndef HOST_API_VERBS_MEMORY_H
#define HOST_API_VERBS_MEMORY_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "../rdma.h"

struct shim_nic;
struct shim_area;
struct shim_segment {
	uintptr_t addr;
	size_t len;
	struct shim_area *area; /* NULL: the agent's */
	uint64_t offset;	/* in the area */
};

struct shim_mr {
	struct ibv_mr ibv; /* first */
	struct sp_rdma_mr *mr;
	uint64_t iova;
	bool direct; /* the NIC reaches all of it itself */
	unsigned access;
	struct shim_mr *chain; /* of whoever owns it */
	unsigned segments;
	struct shim_segment *segment; /* from ibv.addr on, without gaps */
};

/* Since the process began: bytes registered, by what became of them. */
struct shim_memory_counts {
	uint64_t regions, direct, agent, failed; /* failed: of the agent's, what could not be substituted */
};

#pragma GCC visibility push(hidden)
/* access: SP_RDMA_*. Sets all of *mr but chain; in ibv: addr, length, lkey, rkey. -EFAULT: not memory of the process,
 * or not writable. */
int shim_memory_register(struct shim_nic *nic, struct sp_rdma_pd *pd, void *addr, size_t len, uint64_t iova,
			 unsigned access, struct shim_mr *mr);
int shim_memory_deregister(struct shim_mr *mr); /* -EAGAIN: packets in flight; call again */
void shim_memory_forget(struct shim_mr *mr);	/* its context has ended, and the NIC's region with it */
/* addr as in an SGE, from the region's iova on. */
bool shim_memory_direct(const struct shim_mr *mr, uint64_t addr, uint64_t len);
void *shim_memory_at(const struct shim_mr *mr, uint64_t addr);
extern struct shim_memory_counts shim_counts;
/* Before the device is closed: all that is substituted becomes the program's again. */
void shim_memory_close(void);
/* Around fork(), with the lock held from the first to the second, or third: the child gets copies of what is
 * substituted, before either goes on. The device is not used; to the child it is as if nothing had been registered. */
void shim_memory_fork(void);
void shim_memory_fork_parent(void);
void shim_memory_fork_child(void);
#pragma GCC visibility pop

#endif
