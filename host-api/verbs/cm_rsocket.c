/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: there are none, so no descriptor is one. Programs that could use them find their symbols. */
#include "cm.h"

#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/select.h>

int rsocket(int domain, int type, int protocol)
{
	(void)domain;
	(void)type;
	(void)protocol;
	return shim_cm_fail(EOPNOTSUPP);
}

/* Of other descriptors they are what the calls without an r are. */
int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return poll(fds, nfds, timeout);
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	return select(nfds, readfds, writefds, exceptfds, timeout);
}

/* Their arguments mean nothing here. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NO_RSOCKET return shim_cm_fail(EBADF)

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	NO_RSOCKET;
}

int rlisten(int socket, int backlog)
{
	NO_RSOCKET;
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	NO_RSOCKET;
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	NO_RSOCKET;
}

int rshutdown(int socket, int how)
{
	NO_RSOCKET;
}

int rclose(int socket)
{
	NO_RSOCKET;
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	NO_RSOCKET;
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen)
{
	NO_RSOCKET;
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	NO_RSOCKET;
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	NO_RSOCKET;
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr, socklen_t addrlen)
{
	NO_RSOCKET;
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	NO_RSOCKET;
}

ssize_t rread(int socket, void *buf, size_t count)
{
	NO_RSOCKET;
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	NO_RSOCKET;
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	NO_RSOCKET;
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	NO_RSOCKET;
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	NO_RSOCKET;
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	NO_RSOCKET;
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	NO_RSOCKET;
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	NO_RSOCKET;
}

int rfcntl(int socket, int cmd, ...)
{
	NO_RSOCKET;
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	NO_RSOCKET;
}

int riounmap(int socket, void *buf, size_t len)
{
	NO_RSOCKET;
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	errno = EBADF;
	return 0;
}
