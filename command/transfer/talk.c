/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of JSON over TCP, in both directions, without blocking. */
#include "talk.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct talk *talk_new(int fd, const char *peer)
{
	struct talk *t = malloc(sizeof(*t));
	const int one = 1;

	if (!t) {
		close(fd);
		return NULL;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* short lines that the peer waits for */
	t->fd = fd;
	t->ended = false;
	t->heard = t->said = sp_clock();
	t->in_used = t->out_used = 0;
	snprintf(t->peer, sizeof(t->peer), "%s", peer);
	return t;
}

void talk_free(struct talk *t)
{
	if (!t)
		return;
	close(t->fd);
	free(t);
}

void talk_part(struct talk *t)
{
	const sp_time until = sp_clock() + SP_SEC / 2;

	if (!t)
		return;
	/* close() with unread data would make the kernel discard our lines and reset the connection. */
	for (bool shut = false; !t->ended && sp_clock() < until;) {
		struct pollfd p = {.fd = t->fd, .events = (short)(t->out_used ? POLLIN | POLLOUT : POLLIN)};

		talk_pump(t, sp_clock());
		t->in_used = 0;
		if (!t->out_used && !shut) {
			shutdown(t->fd, SHUT_WR);
			shut = true;
		}
		poll(&p, 1, 50);
	}
	talk_free(t);
}

int talk_say(struct talk *t, json_t *line)
{
	size_t room = sizeof(t->out) - t->out_used, len;

	if (!line)
		return -ENOMEM;
	len = json_dumpb(line, t->out + t->out_used, room, JSON_COMPACT);
	json_decref(line);
	if (!len || len >= room)
		return len ? -ENOBUFS : -ENOMEM;
	t->out_used += len;
	t->out[t->out_used++] = '\n';
	t->said = sp_clock();
	return 0;
}

void talk_pump(struct talk *t, sp_time now)
{
	if (!t->ended && now > t->said && now - t->said > TALK_ALIVE)
		talk_say(t, json_pack("{s:b}", "alive", 1));
	while (!t->ended && t->out_used) {
		const ssize_t n = send(t->fd, t->out, t->out_used, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n < 0) {
			t->out_used = 0; /* lines that the peer has sent before can still be read */
			break;
		}
		t->out_used -= (size_t)n;
		memmove(t->out, t->out + n, t->out_used);
	}
	while (!t->ended && t->in_used < sizeof(t->in)) {
		const ssize_t n = recv(t->fd, t->in + t->in_used, sizeof(t->in) - t->in_used, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n <= 0) {
			t->ended = true;
			break;
		}
		t->in_used += (size_t)n;
		t->heard = now;
	}
}

sp_time talk_round_trip(const struct talk *t)
{
	struct tcp_info info = {.tcpi_rtt = 0};
	socklen_t len = sizeof(info);

	if (getsockopt(t->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return SP_MS;
	return info.tcpi_rtt > 1000 ? info.tcpi_rtt * SP_US : SP_MS;
}

int talk_take(struct talk *t, json_t **line)
{
	const char *end = memchr(t->in, '\n', t->in_used);

	if (!end)
		return t->in_used == sizeof(t->in) ? -EMSGSIZE : t->ended ? -ECONNRESET : 0;

	const size_t len = (size_t)(end - t->in);

	*line = json_loadb(t->in, len, JSON_REJECT_DUPLICATES, NULL);
	t->in_used -= len + 1;
	memmove(t->in, end + 1, t->in_used);
	return *line && json_is_object(*line) ? 1 : (json_decref(*line), *line = NULL, -EPROTO);
}
