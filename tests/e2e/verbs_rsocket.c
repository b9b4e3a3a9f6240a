/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_rsocket calls ADDRESS: what rsocket(7) says of the calls, both ends in this process.
 * verbs_rsocket serve|ask exchange ADDRESS PORT BYTES: both ways at once, in random sizes, each byte checked; then half
 *   closes.
 * verbs_rsocket serve|ask many ADDRESS PORT COUNT: connections, and rpoll() on all of them.
 * verbs_rsocket serve|ask receive|send|poll ADDRESS PORT: one end, "ask", waits in that call until the other is killed.
 * Exit 0: as expected; else a line says what is not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what)	   ((what) ? (void)0 : failed(__LINE__, #what))
#define FAILS(what, error) (errno = 0, CHECK((what) == -1), errno == (error) ? (void)0 : failed(__LINE__, #what))
#define PART		   100000
#define MANY		   64

static void failed(int line, const char *what)
{
	printf("line %d: %s (errno %d, %s)\n", line, what, errno, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static struct sockaddr *address(const char *ip, int port, socklen_t *len)
{
	static struct sockaddr_storage a;
	struct sockaddr_in *four = (struct sockaddr_in *)&a;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&a;

	memset(&a, 0, sizeof(a));
	a.ss_family = strchr(ip, ':') ? AF_INET6 : AF_INET;
	*len = a.ss_family == AF_INET ? sizeof(*four) : sizeof(*six);
	if (a.ss_family == AF_INET) {
		four->sin_port = htons((uint16_t)port);
		CHECK(inet_pton(AF_INET, ip, &four->sin_addr) == 1);
	} else {
		six->sin6_port = htons((uint16_t)port);
		CHECK(inet_pton(AF_INET6, ip, &six->sin6_addr) == 1);
	}
	return (struct sockaddr *)&a;
}

static int listener(const char *ip, int port)
{
	socklen_t len;
	struct sockaddr *a = address(ip, port, &len);
	const int fd = rsocket(a->sa_family, SOCK_STREAM, 0), on = 1;

	CHECK(fd >= 0);
	CHECK(!rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	CHECK(!rbind(fd, a, len));
	CHECK(!rlisten(fd, MANY));
	return fd;
}

static int connected(const char *ip, int port)
{
	socklen_t len;
	struct sockaddr *a = address(ip, port, &len);
	const int fd = rsocket(a->sa_family, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK(!rconnect(fd, a, len));
	return fd;
}

static int one_end(bool serve, const char *ip, int port)
{
	int at, fd;

	if (!serve)
		return connected(ip, port);
	at = listener(ip, port);
	fd = raccept(at, NULL, NULL);
	CHECK(fd >= 0);
	CHECK(!rclose(at));
	return fd;
}

/* ---- both ways at once ---- */
static struct end {
	int fd;
	uint64_t sends, expects;
	unsigned seed;
	bool serve;
} end;

static uint8_t byte_at(bool of_server, uint64_t at)
{
	const uint64_t x = (at + (of_server ? 7 : 3)) * 0x9E3779B97F4A7C15u;

	return (uint8_t)(x >> 56);
}

static void *send_all(void *unused)
{
	static uint8_t bytes[PART];
	unsigned seed = end.seed;
	uint64_t done = 0;

	(void)unused;
	while (done < end.sends) {
		/* Small ones, which go inline, as well as large ones. */
		const size_t most = rand_r(&seed) % 2 ? 100 : PART;
		size_t n = 1 + (size_t)rand_r(&seed) % most, at = 0;

		n = n < end.sends - done ? n : end.sends - done;
		for (size_t i = 0; i < n; i++)
			bytes[i] = byte_at(end.serve, done + i);
		if (rand_r(&seed) % 4 == 0) {
			struct iovec iov[3] = {{bytes, n / 3}, {bytes, 0}, {bytes + n / 3, n - n / 3}};

			at = (size_t)rwritev(end.fd, iov, 3);
			CHECK((ssize_t)at > 0 && at <= n);
		}
		while (at < n) {
			const bool waits = rand_r(&seed) % 4;
			const ssize_t sent = rsend(end.fd, bytes + at, n - at, waits ? 0 : MSG_DONTWAIT);

			CHECK(sent > 0 || (!waits && errno == EAGAIN));
			at += sent > 0 ? (size_t)sent : 0;
		}
		done += n;
	}
	CHECK(!rshutdown(end.fd, SHUT_WR));
	CHECK(rsend(end.fd, bytes, 1, 0) == -1);
	return NULL;
}

static void receive_all(void)
{
	static uint8_t bytes[PART];
	unsigned seed = end.seed + 1;
	uint64_t done = 0;

	for (;;) {
		const size_t most = 1 + (size_t)rand_r(&seed) % PART;
		struct pollfd p = {.fd = end.fd, .events = POLLIN};
		ssize_t n;

		if (rand_r(&seed) % 8 == 0)
			CHECK(rpoll(&p, 1, 20000) == 1 && p.revents & POLLIN);
		n = rrecv(end.fd, bytes, most, rand_r(&seed) % 4 ? 0 : MSG_WAITALL);
		CHECK(n >= 0);
		if (!n)
			break;
		for (ssize_t i = 0; i < n; i++)
			CHECK(bytes[i] == byte_at(!end.serve, done + (uint64_t)i));
		done += (uint64_t)n;
	}
	CHECK(done == end.expects);
}

static void exchange(bool serve, const char *ip, int port, uint64_t bytes)
{
	pthread_t sender;

	end = (struct end){.serve = serve,
			   .seed = serve ? 1 : 100,
			   .sends = serve ? bytes : bytes / 2,
			   .expects = serve ? bytes / 2 : bytes};
	end.fd = one_end(serve, ip, port);
	CHECK(!pthread_create(&sender, NULL, send_all, NULL));
	receive_all();
	CHECK(!pthread_join(sender, NULL));
	CHECK(!rclose(end.fd));
}

/* ---- many ---- */
static void serve_many(const char *ip, int port, int count)
{
	struct pollfd p[MANY + 1] = {{.fd = listener(ip, port), .events = POLLIN}};
	int open = 0, ended = 0;

	while (ended < count) {
		int n = rpoll(p, (nfds_t)open + 1, 20000);

		CHECK(n > 0);
		for (int i = 1; i <= open; i++) {
			char bytes[100];
			ssize_t got;

			if (!p[i].revents)
				continue;
			CHECK(p[i].revents & POLLIN);
			got = rrecv(p[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
			CHECK(got >= 0);
			if (got) {
				CHECK(rsend(p[i].fd, bytes, (size_t)got, 0) == got);
				continue;
			}
			CHECK(!rclose(p[i].fd));
			p[i].fd = -1;
			ended++;
		}
		if (p[0].revents) {
			open++;
			p[open] = (struct pollfd){.fd = raccept(p[0].fd, NULL, NULL), .events = POLLIN};
			CHECK(p[open].fd >= 0);
		}
	}
	CHECK(open == count && !rclose(p[0].fd));
}

static void ask_many(const char *ip, int port, int count)
{
	struct pollfd p[MANY];
	unsigned seed = 1;

	for (int i = 0; i < count; i++)
		p[i] = (struct pollfd){.fd = connected(ip, port), .events = POLLIN};
	CHECK(rpoll(p, (nfds_t)count, 0) == 0);
	CHECK(rpoll(p, (nfds_t)count, 20) == 0);
	for (int i = 0; i < 500; i++) {
		const int k = rand_r(&seed) % count;
		char bytes[16];

		snprintf(bytes, sizeof(bytes), "%d", i);
		CHECK(rsend(p[k].fd, bytes, sizeof(bytes), 0) == sizeof(bytes));
		CHECK(rpoll(p, (nfds_t)count, 20000) == 1 && p[k].revents == POLLIN);
		memset(bytes, 0, sizeof(bytes));
		CHECK(rrecv(p[k].fd, bytes, sizeof(bytes), MSG_WAITALL) == sizeof(bytes) && atoi(bytes) == i);
	}
	for (int i = 0; i < count; i++)
		CHECK(!rclose(p[i].fd));
}

/* ---- the other end is killed ---- */
static void until_killed(bool serve, const char *how, const char *ip, int port)
{
	static char bytes[1 << 20];
	const int fd = one_end(serve, ip, port);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n = 0;

	printf("connected\n");
	fflush(stdout);
	if (serve)
		pause();
	if (!strcmp(how, "poll"))
		CHECK(rpoll(&p, 1, 60000) == 1);
	if (strcmp(how, "send"))
		n = rrecv(fd, bytes, sizeof(bytes), 0);
	else
		while (n >= 0)
			n = rsend(fd, bytes, sizeof(bytes), 0);
	CHECK(n == -1 && (errno == ECONNRESET || errno == ETIMEDOUT));
	CHECK(rrecv(fd, bytes, sizeof(bytes), 0) == 0);
	CHECK(rsend(fd, bytes, 1, 0) == -1);
	CHECK(!rclose(fd));
}

/* ---- the calls ---- */
static struct pair {
	int at, asks, serves;
} pair;

/* Without waiting: rpoll() says when. */
static void make_pair(const char *ip, int port)
{
	struct sockaddr_storage peer;
	struct pollfd p[2];
	socklen_t len, error_len = sizeof(int), peer_len = sizeof(peer);
	struct sockaddr *a = address(ip, port, &len);
	int error = -1;

	pair.at = listener(ip, port);
	CHECK(!rfcntl(pair.at, F_SETFL, O_NONBLOCK));
	FAILS(raccept(pair.at, NULL, NULL), EAGAIN);
	pair.asks = rsocket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
	FAILS(rconnect(pair.asks, address(ip, port, &len), len), EINPROGRESS);
	p[0] = (struct pollfd){.fd = pair.at, .events = POLLIN};
	CHECK(rpoll(p, 1, 20000) == 1 && p[0].revents == POLLIN);
	pair.serves = raccept(pair.at, (struct sockaddr *)&peer, &peer_len);
	CHECK(pair.serves >= 0 && peer_len == len && peer.ss_family == a->sa_family);
	p[0] = (struct pollfd){.fd = pair.asks, .events = POLLOUT};
	CHECK(rpoll(p, 1, 20000) == 1 && p[0].revents == POLLOUT);
	CHECK(!rgetsockopt(pair.asks, SOL_SOCKET, SO_ERROR, &error, &error_len) && error == 0);
	FAILS(rconnect(pair.asks, address(ip, port, &len), len), EISCONN);
	p[1] = (struct pollfd){.fd = pair.serves, .events = POLLOUT};
	CHECK(rpoll(p, 2, 20000) > 0);
	CHECK(rfcntl(pair.asks, F_GETFL) & O_NONBLOCK && !rfcntl(pair.asks, F_SETFL, 0));
}

static void names(const char *ip, int port)
{
	struct sockaddr_storage here, there;
	socklen_t len = sizeof(here), want;

	address(ip, port, &want);
	CHECK(!rgetsockname(pair.asks, (struct sockaddr *)&here, &len) && len == want);
	len = sizeof(there);
	CHECK(!rgetpeername(pair.serves, (struct sockaddr *)&there, &len) && len == want);
	/* To the other end, a loopback address is the NIC's. */
	CHECK(!memcmp(&here, &there, want) || !strcmp(ip, "127.0.0.1"));
	len = sizeof(there);
	CHECK(!rgetpeername(pair.asks, (struct sockaddr *)&there, &len));
	CHECK(!memcmp(&there, address(ip, port, &want), want));
}

static void stream(void)
{
	struct timeval none = {0}, long_time = {.tv_sec = 20};
	char bytes[32] = "", more[4];
	struct iovec iov[2] = {{"Spin", 4}, {"dle", 4}}, to[2] = {{bytes, 2}, {more, 4}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	fd_set r;

	FAILS(rrecv(pair.serves, bytes, 1, MSG_DONTWAIT), EAGAIN);
	FD_ZERO(&r);
	FD_SET(pair.serves, &r);
	CHECK(rselect(pair.serves + 1, &r, NULL, NULL, &none) == 0 && !FD_ISSET(pair.serves, &r));
	CHECK(rsendmsg(pair.asks, &m, 0) == 8);
	FD_SET(pair.serves, &r);
	CHECK(rselect(pair.serves + 1, &r, NULL, NULL, &long_time) == 1 && FD_ISSET(pair.serves, &r));
	CHECK(rrecv(pair.serves, bytes, sizeof(bytes), MSG_PEEK) == 8 && !strcmp(bytes, "Spindle"));
	memset(bytes, 0, sizeof(bytes));
	CHECK(rreadv(pair.serves, to, 2) == 6 && !memcmp(bytes, "Sp", 3) && !memcmp(more, "indl", 4));
	CHECK(rwrite(pair.asks, "socket", 7) == 7);
	CHECK(rrecv(pair.serves, bytes, 9, MSG_WAITALL) == 9 && !memcmp(bytes, "e\0socket", 9));
	CHECK(rsend(pair.serves, "back", 5, MSG_NOSIGNAL) == 5 && rread(pair.asks, bytes, 32) == 5);
	FAILS(rsend(pair.serves, "urgent", 6, MSG_OOB), EOPNOTSUPP);
	/* One that nobody reads is full at some time, and writable again once it is read. */
	for (ssize_t n = 1, all = 0;;) {
		static char block[50000];
		struct pollfd p = {.fd = pair.asks, .events = POLLOUT};

		if (n > 0) {
			n = rsend(pair.asks, block, sizeof(block), MSG_DONTWAIT);
			CHECK(n > 0 || errno == EAGAIN);
			all += n > 0 ? n : 0;
			continue;
		}
		if (rpoll(&p, 1, 50) > 0) {
			n = 1;
			continue;
		}
		CHECK(all > 100000 && all < 1000000);
		for (; all; all -= n) {
			n = rrecv(pair.serves, block, sizeof(block), 0);
			CHECK(n > 0);
		}
		CHECK(rpoll(&p, 1, 20000) == 1 && p.revents == POLLOUT);
		break;
	}
}

static void options(void)
{
	const struct linger linger = {.l_onoff = 1, .l_linger = 2};
	struct linger got;
	int value = 100000, fd = rsocket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(value);

	CHECK(fd >= 0);
	CHECK(!rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, len));
	CHECK(!rgetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &len) && value >= 100000);
	value = 8;
	CHECK(!rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &value, len));
	CHECK(!rgetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &value, &len) && value == 8);
	FAILS(rsetsockopt(pair.asks, SOL_RDMA, RDMA_SQSIZE, &value, len), EINVAL);
	CHECK(!rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, len));
	CHECK(!rgetsockopt(pair.asks, IPPROTO_TCP, TCP_MAXSEG, &value, &len) && value >= 256);
	FAILS(rgetsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, &value, &len), ENOPROTOOPT);
	CHECK(!rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	len = sizeof(got);
	CHECK(!rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &len) && got.l_linger == 2);
	FAILS(rsend(fd, "", 1, 0), ENOTCONN);
	FAILS(rgetpeername(fd, (struct sockaddr *)&got, &len), ENOTCONN);
	CHECK(!rclose(fd));
	FAILS(rclose(fd), EBADF);
	FAILS(rsend(0, "", 1, 0), EBADF);
	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(rsocket(AF_INET, SOCK_DGRAM, 0), EPROTONOSUPPORT);
}

static void refused(const char *ip)
{
	socklen_t len, error_len = sizeof(int);
	struct sockaddr *a = address(ip, 7999, &len);
	int error = 0, fd = rsocket(a->sa_family, SOCK_STREAM, 0);
	struct pollfd p;

	FAILS(rconnect(fd, a, len), ECONNREFUSED);
	CHECK(!rclose(fd));
	fd = rsocket(a->sa_family, SOCK_STREAM, 0);
	CHECK(!rfcntl(fd, F_SETFL, O_NONBLOCK));
	FAILS(rconnect(fd, a, len), EINPROGRESS);
	p = (struct pollfd){.fd = fd, .events = POLLOUT};
	CHECK(rpoll(&p, 1, 20000) == 1 && p.revents & POLLERR);
	CHECK(!rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) && error == ECONNREFUSED);
	CHECK(!rclose(fd));
}

/* A descriptor of another kind ends the sleep of an rpoll() as well. */
static void others(void)
{
	struct pollfd p[2] = {{.fd = pair.serves, .events = POLLIN}};
	int fd[2];

	CHECK(!pipe(fd));
	p[1] = (struct pollfd){.fd = fd[0], .events = POLLIN};
	CHECK(rpoll(p, 2, 0) == 0);
	CHECK(write(fd[1], "", 1) == 1);
	CHECK(rpoll(p, 2, -1) == 1 && !p[0].revents && p[1].revents == POLLIN);
	CHECK(rsend(pair.asks, "x", 2, 0) == 2);
	p[1].fd = -1;
	CHECK(rpoll(p, 2, -1) == 1 && p[0].revents == POLLIN);
	CHECK(!close(fd[0]) && !close(fd[1]));
}

static void ends(void)
{
	struct pollfd p = {.fd = pair.serves, .events = POLLIN | POLLRDHUP};
	char bytes[8];

	CHECK(!rshutdown(pair.asks, SHUT_WR));
	FAILS(rsend(pair.asks, "x", 1, 0), EPIPE);
	CHECK(rrecv(pair.serves, bytes, 8, 0) == 2 && rrecv(pair.serves, bytes, 8, 0) == 0);
	CHECK(rpoll(&p, 1, -1) == 1 && p.revents == (POLLIN | POLLRDHUP));
	CHECK(rsend(pair.serves, "end", 4, 0) == 4 && !rclose(pair.serves));
	CHECK(rrecv(pair.asks, bytes, 8, MSG_WAITALL) == 4 && rrecv(pair.asks, bytes, 8, 0) == 0);
	CHECK(!rclose(pair.asks) && !rclose(pair.at));
}

static void calls(const char *ip)
{
	make_pair(ip, 7990);
	names(ip, 7990);
	stream();
	options();
	refused(ip);
	others();
	ends();
}

int main(int argc, char **argv)
{
	const bool serve = argc > 1 && !strcmp(argv[1], "serve");
	const int port = argc > 4 ? atoi(argv[4]) : 0;

	alarm(100);
	if (argc == 3)
		calls(argv[2]);
	else if (argc == 6 && !strcmp(argv[2], "exchange"))
		exchange(serve, argv[3], port, strtoull(argv[5], NULL, 0));
	else if (argc == 6)
		serve ? serve_many(argv[3], port, atoi(argv[5])) : ask_many(argv[3], port, atoi(argv[5]));
	else
		until_killed(serve, argv[2], argv[3], port);
	printf("ok\n");
	return 0;
}
