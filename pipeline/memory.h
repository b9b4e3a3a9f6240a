/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of host memory: who owns them, who uses them. */
#ifndef PIPELINE_MEMORY_H
#define PIPELINE_MEMORY_H

#include "worker.h"

int sp_memory_create(struct sp_nic *nic);
void sp_memory_destroy(struct sp_nic *nic);
/* addr NULL: zeroed, page-aligned memory of the NIC's making. -EINVAL, -ENOMEM, -EDQUOT. */
int sp_memory_add(struct sp_nic *nic, void *addr, uint64_t len, uint32_t owner, struct sp_mem **mem);
int sp_memory_remove(struct sp_nic *nic, uint32_t id, uint32_t owner); /* -ENOENT, -EBUSY */
void sp_memory_remove_owner(struct sp_nic *nic, uint32_t owner);       /* all that nobody uses any more */
/* Accounts for bytes of the NIC's own; -EDQUOT beyond the limit. */
int sp_memory_charge(struct sp_nic *nic, uint64_t bytes);
void sp_memory_credit(struct sp_nic *nic, uint64_t bytes);

#endif
