/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spindle demo: two NICs in one process, joined by a link that loses packets; a file goes from one to the other as SDR
 * messages, and the receiver's chunk bitmap is shown while it fills. Nothing is sent twice: what is lost stays missing,
 * the receiver ends such a message early and knows exactly which chunks it has.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../host-api/sdr.h"
#include "../pipeline/config.h"
#include "../pipeline/limits.h"
#include "../testbed/link.h"
#include "../testbed/world.h"
#include "command.h"

#define MAX_FILE   (1ull << 30)
#define MAX_CHUNKS (1ull << 22)
#define LINK_QUEUE 64	/* packets */
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
	"  --seed N        the same seed loses the same packets (1)\n"
	"  --fast          do not slow virtual time down to watch\n"
	"  --json          the outcome as JSON, nothing else; implies --fast\n"
	"Exit status: 0 if every chunk that arrived is the same as in FILE, though some may be missing.\n";

struct options {
	const char *file;
	double loss, duplicate, reorder;
	uint64_t seed, bandwidth, mtu, chunk, message;
	sp_time delay;
	bool json, fast;
};

enum message_state { WAITING, POSTED, ENDING, ENDED };

/* One message, as the two host programs know it. */
struct message {
	struct sdr_send *send;
	struct sdr_recv *recv;
	uint64_t offset, len, chunks, first_chunk;
	enum message_state state;
	bool sent; /* the sender has its buffer back */
	sp_time sent_at;
	uint64_t packets; /* that had come when the receiver last looked */
	sp_time progress_at;
	bool complete;
};

/* One machine: a NIC and the program on it. */
struct side {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr;
	uint32_t id; /* of the NIC's execution context */
};

struct demo {
	struct options o;
	struct side side[2]; /* sender, receiver */
	struct sp_link *link;
	struct sp_world *world;
	uint64_t size, messages, chunks, window;
	struct message *message;
	uint8_t *arrived; /* per chunk: 1 */
	uint64_t next_send, next_post, first_open, ended;
	sp_time patience; /* a message of which nothing has come for so long has ended ... */
	sp_time drain;	  /* ... counted from when the last packet can have left the sender's queues */
	sp_time expected; /* about how long all of it takes */
	int failure;	  /* what a call in the middle of it all has said */
	const char *failed;
	/* the outcome */
	uint64_t good, differing, stray;
	sp_time ended_at;
};

static int fail(const char *what, int err)
{
	fprintf(stderr, "spindle demo: %s: %s\n", what, strerror(-err));
	return 1;
}

/* ---- arguments
 * ------------------------------------------------------------------------------------------------------- */
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
static int arguments(struct options *o, int argc, char **argv)
{
	enum { LOSS = 256, DUPLICATE, REORDER, SEED, BANDWIDTH, DELAY, MTU, CHUNK, MESSAGE, JSON, FAST };
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
						{"help", no_argument, NULL, 'h'},
						{0}};
	int option;

	*o = (struct options){.file = "/proc/self/exe",
			      .loss = 0.01,
			      .duplicate = 0.005,
			      .reorder = 0.02,
			      .seed = 1,
			      .bandwidth = 1000000000,
			      .mtu = 1024,
			      .delay = 100 * SP_US};
	optind = 0; /* GNU: start anew */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		bool good = true;

		switch (option) {
		case LOSS:
			good = parse_probability(optarg, &o->loss);
			break;
		case DUPLICATE:
			good = parse_probability(optarg, &o->duplicate);
			break;
		case REORDER:
			good = parse_probability(optarg, &o->reorder);
			break;
		case SEED:
			good = !sp_parse_uint(optarg, &o->seed);
			break;
		case BANDWIDTH:
			good = !sp_parse_rate(optarg, &o->bandwidth) && o->bandwidth >= 1000 &&
			       o->bandwidth <= 100000000000000;
			break;
		case DELAY:
			good = !sp_parse_time(optarg, &o->delay) && o->delay <= 10 * SP_SEC;
			break;
		case MTU:
			good = !sp_parse_uint(optarg, &o->mtu) && o->mtu >= 64 && o->mtu <= 4096;
			break;
		case CHUNK:
			good = !sp_parse_uint(optarg, &o->chunk) && o->chunk && o->chunk <= 1u << 30;
			break;
		case MESSAGE:
			good = !sp_parse_uint(optarg, &o->message) && o->message && o->message <= 1u << 30;
			break;
		case JSON:
			o->json = o->fast = true;
			break;
		case FAST:
			o->fast = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			return misuse(option == ':' ? "a value is missing after " : "unknown option ",
				      argv[optind - 1]) +
			       1;
		}
		if (!good)
			return misuse("this value makes no sense here: ", optarg) + 1;
	}
	if (argc - optind > 1)
		return misuse("one file at a time, not also ", argv[optind + 1]) + 1;
	if (o->chunk % o->mtu)
		return misuse("--chunk must be a multiple of --mtu", "") + 1;
	if (optind < argc)
		o->file = argv[optind];
	return 0;
}

/* ---- the two machines
 * ------------------------------------------------------------------------------------------------ */
static const uint8_t address[2][16] = {{[10] = 0xFF, 0xFF, 192, 0, 2, 1}, {[10] = 0xFF, 0xFF, 192, 0, 2, 2}};
static const uint8_t mac[2][6] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}};

static int machine_create(struct demo *d, unsigned e)
{
	struct sp_nic_config *config = calloc(1, sizeof(*config));
	const struct sdr_qp_attr attr = {
		.mtu = (uint32_t)d->o.mtu,
		.chunk_bytes = (uint32_t)d->o.chunk,
		.max_message_bytes = d->o.message,
		.max_messages = (uint32_t)d->window,
		.nonce = d->o.seed * 2 + e + 1 ? d->o.seed * 2 + e + 1 : 1,
		.cts_interval = 2 * d->o.delay > 10 * SP_US ? 2 * d->o.delay : 10 * SP_US,
		.max_packet_life = d->patience,
		.no_send = e == 1,
		.no_recv = e == 0,
	};
	struct side *s = &d->side[e];
	struct sp_error error = {.key = ""};
	int err;

	if (!config)
		return fail("memory", -ENOMEM);
	snprintf(config->name, sizeof(config->name), "%s", e ? "receiver" : "sender");
	config->addresses = config->neighbours = 1;
	config->address[0].prefix = 24;
	memcpy(config->address[0].ip, address[e], 16);
	memcpy(config->mac, mac[e], 6);
	memcpy(config->neighbour[0].ip, address[!e], 16);
	memcpy(config->neighbour[0].mac, mac[!e], 6);
	config->mtu = d->o.mtu + 64 > 1500 ? (uint32_t)d->o.mtu + 64
					   : 1500; /* IPv4, UDP, BTH, RETH, immediate, ICRC: 64 bytes */
	config->seed = d->o.seed + e ? d->o.seed + e : 1;
	config->ports = 1;
	config->port[0] = (struct sp_port_config){.ops = &sp_link_ops, .ops_arg = sp_link_port(d->link, e)};
	err = sp_nic_create(config, &error, &s->nic);
	free(config);
	if (!err)
		err = sp_nic_dev(s->nic, false, &s->dev);
	if (!err)
		err = sdr_context_create(s->dev, &(struct sdr_context_attr){.channels = 1}, &s->context);
	if (!err)
		err = sdr_qp_create(s->context, &attr, &s->qp, &error);
	if (!err)
		err = sdr_mr_alloc(s->context, d->size ? d->size : 1, &s->mr);
	if (!err)
		err = sp_world_add_nic(d->world, s->nic);
	if (err && *error.text)
		fprintf(stderr, "spindle demo: %s%s%s\n", error.key, *error.key ? ": " : "", error.text);
	else if (err)
		fail(e ? "the receiving NIC" : "the sending NIC", err);
	return err ? 1 : 0;
}

static int machines_connect(struct demo *d)
{
	struct sdr_qp_info info[2];
	int err = 0;

	for (unsigned e = 0; !err && e < 2; e++)
		err = sdr_qp_info_get(d->side[e].qp, &info[e]);
	for (unsigned e = 0; !err && e < 2; e++)
		err = sdr_qp_connect(d->side[e].qp, &info[!e]);
	for (unsigned e = 0; !err && e < 2; e++) {
		struct sdr_qp_status status;

		err = sdr_qp_status(d->side[e].qp, &status);
		d->side[e].id = status.id;
	}
	return err ? fail("connecting", err) : 0;
}

/* ---- the two host programs, driven by virtual time
 * --------------------------------------------------------------------- */
static bool went(struct demo *d, int err, const char *what)
{
	if (err && err != -EAGAIN && !d->failure) {
		d->failure = err;
		d->failed = what;
	}
	return !err;
}

static void sender_step(struct demo *d, sp_time now)
{
	while (d->next_send < d->messages) {
		struct message *m = &d->message[d->next_send];

		if (!went(d,
			  sdr_send_post(d->side[0].qp, d->side[0].mr, m->offset, m->len, (uint32_t)d->next_send,
					&m->send),
			  "sdr_send_post"))
			break;
		d->next_send++;
	}
	for (uint64_t k = d->first_open; k < d->next_send; k++) {
		struct message *m = &d->message[k];

		if (!m->sent && went(d, sdr_send_poll(m->send), "sdr_send_poll")) {
			m->sent = true;
			m->sent_at = now;
		}
	}
}

/* Which chunks are there: the NIC wipes its bitmap once the buffer is given back. */
static void message_snapshot(struct demo *d, struct message *m)
{
	const uint64_t *bitmap;
	uint64_t chunks;

	if (!went(d, sdr_recv_bitmap_get(m->recv, &bitmap, &chunks), "sdr_recv_bitmap_get"))
		return;
	for (uint64_t i = 0; i < m->chunks && i < chunks; i++)
		d->arrived[m->first_chunk + i] = sdr_recv_chunk(bitmap, i);
}

static sp_time give_up_at(const struct demo *d, const struct message *m)
{
	const sp_time left = m->sent_at + d->drain;

	if (m->state != POSTED || !m->sent)
		return SP_NEVER;
	return (left > m->progress_at ? left : m->progress_at) + d->patience;
}

static void message_step(struct demo *d, struct message *m, sp_time now)
{
	struct sdr_recv_status status;

	if (m->state == POSTED) {
		if (!went(d, sdr_recv_status(m->recv, &status), "sdr_recv_status"))
			return;
		if (status.packets != m->packets) {
			m->packets = status.packets;
			m->progress_at = now;
		}
		m->complete = status.complete;
		if (!m->complete && give_up_at(d, m) > now)
			return;
		message_snapshot(d, m);
		m->state = ENDING;
	}
	if (m->state == ENDING && went(d, sdr_recv_complete(m->recv), "sdr_recv_complete")) {
		m->state = ENDED;
		d->ended++;
		d->ended_at = now;
	}
}

static void receiver_step(struct demo *d, sp_time now)
{
	while (d->next_post < d->messages) {
		struct message *m = &d->message[d->next_post];

		if (!went(d, sdr_recv_post(d->side[1].qp, d->side[1].mr, m->offset, m->len, &m->recv), "sdr_recv_post"))
			break;
		m->state = POSTED;
		m->progress_at = now;
		d->next_post++;
	}
	for (uint64_t k = d->first_open; k < d->next_post; k++)
		message_step(d, &d->message[k], now);
	while (d->first_open < d->next_post && d->message[d->first_open].state == ENDED &&
	       d->message[d->first_open].sent)
		d->first_open++;
}

static void hosts_step(void *arg, sp_time now)
{
	struct demo *d = arg;

	if (d->failure)
		return;
	receiver_step(d, now);
	sender_step(d, now);
}

static sp_time hosts_next(void *arg)
{
	const struct demo *d = arg;
	sp_time next = SP_NEVER;

	for (uint64_t k = d->first_open; !d->failure && k < d->next_post; k++) {
		sp_time at = give_up_at(d, &d->message[k]);

		next = at < next ? at : next;
	}
	return next;
}

static bool finished(void *arg)
{
	const struct demo *d = arg;

	return d->failure || d->ended == d->messages;
}

/* ---- what is to be sent
 * ------------------------------------------------------------------------------------------------ */
static int file_open(struct demo *d, int *fd)
{
	struct stat st;

	*fd = open(d->o.file, O_RDONLY | O_CLOEXEC);
	if (*fd < 0 || fstat(*fd, &st))
		return fail(d->o.file, -errno);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > MAX_FILE) {
		fprintf(stderr, "spindle demo: %s: %s\n", d->o.file,
			S_ISREG(st.st_mode) ? "larger than 1 GiB, and the demo holds it twice in memory"
					    : "not a file");
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
			return fail(d->o.file, n ? -errno : -EIO);
		at += (uint64_t)n;
	}
	return 0;
}

static uint64_t units(uint64_t bytes, uint64_t unit)
{
	return bytes ? (bytes - 1) / unit + 1 : 1;
}

static sp_time wire_time(const struct demo *d, uint64_t packets)
{
	return (sp_time)((double)packets * (double)(d->o.mtu + 14 + 64 + SP_LINK_OVERHEAD) * 8 /
			 (double)d->o.bandwidth * (double)SP_SEC);
}

static sp_time reorder_delay(const struct demo *d)
{
	return wire_time(d, 20); /* some 20 packets overtake */
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
		d->o.message = units(units(d->size, 16), d->o.chunk) * d->o.chunk;
		if (d->o.message > longest)
			d->o.message = longest;
	}
	if (d->o.message > longest) {
		fprintf(stderr, "spindle demo: --message: at most %llu bytes with this --mtu\n",
			(unsigned long long)longest);
		return 1;
	}
	d->messages = units(d->size, d->o.message);
	d->chunks = d->messages * units(d->o.message, d->o.chunk);
	if (d->chunks > MAX_CHUNKS) {
		fprintf(stderr, "spindle demo: more than %llu chunks: choose a larger --chunk or --message\n",
			(unsigned long long)MAX_CHUNKS);
		return 1;
	}
	d->patience = 2 * d->o.delay + reorder_delay(d) + wire_time(d, 4) + SP_US;
	d->drain = wire_time(d, SP_TX_QUEUE + LINK_QUEUE);
	d->expected = wire_time(d, units(d->size, d->o.mtu)) + d->patience + d->drain + 2 * d->o.delay;
	/* What the link could carry while a message holds its slot: then nobody waits for clear-to-send. */
	in_flight = (uint64_t)((double)(d->patience + d->drain + 2 * d->o.delay) / (double)SP_SEC *
			       (double)d->o.bandwidth / 8 * 1.5);
	d->window = units(in_flight, d->o.message) + 3;
	if (d->window > 512)
		d->window = 512;

	d->message = calloc(d->messages, sizeof(*d->message));
	d->arrived = calloc(d->chunks, 1);
	if (!d->message || !d->arrived)
		return fail("memory", -ENOMEM);
	d->chunks = 0;
	for (uint64_t k = 0; k < d->messages; k++) {
		struct message *m = &d->message[k];

		m->offset = k * d->o.message;
		m->len = d->size - m->offset < d->o.message ? d->size - m->offset : d->o.message;
		m->chunks = units(m->len, d->o.chunk);
		m->first_chunk = d->chunks;
		d->chunks += m->chunks;
	}
	return 0;
}

/* ---- the picture
 * ------------------------------------------------------------------------------------------------------- */
struct view {
	bool live;
	unsigned columns, rows; /* for the bitmap */
	unsigned drawn;		/* lines on the screen */
	uint64_t lines;		/* plain: progress lines printed */
};

static uint64_t message_of(const struct demo *d, uint64_t chunk)
{
	uint64_t per = units(d->o.message, d->o.chunk);

	return chunk / per;
}

/* Present now: as noted when its message ended, or in the live bitmap. */
static bool chunk_present(const struct demo *d, uint64_t chunk)
{
	const struct message *m = &d->message[message_of(d, chunk)];
	const uint64_t *bitmap;
	uint64_t chunks;

	if (m->state != POSTED)
		return d->arrived[chunk];
	if (sdr_recv_bitmap_get(m->recv, &bitmap, &chunks))
		return false;
	return chunk - m->first_chunk < chunks && sdr_recv_chunk(bitmap, chunk - m->first_chunk);
}

static uint64_t present_count(const struct demo *d)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < d->chunks; i++)
		n += chunk_present(d, i);
	return n;
}

static void view_size(struct view *v)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
		size = (struct winsize){.ws_col = 80, .ws_row = 24};
	v->columns = size.ws_col > 200 ? 200 : size.ws_col < 10 ? 10 : size.ws_col;
	v->rows = size.ws_row > 30 ? 25 : size.ws_row < 9 ? 4 : size.ws_row - 5u;
}

/* One character for some chunks: how many of them are there, and whether more may come. */
static void draw_cell(const struct demo *d, uint64_t first, uint64_t end)
{
	static const char *const shade[] = {"·", "░", "▒", "▓", "█"};
	uint64_t there = 0, gone = 0;

	for (uint64_t i = first; i < end; i++) {
		bool present = chunk_present(d, i);

		there += present;
		gone += !present && d->message[message_of(d, i)].state >= ENDING;
	}
	if (there == end - first)
		printf("\033[32m█");
	else if (gone)
		printf("\033[31m%s", there ? "▒" : "×");
	else
		printf("%s%s", there ? "\033[33m" : "\033[90m", shade[there * 4 / (end - first)]);
}

static void draw(struct demo *d, struct view *v, bool last)
{
	const uint64_t room = (uint64_t)v->columns * v->rows;
	const uint64_t per = units(d->chunks, room), cells = units(d->chunks, per);
	struct sp_link_counters n;
	unsigned lines = 0;

	if (v->drawn)
		printf("\033[%uA", v->drawn);
	for (uint64_t cell = 0; cell < cells; cell++) {
		uint64_t end = (cell + 1) * per;

		draw_cell(d, cell * per, end < d->chunks ? end : d->chunks);
		if ((cell + 1) % v->columns == 0 || cell + 1 == cells) {
			printf("\033[0m\033[K\n");
			lines++;
		}
	}
	sp_link_count(d->link, 0, &n);
	printf("%9.3f ms  %llu of %llu chunks, %llu packets lost\033[K\n",
	       (double)sp_world_now(d->world) / (double)SP_MS, (unsigned long long)present_count(d),
	       (unsigned long long)d->chunks, (unsigned long long)n.lost);
	v->drawn = last ? 0 : lines + 1;
	fflush(stdout);
}

static void show(struct demo *d, struct view *v, bool last)
{
	if (d->o.json)
		return;
	if (v->live) {
		draw(d, v, last);
		return;
	}
	if (!last && d->ended * 8 / d->messages < v->lines + 1)
		return; /* about every eighth of the way */
	v->lines = d->ended * 8 / d->messages;
	printf("%9.3f ms  %llu of %llu messages ended, %llu of %llu chunks there\n",
	       (double)sp_world_now(d->world) / (double)SP_MS, (unsigned long long)d->ended,
	       (unsigned long long)d->messages, (unsigned long long)present_count(d), (unsigned long long)d->chunks);
	fflush(stdout);
}

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
	struct view view = {.live = !d->o.fast && isatty(STDOUT_FILENO)};
	struct timespec start;
	int result;

	if (!d->o.json && !d->o.fast)
		printf("Virtual time runs %.4g times %s than real time.\n", slower >= 1 ? slower : 1 / slower,
		       slower >= 1 ? "slower" : "faster");
	view_size(&view);
	clock_gettime(CLOCK_MONOTONIC, &start);
	hosts_step(d, 0); /* the first receives and sends */
	for (unsigned picture = 1;; picture++) {
		result = sp_world_run(d->world, sp_world_now(d->world) + slice, finished, d);
		if (result || sp_world_now(d->world) > limit)
			break;
		show(d, &view, false);
		if (!d->o.fast)
			sleep_until(&start, picture * FRAME_TIME);
	}
	show(d, &view, true);
	if (d->failure)
		return fail(d->failed, d->failure);
	if (result < 0)
		return fail("virtual time stands still", result);
	if (!result)
		return fail("the transfer does not end", -ETIMEDOUT);
	return 0;
}

/* ---- the outcome
 * ------------------------------------------------------------------------------------------------------- */
/* Chunks that the bitmap has must be the source's. In the others each packet's place holds the source's bytes or
 * nothing. */
static void verify(struct demo *d)
{
	const uint8_t *source = d->side[0].mr->addr, *got = d->side[1].mr->addr;

	for (uint64_t k = 0; k < d->messages; k++) {
		const struct message *m = &d->message[k];

		for (uint64_t i = 0; i < m->chunks; i++) {
			uint64_t at = m->offset + i * d->o.chunk, end = m->offset + m->len;
			uint64_t stop = end - at < d->o.chunk ? end : at + d->o.chunk;

			if (d->arrived[m->first_chunk + i]) {
				bool same = !memcmp(source + at, got + at, stop - at);

				d->good += same;
				d->differing += !same;
				continue;
			}
			for (; at < stop; at += d->o.mtu) {
				uint64_t len = stop - at < d->o.mtu ? stop - at : d->o.mtu;
				bool empty = !got[at] && !memcmp(got + at, got + at + 1, len - 1);

				d->stray += !empty && memcmp(source + at, got + at, len);
			}
		}
	}
}

static double payload_rate(const struct demo *d)
{
	return d->ended_at ? (double)d->size * 8 * (double)SP_SEC / (double)d->ended_at : 0;
}

static void print_missing(const struct demo *d)
{
	unsigned listed = 0;

	for (uint64_t k = 0; k < d->messages; k++) {
		const struct message *m = &d->message[k];
		unsigned shown = 0;
		uint64_t missing = 0;

		for (uint64_t i = 0; i < m->chunks; i++)
			missing += !d->arrived[m->first_chunk + i];
		if (!missing)
			continue;
		if (listed++ == 16) {
			printf("            ...\n");
			return;
		}
		printf("            message %llu:", (unsigned long long)k);
		for (uint64_t i = 0; i < m->chunks && shown < 12; i++)
			if (!d->arrived[m->first_chunk + i]) {
				printf(" %llu", (unsigned long long)i);
				shown++;
			}
		printf(missing > shown ? " and %llu more\n" : "\n", (unsigned long long)(missing - shown));
	}
}

static void print_text(const struct demo *d, const struct sp_link_counters *n, uint64_t late, uint64_t duplicates)
{
	uint64_t partial = 0;

	for (uint64_t k = 0; k < d->messages; k++)
		partial += !d->message[k].complete;
	printf("arrived     %llu of %llu chunks, %s\n", (unsigned long long)(d->good + d->differing),
	       (unsigned long long)d->chunks,
	       d->differing || d->stray ? "BUT NOT AS THEY WERE SENT"
					: "every one compared with the source and the same");
	if (d->differing || d->stray)
		printf("DIFFERENT   %llu chunks differ from the source, %llu packets' places hold what was never "
		       "sent\n",
		       (unsigned long long)d->differing, (unsigned long long)d->stray);
	printf("missing     %llu chunks; %llu of %llu messages ended early\n",
	       (unsigned long long)(d->chunks - d->good - d->differing), (unsigned long long)partial,
	       (unsigned long long)d->messages);
	print_missing(d);
	printf("link        %llu packets sent, %llu lost, %llu duplicated, %llu reordered\n",
	       (unsigned long long)n->offered, (unsigned long long)n->lost, (unsigned long long)n->duplicated,
	       (unsigned long long)n->reordered);
	printf("receiver    %llu duplicates, %llu late packets\n", (unsigned long long)duplicates,
	       (unsigned long long)late);
	printf("time        %.6f ms of virtual time, %.4g Mbit/s of file\n", (double)d->ended_at / (double)SP_MS,
	       payload_rate(d) / 1e6);
	printf("seed        %llu (--seed %llu repeats this run exactly)\n", (unsigned long long)d->o.seed,
	       (unsigned long long)d->o.seed);
}

static int print_json(const struct demo *d, const struct sp_link_counters *n, uint64_t late, uint64_t duplicates)
{
	json_t *list = json_array();
	json_t *root = json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:{s:I, s:I, s:I, s:I}, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:f, s:o}",
		"file", d->o.file, "bytes", (json_int_t)d->size, "seed", (json_int_t)d->o.seed, "mtu",
		(json_int_t)d->o.mtu, "chunk_bytes", (json_int_t)d->o.chunk, "message_bytes", (json_int_t)d->o.message,
		"loss", d->o.loss, "bandwidth", (json_int_t)d->o.bandwidth, "delay_seconds",
		(double)d->o.delay / (double)SP_SEC, "link", "sent", (json_int_t)n->offered, "lost",
		(json_int_t)n->lost, "duplicated", (json_int_t)n->duplicated, "reordered", (json_int_t)n->reordered,
		"chunks", (json_int_t)d->chunks, "arrived", (json_int_t)(d->good + d->differing), "differing",
		(json_int_t)d->differing, "stray", (json_int_t)d->stray, "duplicates", (json_int_t)duplicates, "late",
		(json_int_t)late, "virtual_ps", (json_int_t)d->ended_at, "rate", payload_rate(d), "messages", list);
	char *bits = malloc(units(d->o.message, d->o.chunk) + 1), *text = NULL;

	for (uint64_t k = 0; root && bits && k < d->messages; k++) {
		const struct message *m = &d->message[k];

		for (uint64_t i = 0; i < m->chunks; i++)
			bits[i] = d->arrived[m->first_chunk + i] ? '1' : '0';
		bits[m->chunks] = '\0';
		json_array_append_new(list, json_pack("{s:I, s:s, s:b}", "bytes", (json_int_t)m->len, "chunk_bitmap",
						      bits, "complete", (int)m->complete));
	}
	if (root && bits)
		text = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	if (text)
		puts(text);
	free(text);
	free(bits);
	json_decref(root);
	return text ? 0 : fail("JSON", -ENOMEM);
}

static int outcome(struct demo *d)
{
	struct sp_link_counters n;
	uint64_t late, duplicates;
	int status = 0;

	verify(d);
	sp_link_count(d->link, 0, &n);
	late = sp_nic_context_counter(d->side[1].nic, d->side[1].id, "late_packets");
	duplicates = sp_nic_context_counter(d->side[1].nic, d->side[1].id, "duplicates");
	if (d->o.json)
		status = print_json(d, &n, late, duplicates);
	else
		print_text(d, &n, late, duplicates);
	if (fflush(stdout) || ferror(stdout))
		status = fail("standard output", -errno);
	return status || d->differing || d->stray ? 1 : 0;
}

/* ---- all of it
 * --------------------------------------------------------------------------------------------------------- */
static int transfer(struct demo *d)
{
	const struct sp_link_direction direction = {.bandwidth = d->o.bandwidth,
						    .delay = d->o.delay,
						    .loss = d->o.loss,
						    .duplicate = d->o.duplicate,
						    .reorder = d->o.reorder,
						    .reorder_delay = reorder_delay(d),
						    .queue = LINK_QUEUE};
	const struct sp_link_config config = {.direction = {direction, direction}, .seed = d->o.seed};
	int err = sp_link_create(&config, &d->link);

	if (!err)
		err = sp_world_create(&d->world);
	if (err)
		return fail("the link", err);
	for (unsigned e = 0; e < 2; e++)
		if (machine_create(d, e))
			return 1;
	err = sp_world_add_host(d->world, &(struct sp_world_host){.step = hosts_step, .next = hosts_next, .arg = d});
	return err ? fail("memory", err) : machines_connect(d);
}

static void close_all(struct demo *d)
{
	for (unsigned e = 0; e < 2; e++) {
		struct side *s = &d->side[e];

		if (s->qp)
			sdr_qp_destroy(s->qp);
		if (s->mr)
			sdr_mr_dereg(s->mr);
		if (s->context)
			sdr_context_destroy(s->context);
		if (s->dev)
			sp_dev_close(s->dev);
		sp_nic_destroy(s->nic);
	}
	sp_world_destroy(d->world);
	sp_link_destroy(d->link); /* after the NICs: what they were to send is theirs */
	free(d->message);
	free(d->arrived);
}

static void print_plan(const struct demo *d)
{
	char name[4096] = "";
	ssize_t len = readlink(d->o.file, name, sizeof(name) - 1);

	printf("%s: %llu bytes as %llu messages of %llu, %llu chunks of %llu\n", len > 0 ? name : d->o.file,
	       (unsigned long long)d->size, (unsigned long long)d->messages, (unsigned long long)d->o.message,
	       (unsigned long long)d->chunks, (unsigned long long)d->o.chunk);
	printf("Link: %g Mbit/s, %g us each way; %g %% of packets lost, %g %% duplicated, %g %% reordered. "
	       "Up to %llu messages in flight.\n",
	       (double)d->o.bandwidth / 1e6, (double)d->o.delay / (double)SP_US, d->o.loss * 100, d->o.duplicate * 100,
	       d->o.reorder * 100, (unsigned long long)d->window);
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
		status = transfer(&d);
	if (!status)
		status = file_read(&d, fd);
	if (!status && !d.o.json)
		print_plan(&d);
	if (!status)
		status = run(&d);
	if (!status)
		status = outcome(&d);
	close_all(&d);
	if (fd >= 0)
		close(fd);
	return status;
}
