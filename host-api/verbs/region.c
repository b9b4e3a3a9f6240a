/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: what programs register, and how its keys are found again. memory.c makes the NIC reach it. */
#include "shim.h"

#include <stdlib.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define RIGHTS                                                                                                         \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |        \
	 IBV_ACCESS_MW_BIND)
#define IGNORED (IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE)

static struct shim_region **chain_of(struct shim_context *c, uint32_t lkey)
{
	return &c->region[(lkey ^ lkey >> 10 ^ lkey >> 20) % SHIM_CHAINS];
}

struct shim_region *shim_region_find(struct shim_context *c, uint32_t lkey)
{
	struct shim_region *r = *chain_of(c, lkey);

	while (r && r->mr.ibv.lkey != lkey)
		r = r->next;
	return r;
}

static void chain_add(struct shim_context *c, struct shim_region *r)
{
	struct shim_region **chain = chain_of(c, r->mr.ibv.lkey);

	r->next = *chain;
	*chain = r;
	c->indirect += !r->mr.direct;
}

static void chain_remove(struct shim_context *c, struct shim_region *r)
{
	struct shim_region **at = chain_of(c, r->mr.ibv.lkey);

	while (*at && *at != r)
		at = &(*at)->next;
	if (*at)
		*at = r->next;
	c->indirect -= !r->mr.direct;
}

static int region_add(struct shim_region *r, size_t length, uint64_t iova, unsigned access)
{
	struct shim_pd *pd = (struct shim_pd *)r->mr.ibv.pd;
	struct shim_context *c = shim_context_of(pd->ibv.context);
	int rc;

	if (c->ended)
		return -EIO;
	rc = shim_memory_register(&shim_nic, pd->pd, r->mr.ibv.addr, length, iova, access & RIGHTS, &r->mr);
	if (rc)
		return rc;
	r->mr.ibv.handle = r->mr.ibv.lkey;
	chain_add(c, r);
	shim_make(c, &r->made, SHIM_MR, r);
	pd->users++;
	return 0;
}

static int region_check(void *addr, size_t length, uint64_t iova, unsigned access)
{
	if (access & IBV_ACCESS_ON_DEMAND)
		return -EOPNOTSUPP;
	if (access & ~(unsigned)(RIGHTS | IGNORED) || !length || iova + length < iova ||
	    (uintptr_t)addr + length < (uintptr_t)addr)
		return -EINVAL;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct shim_region *r;
	int rc = region_check(addr, length, iova, access);

	if (rc) {
		errno = -rc;
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->mr.ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	shim_lock();
	rc = region_add(r, length, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
	shim_unlock();
	if (!rc)
		return &r->mr.ibv;
	free(r);
	errno = rc == -EDQUOT || rc == -ENOSPC ? ENOMEM : -rc;
	return NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

int shim_region_drop(struct shim_region *r)
{
	struct shim_context *c = shim_context_of(r->mr.ibv.context);
	int rc = c->rdma ? shim_memory_deregister(&r->mr) : 0;

	if (rc && (rc == -EAGAIN || !c->ended))
		return rc;
	if (rc)
		shim_memory_forget(&r->mr);
	chain_remove(c, r);
	shim_unmake(&r->made);
	((struct shim_pd *)r->mr.ibv.pd)->users--;
	free(r);
	return 0;
}

static int mr_dereg(void *arg)
{
	return shim_region_drop(arg);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return shim_errno(shim_until(mr_dereg, mr));
}

/* ---- registering anew: the program's handle stays, its keys do not ---- */
struct anew {
	struct shim_region *r;
	struct shim_mr mr; /* what it becomes */
};

static int anew_begin(struct anew *n)
{
	struct shim_pd *pd = (struct shim_pd *)n->mr.ibv.pd;
	struct shim_context *c = shim_context_of(n->r->mr.ibv.context);
	int rc;

	shim_lock();
	rc = c->ended ? -EIO
		      : shim_memory_register(&shim_nic, pd->pd, n->mr.ibv.addr, n->mr.ibv.length, n->mr.iova,
					     n->mr.access & RIGHTS, &n->mr);
	shim_unlock();
	return rc;
}

static int anew_end(void *arg)
{
	struct anew *n = arg;
	struct shim_context *c = shim_context_of(n->r->mr.ibv.context);
	int rc = shim_memory_deregister(&n->r->mr);

	if (rc)
		return rc;
	chain_remove(c, n->r);
	((struct shim_pd *)n->r->mr.ibv.pd)->users--;
	((struct shim_pd *)n->mr.ibv.pd)->users++;
	n->r->mr = n->mr;
	n->r->mr.ibv.handle = n->mr.ibv.lkey;
	chain_add(c, n->r);
	return 0;
}

static int anew_undo(void *arg)
{
	return shim_memory_deregister(&((struct anew *)arg)->mr);
}

/* All that can fail does before the old registration ends, so it stays valid. */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct anew n = {.r = (struct shim_region *)mr};
	int rc;

	n.mr = n.r->mr;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		n.mr.ibv.addr = addr;
		n.mr.ibv.length = length;
		n.mr.iova = (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		n.mr.ibv.pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		n.mr.access = (unsigned)access;
	rc = !flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || !n.mr.ibv.pd || n.mr.ibv.pd->context != mr->context
		     ? -EINVAL
		     : region_check(n.mr.ibv.addr, n.mr.ibv.length, n.mr.iova, n.mr.access);
	if (!rc)
		rc = anew_begin(&n);
	if (!rc) {
		rc = shim_until(anew_end, &n);
		if (rc)
			shim_until(anew_undo, &n);
	}
	if (!rc)
		return 0;
	errno = rc == -EDQUOT || rc == -ENOSPC ? ENOMEM : -rc;
	return IBV_REREG_MR_ERR_INPUT;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	errno = EOPNOTSUPP;
	return NULL;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	(void)pd, (void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
}

/* Fork: the child gets copies (memory.h), so nothing has to be marked. */
int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size);
int ibv_dontfork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}

int ibv_dofork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}
