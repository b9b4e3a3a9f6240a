/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Echo over RVMA: one socket, which is one mailbox with one bucket of buffers, serves the datagrams and streams of all
 * clients. There is no memory per client here either: what a stream has sent is read when it can take it back.
 *
 *     echo-server NIC [PORT]              NIC: the name of one that `spindle run` runs. Port 7 if none is given
 *
 * Says where it listens, and once it is stopped (SIGINT, SIGTERM) what it has done.
 * Build: cc -o echo-server echo-server.c $(pkg-config --cflags --libs libspindle)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rvma_socket.h"

#define LOOK	(100 * SP_MS) /* how long a signal may go unnoticed */
#define CLIENTS 1024

struct server {
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_socket *socket;
	unsigned long long streams, bytes, datagrams;
};

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static int fail(const char *what, int rc)
{
	fprintf(stderr, "echo-server: %s: %s\n", what, strerror(-rc));
	return 1;
}

static int begin(struct server *s, const char *nic, unsigned port)
{
	const struct rvma_attr context = {.peers = CLIENTS};
	const struct rvma_socket_attr attr = {
		.port = (uint16_t)port, .datagrams = true, .backlog = CLIENTS, .streams = CLIENTS};
	struct sp_error error = {.text = ""};
	struct rvma_socket_address name;
	char ip[INET6_ADDRSTRLEN];
	int rc = sp_attach(nic, &s->dev);

	if (rc)
		return fail(nic, rc);
	rc = rvma_open(s->dev, &context, &s->rvma, &error);
	rc = rc ? rc : rvma_socket_open(s->rvma, &attr, &s->socket, &error);
	rc = rc ? rc : rvma_socket_name(s->socket, &name);
	if (rc)
		return fail(*error.text ? error.text : "the socket", rc);
	printf("listening: %s %u %u\n", inet_ntop(AF_INET6, name.address.ip, ip, sizeof(ip)), name.address.qpn,
	       name.port);
	fflush(stdout);
	return 0;
}

/* A datagram that cannot be sent back now is lost: its client does not take it, and others wait. */
static void datagrams(struct server *s)
{
	struct rvma_socket_address from;
	char bytes[4096];
	int n;

	while ((n = rvma_socket_recvfrom(s->socket, bytes, sizeof(bytes), &from)) >= 0)
		if (!rvma_socket_sendto(s->socket, bytes, (size_t)n, &from))
			s->datagrams++;
}

/* Sends back as much as the client takes now. rvma_socket_ready returns the stream again when it takes more, or has
 * sent more. */
static void echo(struct server *s, struct rvma_stream *stream)
{
	char bytes[16384];
	int n;

	for (;;) {
		n = rvma_stream_room(stream);
		if (n > 0)
			n = rvma_stream_recv(stream, bytes, (size_t)n < sizeof(bytes) ? (size_t)n : sizeof(bytes));
		if (n <= 0)
			break;
		n = rvma_stream_send(stream, bytes, (size_t)n);
		if (n <= 0)
			break;
		s->bytes += (unsigned)n;
	}
	if (n != -EAGAIN) /* the stream has ended or failed */
		rvma_stream_close(stream);
}

static int serve(struct server *s)
{
	struct rvma_stream *stream;
	int rc = 0;

	while (!stopped && rc != -ENODEV && rc != -ECONNRESET && rc != -ECONNABORTED) {
		rc = rvma_socket_wait(s->socket, LOOK);
		datagrams(s);
		while (!rvma_socket_accept(s->socket, &stream, NULL))
			s->streams++;
		while (!rvma_socket_ready(s->socket, &stream))
			echo(s, stream);
	}
	return stopped ? 0 : fail("the NIC", rc);
}

int main(int argc, char **argv)
{
	struct server s = {.dev = NULL};
	struct rvma_socket_status status;
	int rc;

	if (argc < 2 || argc > 3) {
		fputs("usage: echo-server NIC [PORT]\n", stderr);
		return 2;
	}
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	rc = begin(&s, argv[1], argc == 3 ? (unsigned)atoi(argv[2]) : 7);
	rc = rc ? rc : serve(&s);
	if (s.socket) {
		rvma_socket_status(s.socket, &status);
		printf("%llu streams, %llu bytes, %llu datagrams; %u buffers, %llu bytes of memory, %llu records in "
		       "%llu buffers, %llu resets\n",
		       s.streams, s.bytes, s.datagrams, status.buffers, (unsigned long long)status.memory,
		       (unsigned long long)status.received, (unsigned long long)status.posted - status.buffers,
		       (unsigned long long)status.resets);
		/* Records in flight to a client that is gone end by the context's timeout. */
		rvma_socket_close_wait(s.socket, 30 * SP_SEC);
	}
	if (s.rvma)
		rvma_close(s.rvma);
	if (s.dev)
		sp_dev_close(s.dev);
	return rc;
}
