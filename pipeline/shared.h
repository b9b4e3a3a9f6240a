/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the NIC shares with another process: a memfd of the NIC's making, with all its pages there (no access can
 * fail, whatever the other side does), sealed against shrinking, growing and further seals. Who may write to it can
 * also punch holes (MADV_REMOVE): that loses his own data, and the kernel gives the NIC a page again when it next
 * looks. Within one process: private memory of the same shape, without a descriptor. */
#ifndef PIPELINE_SHARED_H
#define PIPELINE_SHARED_H

#include <stdbool.h>
#include <stddef.h>

struct sp_shared {
	void *base;   /* zeroed, page aligned */
	size_t bytes; /* whole pages where another process shares it */
	int fd;	      /* for the other side, -1 once it is closed, and where there is none */
};

/* What a memory of so many bytes takes when it is shared. */
size_t sp_shared_pages(size_t bytes);
/* read_only: the other side can map it for reading only (F_SEAL_FUTURE_WRITE). -ENOMEM (no memory, address space or
 * descriptor left), -EINVAL. */
int sp_shared_create(size_t bytes, const char *name, bool read_only, struct sp_shared *shared);
/* For this process alone; its pages come as they are used. */
int sp_shared_private(size_t bytes, struct sp_shared *shared);
/* The mapping on this side; the other side's stays. Also of a zeroed structure. */
void sp_shared_destroy(struct sp_shared *shared);
/* The other side has its own descriptor, or will never need one. */
void sp_shared_close(struct sp_shared *shared);

#endif
