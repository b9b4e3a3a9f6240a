/* SPDX-License-Identifier: BSD-3-Clause */
#include "iperf3.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define GIB (double)(1u << 30)

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

/* Processor seconds of both. */
static double processor(const json_t *all)
{
	const json_t *end = json_object_get(all, "end"), *used = json_object_get(end, "cpu_utilization_percent");

	return (json_number_value(json_object_get(used, "host_total")) +
		json_number_value(json_object_get(used, "remote_total"))) /
	       100 * json_number_value(json_object_get(json_object_get(end, "sum"), "seconds"));
}

int bench_iperf3_round(const struct bench_house *h, unsigned datagram, uint64_t bytes, struct bench_round *round,
		       struct bench_why *why)
{
	const char *address = h->holder[0] ? "198.51.100.1" : "127.0.0.1";
	char length[16], count[32];
	const char *const server[] = {"iperf3", "-s", "-1", "-B", address, "--forceflush", NULL};
	const char *const client[] = {"iperf3", "-u", "-c", address, "-b", "0", "-l", length, "-n", count, "-J", NULL};
	struct bench_start start = {.argv = server, .space = h->holder[0] ? 0 : -1};
	struct bench_child s = {.out = -1}, c = {.out = -1};
	json_t *all = NULL;
	char line[128];
	FILE *f = NULL;
	int r;

	snprintf(length, sizeof(length), "%u", datagram);
	snprintf(count, sizeof(count), "%llu", (unsigned long long)bytes);
	r = bench_child_start(h, &start, &s, why);
	while (!r) { /* a line of dashes, then "Server listening on ..." */
		r = bench_child_line(h, &s, 10, line, sizeof(line), why);
		if (r == -EPIPE && bench_child_end(h, &s, 10, why) == -ENOENT)
			return bench_fail(why, BENCH_SKIPPED, "iperf3 is not installed (Debian package iperf3)");
		if (!r && !strncmp(line, "Server listening", 16))
			break;
	}
	start = (struct bench_start){.argv = client, .space = h->holder[0] ? 1 : -1};
	if (!r)
		r = bench_child_start(h, &start, &c, why);
	if (!r) {
		f = fdopen(dup(c.out), "r");
		all = f ? json_loadf(f, 0, NULL) : NULL; /* ends with the process, which -n bounds */
		if (f)
			fclose(f);
		r = bench_child_end(h, &c, 10, why);
	}
	bench_child_stop(&c);
	bench_child_stop(&s);
	round->value = received_rate(all) / 8e6;
	round->processor = processor(all) / ((double)bytes / GIB);
	json_decref(all);
	if (!r && round->value <= 0)
		r = bench_fail(why, -EPROTO, "iperf3 reported no rate");
	return r;
}
