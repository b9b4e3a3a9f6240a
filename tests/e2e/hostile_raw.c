/* SPDX-License-Identifier: BSD-3-Clause */
#include "hostile_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void die(const char *what, int error)
{
	printf("error %d %s: %s\n", error, what, strerror(-error));
	exit(1);
}

static uint64_t state;

void chance_begin(uint64_t seed)
{
	state = seed;
}

uint64_t chance(void)
{
	uint64_t x = state += 0x9E3779B97F4A7C15ull;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

bool enough(int milliseconds)
{
	struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&wait, 1, milliseconds) > 0;
}

/* ---- the socket ---- */
int dial(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket", -errno);
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", o.nic);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		return -errno;
	}
	return fd;
}

int request(int fd, uint16_t op, const uint64_t *arg, const void *data, uint32_t bytes)
{
	struct sp_attach_request r = {.magic = SP_ATTACH_MAGIC, .version = SP_ATTACH_VERSION, .op = op, .bytes = bytes};
	struct iovec part[2] = {{&r, sizeof(r)}, {(void *)(uintptr_t)data, bytes}};
	const struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};

	if (arg)
		memcpy(r.arg, arg, sizeof(r.arg));
	return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int reply(struct raw *raw)
{
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(SP_ATTACH_FDS * sizeof(int))];
	} control;
	struct iovec part = {raw->reply.bytes, sizeof(raw->reply.bytes)};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(raw->fd, &message, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	for (unsigned i = 0; i < SP_ATTACH_FDS; i++)
		raw->got[i] = -1;
	if (c)
		memcpy(raw->got, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return n < (ssize_t)sizeof(raw->reply.head) ? -ENODEV : raw->reply.head.status;
}

int ask(struct raw *raw, uint16_t op, uint64_t arg, const void *data, uint32_t bytes)
{
	const uint64_t args[4] = {arg};
	const int r = request(raw->fd, op, args, data, bytes);

	return r && r != -EPIPE ? r : reply(raw); /* -EPIPE: refused, with a reply that says why */
}

static struct memory map(int fd, size_t bytes, bool writable)
{
	struct memory m = {.fd = fd, .bytes = bytes};

	m.at = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	if (m.at == MAP_FAILED)
		die("mmap", -errno);
	return m;
}

int ask_memory(struct raw *raw, uint16_t op, uint64_t arg, const void *data, uint32_t bytes, struct memory *m)
{
	int r = ask(raw, op, arg, data, bytes);

	if (!r)
		*m = map(raw->got[0], raw->reply.head.arg[0], true);
	return r;
}

int seal(const struct memory *m, int seals)
{
	return fcntl(m->fd, F_ADD_SEALS, seals) ? -errno : 0;
}

int ask_sealed(struct raw *raw, const struct memory *m)
{
	const int r = seal(m, SP_ATTACH_SEALS);

	return r ? r : ask(raw, SP_ATTACH_SEALED, 0, NULL, 0);
}

int ask_both(struct raw *raw, uint16_t op, uint64_t arg, const void *data, uint32_t bytes, struct memory *m)
{
	const int r = ask_memory(raw, op, arg, data, bytes, m);

	return r ? r : ask_sealed(raw, m);
}

int alloc(struct raw *raw, uint64_t bytes, struct memory *m, uint32_t *id)
{
	const int r = ask_both(raw, SP_ATTACH_MR_ALLOC, bytes, NULL, 0, m);

	*id = (uint32_t)raw->reply.head.arg[0];
	return r;
}

void unmap(struct memory *m)
{
	munmap(m->at, m->bytes);
	close(m->fd);
}

void take_welcome(struct raw *raw)
{
	memcpy(&raw->welcome, raw->reply.head.data, sizeof(raw->welcome));
	raw->entries = ((struct sp_attach_queues *)(void *)raw->queues.at)->entries;
	raw->wake = raw->got[0];
	raw->post = raw->got[1];
}

void take_context(struct raw *raw)
{
	raw->context = (uint32_t)raw->reply.head.arg[0];
	raw->home = (uint32_t)raw->reply.head.arg[3];
	raw->area = map(raw->got[0], raw->reply.head.arg[2], false);
}

uint32_t settings(char *text, uint32_t qpn, const char *key, uint64_t value)
{
	const int n = snprintf(
		text, 512,
		"hostile-%u\nsdr\nqp\n%u\nrkey\n7\nmax-message-bytes\n65536\nchunk-bytes\n4096\n%s\n%" PRIu64 "\n", qpn,
		qpn, key, value);

	for (int i = 0; i < n; i++)
		if (text[i] == '\n')
			text[i] = 0;
	return (uint32_t)n;
}

int open_context(struct raw *raw, uint32_t qpn, const char *key, uint64_t value)
{
	char text[512];

	return ask_both(raw, SP_ATTACH_OPEN, 5, text, settings(text, qpn, key, value), &raw->events);
}

int connect_self(struct raw *raw, uint32_t qpn)
{
	const struct sp_sdr_area *area = (const void *)raw->area.at;
	struct sp_command c = {.op = SP_SDR_CMD_CONNECT,
			       .flags = SP_CMD_REPLY,
			       .context = raw->context,
			       .arg = {[2] = qpn | (uint64_t)area->control_qp << 32, 99, 99, 7}};

	memcpy(c.arg, raw->welcome.ip4, 16);
	return ask(raw, SP_ATTACH_CALL, 0, &c, sizeof(c));
}

void hello(struct raw *raw)
{
	raw->fd = dial();
	if (raw->fd < 0)
		die("connect", raw->fd);
	const int r = ask_both(raw, SP_ATTACH_HELLO, 0, NULL, 0, &raw->queues);
	if (r)
		die("hello", r);
	take_welcome(raw);
}

void begin(struct raw *raw)
{
	hello(raw);
	int r = alloc(raw, REGION, &raw->region, &raw->id);
	if (r)
		die("memory", r);
	r = open_context(raw, (uint32_t)o.qpn, "max-messages", 16);
	if (r)
		die("context", r);
	take_context(raw);
	r = connect_self(raw, (uint32_t)o.qpn);
	if (r)
		die("connect to itself", r);
}

/* ---- the rings ---- */
struct sp_ring_shared *commands(const struct raw *raw, uint32_t worker)
{
	return sp_attach_commands(sp_attach_page(raw->queues.at, raw->entries, worker));
}

int put(struct raw *raw, const struct sp_command *c)
{
	struct sp_ring_shared *ring = commands(raw, raw->home);
	struct sp_ring mine = {.shared = ring, .mask = raw->entries - 1, .at = ring->tail};

	const int r = sp_ring_put(&mine, c);

	tell(raw, raw->home);
	return r;
}

#define STREAM 65536

int stream(struct raw *raw)
{
	const struct sp_command post = {.op = SP_CMD_POST, .context = raw->context, .arg = {raw->id, 0, STREAM}};
	const struct sp_command start = {.op = SP_SDR_CMD_START, .context = raw->context, .arg = {[2] = STREAM}};
	const int r = put(raw, &post);

	return r ? r : put(raw, &start);
}

int stream_more(struct raw *raw, uint64_t from)
{
	const struct sp_command more = {
		.op = SP_SDR_CMD_CONTINUE, .context = raw->context, .arg = {raw->id, from, 4096, 0}};

	return put(raw, &more);
}

void tell(struct raw *raw, uint32_t worker)
{
	struct sp_attach_queues *page = sp_attach_page(raw->queues.at, raw->entries, worker);

	if (__atomic_exchange_n(&page->parked, 0, __ATOMIC_ACQ_REL))
		eventfd_write(raw->post, 1);
}

void tried(const char *name, const char *what, bool done)
{
	printf("try %s %s %d\n", name, what, done ? 0 : errno);
}

void until_enough(void)
{
	puts("ready");
	enough(-1);
	puts("ok");
}
