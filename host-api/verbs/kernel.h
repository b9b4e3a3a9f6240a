/* SPDX-License-Identifier: BSD-3-Clause */
/* What libibverbs exports without a header: between the kernel's structures and verbs', and files below /sys. */
#ifndef HOST_API_VERBS_KERNEL_H
#define HOST_API_VERBS_KERNEL_H

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from);

/* The tree that `spindle verbs` has made ($SPINDLE_VERBS_TREE, then /sys), or "/sys". */
const char *ibv_get_sysfs_path(void);
/* Reads dir/file without the newline at its end; its length, or -1: it cannot be read, or does not fit. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

#endif
