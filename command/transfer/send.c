/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle send: sends one file to a host where spindle recv listens. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../pipeline/value.h"
#include "../../pipeline/nic.h"
#include "../command.h"
#include "../nic_error.h"
#include "digest.h"
#include "out.h"
#include "show.h"
#include "transfer.h"
#include "words.h"
#include "../output.h"

#define MESSAGE	  (4ull << 20)
#define CHUNK	  16384ull
#define UNIT_RATE 32 /* a chunk takes at most a quarter of a second: 1/32 of the rate, in bytes */
#define AT(field) OPTION_AT(struct sender, field)

static const struct usage usage = {
	.command = "send",
	.forms = "spindle send FILE HOST[:PORT] [OPTIONS]",
	.about = "Sends FILE to the host where `spindle recv` listens (TCP port " TALK_PORT
		 "), through a NIC that `spindle run` runs. Lost packets are sent again. Only --rate limits the rate.",
	.end = "Exit status: 0 if the receiver has saved the file and its SHA-256 is the same, 1 if not.",
	.arguments = 2,
};

struct sender {
	const char *file, *nic, *scheme;
	char host[256], port[16];
	uint64_t mtu, message, chunk, rate, family, timeout;
	bool json;
};

static int take_family(void *to, const char *text)
{
	struct sender *s = to;

	return sp_parse_uint(text, &s->family) || (s->family != 4 && s->family != 6) ? -EINVAL : 0;
}

static int take_scheme(void *to, const char *text)
{
	struct sender *s = to;

	s->scheme = text;
	return sdr_reliable_scheme(text) < 0 ? -EINVAL : 0;
}

static const struct option_row rows[] = {
	{"mtu", 0, OPTION_NUMBER, "N", "payload bytes of a packet, 100 to 4096 (the most that both ports carry)",
	 AT(mtu), .least = TRANSFER_MTU_LEAST, .most = 4096},
	{"reliability", 0, OPTION_CALL, "SCHEME",
	 "sr-nack: repeat what an acknowledgement shows to be missing; sr-rto: repeat after a timeout; ec-mds, ec-xor: "
	 "the "
	 "NICs repair from parity; auto: chosen by the path (sr-nack)",
	 .take = take_scheme, .wants = "sr-nack, sr-rto, ec-mds, ec-xor or auto"},
	{"message", 0, OPTION_SIZE, "BYTES", "of a message, the unit of buffers; the receiver may choose fewer (4M)",
	 AT(message), .least = 1, .most = TALK_MESSAGE},
	{"chunk", 0, OPTION_SIZE, "BYTES", "the unit of repeats, rounded down to packets (16K)", AT(chunk), .least = 1,
	 .most = TALK_MESSAGE},
	{"rate", 0, OPTION_RATE, "R", "at most R bit/s (no limit)", AT(rate), .least = 100000},
	{"family", 0, OPTION_CALL, "4|6", "over IPv4 or IPv6 (what both NICs have, IPv4 first)", .take = take_family,
	 .wants = "4 or 6"},
	{"timeout", 0, OPTION_NUMBER, "S", "give up if the receiver makes no progress for S seconds (60)", AT(timeout),
	 .least = 1, .most = TRANSFER_STALL_MOST},
	{"json", 0, OPTION_FLAG, NULL, "print the outcome as JSON", AT(json)},
	{0},
};

static int arguments(struct sender *s, int argc, char **argv)
{
	struct options o = {&usage, {{NULL, nic_rows, &s->nic, NULL}, {NULL, rows, s, NULL}}};
	int status;

	*s = (struct sender){.scheme = "sr-nack", .message = MESSAGE, .chunk = CHUNK, .timeout = TRANSFER_STALL};
	status = options_parse(&o, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (o.arguments < 2)
		return options_misuse(&usage, "a FILE and a HOST are needed");
	s->file = o.argument[0];
	if (talk_split(o.argument[1], false, TALK_PORT, s->host, s->port))
		return options_misuse(&usage, "no HOST or HOST:PORT: %s", o.argument[1]);
	return OPTIONS_GO_ON;
}

static int file_open(struct transfer *t, const char *path, int *fd, struct stat *st)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
	if (*fd < 0 || fstat(*fd, st))
		return transfer_fail(t, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st->st_mode))
		return transfer_fail(t, "%s: not a file", path);
	t->size = (uint64_t)st->st_size;
	snprintf(t->name, sizeof(t->name), "%s", name);
	return 0;
}

/* ---- the connection ---- */
static int try_address(struct transfer *t, const struct addrinfo *a, sp_time until)
{
	int error = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(error);

	if (fd < 0)
		return transfer_fail(t, "%s", strerror(errno));
	if (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
		error = errno;
	while (!error && sp_clock() < until && !transfer_stopped() && transfer_poll(&p, 1, until - sp_clock()) <= 0)
		;
	if (!error && !p.revents)
		error = transfer_stopped() ? EINTR : ETIMEDOUT;
	if (!error)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (!error)
		return fd;
	close(fd);
	return transfer_fail(t, "%s", error == EINTR ? "interrupted" : strerror(error));
}

static int call(struct transfer *t, const struct sender *s)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list;
	char peer[300];
	int fd = -1, rc = getaddrinfo(s->host, s->port, &hints, &list);

	if (rc)
		return transfer_fail(t, "%s", rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	transfer_signals();
	for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		*t->error = 0; /* the last error is reported */
		fd = try_address(t, a, sp_clock() + TALK_SILENCE);
	}
	freeaddrinfo(list);
	if (fd < 0)
		return -1;
	*t->error = 0;
	snprintf(peer, sizeof(peer), strchr(s->host, ':') ? "[%s]:%s" : "%s:%s", s->host, s->port);
	t->talk = talk_new(fd, peer);
	return t->talk ? 0 : transfer_fail(t, "out of memory");
}

static int introduce(struct transfer *t, const struct sender *s)
{
	struct talk_hello hello = {
		.size = t->size, .message = s->message, .chunk = s->chunk, .mtu = s->mtu, .family = s->family};

	if (s->rate && hello.chunk > s->rate / UNIT_RATE)
		hello.chunk = s->rate / UNIT_RATE;
	while (!hello.session)
		if (getrandom(&hello.session, sizeof(hello.session), 0) < 0 && errno != EINTR)
			return transfer_fail(t, "random numbers: %s", strerror(errno));
	t->session = hello.session;
	snprintf(hello.name, sizeof(hello.name), "%s", t->name);
	snprintf(hello.scheme, sizeof(hello.scheme), "%s", t->scheme);
	transfer_payload(t, hello.payload);
	for (unsigned i = 0; i < 2; i++)
		if (hello.payload[i] && s->mtu > hello.payload[i])
			hello.payload[i] = 0; /* not with this family */
	if (!hello.payload[0] && !hello.payload[1]) {
		transfer_payload(t, hello.payload);
		return transfer_fail(t, "mtu: %llu is more than our NIC's port carries (IPv4 %llu, IPv6 %llu)",
				     (unsigned long long)s->mtu, (unsigned long long)hello.payload[0],
				     (unsigned long long)hello.payload[1]);
	}
	return transfer_tell(t, talk_hello_line(&hello));
}

/* The receiver has opened its QP: ours must match. Its line is checked like any input from outside. */
static int accept_offer(struct transfer *t, const struct sender *s, const json_t *line)
{
	struct sdr_qp_info peer;
	uint64_t session, family;
	int rc;

	if (talk_bytes(line, "session", &session, sizeof(session), sizeof(session), NULL) || session != t->session)
		return transfer_fail(t, "protocol error: another session");
	if (talk_bytes(line, "offer", &peer, sizeof(peer), sizeof(peer), NULL) ||
	    talk_uint(line, "family", 4, 6, &family) || family == 5 ||
	    talk_uint(line, "message", 1, s->message, &t->message) ||
	    talk_uint(line, "window", 1, TALK_WINDOW, &t->window))
		return transfer_fail(t, "protocol error: no offer");
	if (peer.magic != SDR_QP_INFO_MAGIC || peer.version != SDR_QP_INFO_VERSION)
		return transfer_fail(t, "the two ends do not fit: they differ in %s",
				     peer.magic != SDR_QP_INFO_MAGIC ? "magic" : "version");
	if ((s->mtu && peer.mtu != s->mtu) || (s->family && family != s->family))
		return transfer_fail(t, "the two ends do not fit: they differ in %s",
				     s->mtu && peer.mtu != s->mtu ? "mtu" : "family");
	t->mtu = peer.mtu;
	t->chunk = peer.chunk_bytes;
	t->family = family == 6 ? AF_INET6 : AF_INET;
	transfer_cut(t, 0);
	if (!t->mtu || !t->chunk || t->chunk % t->mtu || t->window > (t->messages ? t->messages : 1))
		return transfer_fail(t, "protocol error: an offer that cannot be");
	rc = transfer_open(t, true, s->rate);
	return rc ? rc : transfer_connect(t, line, "offer");
}

/* If our file begins with the bytes that the receiver has kept, only the rest is sent. */
static int resume(struct transfer *t, const json_t *line, int fd)
{
	uint8_t digest[TRANSFER_DIGEST] = {0};
	uint64_t kept;
	bool same = true;
	int rc;

	if (talk_uint(line, "kept", 0, t->size, &kept) ||
	    (kept && talk_bytes(line, "digest", digest, sizeof(digest), sizeof(digest), NULL)))
		return transfer_fail(t, "protocol error: no offer");
	rc = transfer_digest_begin(t);
	if (!rc && kept)
		rc = transfer_check(t, fd, kept, digest, &same);
	if (!rc && !same)
		rc = transfer_digest_begin(t);
	transfer_cut(t, same ? kept : 0);
	return rc;
}

static int connect_line(struct transfer *t)
{
	struct sdr_qp_info info;

	sdr_qp_info_get(t->qp, &info);
	return transfer_tell(
		t, json_pack("{s:o, s:I}", "connect", talk_hex(&info, sizeof(info)), "from", (json_int_t)t->from));
}

static int send_file(struct transfer *t, const struct sender *s, int fd, const struct stat *opened)
{
	json_t *line = NULL;
	int rc = introduce(t, s);

	if (!rc)
		rc = transfer_await(t, t->stall, &line);
	if (!rc) {
		rc = accept_offer(t, s, line);
		rc = rc ? rc : resume(t, line, fd);
		rc = rc ? rc : connect_line(t);
		json_decref(line);
	}
	if (!rc)
		rc = transfer_await(t, t->stall, &line);
	if (!rc) {
		if (!json_is_true(json_object_get(line, "ready")))
			rc = transfer_fail(t, "protocol error: not ready");
		json_decref(line);
	}
	t->started = sp_clock();
	if (!rc)
		rc = transfer_out(t, fd, opened);
	return rc ? rc : transfer_summary(t, s->json);
}

int command_send(int argc, char **argv)
{
	struct transfer t = {.bar = isatty(STDERR_FILENO)};
	const char *about = "";
	struct sender s;
	struct stat opened;
	int fd = -1, rc, status = arguments(&s, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	t.nic = s.nic;
	t.stall = s.timeout * SP_SEC;
	snprintf(t.scheme, sizeof(t.scheme), "%s", s.scheme);
	rc = file_open(&t, s.file, &fd, &opened);
	if (!rc)
		rc = transfer_attach(&t);
	if (!rc) {
		about = s.host; /* errors from here on name the host */
		rc = call(&t, &s);
	}
	if (!rc)
		rc = send_file(&t, &s, fd, &opened);
	transfer_close(&t);
	transfer_bar_end(&t);
	if (rc)
		command_fail("send", "%s%s%s", about, *about ? ": " : "", t.error);
	if (fd >= 0)
		close(fd);
	return rc ? 1 : 0;
}
