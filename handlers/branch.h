/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HANDLERS_BRANCH_H
#define HANDLERS_BRANCH_H

/* Which way a branch mostly goes. */
#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
