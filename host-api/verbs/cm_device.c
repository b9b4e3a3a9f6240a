/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC that all ids are on: its context is opened once, and stays until the process ends. */
#include "cm.h"

#include <arpa/inet.h>
#include <sys/random.h>
#include <time.h>

struct shim_cm shim_cm = {.mutex = PTHREAD_MUTEX_INITIALIZER, .acked = PTHREAD_COND_INITIALIZER};

/* Taken before the locks. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

/* ---- forks: a child begins anew, and can only free what its parent has made. Queues of events may be in any state
 * there: it leaves them alone. The mutex is not taken, as the service thread may want it under shim_lock(). ---- */
static void fork_prepare(void)
{
	pthread_mutex_lock(&opening);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&opening);
}

static void fork_child(void)
{
	shim_cm = (struct shim_cm){.mutex = PTHREAD_MUTEX_INITIALIZER,
				   .acked = PTHREAD_COND_INITIALIZER,
				   .generation = shim_cm.generation + 1};
	pthread_mutex_init(&opening, NULL);
}

__attribute__((constructor)) static void fork_watch(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- opening ---- */
static int open_device(void)
{
	int count, error = ENODEV;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *verbs = list && count ? ibv_open_device(list[0]) : NULL;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	if (list)
		ibv_free_device_list(list);
	if (!verbs)
		return shim_cm_fail(ENODEV);
	error = ibv_query_device(verbs, &attr);
	error = error ? error : ibv_query_port(verbs, 1, &port);
	shim_cm.pd = error ? NULL : ibv_alloc_pd(verbs);
	if (!shim_cm.pd) {
		ibv_close_device(verbs);
		return shim_cm_fail(error ? error : ENOMEM);
	}
	shim_cm.reads = (uint8_t)(attr.max_qp_rd_atom < 255 ? attr.max_qp_rd_atom : 254);
	shim_cm.path_mtu_code = (uint8_t)port.active_mtu;
	for (int i = 0; i < SHIM_CM_GIDS && i < port.gid_tbl_len; i++) {
		union ibv_gid gid;

		if (ibv_query_gid(verbs, 1, i, &gid))
			memset(&gid, 0, sizeof(gid));
		memcpy(shim_cm.gid[i], gid.raw, 16);
		shim_cm.gids = (uint8_t)(i + 1);
	}
	shim_cm.verbs = verbs;
	shim_lock();
	shim_context_set_cm(verbs, shim_cm_notice, NULL);
	shim_unlock();
	return 0;
}

int shim_cm_open(void)
{
	int rc;

	pthread_mutex_lock(&opening);
	rc = shim_cm.verbs ? 0 : open_device();
	pthread_mutex_unlock(&opening);
	return rc;
}

struct ibv_context **rdma_get_devices(int *count)
{
	struct ibv_context **list = shim_cm_open() ? NULL : calloc(2, sizeof(struct ibv_context *));

	if (list)
		list[0] = shim_cm.verbs;
	if (count)
		*count = list ? 1 : 0;
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}

/* ---- addresses ---- */
socklen_t shim_cm_length(const struct sockaddr *a)
{
	return !a			  ? 0
	       : a->sa_family == AF_INET  ? sizeof(struct sockaddr_in)
	       : a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					  : 0;
}

__be16 *shim_cm_port(struct sockaddr *a)
{
	return a->sa_family == AF_INET	  ? &((struct sockaddr_in *)a)->sin_port
	       : a->sa_family == AF_INET6 ? &((struct sockaddr_in6 *)a)->sin6_port
					  : NULL;
}

void shim_cm_ip_of(const struct sockaddr *a, uint8_t ip[16])
{
	if (a->sa_family == AF_INET6) {
		memcpy(ip, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
		return;
	}
	memcpy(ip, mapped, 12);
	memcpy(ip + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
}

void shim_cm_sockaddr(const uint8_t ip[16], uint16_t port, int family, struct sockaddr_storage *to)
{
	struct sockaddr_in *four = (struct sockaddr_in *)to;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof(*to));
	to->ss_family = (sa_family_t)family;
	*shim_cm_port((struct sockaddr *)to) = htons(port);
	if (family == AF_INET)
		memcpy(&four->sin_addr, ip + 12, 4);
	else
		memcpy(&six->sin6_addr, ip, 16);
}

bool shim_cm_is_any(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? ((const struct sockaddr_in *)a)->sin_addr.s_addr == INADDR_ANY
				       : IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

bool shim_cm_is_loopback(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127
				       : IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

int shim_cm_gid_index(const uint8_t ip[16])
{
	for (int i = 0; i < shim_cm.gids; i++)
		if (!memcmp(shim_cm.gid[i], ip, 16))
			return i;
	return -1;
}

bool shim_cm_own_address(const struct sockaddr *wanted, uint8_t ip[16])
{
	const bool choose = shim_cm_is_any(wanted) || shim_cm_is_loopback(wanted);
	static const uint8_t none[16];
	uint8_t exact[16];

	shim_cm_ip_of(wanted, exact);
	for (int i = 0; i < shim_cm.gids; i++) {
		const uint8_t *own = shim_cm.gid[i];

		if (!memcmp(own, none, 16))
			continue;
		if (choose ? !memcmp(own, mapped, 12) == (wanted->sa_family == AF_INET) : !memcmp(own, exact, 16)) {
			memcpy(ip, own, 16);
			return true;
		}
	}
	return false;
}

/* PSNs: one that others guess helps forgers only beside the QP number and the keys. */
uint32_t shim_cm_random(void)
{
	struct timespec now;
	uint32_t value;

	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) == sizeof(value))
		return value;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint32_t)now.tv_nsec * 2654435761u;
}
