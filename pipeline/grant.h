/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What attach() asks for and gets: memory, QP numbers, messages, an area. All of it counts against the NIC's limits and
 * its application's, belongs to the context, and is given back when that goes. Threads: as context.h, and the home
 * worker while attach() runs.
 */
#ifndef PIPELINE_GRANT_H
#define PIPELINE_GRANT_H

#include <stddef.h>
#include <stdint.h>

struct sp_allocation;
struct sp_error;
struct sp_context;
struct sp_device;

/* Counts memory; notes when it is the application's limit that it would go beyond. Give back with sp_memory_credit. */
int sp_grant_charge(struct sp_context *c, uint64_t bytes);
/* Zeroed, 64-byte aligned memory, freed with the context; `more` bytes behind it, which count against nobody. NULL. */
void *sp_grant_alloc(struct sp_context *c, size_t bytes, size_t more);
/* The handler's configure(), and the area that it asks for. device: that opens the context, or NULL. -EAGAIN: the
 * device wants to make device->wanted bytes in its own time, and to be asked again. */
int sp_grant_configure(struct sp_context *c, struct sp_device *device, struct sp_error *error);
int sp_grant_qps(struct sp_context *c, uint32_t count); /* -EDQUOT */
/* Where a limit of the application's is why r is not 0, that and words; else r. A handler says what it could not get;
 * why, the NIC knows better. */
int sp_grant_refused(const struct sp_context *c, int r, struct sp_error *error);
void sp_grants_end(struct sp_context *c); /* the area and the table of messages are gone already */

/* As sp_grant_alloc(), with a canary behind the block: for a watched context. */
void *sp_grant_watched(struct sp_context *c, size_t bytes);
/* How many bytes the block has that was written behind, of the SP_CANARIES blocks from *next on (NULL: the first one);
 * 0: none of them, and *next is where to go on. */
#define SP_CANARIES 64
size_t sp_grant_overrun(const struct sp_context *c, struct sp_allocation **next);

#endif
