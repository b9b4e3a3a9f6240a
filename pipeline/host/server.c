/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NIC's socket. One thread accepts programs and serves one request of each in turn. No client can block the thread
 * or get more of it than another. A session that has used more than its share of the workers' time waits for its next
 * turn, so that requests, however many, do not starve packets.
 */
#include "../engine.h"
#include "../error.h"
#include "../mem/freeing.h"
#include "refusal.h"
#include "reply.h"
#include "request.h"
#include "../process.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SP_APPLICATIONS	    64 /* by default */
#define SP_APPLICATIONS_MAX 4096
#define SP_OBSERVERS	    64		  /* connections without HELLO */
#define SP_ACCEPTS	    64		  /* in one turn */
#define SP_ACCEPT_PAUSE	    100		  /* ms, when accept() has no descriptor left */
#define SP_ENDING_PAUSE	    100		  /* ms, when a stopped worker keeps sessions from ending */
#define LONGEST		    (1 * SP_SEC)  /* the longest wait for a turn */
#define ROUND		    (5 * SP_MS)	  /* the longest for users who are ahead of their share */
#define ACTIVE		    (200 * SP_MS) /* so long a user counts as active */
#define OTHERS		    3		  /* descriptors that the thread waits for, beside those of sessions */

/* ---- connections ---------------------------------------------------------------------------------------------------
 */
/* last: the server ends; then wait for workers. */
static void drop(struct sp_server *server, unsigned i, bool last)
{
	struct sp_session *s = &server->session[i];
	const sp_time called = server->nic->called;

	/* All clients wait for this thread, so it must not wait for a stopped worker. */
	s->ending = !last && !sp_session_free(server, s);
	if (s->ending)
		return;
	/* Contexts go a few at a time: others ask meanwhile. */
	if (!last && s->device && sp_device_less(s->device)) {
		s->work = SP_WORK_CLOSE;
		sp_session_charge(server, s, server->nic->called - called);
		return;
	}
	if (last) /* without this goodbye a program takes the end of its connection for the NIC's death */
		sp_session_refuse(server, s, -ENODEV);
	sp_session_close(server, s);
	sp_session_charge(server, s, server->nic->called - called);
	server->session[i] = server->session[--server->sessions];
}

/* All places are taken: closes the session that owns nothing and has been idle longest, so that idle connections keep
 * no one out. */
static bool make_room(struct sp_server *server)
{
	unsigned oldest = server->sessions;

	for (unsigned i = 0; i < server->sessions; i++) {
		const struct sp_session *s = &server->session[i];

		if (!s->device && !s->capture &&
		    (oldest == server->sessions || s->clock < server->session[oldest].clock))
			oldest = i;
	}
	if (oldest == server->sessions)
		return false;
	drop(server, oldest, false);
	return true;
}

/* False: out of descriptors or memory, or the reaper has no time; the connection stays in the backlog. */
static bool take(struct sp_server *server)
{
	struct sp_session s;
	int fd;

	if (!sp_freeing_ready(server->nic))
		return false;
	fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
	if (sp_session_open(server, &s, fd))
		return true;
	s.clock = ++server->clock;
	if (sp_freeing_held(server->nic, s.uid) >= SP_ATTACH_HELD ||
	    (server->sessions == server->room && !make_room(server))) {
		const int why = server->sessions == server->room ? -EUSERS : -EBUSY;

		sp_session_refuse(server, &s, why);
		sp_refusal_note(server, &s, 0, why);
		sp_freeing_let_go(server->nic, s.held);
		return true;
	}
	server->session[server->sessions++] = s;
	return true;
}

sp_time *sp_session_share(struct sp_server *server, uint32_t uid)
{
	return &server->share[((uid ^ server->nic->hash_key[0]) * 0x9E3779B97F4A7C15ull >> 32) % SP_SHARES];
}

void sp_session_charge(struct sp_server *server, const struct sp_session *s, sp_time used)
{
	const sp_time now = sp_clock();
	sp_time *ready = sp_session_share(server, s->uid);
	unsigned sharing = 1;

	if (!used)
		return;
	for (unsigned i = 0; i < SP_SHARES; i++)
		sharing += &server->share[i] != ready && server->share[i] > now;
	*ready = (*ready > now ? *ready : now) + SP_SESSIONS_PART * sharing * used;
	if (*ready > now + SP_CREDIT + LONGEST)
		*ready = now + SP_CREDIT + LONGEST;
}

/* Served just now. */
static void note_active(struct sp_server *server, const sp_time *share, sp_time now)
{
	struct sp_active *a = server->active;

	if (a[0].share != share) {
		a[1] = a[0];
		a[0].share = share;
	}
	a[0].at = now;
}

bool sp_session_alone(const struct sp_server *server, const sp_time *share)
{
	const sp_time now = sp_clock();

	for (unsigned i = 0; i < 2; i++)
		if (server->active[i].share && server->active[i].share != share && now - server->active[i].at < ACTIVE)
			return false;
	return true;
}

static bool has_turn(struct sp_server *server, const struct sp_session *s, sp_time now)
{
	return *sp_session_share(server, s->uid) <= now + SP_CREDIT;
}

/* ms until the next waiting session has its turn; -1: none waits. */
static int next_turn(struct sp_server *server, sp_time now)
{
	sp_time next = SP_NEVER;

	for (unsigned i = 0; i < server->sessions; i++)
		if (!has_turn(server, &server->session[i], now))
			next = RTE_MIN(next, *sp_session_share(server, server->session[i].uid));
	return next == SP_NEVER ? -1 : (int)((next - now - SP_CREDIT) / SP_MS) + 1;
}

/* Is there a slice to do? */
static bool works(struct sp_server *server, const struct sp_session *s, sp_time now)
{
	return s->work && s->work != SP_WORK_WAIT && !s->ending && has_turn(server, s, now);
}

/* Does one slice of long work for the session that has waited longest. One slice per turn bounds the delay of small
 * requests. */
static void work(struct sp_server *server)
{
	const sp_time now = sp_clock();
	unsigned next = server->sessions;
	bool freed;

	for (unsigned i = 0; i < server->sessions; i++)
		if (works(server, &server->session[i], now) &&
		    (next == server->sessions || server->session[i].worked < server->session[next].worked))
			next = i;
	freed = next == server->sessions || server->freed_at < server->session[next].worked;
	if (freed) {
		server->freed_at = ++server->clock;
		sp_freeing_work(server->nic);
	} else if (server->session[next].work == SP_WORK_CLOSE || !sp_request_work(server, &server->session[next])) {
		drop(server, next, false);
	}
	for (unsigned i = server->sessions; freed && i-- > 0;)
		if (server->session[i].work == SP_WORK_WAIT && !sp_request_work(server, &server->session[i]))
			drop(server, i, false);
}

static int earlier(int one, int other)
{
	return one < 0 || (other >= 0 && other < one) ? other : one;
}

/* ms until there is work to do; -1: none is to be done. */
static int next_work(struct sp_server *server, sp_time now)
{
	int next = sp_freeing_next(server->nic);

	for (unsigned i = 0; i < server->sessions && next; i++)
		if (works(server, &server->session[i], now))
			next = 0;
		else if (server->session[i].work == SP_WORK_WAIT)
			next = earlier(next, SP_FREEING_PAUSE);
	return next;
}

/* In this round, which began then. One user's many connections do not keep others waiting: after some time only those
 * who are not ahead of their share are served before all are looked at again. */
static bool may_serve(struct sp_server *server, const struct sp_session *s, sp_time began)
{
	sp_time *share = sp_session_share(server, s->uid);
	const sp_time now = sp_clock();

	if (!has_turn(server, s, now) || (now - began > ROUND && *share > now))
		return false;
	note_active(server, share, now);
	return true;
}

static void *serve(void *arg)
{
	struct sp_server *server = arg;
	struct pollfd *wait = calloc(OTHERS + server->room, sizeof(*wait));
	bool full = false;
	sp_time began;

	while (wait) {
		const unsigned sessions = server->sessions;
		const sp_time now = sp_clock();
		int most = earlier(next_turn(server, now), next_work(server, now));

		if (full)
			most = earlier(most, sp_freeing_ready(server->nic) ? SP_ACCEPT_PAUSE : SP_FREEING_PAUSE);
		wait[0] = (struct pollfd){.fd = server->wake, .events = POLLIN};
		wait[1] = (struct pollfd){.fd = full ? -1 : server->listener, .events = POLLIN};
		wait[2] = (struct pollfd){.fd = sp_freeing_fd(server->nic), .events = POLLIN};
		for (unsigned i = 0; i < sessions; i++) {
			const struct sp_session *s = &server->session[i];

			wait[OTHERS + i] = (struct pollfd){s->ending || s->work == SP_WORK_CLOSE ? -1 : s->fd,
							   !s->work && has_turn(server, s, now) ? POLLIN : 0, 0};
			most = s->ending ? earlier(most, SP_ENDING_PAUSE) : most;
		}
		if (poll(wait, OTHERS + sessions, most) < 0)
			continue;
		if (wait[0].revents)
			break;
		began = sp_clock();
		/* Backwards: drop() moves the last session, already served, into the gap. */
		for (unsigned i = sessions; i-- > 0;)
			if (server->session[i].ending)
				drop(server, i, false);
			else if (wait[OTHERS + i].revents && !wait[OTHERS + i].events) /* a hang-up */
				drop(server, i, false);
			else if (wait[OTHERS + i].revents && may_serve(server, &server->session[i], began) &&
				 !sp_request_serve(server, &server->session[i]))
				drop(server, i, false);
		full = false;
		for (unsigned i = 0; i < SP_ACCEPTS && !full && wait[1].fd >= 0 && wait[1].revents; i++)
			full = !take(server);
		work(server);
	}
	free(wait);
	while (server->sessions)
		drop(server, server->sessions - 1, true);
	return NULL;
}

/* ---- the socket ----------------------------------------------------------------------------------------------------
 */
static int claim(struct sp_server *server, struct sp_error *error)
{
	char text[sizeof(error->text)];
	const int rc = sp_socket_lock_take(&server->claim, server->config.path, false, text, sizeof(text));

	return rc ? sp_error_set(error, rc == -EBUSY ? EADDRINUSE : -rc, "socket", "%s", text) : 0;
}

static int listen_at(struct sp_server *server, struct sp_error *error)
{
	const struct sp_server_config *c = &server->config;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const char *what = "bind";
	struct stat st;

	strcpy(at.sun_path, c->path); /* its length has been checked */
	if (!lstat(c->path, &st)) {
		if (!S_ISSOCK(st.st_mode))
			return sp_error_set(error, EEXIST, "socket", "%s is there, and no socket", c->path);
		unlink(c->path); /* left by a dead NIC: we hold the lock */
	}
	server->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->listener < 0 || bind(server->listener, (const struct sockaddr *)&at, sizeof(at)))
		goto fail;
	server->listening = true;
	/* Clients cannot connect before listen(), so there is no moment with the wrong group or mode. */
	what = "group";
	if (c->group >= 0 && lchown(c->path, (uid_t)-1, (gid_t)c->group))
		goto fail;
	what = "mode";
	if (chmod(c->path, c->mode))
		goto fail;
	what = "listen";
	server->held = sp_freeing_hold(server->nic, geteuid(), server->listener);
	if (!listen(server->listener, SOMAXCONN))
		return 0;
fail:
	return sp_error_set(error, errno, "socket", "%s: %s: %s", c->path, what, strerror(errno));
}

/* Frees all but the thread and the sessions. */
static void dismantle(struct sp_server *server)
{
	if (server->listening)
		unlink(server->config.path);
	if (server->held)
		sp_freeing_let_go(server->nic, server->held);
	else if (server->listener >= 0)
		close(server->listener);
	if (server->freeing)
		sp_freeing_end(server->nic);
	if (server->wake >= 0)
		close(server->wake);
	sp_socket_lock_drop(&server->claim);
	free((void *)(uintptr_t)server->config.path);
	free(server->session);
	free(server);
}

static int start_thread(struct sp_server *server)
{
	sigset_t all, before;
	int rc;

	/* The program's other threads handle signals. */
	sigfillset(&all);
	sigdelset(&all, SIGSYS); /* as a crash, it is told */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&server->thread, NULL, serve, server);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

int sp_server_start(struct sp_nic *nic, const struct sp_server_config *config, struct sp_error *error,
		    struct sp_server **out)
{
	struct sp_server *server;
	int rc;

	if (error)
		memset(error, 0, sizeof(*error));
	if (!nic->started)
		return sp_error_set(error, EINVAL, "", "the NIC's workers do not run");
	if (!config->path || !*config->path)
		return sp_error_set(error, EINVAL, "socket", "no path for the socket");
	if (strlen(config->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return sp_error_set(error, ENAMETOOLONG, "socket", "%s: too long for a socket", config->path);
	if (config->users > SP_MAX_USERS || config->applications > SP_APPLICATIONS_MAX || config->mode & ~0777u)
		return sp_error_set(error, EINVAL, "", "too many users or applications, or no mode of a socket");
	server = calloc(1, sizeof(*server));
	if (!server)
		return sp_error_set(error, ENOMEM, "", "no memory for a server");
	server->nic = nic;
	server->claim.fd = server->listener = server->wake = -1;
	server->config = *config;
	server->config.mode = config->mode ? config->mode : 0600;
	server->config.applications = config->applications ? config->applications : SP_APPLICATIONS;
	server->config.path = strdup(config->path);
	server->room = server->config.applications + SP_OBSERVERS;
	server->session = calloc(server->room, sizeof(*server->session));
	server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!server->config.path || !server->session || server->wake < 0)
		rc = sp_error_set(error, ENOMEM, "", "no memory for a server");
	else
		rc = config->claimed ? 0 : claim(server, error);
	if (!rc) {
		rc = sp_freeing_begin(server->nic);
		server->freeing = !rc;
		if (rc)
			sp_error_set(error, -rc, "", "no process for what applications leave behind: %s",
				     strerror(-rc));
	}
	rc = rc ? rc : listen_at(server, error);
	if (!rc) {
		rc = start_thread(server);
		if (rc)
			sp_error_set(error, -rc, "", "no thread for a server: %s", strerror(-rc));
	}
	if (rc) {
		dismantle(server);
		return rc;
	}
	*out = server;
	return 0;
}

void sp_server_stop(struct sp_server *server)
{
	if (!server)
		return;
	atomic_store(&server->nic->leaving, true);
	while (write(server->wake, &(uint64_t){1}, sizeof(uint64_t)) < 0 && errno == EINTR)
		;
	pthread_join(server->thread, NULL);
	atomic_store(&server->nic->leaving, false);
	dismantle(server);
}
