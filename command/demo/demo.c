/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spindle demo: sends a file from NIC to NIC over a long link that loses packets, once per scheme, in virtual time and
 * with the same seed. Records what became of each chunk, and when, then shows it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_common.h>

#include "../../handlers/wire/ec.h"
#include "../../pipeline/limits.h"
#include "../command.h"
#include "../ec_option.h"
#include "../link_options.h"
#include "../output.h"
#include "film.h"
#include "lane.h"
#include "outcome.h"
#include "picture.h"

#define MAX_FILE     (1ull << 30)
#define LEAST_MTU    100	  /* of schemes: sdr_reliable_open */
#define MANY_PACKETS 1500	  /* a file of more packets gets a larger MTU by default */
#define KILOMETRES   3750	  /* by default */
#define LOSS	     0.02	  /* by default */
#define LEAVES_IN    (10 * SP_MS) /* time to send the file at the default bandwidth */
#define AT(field)    OPTION_AT(struct demo_options, field)

/* ---- options ---- */

static const struct usage usage = {
	.command = "demo",
	.forms = "spindle demo [FILE] [OPTIONS]",
	.about = "Sends FILE (default: this program itself) between two NICs over a long link that loses packets, once "
		 "with "
		 "each scheme, and shows what became of each chunk.",
	.end = "Defaults of the link: --loss 0.02, --distance 3750, a bandwidth that fits the file's size.\n"
	       "Exit status: 0 if all that arrived is the same as in FILE; with scheme none some chunks may be "
	       "missing.",
	.arguments = 1,
};

static const struct demo_scheme schemes[] = {
	{"none", -1, SDR_CODE_NONE},
	{"sr-rto", SDR_SR_RTO, SDR_CODE_NONE},
	{"sr-nack", SDR_SR_NACK, SDR_CODE_NONE},
	{"ec-mds", SDR_EC_MDS, SDR_CODE_MDS},
	{"ec-xor", SDR_EC_XOR, SDR_CODE_XOR},
};

static int take_schemes(void *to, const char *text)
{
	struct demo_options *o = to;

	for (o->lanes = 0; o->lanes < DEMO_LANES;) {
		const size_t len = strcspn(text, ",");
		size_t i = 0;

		while (i < RTE_DIM(schemes) && (strlen(schemes[i].name) != len || memcmp(schemes[i].name, text, len)))
			i++;
		if (i == RTE_DIM(schemes))
			return -EINVAL;
		o->scheme[o->lanes++] = schemes[i];
		text += len;
		if (!*text++)
			return 0;
	}
	return -EINVAL;
}

static int take_code(void *to, const char *text)
{
	struct demo_options *o = to;

	return ec_option_take(text, SP_EC_CHUNKS_MAX, &o->k, &o->m);
}

static const struct option_row rows[] = {
	{"scheme", 0, OPTION_CALL, "S,...",
	 "up to 4 of sr-rto, sr-nack (send lost chunks again), ec-mds, ec-xor (also repair them by parity), none "
	 "(leave "
	 "them missing); default sr-rto,ec-mds",
	 .take = take_schemes, .wants = "1 to 4 of none, sr-rto, sr-nack, ec-mds, ec-xor"},
	{"ec", 0, OPTION_CALL, "K,M", "M chunks of parity for K chunks of the file (32,8)", .take = take_code,
	 .wants = "K,M with 1 <= M <= K and K + M <= 255"},
	{"picture", 0, OPTION_STRING, "FILE", "write what became of each chunk, and when, as SVG", AT(picture)},
	{"mtu", 0, OPTION_NUMBER, "N", "payload bytes of a packet, 64 to 4096 (1024 to 4096, by the file's size)",
	 AT(mtu), .least = 64, .most = 4096},
	{"chunk", 0, OPTION_SIZE, "N", "bytes of a chunk, a multiple of --mtu (--mtu)", AT(chunk), .least = 1,
	 .most = 1u << 30},
	{"message", 0, OPTION_SIZE, "N", "bytes of a message (the file)", AT(message), .least = 1, .most = 1u << 30},
	{"ipv6", 0, OPTION_FLAG, NULL, "over IPv6", AT(ipv6)},
	{"fast", 0, OPTION_FLAG, NULL, "do not slow virtual time down to watch", AT(fast)},
	{NULL, 'w', OPTION_STRING, "FILE", "write a capture of what both NICs send; needs a single scheme",
	 AT(capture)},
	{"json", 0, OPTION_FLAG, NULL, "print the outcome as JSON, and nothing else; implies --fast", AT(json)},
	{0},
};

static int arguments(struct demo_options *d, int argc, char **argv)
{
	struct link_options link = {.way = LINK_BOTH, .config = &d->link};
	struct options o = {
		&usage,
		{{NULL, rows, d, NULL}, {"The link, in both directions:", link_rows, &link, link_options_taken}}};
	const char *wrong;
	int status;

	*d = (struct demo_options){.file = "/proc/self/exe", .k = 32, .m = 8, .link = {.seed = LINK_SEED}};
	take_schemes(d, "sr-rto,ec-mds");
	for (unsigned e = 0; e < 2; e++)
		d->link.direction[e] = (struct sp_link_direction){
			.loss = LOSS, .delay = sp_link_distance(KILOMETRES), .queue = DEMO_LINK_QUEUE};
	status = options_parse(&o, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	d->fast |= d->json;
	if (o.arguments)
		d->file = o.argument[0];
	wrong = link_options_end(&d->link);
	if (!wrong && d->capture && d->lanes > 1)
		wrong = "-w needs one --scheme";
	return wrong ? options_misuse(&usage, "%s", wrong) : OPTIONS_GO_ON;
}

/* ---- the file and its messages ---- */
static int file_open(struct demo *d, int *fd)
{
	const char *const written[] = {d->o.capture, d->o.picture};
	struct stat st;

	*fd = open(d->o.file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
	if (*fd < 0 || fstat(*fd, &st))
		return demo_fail(d->o.file, -errno);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > MAX_FILE)
		return command_fail("demo", "%s: %s", d->o.file,
				    S_ISREG(st.st_mode) ? "larger than 1 GiB, and the demo holds it twice in memory"
							: "not a file");
	for (unsigned i = 0; i < RTE_DIM(written); i++)
		if (written[i] && output_destroys(written[i], d->o.file))
			return command_fail("demo", "%s: that is the file to send", written[i]);
	d->size = (uint64_t)st.st_size;
	return 0;
}

static int file_read(struct demo *d, int fd)
{
	d->source = malloc(d->size ? d->size : 1);
	if (!d->source)
		return demo_fail("memory", -ENOMEM);
	for (uint64_t at = 0; at < d->size;) {
		ssize_t n = pread(fd, d->source + at, d->size - at, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return demo_fail(d->o.file, n ? -errno : -EIO);
		at += (uint64_t)n;
	}
	return 0;
}

/* The least of 1, 2, 4, 10, 20, ... Mbit/s, up to 400 Gbit/s, at which the file leaves soon enough. */
static uint64_t bandwidth_for(uint64_t bytes)
{
	static const uint64_t steps[] = {1, 2, 4};
	const double wanted = (double)bytes * 8 * (double)SP_SEC / (double)LEAVES_IN;

	for (uint64_t ten = 1000000;; ten *= 10)
		for (unsigned i = 0; i < RTE_DIM(steps); i++)
			if ((double)(ten * steps[i]) >= wanted || ten * steps[i] == 400000000000)
				return ten * steps[i];
}

/* Sets the defaults that depend on the file's size. */
static void choose_defaults(struct demo *d)
{
	struct demo_options *o = &d->o;

	if (!o->mtu)
		for (o->mtu = 1024; o->mtu < 4096 && o->mtu * MANY_PACKETS < d->size;)
			o->mtu *= 2;
	if (!o->chunk)
		o->chunk = o->mtu;
	if (!o->message) {
		const uint64_t longest = (o->mtu << 18) / o->chunk * o->chunk;

		o->message = demo_units(d->size, o->chunk) * o->chunk;
		if (o->message > longest && longest)
			o->message = longest;
	}
	for (unsigned e = 0; e < 2; e++) {
		struct sp_link_direction *w = &o->link.direction[e];

		if (!w->bandwidth)
			w->bandwidth = bandwidth_for(d->size);
		if (w->reorder > 0 && !w->reorder_delay)
			w->reorder_delay = demo_wire_time(d, 20); /* some 20 packets overtake */
	}
}

static int plan(struct demo *d)
{
	const struct demo_options *o = &d->o;

	choose_defaults(d);
	if (o->chunk % o->mtu)
		return options_misuse(&usage, "--chunk must be a multiple of --mtu");
	for (unsigned i = 0; i < o->lanes; i++)
		if (o->scheme[i].scheme >= 0 && o->mtu < LEAST_MTU)
			return options_misuse(&usage, "--mtu must be at least 100, except with --scheme none");
	d->messages = demo_units(d->size, o->message);
	if (o->message > o->mtu << 18 || d->messages > DEMO_MESSAGES)
		return command_fail("demo", "at most %u messages, each of at most %llu bytes with this --mtu",
				    DEMO_MESSAGES, (unsigned long long)o->mtu << 18);
	d->message = calloc(d->messages, sizeof(*d->message));
	if (!d->message)
		return demo_fail("memory", -ENOMEM);
	for (uint64_t k = 0; k < d->messages; k++) {
		struct demo_message *m = &d->message[k];

		m->offset = k * o->message;
		m->len = d->size - m->offset < o->message ? d->size - m->offset : o->message;
		m->chunks = demo_units(m->len, o->chunk);
		m->first_chunk = d->chunks;
		m->first_packet = d->packets;
		d->chunks += m->chunks;
		d->packets += demo_units(m->len, o->mtu);
	}
	d->lossless =
		demo_payload_time(d, d->packets, d->size) + o->link.direction[0].delay + o->link.direction[1].delay;
	return 0;
}

/* ---- the run ---- */
static void print_plan(const struct demo *d)
{
	const struct sp_link_direction *w = d->o.link.direction;
	char name[4096] = "";
	ssize_t len = readlink(d->o.file, name, sizeof(name) - 1);

	printf("%s: %llu byte%s as %llu message%s, %llu chunk%s of %llu bytes, %llu packet%s\n",
	       len > 0 ? name : d->o.file, (unsigned long long)d->size, demo_s(d->size),
	       (unsigned long long)d->messages, demo_s(d->messages), (unsigned long long)d->chunks, demo_s(d->chunks),
	       (unsigned long long)d->o.chunk, (unsigned long long)d->packets, demo_s(d->packets));
	printf("Link: %g Mbit/s, round trip %g ms, %.3g %% of packets lost%s. Without losses the file takes %.3f ms.\n",
	       (double)w->bandwidth / 1e6, demo_ms(2 * w->delay),
	       100 * (w->burst_begin > 0 ? w->burst_begin / (w->burst_begin + w->burst_end) : w->loss),
	       w->burst_begin > 0 ? ", in bursts" : "", demo_ms(d->lossless));
	fflush(stdout);
}

static int run(struct demo *d)
{
	int status = 0;

	for (unsigned i = 0; i < d->o.lanes; i++) {
		struct demo_lane *l = &d->lane[i];

		l->scheme = &d->o.scheme[i];
		if (l->scheme->code == SDR_CODE_NONE)
			snprintf(l->title, sizeof(l->title), "%s", l->scheme->name);
		else
			snprintf(l->title, sizeof(l->title), "%s %u,%u", l->scheme->name, d->o.k, d->o.m);
		if (demo_lane_run(d, l))
			return 1;
		d->longest = l->time > d->longest ? l->time : d->longest;
	}
	if (!d->o.json) {
		demo_film(d);
		demo_timeline(d);
	}
	if (d->o.picture)
		status = demo_picture_write(d);
	return status | demo_outcome(d);
}

int command_demo(int argc, char **argv)
{
	struct demo d = {.size = 0};
	struct sp_error error = {.key = ""};
	int fd = -1, status = arguments(&d.o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	status = file_open(&d, &fd);
	if (!status)
		status = plan(&d);
	if (!status)
		status = file_read(&d, fd);
	if (!status && sp_eal_init(0, NULL, &error)) {
		command_fail("demo", "%s", error.text);
		status = 1;
	}
	if (!status && d.o.capture && sp_pcap_create(d.o.capture, 0, &d.capture, &error)) {
		command_fail("demo", "%s", error.text);
		status = 1;
	}
	if (!status && !d.o.json)
		print_plan(&d);
	if (!status)
		status = run(&d);
	if (d.capture && sp_pcap_finish(d.capture, &error)) { /* after the NICs: it holds their last packets */
		command_fail("demo", "%s", error.text);
		status = 1;
	}
	for (unsigned i = 0; i < DEMO_LANES; i++)
		demo_lane_free(&d.lane[i]);
	free(d.message);
	free(d.source);
	if (fd >= 0)
		close(fd);
	return status;
}
