/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle rvma: mailboxes from the shell. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "../pipeline/config.h"
#include "command.h"
#include "interrupt.h"
#include "rvma_command.h"

#define TIMEOUT_MOST 3600u

static const char usage[] =
	"usage: spindle rvma listen [OPTIONS]\n"
	"       spindle rvma put ADDRESS QPN [OPTIONS] FILE|-\n"
	"       spindle rvma get ADDRESS QPN --size BYTES [OPTIONS]\n"
	"\n"
	"Mailboxes of RVMA, through a NIC that `spindle run` runs. listen opens one, says its address, and tells of "
	"every\n"
	"buffer that is completed; put sends to one, and get reads what one has completed.\n"
	"  -n, --nic NAME       the NIC, or the path of its socket (default: $SPINDLE_NIC, spindle0)\n"
	"      --mailbox M      64-bit number of the mailbox (0)\n"
	"      --key K          what puts and gets must carry (0)\n"
	"      --timeout S      put, get: give up a peer that does not answer for S seconds (60)\n"
	"      --json           lines of JSON\n"
	"listen:\n"
	"      --size BYTES     of a buffer (64K)\n"
	"      --buffers N      posted, and posted anew when what came has been written (4)\n"
	"      --threshold T    a buffer is complete after T bytes, or operations (its size; --ops: 1; 0: never)\n"
	"      --ops | --bytes  what the threshold counts (bytes)\n"
	"      --managed        put after put is appended; otherwise puts say where\n"
	"      --catch-all      also takes what has no mailbox of its own\n"
	"      --readable       the latest half of the buffers is kept for get\n"
	"      --qpn N          of the address (the first that is free)\n"
	"      --count N        end after N buffers\n"
	"  -o FILE|-            write what came there, buffer after buffer; -: standard output\n"
	"put:\n"
	"      --at OFFSET      where in the buffer (managed: none may be given)\n"
	"      --piece BYTES    puts of so many bytes, one after the other (all in one, at most 1G)\n"
	"get:\n"
	"      --at OFFSET      from where in the buffer (0)\n"
	"      --size BYTES     how many\n"
	"      --back N         of the N-th buffer before the latest completed one, at most 255 (0)\n"
	"  -o FILE|-            write them there (-)\n"
	"Exit status: 0 done, 1 failed or refused, 2 wrong usage.\n";

static int misuse(const char *what, const char *about)
{
	fprintf(stderr, "spindle rvma: %s%s\n%s", what, about, usage);
	return 2;
}

static int misuse_option(const char *verb, const char *option)
{
	fprintf(stderr, "spindle rvma: %s takes no --%s\n%s", verb, option, usage);
	return 2;
}

enum { LISTEN = 1, PUT = 2, GET = 4, ALL = 7 };

static const struct verb {
	const char *name;
	int bit;
	int (*run)(const struct rvma_asked *a);
} verbs[] = {{"listen", LISTEN, rvma_listen}, {"put", PUT, rvma_put_file}, {"get", GET, rvma_get_file}};
#define VERBS (sizeof(verbs) / sizeof(*verbs))

/* ---- options ------------------------------------------------------------------------------------------------------
 */
enum {
	MAILBOX = 256,
	KEY,
	TIMEOUT,
	JSON,
	SIZE,
	BUFFERS,
	THRESHOLD,
	OPS,
	BYTES,
	MANAGED,
	CATCH_ALL,
	READABLE,
	QPN,
	COUNT,
	AT,
	PIECE,
	BACK,
};

static const struct number {
	int option;
	size_t to;
	uint64_t least, most;
	const char *wants;
} numbers[] = {
	{MAILBOX, offsetof(struct rvma_asked, mailbox), 0, UINT64_MAX, "--mailbox must be a number of 64 bits"},
	{KEY, offsetof(struct rvma_asked, key), 0, UINT64_MAX, "--key must be a number of 64 bits"},
	{TIMEOUT, offsetof(struct rvma_asked, timeout), 1, TIMEOUT_MOST, "--timeout must be 1 to 3600"},
	{SIZE, offsetof(struct rvma_asked, size), 1, RVMA_SIZE_MOST, "--size must be 1 to 1G"},
	{BUFFERS, offsetof(struct rvma_asked, buffers), 1, 4096, "--buffers must be 1 to 4096"},
	{THRESHOLD, offsetof(struct rvma_asked, threshold), 0, UINT64_MAX, "--threshold must be a number"},
	{QPN, offsetof(struct rvma_asked, qpn), 2, 0xFFFFFE, "--qpn must be 2 to 16777214"},
	{COUNT, offsetof(struct rvma_asked, count), 1, UINT64_MAX, "--count must be 1 or more"},
	{AT, offsetof(struct rvma_asked, at), 0, UINT64_MAX - 1, "--at must be a number below 2^64 - 1"},
	{PIECE, offsetof(struct rvma_asked, piece), 1, RVMA_SIZE_MOST, "--piece must be 1 to 1G"},
	{BACK, offsetof(struct rvma_asked, back), 0, 255, "--back must be 0 to 255"},
};

static const struct option options[] = {{"nic", required_argument, NULL, 'n'},
					{"output", required_argument, NULL, 'o'},
					{"mailbox", required_argument, NULL, MAILBOX},
					{"key", required_argument, NULL, KEY},
					{"timeout", required_argument, NULL, TIMEOUT},
					{"json", no_argument, NULL, JSON},
					{"size", required_argument, NULL, SIZE},
					{"buffers", required_argument, NULL, BUFFERS},
					{"threshold", required_argument, NULL, THRESHOLD},
					{"ops", no_argument, NULL, OPS},
					{"bytes", no_argument, NULL, BYTES},
					{"managed", no_argument, NULL, MANAGED},
					{"catch-all", no_argument, NULL, CATCH_ALL},
					{"readable", no_argument, NULL, READABLE},
					{"qpn", required_argument, NULL, QPN},
					{"count", required_argument, NULL, COUNT},
					{"at", required_argument, NULL, AT},
					{"piece", required_argument, NULL, PIECE},
					{"back", required_argument, NULL, BACK},
					{"help", no_argument, NULL, 'h'},
					{0}};

/* The verbs that take it. */
static int verbs_of(int option)
{
	switch (option) {
	case BUFFERS:
	case THRESHOLD:
	case OPS:
	case BYTES:
	case MANAGED:
	case CATCH_ALL:
	case READABLE:
	case QPN:
	case COUNT:
		return LISTEN;
	case SIZE:
	case 'o':
		return LISTEN | GET;
	case TIMEOUT:
	case AT:
		return PUT | GET;
	case PIECE:
		return PUT;
	case BACK:
		return GET;
	}
	return ALL;
}

static const char *number(struct rvma_asked *a, int option, const char *text)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const struct number *n = &numbers[i];
		uint64_t *to = (uint64_t *)(void *)((char *)a + n->to);

		if (n->option == option)
			return sp_parse_uint(text, to) || *to < n->least || *to > n->most ? n->wants : NULL;
	}
	return NULL;
}

static void flag(struct rvma_asked *a, int option)
{
	a->json |= option == JSON;
	a->ops |= option == OPS;
	a->bytes |= option == BYTES;
	a->managed |= option == MANAGED;
	a->catch_all |= option == CATCH_ALL;
	a->readable |= option == READABLE;
	a->has_at |= option == AT;
	a->has_size |= option == SIZE;
	a->has_threshold |= option == THRESHOLD;
}

/* ---- what is left of the command line: VERB, ADDRESS QPN, FILE; 0, or the exit status + 1 ---- */
static int operands(struct rvma_asked *a, int argc, char **argv, const struct verb **verb, const int *used)
{
	const int left = argc - optind;
	uint64_t qpn;
	int wanted;

	if (!left)
		return misuse("listen, put or get?", "") + 1;
	for (size_t i = 0; i < VERBS; i++)
		if (!strcmp(argv[optind], verbs[i].name))
			*verb = &verbs[i];
	if (!*verb)
		return misuse("listen, put or get, not ", argv[optind]) + 1;
	a->verb = (*verb)->name;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options) - 1; i++)
		if (used[i] && !(verbs_of(options[i].val) & (*verb)->bit))
			return misuse_option(a->verb, options[i].name) + 1;
	wanted = (*verb)->bit == LISTEN ? 1 : (*verb)->bit == PUT ? 4 : 3;
	if (left > wanted)
		return misuse("what is this for: ", argv[optind + wanted]) + 1;
	if (left < wanted)
		return misuse((*verb)->bit == PUT ? "put where, and what? ADDRESS QPN FILE" : "get where? ADDRESS QPN",
			      "") +
		       1;
	if (wanted == 1)
		return 0;
	if (sp_parse_ip(argv[optind + 1], a->peer.ip, NULL))
		return misuse("no address: ", argv[optind + 1]) + 1;
	if (sp_parse_uint(argv[optind + 2], &qpn) || qpn < 2 || qpn > 0xFFFFFE)
		return misuse("no QP number: ", argv[optind + 2]) + 1;
	a->peer.qpn = (uint32_t)qpn;
	if (wanted == 4)
		a->file = argv[optind + 3];
	return 0;
}

static int arguments(struct rvma_asked *a, int argc, char **argv, const struct verb **verb)
{
	int used[sizeof(options) / sizeof(*options)] = {0}, option, index, status;
	const char *about, *what, *wants;

	optind = 0; /* GNU: start anew */
	opterr = 0;
	while (index = -1, (option = getopt_long(argc, argv, ":hn:o:", options, &index)) != -1) {
		switch (option) {
		case 'n':
			a->nic = optarg;
			break;
		case 'o':
			a->file = optarg;
			used[1] = 1;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		case '?':
		case ':':
			what = command_bad_option(option, argv, &about); /* before about is read */
			return misuse(what, about) + 1;
		default:
			wants = number(a, option, optarg);
			if (wants)
				return command_bad_value("rvma", wants, optarg) + 1;
			flag(a, option);
		}
		if (index >= 0)
			used[index] = 1;
	}
	status = operands(a, argc, argv, verb, used);
	if (status)
		return status;
	if (a->ops && a->bytes)
		return misuse("--ops or --bytes, not both", "") + 1;
	if (a->readable && a->buffers < 2)
		return misuse("--readable keeps half of the --buffers, which must be 2 or more", "") + 1;
	if ((*verb)->bit == GET && !a->has_size)
		return misuse("get how much? --size", "") + 1;
	if (!a->file && (*verb)->bit == GET)
		a->file = "-";
	if (!a->has_threshold)
		a->threshold = a->ops ? 1 : a->size;
	return 0;
}

/* ---- what the verbs share ----------------------------------------------------------------------------------------
 */
int rvma_command_fail(const struct rvma_asked *a, const char *format, ...)
{
	va_list args;

	fflush(stdout); /* lines stay in order */
	fprintf(stderr, "spindle rvma %s: ", a->verb);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

int rvma_command_nic(const struct rvma_asked *a, const char *what, int rc)
{
	if (rc == -ENODEV || rc == -ECONNABORTED)
		return rvma_command_fail(a, rc == -ENODEV ? "the NIC has gone" : "the NIC has died");
	return rvma_command_fail(a, "%s: %s", what, strerror(-rc));
}

int rvma_command_open(struct rvma_ends *e, const struct rvma_asked *a, const struct rvma_attr *attr, int flags)
{
	struct sp_error error = {.text = ""};
	char text[300];
	int rc;

	*e = (struct rvma_ends){.asked = a, .fd = -1};
	if (a->file && strcmp(a->file, "-")) {
		e->fd = open(a->file, flags | O_CLOEXEC, 0666);
		if (e->fd < 0)
			return rvma_command_fail(a, "%s: %s", a->file, strerror(errno));
	} else if (a->file) {
		e->fd = dup(flags & O_WRONLY ? STDOUT_FILENO : STDIN_FILENO);
		if (e->fd < 0)
			return rvma_command_fail(a, "-: %s", strerror(errno));
	}
	rc = sp_attach(a->nic, &e->dev);
	if (rc) {
		e->dev = NULL;
		command_nic_error(a->nic, rc, text, sizeof(text));
		return rvma_command_fail(a, "%s", text);
	}
	rc = rvma_open(e->dev, attr, &e->rvma, &error);
	if (rc == -ENODEV || rc == -ECONNABORTED)
		return rvma_command_nic(a, "", rc);
	if (rc)
		return rvma_command_fail(a, "%s%s%s", error.key, *error.key ? ": " : "",
					 *error.text ? error.text : strerror(-rc));
	return 0;
}

void rvma_command_close(struct rvma_ends *e)
{
	if (e->rvma)
		rvma_close(e->rvma);
	if (e->dev)
		sp_dev_close(e->dev);
	if (e->fd >= 0)
		close(e->fd);
}

int rvma_command_write(const struct rvma_asked *a, int fd, const void *bytes, uint64_t len)
{
	const char *at = bytes;

	while (len) {
		const ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR && !interrupt_came())
			continue;
		if (n < 0)
			return rvma_command_fail(a, "%s: %s", a->file, strerror(errno));
		at += n;
		len -= (uint64_t)n;
	}
	return 0;
}

const char *rvma_command_ip(const uint8_t ip[16], char text[64])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, 0xFF};
	const bool four = !memcmp(ip, mapped, sizeof(mapped));

	return inet_ntop(four ? AF_INET : AF_INET6, four ? ip + 12 : ip, text, 64);
}

int command_rvma(int argc, char **argv)
{
	struct rvma_asked a = {.verb = "", .size = 65536, .buffers = 4, .timeout = 60};
	const struct verb *verb = NULL;
	const int status = arguments(&a, argc, argv, &verb);

	if (status)
		return status - 1;
	if (interrupt_note())
		return rvma_command_fail(&a, "%s", strerror(errno)) ? 1 : 0;
	return verb->run(&a) ? 1 : 0;
}
