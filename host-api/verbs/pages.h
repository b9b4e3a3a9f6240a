/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the memory calls: mappings of this process, and areas that have taken the place of pages. Lock held. */
#ifndef HOST_API_VERBS_PAGES_H
#define HOST_API_VERBS_PAGES_H

#include "../rdma.h"

#define SHIM_PAGE 4096u

/* A line of /proc/self/maps. */
struct shim_vma {
	uintptr_t start, end;
	uint64_t offset, inode;
	uint32_t device;
	bool readable, writable, executable, shared;
	const char *name; /* "": none */
};

/* Memory of the NIC that is mapped where the program had its own. Wherever the program moves it, device and inode say
 * what it is; so a page of it is found by these and its offset, never by its address. */
struct shim_area {
	struct shim_area *next, **back;
	struct sp_mr *memory;
	uint64_t inode;
	uint32_t device;
	uint32_t pages, used; /* used: pages with a count that is not 0 */
	bool stale;	      /* not all could be given back; tried again */
	uint32_t count[];     /* of each page: registrations */
};

#pragma GCC visibility push(hidden)
/* ---- vma.c ---- */
/* Calls fn for each mapping in rising order until it does not return 0, and returns that. No allocation. The name is
 * valid until fn returns. */
int shim_vmas(int (*fn)(void *user, const struct shim_vma *), void *user);
bool shim_pinned(void); /* this process has memory that other devices may know by its pages */

/* ---- pages.c ---- */
extern struct shim_area *shim_areas;
struct shim_area *shim_area_of(const struct shim_vma *v);
struct shim_area *shim_area_new(struct sp_mr *memory, uint32_t pages);
void shim_area_end(struct shim_area *a);
/* Registrations take pages, and give them back: pages that nobody has any more become the program's again, and an area
 * without any is freed. */
void shim_area_take(struct shim_area *a, uint64_t offset, uint64_t len);
void shim_area_give(struct shim_area *a, uint64_t offset, uint64_t len);
void shim_areas_sweep(void); /* tries again what could not be given back */
void shim_areas_close(void); /* gives all back, and forgets it */
/* All of its pages that are mapped become private memory; unused: those without a count. */
int shim_area_restore(struct shim_area *a, bool unused);

/* ---- substitute.c: raw system calls, as programs hook those of libc ---- */
/* An area with the bytes of these pages takes their place, while other threads may write to them. */
int shim_substitute(struct sp_dev *dev, uintptr_t start, uintptr_t end, struct shim_area **area);
/* The way back, for a part of a mapping of an area, onto private anonymous memory. */
int shim_restore(const struct shim_vma *v, uintptr_t start, uintptr_t end);
extern bool shim_by_mprotect; /* for tests: as if there were no userfaultfd */
#pragma GCC visibility pop

#endif
