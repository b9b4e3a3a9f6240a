/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the NIC shares with another process: a memfd of the NIC with all pages allocated. Nothing that the other
 * process does makes the NIC wait or fault, because of three rules.
 * The file is sealed (shrink, grow, writing, seals) before the NIC uses the memory: by the NIC itself where the other
 * process only reads, else by the other process once it has mapped the file (sp_shm_sealed).
 * From the moment the descriptor has left, no process of the NIC takes the file's lock (no fallocate, ftruncate, write,
 * MADV_REMOVE, F_ADD_SEALS, chmod): another process can hold that lock for ever.
 * The NIC only unmaps. The reaper, a process of its own, closes the file when nobody else has it open (mem/reaper.h).
 *
 * Within one process: private memory of the same layout, without descriptors. */
#ifndef PIPELINE_MEM_SHM_H
#define PIPELINE_MEM_SHM_H

#include <stdbool.h>
#include <stddef.h>

struct sp_shm {
	void *base;   /* zeroed, page aligned */
	size_t bytes; /* whole pages if shared with another process */
	int fd;	      /* for the other process; -1: closed or private */
	int file;     /* the NIC's own, which the reaper gets in the end; opened apart from fd; -1: private */
};

/* Bytes rounded up to whole pages. */
size_t sp_shm_pages(size_t bytes);
/* read_only: the other process can only read; the file is sealed. -ENOMEM (memory or address space), -EMFILE, -EINVAL.
 */
int sp_shm_create(size_t bytes, const char *name, bool read_only, struct sp_shm *shared);
/* The same in slices, for callers that must not block for long. begin maps the file without pages; each
 * sp_shm_more() allocates one slice. *made: bytes so far, 0 at first. 1: more to do; 0: done, as sp_shm_create();
 * -ENOMEM, -EMFILE: destroy it. No other process may get the descriptor before 0. */
#define SP_SHM_SLICE ((size_t)4 << 20) /* takes 1 to 2 ms */
int sp_shm_begin(size_t bytes, const char *name, struct sp_shm *shared);
int sp_shm_more(struct sp_shm *shared, bool read_only, size_t *made);
/* The other process says that it has sealed the file. Looks at seals and size, without any lock, then touches a slice
 * of the pages: there may have been holes before the seals. *seen: bytes so far, 0 at first. 1: more to do; 0: the
 * memory may be used; -EACCES: not sealed as it must be, or of another size; -ENOMEM. */
int sp_shm_sealed(struct sp_shm *shared, size_t *seen);
/* Unmaps the last slice and updates base and bytes. False: nothing is left; file is still open. */
bool sp_shm_less(struct sp_shm *shared);
/* Private memory of this process; pages are allocated on first use. */
int sp_shm_private(size_t bytes, struct sp_shm *shared);
/* Unmaps all and closes the descriptors. Only for memory whose descriptor has not left, or whose pages the other
 * process may keep. A zeroed structure is fine. */
void sp_shm_destroy(struct sp_shm *shared);
/* Closes the descriptor for the other process, which has its own or needs none. */
void sp_shm_close(struct sp_shm *shared);

#endif
