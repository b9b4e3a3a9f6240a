/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: making, binding, listening, connecting and ending. */
#include "cm_rsocket.h"

#include <netinet/in.h>

#define RESOLVE_MS 2000
#define CLOSE_MS   5000 /* rclose() waits so long for what was sent, if SO_LINGER does not say */

/* ---- making ---- */
int rsocket(int domain, int type, int protocol)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct shim_rs *rs;
	int error;

	if (domain != AF_INET && domain != AF_INET6)
		return shim_cm_fail(EAFNOSUPPORT);
	if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM || (protocol && protocol != IPPROTO_TCP))
		return shim_cm_fail(EPROTONOSUPPORT);
	channel = rdma_create_event_channel();
	if (!channel)
		return -1;
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		goto no_id;
	rs = shim_rs_new(domain, channel, id);
	if (!rs)
		goto no_socket;
	rs->nonblocking = type & SOCK_NONBLOCK;
	if (!shim_rs_insert(rs))
		return rs->fd;
	shim_rs_put_back(rs);
	return -1;
no_socket:
	error = errno;
	rdma_destroy_id(id);
	errno = error;
no_id:
	error = errno;
	rdma_destroy_event_channel(channel);
	return shim_cm_fail(error);
}

static int bind_to(struct shim_rs *rs, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage a = {0};

	if (!addr || rs->state != SHIM_RS_OPEN || len < shim_cm_length(addr))
		return shim_cm_fail(EINVAL);
	if (addr->sa_family != rs->family)
		return shim_cm_fail(EAFNOSUPPORT);
	memcpy(&a, addr, shim_cm_length(addr));
	if (rdma_bind_addr(rs->id, (struct sockaddr *)&a))
		return shim_cm_fail(errno == ENODEV ? EADDRNOTAVAIL : errno);
	rs->state = SHIM_RS_BOUND;
	return 0;
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct shim_rs *rs = shim_rs_of(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = bind_to(rs, addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	shim_rs_put_back(rs);
	return rc;
}

/* ---- the passive end ---- */
static int listen_at(struct shim_rs *rs, int backlog)
{
	struct sockaddr_storage any = {.ss_family = (sa_family_t)rs->family};

	if (rs->state == SHIM_RS_LISTENING)
		return 0;
	if (rs->state == SHIM_RS_OPEN && bind_to(rs, (struct sockaddr *)&any, sizeof(any)))
		return -1;
	if (rs->state != SHIM_RS_BOUND)
		return shim_cm_fail(EINVAL);
	if (rdma_listen(rs->id, backlog > 0 ? backlog : 1))
		return -1;
	rs->state = SHIM_RS_LISTENING;
	return 0;
}

int rlisten(int socket, int backlog)
{
	struct shim_rs *rs = shim_rs_of(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = listen_at(rs, backlog);
	pthread_mutex_unlock(&rs->lock);
	shim_rs_put_back(rs);
	return rc;
}

/* Options that a connection has from its listener. */
static void inherit(struct shim_rs *rs, const struct shim_rs *from)
{
	rs->nodelay = from->nodelay;
	rs->keepalive = from->keepalive;
	rs->oob_inline = from->oob_inline;
	rs->lingers = from->lingers;
	rs->linger = from->linger;
	rs->keep_idle = from->keep_idle;
	rs->keep_interval = from->keep_interval;
	rs->keep_count = from->keep_count;
	rs->send_entries = from->send_entries;
	rs->recv_entries = from->recv_entries;
	rs->inlined = from->inlined;
	rs->send_size = from->send_size;
	rs->recv_size = from->recv_size;
	rs->maps = from->maps;
}

static int answer(struct shim_rs *rs, const struct rdma_cm_event *e)
{
	struct shim_rs_hello hello;
	struct rdma_conn_param param = {.private_data = &hello,
					.private_data_len = sizeof(hello),
					.flow_control = 1,
					.retry_count = 7,
					.rnr_retry_count = 7};

	if (shim_rs_learn(rs, e->param.conn.private_data, e->param.conn.private_data_len) || shim_rs_setup(rs))
		return -1;
	shim_rs_hello(rs, &hello);
	rs->state = SHIM_RS_ACCEPTING;
	return rdma_accept(rs->id, &param);
}

/* The request becomes a socket with a channel of its own. NULL: errno; the request is gone. */
static struct shim_rs *take_request(const struct shim_rs *listener, struct rdma_cm_event *e)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct shim_rs *rs = NULL;
	int error = errno;

	if (channel && !rdma_migrate_id(e->id, channel))
		rs = shim_rs_new(e->id->route.addr.src_addr.sa_family, channel, e->id);
	if (!rs) {
		error = errno;
		rdma_destroy_id(e->id);
		if (channel)
			rdma_destroy_event_channel(channel);
		errno = error;
		return NULL;
	}
	inherit(rs, listener);
	if (!answer(rs, e) && !shim_rs_insert(rs))
		return rs;
	shim_rs_put_back(rs);
	return NULL;
}

static struct shim_rs_request *next_request(struct shim_rs *rs)
{
	struct shim_rs_request *r;

	for (;;) {
		if (rs->gone || rs->state != SHIM_RS_LISTENING) {
			const int error = shim_rs_take_error(rs);

			errno = error ? error : EINVAL;
			return NULL;
		}
		shim_rs_progress(rs);
		r = rs->requests;
		if (r)
			break;
		if (rs->nonblocking) {
			errno = EAGAIN;
			return NULL;
		}
		if (shim_rs_wait(rs, -1))
			return NULL;
	}
	rs->requests = r->next;
	if (!rs->requests)
		rs->last_request = &rs->requests;
	return r;
}

static void copy_address(const struct sockaddr *from, int family, struct sockaddr *to, socklen_t *len)
{
	struct sockaddr_storage a = {.ss_family = (sa_family_t)family};
	const socklen_t all = shim_cm_length((struct sockaddr *)&a);

	if (from->sa_family == family)
		memcpy(&a, from, all);
	memcpy(to, &a, *len < all ? *len : all);
	*len = all;
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct shim_rs *listener = shim_rs_of(socket), *rs = NULL;
	int fd = -1;

	if (!listener)
		return -1;
	pthread_mutex_lock(&listener->lock);
	while (!rs) {
		struct shim_rs_request *r = next_request(listener);
		int error;

		if (!r)
			break;
		rs = take_request(listener, r->event);
		error = errno;
		rdma_ack_cm_event(r->event);
		free(r);
		/* A peer that has gone, or is no rsocket, is no matter of the program. */
		if (!rs && error != EPROTO && error != EINVAL) {
			errno = error;
			break;
		}
	}
	if (rs && addr && addrlen)
		copy_address(&rs->id->route.addr.dst_addr, rs->family, addr, addrlen);
	if (rs)
		fd = rs->fd;
	pthread_mutex_unlock(&listener->lock);
	shim_rs_put_back(listener);
	return fd;
}

/* ---- the active end ---- */
static int begin(struct shim_rs *rs, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage a = {0};

	if (!addr || len < shim_cm_length(addr))
		return shim_cm_fail(EINVAL);
	if (addr->sa_family != rs->family)
		return shim_cm_fail(EAFNOSUPPORT);
	memcpy(&a, addr, shim_cm_length(addr));
	rs->state = SHIM_RS_CONNECTING;
	if (!rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)&a, RESOLVE_MS))
		return 0;
	shim_rs_end(rs, 0);
	return shim_cm_fail(errno == ENODEV ? ENETUNREACH : errno);
}

static int connect_to(struct shim_rs *rs, const struct sockaddr *addr, socklen_t len)
{
	switch (rs->state) {
	case SHIM_RS_OPEN:
	case SHIM_RS_BOUND:
		if (begin(rs, addr, len))
			return -1;
		break;
	case SHIM_RS_CONNECTING:
		if (rs->nonblocking && !shim_rs_progress(rs))
			return shim_cm_fail(EALREADY);
		break;
	default:
		return shim_cm_fail(shim_rs_has_peer(rs) ? EISCONN : EINVAL);
	}
	for (;;) {
		shim_rs_progress(rs);
		if (rs->state != SHIM_RS_CONNECTING)
			break;
		if (rs->nonblocking)
			return shim_cm_fail(EINPROGRESS);
		if (shim_rs_wait(rs, -1))
			return -1;
	}
	if (rs->state == SHIM_RS_CONNECTED)
		return 0;
	return shim_cm_fail(rs->error ? shim_rs_take_error(rs) : ECONNABORTED);
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct shim_rs *rs = shim_rs_of(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = connect_to(rs, addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	shim_rs_put_back(rs);
	return rc;
}

/* ---- the end ---- */
/* Waits for `done`, no longer than until then. */
static bool wait_for(struct shim_rs *rs, bool (*done)(const struct shim_rs *), uint64_t until)
{
	for (;;) {
		const uint64_t now = shim_rs_now();

		shim_rs_progress(rs);
		if (done(rs))
			return true;
		if (now >= until || (shim_rs_wait(rs, (int)((until - now) / 1000 + 1)) && errno != EINTR))
			return false;
	}
}

static bool can_speak(const struct shim_rs *rs)
{
	return rs->controls || rs->state != SHIM_RS_CONNECTED;
}

static bool no_more_accepting(const struct shim_rs *rs)
{
	return rs->state != SHIM_RS_ACCEPTING;
}

/* Both directions ended here: the peer hears of it, after all that was sent. */
static void say_end(struct shim_rs *rs, bool all, uint64_t until)
{
	wait_for(rs, no_more_accepting, until);
	if (rs->state != SHIM_RS_CONNECTED || !wait_for(rs, can_speak, until) || rs->state != SHIM_RS_CONNECTED)
		return;
	if (!shim_rs_control(rs, all ? SHIM_RS_DISCONNECT : SHIM_RS_SHUTDOWN) && all)
		shim_rs_end(rs, 0);
}

static int shut(struct shim_rs *rs, int how, uint64_t until)
{
	const bool reads = rs->reads && how == SHUT_WR, writes = rs->writes && how == SHUT_RD;
	const bool tell = rs->writes && !writes;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return shim_cm_fail(EINVAL);
	if (!shim_rs_has_peer(rs) && rs->state != SHIM_RS_ENDED)
		return shim_cm_fail(ENOTCONN);
	rs->reads = reads;
	rs->writes = writes;
	/* A peer that has ended its direction before knows that all is over now. */
	if (tell || (!reads && !writes))
		say_end(rs, !writes && (!reads || !rs->peer_writes), until);
	shim_rs_ring(rs);
	return 0;
}

int rshutdown(int socket, int how)
{
	struct shim_rs *rs = shim_rs_of(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = shut(rs, how, shim_rs_now() + CLOSE_MS * 1000);
	pthread_mutex_unlock(&rs->lock);
	shim_rs_put_back(rs);
	return rc;
}

static bool all_sent(const struct shim_rs *rs)
{
	return shim_rs_all_sent(rs);
}

int rclose(int socket)
{
	struct shim_rs *rs = shim_rs_remove(socket);
	uint64_t until;

	if (!rs)
		return -1;
	if (rs->generation == shim_cm.generation) {
		pthread_mutex_lock(&rs->lock);
		rs->gone = true;
		until = shim_rs_now() + (rs->lingers ? (uint64_t)rs->linger * 1000000 : CLOSE_MS * 1000);
		if (shim_rs_has_peer(rs) && !(rs->lingers && !rs->linger))
			shut(rs, SHUT_RDWR, until);
		if (rs->cq && !(rs->lingers && !rs->linger))
			wait_for(rs, all_sent, until);
		shim_rs_end(rs, 0);
		shim_rs_ring(rs);
		pthread_mutex_unlock(&rs->lock);
	}
	shim_rs_put_back(rs);
	return 0;
}

/* ---- names ---- */
static int name(int socket, bool peer, struct sockaddr *addr, socklen_t *len)
{
	struct shim_rs *rs = shim_rs_of(socket);
	int rc = 0;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	if (!addr || !len)
		rc = shim_cm_fail(EFAULT);
	else if (peer && !shim_rs_has_peer(rs) && rs->state != SHIM_RS_ENDED)
		rc = shim_cm_fail(ENOTCONN);
	else
		copy_address(peer ? &rs->id->route.addr.dst_addr : &rs->id->route.addr.src_addr, rs->family, addr, len);
	pthread_mutex_unlock(&rs->lock);
	shim_rs_put_back(rs);
	return rc;
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return name(socket, true, addr, addrlen);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return name(socket, false, addr, addrlen);
}
