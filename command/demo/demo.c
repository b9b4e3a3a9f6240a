/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spindle demo: a file goes over a long link that loses packets, from NIC to NIC, once for each scheme that is asked
 * for: all in virtual time, with the same seed. What became of each chunk, and when, is recorded, then shown.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_common.h>

#include "../../handlers/wire/ec.h"
#include "../../pipeline/config.h"
#include "../../pipeline/limits.h"
#include "../command.h"
#include "record.h"
#include "../link_options.h"
#include "../output.h"

#define MAX_FILE     (1ull << 30)
#define LEAST_MTU    100	  /* of schemes: sdr_reliable_open */
#define MANY_PACKETS 1500	  /* more than that, and they are larger by default */
#define KILOMETRES   3750	  /* by default */
#define LOSS	     0.02	  /* by default */
#define LEAVES_IN    (10 * SP_MS) /* the file, at the default bandwidth */
#define MOST_OPTIONS 32
#define OPTION_LINK  512 /* and the number in link_options */

static const char usage[] =
	"usage: spindle demo [FILE] [OPTIONS]\n"
	"\n"
	"Sends FILE (default: this program itself) between two NICs over a long link that loses packets, once by each "
	"scheme,\n"
	"and shows what became of it.\n"
	"  --scheme S,...  up to 4 of sr-rto, sr-nack (what is lost is sent again), ec-mds, ec-xor (and repaired by "
	"parity),\n"
	"                  none (and stays missing); default sr-rto,ec-mds\n"
	"  --ec K,M        so many chunks of parity for so many of the file (32,8)\n"
	"  --picture FILE  write what became of each chunk, and when, as SVG\n"
	"  --mtu N         payload bytes of a packet, 64 to 4096 (1024 to 4096, by the file's size)\n"
	"  --chunk N       bytes of a chunk, a multiple of mtu (mtu)\n"
	"  --message N     bytes of a message (the file)\n"
	"  --ipv6          over IPv6\n"
	"  --fast          do not slow virtual time down to watch\n"
	"  -w FILE         write a capture of what both NICs send; with one scheme\n"
	"  --json          the outcome as JSON, nothing else; implies --fast\n"
	"The link, both ways: --loss P (0.02), --burst N, --duplicate P, --reorder P, --reorder-delay T, --corrupt P,\n"
	"  --jitter T, --delay T or --distance KM (3750km), --bandwidth R (by the file's size), --seed N (1)\n"
	"Exit status: 0 if all that arrived is the same as in FILE, and with none some chunks may be missing.\n";

int demo_fail(const char *what, int err)
{
	fprintf(stderr, "spindle demo: %s: %s\n", what, strerror(-err));
	return 1;
}

/* ---- arguments ---- */
static int misuse(const char *what, const char *value)
{
	fprintf(stderr, "spindle demo: %s%s\n%s", what, value, usage);
	return 2;
}

static const struct demo_scheme schemes[] = {
	{"none", -1, SDR_CODE_NONE},
	{"sr-rto", SDR_SR_RTO, SDR_CODE_NONE},
	{"sr-nack", SDR_SR_NACK, SDR_CODE_NONE},
	{"ec-mds", SDR_EC_MDS, SDR_CODE_MDS},
	{"ec-xor", SDR_EC_XOR, SDR_CODE_XOR},
};

static bool take_schemes(struct demo_options *o, const char *text)
{
	for (o->lanes = 0; o->lanes < DEMO_LANES;) {
		const size_t len = strcspn(text, ",");
		size_t i = 0;

		while (i < RTE_DIM(schemes) && (strlen(schemes[i].name) != len || memcmp(schemes[i].name, text, len)))
			i++;
		if (i == RTE_DIM(schemes))
			return false;
		o->scheme[o->lanes++] = schemes[i];
		text += len;
		if (!*text++)
			return true;
	}
	return false;
}

static bool take_code(struct demo_options *o, const char *text)
{
	unsigned k, m;
	char more;

	if (strspn(text, "0123456789,") != strlen(text) || sscanf(text, "%3u,%3u%c", &k, &m, &more) != 2)
		return false;
	o->k = k;
	o->m = m;
	return k && m && m <= k && k + m <= SP_EC_CHUNKS_MAX;
}

static bool take_bytes(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	return !sp_parse_uint(text, value) && *value >= least && *value <= most;
}

enum { SCHEME = 256, CODE, PICTURE, MTU, CHUNK, MESSAGE, JSON, FAST, IPV6 };

/* NULL, or what the option wants instead. */
static const char *take(struct demo_options *o, int option, const char *value)
{
	if (option >= OPTION_LINK)
		return link_option_take(&link_options[option - OPTION_LINK], value, &o->link)
			       ? NULL
			       : link_options[option - OPTION_LINK].wants;
	switch (option) {
	case SCHEME:
		return take_schemes(o, value) ? NULL
					      : "--scheme must be 1 to 4 of none, sr-rto, sr-nack, ec-mds, ec-xor";
	case CODE:
		return take_code(o, value) ? NULL : "--ec must be K,M with 1 <= M <= K and K + M <= 255";
	case MTU:
		return take_bytes(value, 64, 4096, &o->mtu) ? NULL : "--mtu must be 64 to 4096";
	case CHUNK:
		return take_bytes(value, 1, 1u << 30, &o->chunk) ? NULL : "--chunk must be 1 to 1G";
	case MESSAGE:
		return take_bytes(value, 1, 1u << 30, &o->message) ? NULL : "--message must be 1 to 1G";
	case JSON:
		o->json = o->fast = true;
		break;
	case FAST:
		o->fast = true;
		break;
	case IPV6:
		o->ipv6 = true;
		break;
	case PICTURE:
		o->picture = value;
		break;
	default:
		o->capture = value;
	}
	return NULL;
}

static size_t options_make(struct option *options)
{
	static const struct option own[] = {{"scheme", required_argument, NULL, SCHEME},
					    {"ec", required_argument, NULL, CODE},
					    {"picture", required_argument, NULL, PICTURE},
					    {"mtu", required_argument, NULL, MTU},
					    {"chunk", required_argument, NULL, CHUNK},
					    {"message", required_argument, NULL, MESSAGE},
					    {"json", no_argument, NULL, JSON},
					    {"fast", no_argument, NULL, FAST},
					    {"ipv6", no_argument, NULL, IPV6},
					    {"help", no_argument, NULL, 'h'}};
	size_t n = 0;

	for (; n < RTE_DIM(own); n++)
		options[n] = own[n];
	for (int i = 0; link_options[i].name && n < MOST_OPTIONS - 1; i++)
		options[n++] = (struct option){link_options[i].name, required_argument, NULL, OPTION_LINK + i};
	return n;
}

/* 0, or the exit status + 1. */
static int arguments(struct demo_options *o, int argc, char **argv)
{
	struct option options[MOST_OPTIONS] = {0};
	const char *about, *what, *wrong;
	int option;

	*o = (struct demo_options){.file = "/proc/self/exe", .k = 32, .m = 8, .link = {.seed = LINK_SEED}};
	take_schemes(o, "sr-rto,ec-mds");
	for (unsigned e = 0; e < 2; e++)
		o->link.direction[e] = (struct sp_link_direction){
			.loss = LOSS, .delay = sp_link_distance(KILOMETRES), .queue = DEMO_LINK_QUEUE};
	options_make(options);
	optind = 0; /* GNU: start anew */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":hw:", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 1;
		}
		if (option == '?' || option == ':') {
			what = command_bad_option(option, argv, &about);
			return misuse(what, about) + 1;
		}
		wrong = take(o, option, optarg);
		if (wrong)
			return command_bad_value("demo", wrong, optarg) + 1;
	}
	if (argc - optind > 1)
		return misuse("one file at a time, not also ", argv[optind + 1]) + 1;
	if (optind < argc)
		o->file = argv[optind];
	wrong = link_options_end(&o->link);
	if (!wrong && o->capture && o->lanes > 1)
		wrong = "-w is for one --scheme";
	return wrong ? misuse(wrong, "") + 1 : 0;
}

/* ---- what is to be sent ---- */
static int file_open(struct demo *d, int *fd)
{
	const char *const written[] = {d->o.capture, d->o.picture};
	struct stat st;

	*fd = open(d->o.file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO does not keep it waiting */
	if (*fd < 0 || fstat(*fd, &st))
		return demo_fail(d->o.file, -errno);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > MAX_FILE) {
		fprintf(stderr, "spindle demo: %s: %s\n", d->o.file,
			S_ISREG(st.st_mode) ? "larger than 1 GiB, and the demo holds it twice in memory"
					    : "not a file");
		return 1;
	}
	for (unsigned i = 0; i < RTE_DIM(written); i++)
		if (written[i] && output_destroys(written[i], d->o.file)) {
			fprintf(stderr, "spindle demo: %s: that is the file to send\n", written[i]);
			return 1;
		}
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

/* On the wire: a packet beyond its payload. */
static uint64_t packet_extra(const struct demo *d)
{
	return 14 + (d->o.ipv6 ? 40 : 20) + 8 + 12 + 16 + 4 + 4 + SP_LINK_OVERHEAD;
}

static sp_time bytes_time(const struct demo *d, uint64_t bytes)
{
	return (sp_time)((double)bytes * 8 / (double)d->o.link.direction->bandwidth * (double)SP_SEC);
}

sp_time demo_wire_time(const struct demo *d, uint64_t packets)
{
	return bytes_time(d, packets * (d->o.mtu + packet_extra(d)));
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

/* What was not asked for, by the size of the file. */
static void choose(struct demo *d)
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

	choose(d);
	if (o->chunk % o->mtu)
		return misuse("--chunk must be a multiple of --mtu", "");
	for (unsigned i = 0; i < o->lanes; i++)
		if (o->scheme[i].scheme >= 0 && o->mtu < LEAST_MTU)
			return misuse("--mtu must be at least 100 but for --scheme none", "");
	d->messages = demo_units(d->size, o->message);
	if (o->message > o->mtu << 18 || d->messages > DEMO_MESSAGES) {
		fprintf(stderr, "spindle demo: at most %u messages, each of at most %llu bytes with this --mtu\n",
			DEMO_MESSAGES, (unsigned long long)o->mtu << 18);
		return 1;
	}
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
	d->lossless = bytes_time(d, d->size + d->packets * packet_extra(d)) + o->link.direction[0].delay +
		      o->link.direction[1].delay;
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

	if (status)
		return status - 1;
	status = file_open(&d, &fd);
	if (!status)
		status = plan(&d);
	if (!status)
		status = file_read(&d, fd);
	if (!status && sp_eal_init(0, NULL, &error)) {
		fprintf(stderr, "spindle demo: %s\n", error.text);
		status = 1;
	}
	if (!status && d.o.capture && sp_capture_create(d.o.capture, 0, &d.capture, &error)) {
		fprintf(stderr, "spindle demo: %s\n", error.text);
		status = 1;
	}
	if (!status && !d.o.json)
		print_plan(&d);
	if (!status)
		status = run(&d);
	if (d.capture && sp_capture_finish(d.capture, &error)) { /* after the NICs, whose last packets are in it */
		fprintf(stderr, "spindle demo: %s\n", error.text);
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
