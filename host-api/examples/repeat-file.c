/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file from one NIC to another by the scheme "repeat". A TCP connection serves for agreement: each end writes its
 * struct sdr_qp_info, the sender the file's length too; the receiver's "saved" is the end. It is neither authenticated
 * nor encrypted.
 *
 *     repeat recv NIC PORT FILE           NIC: the name of one that `spindle run` runs
 *     repeat send NIC HOST PORT FILE
 *
 * Build: cc -o repeat repeat.c repeat-file.c $(pkg-config --cflags --libs libspindle)
 */
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "repeat.h"

#define MESSAGE (1u << 20) /* bytes; of the file's last message, what is left */
#define WINDOW	8	   /* messages in flight */
#define CHUNK	8192u
#define RATE	200000000u /* bit/s: the scheme does not measure the path */
#define PAUSE	(20 * SP_MS)
#define TIMEOUT (60 * SP_SEC) /* for a message */

struct hello {
	struct sdr_qp_info info;
	uint64_t bytes; /* of the file, big-endian; ignored from the receiver */
};

struct transfer {
	bool sends;
	FILE *file;
	int tcp;
	uint64_t bytes;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr; /* message k's buffer is k % WINDOW */
	struct repeat *repeat;
	struct repeat_op *op[WINDOW];
	uint64_t begun, over; /* messages */
};

static int fail(const char *what, int rc)
{
	fprintf(stderr, "repeat: %s: %s\n", what, strerror(rc < 0 ? -rc : errno));
	return 1;
}

/* ---- agreement ---- */
static int tcp_open(const struct addrinfo *a, bool listens)
{
	const int fd = socket(a->ai_family, a->ai_socktype, 0), one = 1;

	if (fd < 0)
		return fd;
	if (listens)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listens ? !bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 1) : !connect(fd, a->ai_addr, a->ai_addrlen))
		return fd;
	close(fd);
	return -1;
}

/* host NULL: waits for the peer. */
static int tcp_socket(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_flags = host ? 0 : AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct addrinfo *all;
	int fd = -1, peer;

	if (getaddrinfo(host, port, &hints, &all)) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
		fd = tcp_open(a, !host);
	freeaddrinfo(all);
	if (fd < 0 || host)
		return fd;
	puts("listening");
	fflush(stdout);
	peer = accept(fd, NULL, NULL);
	close(fd);
	return peer;
}

static int agree(struct transfer *t)
{
	struct hello ours = {.bytes = htobe64(t->bytes)}, theirs;
	const struct timeval patience = {.tv_sec = TIMEOUT / SP_SEC};
	int rc = sdr_qp_info_get(t->qp, &ours.info);

	if (rc)
		return fail("own connection", rc);
	setsockopt(t->tcp, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(t->tcp, &ours, sizeof(ours), MSG_NOSIGNAL) != sizeof(ours) ||
	    recv(t->tcp, &theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs))
		return fail("the peer hung up", -ECONNRESET);
	rc = sdr_qp_connect(t->qp, &theirs.info);
	if (rc)
		return fail("connecting", rc);
	if (!t->sends)
		t->bytes = be64toh(theirs.bytes);
	return 0;
}

/* The peer has closed its end. */
static bool hung_up(const struct transfer *t)
{
	char c;
	const ssize_t n = recv(t->tcp, &c, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* ---- the file ---- */
static uint64_t messages(const struct transfer *t)
{
	return t->bytes / MESSAGE + (t->bytes % MESSAGE != 0);
}

static uint64_t length(const struct transfer *t, uint64_t k)
{
	return k + 1 < messages(t) ? MESSAGE : t->bytes - k * MESSAGE;
}

static char *buffer(const struct transfer *t, uint64_t k)
{
	return (char *)t->mr->addr + k % WINDOW * MESSAGE;
}

/* 0, -EAGAIN: not now, or 1: the exit status. */
static int begin(struct transfer *t)
{
	const uint64_t k = t->begun, len = length(t, k), at = k % WINDOW * MESSAGE;
	int rc;

	if (t->sends &&
	    (fseeko(t->file, (off_t)(k * MESSAGE), SEEK_SET) || fread(buffer(t, k), 1, len, t->file) != len))
		return fail("reading the file", -EIO);
	rc = t->sends ? repeat_send(t->repeat, t->mr, at, len, 0, sp_clock() + TIMEOUT, &t->op[k % WINDOW])
		      : repeat_recv(t->repeat, t->mr, at, len, SP_NEVER, &t->op[k % WINDOW]);
	if (rc && rc != -EAGAIN)
		return fail("beginning a message", rc);
	t->begun += !rc;
	return rc;
}

/* The oldest message. As begin(). */
static int finish(struct transfer *t)
{
	uint64_t len;
	const int rc = repeat_poll(t->op[t->over % WINDOW], &len);

	if (rc == -EAGAIN)
		return rc;
	if (rc || len != length(t, t->over))
		return fail("a message", rc ? rc : -EPROTO);
	if (!t->sends && fwrite(buffer(t, t->over), 1, len, t->file) != len)
		return fail("writing", 0);
	t->over++;
	return 0;
}

/* Runs until all messages have ended. The receiver goes on answering until the sender has read its "saved" and hangs
 * up. */
static int run(struct transfer *t)
{
	bool said = false;
	int rc;

	while (!hung_up(t)) {
		sp_time now, due;

		rc = 0;
		while (!rc && t->begun < messages(t) && t->begun < t->over + WINDOW)
			rc = begin(t);
		if (rc == 1)
			return 1;
		/* Arm first, so that no event is missed. */
		rc = sp_dev_arm(t->dev);
		rc = rc ? rc : repeat_progress(t->repeat, sp_clock());
		if (rc)
			return fail("the NIC", rc);
		while (!rc && t->over < t->begun)
			rc = finish(t);
		if (rc == 1)
			return 1;
		if (t->over == messages(t) && !said) {
			if (t->sends)
				return 0;
			if (fflush(t->file))
				return fail("writing", 0);
			if (send(t->tcp, "saved", 5, MSG_NOSIGNAL) != 5)
				break;
			said = true;
		}
		now = sp_clock();
		due = t->begun < messages(t) && t->begun < t->over + WINDOW ? now : repeat_deadline(t->repeat);
		due = due < now + 50 * SP_MS ? due : now + 50 * SP_MS; /* to notice that the peer hangs up */
		rc = due > now ? sp_dev_wait(t->dev, due - now) : 0;
		if (rc && rc != -ETIMEDOUT && rc != -EINTR)
			return fail("the NIC", rc);
	}
	return said ? 0 : fail("the peer hung up", -ECONNRESET);
}

static int open_all(struct transfer *t, const char *nic)
{
	const struct sdr_qp_attr attr = {.max_message_bytes = MESSAGE,
					 .chunk_bytes = CHUNK,
					 .max_messages = WINDOW,
					 .rate_bps = RATE,
					 .no_send = !t->sends,
					 .no_recv = t->sends};
	struct sp_error error = {.text = ""};
	int rc = sp_attach(nic, &t->dev);

	if (rc)
		return fail(nic, rc);
	rc = sdr_context_create(t->dev, NULL, &t->context);
	rc = rc ? rc : sdr_qp_create(t->context, &attr, &t->qp, &error);
	rc = rc ? rc : sdr_mr_alloc(t->context, WINDOW * MESSAGE, &t->mr);
	rc = rc ? rc : repeat_open(t->qp, PAUSE, &t->repeat);
	return rc ? fail(*error.text ? error.text : "the connection's end here", rc) : 0;
}

int main(int argc, char **argv)
{
	struct transfer t = {.sends = argc == 6 && !strcmp(argv[1], "send"), .tcp = -1};
	char saved[5] = "";
	int status = 1;

	if (!t.sends && (argc != 5 || strcmp(argv[1], "recv"))) {
		fputs("usage: repeat recv NIC PORT FILE | repeat send NIC HOST PORT FILE\n", stderr);
		return 2;
	}
	t.file = fopen(argv[argc - 1], t.sends ? "rb" : "wb");
	if (!t.file)
		return fail(argv[argc - 1], 0);
	if (t.sends && (fseek(t.file, 0, SEEK_END) || (t.bytes = (uint64_t)ftell(t.file)) > INT64_MAX ||
			fseek(t.file, 0, SEEK_SET)))
		return fail(argv[argc - 1], 0);
	t.tcp = tcp_socket(t.sends ? argv[3] : NULL, argv[argc - 2]);
	if (t.tcp < 0)
		return fail("TCP", 0);
	if (!open_all(&t, argv[2]) && !agree(&t))
		status = run(&t);
	if (!status && t.sends && (recv(t.tcp, saved, 5, MSG_WAITALL) != 5 || memcmp(saved, "saved", 5)))
		status = fail("the peer has not saved the file", -ECONNRESET);
	if (!status)
		printf("%llu bytes, %llu chunks sent\n", (unsigned long long)t.bytes,
		       (unsigned long long)repeat_chunks(t.repeat));
	if (t.repeat)
		repeat_close(t.repeat);
	if (t.qp)
		sdr_qp_destroy(t.qp);
	if (t.context)
		sdr_context_destroy(t.context);
	if (t.dev)
		sp_dev_close(t.dev);
	close(t.tcp);
	if (fclose(t.file) && !status)
		status = fail("writing", 0);
	return status;
}
