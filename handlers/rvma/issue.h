/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations become packets. */
#ifndef HANDLERS_RVMA_ISSUE_H
#define HANDLERS_RVMA_ISSUE_H

#include "state.h"

#pragma GCC visibility push(hidden)
int rv_issue(struct sp_ctx *c, struct sp_issue *issue, unsigned budget);
#pragma GCC visibility pop

#endif
