/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../interrupt.h"
#include "../nic_error.h"

static const struct perf_op *const ops[] = {&perf_sdr, &perf_rvma, &perf_rdma};

int perf_fail(struct perf_session *s, const char *format, ...)
{
	va_list args;

	if (*s->error)
		return -1;
	va_start(args, format);
	vsnprintf(s->error, sizeof(s->error), format, args);
	va_end(args);
	return -1;
}

int perf_fail_end(struct perf_session *s, int rc)
{
	if (rc == -ENODEV || rc == -ECONNABORTED)
		return perf_fail(s, rc == -ENODEV ? "the NIC has gone" : "the NIC has died, or the peer has restarted");
	return perf_fail(s, "%s: %s", s->end.what ? s->end.what : s->op->name, strerror(-rc));
}

/* ---- lines ---- */
int perf_say(struct perf_session *s, json_t *line)
{
	const int rc = talk_say(s->talk, line);

	talk_pump(s->talk, sp_clock());
	return rc ? perf_fail(s, rc == -ENOBUFS ? "the peer does not read our lines" : "out of memory") : 0;
}

int perf_listen(struct perf_session *s, json_t **line)
{
	const sp_time now = sp_clock();
	const char *text;
	int rc;

	talk_pump(s->talk, now);
	while ((rc = talk_take(s->talk, line)) == 1) {
		text = json_string_value(json_object_get(*line, "error"));
		if (text) {
			perf_fail(s, "the peer: %.300s", text);
			talk_clean(s->error);
			s->peer_said = true;
			json_decref(*line);
			return -1;
		}
		if (!json_object_get(*line, "alive"))
			return 1;
		json_decref(*line);
	}
	if (rc == -ECONNRESET)
		return perf_fail(s, "the peer has gone");
	if (rc)
		return perf_fail(s, "the peer is no spindle perf");
	return now - s->talk->heard > TALK_SILENCE ? perf_fail(s, "the peer is silent") : 0;
}

int perf_await(struct perf_session *s, const char *key, json_t **line)
{
	int rc;

	while (!(rc = perf_listen(s, line))) {
		struct pollfd p = {.fd = s->talk->fd, .events = POLLIN};

		if (interrupt_came())
			return perf_fail(s, "interrupted");
		poll(&p, 1, 100);
	}
	if (rc == 1 && !json_object_get(*line, key)) {
		json_decref(*line);
		return perf_fail(s, "the peer says something else than \"%s\"", key);
	}
	return rc == 1 ? 0 : -1;
}

/* ---- the NIC ---- */
static int open_end(struct perf_session *s, json_t *info)
{
	char text[300];
	int rc = sp_attach(s->nic, &s->end.dev);

	if (rc) {
		s->end.dev = NULL;
		command_nic_error(s->nic, rc, text, sizeof(text));
		return perf_fail(s, "%s", text);
	}
	s->op = ops[s->plan.op];
	s->end.size = (uint32_t)s->plan.size;
	s->end.depth = (uint32_t)s->plan.depth;
	rc = s->op->open(&s->end, info);
	return rc ? perf_fail_end(s, rc) : 0;
}

static int connect_end(struct perf_session *s, const json_t *line)
{
	const json_t *info = json_object_get(line, "info");
	const int rc = json_is_object(info) ? s->op->connect(&s->end, info) : -EPROTO;

	return rc ? perf_fail_end(s, rc) : 0;
}

/* ---- the client ---- */
static int dial(struct perf_session *s, const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list;
	int error = ENOENT, fd = -1, rc = getaddrinfo(host, port, &hints, &list);

	if (rc)
		return perf_fail(s, "%s: %s", host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	for (const struct addrinfo *a = list; a && fd < 0 && !interrupt_came(); a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen))
			break;
		error = errno;
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	if (fd < 0)
		return perf_fail(s, "%s, port %s: %s", host, port, strerror(error));
	s->talk = talk_new(fd, host);
	return s->talk ? 0 : perf_fail(s, "out of memory");
}

int perf_call(struct perf_session *s, const char *host, const char *port)
{
	const struct perf_plan *p = &s->plan;
	json_t *info = json_object(), *line = NULL;
	int rc = open_end(s, info);

	rc = rc ? rc : dial(s, host, port);
	if (!rc)
		rc = perf_say(s,
			      json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "spindle", "perf", "version",
					PERF_VERSION, "op", (json_int_t)p->op, "size", (json_int_t)p->size, "depth",
					(json_int_t)p->depth, "way", (json_int_t)p->way, "time", (json_int_t)p->time,
					"messages", (json_int_t)p->messages, "info", info));
	json_decref(info);
	rc = rc ? rc : perf_await(s, "info", &line);
	if (!rc) {
		rc = connect_end(s, line);
		json_decref(line);
	}
	rc = rc ? rc : perf_await(s, "ready", &line);
	if (!rc)
		json_decref(line);
	return rc;
}

/* ---- the server ---- */
static int take_plan(struct perf_session *s, const json_t *line)
{
	struct perf_plan *p = &s->plan;
	const char *who = json_string_value(json_object_get(line, "spindle"));
	uint64_t version;

	if (!who || strcmp(who, "perf") || talk_uint(line, "version", 0, UINT32_MAX, &version))
		return perf_fail(s, "the peer is no spindle perf");
	if (version != PERF_VERSION)
		return perf_fail(s, "the peer is another version of spindle perf");
	if (talk_uint(line, "op", 0, 2, &p->op) || talk_uint(line, "size", 1, PERF_SIZE_MOST, &p->size) ||
	    talk_uint(line, "depth", 1, PERF_DEPTH_MOST, &p->depth) ||
	    talk_uint(line, "way", PERF_UP, PERF_LATENCY, &p->way) ||
	    talk_uint(line, "time", 0, 3600ull * 1000000000, &p->time) ||
	    talk_uint(line, "messages", 0, UINT32_MAX, &p->messages) || !p->time == !p->messages)
		return perf_fail(s, "the client asks for something that there is not");
	return 0;
}

int perf_answer(struct perf_session *s, int fd, const char *peer)
{
	json_t *line = NULL, *info;
	int rc;

	s->end.server = true;
	s->talk = talk_new(fd, peer);
	if (!s->talk)
		return perf_fail(s, "out of memory");
	if (perf_await(s, "spindle", &line))
		return -1;
	info = json_object();
	rc = take_plan(s, line);
	rc = rc ? rc : open_end(s, info);
	rc = rc ? rc : perf_say(s, json_pack("{s:O}", "info", info));
	rc = rc ? rc : connect_end(s, line);
	rc = rc ? rc : perf_say(s, json_pack("{s:b}", "ready", 1));
	json_decref(info);
	json_decref(line);
	return rc;
}

void perf_part(struct perf_session *s)
{
	if (s->talk && *s->error && !s->peer_said)
		talk_say(s->talk, json_pack("{s:s}", "error", s->error));
	talk_part(s->talk);
	if (s->op)
		s->op->close(&s->end);
	if (s->end.dev)
		sp_dev_close(s->end.dev);
}
