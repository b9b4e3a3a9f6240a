/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <inttypes.h>
#include <math.h>

#include "../output.h"

const char *const perf_op_names[] = {"sdr", "rvma", "rdma", NULL}, *const perf_way_names[] = {"forward", "reverse",
											      "bidir", "latency", NULL};

static const struct {
	const char *name;
	double part;
} percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};
#define PERCENTILES (sizeof(percentiles) / sizeof(*percentiles))

/* Of samples in rising order: the least one that so large a part of them does not exceed. */
static double percentile(const struct perf_measured *m, double part)
{
	const size_t at = (size_t)ceil((double)m->samples * part);

	return m->sample[at ? at - 1 : 0];
}

static double mean(const struct perf_measured *m)
{
	double sum = 0;

	for (size_t i = 0; i < m->samples; i++)
		sum += m->sample[i];
	return sum / (double)m->samples;
}

static double gigabits(const struct perf_plan *p, uint64_t messages, uint64_t ns)
{
	return ns ? (double)messages * (double)p->size * 8 / (double)ns : 0;
}

/* ---- text ---- */
static void show_amount(const struct perf_plan *p, const char *what, uint64_t messages, uint64_t ns)
{
	printf("  %s %" PRIu64 " messages, %.2f MB, %.3f Gbit/s", what, messages,
	       (double)messages * (double)p->size / 1e6, gigabits(p, messages, ns));
}

void perf_show_row(const struct perf_plan *p, const struct perf_row *row)
{
	printf("%8.2f-%.2f s", (double)row->begin / 1e9, (double)row->end / 1e9);
	if (row->sent)
		show_amount(p, "sent", row->sent, row->end - row->begin);
	if (row->received)
		show_amount(p, "received", row->received, row->end - row->begin);
	putchar('\n');
	fflush(stdout);
}

static void show_end(const struct perf_plan *p, const char *who, const struct perf_result *r)
{
	printf("%s:", who);
	if (r->sent)
		show_amount(p, "sent", r->sent, r->time);
	if (r->received)
		show_amount(p, "received", r->received, r->time);
	printf("  in %.2f s; processors: program %.0f%%, NIC %.0f%%\n", (double)r->time / 1e9,
	       (double)r->program * 100 / (double)r->time, (double)r->nic * 100 / (double)r->time);
}

static void show_latency(const struct perf_measured *m)
{
	double bound = 1;

	printf("round trips: %zu; us: least %.2f, mean %.2f", m->samples, m->sample[0], mean(m));
	for (size_t i = 0; i < PERCENTILES; i++)
		printf(", %s %.2f", percentiles[i].name, percentile(m, percentiles[i].part));
	printf(", most %.2f\n", m->sample[m->samples - 1]);
	for (size_t i = 0, from = 0; i < m->samples; bound *= 2, from = i) {
		while (i < m->samples && m->sample[i] <= bound)
			i++;
		if (i > from)
			printf("%12.0f us or less: %zu\n", bound, i - from);
	}
}

void perf_show(const struct perf_plan *p, const struct perf_measured *m)
{
	show_end(p, "here", &m->own);
	show_end(p, "peer", &m->peer);
	if (m->samples)
		show_latency(m);
	fflush(stdout);
}

/* ---- JSON ---- */
static json_t *amount(const struct perf_plan *p, uint64_t messages, uint64_t ns)
{
	return json_pack("{s:I, s:I, s:f}", "messages", (json_int_t)messages, "bytes", (json_int_t)(messages * p->size),
			 "bits_per_second", gigabits(p, messages, ns) * 1e9);
}

static json_t *end_json(const struct perf_plan *p, const struct perf_result *r)
{
	return json_pack("{s:f, s:o, s:o, s:{s:f, s:f}}", "seconds", (double)r->time / 1e9, "sent",
			 amount(p, r->sent, r->time), "received", amount(p, r->received, r->time), "cpu_percent",
			 "program", (double)r->program * 100 / (double)r->time, "nic",
			 (double)r->nic * 100 / (double)r->time);
}

static json_t *rows_json(const struct perf_plan *p, const struct perf_measured *m)
{
	json_t *rows = json_array();

	for (const struct perf_row *row = m->row; row < m->row + m->rows; row++)
		json_array_append_new(rows, json_pack("{s:f, s:f, s:o, s:o}", "begin", (double)row->begin / 1e9, "end",
						      (double)row->end / 1e9, "sent",
						      amount(p, row->sent, row->end - row->begin), "received",
						      amount(p, row->received, row->end - row->begin)));
	return rows;
}

static json_t *latency_json(const struct perf_measured *m)
{
	json_t *o = json_pack("{s:I, s:f, s:f, s:f}", "count", (json_int_t)m->samples, "min", m->sample[0], "mean",
			      mean(m), "max", m->sample[m->samples - 1]);
	json_t *histogram = json_array();
	double bound = 1;

	for (size_t i = 0; i < PERCENTILES; i++)
		json_object_set_new(o, percentiles[i].name, json_real(percentile(m, percentiles[i].part)));
	for (size_t i = 0, from = 0; i < m->samples; bound *= 2, from = i) {
		while (i < m->samples && m->sample[i] <= bound)
			i++;
		if (i > from)
			json_array_append_new(histogram, json_pack("[f, I]", bound, (json_int_t)(i - from)));
	}
	json_object_set_new(o, "histogram", histogram);
	return o;
}

int perf_show_json(const struct perf_plan *p, const struct perf_measured *m)
{
	json_t *o =
		json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "op", perf_op_names[p->op], "way",
			  perf_way_names[p->way], "size", (json_int_t)p->size, "depth", (json_int_t)p->depth,
			  "intervals", rows_json(p, m), "here", end_json(p, &m->own), "peer", end_json(p, &m->peer));

	if (o && m->samples)
		json_object_set_new(o, "round_trip_us", latency_json(m));
	return output_json(o, JSON_COMPACT | JSON_PRESERVE_ORDER);
}
