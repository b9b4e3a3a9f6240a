/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the NIC shares with another process: a memfd of the NIC's making, with all its pages there (no access can
 * fail, whatever the other side does), sealed against shrinking, growing and further seals. Who may write to it can
 * also punch holes (MADV_REMOVE): that loses his own data, and the kernel gives the NIC a page again when it next
 * looks. When the NIC is done with it, its pages go, whoever still holds descriptor or mapping: they read zeros then,
 * and what they write is theirs alone. Within one process: private memory of the same shape, without a descriptor. */
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
/* read_only: the other side gets a descriptor that is open for reading only. A user's own file he can open anew, so
 * this keeps accidents out, not ill will; the NIC must not believe what it reads there. F_SEAL_FUTURE_WRITE would do
 * more, but also forbids the NIC to give the pages back. -ENOMEM (no memory or address space left), -EMFILE (no
 * descriptor), -EINVAL. */
int sp_shared_create(size_t bytes, const char *name, bool read_only, struct sp_shared *shared);
/* The same in steps, for those who have others waiting: first it is a mapping without a page; then every
 * sp_shared_more() makes a slice of it. *made: bytes so far, 0 at first. 1: not all is there yet; 0: it is what
 * sp_shared_create() makes; -ENOMEM, -EMFILE: to be destroyed. Until it is 0 nobody else may have the descriptor. */
#define SP_SHARED_SLICE ((size_t)4 << 20) /* a millisecond or two */
int sp_shared_begin(size_t bytes, const char *name, struct sp_shared *shared);
int sp_shared_more(struct sp_shared *shared, bool read_only, size_t *made);
/* Destroys a slice: the end of it; base and bytes tell what is left. False: nothing is. */
bool sp_shared_less(struct sp_shared *shared);
/* For this process alone; its pages come as they are used. */
int sp_shared_private(size_t bytes, struct sp_shared *shared);
/* The mapping on this side, and the pages; the other side's mapping stays, empty. Also of a zeroed structure. */
void sp_shared_destroy(struct sp_shared *shared);
/* The same, but the pages stay for the other side: it must not see what it has received turn to zeros because the NIC
 * is stopped. */
void sp_shared_leave(struct sp_shared *shared);
/* The other side has its own descriptor, or will never need one. */
void sp_shared_close(struct sp_shared *shared);

#endif
