/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle recv: listens for senders, and receives one file after the other. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../pipeline/nic.h"
#include "../command.h"
#include "door.h"
#include "file.h"
#include "digest.h"
#include "in.h"
#include "show.h"
#include "transfer.h"
#include "words.h"
#include "../nic_error.h"
#include "../output.h"

#define MEMORY	      (64ull << 20)
#define MTU_MOST      4096u
#define AT(field)     OPTION_AT(struct receiver, field)
#define MESSAGE_REACH 18 /* bits of the packet's place in a message */

static const struct usage usage = {
	.command = "recv",
	.forms = "spindle recv [OPTIONS]",
	.about = "Receives files that `spindle send` sends, through a NIC that `spindle run` runs. TCP carries the "
		 "negotiation only; anybody who reaches its port may send.",
	.end = "Exit status: 0 if all files came, as many as were wanted; 1 if not.",
};

struct receiver {
	const char *nic, *target;
	char host[256], port[16];
	uint64_t count, memory, timeout; /* count 0: no end */
	bool json, resume, failed;
	struct door door;
};

static int take_listen(void *to, const char *text)
{
	struct receiver *r = to;

	return talk_split(text, true, TALK_PORT, r->host, r->port) ? -EINVAL : 0;
}

static const struct option_row rows[] = {
	{"listen", 'l', OPTION_CALL, "[ADDR:]PORT",
	 "listen there (default: TCP port " TALK_PORT " of all addresses; port 0: any)", .take = take_listen,
	 .wants = "PORT or ADDR:PORT"},
	{"output", 'o', OPTION_STRING, "FILE|DIR",
	 "the file's name, or its directory (default: the current directory). Only FILE is overwritten if it exists",
	 AT(target), .least = 1, .most = UINT64_MAX, .wants = "a file or a directory"},
	{"once", 0, OPTION_FLAG, NULL, "end after one file; the exit status says whether it came", AT(count),
	 .least = 1},
	{"count", 0, OPTION_NUMBER, "N", "end after N files", AT(count), .least = 1},
	{"resume", 0, OPTION_FLAG, NULL,
	 "keep what came of an incomplete file, and receive the rest when it is sent again", AT(resume)},
	{"memory", 0, OPTION_SIZE, "BYTES", "for outstanding messages (64M)", AT(memory), .least = 65536,
	 .most = TALK_WINDOW * TALK_MESSAGE},
	{"timeout", 0, OPTION_NUMBER, "S", "give up if a sender makes no progress for S seconds (60)", AT(timeout),
	 .least = 1, .most = TRANSFER_STALL_MOST},
	{"json", 0, OPTION_FLAG, NULL, "print a line of JSON for each file", AT(json)},
	{0},
};

static int arguments(struct receiver *r, int argc, char **argv)
{
	struct options o = {&usage, {{NULL, nic_rows, &r->nic, NULL}, {NULL, rows, r, NULL}}};

	*r = (struct receiver){.memory = MEMORY, .timeout = TRANSFER_STALL, .port = TALK_PORT};
	return options_parse(&o, argc, argv);
}

/* Chooses the parameters, from the sender's first line and our NIC. */
static int agree(struct transfer *t, const struct talk_hello *h, uint64_t memory)
{
	static const int families[2] = {AF_INET, AF_INET6};
	uint64_t payload[2], mtu = 0;

	if (sdr_reliable_scheme(h->scheme) < 0)
		return transfer_fail(
			t,
			"reliability: '%s' is none of the schemes known here, sr-nack, sr-rto, ec-mds, ec-xor and auto",
			h->scheme);
	snprintf(t->scheme, sizeof(t->scheme), "%s", h->scheme);
	transfer_payload(t, payload);
	for (unsigned i = 0; i < 2 && !t->family; i++)
		if (payload[i] && h->payload[i] && (!h->family || h->family == (i ? 6 : 4))) {
			t->family = families[i];
			mtu = payload[i] < h->payload[i] ? payload[i] : h->payload[i];
			if (h->mtu > payload[i])
				return transfer_fail(t,
						     "mtu: %llu is more than the %llu that the receiver's port carries",
						     (unsigned long long)h->mtu, (unsigned long long)payload[i]);
		}
	if (!t->family)
		return transfer_fail(t, "the two NICs have no address of the same family%s",
				     h->family ? " as asked for" : "");
	mtu = h->mtu ? h->mtu : mtu < MTU_MOST ? mtu & ~3ull : MTU_MOST;
	if (mtu < TRANSFER_MTU_LEAST || mtu > MTU_MOST)
		return transfer_fail(t, "mtu: %llu is not within %u and %u", (unsigned long long)mtu,
				     TRANSFER_MTU_LEAST, MTU_MOST);
	t->mtu = (uint32_t)mtu;
	t->chunk = (uint32_t)(h->chunk < mtu ? mtu : h->chunk / mtu * mtu);
	t->size = h->size;
	t->session = h->session;
	t->message = h->message < mtu << MESSAGE_REACH ? h->message : mtu << MESSAGE_REACH;
	if (t->message > memory / 4) /* several messages at once: otherwise each would wait for the previous one */
		t->message = memory / 4;
	if (t->message > t->size)
		t->message = t->size ? t->size : 1;
	transfer_cut(t, 0);
	t->window = memory / ((t->message + 63) & ~63ull);
	t->window = t->window < TALK_WINDOW ? t->window : TALK_WINDOW;
	t->window = t->window < t->messages ? t->window : t->messages;
	t->window = t->window ? t->window : 1;
	return 0;
}

/* The sender begins behind the kept bytes, or at 0 if its file differs. */
static int begin_at(struct transfer *t, struct recv_file *file, const json_t *line)
{
	char why[300];
	uint64_t from;

	if (talk_uint(line, "from", 0, file->kept, &from) || (from && from != file->kept))
		return transfer_fail(t, "protocol error: it begins elsewhere");
	transfer_cut(t, from);
	if (from || (!file->kept && !file->stale))
		return 0;
	return recv_file_restart(file, why) ? transfer_fail(t, "%s", why) : transfer_digest_begin(t);
}

static int answer(struct transfer *t, struct recv_file *file)
{
	struct sdr_qp_info info;
	json_t *line = NULL;
	int rc = transfer_open(t, false, 0);

	if (rc)
		return rc;
	sdr_qp_info_get(t->qp, &info);
	line = json_pack("{s:o, s:o, s:i, s:I, s:I, s:I}", "offer", talk_hex(&info, sizeof(info)), "session",
			 talk_hex(&t->session, sizeof(t->session)), "family", t->family == AF_INET6 ? 6 : 4, "message",
			 (json_int_t)t->message, "window", (json_int_t)t->window, "kept", (json_int_t)file->kept);
	if (line && file->kept)
		json_object_set_new(line, "digest", talk_hex(file->digest, sizeof(file->digest)));
	rc = transfer_tell(t, line);
	if (!rc)
		rc = transfer_await(t, t->stall, &line);
	if (!rc) {
		rc = transfer_connect(t, line, "connect");
		rc = rc ? rc : begin_at(t, file, line);
		json_decref(line);
	}
	return rc ? rc : transfer_tell(t, json_pack("{s:b}", "ready", 1));
}

/* Checks that the kept bytes of an earlier attempt have not changed. */
static int check_kept(struct transfer *t, struct recv_file *file)
{
	char why[300];
	bool same = true;
	int rc = transfer_digest_begin(t);

	if (!rc && file->kept)
		rc = transfer_check(t, file->fd, file->kept, file->digest, &same);
	if (rc || same)
		return rc;
	return recv_file_restart(file, why) ? transfer_fail(t, "%s", why) : transfer_digest_begin(t);
}

/* Receives one file. */
static int receive(struct receiver *r, struct transfer *t, const struct talk_hello *hello)
{
	struct recv_file file;
	char why[300];
	int rc = transfer_attach(t);

	if (!rc)
		rc = agree(t, hello, r->memory);
	if (rc)
		return rc;
	if (recv_file_open(&file, r->target, hello->name, t->size, r->resume, why))
		return transfer_fail(t, "%s", why);
	snprintf(t->name, sizeof(t->name), "%s", file.name);
	rc = check_kept(t, &file);
	if (!rc)
		rc = answer(t, &file);
	t->started = sp_clock();
	if (!rc)
		rc = transfer_in(t, &file);
	if (rc) {
		t->kept = recv_file_part(&file);
		return rc;
	}
	if (recv_file_keep(&file, why))
		return transfer_fail(t, "%s", why);
	rc = transfer_tell(t, json_pack("{s:o, s:I}", "saved", talk_hex(t->digest, sizeof(t->digest)), "repaired",
					(json_int_t)t->repaired));
	return rc ? rc : transfer_summary(t, r->json);
}

static void serve(struct receiver *r, struct talk *talk, const struct talk_hello *hello)
{
	const struct transfer_others others = {.fds = door_fds, .step = door_step, .arg = &r->door};
	struct transfer t = {.nic = r->nic,
			     .talk = talk,
			     .others = &others,
			     .stall = r->timeout * SP_SEC,
			     .bar = isatty(STDERR_FILENO)};
	char peer[80];

	snprintf(peer, sizeof(peer), "%s", talk->peer);
	r->door.busy = true;
	r->failed = receive(r, &t, hello) || r->failed;
	transfer_close(&t);
	transfer_bar_end(&t);
	r->door.busy = false;
	if (*t.error)
		command_fail("recv", "%s: %s", peer, t.error);
	if (t.kept)
		command_fail("recv", "%llu bytes are kept", (unsigned long long)t.kept);
}

/* Reports a missing NIC at the start, not at the first transfer. */
static int check_nic(const struct receiver *r)
{
	struct transfer t = {.nic = r->nic};
	const int rc = transfer_attach(&t);

	transfer_close(&t);
	if (rc)
		command_fail("recv", "%s", t.error);
	return rc;
}

int command_recv(int argc, char **argv)
{
	struct receiver r;
	const char *why = NULL;
	char text[300];
	uint64_t n = 0;
	int rc, status = arguments(&r, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (recv_file_check(r.target, text))
		return command_fail("recv", "%s", text);
	if (check_nic(&r))
		return 1;
	rc = door_open(&r.door, r.host, r.port, &why);
	if (rc) {
		command_fail("recv", "--listen %s%sport %s: %s", r.host, *r.host ? ", " : "", r.port,
			     why ? why : strerror(-rc));
		door_close(&r.door);
		return 1;
	}
	transfer_signals();
	signal(SIGXFSZ, SIG_IGN); /* write() then fails: the limit is reported like a full disk */
	fprintf(stderr, "spindle recv: listening on %s\n", r.door.where);
	while ((!r.count || n < r.count) && !transfer_stopped()) {
		struct pollfd fds[32];
		struct talk_hello hello;
		struct talk *talk;

		door_step(&r.door);
		talk = door_take(&r.door, &hello);
		if (talk) {
			serve(&r, talk, &hello);
			n++;
			continue;
		}
		transfer_poll(fds, door_fds(&r.door, fds), SP_SEC);
	}
	door_close(&r.door);
	return r.failed || n < r.count ? 1 : 0;
}
