/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups: the NIC has none. */
#include "cm.h"

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	(void)id;
	(void)context;
	return shim_cm_fail(shim_cm_length(addr) ? EOPNOTSUPP : EINVAL);
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	const uint32_t all = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	(void)id;
	(void)context;
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return shim_cm_fail(ENOTSUP);
	if ((attr->comp_mask & all) != all || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED ||
	    !shim_cm_length(attr->addr))
		return shim_cm_fail(EINVAL);
	return shim_cm_fail(EOPNOTSUPP);
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)id;
	return shim_cm_fail(shim_cm_length(addr) ? EADDRNOTAVAIL : EINVAL);
}
