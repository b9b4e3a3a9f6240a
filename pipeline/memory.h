/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of host memory: who owns them, who uses them. */
#ifndef PIPELINE_MEMORY_H
#define PIPELINE_MEMORY_H

#include "shared.h"

#include <stdint.h>

struct sp_mem;
struct sp_nic;

int sp_memory_create(struct sp_nic *nic);
void sp_memory_destroy(struct sp_nic *nic);

enum sp_backing_kind {
	SP_BACKING_PRIVATE,	/* for this process */
	SP_BACKING_SHARED,	/* with another process */
	SP_BACKING_SHARED_READ, /* with another process, which can only read it */
};
/* What a region is made of, before it is one and while it is. */
struct sp_backing {
	struct sp_shared shared; /* base NULL: the application's own memory */
	void *base;
	uint64_t len, charged;
	size_t made; /* bytes, see sp_memory_more */
	enum sp_backing_kind kind;
	struct sp_account *account;
};
/* Makes the memory (addr NULL: zeroed and page-aligned) and charges it. It may take long: nic->control need not be
 * held. -EINVAL, -ENOMEM, -EMFILE, -EDQUOT. */
int sp_memory_back(struct sp_nic *nic, struct sp_account *account, void *addr, uint64_t len, enum sp_backing_kind kind,
		   struct sp_backing *backing);
/* The same for memory that is shared, in slices (SP_SHARED_SLICE): charged at once, it is to be made by
 * sp_memory_more(), which says 1 as long as something is missing, then 0. -ENOMEM, -EMFILE: unback it. */
int sp_memory_begin(struct sp_nic *nic, struct sp_account *account, uint64_t len, enum sp_backing_kind kind,
		    struct sp_backing *backing);
int sp_memory_more(struct sp_backing *backing);
void sp_memory_unback(struct sp_nic *nic, struct sp_backing *backing);
/* To free much takes long too. Between sp_memory_defer(nic, true) and (nic, false), which a server does, shared memory
 * that is given back is put aside, charged as before, until the server frees it by sp_memory_bury(): a slice, of
 * what was charged to that account (NULL: of whatever has waited longest). False: there is nothing left of it. */
void sp_memory_defer(struct sp_nic *nic, bool on);
bool sp_memory_bury(struct sp_nic *nic, struct sp_account *account);
/* Bytes that wait so; NULL: all. */
uint64_t sp_memory_dying(struct sp_nic *nic, const struct sp_account *account);
/* The account goes: what waits is the NIC's alone. */
void sp_memory_disown(struct sp_nic *nic, struct sp_account *account);
/* Makes it a region, which takes over the backing. -ENOMEM, -EDQUOT: the backing is the caller's still. */
int sp_memory_insert(struct sp_nic *nic, const struct sp_backing *backing, uint32_t owner, struct sp_mem **mem);
int sp_memory_remove(struct sp_nic *nic, uint32_t id, uint32_t owner); /* -ENOENT, -EBUSY */
/* All of an application that goes: what is in use now is freed once it is not, and no longer held against its account.
 */
void sp_memory_remove_owner(struct sp_nic *nic, uint32_t owner);
void sp_memory_abandon(struct sp_nic *nic, const struct sp_mem *mem); /* the same for one */
/* [worker] One use more, by a driver that reads what is sent from it; false: the ports' devices cannot. */
bool sp_memory_lend(const struct sp_mem *mem);
void sp_memory_unlend(const struct sp_mem *mem);
struct sp_shared *sp_memory_shared(struct sp_nic *nic, uint32_t id, uint32_t owner); /* NULL: no such region */
/* Accounts for bytes of the NIC's and of an application's (or NULL); -EDQUOT beyond either limit. */
int sp_memory_charge(struct sp_nic *nic, struct sp_account *account, uint64_t bytes);
void sp_memory_credit(struct sp_nic *nic, struct sp_account *account, uint64_t bytes);

#endif
