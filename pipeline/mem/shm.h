/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the NIC shares with another process: a memfd of the NIC with all pages allocated (no access can fault,
 * whatever the other process does), sealed against shrinking, growing and further seals. A process with write access
 * can also punch holes (MADV_REMOVE): it loses its own data, and the kernel gives the NIC a new page at its next
 * access. The NIC frees the pages when it is done, even if the other process still has a descriptor or mapping: that
 * process then reads zeros, and its writes reach nobody. Within one process: private memory of the same layout, without
 * a descriptor. */
#ifndef PIPELINE_MEM_SHM_H
#define PIPELINE_MEM_SHM_H

#include <stdbool.h>
#include <stddef.h>

struct sp_shm {
	void *base;   /* zeroed, page aligned */
	size_t bytes; /* whole pages if shared with another process */
	int fd;	      /* for the other process; -1: closed or private */
};

/* Bytes rounded up to whole pages. */
size_t sp_shm_pages(size_t bytes);
/* read_only: the other process gets a read-only descriptor. A process of the same user can reopen the file for writing,
 * so this prevents accidents only; the NIC must not trust the contents. F_SEAL_FUTURE_WRITE would be stronger, but also
 * keeps the NIC from freeing the pages. -ENOMEM (memory or address space), -EMFILE, -EINVAL. */
int sp_shm_create(size_t bytes, const char *name, bool read_only, struct sp_shm *shared);
/* The same in slices, for callers that must not block for long. begin maps the file without pages; each
 * sp_shm_more() allocates one slice. *made: bytes so far, 0 at first. 1: more to do; 0: done, as sp_shm_create();
 * -ENOMEM, -EMFILE: destroy it. No other process may get the descriptor before 0. */
#define SP_SHM_SLICE ((size_t)4 << 20) /* takes 1 to 2 ms */
int sp_shm_begin(size_t bytes, const char *name, struct sp_shm *shared);
int sp_shm_more(struct sp_shm *shared, bool read_only, size_t *made);
/* Frees the last slice and updates base and bytes. False: nothing is left. */
bool sp_shm_less(struct sp_shm *shared);
/* Private memory of this process; pages are allocated on first use. */
int sp_shm_private(size_t bytes, struct sp_shm *shared);
/* Unmaps and frees the pages; the other process's mapping stays and reads zeros. A zeroed structure is fine. */
void sp_shm_destroy(struct sp_shm *shared);
/* Unmaps, but keeps the pages for the other process: data that it has received must survive the NIC's stop. */
void sp_shm_leave(struct sp_shm *shared);
/* Closes the descriptor, when the other process has its own or needs none. */
void sp_shm_close(struct sp_shm *shared);

#endif
