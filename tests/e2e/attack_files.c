/* SPDX-License-Identifier: BSD-3-Clause */
/* Attacks that make the NIC wait for a file or for a lock of one; see attack.c. */
#include "attack.h"
#include "attack_fuse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- recvhold ---- */
struct reader {
	int fd;
	void *page;
};

static void *reading(void *arg)
{
	const struct reader *r = arg;

	if (read(r->fd, r->page, 4096) >= 0 || errno != EFAULT)
		die("a page came", -errno);
	return arg;
}

static void arm(struct raw *raw)
{
	struct sp_attach_queues *queues = (void *)raw->queues.at;
	const struct sp_command query = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY, .context = raw->context};

	__atomic_store_n(&queues->bell.armed, 1, __ATOMIC_SEQ_CST);
	put(raw, &query);
}

int recvhold(struct raw *raw)
{
	static struct reader readers[3];

	fuse_begin();
	begin(raw);
	readers[0] = (struct reader){raw->wake, fuse_page()};
	readers[1] = (struct reader){raw->post, fuse_page()};
	readers[2] = (struct reader){raw->fd, fuse_page()};
	arm(raw);
	if (poll(&(struct pollfd){.fd = raw->wake, .events = POLLIN}, 1, 20000) != 1)
		die("not woken", -ETIMEDOUT);
	request(raw->fd, SP_ATTACH_REPORT, NULL, NULL, 0);
	if (poll(&(struct pollfd){.fd = raw->fd, .events = POLLIN}, 1, 20000) != 1)
		die("no reply", -ETIMEDOUT);
	eventfd_write(raw->post, 1);
	for (unsigned i = 0; i < 3; i++)
		in_thread(reading, &readers[i]);
	usleep(100000);
	puts("ready");
	for (unsigned i = 0;; i++) {
		arm(raw);
		if (i < 1000)
			request(raw->fd, SP_ATTACH_REPORT, NULL, NULL, 0);
		usleep(1000);
	}
	return 0;
}

/* ---- fusehold ---- */
static void *writing(void *arg)
{
	const struct memory *m = arg;

	pwrite(m->fd, fuse_page(), 4096, 0);
	return arg;
}

static void *sealing(void *arg)
{
	seal(arg, SP_ATTACH_SEALS); /* waits for the file's lock, too */
	return arg;
}

/* One that has its memory of this request held when it is to be sealed. */
static void hold_one(unsigned kind)
{
	static struct memory all[4096];
	static unsigned next;
	struct memory *m = &all[next++ % 4096];
	struct raw raw = {.fd = -1};
	char text[512];
	int r;

	if (kind % 3 == 0) {
		raw.fd = dial();
		if (raw.fd < 0)
			return;
		r = ask_memory(&raw, SP_ATTACH_HELLO, 0, NULL, 0, m);
	} else {
		raw.fd = dial();
		if (raw.fd < 0 || ask_both(&raw, SP_ATTACH_HELLO, 0, NULL, 0, &raw.queues))
			r = -EBUSY; /* so much is held already */
		else if (kind % 3 == 1)
			r = ask_memory(&raw, SP_ATTACH_MR_ALLOC, 1 << 20, NULL, 0, m);
		else
			r = ask_memory(&raw, SP_ATTACH_OPEN, 5, text,
				       settings(text, 0x30000 + next * 64, "max-messages", 16), m);
	}
	if (r) {
		close(raw.fd);
		return;
	}
	in_thread(writing, m);
	if (kind % 4 == 1)
		in_thread(sealing, m);
	usleep(20000);
	if (kind % 4 == 3)
		return; /* leaves it so */
	if (kind % 4 != 2)
		request(raw.fd, SP_ATTACH_SEALED, NULL, NULL, 0);
	usleep(5000);
	close(raw.fd);
}

int fusehold(struct raw *raw)
{
	(void)raw;
	fuse_begin();
	for (unsigned i = 0; i < 12; i++)
		hold_one(i);
	puts("ready");
	for (unsigned i = 0; i < 500; i++)
		hold_one(i);
	for (;;)
		pause();
	return 0;
}

/* ---- handing over ---- */
#define AT_ONCE 8

/* With a message of so many bytes. -errno */
static int send_files(int fd, size_t bytes, const int *file, unsigned files)
{
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(AT_ONCE * sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(files * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct sp_attach_request r = {.magic = SP_ATTACH_MAGIC, .version = SP_ATTACH_VERSION, .op = SP_ATTACH_REPORT};
	struct iovec part = {&r, bytes};
	const struct msghdr message = {.msg_iov = &part,
				       .msg_iovlen = 1,
				       .msg_control = control.bytes,
				       .msg_controllen = CMSG_SPACE(files * sizeof(int))};

	memcpy(CMSG_DATA(&control.head), file, files * sizeof(int));
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* A TCP socket that nobody reads from, full, whose close() lasts a minute. */
static int lingering(void)
{
	static struct sockaddr_in to = {.sin_family = AF_INET};
	static uint8_t bytes[65536];
	static int listener = -1;
	socklen_t len = sizeof(to);

	if (listener < 0) {
		to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &(int){1024}, sizeof(int));
		if (bind(listener, (struct sockaddr *)&to, len) || listen(listener, 16) ||
		    getsockname(listener, (struct sockaddr *)&to, &len))
			die("listen", -errno);
	}
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 60}, sizeof(struct linger));
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS)
		die("connect", -errno);
	if (accept(listener, NULL, NULL) < 0)
		die("accept", -errno);
	while (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
		;
	fcntl(fd, F_SETFL, 0);
	return fd;
}

/* Before HELLO and after it, before the NIC has accepted, behind what it reads and what ends the connection; messages
 * may be empty. */
static void hand_over(unsigned i, const int *file, unsigned files)
{
	const size_t bytes = i % 3 ? sizeof(struct sp_attach_request) : 0;
	struct raw raw = {.fd = dial()};

	if (raw.fd < 0)
		return;
	if (i % 5 == 1 && !ask_both(&raw, SP_ATTACH_HELLO, 0, NULL, 0, &raw.queues)) {
		close_got(&raw);
		unmap(&raw.queues);
	}
	if (i % 5 == 2)
		request(raw.fd, SP_ATTACH_REPORT, NULL, NULL, 0);
	if (i % 5 == 3)
		send(raw.fd, "no request", 10, MSG_NOSIGNAL | MSG_DONTWAIT);
	for (unsigned k = 0; k < files; k += files / 2)
		send_files(raw.fd, bytes, file + k, files / 2);
	if (i % 5 == 4)
		usleep(2000);
	close(raw.fd);
}

/* Takes so much of the server's time that what its user sends stays unread for a while. */
static void *indebted(void *arg)
{
	struct raw raw = {.fd = -1};

	for (hello(&raw);;) {
		struct memory m;
		uint32_t id;

		if (!alloc(&raw, 64 << 20, &m, &id)) {
			ask(&raw, SP_ATTACH_MR_FREE, id, NULL, 0);
			unmap(&m);
		} else {
			usleep(10000); /* too much is held already */
		}
	}
	return arg;
}

/* Our own close() waits, too, when the NIC has been quicker. */
static void *closing(void *arg)
{
	int *file = arg;

	for (unsigned k = 0; k < AT_ONCE; k++)
		close(file[k]);
	free(file);
	return NULL;
}

static void pass_once(unsigned i, int (*make)(void))
{
	int *file = calloc(AT_ONCE, sizeof(*file));

	if (!file)
		die("memory", -ENOMEM);
	for (unsigned k = 0; k < AT_ONCE; k++)
		file[k] = make();
	hand_over(i, file, AT_ONCE);
	in_thread(closing, file);
	if (i == 8)
		puts("ready");
	usleep(i < 40 ? 2000 : 20000);
}

int pass(struct raw *raw)
{
	(void)raw;
	in_thread(indebted, NULL);
	for (unsigned i = 0; i < 400; i++)
		pass_once(i, lingering);
	for (;;)
		pause();
	return 0;
}

#define OPEN 1600

static int opened[OPEN];

/* A socket with a file of the FUSE in it. Closing the file itself would wait here already; nobody flushes a socket. */
static int wrapped(void)
{
	const int fd = fuse_open();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ||
	    send_files(ends[0], sizeof(struct sp_attach_request), &fd, 1))
		die("wrap a file", -errno);
	close(fd);
	close(ends[0]);
	return ends[1];
}

static int take_opened(void)
{
	static unsigned next;

	return opened[next++];
}

int passfuse(struct raw *raw)
{
	struct rlimit limit;
	unsigned files = 0;

	(void)raw;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	fuse_begin();
	while (files < OPEN && files + 64 < limit.rlim_cur)
		opened[files++] = wrapped();
	fuse_dirty();
	in_thread(indebted, NULL);
	for (unsigned i = 0; i < files / AT_ONCE; i++)
		pass_once(i, take_opened);
	for (;;)
		pause();
	return 0;
}
