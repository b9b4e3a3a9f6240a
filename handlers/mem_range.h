/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HANDLERS_MEM_RANGE_H
#define HANDLERS_MEM_RANGE_H

#include "spindle-handler.h"

/* Takes a reference on memory that the host names by id, if the range lies within it. Otherwise -EFAULT, *mem is NULL.
 */
static inline int mem_range_get(struct sp_ctx *c, uint64_t id, uint64_t offset, uint64_t bytes,
				const struct sp_mem **mem)
{
	*mem = id <= UINT32_MAX ? sp_mem_get(c, (uint32_t)id) : NULL;
	if (*mem && !sp_mem_holds(*mem, offset, bytes)) {
		sp_mem_put(c, *mem);
		*mem = NULL;
	}
	return *mem ? 0 : -EFAULT;
}

/* The same, of memory to send from. No bytes need no memory: then *mem is NULL. */
static inline int mem_range_source(struct sp_ctx *c, const struct sp_command *command, const struct sp_mem **mem)
{
	*mem = NULL;
	return command->arg[2] ? mem_range_get(c, command->arg[0], command->arg[1], command->arg[2], mem) : 0;
}

#endif
