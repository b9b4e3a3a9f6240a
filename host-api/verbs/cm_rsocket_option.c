/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of rsockets. Sizes count from the next connection on. */
#include "cm_rsocket.h"

#include <fcntl.h>
#include <infiniband/sa.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>

#define ENTRIES_LEAST 16
#define ENTRIES_MOST  0xFFFE
#define BUFFER_MOST   (1 << 26)

/* ---- setting ---- */
static uint32_t within(int value, int least, int most)
{
	return (uint32_t)(value < least ? least : value > most ? most : value);
}

static bool has_connection(const struct shim_rs *rs)
{
	return rs->cq != NULL;
}

/* As Linux does for TCP, a buffer is twice what the program wants. */
static uint32_t buffer(int value)
{
	return 2 * within(value, SHIM_RS_LEAST, BUFFER_MOST / 2);
}

static int set_flag(struct shim_rs *rs, int option, bool *flag, int value)
{
	int on = value != 0;

	*flag = on;
	return rdma_set_option(rs->id, RDMA_OPTION_ID, option, &on, sizeof(on));
}

static int set_socket(struct shim_rs *rs, int name, const void *value, socklen_t len, int v)
{
	switch (name) {
	case SO_REUSEADDR:
		return set_flag(rs, RDMA_OPTION_ID_REUSEADDR, &rs->reuse, v);
	case SO_SNDBUF:
		rs->send_size = has_connection(rs) ? rs->send_size : buffer(v);
		return 0;
	case SO_RCVBUF:
		rs->recv_size = has_connection(rs) ? rs->recv_size : buffer(v);
		return 0;
	case SO_KEEPALIVE:
		rs->keepalive = v;
		return 0;
	case SO_OOBINLINE:
		rs->oob_inline = v;
		return 0;
	case SO_LINGER: {
		struct linger l;

		if (len < sizeof(l))
			return shim_cm_fail(EINVAL);
		memcpy(&l, value, sizeof(l));
		rs->lingers = l.l_onoff;
		rs->linger = l.l_linger;
		return 0;
	}
	default:
		return shim_cm_fail(ENOPROTOOPT);
	}
}

static int set_tcp(struct shim_rs *rs, int name, int v)
{
	switch (name) {
	case TCP_NODELAY:
		rs->nodelay = v;
		return 0;
	case TCP_MAXSEG:
		return 0;
	case TCP_KEEPIDLE:
		rs->keep_idle = v;
		return v > 0 ? 0 : shim_cm_fail(EINVAL);
	case TCP_KEEPINTVL:
		rs->keep_interval = v;
		return v > 0 ? 0 : shim_cm_fail(EINVAL);
	case TCP_KEEPCNT:
		rs->keep_count = v;
		return v > 0 ? 0 : shim_cm_fail(EINVAL);
	default:
		return shim_cm_fail(ENOPROTOOPT);
	}
}

static int set_rdma(struct shim_rs *rs, int name, socklen_t len, int v)
{
	if (name == RDMA_ROUTE) /* RoCE has but one */
		return len && len % sizeof(struct ibv_path_data) == 0 ? 0 : shim_cm_fail(EINVAL);
	if (name != RDMA_SQSIZE && name != RDMA_RQSIZE && name != RDMA_INLINE && name != RDMA_IOMAPSIZE)
		return shim_cm_fail(ENOPROTOOPT);
	if (has_connection(rs))
		return shim_cm_fail(EINVAL);
	if (name == RDMA_SQSIZE)
		rs->send_entries = within(v, ENTRIES_LEAST, ENTRIES_MOST);
	else if (name == RDMA_RQSIZE)
		rs->recv_entries = within(v, ENTRIES_LEAST, ENTRIES_MOST);
	else if (name == RDMA_INLINE)
		rs->inlined = within(v, 0, ENTRIES_MOST);
	else
		rs->maps = within(v, 0, SHIM_RS_MAPS);
	return 0;
}

static int set(struct shim_rs *rs, int level, int name, const void *value, socklen_t len)
{
	int v;

	if (!value || len < sizeof(v))
		return shim_cm_fail(EINVAL);
	memcpy(&v, value, sizeof(v));
	switch (level) {
	case SOL_SOCKET:
		return set_socket(rs, name, value, len, v);
	case IPPROTO_TCP:
		return set_tcp(rs, name, v);
	case IPPROTO_IPV6:
		return name == IPV6_V6ONLY ? set_flag(rs, RDMA_OPTION_ID_AFONLY, &rs->v6only, v)
					   : shim_cm_fail(ENOPROTOOPT);
	case SOL_RDMA:
		return set_rdma(rs, name, len, v);
	default:
		return shim_cm_fail(ENOPROTOOPT);
	}
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	struct shim_rs *rs = shim_rs_of(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = set(rs, level, optname, optval, optlen);
	pthread_mutex_unlock(&rs->lock);
	shim_rs_put_back(rs);
	return rc;
}

/* ---- getting: false: there is no such option ---- */
static bool get_socket(struct shim_rs *rs, int name, int *v)
{
	switch (name) {
	case SO_REUSEADDR:
		*v = rs->reuse;
		return true;
	case SO_SNDBUF:
		*v = (int)rs->send_size;
		return true;
	case SO_RCVBUF:
		*v = (int)rs->recv_size;
		return true;
	case SO_KEEPALIVE:
		*v = rs->keepalive;
		return true;
	case SO_OOBINLINE:
		*v = rs->oob_inline;
		return true;
	case SO_ERROR:
		shim_rs_progress(rs);
		*v = shim_rs_take_error(rs);
		return true;
	case SO_TYPE:
		*v = SOCK_STREAM;
		return true;
	case SO_DOMAIN:
		*v = rs->family;
		return true;
	case SO_ACCEPTCONN:
		*v = rs->state == SHIM_RS_LISTENING;
		return true;
	default:
		return false;
	}
}

static bool get_tcp(const struct shim_rs *rs, int name, int *v)
{
	switch (name) {
	case TCP_NODELAY:
		*v = rs->nodelay;
		return true;
	case TCP_MAXSEG:
		*v = 128 << (shim_cm.path_mtu_code ? shim_cm.path_mtu_code : IBV_MTU_1024);
		return true;
	case TCP_KEEPIDLE:
		*v = rs->keep_idle;
		return true;
	case TCP_KEEPINTVL:
		*v = rs->keep_interval;
		return true;
	case TCP_KEEPCNT:
		*v = rs->keep_count;
		return true;
	default:
		return false;
	}
}

static bool get_rdma(const struct shim_rs *rs, int name, int *v)
{
	switch (name) {
	case RDMA_SQSIZE:
		*v = (int)rs->send_entries;
		return true;
	case RDMA_RQSIZE:
		*v = (int)rs->recv_entries;
		return true;
	case RDMA_INLINE:
		*v = (int)rs->inlined;
		return true;
	case RDMA_IOMAPSIZE:
		*v = (int)rs->maps;
		return true;
	default:
		return false;
	}
}

static void answer(const void *from, socklen_t size, void *value, socklen_t *len)
{
	*len = *len < size ? *len : size;
	memcpy(value, from, *len);
}

static int get_route(const struct shim_rs *rs, void *value, socklen_t *len)
{
	const struct ibv_sa_path_rec *r = rs->id->route.path_rec;
	struct ibv_path_data p = {.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL};

	if (!r)
		return shim_cm_fail(ENOTCONN);
	memcpy(&p.path.sgid, &r->sgid, sizeof(p.path.sgid));
	memcpy(&p.path.dgid, &r->dgid, sizeof(p.path.dgid));
	p.path.flowlabel_hoplimit = htonl(r->hop_limit);
	p.path.tclass = r->traffic_class;
	p.path.reversible_numpath = 0x80 | 1;
	p.path.pkey = r->pkey;
	p.path.mtu = (uint8_t)(r->mtu | r->mtu_selector << 6);
	p.path.rate = (uint8_t)(r->rate | r->rate_selector << 6);
	p.path.packetlifetime = (uint8_t)(r->packet_life_time | r->packet_life_time_selector << 6);
	answer(&p, sizeof(p), value, len);
	return 0;
}

static int get(struct shim_rs *rs, int level, int name, void *value, socklen_t *len)
{
	bool known = false;
	int v = 0;

	if (!value || !len)
		return shim_cm_fail(EFAULT);
	if (level == SOL_RDMA && name == RDMA_ROUTE)
		return get_route(rs, value, len);
	if (level == SOL_SOCKET && name == SO_LINGER) {
		const struct linger l = {.l_onoff = rs->lingers, .l_linger = rs->linger};

		answer(&l, sizeof(l), value, len);
		return 0;
	}
	if (level == SOL_SOCKET)
		known = get_socket(rs, name, &v);
	else if (level == IPPROTO_TCP)
		known = get_tcp(rs, name, &v);
	else if (level == SOL_RDMA)
		known = get_rdma(rs, name, &v);
	else if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
		v = rs->v6only;
		known = true;
	}
	if (!known)
		return shim_cm_fail(ENOPROTOOPT);
	answer(&v, sizeof(v), value, len);
	return 0;
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	struct shim_rs *rs = shim_rs_of(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = get(rs, level, optname, optval, optlen);
	pthread_mutex_unlock(&rs->lock);
	shim_rs_put_back(rs);
	return rc;
}

/* ---- fcntl ---- */
int rfcntl(int socket, int cmd, ...)
{
	struct shim_rs *rs = shim_rs_of(socket);
	va_list arguments;
	int flags, rc = 0;

	if (!rs)
		return -1;
	va_start(arguments, cmd);
	switch (cmd) {
	case F_GETFL:
		rc = O_RDWR | (rs->nonblocking ? O_NONBLOCK : 0);
		break;
	case F_SETFL:
		flags = va_arg(arguments, int);
		pthread_mutex_lock(&rs->lock);
		rs->nonblocking = flags & O_NONBLOCK;
		pthread_mutex_unlock(&rs->lock);
		break;
	case F_GETFD:
		rc = fcntl(socket, F_GETFD);
		break;
	case F_SETFD:
		rc = fcntl(socket, F_SETFD, va_arg(arguments, int));
		break;
	default:
		rc = shim_cm_fail(EOPNOTSUPP);
	}
	va_end(arguments);
	shim_rs_put_back(rs);
	return rc;
}
