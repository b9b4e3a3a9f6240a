/* SPDX-License-Identifier: BSD-3-Clause */
#include "door.h"
#include "../output.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void name_of(const struct sockaddr_storage *address, socklen_t len, char text[80])
{
	char host[64], port[16];

	if (getnameinfo((const struct sockaddr *)address, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(text, 80, "?");
	else
		snprintf(text, 80, strchr(host, ':') ? "[%s]:%s" : "%s:%s",
			 !strncmp(host, "::ffff:", 7) && strchr(host, '.') ? host + 7 : host, port);
}

static int listen_at(const struct addrinfo *a)
{
	const int one = 1, off = 0, fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, DOOR_CALLERS))
		return fd;
	error = errno;
	close(fd);
	return -error;
}

int door_open(struct door *d, const char *host, const char *port, const char **why)
{
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	struct addrinfo *list;
	int rc;

	memset(d, 0, sizeof(*d));
	d->fd = -1;
	rc = getaddrinfo(*host ? host : NULL, port, &hints, &list);
	*why = rc && rc != EAI_SYSTEM ? gai_strerror(rc) : NULL;
	if (rc)
		return rc == EAI_SYSTEM ? -errno : -EINVAL;
	/* Any address: an IPv6 socket accepts IPv4, too. */
	rc = -EADDRNOTAVAIL;
	for (int six = 1; six >= 0 && d->fd < 0; six--)
		for (const struct addrinfo *a = list; a && d->fd < 0; a = a->ai_next)
			if ((a->ai_family == AF_INET6) == six) {
				rc = listen_at(a);
				d->fd = rc;
				if (rc == -EADDRINUSE)
					six = -1;
			}
	freeaddrinfo(list);
	if (d->fd < 0)
		return rc;
	if (getsockname(d->fd, (struct sockaddr *)&address, &len))
		return -errno;
	name_of(&address, len, d->where);
	return 0;
}

void door_close(struct door *d)
{
	for (unsigned i = 0; i < DOOR_CALLERS; i++)
		talk_free(d->caller[i].talk);
	if (d->fd >= 0)
		close(d->fd);
	memset(d->caller, 0, sizeof(d->caller));
	d->fd = -1;
}

nfds_t door_fds(void *door, struct pollfd *fds)
{
	struct door *d = door;
	nfds_t n = 0;

	fds[n++] = (struct pollfd){d->fd, POLLIN, 0};
	for (unsigned i = 0; i < DOOR_CALLERS; i++)
		if (d->caller[i].talk)
			fds[n++] = (struct pollfd){d->caller[i].talk->fd, POLLIN, 0};
	return n;
}

static void door_dismiss(struct door *d, unsigned i)
{
	talk_free(d->caller[i].talk);
	d->caller[i].talk = NULL;
}

static void door_answer(struct door *d, unsigned i, const char *text)
{
	struct talk *t = d->caller[i].talk;

	talk_say(t, json_pack("{s:s}", "error", text));
	talk_pump(t, sp_clock());
	shutdown(t->fd, SHUT_WR); /* the caller closes, or its deadline comes */
	t->in_used = 0;
	d->caller[i].answered = true;
}

/* A line, or more bytes than a line may have. */
static bool door_said(const struct talk *t)
{
	return t->in_used == sizeof(t->in) || memchr(t->in, '\n', t->in_used);
}

static void door_admit(struct door *d, sp_time now)
{
	for (unsigned n = 0; n < DOOR_CALLERS; n++) {
		struct sockaddr_storage address;
		socklen_t len = sizeof(address);
		const int fd = accept4(d->fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		unsigned place = 0;
		char peer[80];

		if (fd < 0)
			return;
		name_of(&address, len, peer);
		for (unsigned i = 0; i < DOOR_CALLERS && d->caller[place].talk; i++)
			if (!d->caller[i].talk || d->caller[i].until < d->caller[place].until)
				place = i;
		if (d->caller[place].talk)
			door_dismiss(d, place);
		d->caller[place].talk = talk_new(fd, peer);
		d->caller[place].until = now + TALK_SILENCE;
		d->caller[place].answered = false;
	}
}

void door_step(void *door)
{
	struct door *d = door;
	const sp_time now = sp_clock();

	door_admit(d, now);
	for (unsigned i = 0; i < DOOR_CALLERS; i++) {
		struct talk *t = d->caller[i].talk;

		if (!t)
			continue;
		talk_pump(t, now);
		t->said = now; /* callers get no "alive" here */
		if (d->caller[i].answered)
			t->in_used = 0;
		if (now > d->caller[i].until || (t->ended && !door_said(t)))
			door_dismiss(d, i);
		else if (d->busy && !d->caller[i].answered && door_said(t))
			door_answer(d, i, "busy with another file; try again");
	}
}

struct talk *door_take(struct door *d, struct talk_hello *hello)
{
	for (unsigned i = 0; i < DOOR_CALLERS; i++) {
		struct talk *t = d->caller[i].talk;
		const char *what = "no line";
		json_t *line = NULL;
		int rc;

		if (!t || d->caller[i].answered)
			continue;
		rc = talk_take(t, &line);
		if (!rc)
			continue;
		if (rc == 1)
			rc = talk_hello_get(line, hello, &what);
		else if (rc != -ECONNRESET)
			what = rc == -EMSGSIZE ? "a line without end" : "not JSON";
		json_decref(line);
		if (!rc) {
			d->caller[i].talk = NULL;
			return t;
		}
		door_answer(d, i, what);
		command_fail("recv", "%s: refused: %s", t->peer, what);
	}
	return NULL;
}
