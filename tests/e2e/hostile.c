/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applications that lie, cheat and die, for hostile.py and kills.py: they speak to the NIC's socket (wire/attach.h) and
 * write to the rings by hand. hostile NIC VERB [KEY=VALUE...]; lines on stdout, flushed. A verb that has said "ready"
 * goes on with what it does until a line or the end of stdin, which it answers "ok"; exit status 1 after "error ...".
 *
 *   stage     stops while it attaches, at point stage=N of STAGES
 *   rubbish   random indexes, entries and headings in its queues and events, for ever
 *   flip      entries change between a command that may be and one that may not, while they are read
 *   files     tries what can be done to a file on each descriptor: "try NAME WHAT ERRNO"; then punches holes for ever
 *   pipe      the same with its wake-up pipe: "try pipe WHAT ERRNO"; then fills it if it can, arms for ever, closes it
 *   foreign   memory region= and context= are somebody else's: "try WHAT ERRNO"
 *   exhaust   takes what it gets of how=memory|regions|contexts|qps|messages: "full COUNT ERRNO WORDS", keeps it
 *   garbage   connections that say anything
 *   attach    a thousand times
 *   deaf      asks and never reads the answer
 *   freed     keeps descriptors and mappings of what it has given back, and writes there
 *   ask       asks anything in order: does the NIC still answer? "ok"
 * and those of traffic.c.
 */
#include "hostile.h"
#include "../../handlers/wire/attach.h"
#include "../../handlers/wire/sdr.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define STAGES 12
#define REGION (1u << 20)

struct hostile_options o = {.size = 16384, .slots = 4, .messages = UINT64_MAX, .seed = 1, .peer = 1, .how = "wait"};

struct memory {
	int fd;
	uint8_t *at;
	size_t bytes;
};

struct raw {
	int fd, pipe;
	struct sp_attach_welcome welcome;
	struct memory queues, region, events, area;
	uint32_t entries, id, context, home;
	union {
		struct sp_attach_reply head;
		uint8_t bytes[sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES];
	} reply;
	int got[SP_ATTACH_FDS];
};

static void die(const char *what, int error)
{
	printf("error %d %s: %s\n", error, what, strerror(-error));
	exit(1);
}

static uint64_t state;

static uint64_t chance(void)
{
	uint64_t x = state += 0x9E3779B97F4A7C15ull;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

/* Has somebody said that it is enough? */
static bool enough(int milliseconds)
{
	struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&wait, 1, milliseconds) > 0;
}

/* ---- the socket ---- */
static int dial(void)
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

static int request(int fd, uint16_t op, const uint64_t *arg, const void *data, uint32_t bytes)
{
	struct sp_attach_request r = {.magic = SP_ATTACH_MAGIC, .version = SP_ATTACH_VERSION, .op = op, .bytes = bytes};
	struct iovec part[2] = {{&r, sizeof(r)}, {(void *)(uintptr_t)data, bytes}};
	const struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};

	if (arg)
		memcpy(r.arg, arg, sizeof(r.arg));
	return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Status of the reply, -ENODEV when there is none. Its descriptors are in raw->got. */
static int reply(struct raw *raw)
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

static int ask(struct raw *raw, uint16_t op, uint64_t arg, const void *data, uint32_t bytes)
{
	const uint64_t args[4] = {arg};
	int r = request(raw->fd, op, args, data, bytes);

	return r ? r : reply(raw);
}

static struct memory map(int fd, size_t bytes, bool writable)
{
	struct memory m = {.fd = fd, .bytes = bytes};

	m.at = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	if (m.at == MAP_FAILED)
		die("mmap", -errno);
	return m;
}

static void take_welcome(struct raw *raw)
{
	memcpy(&raw->welcome, raw->reply.head.data, sizeof(raw->welcome));
	raw->queues = map(raw->got[0], raw->welcome.queues_bytes, true);
	raw->entries = ((struct sp_attach_queues *)(void *)raw->queues.at)->entries;
	raw->pipe = raw->got[1];
}

static void take_context(struct raw *raw)
{
	raw->context = (uint32_t)raw->reply.head.arg[0];
	raw->home = (uint32_t)raw->reply.head.arg[3];
	raw->events = map(raw->got[0], raw->reply.head.arg[1], true);
	raw->area = map(raw->got[1], raw->reply.head.arg[2], false);
}

/* What OPEN is told: strings, each with its NUL. */
static uint32_t settings(char *text, uint32_t qpn, const char *key, uint64_t value)
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

static int open_context(struct raw *raw, uint32_t qpn, const char *key, uint64_t value)
{
	char text[512];

	return ask(raw, SP_ATTACH_OPEN, 5, text, settings(text, qpn, key, value));
}

/* A context connected to itself, through the NIC. */
static int connect_self(struct raw *raw, uint32_t qpn)
{
	const struct sp_sdr_area *area = (const void *)raw->area.at;
	struct sp_command c = {.op = SP_SDR_CMD_CONNECT,
			       .flags = SP_CMD_REPLY,
			       .context = raw->context,
			       .arg = {[2] = qpn | (uint64_t)area->control_qp << 32, 99, 99, 7}};

	memcpy(c.arg, raw->welcome.ip4, 16);
	return ask(raw, SP_ATTACH_CALL, 0, &c, sizeof(c));
}

static void hello(struct raw *raw)
{
	int r;

	raw->fd = dial();
	if (raw->fd < 0)
		die("connect", raw->fd);
	r = ask(raw, SP_ATTACH_HELLO, 0, NULL, 0);
	if (r)
		die("hello", r);
	take_welcome(raw);
}

static void begin(struct raw *raw)
{
	int r;

	hello(raw);
	r = ask(raw, SP_ATTACH_MR_ALLOC, REGION, NULL, 0);
	if (r)
		die("memory", r);
	raw->id = (uint32_t)raw->reply.head.arg[0];
	raw->region = map(raw->got[0], REGION, true);
	r = open_context(raw, (uint32_t)o.qpn, "max-messages", 16);
	if (r)
		die("context", r);
	take_context(raw);
	r = connect_self(raw, (uint32_t)o.qpn);
	if (r)
		die("connect to itself", r);
}

static struct sp_ring_shared *commands(const struct raw *raw, uint32_t worker)
{
	return sp_attach_ring(raw->queues.at, sizeof(struct sp_attach_queues), raw->entries, worker);
}

/* In order, as the library does. */
static int put(struct raw *raw, const struct sp_command *c)
{
	struct sp_ring_shared *ring = commands(raw, raw->home);
	struct sp_ring mine = {.shared = ring, .mask = raw->entries - 1, .at = ring->tail};

	return sp_ring_put(&mine, c);
}

static void until_enough(void)
{
	puts("ready");
	enough(-1);
	puts("ok");
}

/* ---- verbs ---- */
static int stage(struct raw *raw)
{
	const uint64_t large[4] = {8 << 20};
	const struct sp_command query = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY};
	struct sp_command post = {.op = SP_CMD_POST, .arg = {1, 0, 4096}};
	struct sp_attach_queues *queues;
	char text[512];

	raw->fd = dial();
	if (raw->fd < 0)
		die("connect", raw->fd);
	if (o.stage == 1 || o.stage == 2)
		request(raw->fd, SP_ATTACH_HELLO, NULL, NULL, 0);
	if (o.stage == 2) {
		struct pollfd wait = {.fd = raw->fd, .events = POLLIN};

		poll(&wait, 1, -1); /* the reply and its descriptors are in the socket, and stay there */
	}
	if (o.stage >= 3 && ask(raw, SP_ATTACH_HELLO, 0, NULL, 0))
		die("hello", -EPROTO);
	if (o.stage >= 4)
		take_welcome(raw);
	queues = (void *)raw->queues.at;
	if (o.stage == 5)
		request(raw->fd, SP_ATTACH_MR_ALLOC, large, NULL, 0);
	if (o.stage >= 6 && ask(raw, SP_ATTACH_MR_ALLOC, REGION, NULL, 0))
		die("memory", -EPROTO);
	raw->id = (uint32_t)raw->reply.head.arg[0];
	if (o.stage == 7) {
		const uint64_t args[4] = {5};

		request(raw->fd, SP_ATTACH_OPEN, args, text, settings(text, (uint32_t)o.qpn, "max-messages", 16));
	}
	if (o.stage >= 8) {
		if (open_context(raw, (uint32_t)o.qpn, "max-messages", 16))
			die("context", -EPROTO);
		take_context(raw);
	}
	if (o.stage == 9) {
		post.context = raw->context;
		request(raw->fd, SP_ATTACH_CALL, NULL, &query, sizeof(query));
	}
	if (o.stage >= 10) {
		post.context = raw->context;
		post.arg[0] = raw->id;
		put(raw, &post);
		queues->bell.armed = 1;
	}
	if (o.stage == 11) /* says that there are entries, and dies before it writes them */
		commands(raw, raw->home)->tail += 5;
	until_enough();
	return 0;
}

/* Some are almost right. */
static struct sp_command any_command(const struct raw *raw)
{
	static const uint16_t ops[] = {SP_CMD_POST,	   SP_CMD_COMPLETE,   SP_CMD_CLOSE,	SP_CMD_QUERY,
				       SP_SDR_CMD_CONNECT, SP_SDR_CMD_SEND,   SP_SDR_CMD_START, SP_SDR_CMD_CONTINUE,
				       SP_SDR_CMD_END,	   SP_SDR_CMD_PACKETS};
	struct sp_command c = {
		.op = ops[chance() % 10], .flags = chance() % 2, .context = raw->context, .cookie = chance() % 32};
	const uint64_t kind = chance() % 8;

	c.arg[0] = raw->id;
	for (unsigned i = 1; i < 6; i++)
		c.arg[i] = chance() >> chance() % 64;
	if (c.op == SP_CMD_CLOSE && chance() % 64)
		c.op = SP_CMD_POST;
	if (kind == 0)
		c.context = (uint32_t)chance();
	if (kind == 1)
		c.context = chance() % 8;
	if (kind == 2)
		c.arg[0] = chance() % 64;
	if (kind == 3)
		for (unsigned i = 0; i < 8; i++)
			((uint64_t *)(void *)&c)[i] = chance();
	if (kind >= 6) {
		c.arg[1] = chance() % REGION & ~63ull;
		c.arg[2] = chance() % 65536;
	}
	return c;
}

static void scribble(const struct raw *raw, uint32_t *index)
{
	static const uint32_t values[] = {0, 1, UINT32_MAX, 0x80000000u, 0x7FFFFFFFu};

	(void)raw;
	switch (chance() % 3) {
	case 0:
		*index = (uint32_t)chance();
		break;
	case 1:
		*index += (uint32_t)(chance() % 2048) - 1024;
		break;
	default:
		*index = values[chance() % 5];
	}
}

static void rubbish_once(struct raw *raw)
{
	const uint32_t w = (uint32_t)chance() % raw->welcome.workers;
	struct sp_ring_shared *ring = commands(raw, w);
	struct sp_attach_events *events = (void *)raw->events.at;
	struct sp_ring_shared *back = sp_attach_ring(events, sizeof(*events), 128, w);
	struct sp_command c;

	switch (chance() % 16) {
	case 0:
		scribble(raw, &ring->head);
		break;
	case 1:
		scribble(raw, &ring->tail);
		break;
	case 2:
		((uint32_t *)(void *)raw->queues.at)[chance() % 32] = (uint32_t)chance(); /* heading and bell */
		break;
	case 3:
		((uint32_t *)(void *)raw->events.at)[chance() % 16] = (uint32_t)chance();
		break;
	case 4:
		scribble(raw, &back->head);
		scribble(raw, &back->tail);
		break;
	case 5:
		raw->events.at[chance() % raw->events.bytes] = (uint8_t)chance();
		break;
	case 6:
		raw->queues.at[chance() % raw->queues.bytes] = (uint8_t)chance();
		break;
	default:
		c = any_command(raw);
		memcpy(&ring->entry[chance() % raw->entries], &c, sizeof(c));
		__atomic_fetch_add(&ring->tail, 1, __ATOMIC_RELEASE);
	}
}

static int rubbish(struct raw *raw)
{
	uint64_t count = 0;

	begin(raw);
	for (; count < 20000; count++)
		rubbish_once(raw);
	puts("ready");
	while (!enough(0)) {
		for (unsigned i = 0; i < 4096; i++, count++)
			rubbish_once(raw);
		usleep(1000); /* others share the processor; the NIC reads no faster than it polls */
	}
	printf("ok %" PRIu64 "\n", count);
	return 0;
}

static bool stop; /* [threads] atomically */

/* Two commands, one of which must never be taken for the other. */
static void *flipping(void *arg)
{
	struct raw *raw = arg;
	const struct sp_command good = {.op = SP_SDR_CMD_SEND, .context = raw->context, .arg = {raw->id, 0, 4096}};
	const struct sp_command bad = {.op = SP_SDR_CMD_SEND,
				       .context = (uint32_t)o.context,
				       .cookie = 1ull << 40,
				       .arg = {o.region, 1ull << 62, 1ull << 40}};
	struct sp_ring_shared *ring = commands(raw, raw->home);

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (uint32_t at = 0; at < raw->entries; at++) {
			volatile uint64_t *entry = ring->entry[at].word;

			for (unsigned i = 0; i < 8; i++)
				entry[i] = ((const uint64_t *)(const void *)&bad)[i];
			for (unsigned i = 0; i < 8; i++)
				entry[i] = ((const uint64_t *)(const void *)&good)[i];
		}
	}
	return NULL;
}

static int flip(struct raw *raw)
{
	struct sp_ring_shared *ring;
	pthread_t thread;

	begin(raw);
	ring = commands(raw, raw->home);
	pthread_create(&thread, NULL, flipping, raw);
	puts("ready");
	while (!enough(0))
		for (unsigned i = 0; i < 100; i++) {
			__atomic_store_n(&ring->tail, __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) + 32,
					 __ATOMIC_RELEASE);
			usleep(10);
		}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	puts("ok");
	return 0;
}

static void tried(const char *name, const char *what, bool done)
{
	printf("try %s %s %d\n", name, what, done ? 0 : errno);
}

static void try_file(const char *name, const struct memory *m)
{
	char path[32];
	void *at;
	int fd;

	tried(name, "shrink", !ftruncate(m->fd, 0));
	tried(name, "grow", !ftruncate(m->fd, (off_t)m->bytes + (1 << 20)));
	tried(name, "extend", !fallocate(m->fd, 0, (off_t)m->bytes, 4096));
	tried(name, "seal", !fcntl(m->fd, F_ADD_SEALS, F_SEAL_WRITE));
	at = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	tried(name, "map", at != MAP_FAILED);
	tried(name, "protect", !mprotect(m->at, m->bytes, PROT_READ | PROT_WRITE));
	tried(name, "punch", !fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)m->bytes));
	tried(name, "remove", !madvise(m->at, m->bytes, MADV_REMOVE));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", m->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	tried(name, "open", fd >= 0);
	if (fd >= 0) {
		tried(name, "shrink-opened", !ftruncate(fd, 0));
		tried(name, "grow-opened", !ftruncate(fd, (off_t)m->bytes + (1 << 20)));
		tried(name, "seal-opened", !fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
		close(fd);
	}
	tried(name, "mode", !fchmod(m->fd, 0777));
}

static int files(struct raw *raw)
{
	struct memory *all[] = {&raw->queues, &raw->region, &raw->events};
	struct sp_command c;

	begin(raw);
	try_file("queues", &raw->queues);
	try_file("region", &raw->region);
	try_file("events", &raw->events);
	try_file("area", &raw->area);
	puts("ready");
	while (!enough(0))
		for (unsigned i = 0; i < 100; i++) {
			const struct memory *m = all[chance() % 3];
			const off_t at = (off_t)(chance() % m->bytes & ~4095ull);

			c = any_command(raw);
			put(raw, &c);
			fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)m->bytes - at);
			usleep(50);
		}
	puts("ok");
	return 0;
}

static int wake_pipe(struct raw *raw)
{
	struct sp_attach_queues *queues;
	struct sp_command query = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY};
	uint64_t full = 0;
	char path[32];
	int writer;

	begin(raw);
	queues = (void *)raw->queues.at;
	query.context = raw->context;
	tried("pipe", "write", write(raw->pipe, "x", 1) == 1);
	tried("pipe", "flags", !fcntl(raw->pipe, F_SETFL, O_ASYNC));
	tried("pipe", "size", fcntl(raw->pipe, F_SETPIPE_SZ, 65536) >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", raw->pipe);
	writer = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	tried("pipe", "open", writer >= 0);
	while (writer >= 0 && write(writer, path, 1) == 1)
		full++;
	if (writer >= 0)
		fcntl(writer, F_SETFL, 0);
	printf("filled %" PRIu64 "\n", full);
	puts("ready");
	for (unsigned turn = 0; !enough(0); turn++) {
		for (unsigned i = 0; i < 100; i++) { /* never emptied: the NIC's writes fill it otherwise */
			__atomic_store_n(&queues->bell.armed, 1, __ATOMIC_SEQ_CST);
			put(raw, &query);
			usleep(20);
		}
		if (turn == 20 && raw->pipe >= 0) {
			close(raw->pipe);
			raw->pipe = -1;
		}
	}
	puts("ok");
	return 0;
}

/* The answer to a command that went through the ring: there is none where the ring's owner has no such context. */
static int posted(struct raw *raw, uint16_t op, uint64_t region, uint64_t len)
{
	static uint32_t next;
	struct sp_attach_events *events = (void *)raw->events.at;
	struct sp_ring back = {.shared = sp_attach_ring(events, sizeof(*events), events->entries, raw->home),
			       .mask = events->entries - 1,
			       .at = next};
	const struct sp_command c = {
		.op = op, .flags = SP_CMD_REPLY, .context = raw->context, .cookie = 0, .arg = {region, 0, len}};
	struct sp_event e;

	put(raw, &c);
	for (unsigned i = 0; i < 100000; i++) {
		if (!sp_ring_take(&back, &e)) {
			next = back.at;
			return e.status;
		}
		usleep(100);
	}
	return -ETIMEDOUT;
}

static int foreign(struct raw *raw)
{
	struct sp_command c = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY, .context = (uint32_t)o.context};
	const uint16_t ops[] = {SP_CMD_POST, SP_CMD_COMPLETE, SP_CMD_CLOSE, SP_SDR_CMD_SEND, SP_SDR_CMD_CONNECT};
	char text[512];

	/* Nothing registered, nothing opened. */
	hello(raw);
	for (uint32_t w = 0; w < raw->welcome.workers; w++)
		for (unsigned i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
			raw->home = w;
			c = (struct sp_command){.op = ops[i],
						.flags = SP_CMD_REPLY,
						.context = (uint32_t)o.context,
						.arg = {o.region, 0, 4096}};
			put(raw, &c);
		}
	c.op = SP_CMD_CLOSE;
	printf("try call %d\n", -ask(raw, SP_ATTACH_CALL, 0, &c, sizeof(c)));
	printf("try free %d\n", -ask(raw, SP_ATTACH_MR_FREE, o.region, NULL, 0));
	printf("try close %d\n", -ask(raw, SP_ATTACH_CLOSE, o.context, NULL, 0));
	for (uint64_t id = 0; id < 4096; id++)
		if (!ask(raw, SP_ATTACH_MR_FREE, id, NULL, 0) || !ask(raw, SP_ATTACH_CLOSE, id, NULL, 0))
			die("a context or region was given away", -EBADE);
	/* The QP numbers of another's. */
	printf("try qp %d\n",
	       -ask(raw, SP_ATTACH_OPEN, 5, text, settings(text, (uint32_t)o.stage, "max-messages", 16)));
	close(raw->fd);
	begin(raw);
	printf("try send %d\n", -posted(raw, SP_SDR_CMD_SEND, o.region, 4096));
	printf("try post %d\n", -posted(raw, SP_CMD_POST, o.region, 4096));
	printf("try beyond %d\n", -posted(raw, SP_CMD_POST, raw->id, REGION + 1));
	for (uint64_t id = 0; id < 512; id++)
		if (id != raw->id && posted(raw, SP_CMD_POST, id, 4096) >= 0)
			die("memory of another was taken", -EBADE);
	printf("try own %d\n", -posted(raw, SP_CMD_POST, raw->id, 4096));
	until_enough();
	return 0;
}

static int exhaust(struct raw *raw)
{
	const char *words = "";
	uint64_t count = 0;
	int r = 0;

	hello(raw);
	for (;; count++) {
		const uint32_t qpn = (uint32_t)(o.qpn + count * 64);

		if (!strcmp(o.how, "memory"))
			r = ask(raw, SP_ATTACH_MR_ALLOC, 1 << 20, NULL, 0);
		else if (!strcmp(o.how, "regions"))
			r = ask(raw, SP_ATTACH_MR_ALLOC, 1, NULL, 0);
		else if (!strcmp(o.how, "contexts"))
			r = open_context(raw, qpn, "max-messages", 1);
		else if (!strcmp(o.how, "qps"))
			r = open_context(raw, qpn, "generations", 16);
		else
			r = open_context(raw, qpn, "max-messages", 128);
		for (unsigned i = 0; i < SP_ATTACH_FDS; i++)
			if (raw->got[i] >= 0)
				close(raw->got[i]);
		if (r)
			break;
	}
	if (raw->reply.head.bytes == sizeof(struct sp_attach_error))
		words = ((const struct sp_attach_error *)(const void *)raw->reply.head.data)->text;
	printf("full %" PRIu64 " %d %s\n", count, -r, words);
	until_enough();
	return 0;
}

static int garbage(struct raw *raw)
{
	static uint8_t bytes[40000];
	struct sp_attach_request *r = (void *)bytes;

	(void)raw;
	puts("ready");
	for (unsigned i = 0; i < 400 && !enough(0); i++) {
		int fd = dial();
		size_t n = chance() % 4 ? sizeof(*r) + chance() % 300 : chance() % sizeof(bytes);

		if (fd < 0)
			die("connect", fd);
		for (unsigned k = 0; k < 1 + chance() % 4; k++) {
			for (size_t at = 0; at < n; at++)
				bytes[at] = (uint8_t)chance();
			if (chance() % 4) {
				*r = (struct sp_attach_request){.magic = SP_ATTACH_MAGIC,
								.version = SP_ATTACH_VERSION,
								.op = (uint16_t)(k ? chance() % 12 : SP_ATTACH_HELLO),
								.bytes =
									(uint32_t)(n < sizeof(*r) ? 0 : n - sizeof(*r)),
								.arg = {chance() >> chance() % 64, chance()}};
				if (!k && chance() % 2)
					n = sizeof(*r), r->bytes = 0;
				if (chance() % 8 == 0)
					((uint8_t *)r)[chance() % sizeof(*r)] ^= (uint8_t)(1 << chance() % 8);
			}
			if (send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
				break;
			if (chance() % 2) {
				struct pollfd wait = {.fd = fd, .events = POLLIN};

				poll(&wait, 1, 20);
				while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
					;
			}
		}
		close(fd);
	}
	puts("ok");
	return 0;
}

static int attach(struct raw *raw)
{
	int idle[300];

	for (unsigned i = 0; i < 1000; i++) {
		raw->fd = dial();
		if (raw->fd < 0)
			die("connect", raw->fd);
		if (request(raw->fd, SP_ATTACH_HELLO, NULL, NULL, 0))
			die("hello", -errno);
		if (i % 3 && !reply(raw)) {
			close(raw->got[0]);
			close(raw->got[1]);
		}
		close(raw->fd);
	}
	for (unsigned i = 0; i < 300; i++) /* more than there is room for */
		idle[i] = dial();
	until_enough();
	for (unsigned i = 0; i < 300; i++)
		if (idle[i] >= 0)
			close(idle[i]);
	return 0;
}

/* Asks again while the answer is still there: that is the end, and only the first was answered. */
static void ask_again(struct raw *raw)
{
	struct pollfd wait;
	int r;

	raw->fd = dial();
	if (raw->fd < 0)
		die("connect", raw->fd);
	wait = (struct pollfd){.fd = raw->fd, .events = POLLIN};
	request(raw->fd, SP_ATTACH_HELLO, NULL, NULL, 0);
	poll(&wait, 1, -1);
	request(raw->fd, SP_ATTACH_REPORT, NULL, NULL, 0);
	wait.events = POLLRDHUP;
	if (poll(&wait, 1, 20000) <= 0)
		die("nobody minds a request before the reply is read", -EBUSY);
	r = reply(raw);
	if (r || reply(raw) != -ENODEV)
		die("both were answered", -EBADMSG);
	close(raw->fd);
}

static int deaf(struct raw *raw)
{
	const uint64_t page[4] = {4096};
	struct pollfd wait;

	for (unsigned times = 0; times < 10; times++)
		ask_again(raw);
	for (unsigned times = 0; times < 20; times++) {
		raw->fd = dial();
		if (raw->fd < 0)
			die("connect", raw->fd);
		for (unsigned asked = 0;; asked++)
			if (asked == 10000)
				die("nobody minds", -EBUSY);
			else if (request(raw->fd,
					 asked ? times % 2 ? SP_ATTACH_REPORT : SP_ATTACH_MR_ALLOC : SP_ATTACH_HELLO,
					 page, NULL, 0))
				break;
		wait = (struct pollfd){.fd = raw->fd, .events = POLLRDHUP};
		if (poll(&wait, 1, 20000) <= 0)
			die("nobody minds", -EBUSY);
		if (times != 19)
			close(raw->fd); /* the last one stays, with replies in it */
	}
	until_enough();
	return 0;
}

static int freed(struct raw *raw)
{
	struct memory *gone[] = {&raw->region, &raw->events};
	const uint8_t *area;

	begin(raw);
	area = raw->area.at;
	memset(raw->region.at, 0x77, raw->region.bytes);
	if (ask(raw, SP_ATTACH_CLOSE, raw->context, NULL, 0) || ask(raw, SP_ATTACH_MR_FREE, raw->id, NULL, 0))
		die("give back", -EPROTO);
	for (unsigned i = 0; i < 2; i++) {
		for (size_t at = 0; at < gone[i]->bytes; at++)
			if (gone[i]->at[at])
				die("what was given back is still there", -EBADMSG);
		memset(gone[i]->at, 0x55, gone[i]->bytes);
	}
	for (size_t at = 0; at < raw->area.bytes; at++)
		if (area[at])
			die("the area is still there", -EBADMSG);
	until_enough();
	return 0;
}

static int in_order(struct raw *raw)
{
	begin(raw);
	puts("ok");
	return 0;
}

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		int (*run)(struct raw *);
		int (*traffic)(void);
	} verbs[] = {{"stage", stage, NULL},	 {"rubbish", rubbish, NULL}, {"flip", flip, NULL},
		     {"files", files, NULL},	 {"pipe", wake_pipe, NULL},  {"foreign", foreign, NULL},
		     {"exhaust", exhaust, NULL}, {"garbage", garbage, NULL}, {"attach", attach, NULL},
		     {"deaf", deaf, NULL},	 {"freed", freed, NULL},     {"ask", in_order, NULL},
		     {"traffic", NULL, traffic}, {"await", NULL, await}};
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {{"seed", &o.seed},	{"peer", &o.peer},   {"size", &o.size},
		       {"slots", &o.slots},	{"qpn", &o.qpn},     {"region", &o.region},
		       {"context", &o.context}, {"stage", &o.stage}, {"messages", &o.messages}};
	static struct raw raw;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must see what fgets() has not taken */
	if (argc < 3)
		return 2;
	o.nic = argv[1];
	for (int i = 3; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		bool known = false;

		if (!value)
			return 2;
		*value++ = 0;
		if (!strcmp(argv[i], "how") && (known = true))
			o.how = value;
		if (!strcmp(argv[i], "wait") && (known = true))
			o.sleep = !strcmp(value, "sleep");
		for (size_t k = 0; k < sizeof(numbers) / sizeof(*numbers); k++)
			if (!strcmp(argv[i], numbers[k].key) && (known = true))
				*numbers[k].to = strtoull(value, NULL, 0);
		if (!known)
			return 2;
	}
	if (o.size % 8 || !o.slots || o.slots > 64)
		return 2;
	state = o.seed;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(argv[2], verbs[i].name))
			return verbs[i].run ? verbs[i].run(&raw) : verbs[i].traffic();
	return 2;
}
