/* SPDX-License-Identifier: BSD-3-Clause */
#include "reaper.h"
#include "../process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST	   (1u << 20) /* things that the reaper keeps; its descriptors end before */
#define CHILDREN   64	      /* of one user at a time; the rest waits */
#define LONGEST	   100	      /* ms between two looks */
#define HELD_AFTER 200	      /* ms */
#define SOCKET	   3
#define PATIENCE   100 /* ms that the end of a NIC waits for the reaper's, so that it leaves no zombie */

/* One message each way. The socket is a stream, as a kernel queues only some ten datagrams; a message is one write, and
 * a read ends with the message that a descriptor came with. */
struct job {
	uint64_t id;
	uint32_t what, uid;
};
struct report {
	uint64_t id;
	uint32_t state, reserved;
};

/* ---- the NIC's side ---- */

int sp_reaper_give(struct sp_reaper *r, enum sp_reaped what, uint64_t id, uint32_t uid, int fd)
{
	struct job job = {id, what, uid};
	struct iovec part = {&job, sizeof(job)};
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (r->socket < 0)
		return -EPIPE;
	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control);
	}
	memset(&control, 0, sizeof(control));
	control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	if (sendmsg(r->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(job))
		return errno == EPIPE || errno == ECONNRESET ? -EPIPE : -EAGAIN;
	return 0;
}

bool sp_reaper_lives(const struct sp_reaper *r)
{
	struct pollfd p = {.fd = r->socket};

	return r->socket >= 0 && poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLERR));
}

bool sp_reaper_ready(const struct sp_reaper *r)
{
	struct pollfd p = {.fd = r->socket, .events = POLLOUT};

	return poll(&p, 1, 0) == 1 && p.revents & POLLOUT;
}

int sp_reaper_take(struct sp_reaper *r, uint64_t *id, enum sp_reap_state *state)
{
	struct report report;
	ssize_t got;

	if (r->socket < 0)
		return -EPIPE;
	got = recv(r->socket, &report, sizeof(report), MSG_DONTWAIT);
	if (got != sizeof(report))
		return got < 0 && (errno == EAGAIN || errno == EINTR) ? -EAGAIN : -EPIPE;
	*id = report.id;
	*state = report.state;
	return 0;
}

void sp_reaper_stop(struct sp_reaper *r)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	if (r->socket < 0)
		return;
	close(r->socket);
	r->socket = -1;
	for (unsigned i = 0; i < PATIENCE && waitpid(r->pid, NULL, __WALL | WNOHANG) == 0; i++)
		nanosleep(&pause, NULL);
}

/* ---- the reaper: one thread, static memory, system calls only, since it is the fork of a process with threads ---- */

struct kept {
	uint64_t id;
	uint32_t uid, what; /* RELEASE: a socket that is to be dropped */
	int fd;
	pid_t child;	/* 0: none yet */
	uint64_t since; /* ms */
	uint64_t again; /* ms: the next look; UINT64_MAX: none */
	uint32_t pause; /* ms until the look after that */
	bool held;	/* reported so */
};
static struct kept *kept; /* MOST */
static size_t keeps;

/* A fork without the C library, which would take locks that threads of the NIC may have held. A program that embeds the
 * NIC gets no SIGCHLD of such a child with signal 0, and does not meet it in wait(). */
static pid_t fork_quietly(int signal)
{
#ifdef __SANITIZE_THREAD__ /* its library must know, or its own locks stay taken in the child */
	(void)signal;
	return fork();
#endif
	return (pid_t)syscall(SYS_clone, (unsigned long)signal, 0ul, 0ul, 0ul, 0ul);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool drop(uint32_t uid);

/* The NIC has ended. Programs learn it first; then all is dropped. */
static __attribute__((noreturn)) void leave(void)
{
	for (size_t i = 0; i < keeps; i++)
		if (kept[i].what == SP_REAP_SOCKET) {
			shutdown(kept[i].fd, SHUT_RDWR);
			kept[i].what = SP_REAP_RELEASE;
		}
	for (size_t i = 0; i < keeps; i++)
		if (kept[i].what == SP_REAP_RELEASE && kept[i].fd >= 0)
			drop(kept[i].uid);
	/* Those that end at once leave no zombies. The others are left to themselves: they hold nothing of the NIC's.
	 */
	for (unsigned i = 0; i < PATIENCE / 2 && waitpid(-1, NULL, WNOHANG) >= 0; i++)
		poll(NULL, 0, 1);
	_exit(0);
}

static void tell(const struct kept *k, enum sp_reap_state state)
{
	const struct report report = {k->id, state, 0};
	ssize_t sent;

	do
		sent = send(SOCKET, &report, sizeof(report), MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent != sizeof(report))
		leave();
}

static void release(uint64_t id)
{
	for (size_t i = 0; i < keeps; i++)
		if (kept[i].id == id && kept[i].what == SP_REAP_SOCKET) {
			kept[i].what = SP_REAP_RELEASE;
			kept[i].since = now_ms();
			kept[i].again = 0;
			return;
		}
}

static bool receive(void)
{
	struct job job;
	struct iovec part = {&job, sizeof(job)};
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	const ssize_t got = recvmsg(SOCKET, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct kept *k = &kept[keeps];

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got != sizeof(job))
		leave();
	if (job.what == SP_REAP_RELEASE) {
		release(job.id);
		return true;
	}
	*k = (struct kept){.id = job.id, .uid = job.uid, .what = job.what, .fd = -1, .since = now_ms(), .pause = 1};
	if (job.what == SP_REAP_SOCKET)
		k->again = UINT64_MAX;
	if (CMSG_FIRSTHDR(&message)) /* none: no descriptor was left, and the kernel has closed it */
		memcpy(&k->fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(k->fd));
	keeps++;
	return true;
}

/* A lease for writing is granted if no other file of this inode is open. It can go at once: who has no file of it
 * cannot open it either. */
static bool is_alone(int fd)
{
	if (!fcntl(fd, F_SETLEASE, F_WRLCK))
		return true;
	return errno != EAGAIN && errno != EBUSY; /* a kernel without leases */
}

static bool is_dropped(const struct kept *k, uint32_t uid)
{
	return k->what == SP_REAP_RELEASE && k->uid == uid && !k->child && k->fd >= 0;
}

/* All sockets of this user that are to be dropped, by one child: it drops the last references by ending, since an
 * ending process does not linger on sockets. The pipe tells it when this process has closed its own. */
static bool drop(uint32_t uid)
{
	int go[2];
	char byte;
	pid_t child;

	if (pipe2(go, O_CLOEXEC))
		return false;
	child = fork_quietly(SIGCHLD);
	if (!child) {
		/* Nothing else must stay open through the child. */
		for (size_t i = 0; i < keeps; i++)
			if (kept[i].fd >= 0 && !is_dropped(&kept[i], uid))
				close(kept[i].fd);
		close(SOCKET);
		close(go[1]);
		while (read(go[0], &byte, 1) < 0 && errno == EINTR)
			;
		_exit(0);
	}
	close(go[0]);
	for (size_t i = 0; child > 0 && i < keeps; i++)
		if (is_dropped(&kept[i], uid)) {
			close(kept[i].fd);
			kept[i].fd = -1;
			kept[i].child = child;
		}
	close(go[1]);
	return child > 0;
}

/* Children at work for this user. They come one after the other, so that equal ones stand for one. */
static unsigned children_of(uint32_t uid)
{
	unsigned sum = 0;
	pid_t last = 0;

	for (size_t i = 0; i < keeps; i++)
		if (kept[i].uid == uid && kept[i].child && kept[i].child != last) {
			last = kept[i].child;
			sum++;
		}
	return sum;
}

/* One look at what is kept. True: it is gone. */
static bool look(struct kept *k)
{
	if (k->child) /* an error: it has been waited for with another socket */
		return waitpid(k->child, NULL, WNOHANG) != 0;
	if (k->fd < 0)
		return true;
	if (k->what == SP_REAP_RELEASE) {
		if (children_of(k->uid) < CHILDREN)
			drop(k->uid);
		return false;
	}
	if (!is_alone(k->fd))
		return false;
	close(k->fd);
	return true;
}

static __attribute__((noreturn)) void reap(void)
{
	kept = mmap(NULL, MOST * sizeof(*kept), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0);
	if (kept == MAP_FAILED)
		_exit(1);
	for (;;) {
		struct pollfd wait = {.fd = SOCKET, .events = POLLIN};
		uint64_t now = now_ms(), next = UINT64_MAX;

		for (size_t i = 0; i < keeps; i++)
			next = kept[i].again < next ? kept[i].again : next;
		poll(&wait, 1, next == UINT64_MAX ? -1 : next <= now ? 0 : (int)(next - now));
		while (keeps < MOST && receive())
			;
		now = now_ms();
		for (size_t i = 0; i < keeps; i++) {
			struct kept *k = &kept[i];

			if (now < k->again)
				continue;
			if (look(k)) {
				tell(k, SP_REAP_DONE);
				*k = kept[--keeps];
				i--;
				continue;
			}
			k->again = now + k->pause;
			k->pause = k->pause * 2 < LONGEST ? k->pause * 2 : LONGEST;
			if (!k->held && now - k->since >= HELD_AFTER) {
				k->held = true;
				tell(k, SP_REAP_HELD);
			}
		}
	}
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LARGE UINT64_MAX /* shadow memory is large */
#else
#define LARGE (16ul << 20)
#endif

/* Is it shared with the NIC (ports' rings), or so large that copies of its page tables would make each fork slow? rest:
 * what stands behind the addresses in /proc/self/maps. */
static bool is_ballast(const char *rest, unsigned long bytes)
{
	const bool nameless = !strncmp(rest + 5, " 00000000 00:00 0", 17) && !strchr(rest, '[');

	return rest[4] == 's' || (nameless && bytes >= LARGE);
}

/* Memory of the NIC that this process does not need. */
static void unmap_ballast(void)
{
	static char text[8192];
	const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t got;

	while (fd >= 0 && (got = read(fd, text + have, sizeof(text) - have)) > 0) {
		char *line = text, *end;

		have += (size_t)got;
		while ((end = memchr(line, '\n', have - (size_t)(line - text)))) {
			char *dash, *rights;
			const unsigned long low = strtoul(line, &dash, 16), high = strtoul(dash + 1, &rights, 16);

			*end = 0;
			if (is_ballast(rights, high - low))
				munmap((void *)low, high - low);
			line = end + 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
		if (have == sizeof(text)) /* a line longer than any path */
			break;
	}
	if (fd >= 0)
		close(fd);
}

static __attribute__((noreturn)) void become_reaper(int socket)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN}, usual = {.sa_handler = SIG_DFL};
	struct rlimit files;
	sigset_t none;

	setsid(); /* Ctrl-C is the NIC's */
	for (int i = 1; i < NSIG; i++)
		sigaction(i, i == SIGHUP || i == SIGINT || i == SIGTERM || i == SIGPIPE ? &ignored : &usual, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "spindle-reaper");
	if (socket != SOCKET && dup3(socket, SOCKET, O_CLOEXEC) < 0)
		_exit(1);
	syscall(SYS_close_range, 0u, SOCKET - 1u, 0u);
	syscall(SYS_close_range, SOCKET + 1u, ~0u, 0u);
	unmap_ballast();
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (sp_process_child_confine())
		_exit(1);
	reap();
}

int sp_reaper_start(struct sp_reaper *r)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	r->pid = fork_quietly(0);
	if (!r->pid)
		become_reaper(ends[1]);
	close(ends[1]);
	if (r->pid < 0) {
		const int err = -errno;

		close(ends[0]);
		return err;
	}
	r->socket = ends[0];
	return 0;
}
