/* SPDX-License-Identifier: BSD-3-Clause */
/* Resource use and limits of one application. */
#ifndef PIPELINE_MEM_ACCOUNT_H
#define PIPELINE_MEM_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../nic.h"

/* contexts, regions, qps and messages: [control]. memory: changed by handlers' sp_alloc and by threads that allocate,
 * too. */
struct sp_account {
	struct sp_limits limit;
	_Atomic uint64_t memory;
	uint32_t uid; /* of the application's user; set once */
	uint32_t contexts, qps, regions;
	uint64_t messages;
};

/* limits: NULL and zeros mean defaults. The caller free()s the account once nothing is charged to it. */
int sp_account_create(const struct sp_limits *limits, struct sp_account **account);
/* -EDQUOT; NULL is no limit. A negative change always succeeds. */
int sp_account_contexts(struct sp_account *a, int change);
int sp_account_regions(struct sp_account *a, int change);
int sp_account_qps(struct sp_account *a, int64_t change);
int sp_account_messages(struct sp_account *a, int64_t change);
int sp_account_memory(struct sp_account *a, uint64_t bytes);	    /* see sp_memory_charge */
void sp_account_memory_force(struct sp_account *a, uint64_t bytes); /* also beyond the limit */
void sp_account_memory_back(struct sp_account *a, uint64_t bytes);
bool sp_account_allows(struct sp_account *a, uint64_t bytes);

#endif
