/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from)
{
	static_assert(sizeof(to->grh.dgid) == sizeof(from->grh.dgid), "a GID");
	memcpy(&to->grh.dgid, from->grh.dgid, sizeof(to->grh.dgid));
	to->grh.flow_label = from->grh.flow_label;
	to->grh.sgid_index = from->grh.sgid_index;
	to->grh.hop_limit = from->grh.hop_limit;
	to->grh.traffic_class = from->grh.traffic_class;
	to->dlid = from->dlid;
	to->sl = from->sl;
	to->src_path_bits = from->src_path_bits;
	to->static_rate = from->static_rate;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from)
{
	to->qp_state = from->qp_state;
	to->cur_qp_state = from->cur_qp_state;
	to->path_mtu = from->path_mtu;
	to->path_mig_state = from->path_mig_state;
	to->qkey = from->qkey;
	to->rq_psn = from->rq_psn;
	to->sq_psn = from->sq_psn;
	to->dest_qp_num = from->dest_qp_num;
	to->qp_access_flags = from->qp_access_flags;
	to->cap.max_send_wr = from->max_send_wr;
	to->cap.max_recv_wr = from->max_recv_wr;
	to->cap.max_send_sge = from->max_send_sge;
	to->cap.max_recv_sge = from->max_recv_sge;
	to->cap.max_inline_data = from->max_inline_data;
	ibv_copy_ah_attr_from_kern(&to->ah_attr, &from->ah_attr);
	ibv_copy_ah_attr_from_kern(&to->alt_ah_attr, &from->alt_ah_attr);
	to->pkey_index = from->pkey_index;
	to->alt_pkey_index = from->alt_pkey_index;
	to->en_sqd_async_notify = from->en_sqd_async_notify;
	to->sq_draining = from->sq_draining;
	to->max_rd_atomic = from->max_rd_atomic;
	to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	to->min_rnr_timer = from->min_rnr_timer;
	to->port_num = from->port_num;
	to->timeout = from->timeout;
	to->retry_cnt = from->retry_cnt;
	to->rnr_retry = from->rnr_retry;
	to->alt_port_num = from->alt_port_num;
	to->alt_timeout = from->alt_timeout;
}

/* All fields but the GIDs have the same names in both. */
#define PATH_FIELDS(to, from)                                                                                          \
	do {                                                                                                           \
		memcpy(&(to)->dgid, &(from)->dgid, 16);                                                                \
		memcpy(&(to)->sgid, &(from)->sgid, 16);                                                                \
		(to)->dlid = (from)->dlid;                                                                             \
		(to)->slid = (from)->slid;                                                                             \
		(to)->raw_traffic = (from)->raw_traffic;                                                               \
		(to)->flow_label = (from)->flow_label;                                                                 \
		(to)->hop_limit = (from)->hop_limit;                                                                   \
		(to)->traffic_class = (from)->traffic_class;                                                           \
		(to)->reversible = (from)->reversible;                                                                 \
		(to)->numb_path = (from)->numb_path;                                                                   \
		(to)->pkey = (from)->pkey;                                                                             \
		(to)->sl = (from)->sl;                                                                                 \
		(to)->mtu_selector = (from)->mtu_selector;                                                             \
		(to)->mtu = (from)->mtu;                                                                               \
		(to)->rate_selector = (from)->rate_selector;                                                           \
		(to)->rate = (from)->rate;                                                                             \
		(to)->packet_life_time_selector = (from)->packet_life_time_selector;                                   \
		(to)->packet_life_time = (from)->packet_life_time;                                                     \
		(to)->preference = (from)->preference;                                                                 \
	} while (0)

void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from)
{
	PATH_FIELDS(to, from);
}

void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from)
{
	PATH_FIELDS(to, from);
}

/* ---- /sys ---- */

static char tree[PATH_MAX];

static void tree_find(void)
{
	const char *root = secure_getenv("SPINDLE_VERBS_TREE");
	const int len = root && *root ? snprintf(tree, sizeof(tree), "%s/sys", root) : -1;

	if (len < 0 || (size_t)len >= sizeof(tree))
		strcpy(tree, "/sys");
}

const char *ibv_get_sysfs_path(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, tree_find);
	return tree;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	const int len = snprintf(path, sizeof(path), "%s/%s", dir, file);

	if (len < 0 || (size_t)len >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t got;
	do {
		got = read(fd, buf, size);
	} while (got < 0 && errno == EINTR);
	const int wrong = errno;
	close(fd);
	errno = wrong;
	if (got > 0 && buf[got - 1] == '\n')
		got--;
	if (got >= 0 && (size_t)got < size) {
		buf[got] = 0;
		return (int)got;
	}
	if (got >= 0)
		errno = EOVERFLOW;
	return -1;
}
