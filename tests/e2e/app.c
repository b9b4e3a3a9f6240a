/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application of a NIC in another process (spindle run), for the end-to-end tests; links libspindle and nothing of
 * the NIC. app NIC VERB [KEY=VALUE...]; NIC is a name or the path of a socket. Lines on stdout, flushed; exit status 0,
 * or 1 after a line "error -ERRNO WHAT" (2: wrong usage).
 *
 *   info    "ok ipv4 ADDRESS PAYLOAD ipv6 ADDRESS PAYLOAD", - and 0 where there is none
 *   hold    opens a QP, posts a receive, prints "qp INFO"; then sleeps: the end of stdin closes it in order ("ok 0 0"),
 * the NIC's end is "error -19 ...", before which there may be "reset", when the QP has ended and the NIC has not; a
 *           line on stdin is answered "alive"
 *   send    opens a QP, prints "qp INFO" (hexadecimal), reads the peer's INFO as a line from stdin, connects, sends;
 *           "ok MESSAGES BYTES" once the buffers are its own again and the peer has said so by a line on stdin
 *   recv    the same, receives, compares every byte; "ok MESSAGES BYTES"
 *   loop    both in this process: from a QP on this NIC to one on peer=NIC (default: the same NIC); with pause=1 it
 * waits for a line after "connected", and after "sent"
 *
 *   messages=N (8) size=N (bytes of each, 65536) seed=N (what is in them, 1) family=4|6 mtu=N chunk=N max=N (bytes of a
 *   message) slots=N (messages in flight) generations=N channels=N rkey=N qpn=N seconds=N (for each wait, 30)
 *   wait=poll|sleep (poll)
 */
#include "../../host-api/sdr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 1024

static struct options {
	uint64_t messages, size, seed, family, mtu, chunk, max, slots, generations, channels, rkey, qpn, seconds, pause;
	bool sleep;
	const char *peer;
} o = {.messages = 8, .size = 65536, .seed = 1, .slots = 16, .seconds = 30};

/* One end of a connection. */
struct end {
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr; /* slots buffers of size bytes */
	struct sdr_send *send[SLOTS];
	struct sdr_recv *recv[SLOTS];
	uint64_t begun, ended; /* messages */
	bool whole;	       /* the oldest receive has all, and is being taken back */
};

static int fail(int error, const char *what)
{
	printf("error %d %s: %s\n", error, what, strerror(-error));
	return error;
}

static int misuse(const char *what)
{
	fprintf(stderr, "app: %s\n", what);
	exit(2);
}

/* 12, 0x1F, 64K, 1M, 2G */
static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);
	const char *unit = strchr("KMG", *end);

	if (end == text || (*end && (!unit || end[1])))
		misuse(text);
	return *end ? value << 10 * (unit - "KMG" + 1) : value;
}

static void option(char *word)
{
	const struct {
		const char *key;
		uint64_t *to;
	} key[] = {{"messages", &o.messages}, {"size", &o.size},
		   {"seed", &o.seed},	      {"family", &o.family},
		   {"mtu", &o.mtu},	      {"chunk", &o.chunk},
		   {"max", &o.max},	      {"slots", &o.slots},
		   {"qpn", &o.qpn},	      {"generations", &o.generations},
		   {"channels", &o.channels}, {"rkey", &o.rkey},
		   {"seconds", &o.seconds},   {"pause", &o.pause}};
	char *value = strchr(word, '=');

	if (!value)
		misuse(word);
	*value++ = 0;
	if (!strcmp(word, "peer")) {
		o.peer = value;
		return;
	}
	if (!strcmp(word, "wait")) {
		o.sleep = !strcmp(value, "sleep");
		return;
	}
	for (size_t i = 0; i < sizeof(key) / sizeof(*key); i++)
		if (!strcmp(word, key[i].key)) {
			*key[i].to = number(value);
			return;
		}
	misuse(word);
}

/* ---- what a message holds: bytes that only seed, message and place decide ---- */
static uint64_t content(uint64_t message, uint64_t word)
{
	uint64_t x = o.seed * 0x9E3779B97F4A7C15ull + message * 0xD6E8FEB86659FD93ull + word * 0xBF58476D1CE4E5B9ull;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

static void fill(uint8_t *bytes, uint64_t message)
{
	for (uint64_t at = 0; at < o.size; at += 8) {
		uint64_t word = content(message, at / 8);

		memcpy(bytes + at, &word, o.size - at < 8 ? o.size - at : 8);
	}
}

static int compare(const uint8_t *bytes, uint64_t message)
{
	for (uint64_t at = 0; at < o.size; at += 8) {
		uint64_t word = content(message, at / 8);

		if (memcmp(bytes + at, &word, o.size - at < 8 ? o.size - at : 8)) {
			printf("error %d message %" PRIu64 " differs in the 8 bytes from %" PRIu64 "\n", -EBADMSG,
			       message, at);
			return -EBADMSG;
		}
	}
	return 0;
}

/* ---- ends ---- */
static int end_open(struct end *e, const char *nic)
{
	const struct sdr_context_attr context = {.channels = (uint32_t)o.channels};
	const struct sdr_qp_attr attr = {.mtu = (uint32_t)o.mtu,
					 .chunk_bytes = (uint32_t)o.chunk,
					 .max_message_bytes = o.max ? o.max : o.size,
					 .max_messages = (uint32_t)o.slots,
					 .generations = (uint32_t)o.generations,
					 .rkey = (uint32_t)o.rkey,
					 .qpn = (uint32_t)o.qpn,
					 .family = o.family == 6   ? AF_INET6
						   : o.family == 4 ? AF_INET
								   : 0};
	struct sp_error error = {.text = ""};
	int r = sp_attach(nic, &e->dev);

	if (r)
		return fail(r, "sp_attach");
	r = sp_mr_alloc(e->dev, o.slots * o.size + 1, &e->mr);
	if (r)
		return fail(r, "sp_mr_alloc");
	r = sdr_context_create(e->dev, &context, &e->context);
	if (!r)
		r = sdr_qp_create(e->context, &attr, &e->qp, &error);
	return r ? fail(r, *error.text ? error.text : "sdr_qp_create") : 0;
}

/* However far it got; must work also when the NIC has gone. */
static int end_close(struct end *e)
{
	if (!e->dev)
		return 0;
	int r = e->qp ? sdr_qp_destroy(e->qp) : 0;

	if (e->context)
		sdr_context_destroy(e->context);
	if (e->mr)
		sp_mr_free(e->mr);
	sp_dev_close(e->dev);
	*e = (struct end){0};
	return r ? fail(r, "sdr_qp_destroy") : 0;
}

static int info_print(const struct end *e)
{
	struct sdr_qp_info info;
	int r = sdr_qp_info_get(e->qp, &info);

	if (r)
		return fail(r, "sdr_qp_info_get");
	printf("qp ");
	for (size_t i = 0; i < sizeof(info); i++)
		printf("%02x", ((const uint8_t *)&info)[i]);
	puts("");
	return 0;
}

static int info_read(struct sdr_qp_info *info)
{
	char line[2 * sizeof(*info) + 2];

	if (!fgets(line, sizeof(line), stdin))
		return fail(-ENODATA, "no peer on stdin");
	for (size_t i = 0; i < sizeof(*info); i++) {
		unsigned byte;

		if (sscanf(line + 2 * i, "%2x", &byte) != 1)
			return fail(-EINVAL, "the peer's info");
		((uint8_t *)info)[i] = (uint8_t)byte;
	}
	return 0;
}

/* ---- messages; each step returns how much it did, or -errno (said already) ---- */
static int send_step(struct end *e)
{
	int did = 0, r = 0;

	while (e->begun < o.messages && e->begun - e->ended < o.slots) {
		uint64_t slot = e->begun % o.slots;

		fill((uint8_t *)e->mr->addr + slot * o.size, e->begun);
		r = sdr_send_post(e->qp, e->mr, slot * o.size, o.size, (uint32_t)e->begun, &e->send[slot]);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(r, "sdr_send_post");
		e->begun++;
		did++;
	}
	while (e->ended < e->begun) {
		r = sdr_send_poll(e->send[e->ended % o.slots]);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(r, "sdr_send_poll");
		e->ended++;
		did++;
	}
	return did;
}

static int recv_step(struct end *e)
{
	int did = 0, r = 0;

	while (e->begun < o.messages && e->begun - e->ended < o.slots) {
		uint64_t slot = e->begun % o.slots;

		memset((uint8_t *)e->mr->addr + slot * o.size, 0, o.size);
		r = sdr_recv_post(e->qp, e->mr, slot * o.size, o.size, &e->recv[slot]);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(r, "sdr_recv_post");
		e->begun++;
		did++;
	}
	while (e->ended < e->begun) {
		struct sdr_recv *recv = e->recv[e->ended % o.slots];

		r = e->whole ? 0 : sdr_recv_test(recv); /* once sdr_recv_complete() was called, only that goes on */
		e->whole = !r;
		if (!r)
			r = sdr_recv_complete(recv);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(r, "receiving");
		e->whole = false;
		r = compare((uint8_t *)e->mr->addr + e->ended % o.slots * o.size, e->ended);
		if (r)
			return r;
		e->ended++;
		did++;
	}
	return did;
}

/* Runs both until all messages are through. Either may be NULL. */
static int transfer(struct end *sender, struct end *receiver)
{
	struct end *only = !sender ? receiver : !receiver || sender->dev == receiver->dev ? sender : NULL;
	sp_time last = sp_clock();

	for (bool armed = false;;) {
		int sent = sender ? send_step(sender) : 0, received = sent < 0 || !receiver ? 0 : recv_step(receiver),
		    r;

		if (sent < 0 || received < 0)
			return sent < 0 ? sent : received;
		if ((!sender || sender->ended == o.messages) && (!receiver || receiver->ended == o.messages))
			return 0;
		if (sent || received) {
			last = sp_clock();
			armed = false;
			continue;
		}
		if (sp_clock() - last > o.seconds * SP_SEC)
			return fail(-ETIMEDOUT, "nothing happens");
		if (!o.sleep || !only) {
			r = sender ? sp_progress(sender->dev, sp_clock()) : 0;
			if (r >= 0 && receiver)
				r = sp_progress(receiver->dev, sp_clock());
			if (r < 0)
				return fail(r, "sp_progress");
			usleep(20); /* the NIC's workers may share our CPU */
		} else if (!armed) {
			r = sp_dev_arm(only->dev);
			if (r)
				return fail(r, "sp_dev_arm");
			armed = true;
		} else {
			r = sp_dev_wait(only->dev, o.seconds * SP_SEC);
			if (r && r != -ETIMEDOUT && r != -EINTR)
				return fail(r, "sp_dev_wait");
			armed = false;
		}
	}
}

static int said(uint64_t messages)
{
	printf("ok %" PRIu64 " %" PRIu64 "\n", messages, messages * o.size);
	return 0;
}

/* ---- verbs ---- */
static int info(const char *nic)
{
	struct sp_dev *dev;
	int r = sp_attach(nic, &dev);

	if (r)
		return fail(r, "sp_attach");
	printf("ok");
	for (int family = 4; family <= 6; family += 2) {
		char text[INET6_ADDRSTRLEN] = "-";
		uint8_t ip[16];

		if (!sp_dev_address(dev, family == 4 ? AF_INET : AF_INET6, ip))
			inet_ntop(family == 4 ? AF_INET : AF_INET6, ip + (family == 4 ? 12 : 0), text, sizeof(text));
		printf(" ipv%d %s %u", family, text, sp_dev_payload(dev, family == 4 ? AF_INET : AF_INET6));
	}
	puts("");
	sp_dev_close(dev);
	return 0;
}

static int hold(struct end *e, const char *nic)
{
	struct sdr_recv *recv;
	struct sdr_qp_status status;
	struct pollfd poll_set[2];
	bool reset = false;
	char line[64];
	int r = end_open(e, nic);

	if (!r)
		r = info_print(e);
	if (r)
		return r;
	r = sdr_recv_post(e->qp, e->mr, 0, o.size, &recv);
	if (r)
		return fail(r, "sdr_recv_post");
	for (;;) {
		r = sp_dev_arm(e->dev);
		if (!r)
			r = sdr_qp_status(e->qp, &status);
		if (!r)
			r = status.error;
		if (r == -ECONNRESET) {
			if (!reset)
				puts("reset");
			reset = true;
			r = 0;
		}
		if (r)
			return fail(r, "the NIC");
		poll_set[0] = (struct pollfd){.fd = sp_dev_fd(e->dev), .events = POLLIN};
		poll_set[1] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
		if (poll(poll_set, 2, -1) > 0 && poll_set[1].revents) {
			if (!fgets(line, sizeof(line), stdin))
				break;
			puts("alive");
		}
	}
	r = end_close(e);
	return r ? r : said(0);
}

/* As hold; when the NIC has gone, whichever way, all is closed, and begins anew with the next NIC of that name. */
static int outlive(struct end *e, const char *nic)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	struct sp_dev *dev;
	int r;

	while ((r = hold(e, nic)) == -ENODEV || r == -ECONNABORTED) {
		end_close(e);
		*e = (struct end){0};
		while (sp_attach(nic, &dev))
			nanosleep(&pause, NULL);
		sp_dev_close(dev);
	}
	return r;
}

static int one(struct end *e, const char *nic, bool sends)
{
	struct sdr_qp_info peer;
	char line[64];
	int r = end_open(e, nic);

	if (!r)
		r = info_print(e);
	if (!r)
		r = info_read(&peer);
	if (r)
		return r;
	r = sdr_qp_connect(e->qp, &peer);
	if (r)
		return fail(r, "sdr_qp_connect");
	r = sends ? transfer(e, NULL) : transfer(NULL, e);
	if (r)
		return r;
	if (sends && !fgets(line, sizeof(line), stdin)) /* what left may not be there yet, and goes with the QP */
		return fail(-ENODATA, "the receiver has not said that it is done");
	r = end_close(e);
	return r ? r : said(o.messages);
}

static void pause_at(const char *point)
{
	char line[64];

	if (o.pause) {
		puts(point);
		(void)!fgets(line, sizeof(line), stdin);
	}
}

static int loop(struct end *here, struct end *there, const char *nic)
{
	struct sdr_qp_info info[2];
	int r = end_open(here, nic);

	if (!r)
		r = end_open(there, o.peer ? o.peer : nic);
	if (r)
		return r;
	sdr_qp_info_get(here->qp, &info[0]);
	sdr_qp_info_get(there->qp, &info[1]);
	r = sdr_qp_connect(here->qp, &info[1]);
	if (!r)
		r = sdr_qp_connect(there->qp, &info[0]);
	if (r)
		return fail(r, "sdr_qp_connect");
	pause_at("connected");
	r = transfer(here, there);
	pause_at("sent");
	if (!r)
		r = end_close(here);
	if (!r)
		r = end_close(there);
	return r ? r : said(o.messages);
}

int main(int argc, char **argv)
{
	struct end end[2] = {0};
	int r;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must see what fgets() has not taken */
	if (argc < 3)
		misuse("NIC VERB [KEY=VALUE...]");
	for (int i = 3; i < argc; i++)
		option(argv[i]);
	if (!o.slots || o.slots > SLOTS)
		misuse("slots");
	if (!strcmp(argv[2], "info"))
		r = info(argv[1]);
	else if (!strcmp(argv[2], "hold"))
		r = hold(&end[0], argv[1]);
	else if (!strcmp(argv[2], "outlive"))
		r = outlive(&end[0], argv[1]);
	else if (!strcmp(argv[2], "send") || !strcmp(argv[2], "recv"))
		r = one(&end[0], argv[1], *argv[2] == 's');
	else if (!strcmp(argv[2], "loop"))
		r = loop(&end[0], &end[1], argv[1]);
	else
		r = misuse(argv[2]);
	for (unsigned i = 0; i < 2 && r; i++) /* what failed says so itself; what is left must go all the same */
		end_close(&end[i]);
	return r ? 1 : 0;
}
