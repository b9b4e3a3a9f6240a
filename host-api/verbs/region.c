/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: what programs register, and how its keys are found again. memory.c makes the NIC reach it. */
#include "shim.h"

#include <stdlib.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define RIGHTS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define IGNORED (IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE)

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

static int region_add(struct shim_region *r, size_t length, uint64_t iova, unsigned access)
{
	struct shim_pd *pd = (struct shim_pd *)r->mr.ibv.pd;
	struct shim_context *c = shim_context_of(pd->ibv.context);
	struct shim_region **chain;
	int rc;

	if (c->ended)
		return -EIO;
	rc = shim_memory_register(&shim_nic, pd->pd, r->mr.ibv.addr, length, iova, access & RIGHTS, &r->mr);
	if (rc)
		return rc;
	r->mr.ibv.handle = r->mr.ibv.lkey;
	chain = chain_of(c, r->mr.ibv.lkey);
	r->next = *chain;
	*chain = r;
	c->indirect += !r->mr.direct;
	shim_make(c, &r->made, SHIM_MR, r);
	pd->users++;
	return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct shim_region *r;
	int rc;

	if (access & IBV_ACCESS_ON_DEMAND) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (access & ~(unsigned)(RIGHTS | IGNORED) || !length || iova + length < iova ||
	    (uintptr_t)addr + length < (uintptr_t)addr ||
	    (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(access & IBV_ACCESS_LOCAL_WRITE))) {
		errno = EINVAL;
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
	struct shim_region **at = chain_of(c, r->mr.ibv.lkey);
	int rc = c->rdma ? shim_memory_deregister(&r->mr) : 0;

	if (rc && (rc == -EAGAIN || !c->ended))
		return rc;
	if (rc)
		shim_memory_forget(&r->mr);
	while (*at && *at != r)
		at = &(*at)->next;
	if (*at)
		*at = r->next;
	c->indirect -= !r->mr.direct;
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

/* The keys would have to stay, and the NIC's do not. */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)mr, (void)flags, (void)pd, (void)addr, (void)length, (void)access;
	errno = EOPNOTSUPP;
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
