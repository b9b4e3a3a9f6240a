/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle recv: listens for senders, and takes one file after the other. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../pipeline/config.h"
#include "../command.h"
#include "door.h"
#include "file.h"
#include "transfer.h"

#define MEMORY	      (64ull << 20)
#define MEMORY_LEAST  65536ull
#define MTU_MOST      4096u
#define MESSAGE_REACH 18 /* bits of the packet's place in a message */

static const char usage[] =
	"usage: spindle recv [OPTIONS]\n"
	"\n"
	"Receives files that `spindle send` sends, through a NIC that `spindle run` runs. TCP is used for agreement "
	"only;\n"
	"anybody who reaches its port may send.\n"
	"  -n, --nic NAME            the NIC, or the path of its socket (default: $SPINDLE_NIC, spindle0)\n"
	"  -l, --listen [ADDR:]PORT  where to listen (TCP port " TALK_PORT " of all addresses; port 0: any)\n"
	"  -o FILE|DIR               what to call the file, or where to put it (the current directory). Only FILE may "
	"be\n"
	"                            there already\n"
	"      --once                one file, then end; the exit status tells whether it came\n"
	"      --count N             N files\n"
	"      --resume              keep what has come of a file that does not come to its end, and take the rest "
	"when "
	"it\n"
	"                            is sent again\n"
	"      --memory BYTES        for what is outstanding (64M)\n"
	"      --timeout S           give up a sender that does not get on for S seconds (60)\n"
	"      --json                a line of JSON for every file\n"
	"Exit status: 0 if all files came, as many as were wanted; 1 if not.\n";

struct receiver {
	const char *nic, *target;
	char host[256], port[16];
	uint64_t count, memory, timeout; /* count 0: no end */
	bool json, resume, failed;
	struct door door;
};

static int misuse(const char *what, const char *value)
{
	fprintf(stderr, "spindle recv: %s%s\n%s", what, value, usage);
	return 2;
}

/* 0, or the exit status + 1. */
static int arguments(struct receiver *r, int argc, char **argv)
{
	enum { ONCE = 256, COUNT, RESUME, MEMORY_LIMIT, TIMEOUT, JSON };
	static const struct option options[] = {{"nic", required_argument, NULL, 'n'},
						{"listen", required_argument, NULL, 'l'},
						{"output", required_argument, NULL, 'o'},
						{"once", no_argument, NULL, ONCE},
						{"count", required_argument, NULL, COUNT},
						{"resume", no_argument, NULL, RESUME},
						{"memory", required_argument, NULL, MEMORY_LIMIT},
						{"timeout", required_argument, NULL, TIMEOUT},
						{"json", no_argument, NULL, JSON},
						{"help", no_argument, NULL, 'h'},
						{0}};
	const char *about, *what;
	int option;

	*r = (struct receiver){.memory = MEMORY, .timeout = TRANSFER_STALL, .port = TALK_PORT};
	optind = 0; /* GNU: start anew */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":hn:l:o:", options, NULL)) != -1) {
		const char *wants = NULL;

		switch (option) {
		case 'n':
			r->nic = optarg;
			break;
		case 'l':
			if (talk_split(optarg, true, r->host, r->port))
				wants = "--listen must be PORT or ADDR:PORT";
			break;
		case 'o':
			r->target = optarg;
			if (!*optarg)
				wants = "-o must be a file or a directory";
			break;
		case ONCE:
			r->count = 1;
			break;
		case COUNT:
			if (sp_parse_uint(optarg, &r->count) || !r->count)
				wants = "--count must be 1 or more";
			break;
		case RESUME:
			r->resume = true;
			break;
		case MEMORY_LIMIT:
			if (sp_parse_uint(optarg, &r->memory) || r->memory < MEMORY_LEAST ||
			    r->memory > TALK_WINDOW * TALK_MESSAGE)
				wants = "--memory must be 64K to 64G";
			break;
		case TIMEOUT:
			if (sp_parse_uint(optarg, &r->timeout) || !r->timeout || r->timeout > TRANSFER_STALL_MOST)
				wants = "--timeout must be 1 to 86400";
			break;
		case JSON:
			r->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			what = command_bad_option(option, argv, &about); /* before about is read */
			return misuse(what, about) + 1;
		}
		if (wants)
			return command_bad_value("recv", wants, optarg) + 1;
	}
	return optind < argc ? misuse("what is this for: ", argv[optind]) + 1 : 0;
}

/* What both ends will work with, from what the sender wants and what we have. */
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
	if (t->message > memory / 4) /* several at once, or each waits for the one before */
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

/* Where the sender begins: behind what is kept, or at the beginning if its file is another one. */
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

/* What is kept of a former attempt must still be what was written then. */
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

/* One file. */
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
	r->door.busy = false;
	if (*t.error)
		fprintf(stderr, "spindle recv: %s: %s\n", peer, t.error);
	if (t.kept)
		fprintf(stderr, "spindle recv: %llu bytes are kept\n", (unsigned long long)t.kept);
}

/* A NIC that is not there is told now, not to the first sender. */
static int check_nic(const struct receiver *r)
{
	struct transfer t = {.nic = r->nic};
	const int rc = transfer_attach(&t);

	transfer_close(&t);
	if (rc)
		fprintf(stderr, "spindle recv: %s\n", t.error);
	return rc;
}

int command_recv(int argc, char **argv)
{
	struct receiver r;
	const char *why = NULL;
	char text[300];
	uint64_t n = 0;
	int rc, status = arguments(&r, argc, argv);

	if (status)
		return status - 1;
	if (recv_file_check(r.target, text)) {
		fprintf(stderr, "spindle recv: %s\n", text);
		return 1;
	}
	if (check_nic(&r))
		return 1;
	rc = door_open(&r.door, r.host, r.port, &why);
	if (rc) {
		fprintf(stderr, "spindle recv: --listen %s%sport %s: %s\n", r.host, *r.host ? ", " : "", r.port,
			why ? why : strerror(-rc));
		door_close(&r.door);
		return 1;
	}
	transfer_signals();
	signal(SIGXFSZ, SIG_IGN); /* writing says it too: a limit is told like a full disk */
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
