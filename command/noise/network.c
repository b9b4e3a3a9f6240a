/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle noise latency, bandwidth, loggp and serve: messages over TCP. */
#include "noise.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "../../testbed/goal/pingpong.h"
#include "../../testbed/quantile.h"
#include "../output.h"

#define SILENCE 60 /* s: then the other end is taken for dead */

/* ---- sockets ---- */
static void prepare(int fd)
{
	const int on = 1;
	const struct timeval t = {.tv_sec = SILENCE};

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

/* A socket that listens, on the loopback interface or all; *port is 0 or wanted, and then what it is. -1: none. */
static int listener(bool here, uint16_t *port)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(*port)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(*port)};
	struct sockaddr *address = (struct sockaddr *)&six;
	socklen_t length = sizeof(six);
	const int on = 1, off = 0;
	int fd = here ? -1 : socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	four.sin_addr.s_addr = htonl(here ? INADDR_LOOPBACK : INADDR_ANY);
	if (fd >= 0) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	} else {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		address = (struct sockaddr *)&four;
		length = sizeof(four);
	}
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, address, length) || listen(fd, 4) || getsockname(fd, address, &length)) {
		const int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	*port = ntohs(address == (struct sockaddr *)&four ? four.sin_port : six.sin6_port);
	return fd;
}

/* A connection to a host; -1 after a message. */
static int connected(const char *host, uint16_t port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;
	char service[8];
	int fd = -1, err;

	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(host, service, &hints, &all);
	if (err) {
		command_fail("noise", "%s: %s", host, gai_strerror(err));
		return -1;
	}
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
			err = errno;
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(all);
	if (fd < 0)
		command_fail("noise", "%s port %u: %s", host, port, strerror(err));
	else
		prepare(fd);
	return fd;
}

/* ---- the other end ---- */
struct other {
	pid_t child; /* 0: it is on a host */
	int fd;
};

/* A child answers over the loopback interface, or HOST does. The exit status. */
static int meet(const struct noise *n, struct other *o)
{
	uint16_t port = 0;
	int listening;

	*o = (struct other){.fd = -1};
	if (n->host) {
		o->fd = connected(n->host, (uint16_t)n->port);
		return o->fd < 0;
	}
	listening = listener(true, &port);
	if (listening < 0)
		return command_fail("noise", "127.0.0.1: %s", strerror(errno));
	o->child = fork();
	if (!o->child) {
		int fd;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = accept(listening, NULL, NULL);
		if (fd < 0)
			_exit(1);
		prepare(fd);
		_exit(goal_pong(fd) != 0);
	}
	close(listening);
	if (o->child < 0)
		return command_fail("noise", "fork: %s", strerror(errno));
	o->fd = connected("127.0.0.1", port);
	return o->fd < 0;
}

static void part(struct other *o)
{
	if (o->fd >= 0)
		close(o->fd);
	else if (o->child > 0)
		kill(o->child, SIGKILL);
	if (o->child > 0)
		waitpid(o->child, NULL, 0);
}

static int broken(const struct noise *n, int err)
{
	return command_fail("noise", "%s: %s", n->host ? n->host : "the other process",
			    err == -EAGAIN  ? "no answer"
			    : err == -EPIPE ? "it has closed the connection"
					    : strerror(-err));
}

/* ---- words ---- */
static int write_file(const struct noise *n, const char *word, uint64_t size, const double *us, uint64_t count)
{
	FILE *f = fopen(n->write, "w");
	bool bad = !f;

	if (f) {
		fprintf(f, "# spindle noise %s: %s\n# bytes\thalf a round trip us\n", word,
			n->host ? n->host : "this host");
		for (uint64_t i = 0; i < count; i++)
			fprintf(f, "%" PRIu64 "\t%.6f\n", size, us[i]);
		bad = ferror(f);
		bad |= fclose(f);
	}
	return bad ? command_fail("noise", "--write %s: %s", n->write, f ? "cannot be written" : strerror(errno)) : 0;
}

/* us: half round trips, whose order changes. */
static int show(const struct noise *n, uint64_t size, double *us, uint64_t count, bool rates)
{
	static const unsigned thousandths[] = {500, 990, 1000};
	double v[4] = {us[0]};

	for (uint64_t i = 0; i < count; i++)
		v[0] = us[i] < v[0] ? us[i] : v[0];
	for (unsigned i = 0; i < 3; i++)
		v[i + 1] = sp_quantile(us, count, thousandths[i]);
	if (n->json)
		return output_json(json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "size", (json_int_t)size, "count",
					     (json_int_t)count, "min_us", v[0], "p50_us", v[1], "p99_us", v[2],
					     "max_us", v[3], "p50_gbps", (double)size * 8e-3 / v[1]),
				   0)
			       ? command_fail("noise", "the result cannot be shown as JSON")
			       : 0;
	printf("%" PRIu64 " round trips of %" PRIu64
	       " bytes; half of one: least %.4g us, 50 %% %.4g us, 99 %% %.4g us, "
	       "most %.4g us\n",
	       count, size, v[0], v[1], v[2], v[3]);
	if (rates)
		printf("Gbit/s: most %.4g, 50 %% %.4g, 99 %% %.4g, least %.4g\n", (double)size * 8e-3 / v[0],
		       (double)size * 8e-3 / v[1], (double)size * 8e-3 / v[2], (double)size * 8e-3 / v[3]);
	return 0;
}

static int round_trips(const struct noise *n, const char *word, uint64_t count, uint64_t size, bool rates)
{
	double *us = malloc(count * sizeof(*us));
	struct other o;
	int status = us ? meet(n, &o) : command_fail("noise", "memory does not suffice"), err;

	if (us && !status) {
		err = goal_ping(o.fd, 1, size, (uint32_t)count, us, NULL);
		status = err ? broken(n, err) : 0;
	}
	if (us)
		part(&o);
	for (uint64_t i = 0; us && !status && i < count; i++)
		us[i] /= 2;
	if (!status && n->write)
		status = write_file(n, word, size, us, count);
	if (!status)
		status = show(n, size, us, count, rates);
	free(us);
	return status;
}

int noise_latency(const struct noise *n)
{
	return round_trips(n, "latency", n->count ? n->count : 10000, n->size ? n->size : 1, false);
}

int noise_bandwidth(const struct noise *n)
{
	return round_trips(n, "bandwidth", n->count ? n->count : 100, n->size ? n->size : 16 << 20, true);
}

int noise_loggp(const struct noise *n)
{
	struct goal_loggp p = {0};
	struct other o;
	int status = meet(n, &o);

	if (!status) {
		const int err = goal_ping_loggp(o.fd, &p);

		status = err ? broken(n, err) : 0;
	}
	part(&o);
	if (status)
		return status;
	if (n->json)
		return output_json(json_pack("{s:f, s:f, s:f, s:f}", "L_us", p.L, "o_us", p.o, "g_us", p.g,
					     "G_us_per_byte", p.G),
				   0)
			       ? command_fail("noise", "the result cannot be shown as JSON")
			       : 0;
	printf("L %.4g us, o %.4g us, g %.4g us, G %.4g ns a byte (%.4g Gbit/s)\n", p.L, p.o, p.g, p.G * 1e3,
	       p.G > 0 ? 8e-3 / p.G : 0);
	printf("--loggops %.3f,%.3f,%.3f,%.3f,0,65535\n", p.L * 1e3, p.o * 1e3, p.g * 1e3, p.G * 1e3);
	return 0;
}

int noise_serve(const struct noise *n)
{
	uint16_t port = (uint16_t)n->port;
	const int listening = listener(false, &port);

	if (listening < 0)
		return command_fail("noise", "port %u: %s", port, strerror(errno));
	printf("port %u\n", port);
	fflush(stdout);
	for (;;) { /* until a signal; one after the other, or they would disturb each other */
		const int fd = accept(listening, NULL, NULL);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			return command_fail("noise", "port %u: %s", port, strerror(errno));
		prepare(fd);
		goal_pong(fd);
		close(fd);
	}
}
