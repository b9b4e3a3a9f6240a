/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmicrohttpd handles all of HTTP, in one thread, with bounds on connections, their memory and their time. Every
 * scrape attaches to the NIC and detaches again: it holds no place of the NIC in between, and a restarted NIC answers
 * the next.
 */
#include "../../pipeline/value.h"
#include "serve.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../pipeline/nic.h"
#include "../nic_error.h"
#include "metrics.h"
#include "../output.h"

#define CONNECTIONS	  32u
#define CONNECTION_MEMORY (32u << 10)
#define PATIENCE	  10u /* seconds: limit for an idle connection, and for a request with its answer */

/* A connection. The library's thread writes, under lock; the thread that waits for signals reads and hangs up. */
struct place {
	int fd;	      /* 0: free */
	time_t since; /* when the current request began, or the wait for it */
};

struct server {
	const struct stat_asked *asked;
	pthread_mutex_t lock; /* protects place */
	struct place place[CONNECTIONS];
	struct sp_attach_link link; /* used by the library's thread only */
	_Atomic int asking; /* the descriptor of a request to the NIC, or -1; the end of the server shuts it down */
};

/* ---- answers ---- */

/* Takes over text. NULL: no memory, and the connection ends. */
static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, const char *type, char *text, size_t bytes)
{
	struct MHD_Response *r = text ? MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE) : NULL;
	enum MHD_Result result;

	if (!r) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return result;
}

static enum MHD_Result say(struct MHD_Connection *c, unsigned status, const char *words)
{
	char *text = malloc(strlen(words) + 2);

	if (text)
		sprintf(text, "%s\n", words);
	return reply(c, status, "text/plain; charset=utf-8", text, text ? strlen(text) : 0);
}

static int ask(struct server *s, struct stat_sample *sample, char *words, size_t room)
{
	int status = sp_attach_connect(&s->link, s->asked->nic);

	if (status) {
		command_nic_error(s->asked->nic, status, words, room);
		return status;
	}
	atomic_store(&s->asking, s->link.fd);
	status = stat_ask(&s->link, s->asked, sample);
	atomic_store(&s->asking, -1);
	close(s->link.fd);
	if (status)
		stat_ask_words(s->asked, status, words, room);
	return status;
}

static enum MHD_Result scrape(struct server *s, struct MHD_Connection *c)
{
	struct stat_sample sample = {0};
	char words[400], *text = NULL;
	size_t bytes = 0;
	FILE *to;
	bool whole;

	if (ask(s, &sample, words, sizeof(words)))
		return say(c, MHD_HTTP_SERVICE_UNAVAILABLE, words);
	to = open_memstream(&text, &bytes);
	whole = to && stat_metrics(sample.report, to);
	if (to && fclose(to))
		whole = false;
	json_decref(sample.report);
	if (whole)
		return reply(c, MHD_HTTP_OK, STAT_OPENMETRICS, text, bytes);
	free(text);
	return say(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "there is no memory for it");
}

/* Called when the head of a request is complete, then for each part of its body, then at its end. */
static enum MHD_Result request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
			       const char *version, const char *body, size_t *bytes, void **state)
{
	static int begun;

	(void)version, (void)body;
	if (!*state) {
		*state = &begun;
		return MHD_YES;
	}
	if (*bytes) { /* the body is ignored */
		*bytes = 0;
		return MHD_YES;
	}
	if (strcmp(url, "/metrics"))
		return say(c, MHD_HTTP_NOT_FOUND, "there is /metrics, and nothing else");
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET is what /metrics takes");
	return scrape(arg, c);
}

/* ---- time limits ---- */

static time_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* Called before the descriptor is closed, so its number is not reused yet. */
static void changed(void *arg, struct MHD_Connection *c, void **mine, enum MHD_ConnectionNotificationCode what)
{
	struct server *s = arg;

	pthread_mutex_lock(&s->lock);
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

		for (unsigned i = 0; info && i < CONNECTIONS && !*mine; i++)
			if (!s->place[i].fd) {
				s->place[i] = (struct place){.fd = info->connect_fd, .since = seconds()};
				*mine = &s->place[i];
			}
	} else if (*mine) {
		*(struct place *)*mine = (struct place){.fd = 0};
	}
	pthread_mutex_unlock(&s->lock);
}

/* The next request of a connection has a new time limit. */
static void answered(void *arg, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode how)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct server *s = arg;

	(void)state;
	if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK || !info || !info->socket_context)
		return;
	pthread_mutex_lock(&s->lock);
	((struct place *)info->socket_context)->since = seconds();
	pthread_mutex_unlock(&s->lock);
}

/* The library closes idle connections. A peer that sends a byte now and then would keep its place for ever. */
static void hurry(struct server *s)
{
	const time_t now = seconds();

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		if (s->place[i].fd && now - s->place[i].since > (time_t)PATIENCE)
			shutdown(s->place[i].fd, SHUT_RDWR);
	pthread_mutex_unlock(&s->lock);
}

/* ---- the server ---- */

int stat_serve_parse(const char *text, struct stat_address *address)
{
	static const struct addrinfo numbers = {.ai_socktype = SOCK_STREAM,
						.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
	char host[64] = "127.0.0.1";
	struct addrinfo *found;
	uint64_t number;

	if (sp_parse_uint(port, &number) || number > 65535)
		return -EINVAL;
	if (colon) {
		const bool bracket = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
		const size_t len = (size_t)(colon - text) - (bracket ? 2 : 0);

		/* an IPv6 address without brackets: its last part would be taken for the port */
		if (!len || len >= sizeof(host) || (!bracket && memchr(text, ':', len)))
			return -EINVAL;
		memcpy(host, text + bracket, len);
		host[len] = 0;
	}
	if (getaddrinfo(host, port, &numbers, &found))
		return -EINVAL;
	address->text = text;
	memcpy(&address->at, found->ai_addr, found->ai_addrlen);
	address->bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

/* A listening socket, and its address as text; or -errno. */
static int open_socket(const struct stat_address *address, char *words, size_t room)
{
	struct sockaddr_storage bound;
	socklen_t len = sizeof(bound);
	char host[64], port[8];
	const int on = 1;
	int fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), status;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&address->at, address->bytes) || listen(fd, CONNECTIONS) ||
	    getsockname(fd, (struct sockaddr *)&bound, &len)) {
		status = -errno;
		close(fd);
		return status;
	}
	if (getnameinfo((struct sockaddr *)&bound, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV)) {
		close(fd);
		return -EINVAL;
	}
	snprintf(words, room, strchr(host, ':') ? "http://[%s]:%s/metrics" : "http://%s:%s/metrics", host, port);
	return fd;
}

int stat_serve(const struct stat_asked *a, const struct stat_address *address)
{
	static struct server s; /* large */
	struct MHD_Daemon *daemon;
	char words[120];
	const struct timespec second = {.tv_sec = 1};
	sigset_t signals;
	int fd;

	/* Only this thread takes signals: it waits for them. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	s.asked = a;
	pthread_mutex_init(&s.lock, NULL);
	atomic_store(&s.asking, -1);
	fd = open_socket(address, words, sizeof(words));
	if (fd < 0)
		return command_fail("stat", "--listen %s: %s", address->text, strerror(-fd));
	daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, request, &s, MHD_OPTION_LISTEN_SOCKET,
				  fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				  (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, PATIENCE,
				  MHD_OPTION_NOTIFY_CONNECTION, changed, &s, MHD_OPTION_NOTIFY_COMPLETED, answered, &s,
				  MHD_OPTION_END);
	if (!daemon) {
		close(fd);
		return command_fail("stat", "--listen %s: the HTTP server does not start", address->text);
	}
	printf("NIC %s: %s\n", command_nic_name(a->nic), words);
	fflush(stdout);
	while (sigtimedwait(&signals, NULL, &second) < 0)
		hurry(&s);
	fd = atomic_load(&s.asking);
	if (fd >= 0) /* a NIC that hangs: ends the request */
		shutdown(fd, SHUT_RDWR);
	MHD_stop_daemon(daemon);
	return 0;
}
