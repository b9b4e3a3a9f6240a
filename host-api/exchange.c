/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define SP_ATTACH_PATIENCE 30 /* seconds: a NIC that lives answers within milliseconds */

static void sp_attach_die(struct sp_attach_link *link, int why)
{
	link->dead = why;
	shutdown(link->fd, SHUT_RDWR); /* the NIC lets go of us too, and who sleeps on the descriptor wakes */
}

int sp_attach_connect(struct sp_attach_link *link, const char *nic)
{
	const struct timeval patience = {.tv_sec = SP_ATTACH_PATIENCE};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int rc;

	link->fd = -1;
	link->dead = 0;
	if (!nic)
		nic = secure_getenv("SPINDLE_NIC");
	if (!nic || !*nic)
		nic = "spindle0";
	if (!strchr(nic, '/')) {
		rc = sp_socket_path(nic, false, to.sun_path, sizeof(to.sun_path));
		if (rc)
			return rc;
	} else if (strlen(nic) < sizeof(to.sun_path)) {
		strcpy(to.sun_path, nic);
	} else {
		return -ENAMETOOLONG;
	}
	link->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (link->fd < 0)
		return -errno;
	setsockopt(link->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	do
		rc = connect(link->fd, (const struct sockaddr *)&to, sizeof(to)) ? -errno : 0;
	while (rc == -EINTR);
	if (!rc)
		return 0;
	close(link->fd);
	link->fd = -1;
	/* Another kind of socket, or a file: no NIC. A full queue that nobody empties: one that hangs. */
	return rc == -EPROTOTYPE ? -ECONNREFUSED : rc == -EAGAIN ? -ETIMEDOUT : rc == -ENOTDIR ? -ENOENT : rc;
}

static void sp_attach_send(struct sp_attach_link *link, const struct sp_attach_exchange *x)
{
	struct sp_attach_request request = {
		.magic = SP_ATTACH_MAGIC, .version = SP_ATTACH_VERSION, .op = (uint16_t)x->op, .bytes = x->bytes};
	struct iovec part[2] = {{&request, sizeof(request)}, {(void *)(uintptr_t)x->data, x->bytes}};
	const struct msghdr message = {.msg_iov = part, .msg_iovlen = x->bytes ? 2 : 1};

	memcpy(request.arg, x->arg, sizeof(request.arg));
	while (sendmsg(link->fd, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

/* Descriptors go into x->fd: all of them, so that none stays behind. */
static bool sp_attach_collect(struct sp_attach_exchange *x, struct msghdr *message)
{
	unsigned n = 0;
	bool fits = true;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		const size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (n < SP_ATTACH_FDS) {
				x->fd[n++] = fd;
			} else {
				close(fd);
				fits = false;
			}
		}
	}
	return fits && !(message->msg_flags & (MSG_TRUNC | MSG_CTRUNC));
}

static int sp_attach_receive(struct sp_attach_link *link, struct sp_attach_exchange *x)
{
	const sp_time until = sp_clock() + SP_ATTACH_PATIENCE * SP_SEC;
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(2 * SP_ATTACH_FDS * sizeof(int))];
	} control;
	struct iovec part = {link->message, sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	const struct sp_attach_reply *reply = (const void *)link->message;
	ssize_t got;

	for (;;) {
		struct pollfd wait = {.fd = link->fd, .events = POLLIN};
		const sp_time now = sp_clock();

		got = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (got >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
		if (now >= until)
			return -ENODEV;
		poll(&wait, 1, (int)((until - now) / SP_MS) + 1);
	}
	if (got <= 0)
		return -ECONNABORTED;
	if (!sp_attach_collect(x, &message) || (size_t)got < sizeof(*reply) || reply->magic != SP_ATTACH_MAGIC ||
	    reply->version != SP_ATTACH_VERSION || reply->bytes != (size_t)got - sizeof(*reply) || reply->status > 0 ||
	    reply->status < -4095 || (reply->op != x->op && (reply->op || !reply->status)))
		return -EPROTO;
	x->reply = reply;
	memcpy(x->arg, reply->arg, sizeof(x->arg));
	return 0;
}

static void sp_attach_words(struct sp_attach_exchange *x)
{
	struct sp_attach_error words;

	if (!x->error || x->reply->bytes != sizeof(words))
		return;
	memcpy(&words, x->reply->data, sizeof(words));
	static_assert(sizeof(words) == sizeof(*x->error), "the same fields");
	memcpy(x->error, &words, sizeof(words));
	x->error->key[sizeof(x->error->key) - 1] = x->error->text[sizeof(x->error->text) - 1] = 0;
}

int sp_attach_exchange(struct sp_attach_link *link, struct sp_attach_exchange *x)
{
	int rc;

	for (unsigned i = 0; i < SP_ATTACH_FDS; i++)
		x->fd[i] = -1;
	x->reply = NULL;
	if (link->dead)
		return link->dead;
	sp_attach_send(link, x); /* a NIC that refuses us may have closed already; its reply is there all the same */
	rc = sp_attach_receive(link, x);
	if (rc) {
		sp_attach_release(x);
		sp_attach_die(link, rc == -EPROTO ? -ENODEV : rc);
		return rc;
	}
	if (!x->reply->op) /* a refusal, or a goodbye: the last that comes */
		sp_attach_die(link, -ENODEV);
	if (x->reply->status) {
		sp_attach_release(x);
		sp_attach_words(x);
	}
	return x->reply->status;
}

void sp_attach_release(struct sp_attach_exchange *x)
{
	for (unsigned i = 0; i < SP_ATTACH_FDS; i++) {
		if (x->fd[i] >= 0)
			close(x->fd[i]);
		x->fd[i] = -1;
	}
}

void sp_attach_look(struct sp_attach_link *link)
{
	uint8_t byte;
	ssize_t got;

	if (link->dead)
		return;
	got = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* Nothing but a goodbye comes unasked. */
	sp_attach_die(link, got > 0 ? -ENODEV : -ECONNABORTED);
}

static int sp_attach_map_as(int fd, uint64_t bytes, int rights, void **at)
{
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) || !bytes || bytes > (uint64_t)st.st_size)
		return -EPROTO;
	p = mmap(NULL, bytes, rights, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	*at = p;
	return 0;
}

int sp_attach_map(int fd, uint64_t bytes, void **at)
{
	const int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	return seals < 0 || !(seals & F_SEAL_SHRINK) ? -EPROTO : sp_attach_map_as(fd, bytes, PROT_READ, at);
}

int sp_attach_exchange_memory(struct sp_attach_link *link, struct sp_attach_exchange *x, void **at, uint64_t *bytes)
{
	struct sp_attach_exchange sealed = {.op = SP_ATTACH_SEALED, .error = x->error};
	void *memory = NULL;
	int rc = sp_attach_exchange(link, x), local;

	if (rc)
		return rc;
	*bytes = x->arg[0];
	local = sp_attach_map_as(x->fd[0], *bytes, PROT_READ | PROT_WRITE, &memory);
	if (!local && fcntl(x->fd[0], F_ADD_SEALS, SP_ATTACH_SEALS))
		local = -errno;
	sp_attach_release(x);
	rc = sp_attach_exchange(link, &sealed); /* also when we have failed: then the NIC drops the memory */
	*x = sealed;
	if (!rc && !local) {
		*at = memory;
		return 0;
	}
	sp_attach_release(x);
	if (memory)
		munmap(memory, *bytes);
	return local ? local : rc;
}
