/* SPDX-License-Identifier: BSD-3-Clause */
/* What one application has, against what it may have. */
#ifndef PIPELINE_ACCOUNT_H
#define PIPELINE_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nic.h"

/* What one application has, and may have. contexts, regions, qps and messages: [control]; memory: also by handlers'
 * sp_alloc, and while memory is being made. */
struct sp_account {
	struct sp_limits limit;
	_Atomic uint64_t memory;
	uint64_t dying; /* bytes of it that are given back and not freed yet; see sp_memory_bury, which has a lock for
			   it */
	uint32_t contexts, qps, regions;
	uint64_t messages;
};

/* limits: NULL and zeros are defaults. free() it when nothing is charged to it any more. */
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
