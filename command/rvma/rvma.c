/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle rvma: mailboxes from the shell. */
#include <errno.h>
#include <string.h>

#include "../../pipeline/value.h"
#include "../../pipeline/nic.h"
#include "../command.h"
#include "../interrupt.h"
#include "../nic_error.h"
#include "listen.h"
#include "put.h"

#define AT(field) OPTION_AT(struct rvma_asked, field)

static const struct usage usage = {
	.command = "rvma",
	.forms = "spindle rvma listen [OPTIONS]\n"
		 "spindle rvma put ADDRESS QPN [OPTIONS] FILE|-\n"
		 "spindle rvma get ADDRESS QPN --size BYTES [OPTIONS]",
	.about = "Mailboxes of RVMA, through a NIC that `spindle run` runs. listen opens a mailbox, prints its "
		 "address, and "
		 "reports each completed buffer; put sends to a mailbox; get reads a completed buffer.",
	.end = "Exit status: 0 done, 1 failed or refused, 2 wrong usage.",
	.arguments = 4,
};

enum { LISTEN = 1, PUT = 2, GET = 4 }; /* verbs, as modes of options */

static const struct verb {
	const char *name;
	unsigned bit;
	int arguments; /* VERB, ADDRESS QPN, FILE */
	int (*run)(const struct rvma_asked *a);
} verbs[] = {{"listen", LISTEN, 1, rvma_listen}, {"put", PUT, 4, rvma_put_file}, {"get", GET, 3, rvma_get_file}};
#define VERBS (sizeof(verbs) / sizeof(*verbs))

/* ---- options ---- */

static const struct option_row rows[] = {
	{"mailbox", 0, OPTION_NUMBER, "M", "64-bit number of the mailbox (0)", AT(mailbox),
	 .wants = "a number of 64 bits"},
	{"key", 0, OPTION_NUMBER, "K", "key that puts and gets must carry (0)", AT(key),
	 .wants = "a number of 64 bits"},
	{"size", 0, OPTION_SIZE, "BYTES", "listen: of a buffer (64K); get: bytes to read", AT(size), .least = 1,
	 .most = RVMA_SIZE_MOST, .modes = LISTEN | GET},
	{"output", 'o', OPTION_STRING, "FILE|-",
	 "listen: write what came there, buffer after buffer; get: write what was read (-). -: standard output",
	 AT(file), .modes = LISTEN | GET},
	{"json", 0, OPTION_FLAG, NULL, "print lines of JSON", AT(json)},
	{0},
};

static const struct option_row listen_rows[] = {
	{"buffers", 0, OPTION_NUMBER, "N", "buffers to post; each is posted again after its data has been written (4)",
	 AT(buffers), .least = 1, .most = 4096, .modes = LISTEN},
	{"threshold", 0, OPTION_NUMBER, "T",
	 "a buffer is complete after T bytes, or operations (its size; --ops: 1; 0: never)", AT(threshold),
	 .wants = "a number", .modes = LISTEN},
	{"ops", 0, OPTION_FLAG, NULL, "the threshold counts operations", AT(ops), .modes = LISTEN},
	{"bytes", 0, OPTION_FLAG, NULL, "the threshold counts bytes (the default)", AT(bytes), .modes = LISTEN},
	{"managed", 0, OPTION_FLAG, NULL, "puts are appended; otherwise each put says where", AT(managed),
	 .modes = LISTEN},
	{"catch-all", 0, OPTION_FLAG, NULL, "also take what is sent to mailboxes that do not exist", AT(catch_all),
	 .modes = LISTEN},
	{"readable", 0, OPTION_FLAG, NULL, "keep the latest half of the buffers for get", AT(readable),
	 .modes = LISTEN},
	{"qpn", 0, OPTION_NUMBER, "N", "QP number of the address (a free one)", AT(qpn), .least = 2, .most = 0xFFFFFE,
	 .modes = LISTEN},
	{"count", 0, OPTION_NUMBER, "N", "end after N buffers", AT(count), .least = 1, .modes = LISTEN},
	{0},
};

static const struct option_row peer_rows[] = {
	{"timeout", 0, OPTION_NUMBER, "S", "give up a peer that does not answer for S seconds (60)", AT(timeout),
	 .least = 1, .most = 3600, .modes = PUT | GET},
	{"at", 0, OPTION_NUMBER, "OFFSET", "in the buffer (0; not for a put to a managed mailbox)", AT(at),
	 .most = UINT64_MAX - 1, .wants = "a number below 2^64 - 1", .modes = PUT | GET},
	{"piece", 0, OPTION_SIZE, "BYTES", "put: split the data into puts of that size (one put, at most 1G)",
	 AT(piece), .least = 1, .most = RVMA_SIZE_MOST, .modes = PUT},
	{"back", 0, OPTION_NUMBER, "N", "get: read the N-th buffer before the latest completed one, at most 255 (0)",
	 AT(back), .most = 255, .modes = GET},
	{0},
};

/* ADDRESS QPN, and FILE of put. */
static int operands(struct rvma_asked *a, const struct verb *v, const struct options *o)
{
	uint64_t qpn;

	if (o->arguments > v->arguments)
		return options_misuse(&usage, "extra argument %s", o->argument[v->arguments]);
	if (o->arguments < v->arguments)
		return options_misuse(&usage, v->bit == PUT ? "put where, and what? ADDRESS QPN FILE"
							    : "get where? ADDRESS QPN");
	if (v->bit == LISTEN)
		return OPTIONS_GO_ON;
	if (sp_parse_ip(o->argument[1], a->peer.ip, NULL))
		return options_misuse(&usage, "no address: %s", o->argument[1]);
	if (sp_parse_uint(o->argument[2], &qpn) || qpn < 2 || qpn > 0xFFFFFE)
		return options_misuse(&usage, "no QP number: %s", o->argument[2]);
	a->peer.qpn = (uint32_t)qpn;
	if (v->bit == PUT)
		a->file = o->argument[3];
	return OPTIONS_GO_ON;
}

static int arguments(struct rvma_asked *a, int argc, char **argv, const struct verb **verb)
{
	struct options o = {&usage,
			    {{NULL, nic_rows, &a->nic, NULL},
			     {NULL, rows, a, NULL},
			     {"listen:", listen_rows, a, NULL},
			     {"put and get:", peer_rows, a, NULL}}};
	const struct option_row *foreign;
	int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (!o.arguments)
		return options_misuse(&usage, "listen, put or get?");
	for (size_t i = 0; i < VERBS; i++)
		if (!strcmp(o.argument[0], verbs[i].name))
			*verb = &verbs[i];
	if (!*verb)
		return options_misuse(&usage, "listen, put or get, not %s", o.argument[0]);
	a->verb = (*verb)->name;
	foreign = options_foreign(&o, (*verb)->bit);
	if (foreign)
		return options_misuse(&usage, "%s takes no %s", a->verb, option_name(foreign));
	status = operands(a, *verb, &o);
	if (status != OPTIONS_GO_ON)
		return status;
	if (a->ops && a->bytes)
		return options_misuse(&usage, "--ops or --bytes, not both");
	if (a->readable && a->buffers < 2)
		return options_misuse(&usage, "--readable keeps half of the --buffers, which must be 2 or more");
	if ((*verb)->bit == GET && !options_has(&o, "size"))
		return options_misuse(&usage, "get how much? --size");
	if (!a->file && (*verb)->bit == GET)
		a->file = "-";
	a->has_at = options_has(&o, "at");
	if (!options_has(&o, "threshold"))
		a->threshold = a->ops ? 1 : a->size;
	return OPTIONS_GO_ON;
}

int command_rvma(int argc, char **argv)
{
	struct rvma_asked a = {.verb = "", .size = 65536, .buffers = 4, .timeout = 60};
	const struct verb *verb = NULL;
	const int status = arguments(&a, argc, argv, &verb);

	if (status != OPTIONS_GO_ON)
		return status;
	if (interrupt_note())
		return rvma_command_fail(&a, "%s", strerror(errno)) ? 1 : 0;
	return verb->run(&a) ? 1 : 0;
}
