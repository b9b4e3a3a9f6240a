/* SPDX-License-Identifier: BSD-3-Clause */
/* Resources that attach() allocates: memory, QP numbers, messages, an area. They count against the limits of the NIC
 * and of the application, and are freed with the context. Threads: as context.h, and the home worker while attach()
 * runs. */
#ifndef PIPELINE_MEM_CONTEXT_ALLOC_H
#define PIPELINE_MEM_CONTEXT_ALLOC_H

#include <stddef.h>
#include <stdint.h>

struct sp_allocation;
struct sp_error;
struct sp_context;
struct sp_device;

/* Charges memory; notes if the application's limit is exceeded. sp_memory_credit gives it back. */
int sp_context_charge(struct sp_context *c, uint64_t bytes);
/* Zeroed, 64-byte aligned memory, freed with the context, plus `more` uncharged bytes behind it. NULL: failed. */
void *sp_context_alloc(struct sp_context *c, size_t bytes, size_t more);
/* Calls the handler's configure() and allocates the area that it requests. device: opens the context, or NULL. -EAGAIN:
 * the device will allocate device->wanted bytes in slices, and then calls again. */
int sp_context_configure(struct sp_context *c, struct sp_device *device, struct sp_error *error);
int sp_context_alloc_qps(struct sp_context *c, uint32_t count); /* -EDQUOT */
/* If an application's limit made r fail, the error for that limit; else r. The handler reports only that a request
 * failed. */
int sp_context_alloc_refused(const struct sp_context *c, int r, struct sp_error *error);
void sp_context_alloc_end(struct sp_context *c); /* called after the area and the message table are freed */

/* As sp_context_alloc(), with a canary behind the block: for a traced context. */
void *sp_context_alloc_traced(struct sp_context *c, size_t bytes);
/* Checks SP_CANARIES blocks from *next on (NULL: from the first). Returns the size of the first overrun block; or 0,
 * and *next is where to continue. */
#define SP_CANARIES 64
size_t sp_context_alloc_overrun(const struct sp_context *c, struct sp_allocation **next);

#endif
