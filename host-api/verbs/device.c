/* SPDX-License-Identifier: BSD-3-Clause */
/* The one device of a process: the NIC that it is attached to. Its list, contexts, attributes, port and GIDs. */
#include "kernel.h"
#include "shim.h"
#include "symbols.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#undef ibv_get_device_list
#undef ibv_query_port

#define QPS   1024 /* of a context, if the NIC allows so many; otherwise its defaults */
/* ... of those that a program opens beside its first, and beside many: the NIC limits what programs have in all. */
#define FEWER 256
#define FEW   64
#define MANY  8
#define CQS   1024
#define SRQS  256
#define MRS   (32u << 10)
#define AHS   4096
#define PDS   256

/* Direct-verbs libraries read behind struct ibv_device whether it is one of theirs: zeros. */
static struct {
	struct ibv_device ibv;
	uint8_t slack[4096];
} device;

/* ---- the list ---- */
/* $SPINDLE_NIC without directory and suffix. */
static void device_name(char *name, size_t room)
{
	const char *nic = secure_getenv("SPINDLE_NIC");
	const char *slash = nic ? strrchr(nic, '/') : NULL;
	size_t len;

	nic = slash ? slash + 1 : nic && *nic ? nic : "spindle0";
	len = strlen(nic);
	if (slash && len > 5 && !strcmp(nic + len - 5, ".sock"))
		len -= 5;
	snprintf(name, room, "%.*s", (int)len, nic);
}

static void device_fill(void)
{
	const char *root = ibv_get_sysfs_path();
	struct ibv_device *d = &device.ibv;

	d->node_type = IBV_NODE_CA;
	d->transport_type = IBV_TRANSPORT_IB;
	device_name(d->name, sizeof(d->name));
	strcpy(d->dev_name, "uverbs0");
	snprintf(d->dev_path, sizeof(d->dev_path), "%.180s/class/infiniband_verbs/uverbs0", root);
	snprintf(d->ibdev_path, sizeof(d->ibdev_path), "%.160s/class/infiniband/%s", root, d->name);
}

/* The list keeps the attachment until it is freed, so that a program which opens the device attaches once. */
struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(3, sizeof(*list)); /* the device, NULL, whether it holds the attachment */
	int rc;

	if (count)
		*count = 0;
	if (!list)
		return NULL;
	rc = shim_attach();
	if (rc) /* no NIC: an empty list, as without a device */
		return list;
	device_fill();
	list[0] = list[2] = &device.ibv;
	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	if (!list)
		return;
	if (list[2])
		shim_detach();
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

__be64 ibv_get_device_guid(struct ibv_device *d)
{
	(void)d;
	return shim_nic.guid;
}

int ibv_get_device_index(struct ibv_device *d)
{
	(void)d;
	return 1;
}

/* ---- attributes ---- */
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *a)
{
	const struct shim_context *c = shim_context_of(context);
	const struct sp_rdma_limits *l = &c->limits;

	if (c->ended)
		return EIO;
	*a = (struct ibv_device_attr){.fw_ver = SP_VERSION,
				      .node_guid = shim_nic.guid,
				      .sys_image_guid = shim_nic.guid,
				      .max_mr_size = UINT64_MAX,
				      .page_size_cap = (uint64_t)~0xFFFull,
				      .hw_ver = 1,
				      .vendor_id = 0xFFFFFF, /* none; zero would be Xerox */
				      .max_qp = (int)l->qps,
				      .max_qp_wr = (int)l->wrs,
				      .device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_CHANGE_PHY_PORT |
							  IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
							  IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
							  IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
				      .max_sge = (int)l->sges,
				      .max_sge_rd = (int)l->sges,
				      .max_cq = (int)l->cqs,
				      .max_cqe = (int)l->cqes,
				      .max_mr = (int)l->mrs,
				      .max_mw = (int)l->mrs,
				      .max_pd = (int)l->pds,
				      .max_qp_rd_atom = (int)l->reads,
				      .max_res_rd_atom = (int)(l->reads * l->qps),
				      .max_qp_init_rd_atom = (int)l->reads,
				      .atomic_cap = IBV_ATOMIC_HCA,
				      .max_ah = (int)l->ahs,
				      .max_srq = (int)l->srqs,
				      .max_srq_wr = (int)l->wrs,
				      .max_srq_sge = (int)l->sges,
				      .max_pkeys = 1,
				      .local_ca_ack_delay = 15,
				      .phys_port_cnt = 1};
	return 0;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex a = {.completion_timestamp_mask = UINT64_MAX,
				       .hca_core_clock = 1000000, /* kHz: timestamps are in nanoseconds */
				       .phys_port_cnt_ex = 1};
	int rc;

	if (input && input->comp_mask)
		return EINVAL;
	if (size < sizeof(a.orig_attr) + sizeof(a.comp_mask))
		return EINVAL;
	rc = ibv_query_device(context, &a.orig_attr);
	if (rc)
		return rc;
	a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
	return 0;
}

static enum ibv_mtu mtu_of(uint32_t payload)
{
	return payload >= 4096	 ? IBV_MTU_4096
	       : payload >= 2048 ? IBV_MTU_2048
	       : payload >= 1024 ? IBV_MTU_1024
	       : payload >= 512	 ? IBV_MTU_512
				 : IBV_MTU_256;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct shim_context *c = shim_context_of(context);
	struct ibv_port_attr a = {.state = IBV_PORT_ACTIVE,
				  .max_mtu = IBV_MTU_4096,
				  .gid_tbl_len = SHIM_GIDS,
				  .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
				  .max_msg_sz = SP_RDMA_MSG,
				  .pkey_tbl_len = 1,
				  .max_vl_num = 1,
				  .active_width = 2,  /* 4X */
				  .active_speed = 32, /* EDR: 100 Gbit/s in all */
				  .phys_state = 5,    /* LinkUp */
				  .link_layer = IBV_LINK_LAYER_ETHERNET,
				  .flags = IBV_QPF_GRH_REQUIRED};

	if (port != 1)
		return EINVAL;
	shim_lock();
	if (!c->rdma) {
		shim_unlock();
		return EIO;
	}
	a.active_mtu = mtu_of(sp_dev_payload(shim_nic.dev, shim_nic.gid4[1] ? AF_INET : AF_INET6));
	if (c->ended) {
		a.state = IBV_PORT_DOWN;
		a.phys_state = 3; /* Disabled */
	}
	shim_unlock();
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port, (struct ibv_port_attr *)(void *)attr,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	(void)context;
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	if (values->comp_mask && clock_gettime(CLOCK_MONOTONIC, &values->raw_clock))
		return errno;
	return 0;
}

/* ---- GIDs and P_Keys ---- */
int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context;
	if (port != 1 || index < 0 || index >= SHIM_GIDS) {
		errno = EINVAL;
		return -1;
	}
	*gid = shim_nic.gid[index];
	return 0;
}

enum ibv_gid_type_sysfs { IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2 }; /* no header has it */
int shim_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, enum ibv_gid_type_sysfs *type);
SHIM_PRIVATE(shim_query_gid_type, ibv_query_gid_type)
int shim_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, enum ibv_gid_type_sysfs *type)
{
	(void)context;
	if (port != 1 || index >= SHIM_GIDS) {
		errno = EINVAL;
		return -1;
	}
	*type = IBV_GID_TYPE_SYSFS_ROCE_V2;
	return 0;
}

/* The interface that has the NIC's address as well, if there is one; 0. */
static uint32_t gid_interface(int index)
{
	const uint8_t *raw = shim_nic.gid[index].raw;
	struct ifaddrs *list, *i;
	uint32_t found = 0;

	if (getifaddrs(&list))
		return 0;
	for (i = list; i && !found; i = i->ifa_next) {
		const struct sockaddr *a = i->ifa_addr;

		if (!a)
			continue;
		if (a->sa_family == AF_INET && shim_nic.gid4[index] &&
		    !memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr, raw + 12, 4))
			found = if_nametoindex(i->ifa_name);
		if (a->sa_family == AF_INET6 && !shim_nic.gid4[index] &&
		    !memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, raw, 16))
			found = if_nametoindex(i->ifa_name);
	}
	freeifaddrs(list);
	return found;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t size)
{
	struct ibv_gid_entry e = {.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};

	(void)context;
	if (flags || port != 1)
		return EINVAL;
	if (index >= SHIM_GIDS)
		return EINVAL;
	e.gid = shim_nic.gid[index];
	e.ndev_ifindex = gid_interface((int)index);
	memcpy(entry, &e, size < sizeof(e) ? size : sizeof(e));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t room, uint32_t flags,
			     size_t size)
{
	uint32_t n = 0;

	if (flags || room < SHIM_GIDS)
		return -EINVAL;
	for (; n < SHIM_GIDS; n++)
		_ibv_query_gid_ex(context, 1, n, (void *)((uint8_t *)entries + n * size), 0, size);
	return (ssize_t)n;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xFFFF;
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	(void)context;
	if (port == 1 && (ntohs(pkey) & 0x7FFF) == 0x7FFF)
		return 0;
	errno = EINVAL;
	return -1;
}

/* ---- contexts ---- */
static void context_operations(struct shim_context *c)
{
	struct verbs_context *v = &c->vctx;

	v->sz = sizeof(*v);
	v->query_port = query_port;
	v->query_device_ex = query_device_ex;
	v->query_rt_values = query_rt_values;
	v->create_cq_ex = shim_create_cq_ex;
	v->create_srq_ex = shim_create_srq_ex;
	v->get_srq_num = shim_get_srq_num;
	v->create_qp_ex = shim_create_qp_ex;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->context.ops.poll_cq = shim_poll_cq;
	v->context.ops.req_notify_cq = shim_req_notify_cq;
	v->context.ops.alloc_mw = shim_alloc_mw;
	v->context.ops.bind_mw = shim_bind_mw;
	v->context.ops.dealloc_mw = shim_dealloc_mw;
	v->context.ops.post_send = shim_post_send;
	v->context.ops.post_recv = shim_post_recv;
	v->context.ops.post_srq_recv = shim_post_srq_recv;
}

/* Shares of the NIC may be smaller than what we would like. */
static int context_rdma(struct shim_context *c)
{
	struct sp_rdma_attr wish = {.qps = QPS, .cqs = CQS, .srqs = SRQS, .pds = PDS, .mrs = MRS, .ahs = AHS};
	unsigned others = 0;
	int rc;

	shim_lock();
	for (const struct shim_context *x = shim_nic.contexts; x; x = x->next)
		others++;
	if (others)
		wish.qps = others < MANY ? FEWER : FEW;
	rc = sp_rdma_open(shim_nic.dev, &wish, &c->rdma, NULL);
	if (rc)
		rc = sp_rdma_open(shim_nic.dev, NULL, &c->rdma, NULL);
	if (!rc)
		rc = sp_rdma_query(c->rdma, &c->limits);
	shim_unlock();
	return rc;
}

static void context_free(struct shim_context *c)
{
	shim_queue_close(&c->async);
	free(c->qp);
	free(c->region);
	free(c->srq);
	pthread_mutex_destroy(&c->vctx.context.mutex);
	free(c);
}

static int context_make(struct shim_context *c)
{
	int rc = shim_queue_open(&c->async);

	if (rc)
		return rc;
	c->source = (struct shim_source){.kind = SHIM_CONTEXT, .object = &c->vctx.context};
	c->qp = calloc(SHIM_CHAINS, sizeof(struct shim_qp *));
	c->region = calloc(SHIM_CHAINS, sizeof(struct shim_region *));
	if (!c->qp || !c->region)
		return -ENOMEM;
	rc = context_rdma(c);
	if (rc)
		return rc;
	c->srqs = c->limits.srqs;
	c->srq = calloc(c->srqs ? c->srqs : 1, sizeof(struct shim_srq *));
	if (!c->srq)
		return -ENOMEM;
	return shim_begin(c);
}

static int context_close(void *arg)
{
	struct shim_context *c = arg;
	int rc = sp_rdma_close(c->rdma);

	return rc == -EBUSY ? -EAGAIN : rc;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct shim_context *c = calloc(1, sizeof(*c));
	int rc = c ? shim_attach() : -ENOMEM;

	if (rc) {
		free(c);
		errno = -rc;
		return NULL;
	}
	pthread_mutex_init(&c->vctx.context.mutex, NULL);
	c->async.fd = -1;
	c->vctx.context.device = d;
	c->vctx.context.num_comp_vectors = 1;
	rc = context_make(c);
	if (rc) {
		if (c->rdma)
			shim_until(context_close, c);
		context_free(c);
		shim_detach();
		errno = -rc;
		return NULL;
	}
	context_operations(c);
	c->vctx.context.async_fd = c->async.fd;
	c->vctx.context.cmd_fd = c->async.fd; /* there is no other; programs only look whether it is valid */
	return &c->vctx.context;
}

int ibv_close_device(struct ibv_context *context)
{
	struct shim_context *c = shim_context_of(context);
	const bool ours = c->rdma; /* not a parent's */

	shim_leave(c);
	shim_free_all(c); /* also ends its sp_rdma */
	context_free(c);
	if (ours)
		shim_detach();
	return 0;
}

/* Sharing objects between processes is what only a kernel could do. */
struct ibv_context *ibv_import_device(int cmd_fd)
{
	(void)cmd_fd;
	errno = EOPNOTSUPP;
	return NULL;
}
