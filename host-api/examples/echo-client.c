/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of echo-server.
 *
 *     echo-client stream NIC IP QPN PORT          copies standard input to the server, and what comes back to standard
 *                                                 output
 *     echo-client datagrams NIC IP QPN PORT COUNT BYTES
 *                                                 one after the other; says how long each took, there and back
 *
 * NIC: the name of one that `spindle run` runs; the others are what echo-server says.
 * Build: cc -o echo-client echo-client.c $(pkg-config --cflags --libs libspindle)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rvma_socket.h"

#define PATIENCE (60 * SP_SEC)

struct client {
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_socket *socket;
	struct rvma_socket_address server;
};

static int fail(const char *what, int rc)
{
	fprintf(stderr, "echo-client: %s: %s\n", what, strerror(-rc));
	return 1;
}

static int server_address(struct client *c, const char *ip, const char *qpn, const char *port)
{
	uint8_t *to = c->server.address.ip;

	if (inet_pton(AF_INET6, ip, to) != 1) {
		to[10] = to[11] = 0xFF; /* IPv4 mapped into IPv6 */
		if (inet_pton(AF_INET, ip, to + 12) != 1)
			return fail(ip, -EINVAL);
	}
	c->server.address.qpn = (uint32_t)strtoul(qpn, NULL, 0);
	c->server.port = (uint16_t)strtoul(port, NULL, 0);
	return 0;
}

static int begin(struct client *c, const char *nic)
{
	const struct rvma_socket_attr attr = {.datagrams = true};
	struct sp_error error = {.text = ""};
	int rc = sp_attach(nic, &c->dev);

	if (rc)
		return fail(nic, rc);
	rc = rvma_open(c->dev, NULL, &c->rvma, &error);
	rc = rc ? rc : rvma_socket_open(c->rvma, &attr, &c->socket, &error);
	return rc ? fail(*error.text ? error.text : "the socket", rc) : 0;
}

static int put_out(const char *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		const ssize_t n = write(STDOUT_FILENO, bytes + at, len - at);

		if (n < 0 && errno != EINTR)
			return fail("standard output", -errno);
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Waits until there may be an event on the stream, or standard input is readable if `input`: then it returns 1. It arms
 * before the last look, so that no event is missed. */
static int wait_for(struct client *c, bool input)
{
	struct pollfd p[2] = {{.fd = sp_dev_fd(c->dev), .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
	struct rvma_stream *st;
	sp_time now, due;
	int n = sp_dev_arm(c->dev);

	n = n ? n : rvma_socket_progress(c->socket, sp_clock());
	if (n || !rvma_socket_ready(c->socket, &st)) /* there is only one stream */
		return n;
	now = sp_clock();
	due = rvma_socket_deadline(c->socket);
	due = due > now + SP_SEC ? SP_SEC : due > now ? due - now : 0;
	n = poll(p, input ? 2 : 1, (int)((due + SP_MS - 1) / SP_MS));
	if (n < 0 && errno != EINTR)
		return -errno;
	return n > 0 && input && p[1].revents;
}

/* Reads on only when everything read was sent: `held` bytes from `at` on wait for that. */
static int stream(struct client *c)
{
	char out[16384], in[16384];
	ssize_t held = 0, at = 0;
	struct rvma_stream *st;
	bool more = true;
	int n = rvma_socket_connect_wait(c->socket, &c->server, PATIENCE, &st);

	if (n)
		return fail("connecting", n);
	for (;;) {
		while (at < held && (n = rvma_stream_send(st, out + at, (size_t)(held - at))) > 0)
			at += n;
		while ((n = rvma_stream_recv(st, in, sizeof(in))) > 0)
			if (put_out(in, (size_t)n))
				return 1;
		if (n != -EAGAIN) /* 0: everything has come back */
			break;
		n = wait_for(c, more && at == held);
		if (n < 0)
			break;
		if (!n)
			continue;
		at = 0;
		held = read(STDIN_FILENO, out, sizeof(out));
		more = held > 0;
		if (!more)
			rvma_stream_shutdown(st);
	}
	rvma_stream_close(st);
	return n ? fail("the stream", n) : 0;
}

static int by_size(const void *a, const void *b)
{
	const sp_time x = *(const sp_time *)a, y = *(const sp_time *)b;

	return x < y ? -1 : x > y;
}

static int datagrams(struct client *c, unsigned count, size_t size)
{
	sp_time *took = calloc(count, sizeof(*took));
	char out[4096], in[4096];
	int n = took && count && size <= sizeof(out) ? 0 : -EINVAL;

	for (unsigned i = 0; !n && i < count; i++) {
		const sp_time start = sp_clock();

		memset(out, (int)i, size);
		n = rvma_socket_sendto_wait(c->socket, out, size, &c->server, PATIENCE);
		if (n)
			break;
		n = rvma_socket_recvfrom_wait(c->socket, in, sizeof(in), NULL, PATIENCE);
		n = n < 0 ? n : n != (int)size || memcmp(in, out, size) ? -EPROTO : 0;
		took[i] = sp_clock() - start;
	}
	if (n) {
		free(took);
		return fail("a datagram", n);
	}
	qsort(took, count, sizeof(*took), by_size);
	printf("%u datagrams of %zu bytes came back; half of them within %.1f us, 99 %% within %.1f us\n", count, size,
	       (double)took[count / 2] / 1e6, (double)took[count * 99ull / 100] / 1e6);
	free(took);
	return 0;
}

int main(int argc, char **argv)
{
	const bool streams = argc == 6 && !strcmp(argv[1], "stream");
	struct client c = {.dev = NULL};
	int status;

	if (!streams && (argc != 8 || strcmp(argv[1], "datagrams"))) {
		fputs("usage: echo-client stream NIC IP QPN PORT | datagrams NIC IP QPN PORT COUNT BYTES\n", stderr);
		return 2;
	}
	status = server_address(&c, argv[3], argv[4], argv[5]) || begin(&c, argv[2]);
	if (!status)
		status = streams ? stream(&c)
				 : datagrams(&c, (unsigned)strtoul(argv[6], NULL, 0), strtoul(argv[7], NULL, 0));
	if (c.socket)
		rvma_socket_close_wait(c.socket, PATIENCE);
	if (c.rvma)
		rvma_close(c.rvma);
	if (c.dev)
		sp_dev_close(c.dev);
	return status;
}
