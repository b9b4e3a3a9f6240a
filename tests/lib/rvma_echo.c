/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_echo.h"

uint8_t echo_source[ECHO_SOURCE];

/* ---- the server ---- */
static void server_echo(struct echo *t, struct rvma_stream *st)
{
	uint8_t bytes[5000];
	int n;

	if (rvma_stream_user(st) == t) /* that one it does not hear */
		return;
	for (;;) {
		n = rvma_stream_room(st);
		if (n > 0 && t->one_by_one)
			n = 1 + (int)echo_below(t, (unsigned)n < 100 ? (unsigned)n : 100);
		if (n > 0)
			n = rvma_stream_recv(st, bytes, (size_t)n < sizeof(bytes) ? (size_t)n : sizeof(bytes));
		if (n <= 0)
			break;
		echo_expect(t, rvma_stream_send(st, bytes, (size_t)n) == n, "there was room for %d bytes", n);
	}
	if (n == -EAGAIN)
		return;
	echo_expect(t, n == 0 || n == -ECONNRESET || n == -ETIMEDOUT, "a stream of the server's ends with %d", n);
	t->ended += !n;
	t->broken += n < 0;
	rvma_stream_close(st);
}

static void server_datagrams(struct echo *t)
{
	for (;;) {
		if (!t->datagram.waits)
			t->datagram.length = rvma_socket_recvfrom(t->server, t->datagram.bytes,
								  sizeof(t->datagram.bytes), &t->datagram.from);
		if (t->datagram.length < 0)
			return;
		t->datagram.waits = rvma_socket_sendto(t->server, t->datagram.bytes, (size_t)t->datagram.length,
						       &t->datagram.from) == -EAGAIN;
		if (t->datagram.waits)
			return;
	}
}

static void server_step(struct echo *t)
{
	struct rvma_socket_status now;
	struct rvma_stream *st;

	rvma_socket_status(t->server, &now);
	echo_expect(t, now.memory == t->status.memory && now.buffers == t->status.buffers,
		    "the server's memory changes");
	echo_expect(t,
		    now.streams <= t->server_attr.streams && now.waiting <= t->server_attr.waiting &&
			    now.sending <= t->server_attr.sending,
		    "%u streams, %u records waiting, %u sending", now.streams, now.waiting, now.sending);
	if (t->silent)
		return;
	server_datagrams(t);
	while (!rvma_socket_accept(t->server, &st, NULL))
		if (t->deaf && !t->accepted++)
			rvma_stream_set_user(st, t);
	while (!rvma_socket_ready(t->server, &st))
		server_echo(t, st);
}

void call_step(struct echo *t, struct call *c)
{
	uint8_t bytes[3000];
	int n;

	if (!c->stream || c->over)
		return;
	while (c->sent < c->length) {
		n = rvma_stream_send(c->stream, echo_source + c->source + c->sent,
				     1 + echo_below(t, c->length - c->sent));
		if (n <= 0) {
			echo_expect(t, n == -EAGAIN || n == -ENOTCONN || n == -ECONNRESET || n == -ECONNREFUSED,
				    "a client's send says %d", n);
			break;
		}
		c->sent += (unsigned)n;
	}
	if (c->sent == c->length && !c->shut)
		c->shut = rvma_stream_shutdown(c->stream) == 0;
	while ((n = rvma_stream_recv(c->stream, bytes, 1 + echo_below(t, sizeof(bytes)))) > 0) {
		echo_expect(t,
			    c->came + (unsigned)n <= c->sent &&
				    !memcmp(bytes, echo_source + c->source + c->came, (size_t)n),
			    "other bytes came back than were sent, at %llu of %llu", U(c->came), U(c->length));
		c->came += (unsigned)n;
	}
	if (n == -EAGAIN)
		return;
	c->over = true;
	c->error = n;
	echo_expect(t, n || c->came == c->length, "the end comes after %llu of %llu bytes", U(c->came), U(c->length));
	rvma_stream_close(c->stream);
}

static void client_datagrams(struct echo *t, struct client *c, unsigned index)
{
	uint8_t bytes[4096];
	struct rvma_socket_address from;
	int n;

	while (c->sent < c->datagrams) {
		const uint16_t size = c->size[c->sent];

		/* the first two say which one it is, and have no other size; others are told by their source */
		memcpy(bytes, echo_source + index * 1000 + c->sent, size);
		if (size)
			bytes[0] = (uint8_t)c->sent;
		n = rvma_socket_sendto(c->socket, bytes, size, &t->address);
		echo_expect(t, n == 0 || n == -EAGAIN, "sendto says %d", n);
		if (n)
			break;
		c->sent++;
	}
	while ((n = rvma_socket_recvfrom(c->socket, bytes, sizeof(bytes), &from)) >= 0) {
		const unsigned k = n ? bytes[0] : c->datagrams;

		echo_expect(t, !memcmp(&from, &t->address, sizeof(from)), "a datagram from elsewhere");
		echo_expect(t,
			    k < c->sent && !c->back[k] && n == c->size[k] &&
				    !memcmp(bytes + 1, echo_source + index * 1000 + k + 1, (size_t)n - 1),
			    "a datagram of %d bytes, number %u, that was not sent or has come before", n, k);
		if (k < c->datagrams)
			c->back[k] = true;
		c->came++;
	}
}

/* Closes a client's socket and context, once that takes no waiting. */
static void client_leave(struct echo *t, struct client *c)
{
	int rc;

	for (unsigned k = 0; k < c->calls; k++)
		if (!c->call[k].over)
			return;
	if (c->came < c->datagrams)
		return;
	if (c->socket) {
		rc = rvma_socket_close(c->socket);
		echo_expect(t, !rc || rc == -EAGAIN, "rvma_socket_close says %d", rc);
		if (rc)
			return;
		c->socket = NULL;
	}
	rc = rvma_close(c->rvma);
	echo_expect(t, !rc, "rvma_close says %d", rc);
	sp_dev_close(c->dev);
	c->gone = true;
}

static void echo_step(void *arg, sp_time now)
{
	struct echo *t = arg;

	echo_expect(t, ++t->steps < 3000000, "the run does not end");
	if (t->text[0] || t->closing)
		return;
	t->awake = now >= t->lazy;
	if (t->awake) {
		echo_expect(t, rvma_socket_progress(t->server, now) == 0, "the server's socket has failed");
		server_step(t);
	}
	for (unsigned i = 0; i < t->clients; i++) {
		struct client *c = &t->client[i];

		if (c->gone)
			continue;
		echo_expect(t, rvma_socket_progress(c->socket, now) == 0, "a client's socket has failed");
		for (unsigned k = 0; k < c->calls; k++)
			call_step(t, &c->call[k]);
		client_datagrams(t, c, i);
		if (t->leaving)
			client_leave(t, c);
	}
}

static sp_time echo_next(void *arg)
{
	const struct echo *t = arg;
	sp_time next = t->awake ? rvma_socket_deadline(t->server) : t->lazy;

	if (t->text[0] || t->closing)
		return SP_NEVER;
	for (unsigned i = 0; i < t->clients; i++)
		if (!t->client[i].gone) {
			const sp_time due = rvma_socket_deadline(t->client[i].socket);

			next = due < next ? due : next;
		}
	return next;
}

/* All has come back, and the server knows of no stream any more. */
static bool echo_over(void *arg)
{
	const struct echo *t = arg;
	struct rvma_socket_status s;

	if (t->text[0])
		return true;
	for (unsigned i = 0; i < t->clients; i++) {
		const struct client *c = &t->client[i];

		for (unsigned k = 0; !c->gone && k < c->calls; k++)
			if (!c->call[k].over)
				return false;
		if (!c->gone && c->came < c->datagrams)
			return false;
	}
	rvma_socket_status(t->server, &s);
	return !s.streams;
}

/* ---- making ---- */
void echo_socket(struct echo *t, unsigned e, const struct rvma_attr *context, const struct rvma_socket_attr *attr,
		 struct sp_dev **dev, struct rvma **rvma, struct rvma_socket **socket)
{
	struct sp_error error = {.text = ""};
	int rc = sp_nic_dev(t->nic[e], false, dev);

	rc = rc ? rc : rvma_open(*dev, context, rvma, &error);
	rc = rc || !socket ? rc : rvma_socket_open(*rvma, attr, socket, &error);
	if (rc) {
		printf("# %d: %s: %s\n", rc, error.key, error.text);
		abort();
	}
}

void echo_open(struct echo *t)
{
	struct rvma_attr context = t->context;

	sim_open(&t->sim, (struct sp_link_config){});
	sim_nic(&t->sim, 0, 4300, 1, SIM_IP4);
	sim_nic(&t->sim, 1, 4300, 1, SIM_IP4);
	context.windows = 1;
	context.buffers = t->server_attr.buffers ? t->server_attr.buffers : 16;
	echo_socket(t, 1, &context, &t->server_attr, &t->dev, &t->rvma, &t->server);
	rvma_socket_name(t->server, &t->address);
	rvma_socket_status(t->server, &t->status);
	for (unsigned i = 0; i < t->clients; i++) {
		struct client *c = &t->client[i];

		echo_socket(t, 0, &t->context, &t->client_attr, &c->dev, &c->rvma, &c->socket);
		for (unsigned k = 0; k < c->calls; k++)
			echo_expect(t, rvma_socket_connect(c->socket, &t->address, &c->call[k].stream) == 0, "connect");
	}
	if (sp_world_add_host(t->world, &(struct sp_world_host){.step = echo_step, .next = echo_next, .arg = t}))
		abort();
}

void echo_run(struct echo *t, sp_time time)
{
	const int rc = sp_world_run(t->world, sp_world_now(t->world) + time, t->done ? t->done : echo_over, t);

	echo_expect(t, rc == 1, "not over (%d)", rc);
}

static void echo_shut(struct echo *t, struct rvma_socket *socket, struct rvma *rvma, struct sp_dev *dev)
{
	int rc = -EAGAIN;

	for (unsigned i = 0; socket && i < 200 && rc == -EAGAIN; i++) {
		rc = rvma_socket_close(socket);
		if (rc == -EAGAIN)
			sp_world_run(t->world, sp_world_now(t->world) + 100 * SP_MS, NULL, NULL);
	}
	echo_expect(t, !socket || !rc, "rvma_socket_close says %d", rc);
	echo_expect(t, rvma_close(rvma) == 0, "rvma_close");
	sp_dev_close(dev);
}

void echo_close(struct echo *t)
{
	t->closing = true;
	for (unsigned i = 0; i < t->clients; i++)
		if (!t->client[i].gone)
			echo_shut(t, t->client[i].socket, t->client[i].rvma, t->client[i].dev);
	echo_shut(t, t->server, t->rvma, t->dev);
	sim_close(&t->sim);
}

void echo_prepare(void)
{
	seeds_eal();
	seeds_fill(echo_source, ECHO_SOURCE, 20221122, 1);
}
