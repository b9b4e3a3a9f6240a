/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows, types 1 and 2B. The NIC binds them, in the order of the QP's requests. */
#include "shim.h"

#include <stdlib.h>

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_mw *shim_alloc_mw(struct ibv_pd *ibv_pd, enum ibv_mw_type type)
{
	struct shim_context *c = shim_context_of(ibv_pd->context);
	struct shim_pd *pd = (struct shim_pd *)ibv_pd;
	struct shim_window *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return NULL;
	shim_lock();
	rc = c->ended ? -EIO : sp_rdma_mw_alloc(pd->pd, (enum sp_rdma_mw_type)type, &w->mw);
	if (!rc) {
		w->ibv = (struct ibv_mw){.context = ibv_pd->context,
					 .pd = ibv_pd,
					 .rkey = w->mw->rkey,
					 .handle = w->mw->rkey,
					 .type = type};
		shim_make(c, &w->made, SHIM_MW, w);
		pd->users++;
	}
	shim_unlock();
	if (!rc)
		return &w->ibv;
	free(w);
	errno = rc == -EDQUOT || rc == -ENOSPC ? ENOMEM : -rc;
	return NULL;
}

static int window_end(void *arg)
{
	struct shim_window *w = arg;
	struct shim_context *c = shim_context_of(w->ibv.context);
	int rc = c->rdma ? sp_rdma_mw_dealloc(w->mw) : 0;

	if (rc && !c->ended)
		return rc;
	shim_unmake(&w->made);
	((struct shim_pd *)w->ibv.pd)->users--;
	return 0;
}

int shim_dealloc_mw(struct ibv_mw *mw)
{
	int rc = shim_until(window_end, mw);

	if (rc)
		return shim_errno(rc);
	free(mw);
	return 0;
}

int shim_window_request(uint32_t rkey, const struct ibv_mw_bind_info *info, struct sp_rdma_send_wr *wr)
{
	/* Local rights mean nothing to a window, but programs name them as they do for a region. */
	const unsigned rights = info->mw_access_flags & ~(unsigned)IBV_ACCESS_LOCAL_WRITE;

	if (rights & ~(unsigned)REMOTE || (info->length && !info->mr))
		return -EINVAL;
	wr->op = SP_RDMA_WR_BIND_MW;
	wr->rkey = rkey;
	wr->imm = info->mr ? info->mr->lkey : 0;
	wr->remote = info->addr;
	wr->compare_add = info->length;
	wr->swap = rights;
	return 0;
}

/* Type 1: the library draws the next key, which counts from now on. */
int shim_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad,
		wr = {.wr_id = bind->wr_id,
		      .opcode = IBV_WR_BIND_MW,
		      .send_flags = bind->send_flags,
		      .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info}};
	int rc = shim_post_send(qp, &wr, &bad);

	if (!rc)
		mw->rkey = wr.bind_mw.rkey;
	return rc;
}
