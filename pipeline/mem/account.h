/* SPDX-License-Identifier: BSD-3-Clause */
/* Resource use and limits of one application. */
#ifndef PIPELINE_MEM_ACCOUNT_H
#define PIPELINE_MEM_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../nic.h"
#include "../share.h"
#include "../limits.h"

/* contexts, regions, qps and messages: [control]. memory: changed by handlers' sp_alloc and by threads that allocate,
 * too. */
struct sp_user;

struct sp_account {
	struct sp_limits limit;
	struct sp_user *user; /* whose application it is; NULL: of nobody, in tests */
	struct sp_share share[SP_MAX_WORKERS];
	_Atomic uint64_t memory;
	uint32_t contexts, qps, regions;
	uint64_t messages;
};

/* limits: NULL and zeros mean defaults. */
int sp_account_create(const struct sp_limits *limits, struct sp_account **account);
uint32_t sp_account_uid(const struct sp_account *account); /* of its user; 0: of nobody */
/* Of an application of u, from sp_user_take(): before anything is charged. */
void sp_account_join(struct sp_nic *nic, struct sp_account *a, struct sp_user *u);
/* Once nothing is charged to it. NULL is fine. */
void sp_account_destroy(struct sp_account *a);
/* Does what the NIC has (used of all) leave enough for others, if a takes so much more? See sp_user_may(). */
bool sp_account_leaves_memory(const struct sp_account *a, uint64_t more, uint64_t used, uint64_t all);
bool sp_account_leaves_contexts(const struct sp_account *a, uint64_t used, uint64_t all);
bool sp_account_leaves_qps(const struct sp_account *a, uint64_t more, uint64_t used, uint64_t all);
/* -EDQUOT; NULL is no limit. A negative change always succeeds. */
int sp_account_contexts(struct sp_account *a, int change);
int sp_account_regions(struct sp_account *a, int change);
int sp_account_qps(struct sp_account *a, int64_t change);
int sp_account_messages(struct sp_account *a, int64_t change);
int sp_account_memory(struct sp_account *a, uint64_t bytes);	    /* see sp_memory_charge */
void sp_account_memory_force(struct sp_account *a, uint64_t bytes); /* also beyond the limit */
void sp_account_memory_back(struct sp_account *a, uint64_t bytes);
bool sp_account_allows(struct sp_account *a, uint64_t bytes);
/* Charges bytes to the NIC and to the account (or NULL); -EDQUOT beyond either limit. */
int sp_memory_charge(struct sp_nic *nic, struct sp_account *account, uint64_t bytes);
void sp_memory_credit(struct sp_nic *nic, struct sp_account *account, uint64_t bytes);

#endif
