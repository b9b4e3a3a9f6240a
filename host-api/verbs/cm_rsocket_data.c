/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: sending, receiving, and memory that the peer writes to. */
#include "cm_rsocket.h"

#include <limits.h>

static size_t total(const struct iovec *iov, size_t count)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += iov[i].iov_len;
	return bytes < SSIZE_MAX ? bytes : SSIZE_MAX;
}

/* Empty parts are passed over. */
static struct shim_rs_cursor cursor(const struct iovec *iov)
{
	return (struct shim_rs_cursor){.iov = iov};
}

/* One such call at a time. A call that does not wait does not wait for another either. */
static int enter(pthread_mutex_t *turn, bool waits)
{
	if (waits)
		return pthread_mutex_lock(turn);
	return pthread_mutex_trylock(turn) ? EAGAIN : 0;
}

/* ---- sending ---- */
/* 0, EAGAIN: not now; or why never. */
static int sendable(struct shim_rs *rs)
{
	if (rs->error)
		return shim_rs_take_error(rs);
	if (rs->state == SHIM_RS_ENDED || (rs->state == SHIM_RS_CONNECTED && !rs->writes))
		return rs->writes ? ECONNRESET : EPIPE;
	if (rs->state < SHIM_RS_CONNECTING)
		return ENOTCONN;
	return shim_rs_can_send(rs) ? 0 : EAGAIN;
}

/* offset NULL: into the stream. */
static ssize_t send_on(struct shim_rs *rs, const struct iovec *iov, size_t left, const off_t *offset, bool waits)
{
	struct shim_rs_cursor from = cursor(iov);
	size_t done = 0;
	int error;

	shim_rs_progress(rs);
	for (;;) {
		ssize_t n;

		error = sendable(rs);
		if (!error)
			shim_rs_tell_maps(rs);
		error = error ? error : sendable(rs);
		if (error == EAGAIN && waits && !rs->gone) {
			if (!shim_rs_wait(rs, -1))
				continue;
			error = errno;
		}
		if (error || done == left)
			break;
		n = offset ? shim_rs_put_at(rs, &from, left - done, (uint64_t)*offset + done)
			   : shim_rs_put(rs, &from, left - done);
		error = n < 0 ? errno : 0;
		if (error)
			break;
		done += (size_t)n;
		if (done == left)
			break;
		if (!shim_rs_can_send(rs))
			shim_rs_progress(rs);
	}
	if (done || !error)
		return (ssize_t)done;
	return shim_cm_fail(error);
}

static ssize_t send_parts(int socket, const struct iovec *iov, size_t count, const off_t *offset, int flags)
{
	struct shim_rs *rs = shim_rs_of(socket);
	bool waits;
	ssize_t rc;
	int error;

	if (!rs)
		return -1;
	waits = !rs->nonblocking && !(flags & MSG_DONTWAIT);
	error = flags & MSG_OOB ? EOPNOTSUPP : enter(&rs->sending, waits);
	if (error) {
		shim_rs_put_back(rs);
		return shim_cm_fail(error);
	}
	pthread_mutex_lock(&rs->lock);
	rc = send_on(rs, iov, total(iov, count), offset, waits);
	pthread_mutex_unlock(&rs->lock);
	pthread_mutex_unlock(&rs->sending);
	shim_rs_put_back(rs);
	return rc;
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return send_parts(socket, &iov, 1, NULL, flags);
}

/* A stream has its peer: an address is passed over, as TCP does. */
ssize_t rsendto(int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr, socklen_t addrlen)
{
	(void)dest_addr;
	(void)addrlen;
	return rsend(socket, buf, len, flags);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return shim_cm_fail(EOPNOTSUPP);
	return send_parts(socket, msg->msg_iov, msg->msg_iovlen, NULL, flags);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	return iovcnt < 0 ? shim_cm_fail(EINVAL) : send_parts(socket, iov, (size_t)iovcnt, NULL, 0);
}

/* ---- receiving ---- */
/* 0, EAGAIN, or an error. *end: there is nothing more to come. */
static int readable(struct shim_rs *rs, bool *end)
{
	*end = false;
	if (rs->recv_bytes)
		return 0;
	if (rs->error)
		return shim_rs_take_error(rs);
	if (rs->state < SHIM_RS_CONNECTING)
		return ENOTCONN;
	*end = rs->state == SHIM_RS_ENDED || (rs->state == SHIM_RS_CONNECTED && (!rs->peer_writes || !rs->reads));
	return *end ? 0 : EAGAIN;
}

static ssize_t receive_on(struct shim_rs *rs, const struct iovec *iov, size_t left, int flags, bool waits)
{
	struct shim_rs_cursor to = cursor(iov);
	const bool peek = flags & MSG_PEEK;
	size_t done = 0;
	bool end;
	int error;

	if (rs->recv_bytes < left)
		shim_rs_progress(rs);
	for (;;) {
		error = readable(rs, &end);
		if (error == EAGAIN && waits && !rs->gone) {
			if (!shim_rs_wait(rs, -1))
				continue;
			error = errno;
		}
		if (error || end)
			break;
		done += shim_rs_get(rs, &to, left - done, peek);
		shim_rs_give_credits(rs);
		if (done == left || peek || !(flags & MSG_WAITALL))
			break;
		shim_rs_progress(rs);
	}
	if (done || !error)
		return (ssize_t)done;
	return shim_cm_fail(error);
}

static ssize_t receive_parts(int socket, const struct iovec *iov, size_t count, int flags)
{
	struct shim_rs *rs = shim_rs_of(socket);
	bool waits;
	ssize_t rc;
	int error;

	if (!rs)
		return -1;
	waits = !rs->nonblocking && !(flags & MSG_DONTWAIT);
	error = flags & (MSG_OOB | MSG_TRUNC | MSG_ERRQUEUE) ? EOPNOTSUPP : enter(&rs->receiving, waits);
	if (error) {
		shim_rs_put_back(rs);
		return shim_cm_fail(error);
	}
	pthread_mutex_lock(&rs->lock);
	rc = total(iov, count) ? receive_on(rs, iov, total(iov, count), flags, waits) : 0;
	pthread_mutex_unlock(&rs->lock);
	pthread_mutex_unlock(&rs->receiving);
	shim_rs_put_back(rs);
	return rc;
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = len};

	return receive_parts(socket, &iov, 1, flags);
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen)
{
	const ssize_t n = rrecv(socket, buf, len, flags);

	if (n > 0 && src_addr && addrlen)
		rgetpeername(socket, src_addr, addrlen);
	return n;
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	const ssize_t n = receive_parts(socket, msg->msg_iov, msg->msg_iovlen, flags);

	if (n >= 0) {
		msg->msg_namelen = 0;
		msg->msg_controllen = 0;
		msg->msg_flags = 0;
	}
	return n;
}

ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	return iovcnt < 0 ? shim_cm_fail(EINVAL) : receive_parts(socket, iov, (size_t)iovcnt, 0);
}

/* ---- memory that the peer writes to ---- */
static int free_index(const struct shim_rs *rs)
{
	for (uint32_t i = 0; i < rs->peer_maps.len; i++) {
		const struct shim_rs_map *map = rs->mapped;

		while (map && map->index != (int)i)
			map = map->next;
		if (!map)
			return (int)i;
	}
	return -1;
}

static off_t map_on(struct shim_rs *rs, void *buf, size_t len, int prot, off_t offset)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | (prot & PROT_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
	const int index = prot & PROT_WRITE ? free_index(rs) : -1;
	struct shim_rs_map *map;

	if (!shim_rs_has_peer(rs))
		return shim_cm_fail(ENOTCONN);
	if (prot & PROT_WRITE && index < 0)
		return shim_cm_fail(ENOMEM);
	map = calloc(1, sizeof(*map));
	if (!map)
		return -1;
	*map = (struct shim_rs_map){.buf = buf,
				    .len = len,
				    .index = index,
				    .offset = offset == -1 ? (uintptr_t)buf : (uint64_t)offset,
				    .mr = ibv_reg_mr(rs->id->pd, buf, len, access),
				    .next = rs->mapped};
	if (!map->mr) {
		free(map);
		return -1;
	}
	rs->mapped = map;
	return (off_t)map->offset;
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct shim_rs *rs = shim_rs_of(socket);
	off_t rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = !len || len > UINT32_MAX || flags || (prot & ~PROT_WRITE) ? shim_cm_fail(EINVAL)
								       : map_on(rs, buf, len, prot, offset);
	pthread_mutex_unlock(&rs->lock);
	shim_rs_put_back(rs);
	return rc;
}

int riounmap(int socket, void *buf, size_t len)
{
	struct shim_rs *rs = shim_rs_of(socket);
	struct shim_rs_map **at, *map;
	int error = EINVAL;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	for (at = &rs->mapped; *at && ((*at)->buf != buf || (*at)->len != len); at = &(*at)->next)
		;
	map = *at;
	if (map) {
		*at = map->next;
		error = ibv_dereg_mr(map->mr);
		free(map);
	}
	pthread_mutex_unlock(&rs->lock);
	shim_rs_put_back(rs);
	return error ? shim_cm_fail(error) : 0;
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = count};

	return (size_t)send_parts(socket, &iov, 1, &offset, flags);
}
