/* SPDX-License-Identifier: BSD-3-Clause */
#include "children.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../host-api/spindle.h"
#include "bench.h"

#define END_SECONDS 10 /* between SIGTERM and SIGKILL for a child */

static const char *const name[2] = {"left", "right"};

static int said(int error, const char *what, struct bench_why *why)
{
	return bench_fail(why, error, "%s: %s", what, strerror(-error));
}

/* ---- children ---- */
/* The last line of its standard error. */
static void last_words(const struct bench_house *h, const struct bench_child *c, struct bench_why *why)
{
	char path[128], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/errors.%u", h->dir, c->number);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line)
			snprintf(why->text, sizeof(why->text), "%s", line);
	}
	if (f)
		fclose(f);
}

static char **environment(const struct bench_house *h)
{
	static char sockets[128], runtime[128];
	static char *list[512];
	static const char *const ours[] = {"SPINDLE_SOCKETS=", "RUNTIME_DIRECTORY=", "SPINDLE_NIC=", "NOTIFY_SOCKET="};
	size_t n = 0;

	snprintf(sockets, sizeof(sockets), "SPINDLE_SOCKETS=%s/sockets", h->dir);
	snprintf(runtime, sizeof(runtime), "RUNTIME_DIRECTORY=%s", h->dir);
	list[n++] = sockets;
	list[n++] = runtime;
	for (char **e = environ; *e && n + 1 < sizeof(list) / sizeof(*list); e++) {
		bool keep = true;

		for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
			keep &= strncmp(*e, ours[i], strlen(ours[i])) != 0;
		if (keep)
			list[n++] = *e;
	}
	list[n] = NULL;
	return list;
}

/* In the child: only system calls, because other threads of the parent may have held any lock. */
static void __attribute__((noreturn))
become(const struct bench_house *h, char *const *argv, char **env, const int *fd, int space, pid_t parent)
{
	if (space >= 0 && ((h->user >= 0 && setns(h->user, CLONE_NEWUSER)) || setns(h->net[space], CLONE_NEWNET)))
		_exit(126);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* after setns, which resets it */
	if (getppid() != parent)
		_exit(126);
	setpgid(0, 0); /* ^C is for the parent, which ends the children in order */
	if (dup2(fd[0], 0) < 0 || dup2(fd[1], 1) < 0 || dup2(fd[2], 2) < 0)
		_exit(126);
	if (fd[3] < 0)
		close(BENCH_LINK);
	else
		dup2(fd[3], BENCH_LINK);
	close_range(BENCH_LINK + 1, ~0u, 0);
	if (!strcmp(argv[0], "spindle"))
		execve("/proc/self/exe", argv, env);
	else
		execvpe(argv[0], argv, env);
	_exit(127);
}

int bench_child_start(const struct bench_house *h, const struct bench_start *start, struct bench_child *c,
		      struct bench_why *why)
{
	static unsigned number;
	const pid_t parent = getpid();
	char **env = environment(h), path[128];
	int out[2] = {-1, -1}, fd[4] = {-1, -1, -1, -1}, given[4], error = 0;

	*c = (struct bench_child){.out = -1, .number = ++number};
	snprintf(path, sizeof(path), "%s/errors.%u", h->dir, c->number);
	given[0] = start->fed ? fcntl(start->in, F_DUPFD_CLOEXEC, 3) : open("/dev/null", O_RDONLY | O_CLOEXEC);
	given[2] = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (pipe2(out, O_CLOEXEC))
		error = -errno;
	given[1] = out[1];
	given[3] = start->linked ? start->link : -1;
	/* High numbers: dup2() onto 0 to 3 must not overwrite one that is still needed. */
	for (unsigned i = 0; i < 4 && !error; i++) {
		fd[i] = fcntl(given[i == 2 && start->both ? 1 : i], F_DUPFD_CLOEXEC, 16);
		if (fd[i] < 0 && (i < 3 || start->linked))
			error = -errno;
	}
	if (!error) {
		c->pid = fork();
		if (!c->pid)
			become(h, (char *const *)(uintptr_t)start->argv, env, fd, start->space, parent);
		if (c->pid < 0)
			error = -errno;
	}
	for (unsigned i = 0; i < 4; i++) {
		if (i < 3 && given[i] >= 0)
			close(given[i]);
		if (fd[i] >= 0)
			close(fd[i]);
	}
	if (!error) {
		c->out = out[0];
		return 0;
	}
	c->pid = 0;
	if (out[0] >= 0)
		close(out[0]);
	return said(error, "a child process", why);
}

int bench_child_line(const struct bench_house *h, struct bench_child *c, double seconds, char *line, size_t line_room,
		     struct bench_why *why)
{
	const sp_time until = sp_clock() + (sp_time)(seconds * 1e12);
	size_t n = 0;

	for (;;) { /* a byte at a time: the rest stays in the pipe */
		struct pollfd p = {.fd = c->out, .events = POLLIN};
		const sp_time now = sp_clock();

		if (bench_stopped())
			return -EINTR;
		if (now >= until) {
			snprintf(why->text, sizeof(why->text), "a child process was silent for %.0f s", seconds);
			last_words(h, c, why);
			return -ETIMEDOUT;
		}
		if (poll(&p, 1, (int)((until - now) / 1000000000) + 1) <= 0)
			continue;
		if (read(c->out, line + n, 1) != 1) {
			snprintf(why->text, sizeof(why->text), "a child has ended too soon");
			last_words(h, c, why);
			return -EPIPE;
		}
		if (line[n] == '\n')
			break;
		if (n + 1 < line_room)
			n++;
	}
	line[n] = '\0';
	return 0;
}

/* 1: ended. */
static int ended(pid_t pid, double seconds, bool stoppable, int *status)
{
	const sp_time until = sp_clock() + (sp_time)(seconds * 1e12);
	pid_t r;

	while (!(r = waitpid(pid, status, WNOHANG)) && sp_clock() < until && !(stoppable && bench_stopped()))
		usleep(500);
	return r != 0;
}

int bench_child_end(const struct bench_house *h, struct bench_child *c, double seconds, struct bench_why *why)
{
	int status = 0;

	if (!ended(c->pid, seconds, true, &status)) {
		snprintf(why->text, sizeof(why->text), "a child does not end");
		bench_child_stop(c);
		return bench_stopped() ? -EINTR : -ETIMEDOUT;
	}
	close(c->out);
	c->pid = 0;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFSIGNALED(status))
		snprintf(why->text, sizeof(why->text), "a child was ended by signal %d", WTERMSIG(status));
	else
		snprintf(why->text, sizeof(why->text), "a child ended with status %d", WEXITSTATUS(status));
	last_words(h, c, why);
	return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -ENOENT : -ECHILD;
}

void bench_child_stop(struct bench_child *c)
{
	int status;

	if (c->pid <= 0)
		return;
	kill(c->pid, SIGTERM);
	if (!ended(c->pid, END_SECONDS, false, &status)) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, &status, 0);
	}
	close(c->out);
	c->pid = 0;
}

int bench_children_pair(const struct bench_house *h, const struct bench_start *first, const struct bench_start *second,
			double seconds, char *line, size_t line_room, struct bench_why *why)
{
	struct bench_start a = *first, b = *second;
	struct bench_child one = {.out = -1}, other = {.out = -1};
	int link[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link))
		return -errno;
	a.linked = b.linked = true;
	a.link = link[0];
	b.link = link[1];
	r = bench_child_start(h, &a, &one, why);
	if (!r)
		r = bench_child_start(h, &b, &other, why);
	close(link[0]);
	close(link[1]);
	if (!r)
		r = bench_child_line(h, &other, seconds, line, line_room, why);
	if (!r)
		r = bench_child_end(h, &other, 10, why);
	if (!r)
		r = bench_child_end(h, &one, 10, why);
	bench_child_stop(&other);
	bench_child_stop(&one);
	return r;
}

/* ---- NICs ---- */
int bench_nic_start(struct bench_house *h, unsigned which, const char *port, int space, struct bench_why *why)
{
	char file[128], line[512], mtu[32] = "", places[48] = "";
	const char *const argv[] = {"spindle", "run", "-c", file, NULL};
	FILE *f;
	int r;

	snprintf(file, sizeof(file), "%s/%s.ini", h->dir, name[which]);
	if (h->mtu)
		snprintf(mtu, sizeof(mtu), "mtu = %u\n", h->mtu);
	if (h->applications)
		snprintf(places, sizeof(places), "applications = %u\n", h->applications);
	f = fopen(file, "w");
	if (!f ||
	    fprintf(f, "[nic]\nname = %s\nport = %s\nip = 192.0.2.%u/24\n%s%s", name[which], port, which + 1, mtu,
		    places) < 0 ||
	    fflush(f)) {
		if (f)
			fclose(f);
		return said(errno ? -errno : -EIO, file, why);
	}
	fclose(f);
	r = bench_child_start(h, &(struct bench_start){.argv = argv, .space = space}, &h->nic[which], why);
	return r ? r : bench_child_line(h, &h->nic[which], BENCH_PATIENCE, line, sizeof(line), why);
}

int bench_nics_start(struct bench_house *h, const char *kind, struct bench_why *why)
{
	static const char *const vhost[2] = {"vhost", "virtio-user"};
	const bool spaces = strcmp(kind, vhost[0]) != 0, xdp = !strcmp(kind, "af_xdp");
	int r = 0;

	if (xdp && geteuid())
		return bench_fail(why, BENCH_SKIPPED, "af_xdp ports need root");
	for (unsigned i = 0; i < 2 && !r; i++) {
		char port[128];

		if (spaces)
			snprintf(port, sizeof(port), "%s:%s0", kind, name[i]);
		else
			snprintf(port, sizeof(port), "%s:%s/wire", vhost[i], h->dir);
		r = bench_nic_start(h, i, port, spaces ? (int)i : -1, why);
	}
	return r == -EPIPE && xdp ? BENCH_SKIPPED : r; /* why has the reason */
}

void bench_nics_stop(struct bench_house *h)
{
	bench_child_stop(&h->nic[1]);
	bench_child_stop(&h->nic[0]);
}

/* ---- namespaces ---- */
static void write_map(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(1);
	close(fd);
}

/* A process that only holds a namespace. */
static int hold_space(struct bench_house *h, unsigned i, bool own_user, struct bench_why *why)
{
	const pid_t parent = getpid();
	char path[64], uid[32], gid[32];
	int tell[2];
	char ok = 0;

	snprintf(uid, sizeof(uid), "0 %u 1", geteuid());
	snprintf(gid, sizeof(gid), "0 %u 1", getegid());
	if (pipe2(tell, O_CLOEXEC))
		return said(-errno, "pipe", why);
	h->holder[i] = fork();
	if (!h->holder[i]) {
		signal(SIGINT, SIG_IGN); /* for the parent */
		signal(SIGTERM, SIG_DFL);
		close(tell[0]);
		if (h->user >= 0 && setns(h->user, CLONE_NEWUSER))
			_exit(1);
		if (unshare(own_user ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET))
			_exit(1);
		if (own_user) {
			write_map("/proc/self/setgroups", "deny");
			write_map("/proc/self/uid_map", uid);
			write_map("/proc/self/gid_map", gid);
		}
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || write(tell[1], "0", 1) != 1)
			_exit(1);
		close(tell[1]);
		for (;;)
			pause();
	}
	close(tell[1]);
	if (h->holder[i] < 0 || read(tell[0], &ok, 1) != 1)
		ok = 0;
	close(tell[0]);
	if (!ok)
		return bench_fail(why, -EPERM,
				  "no network namespace can be made here (root, or user namespaces, are needed)");
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)h->holder[i]);
	h->net[i] = open(path, O_RDONLY | O_CLOEXEC);
	if (own_user) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)h->holder[i]);
		h->user = open(path, O_RDONLY | O_CLOEXEC);
	}
	return h->net[i] < 0 || (own_user && h->user < 0) ? said(-errno, path, why) : 0;
}

static int ip(struct bench_house *h, int space, const char *words, struct bench_why *why)
{
	const char *argv[BENCH_ARGS] = {"ip"};
	struct bench_child c;
	char text[128], *save, *w;
	unsigned n = 1;
	int r;

	snprintf(text, sizeof(text), "%s", words);
	for (w = strtok_r(text, " ", &save); w && n + 1 < BENCH_ARGS; w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	r = bench_child_start(h, &(struct bench_start){.argv = argv, .space = space}, &c, why);
	if (!r)
		r = bench_child_end(h, &c, 10, why);
	if (r == -ENOENT)
		bench_fail(why, r, "ip is not installed (Debian package iproute2)");
	return r && r != -EINTR ? -EPERM : r;
}

int bench_house_spaces(struct bench_house *h, struct bench_why *why)
{
	char link[128];
	int r = hold_space(h, 0, geteuid() != 0, why);

	if (!r)
		r = hold_space(h, 1, false, why);
	snprintf(link, sizeof(link), "link add left0 type veth peer name right0 netns %d", (int)h->holder[1]);
	if (!r)
		r = ip(h, 0, link, why);
	for (int i = 0; i < 2 && !r; i++) {
		snprintf(link, sizeof(link), "link set %s0 addrgenmode none up", name[i]);
		r = ip(h, i, link, why);
		snprintf(link, sizeof(link), "addr add 198.51.100.%d/24 dev %s0", i + 1, name[i]);
		if (!r)
			r = ip(h, i, link, why);
	}
	return r;
}

/* ---- the house ---- */
int bench_house_open(struct bench_house *h, struct bench_why *why)
{
	const char *tmp = getenv("TMPDIR");

	*h = (struct bench_house){.user = -1, .net = {-1, -1}, .nic = {{.out = -1}, {.out = -1}}};
	/* A Unix socket's path has 107 bytes. */
	snprintf(h->dir, sizeof(h->dir), "%s/spindle-bench-XXXXXX", tmp && *tmp && strlen(tmp) < 50 ? tmp : "/tmp");
	if (mkdtemp(h->dir))
		return 0;
	h->dir[0] = '\0';
	return said(-errno, "no temporary directory", why);
}

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	remove(path);
	return 0;
}

void bench_house_close(struct bench_house *h)
{
	int status;

	bench_nics_stop(h);
	for (unsigned i = 0; i < 2; i++) {
		if (h->holder[i] > 0) {
			kill(h->holder[i], SIGKILL);
			waitpid(h->holder[i], &status, 0);
		}
		if (h->net[i] >= 0)
			close(h->net[i]);
	}
	if (h->user >= 0)
		close(h->user);
	if (*h->dir)
		nftw(h->dir, drop, 16, FTW_DEPTH | FTW_PHYS);
}
