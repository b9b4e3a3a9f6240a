/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of host memory: owners, reference counts. */
#ifndef PIPELINE_MEM_MEMORY_H
#define PIPELINE_MEM_MEMORY_H

#include "shm.h"

#include <stdint.h>

struct sp_mem;
struct sp_nic;

int sp_memory_create(struct sp_nic *nic);
void sp_memory_destroy(struct sp_nic *nic);

enum sp_backing_kind {
	SP_BACKING_PRIVATE,	/* of this process only */
	SP_BACKING_SHARED,	/* with another process */
	SP_BACKING_SHARED_READ, /* with another process, read-only there */
};
/* The memory behind a region, also before the region exists. */
struct sp_backing {
	struct sp_shm shared; /* base NULL: memory of the application */
	void *base;
	uint64_t len, charged;
	size_t made;  /* bytes allocated so far, see sp_memory_more */
	size_t seen;  /* bytes looked at so far, see sp_memory_sealed */
	uint32_t uid; /* of the user whose processes may have it */
	enum sp_backing_kind kind;
	struct sp_account *account;
};
/* Allocates the memory (addr NULL: zeroed and page-aligned) and charges it. May take long, and needs no nic->control.
 * -EINVAL, -ENOMEM, -EMFILE, -EDQUOT. */
int sp_memory_back(struct sp_nic *nic, struct sp_account *account, void *addr, uint64_t len, enum sp_backing_kind kind,
		   struct sp_backing *backing);
/* The same for shared memory in slices (SP_SHM_SLICE). begin charges all of it; the caller repeats sp_memory_more()
 * until it returns 0 instead of 1. -ENOMEM, -EMFILE: call sp_memory_unback. */
int sp_memory_begin(struct sp_nic *nic, struct sp_account *account, uint64_t len, enum sp_backing_kind kind,
		    struct sp_backing *backing);
int sp_memory_more(struct sp_backing *backing);
/* Shared memory that another process writes to and says that it has sealed: see sp_shm_sealed(). 1: more to do. */
int sp_memory_sealed(struct sp_backing *backing);
/* The memory is no longer used; see freeing.h. */
void sp_memory_unback(struct sp_nic *nic, struct sp_backing *backing);
/* Registers the backing as a region. -ENOMEM, -EDQUOT: the caller still owns the backing. */
int sp_memory_insert(struct sp_nic *nic, const struct sp_backing *backing, uint32_t owner, struct sp_mem **mem);
int sp_memory_remove(struct sp_nic *nic, uint32_t id, uint32_t owner); /* -ENOENT, -EBUSY */
/* Removes all regions of an application. A region in use is freed after its last use, and is credited to the account
 * now. */
void sp_memory_remove_owner(struct sp_nic *nic, uint32_t owner);
void sp_memory_abandon(struct sp_nic *nic, const struct sp_mem *mem); /* the same for one region */
/* [worker] Takes a reference for a zero-copy packet. False: not mapped for the ports' DMA. */
bool sp_memory_zc_get(const struct sp_mem *mem);
void sp_memory_zc_put(const struct sp_mem *mem);
struct sp_shm *sp_memory_shared(struct sp_nic *nic, uint32_t id, uint32_t owner); /* NULL: no such region */

#endif
