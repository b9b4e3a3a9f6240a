/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets over RVMA: the calls that wait, in real time. */
#include "rvma_socket_private.h"

struct rvma_waits {
	struct rvma_socket *socket;
	sp_time due; /* deadline of the socket when the wait began */
	struct rvma_stream *stream;
	void *bytes;
	size_t len;
	struct rvma_socket_address *from;
	const struct rvma_socket_address *to;
};

/* As sp_wait_until, but with the socket's deadlines; -EAGAIN: time-out. */
static int rvma_socket_until(struct rvma_waits *w, int (*poll)(void *arg), sp_time timeout)
{
	const sp_time start = sp_clock(), until = timeout < SP_NEVER - start ? start + timeout : SP_NEVER;

	for (;;) {
		const sp_time now = sp_clock();
		sp_time next;
		int rc;

		w->due = rvma_socket_deadline(w->socket);
		next = w->due < until ? w->due : until;
		rc = sp_wait_until(w->socket->rvma->dev, poll, w,
				   next == SP_NEVER ? SP_NEVER
				   : next > now	    ? next - now
						    : 0);
		if (rc != -ETIMEDOUT && rc != -EALREADY)
			return rc;
		if (sp_clock() >= until)
			return -EAGAIN;
	}
}

/* An event counts before an error of progress (the NIC may be gone). -EALREADY: nothing yet, but the socket's deadline
 * is earlier now. */
static int rvma_wait_rc(const struct rvma_waits *w, int progress, int rc)
{
	if (rc != -EAGAIN)
		return rc;
	return progress ? progress : rvma_socket_deadline(w->socket) < w->due ? -EALREADY : rc;
}

#define RVMA_WAIT(name, call)                                                                                          \
	static int name(void *arg)                                                                                     \
	{                                                                                                              \
		struct rvma_waits *w = arg;                                                                            \
		const int progress = rvma_socket_progress(w->socket, sp_clock());                                      \
                                                                                                                       \
		return rvma_wait_rc(w, progress, call);                                                                \
	}

static int rvma_socket_anything(const struct rvma_socket *s)
{
	return STAILQ_EMPTY(&s->datagram) && STAILQ_EMPTY(&s->backlog) && STAILQ_EMPTY(&s->ready) ? -EAGAIN : 0;
}

RVMA_WAIT(rvma_wait_anything, rvma_socket_anything(w->socket))
RVMA_WAIT(rvma_wait_sendto, rvma_socket_sendto(w->socket, w->bytes, w->len, w->to))
RVMA_WAIT(rvma_wait_recvfrom, rvma_socket_recvfrom(w->socket, w->bytes, w->len, w->from))
RVMA_WAIT(rvma_wait_connected, rvma_stream_connected(w->stream))

static int rvma_close_poll(void *arg)
{
	struct rvma_waits *w = arg;

	w->socket->now = sp_clock();
	return rvma_socket_close(w->socket);
}

int rvma_socket_close_wait(struct rvma_socket *s, sp_time timeout)
{
	struct rvma_waits w = {.socket = s};
	int rc;

	if (!s)
		return 0;
	rc = sp_wait_until(s->rvma->dev, rvma_close_poll, &w, timeout);
	/* Without a NIC there is nothing to wait for. */
	return rc == -ETIMEDOUT ? -EAGAIN : rc ? rvma_socket_close(s) : 0;
}

int rvma_socket_wait(struct rvma_socket *s, sp_time timeout)
{
	struct rvma_waits w = {.socket = s};

	return rvma_socket_until(&w, rvma_wait_anything, timeout);
}

int rvma_socket_sendto_wait(struct rvma_socket *s, const void *bytes, size_t len, const struct rvma_socket_address *to,
			    sp_time timeout)
{
	struct rvma_waits w = {.socket = s, .bytes = (void *)(uintptr_t)bytes, .len = len, .to = to};

	return rvma_socket_until(&w, rvma_wait_sendto, timeout);
}

int rvma_socket_recvfrom_wait(struct rvma_socket *s, void *bytes, size_t room, struct rvma_socket_address *from,
			      sp_time timeout)
{
	struct rvma_waits w = {.socket = s, .bytes = bytes, .len = room, .from = from};

	return rvma_socket_until(&w, rvma_wait_recvfrom, timeout);
}

int rvma_socket_connect_wait(struct rvma_socket *s, const struct rvma_socket_address *to, sp_time timeout,
			     struct rvma_stream **stream)
{
	struct rvma_waits w = {.socket = s};
	int rc = rvma_socket_connect(s, to, &w.stream);

	if (rc)
		return rc;
	rc = rvma_socket_until(&w, rvma_wait_connected, timeout);
	if (rc)
		rvma_stream_close(w.stream);
	else
		*stream = w.stream;
	return rc;
}
