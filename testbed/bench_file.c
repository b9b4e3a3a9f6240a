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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_children.h"

#define SECONDS 120 /* for one transfer */

struct transfer {
	struct bench_house house;
	bool veth;
	uint64_t bytes;
	char file[128], received[128];
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

static int start_nics(struct transfer *t, struct bench_why *why)
{
	char port[2][128];
	int r;

	snprintf(port[0], sizeof(port[0]), t->veth ? "af_packet:left0" : "vhost:%s/wire", t->house.dir);
	snprintf(port[1], sizeof(port[1]), t->veth ? "af_packet:right0" : "virtio-user:%s/wire", t->house.dir);
	r = bench_nic_start(&t->house, 0, port[0], t->veth ? 0 : -1, why);
	return r ? r : bench_nic_start(&t->house, 1, port[1], t->veth ? 1 : -1, why);
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
	r = start_nics(t, why);
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
	struct bench_start start = {.argv = recv, .linked = true, .space = t->veth ? 0 : -1};
	struct bench_child receiver = {.out = -1}, sender = {.out = -1};
	double took = 0;
	char line[128];
	int link[2], r;

	(void)seconds;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link))
		return -errno;
	start.link = link[0];
	r = bench_child_start(&t->house, &start, &receiver, why);
	start = (struct bench_start){.argv = send, .linked = true, .link = link[1], .space = t->veth ? 1 : -1};
	if (!r)
		r = bench_child_start(&t->house, &start, &sender, why);
	close(link[0]);
	close(link[1]);
	if (!r)
		r = bench_child_line(&t->house, &sender, SECONDS, line, sizeof(line), why);
	if (!r && (sscanf(line, "%lf", &took) != 1 || took <= 0))
		r = -EPROTO;
	if (!r)
		r = bench_child_end(&t->house, &sender, 10, why);
	if (!r)
		r = bench_child_end(&t->house, &receiver, 10, why);
	bench_child_stop(&sender);
	bench_child_stop(&receiver);
	if (!r)
		round->value = (double)t->bytes / took / 1e6;
	return r;
}

/* Bits per second at the receiver. */
static double received_rate(const json_t *all)
{
	const json_t *end = json_object_get(all, "end"), *sum = json_object_get(end, "sum_received");

	if (json_number_value(json_object_get(sum, "bits_per_second")) > 0)
		return json_number_value(json_object_get(sum, "bits_per_second"));
	sum = json_object_get(end, "sum");
	return json_number_value(json_object_get(sum, "bits_per_second")) *
	       (1 - json_number_value(json_object_get(sum, "lost_percent")) / 100);
}

static int run_iperf3(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct transfer *t = state;
	const char *address = receiver_address(t);
	char bytes[32];
	/* 1436 bytes: the payload of an SDR packet on a port with an MTU of 1500. */
	const char *const server[] = {"iperf3", "-s", "-1", "-B", address, "--forceflush", NULL};
	const char *const client[] = {"iperf3", "-u", "-c", address, "-b", "0", "-l", "1436", "-n", bytes, "-J", NULL};
	struct bench_start start = {.argv = server, .space = t->veth ? 0 : -1};
	struct bench_child s = {.out = -1}, c = {.out = -1};
	json_t *all = NULL;
	char line[128];
	FILE *f = NULL;
	int r;

	(void)seconds;
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)t->bytes);
	r = bench_child_start(&t->house, &start, &s, why);
	while (!r) { /* a line of dashes, then "Server listening on ..." */
		r = bench_child_line(&t->house, &s, 10, line, sizeof(line), why);
		if (r == -EPIPE && bench_child_end(&t->house, &s, 10, why) == -ENOENT)
			return bench_fail(why, BENCH_SKIPPED, "iperf3 is not installed (Debian package iperf3)");
		if (!r && !strncmp(line, "Server listening", 16))
			break;
	}
	start = (struct bench_start){.argv = client, .space = t->veth ? 1 : -1};
	if (!r)
		r = bench_child_start(&t->house, &start, &c, why);
	if (!r) {
		f = fdopen(dup(c.out), "r");
		all = f ? json_loadf(f, 0, NULL) : NULL; /* ends with the process, which -n bounds */
		if (f)
			fclose(f);
		r = bench_child_end(&t->house, &c, 10, why);
	}
	bench_child_stop(&c);
	bench_child_stop(&s);
	round->value = received_rate(all) / 8e6;
	json_decref(all);
	if (!r && round->value <= 0)
		r = bench_fail(why, -EPROTO, "iperf3 reported no rate");
	return r;
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
	 .baseline = "TCP loopback",
	 .open = open_vhost,
	 .run = run_spindle,
	 .run_baseline = run_tcp,
	 .close = close_transfer},
	{.name = NULL}};
