/* SPDX-License-Identifier: BSD-3-Clause */
/* The areas that have taken the place of the program's pages, with a count of registrations for each page. */
#include "pages.h"

#include <errno.h>
#include <stdlib.h>

#define AT_ONCE 32

struct shim_area *shim_areas;

struct search {
	const struct shim_area *area;
	bool unused;
	unsigned found;
	struct {
		struct shim_vma vma;
		uintptr_t start, end;
	} piece[AT_ONCE];
};

static bool is_of(const struct shim_area *a, const struct shim_vma *v)
{
	return a->inode == v->inode && a->device == v->device && v->shared;
}

struct shim_area *shim_area_of(const struct shim_vma *v)
{
	struct shim_area *a = v->inode && v->shared ? shim_areas : NULL;

	while (a && !is_of(a, v))
		a = a->next;
	return a;
}

struct shim_area *shim_area_new(struct sp_mr *memory, uint32_t pages)
{
	struct shim_area *a = calloc(1, sizeof(*a) + pages * sizeof(a->count[0]));

	if (!a)
		return NULL;
	a->memory = memory;
	a->pages = pages;
	a->next = shim_areas;
	a->back = &shim_areas;
	if (a->next)
		a->next->back = &a->next;
	shim_areas = a;
	return a;
}

void shim_area_end(struct shim_area *a)
{
	*a->back = a->next;
	if (a->next)
		a->next->back = a->back;
	free(a);
}

/* Pages of this mapping that are to be given back, in runs. */
static int search(void *user, const struct shim_vma *v)
{
	struct search *s = user;
	uint64_t page = v->offset / SHIM_PAGE;

	if (!is_of(s->area, v))
		return 0;
	for (uintptr_t at = v->start; at < v->end;) {
		const uintptr_t start = at;

		while (at < v->end && (!s->unused || (page < s->area->pages && !s->area->count[page]))) {
			at += SHIM_PAGE;
			page++;
		}
		if (at > start) {
			s->piece[s->found].vma = *v;
			s->piece[s->found].start = start;
			s->piece[s->found++].end = at;
			if (s->found == AT_ONCE)
				return 1;
		} else {
			at += SHIM_PAGE;
			page++;
		}
	}
	return 0;
}

int shim_area_restore(struct shim_area *a, bool unused)
{
	struct search s = {.area = a, .unused = unused};
	int rc;

	do {
		s.found = 0;
		rc = shim_vmas(search, &s);
		if (rc < 0)
			return rc;
		for (unsigned i = 0; i < s.found; i++) {
			rc = shim_restore(&s.piece[i].vma, s.piece[i].start, s.piece[i].end);
			if (rc)
				return rc;
		}
	} while (s.found);
	return 0;
}

static void give_back(struct shim_area *a)
{
	a->stale = shim_area_restore(a, true) != 0;
	if (a->stale || a->used)
		return;
	if (sp_mr_free(a->memory))
		a->stale = true;
	else
		shim_area_end(a);
}

void shim_area_take(struct shim_area *a, uint64_t offset, uint64_t len)
{
	for (uint64_t page = offset / SHIM_PAGE; page * SHIM_PAGE < offset + len; page++)
		a->used += !a->count[page]++;
}

void shim_area_give(struct shim_area *a, uint64_t offset, uint64_t len)
{
	const uint32_t before = a->used;

	for (uint64_t page = offset / SHIM_PAGE; page * SHIM_PAGE < offset + len; page++)
		a->used -= !--a->count[page];
	if (a->used != before)
		give_back(a);
}

void shim_areas_sweep(void)
{
	for (struct shim_area *a = shim_areas, *next; a; a = next) {
		next = a->next;
		if (a->stale)
			give_back(a);
	}
}

void shim_areas_close(void)
{
	for (struct shim_area *a = shim_areas, *next; a; a = next) {
		next = a->next;
		shim_area_restore(a, false);
		sp_mr_free(a->memory);
		shim_area_end(a);
	}
}
