/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spindle demo: two NICs in one process, joined by a link that loses packets; a file goes from one to the other as SDR
 * messages, and the receiver's chunk bitmap is shown while it fills. Nothing is sent twice: what is lost stays missing,
 * the receiver ends such a message early and knows exactly which chunks it has.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../pipeline/config.h"
#include "../pipeline/limits.h"
#include "command.h"
#include "demo.h"
#include "output.h"

#define MAX_FILE   (1ull << 30)
#define MAX_CHUNKS (1ull << 22)
#define SHOW_TIME  3.5	/* seconds that the transfer is stretched to */
#define FRAME_TIME 0.04 /* seconds between two pictures */

static const char usage[] =
	"usage: spindle demo [FILE] [OPTIONS]\n"
	"\n"
	"Sends FILE (default: this program itself) between two NICs over a link that loses packets, and shows what "
	"arrives.\n"
	"  --loss P        probability that a packet is lost (default 0.01)\n"
	"  --duplicate P   ... that it arrives twice (0.005)\n"
	"  --reorder P     ... that it is overtaken by others (0.02)\n"
	"  --bandwidth R   of the link, bit/s (1G)\n"
	"  --delay T       of the link, one way (100us)\n"
	"  --mtu N         payload bytes of a packet, 64 to 4096 (1024)\n"
	"  --chunk N       bytes for one bit of the bitmap, a multiple of mtu (by the file's size)\n"
	"  --message N     bytes of a message (by the file's size)\n"
	"  --ipv6          over IPv6\n"
	"  --seed N        the same seed loses the same packets (1)\n"
	"  --fast          do not slow virtual time down to watch\n"
	"  -w FILE         write a capture of what both NICs send\n"
	"  --json          the outcome as JSON, nothing else; implies --fast\n"
	"Exit status: 0 if every chunk that arrived is the same as in FILE, though some may be missing.\n";

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

static bool parse_probability(const char *text, double *p)
{
	char *end;

	*p = strtod(text, &end);
	return end != text && !*end && *p >= 0 && *p <= 1;
}

/* 0, or the exit status + 1. */
static int arguments(struct demo_options *o, int argc, char **argv)
{
	enum { LOSS = 256, DUPLICATE, REORDER, SEED, BANDWIDTH, DELAY, MTU, CHUNK, MESSAGE, JSON, FAST, IPV6 };
	static const struct option options[] = {{"loss", required_argument, NULL, LOSS},
						{"duplicate", required_argument, NULL, DUPLICATE},
						{"reorder", required_argument, NULL, REORDER},
						{"seed", required_argument, NULL, SEED},
						{"bandwidth", required_argument, NULL, BANDWIDTH},
						{"delay", required_argument, NULL, DELAY},
						{"mtu", required_argument, NULL, MTU},
						{"chunk", required_argument, NULL, CHUNK},
						{"message", required_argument, NULL, MESSAGE},
						{"json", no_argument, NULL, JSON},
						{"fast", no_argument, NULL, FAST},
						{"ipv6", no_argument, NULL, IPV6},
						{"help", no_argument, NULL, 'h'},
						{0}};
	const char *about, *what;
	int option;

	*o = (struct demo_options){.file = "/proc/self/exe",
				   .loss = 0.01,
				   .duplicate = 0.005,
				   .reorder = 0.02,
				   .seed = 1,
				   .bandwidth = 1000000000,
				   .mtu = 1024,
				   .delay = 100 * SP_US};
	optind = 0; /* GNU: start anew */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":hw:", options, NULL)) != -1) {
		const char *wants = NULL;

		switch (option) {
		case LOSS:
			if (!parse_probability(optarg, &o->loss))
				wants = "--loss must be 0 to 1";
			break;
		case DUPLICATE:
			if (!parse_probability(optarg, &o->duplicate))
				wants = "--duplicate must be 0 to 1";
			break;
		case REORDER:
			if (!parse_probability(optarg, &o->reorder))
				wants = "--reorder must be 0 to 1";
			break;
		case SEED:
			if (sp_parse_uint(optarg, &o->seed))
				wants = "--seed must be a number from 0";
			break;
		case BANDWIDTH:
			if (sp_parse_rate(optarg, &o->bandwidth) || o->bandwidth < 1000 ||
			    o->bandwidth > 100000000000000)
				wants = "--bandwidth must be 1000 to 100000G";
			break;
		case DELAY:
			if (sp_parse_time(optarg, &o->delay) || o->delay > 10 * SP_SEC)
				wants = "--delay must be 0 to 10s";
			break;
		case MTU:
			if (sp_parse_uint(optarg, &o->mtu) || o->mtu < 64 || o->mtu > 4096)
				wants = "--mtu must be 64 to 4096";
			break;
		case CHUNK:
			if (sp_parse_uint(optarg, &o->chunk) || !o->chunk || o->chunk > 1u << 30)
				wants = "--chunk must be 1 to 1G";
			break;
		case MESSAGE:
			if (sp_parse_uint(optarg, &o->message) || !o->message || o->message > 1u << 30)
				wants = "--message must be 1 to 1G";
			break;
		case JSON:
			o->json = o->fast = true;
			break;
		case FAST:
			o->fast = true;
			break;
		case IPV6:
			o->ipv6 = true;
			break;
		case 'w':
			o->capture = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			what = command_bad_option(option, argv, &about);
			return misuse(what, about) + 1;
		}
		if (wants)
			return command_bad_value("demo", wants, optarg) + 1;
	}
	if (argc - optind > 1)
		return misuse("one file at a time, not also ", argv[optind + 1]) + 1;
	if (o->chunk % o->mtu)
		return misuse("--chunk must be a multiple of --mtu", "") + 1;
	if (optind < argc)
		o->file = argv[optind];
	return 0;
}

/* ---- what is to be sent ---- */
static int file_open(struct demo *d, int *fd)
{
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
	if (d->o.capture && output_destroys(d->o.capture, d->o.file)) {
		fprintf(stderr, "spindle demo: -w %s: that is the file to send\n", d->o.capture);
		return 1;
	}
	d->size = (uint64_t)st.st_size;
	return 0;
}

static int file_read(const struct demo *d, int fd)
{
	uint8_t *to = d->side[0].mr->addr;

	for (uint64_t at = 0; at < d->size;) {
		ssize_t n = pread(fd, to + at, d->size - at, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return demo_fail(d->o.file, n ? -errno : -EIO);
		at += (uint64_t)n;
	}
	return 0;
}

static sp_time wire_time(const struct demo *d, uint64_t packets)
{
	return (sp_time)((double)packets * (double)(d->o.mtu + 14 + 64 + SP_LINK_OVERHEAD) * 8 /
			 (double)d->o.bandwidth * (double)SP_SEC);
}

/* Sizes that were not asked for: some 1500 chunks in some 16 messages, so that there is something to see. */
static int plan(struct demo *d)
{
	uint64_t in_flight, longest;

	if (!d->o.chunk) {
		d->o.chunk = d->o.mtu;
		while (d->o.chunk * 1500 < d->size && d->o.chunk < d->o.mtu * 64)
			d->o.chunk *= 2;
	}
	longest = d->o.mtu << 18;
	if (!d->o.message) {
		d->o.message = demo_units(demo_units(d->size, 16), d->o.chunk) * d->o.chunk;
		if (d->o.message > longest)
			d->o.message = longest;
	}
	if (d->o.message > longest) {
		fprintf(stderr, "spindle demo: --message: at most %llu bytes with this --mtu\n",
			(unsigned long long)longest);
		return 1;
	}
	d->messages = demo_units(d->size, d->o.message);
	d->chunks = d->messages * demo_units(d->o.message, d->o.chunk);
	if (d->chunks > MAX_CHUNKS) {
		fprintf(stderr, "spindle demo: more than %llu chunks: choose a larger --chunk or --message\n",
			(unsigned long long)MAX_CHUNKS);
		return 1;
	}
	d->reorder_delay = wire_time(d, 20); /* some 20 packets overtake */
	d->patience = 2 * d->o.delay + d->reorder_delay + wire_time(d, 4) + SP_US;
	d->drain = wire_time(d, SP_TX_QUEUE + DEMO_LINK_QUEUE);
	d->expected = wire_time(d, demo_units(d->size, d->o.mtu)) + d->patience + d->drain + 2 * d->o.delay;
	/* What the link could carry while a message holds its slot: then nobody waits for clear-to-send. */
	in_flight = (uint64_t)((double)(d->patience + d->drain + 2 * d->o.delay) / (double)SP_SEC *
			       (double)d->o.bandwidth / 8 * 1.5);
	d->window = demo_units(in_flight, d->o.message) + 3;
	if (d->window > 512)
		d->window = 512;

	d->message = calloc(d->messages, sizeof(*d->message));
	d->arrived = calloc(d->chunks, 1);
	if (!d->message || !d->arrived)
		return demo_fail("memory", -ENOMEM);
	d->chunks = 0;
	for (uint64_t k = 0; k < d->messages; k++) {
		struct demo_message *m = &d->message[k];

		m->offset = k * d->o.message;
		m->len = d->size - m->offset < d->o.message ? d->size - m->offset : d->o.message;
		m->chunks = demo_units(m->len, d->o.chunk);
		m->first_chunk = d->chunks;
		d->chunks += m->chunks;
	}
	return 0;
}

/* ---- the run ---- */
static void sleep_until(const struct timespec *start, double seconds)
{
	struct timespec at = *start;
	uint64_t ns = (uint64_t)at.tv_nsec + (uint64_t)(seconds * 1e9);

	at.tv_sec += (time_t)(ns / 1000000000);
	at.tv_nsec = (long)(ns % 1000000000);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

/* Virtual time in slices of one picture each. */
static int run(struct demo *d)
{
	const double slower = SHOW_TIME * (double)SP_SEC / (double)d->expected; /* wall-clock time for virtual time */
	const sp_time slice = (sp_time)(FRAME_TIME * (double)d->expected / SHOW_TIME) + 1;
	const sp_time limit = 100 * d->expected + 60 * SP_SEC;
	struct demo_view view;
	struct timespec start;
	int result;

	if (!d->o.json && !d->o.fast)
		printf("Virtual time runs %.4g times %s than real time.\n", slower >= 1 ? slower : 1 / slower,
		       slower >= 1 ? "slower" : "faster");
	demo_view_init(&view, !d->o.fast && isatty(STDOUT_FILENO));
	clock_gettime(CLOCK_MONOTONIC, &start);
	demo_step(d, 0); /* the first receives and sends */
	for (unsigned picture = 1;; picture++) {
		result = sp_world_run(d->world, sp_world_now(d->world) + slice, demo_finished, d);
		if (result || sp_world_now(d->world) > limit)
			break;
		demo_show(d, &view, false);
		if (!d->o.fast)
			sleep_until(&start, picture * FRAME_TIME);
	}
	demo_show(d, &view, true);
	if (d->failure)
		return demo_fail(d->failed, d->failure);
	if (result < 0)
		return demo_fail("virtual time stands still", result);
	if (!result)
		return demo_fail("the transfer does not end", -ETIMEDOUT);
	return 0;
}

static void print_plan(const struct demo *d)
{
	char name[4096] = "";
	ssize_t len = readlink(d->o.file, name, sizeof(name) - 1);

	printf("%s: %llu byte%s as %llu message%s of %llu, %llu chunk%s of %llu\n", len > 0 ? name : d->o.file,
	       (unsigned long long)d->size, demo_s(d->size), (unsigned long long)d->messages, demo_s(d->messages),
	       (unsigned long long)d->o.message, (unsigned long long)d->chunks, demo_s(d->chunks),
	       (unsigned long long)d->o.chunk);
	printf("Link: %g Mbit/s, %g us each way; %g %% of packets lost, %g %% duplicated, %g %% reordered. "
	       "Up to %llu message%s in flight.\n",
	       (double)d->o.bandwidth / 1e6, (double)d->o.delay / (double)SP_US, d->o.loss * 100, d->o.duplicate * 100,
	       d->o.reorder * 100, (unsigned long long)d->window, demo_s(d->window));
}

int command_demo(int argc, char **argv)
{
	struct demo d = {.failure = 0};
	struct sp_error error = {.key = ""};
	int fd = -1, status = arguments(&d.o, argc, argv);

	if (status)
		return status - 1;
	status = file_open(&d, &fd);
	if (!status)
		status = plan(&d);
	if (!status && sp_eal_init(0, NULL, &error)) {
		fprintf(stderr, "spindle demo: %s\n", error.text);
		status = 1;
	}
	if (!status)
		status = demo_open(&d);
	if (!status)
		status = file_read(&d, fd);
	if (!status && !d.o.json)
		print_plan(&d);
	if (!status)
		status = run(&d);
	if (!status)
		status = demo_outcome(&d);
	demo_close(&d);
	if (d.capture && sp_capture_finish(d.capture, &error)) { /* after the NICs, whose last packets are in it */
		fprintf(stderr, "spindle demo: %s\n", error.text);
		status = 1;
	}
	if (fd >= 0)
		close(fd);
	return status;
}
