/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applications that lie, cheat and die, for hostile.py and kills.py: they speak to the NIC's socket (wire/attach.h) and
 * write to the rings by hand. hostile NIC VERB [KEY=VALUE...]; lines on stdout, flushed. A verb that has said "ready"
 * goes on with what it does until a line or the end of stdin, which it answers "ok"; exit status 1 after "error ...".
 *
 *   stage     stops while it attaches, at point stage=N of 18
 *   rubbish   random indexes, entries and headings in its queues and events, for ever
 *   flip      entries change between a command that may be and one that may not, while they are read
 *   files     tries what can be done to a file on each descriptor: "try NAME WHAT ERRNO"; then punches holes for ever
 *   wakes     the same with the socket that wake-ups come by and the eventfd: "try wakes WHAT ERRNO"; then arms for
 * ever and never reads, tells of posts without end, closes both foreign   memory region= and context= are somebody
 * else's: "try WHAT ERRNO" exhaust   takes what it gets of how=memory|regions|contexts|qps|messages: "full COUNT ERRNO
 * WORDS", keeps it garbage   connections that say anything attach    a thousand times deaf      asks and never reads
 * the answer freed     keeps descriptors and mappings of what it has given back, and writes there ask       asks
 * anything in order: does the NIC still answer? "ok" and those of traffic.c. hostile_raw.c is what they have in common,
 * hostile_rings.c the verbs on rings and memory.
 */
#include "hostile_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct hostile_options o = {.size = 16384, .slots = 4, .messages = UINT64_MAX, .seed = 1, .peer = 1, .how = "wait"};

static int stage(struct raw *raw)
{
	const uint64_t large[4] = {8 << 20};
	const struct sp_command query = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY};
	struct sp_command post = {.op = SP_CMD_POST, .arg = {1, 0, 4096}};
	const uint32_t qpn = (uint32_t)o.qpn;
	struct sp_attach_queues *queues;
	char text[512];

	raw->fd = dial();
	if (raw->fd < 0)
		die("connect", raw->fd);
	if (o.stage == 1 || o.stage == 2)
		request(raw->fd, SP_ATTACH_HELLO, NULL, NULL, 0);
	if (o.stage == 2) {
		struct pollfd wait = {.fd = raw->fd, .events = POLLIN};

		poll(&wait, 1, -1); /* the reply and its descriptor are in the socket, and stay there */
	}
	if (o.stage >= 3 && ask_memory(raw, SP_ATTACH_HELLO, 0, NULL, 0, &raw->queues))
		die("hello", -EPROTO);
	if (o.stage >= 4 && seal(&raw->queues, SP_ATTACH_SEALS))
		die("seals", -EPROTO);
	if (o.stage == 5)
		request(raw->fd, SP_ATTACH_SEALED, NULL, NULL, 0);
	if (o.stage >= 6) {
		if (ask(raw, SP_ATTACH_SEALED, 0, NULL, 0))
			die("hello", -EPROTO);
		take_welcome(raw);
	}
	queues = (void *)raw->queues.at;
	if (o.stage == 7)
		request(raw->fd, SP_ATTACH_MR_ALLOC, large, NULL, 0);
	if (o.stage == 8 || o.stage == 9)
		if (ask_memory(raw, SP_ATTACH_MR_ALLOC, REGION, NULL, 0, &raw->region))
			die("memory", -EPROTO);
	if (o.stage == 9 && !seal(&raw->region, SP_ATTACH_SEALS))
		request(raw->fd, SP_ATTACH_SEALED, NULL, NULL, 0);
	if (o.stage >= 10 && alloc(raw, REGION, &raw->region, &raw->id))
		die("memory", -EPROTO);
	if (o.stage == 11) {
		const uint64_t args[4] = {5};

		request(raw->fd, SP_ATTACH_OPEN, args, text, settings(text, qpn, "max-messages", 16));
	}
	if (o.stage == 12 || o.stage == 13)
		if (ask_memory(raw, SP_ATTACH_OPEN, 5, text, settings(text, qpn, "max-messages", 16), &raw->events))
			die("context", -EPROTO);
	if (o.stage == 13 && !seal(&raw->events, SP_ATTACH_SEALS))
		request(raw->fd, SP_ATTACH_SEALED, NULL, NULL, 0);
	if (o.stage >= 14) {
		if (open_context(raw, qpn, "max-messages", 16))
			die("context", -EPROTO);
		take_context(raw);
		post.context = raw->context;
		post.arg[0] = raw->id;
	}
	if (o.stage == 15)
		request(raw->fd, SP_ATTACH_CALL, NULL, &query, sizeof(query));
	if (o.stage >= 16) {
		put(raw, &post);
		queues->bell.armed = 1;
	}
	if (o.stage == 17) /* says that there are entries, and dies before it writes them */
		commands(raw, raw->home)->tail += 5;
	until_enough();
	return 0;
}

static int exhaust(struct raw *raw)
{
	struct memory one = {.fd = -1};
	const char *words = "";
	uint64_t count = 0;
	uint32_t id;
	int r = 0;

	hello(raw);
	for (;; count++) {
		const uint32_t qpn = (uint32_t)(o.qpn + count * 64);

		if (!strcmp(o.how, "memory"))
			r = alloc(raw, 1 << 20, &one, &id);
		else if (!strcmp(o.how, "regions"))
			r = alloc(raw, 1, &one, &id);
		else if (!strcmp(o.how, "contexts"))
			r = open_context(raw, qpn, "max-messages", 1);
		else if (!strcmp(o.how, "qps"))
			r = open_context(raw, qpn, "generations", 16);
		else
			r = open_context(raw, qpn, "max-messages", 96);
		for (unsigned i = 0; i < SP_ATTACH_FDS; i++)
			if (raw->got[i] >= 0)
				close(raw->got[i]);
		if (r)
			break;
		close(one.fd >= 0 ? one.fd : raw->events.fd);
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
		if (request(raw->fd, SP_ATTACH_HELLO, NULL, NULL, 0)) {
			close(raw->fd); /* refused: the last ones are not all forgotten yet */
			continue;
		}
		if (i % 3 && !reply(raw)) {
			if (i % 3 == 1 && !seal(&(struct memory){.fd = raw->got[0]}, SP_ATTACH_SEALS))
				request(raw->fd, SP_ATTACH_SEALED, NULL, NULL, 0);
			close(raw->got[0]);
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
	raw->fd = dial();
	if (raw->fd < 0)
		die("connect", raw->fd);
	struct pollfd wait = (struct pollfd){.fd = raw->fd, .events = POLLIN};
	request(raw->fd, SP_ATTACH_HELLO, NULL, NULL, 0);
	poll(&wait, 1, -1);
	request(raw->fd, SP_ATTACH_REPORT, NULL, NULL, 0);
	wait.events = POLLRDHUP;
	if (poll(&wait, 1, 20000) <= 0)
		die("nobody minds a request before the reply is read", -EBUSY);
	const int r = reply(raw);
	close(raw->got[0]); /* else it is held */
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
		hello(raw);
		unmap(&raw->queues);
		close(raw->wake);
		close(raw->post);
		for (unsigned asked = 0;; asked++)
			if (asked == 10000)
				die("nobody minds", -EBUSY);
			else if (request(raw->fd, times % 2 ? SP_ATTACH_REPORT : SP_ATTACH_MR_ALLOC, page, NULL, 0))
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
		     {"files", files, NULL},	 {"wakes", wakes, NULL},     {"foreign", foreign, NULL},
		     {"exhaust", exhaust, NULL}, {"garbage", garbage, NULL}, {"attach", attach, NULL},
		     {"deaf", deaf, NULL},	 {"freed", freed, NULL},     {"ask", in_order, NULL},
		     {"seals", seals, NULL},	 {"attack", attack, NULL},   {"traffic", NULL, traffic},
		     {"await", NULL, await},	 {"pulse", NULL, pulse},     {"attaches", NULL, attaches}};
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
	chance_begin(o.seed);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(argv[2], verbs[i].name))
			return verbs[i].run ? verbs[i].run(&raw) : verbs[i].traffic();
	return 2;
}
