/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of host memory: owners, reference counts, deferred free. */
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
	size_t made; /* bytes allocated so far, see sp_memory_more */
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
void sp_memory_unback(struct sp_nic *nic, struct sp_backing *backing);
/* Deferred free, since freeing much memory takes long. Between sp_memory_defer(nic, true) and (nic, false), called by a
 * server, freed shared memory waits and stays charged. The server calls sp_memory_free_deferred() to free one slice of
 * it, charged to that account (NULL: the oldest). False: nothing is left. */
void sp_memory_defer(struct sp_nic *nic, bool on);
bool sp_memory_free_deferred(struct sp_nic *nic, struct sp_account *account);
/* Bytes that wait for deferred free; NULL: of all accounts. */
uint64_t sp_memory_dying(struct sp_nic *nic, const struct sp_account *account);
/* Before the account is freed: its waiting memory stays charged to the NIC alone. */
void sp_memory_disown(struct sp_nic *nic, struct sp_account *account);
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
/* Charges bytes to the NIC and to the account (or NULL); -EDQUOT beyond either limit. */
int sp_memory_charge(struct sp_nic *nic, struct sp_account *account, uint64_t bytes);
void sp_memory_credit(struct sp_nic *nic, struct sp_account *account, uint64_t bytes);

#endif
