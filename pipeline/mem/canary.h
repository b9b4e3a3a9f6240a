/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes behind a traced context's memory that no handler may write; they are charged to no account. */
#ifndef PIPELINE_MEM_CANARY_H
#define PIPELINE_MEM_CANARY_H

#include <stdbool.h>
#include <stddef.h>

#define SP_CANARY	256  /* behind a message's state, and behind a block of sp_alloc() */
#define SP_CANARY_STATE 4096 /* behind the context's: where too little is declared, most of it may stay as it is */

void sp_canary_put(void *at, size_t bytes); /* SP_CANARY, or SP_CANARY_STATE */
bool sp_canary_lives(const void *at, size_t bytes);

#endif
