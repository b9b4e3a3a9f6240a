/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"
#include "../engine.h"
#include "account.h"
#include "freeing.h"
#include "../context.h"
#include "../ports/port.h"
#include "../observe/tap.h"
#include "../touch.h"
#include "../view.h"
#include "../worker.h"

#include <stdlib.h>

#define PAGE	  256
#define PAGES	  256
#define INDEX(id) ((id)&0xFFFF)

struct region {
	struct sp_mem pub;
	_Atomic uint32_t users; /* 0: free; 1: registered; more: handlers or zero-copy packets use it. [shared] */
	uint16_t generation;	/* generation, part of the id: an old id never names a new region */
	bool orphan;		/* the application is gone; [control] */
	bool mapped;		/* mapped for the ports' DMA, see sp_port_map; [control] */
	struct sp_backing backing;
};

struct sp_memory {
	struct region *_Atomic page[PAGES]; /* allocated on first use, freed with the NIC */
	uint32_t next;			    /* where the next search for a free region starts; [control] */
	uint32_t orphans;		    /* [control] */
};

int sp_memory_create(struct sp_nic *nic)
{
	nic->memory = calloc(1, sizeof(*nic->memory));
	if (!nic->memory)
		return -ENOMEM;
	return sp_freeing_create(nic);
}

static void unmap(struct sp_nic *nic, struct region *r)
{
	sp_account_regions(r->backing.account, -1);
	if (r->mapped)
		sp_port_unmap(nic, r->pub.base, r->pub.len);
	r->mapped = false;
	sp_memory_unback(nic, &r->backing);
	nic->memory->orphans -= r->orphan;
	r->orphan = false;
	r->pub.base = NULL;
	r->pub.len = 0;
}

void sp_memory_destroy(struct sp_nic *nic)
{
	if (!nic->memory)
		return;
	for (unsigned i = 0; i < PAGES; i++) {
		struct region *page = nic->memory->page[i];

		for (unsigned k = 0; page && k < PAGE; k++)
			if (page[k].users)
				unmap(nic, &page[k]);
		free(page);
	}
	sp_freeing_destroy(nic);
	free(nic->memory);
	nic->memory = NULL;
}

static struct region *free_region(struct sp_memory *m, uint32_t *index)
{
	for (uint32_t tried = 0; tried < PAGE * PAGES; tried++) {
		uint32_t at = (m->next + tried) % (PAGE * PAGES);
		struct region *page = m->page[at / PAGE];

		if (!page) {
			page = calloc(PAGE, sizeof(*page));
			if (!page)
				return NULL;
			atomic_store_explicit(&m->page[at / PAGE], page, memory_order_release);
		}
		if (page[at % PAGE].users)
			continue;
		m->next = at + 1;
		*index = at;
		return &page[at % PAGE];
	}
	return NULL;
}

/* Frees orphaned regions that are no longer in use. */
static void free_all_deferred(struct sp_nic *nic)
{
	for (unsigned i = 0; i < PAGES && nic->memory->orphans; i++) {
		struct region *page = nic->memory->page[i];

		for (unsigned k = 0; page && k < PAGE; k++)
			if (page[k].orphan)
				sp_memory_remove(nic, page[k].pub.id, page[k].pub.owner);
	}
}

static int charge_backing(struct sp_nic *nic, struct sp_account *account, void *addr, uint64_t len,
			  enum sp_backing_kind kind, struct sp_backing *b)
{
	if (len == 0 || len > SIZE_MAX / 2 || (addr && (uintptr_t)addr + len < (uintptr_t)addr))
		return -EINVAL;
	*b = (struct sp_backing){.base = addr, .len = len, .kind = kind, .account = account};
	b->shared.fd = b->shared.file = -1;
	b->uid = sp_account_uid(account);
	/* Shared memory is allocated, and charged, in whole pages. */
	b->charged = addr || kind == SP_BACKING_PRIVATE ? len : sp_shm_pages(len);
	return sp_memory_charge(nic, account, b->charged);
}

int sp_memory_begin(struct sp_nic *nic, struct sp_account *account, uint64_t len, enum sp_backing_kind kind,
		    struct sp_backing *b)
{
	int r = charge_backing(nic, account, NULL, len, kind, b);

	if (r)
		return r;
	r = sp_shm_begin(len, "spindle-region", &b->shared);
	if (r)
		sp_memory_credit(nic, account, b->charged);
	b->base = b->shared.base;
	return r;
}

int sp_memory_more(struct sp_backing *b)
{
	return sp_shm_more(&b->shared, b->kind == SP_BACKING_SHARED_READ, &b->made);
}

int sp_memory_sealed(struct sp_backing *b)
{
	return sp_shm_sealed(&b->shared, &b->seen);
}

int sp_memory_back(struct sp_nic *nic, struct sp_account *account, void *addr, uint64_t len, enum sp_backing_kind kind,
		   struct sp_backing *b)
{
	int r;

	if (!addr && kind != SP_BACKING_PRIVATE) {
		r = sp_memory_begin(nic, account, len, kind, b);
		if (r)
			return r;
		while ((r = sp_memory_more(b)) > 0)
			;
		if (r)
			sp_memory_unback(nic, b);
		return r;
	}
	r = charge_backing(nic, account, addr, len, kind, b);
	if (r || addr)
		return r;
	r = sp_shm_private(len, &b->shared);
	if (r)
		sp_memory_credit(nic, account, b->charged);
	b->base = b->shared.base;
	return r;
}

void sp_memory_unback(struct sp_nic *nic, struct sp_backing *b)
{
	sp_freeing_memory(nic, b->account, b->uid, &b->shared, b->charged);
}

int sp_memory_insert(struct sp_nic *nic, const struct sp_backing *b, uint32_t owner, struct sp_mem **mem)
{
	struct region *r;
	uint32_t index;
	int err;

	free_all_deferred(nic);
	err = sp_account_regions(b->account, 1);
	if (err)
		return err;
	r = free_region(nic->memory, &index);
	if (!r) {
		sp_account_regions(b->account, -1);
		return -ENOMEM;
	}
	r->generation++;
	r->backing = *b;
	r->pub.base = b->base;
	r->pub.len = b->len;
	r->pub.owner = owner;
	/* If mapping fails, the sender copies payload. */
	r->mapped = !sp_port_map(nic, b->base, b->len);
	r->pub.id = (uint32_t)r->generation << 16 | index;
	atomic_store_explicit(&r->users, 1, memory_order_release);
	*mem = &r->pub;
	return 0;
}

static struct region *find(struct sp_nic *nic, uint32_t id)
{
	struct region *page = atomic_load_explicit(&nic->memory->page[INDEX(id) / PAGE], memory_order_acquire);

	return page ? &page[INDEX(id) % PAGE] : NULL;
}

int sp_memory_remove(struct sp_nic *nic, uint32_t id, uint32_t owner)
{
	struct region *r = find(nic, id);
	uint32_t one = 1;

	if (!r || r->pub.id != id || r->pub.owner != owner || !r->users)
		return -ENOENT;
	if (!atomic_compare_exchange_strong(&r->users, &one, 0))
		return -EBUSY;
	unmap(nic, r);
	return 0;
}

struct sp_shm *sp_memory_shared(struct sp_nic *nic, uint32_t id, uint32_t owner)
{
	struct region *r = find(nic, id);

	return r && r->users && r->pub.id == id && r->pub.owner == owner ? &r->backing.shared : NULL;
}

static void abandon(struct sp_nic *nic, struct region *r)
{
	if (sp_memory_remove(nic, r->pub.id, r->pub.owner) != -EBUSY)
		return;
	sp_account_regions(r->backing.account, -1);
	sp_account_memory_back(r->backing.account, r->backing.charged);
	r->backing.account = NULL;
	r->orphan = true;
	nic->memory->orphans++;
}

void sp_memory_abandon(struct sp_nic *nic, const struct sp_mem *mem)
{
	abandon(nic, (struct region *)(uintptr_t)mem);
}

void sp_memory_remove_owner(struct sp_nic *nic, uint32_t owner)
{
	for (unsigned i = 0; i < PAGES; i++) {
		struct region *page = nic->memory->page[i];

		for (unsigned k = 0; page && k < PAGE; k++) {
			struct region *r = &page[k];

			if (r->users && !r->orphan && r->pub.owner == owner)
				abandon(nic, r);
		}
	}
}

bool sp_memory_zc_get(const struct sp_mem *mem)
{
	struct region *r = (struct region *)(uintptr_t)mem;

	if (unlikely(!r->mapped)) /* constant while registered; the sender holds a reference */
		return false;
	atomic_fetch_add_explicit(&r->users, 1, memory_order_relaxed);
	return true;
}

void sp_memory_zc_put(const struct sp_mem *mem)
{
	atomic_fetch_sub_explicit(&((struct region *)(uintptr_t)mem)->users, 1, memory_order_release);
}

/* ---- handlers' calls ---- */

const struct sp_mem *sp_mem_get(struct sp_ctx *ctx, uint32_t id)
{
	struct sp_context *c = sp_view_of(ctx)->context;
	struct region *r = find(c->nic, id);
	uint32_t users;

	if (!r)
		return NULL;
	users = atomic_load_explicit(&r->users, memory_order_acquire);
	do
		if (users == 0)
			return NULL;
	while (!atomic_compare_exchange_weak_explicit(&r->users, &users, users + 1, memory_order_acquire,
						      memory_order_acquire));
	/* The reference keeps the region registered: its fields are stable now. */
	if (r->pub.id != id || r->pub.owner != c->owner) {
		sp_mem_put(ctx, &r->pub);
		return NULL;
	}
	return &r->pub;
}

void sp_mem_put(struct sp_ctx *ctx, const struct sp_mem *m)
{
	(void)ctx;
	atomic_fetch_sub_explicit(&((struct region *)(uintptr_t)m)->users, 1, memory_order_release);
}

void sp_dma_fault(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	sp_view_of(ctx)->dma_faults++;
	sp_last_error_note(sp_view_of(ctx), SP_LAST_ERROR_DMA, offset, len, m->len, m->id);
	if (ctx->watch & SP_WATCH_TRACED)
		sp_tap_wrong(ctx, "range %" PRIu64 " + %" PRIu64 " is outside region %u of %" PRIu64 " bytes", offset,
			     len, m->id, m->len);
}

static bool is_area(struct sp_ctx *ctx, const struct sp_mem *m)
{
	const struct sp_context *c = sp_view_of(ctx)->context;

	return (c->first ? c->first : c)->area == m;
}

/* True: do not write the bytes. */
bool sp_dma_traced(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, const void *from, uint64_t len)
{
	if (ctx->watch & SP_WATCH_TRACED) {
		sp_view_of(ctx)->dma_traced += len;
		sp_view_of(ctx)->owner->tap->wrote(ctx, m, offset, from, len);
	}
	return ctx->watch & SP_WATCH_PAYLOAD_LESS && len > SP_PAYLOAD_KEPT && !is_area(ctx, m);
}

int sp_dma_read(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, void *to, uint32_t len)
{
	if (!sp_mem_holds(m, offset, len)) {
		sp_dma_fault(ctx, m, offset, len);
		return -EFAULT;
	}
	memcpy(to, m->base + offset, len);
	return 0;
}

/* The 8-byte word at offset, or NULL and *err. */
static uint64_t *word(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, int *err)
{
	if (!sp_mem_holds(m, offset, 8)) {
		sp_dma_fault(ctx, m, offset, 8);
		*err = -EFAULT;
		return NULL;
	}
	if (((uintptr_t)m->base + offset) & 7) {
		if (ctx->watch & SP_WATCH_TRACED)
			sp_tap_wrong(ctx, "word at %" PRIu64 " of region %u is not at a multiple of 8 bytes", offset,
				     m->id);
		*err = -EINVAL;
		return NULL;
	}
	*err = 0;
	return (uint64_t *)(m->base + offset);
}

/* The host may wait for a change of the area. */
static inline void touch_area(struct sp_ctx *ctx, const struct sp_mem *m, enum sp_news news)
{
	if (is_area(ctx, m))
		sp_touch(sp_view_of(ctx), news);
}

/* Called last: the trace records the word's new value. */
static __attribute__((noinline)) int trace_word(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset)
{
	sp_dma_traced(ctx, m, offset, NULL, 8);
	return 0;
}

int sp_dma_or64(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, uint64_t bits)
{
	int err;
	uint64_t *at = word(ctx, m, offset, &err);

	if (!at)
		return err;
	__atomic_fetch_or(at, bits, __ATOMIC_RELEASE);
	touch_area(ctx, m, SP_NEWS_OTHER);
	return unlikely(ctx->watch & SP_WATCH_TRACED) ? trace_word(ctx, m, offset) : 0;
}

int sp_dma_add64(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, uint64_t n, uint64_t *old)
{
	int err;
	uint64_t *at = word(ctx, m, offset, &err), was;

	if (!at)
		return err;
	was = __atomic_fetch_add(at, n, __ATOMIC_ACQ_REL);
	touch_area(ctx, m, SP_NEWS_OTHER);
	if (old)
		*old = was;
	return unlikely(ctx->watch & SP_WATCH_TRACED) ? trace_word(ctx, m, offset) : 0;
}

int sp_dma_swap64(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, uint64_t expect, uint64_t value,
		  uint64_t *old)
{
	int err;
	uint64_t *at = word(ctx, m, offset, &err);

	if (!at)
		return err;
	__atomic_compare_exchange_n(at, &expect, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	touch_area(ctx, m, SP_NEWS_OTHER);
	if (old)
		*old = expect;
	return unlikely(ctx->watch & SP_WATCH_TRACED) ? trace_word(ctx, m, offset) : 0;
}

static inline int store(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, uint64_t value, enum sp_news news)
{
	int err;
	uint64_t *at = word(ctx, m, offset, &err);

	if (!at)
		return err;
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
	touch_area(ctx, m, news);
	return unlikely(ctx->watch & SP_WATCH_TRACED) ? trace_word(ctx, m, offset) : 0;
}

int sp_dma_store64(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, uint64_t value)
{
	return store(ctx, m, offset, value, SP_NEWS_OTHER);
}

int sp_dma_progress64(struct sp_ctx *ctx, const struct sp_mem *m, uint64_t offset, uint64_t value)
{
	return store(ctx, m, offset, value, SP_NEWS_PROGRESS);
}
