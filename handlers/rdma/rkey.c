/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma, rkeys: what they open; windows: binding, and their end. */
#include "rkey.h"
#include "key.h"

#define REMOTE	(SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_READ | SP_RDMA_REMOTE_ATOMIC)
#define CHANGES (SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_ATOMIC)

static struct rdma_mr *window_region(const struct rdma_mr *w, const struct rdma_qp *qp, uint32_t key, uint64_t va,
				     uint64_t len, uint32_t access)
{
	struct rdma_mr *of = __atomic_load_n(&w->region, __ATOMIC_ACQUIRE);
	const uint64_t begin = __atomic_load_n(&w->va, __ATOMIC_ACQUIRE);
	const uint64_t bytes = __atomic_load_n(&w->len, __ATOMIC_ACQUIRE);
	const uint32_t rights = __atomic_load_n(&w->access, __ATOMIC_ACQUIRE);
	const uint32_t binder = __atomic_load_n(&w->binder, __ATOMIC_ACQUIRE);

	/* Behind all of these loads, as each acquires. */
	if (__atomic_load_n(&w->key, __ATOMIC_RELAXED) != key || !of)
		return NULL;
	if ((binder && binder != qp->number) || (rights & access) != access)
		return NULL;
	if (va - begin > bytes || len > bytes - (va - begin))
		return NULL;
	/* The region outlives the window, but for one that was bound anew just now. */
	if (!__atomic_load_n(&of->key, __ATOMIC_ACQUIRE) || of->pd != qp->pd || !rdma_mr_holds(of, va, len))
		return NULL;
	return of;
}

struct rdma_mr *rdma_rkey_find(struct sp_ctx *c, const struct rdma_qp *qp, uint32_t key, uint64_t va, uint64_t len,
			       uint32_t access)
{
	struct rdma_mr *m = rdma_key_of(rdma_of(c), qp->pd, key);

	if (!m)
		return NULL;
	if (__atomic_load_n(&m->window, __ATOMIC_ACQUIRE))
		return window_region(m, qp, key, va, len, access);
	if ((m->access & access) != access || __atomic_load_n(&m->invalidated, __ATOMIC_ACQUIRE))
		return NULL;
	return rdma_mr_holds(m, va, len) ? m : NULL;
}

/* ---- windows ---- */
/* One worker at a time changes a window; two at once are the application's mistake. */
static bool window_take(struct rdma_mr *w)
{
	return !__atomic_exchange_n(&w->busy, true, __ATOMIC_ACQUIRE);
}

static void window_leave(struct rdma_mr *w)
{
	__atomic_store_n(&w->busy, false, __ATOMIC_RELEASE);
}

static void window_unbind(struct rdma_mr *w)
{
	struct rdma_mr *of = w->region;

	__atomic_store_n(&w->key, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&w->region, NULL, __ATOMIC_RELEASE); /* key 0 is seen before this, and what is stored next */
	if (of)
		__atomic_fetch_sub(&of->windows, 1, __ATOMIC_RELEASE);
}

/* The region to bind to, with one window more; NULL: it must not be. */
static struct rdma_mr *window_target(struct sp_ctx *c, const struct rdma_qp *qp, const struct rdma_binding *b)
{
	struct rdma_mr *of = rdma_key_find(c, qp->pd, b->lkey, b->va, b->len, SP_RDMA_MW_BIND);

	if (!of || b->access & ~(uint64_t)REMOTE || (b->access & CHANGES && !(of->access & SP_RDMA_LOCAL_WRITE)))
		return NULL;
	__atomic_fetch_add(&of->windows, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&of->key, __ATOMIC_SEQ_CST) == b->lkey)
		return of;
	__atomic_fetch_sub(&of->windows, 1, __ATOMIC_RELEASE); /* it has just been deregistered */
	return NULL;
}

static bool window_bind(struct sp_ctx *c, const struct rdma_qp *qp, const struct rdma_binding *b, struct rdma_mr *w)
{
	const bool second = w->window == SP_RDMA_MW_2;
	struct rdma_mr *of;

	if (w->pd != qp->pd || (w->ended ^ b->rkey) & ~0xFFu || !b->rkey)
		return false;
	if (second && (w->region || !b->len))
		return false;
	if (!b->len) {
		window_unbind(w);
		return true;
	}
	of = window_target(c, qp, b);
	if (!of)
		return false;
	window_unbind(w);
	__atomic_store_n(&w->region, of, __ATOMIC_RELEASE);
	__atomic_store_n(&w->va, b->va, __ATOMIC_RELEASE);
	__atomic_store_n(&w->len, b->len, __ATOMIC_RELEASE);
	__atomic_store_n(&w->access, (uint8_t)b->access, __ATOMIC_RELEASE);
	__atomic_store_n(&w->binder, second ? qp->number : 0, __ATOMIC_RELEASE);
	__atomic_store_n(&w->key, b->rkey, __ATOMIC_RELEASE);
	return true;
}

bool rdma_window_bind(struct sp_ctx *c, const struct rdma_qp *qp, const struct rdma_binding *b)
{
	struct rdma_mr *w = rdma_key_slot(rdma_of(c), b->rkey);
	bool bound = false;

	if (__atomic_load_n(&w->window, __ATOMIC_ACQUIRE) && window_take(w)) {
		bound = window_bind(c, qp, b, w);
		window_leave(w);
	}
	return bound;
}

static int window_invalidate(struct rdma_mr *w, const struct rdma_qp *qp, uint32_t key)
{
	int rc = -EACCES;

	if (!window_take(w))
		return rc;
	if (w->key == key && w->binder == qp->number) { /* type 1 has no binder */
		window_unbind(w);
		rc = 0;
	}
	window_leave(w);
	return rc;
}

int rdma_rkey_invalidate(struct sp_ctx *c, const struct rdma_qp *qp, uint32_t key)
{
	struct rdma_mr *m = rdma_key_of(rdma_of(c), qp->pd, key);

	if (m && __atomic_load_n(&m->window, __ATOMIC_ACQUIRE))
		return window_invalidate(m, qp, key);
	if (!m || !(m->access & REMOTE) || __atomic_load_n(&m->invalidated, __ATOMIC_ACQUIRE))
		return -EACCES;
	__atomic_store_n(&m->invalidated, true, __ATOMIC_RELEASE);
	return 0;
}

int rdma_window_close(struct rdma_mr *w)
{
	if (!window_take(w))
		return -EAGAIN;
	window_unbind(w);
	return 0;
}
