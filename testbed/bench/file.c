/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file by `spindle send` and `recv` through two NICs, beside TCP (file to socket to file) and the UDP stream of
 * iperf3 over the same link. The NICs run only in their own rounds: otherwise the kernel would hand them a copy of all
 * TCP packets. send and recv compute a SHA-256 each, TCP does not.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../host-api/spindle.h"
#include "children.h"
#include "iperf3.h"
#include "stream.h"

#define SECONDS	 120  /* for one transfer */
#define DATAGRAM 1436 /* payload of an SDR packet on a port with an MTU of 1500 */
#define SLICE	 (1u << 20)

struct transfer {
	struct bench_house house;
	bool veth;
	uint64_t bytes;
	char file[128], received[128];
	double hash, sent; /* MB/s of this round's hashing alone and sending alone */
};

static void close_transfer(void *state)
{
	struct transfer *t = state;

	bench_house_close(&t->house);
	free(t);
}

static int make_file(const struct transfer *t)
{
	static uint64_t block[8192];
	uint64_t x = 88172645463325252ull, left = t->bytes;
	FILE *f = fopen(t->file, "w");

	if (!f)
		return -errno;
	while (left) {
		for (unsigned i = 0; i < 8192; i++) { /* xorshift: data that cannot be compressed */
			x ^= x << 13;
			x ^= x >> 7;
			block[i] = x ^= x << 17;
		}
		if (fwrite(block, 1, sizeof(block), f) != sizeof(block))
			break;
		left -= sizeof(block);
	}
	return (fclose(f) || left) ? -EIO : 0;
}

static int open_transfer(const struct bench_options *o, bool veth, void **state, struct bench_why *why)
{
	struct transfer *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->veth = veth;
	t->bytes = o->file_bytes;
	r = bench_house_open(&t->house, why);
	if (!r && veth) {
		r = bench_house_spaces(&t->house, why);
		if (r == -EPERM)
			r = BENCH_SKIPPED;
	}
	snprintf(t->file, sizeof(t->file), "%s/file", t->house.dir);
	snprintf(t->received, sizeof(t->received), "%s/received", t->house.dir);
	if (!r) {
		r = make_file(t);
		if (r)
			snprintf(why->text, sizeof(why->text), "%s: %s", t->file, strerror(-r));
	}
	if (r)
		close_transfer(t);
	else
		*state = t;
	return r;
}

static const char *receiver_address(const struct transfer *t)
{
	return t->veth ? "198.51.100.1" : "127.0.0.1";
}

static int run_spindle(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct transfer *t = state;
	char host[64], listen[64], line[1024];
	const char *const recv[] = {"spindle", "recv", "--nic",	    "left",   "--once", "--listen",
				    listen,    "-o",   t->received, "--json", NULL};
	struct bench_start start = {.argv = recv, .both = true, .space = t->veth ? 0 : -1};
	const char *const send[] = {"spindle", "send", t->file, host, "--nic", "right", "--json", NULL};
	struct bench_child receiver = {.out = -1}, sender = {.out = -1};
	json_t *said = NULL;
	int r;

	(void)seconds;
	snprintf(listen, sizeof(listen), "%s:0", receiver_address(t));
	r = bench_nics_start(&t->house, t->veth ? "af_packet" : "vhost", why);
	if (!r)
		r = bench_child_start(&t->house, &start, &receiver, why);
	while (!r) {
		r = bench_child_line(&t->house, &receiver, BENCH_PATIENCE, line, sizeof(line), why);
		if (!r && sscanf(line, "spindle recv: listening on %63s", host) == 1)
			break;
	}
	start = (struct bench_start){.argv = send, .space = t->veth ? 1 : -1};
	if (!r)
		r = bench_child_start(&t->house, &start, &sender, why);
	if (!r)
		r = bench_child_line(&t->house, &sender, SECONDS, line, sizeof(line), why);
	if (!r)
		r = bench_child_end(&t->house, &sender, 10, why);
	if (!r)
		r = bench_child_end(&t->house, &receiver, 10, why);
	bench_child_stop(&sender);
	bench_child_stop(&receiver);
	bench_nics_stop(&t->house);
	if (r)
		return r;
	said = json_loads(line, 0, NULL);
	round->value = json_number_value(json_object_get(said, "rate")) / 8e6;
	json_decref(said);
	if (round->value > 0)
		return 0;
	return bench_fail(why, -EPROTO, "no rate: %s", line);
}

static int run_tcp(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct transfer *t = state;
	const char *address = receiver_address(t);
	const char *const recv[] = {"spindle", "bench", "--end", "tcp", "recv", address, "0", t->received, NULL};
	const char *const send[] = {"spindle", "bench", "--end", "tcp", "send", address, "0", t->file, NULL};
	double took = 0;
	char line[128];
	int r;

	(void)seconds;
	r = bench_children_pair(&t->house, &(struct bench_start){.argv = recv, .space = t->veth ? 0 : -1},
				&(struct bench_start){.argv = send, .space = t->veth ? 1 : -1}, SECONDS, line,
				sizeof(line), why);
	if (!r && (sscanf(line, "%lf", &took) != 1 || took <= 0))
		r = -EPROTO;
	if (!r)
		round->value = (double)t->bytes / took / 1e6;
	return r;
}

static int run_iperf3(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct transfer *t = state;

	(void)seconds;
	return bench_iperf3_round(&t->house, DATAGRAM, t->bytes, round, why);
}

/* ---- the parts of it: SHA-256, and sending from memory to memory ---- */
static int hash_file(const struct transfer *t, EVP_MD_CTX *sha, uint8_t *slice)
{
	const int fd = open(t->file, O_RDONLY | O_CLOEXEC);
	unsigned len = 0;
	ssize_t n = -1;

	if (fd < 0 || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1)
		return -EIO;
	while ((n = read(fd, slice, SLICE)) > 0 && EVP_DigestUpdate(sha, slice, (size_t)n) == 1)
		;
	close(fd);
	return n || EVP_DigestFinal_ex(sha, slice, &len) != 1 ? -EIO : 0;
}

static int run_hash(struct transfer *t, struct bench_why *why)
{
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	uint8_t *slice = malloc(SLICE);
	const sp_time begin = sp_clock();
	int r = sha && slice ? hash_file(t, sha, slice) : -ENOMEM;

	t->hash = (double)t->bytes / 1e6 / ((double)(sp_clock() - begin) / SP_SEC);
	free(slice);
	EVP_MD_CTX_free(sha);
	return r ? bench_fail(why, r, "no SHA-256 of %s", t->file) : 0;
}

/* Both, one after the other; the slower one is the value. */
static int run_alone(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct transfer *t = state;
	int r = run_hash(t, why);

	(void)seconds;
	if (!r)
		r = bench_nics_start(&t->house, "vhost", why);
	if (!r)
		r = bench_stream_round(&t->house, "sdr", DATAGRAM, t->bytes, round, why);
	bench_nics_stop(&t->house);
	round->processor = 0;
	t->sent = round->value;
	if (!r && t->hash < t->sent)
		round->value = t->hash;
	return r;
}

static int take_hash(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	const struct transfer *t = state;

	(void)seconds;
	(void)why;
	round->value = t->hash;
	return 0;
}

static int take_sent(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	const struct transfer *t = state;

	(void)seconds;
	(void)why;
	round->value = t->sent;
	return 0;
}

static int open_veth(const struct bench_options *o, void **state, struct bench_why *why)
{
	return open_transfer(o, true, state, why);
}

static int open_vhost(const struct bench_options *o, void **state, struct bench_why *why)
{
	return open_transfer(o, false, state, why);
}

const struct bench_case bench_file[] = {
	{.name = "file-veth",
	 .help = "a file by send and recv between two network namespaces joined by veth (af_packet ports)",
	 .unit = "MB/s",
	 .threads = 4,
	 .fresh = true,
	 .baseline = "TCP over the same veth",
	 .open = open_veth,
	 .run = run_spindle,
	 .run_baseline = run_tcp,
	 .other = {{"iperf3 -u over the same veth", run_iperf3}},
	 .close = close_transfer},
	{.name = "file-vhost",
	 .help = "a file by send and recv through two NICs joined by vhost-user",
	 .unit = "MB/s",
	 .threads = 4,
	 .fresh = true,
	 .baseline = "TCP loopback",
	 .open = open_vhost,
	 .run = run_spindle,
	 .run_baseline = run_tcp,
	 .other = {{"the slower of the next two", run_alone, 0.77}, /* 1.3 times the time */
		   {"SHA-256 of the file alone", take_hash, 0},
		   {"reliable SDR messages alone", take_sent, 0}},
	 .close = close_transfer},
	{.name = NULL}};
