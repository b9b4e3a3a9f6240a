/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include <inttypes.h>
#include <math.h>

#include "../../pipeline/observe/trace.h"

static double ns(sp_time t)
{
	return (double)t / (double)SP_NS;
}

static double mean(sp_time sum, uint64_t n)
{
	return n ? ns(sum) / (double)n : 0;
}

static double share(const struct sp_device_run *run, const struct sp_device_row *row)
{
	const sp_time busy = sp_device_run_cores(run)->busy;

	return busy ? (double)row->busy / (double)busy : 0;
}

/* "given", "measured", or "given and measured". */
static const char *costs_of(const struct sp_device_run *run)
{
	const struct sp_device_row *row;
	bool measured = false, given = false;

	for (unsigned i = 0; (row = sp_device_run_row(run, i)); i++)
		*(row->measured ? &measured : &given) = true;
	return measured && given ? "given and measured" : measured ? "measured" : "given";
}

/* Of what is seen: how much, how long after the packet, and when at last. */
static void seen_json(json_t *to, const char *name, const struct sp_device_seen *s)
{
	json_object_set_new(to, name,
			    json_pack("{s:I, s:I, s:f, s:f, s:f}", "calls", (json_int_t)s->count, "bytes",
				      (json_int_t)s->bytes, "after_ns", mean(s->sum, s->count), "after_most_ns",
				      ns(s->most), "last_ns", ns(s->last)));
}

static json_t *row_json(const struct sp_device_run *run, const struct sp_device_row *row)
{
	json_t *o = json_pack("{s:s, s:s, s:b, s:b, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "handler",
			      row->handler, "function", sp_called_name((enum sp_called)row->function), "measured",
			      row->measured, "serial", row->serial, "calls", (json_int_t)row->calls, "cycles",
			      row->cycles / (double)row->calls, "cycles_least", row->least, "cycles_most", row->most,
			      "busy_ns", ns(row->busy), "share", share(run, row), "occupancy",
			      share(run, row) * sp_device_run_occupancy(run), "wait_ns", mean(row->wait, row->calls),
			      "wait_most_ns", ns(row->wait_most));

	if (o && row->memory.count)
		seen_json(o, "memory", &row->memory);
	if (o && row->events.count)
		seen_json(o, "events", &row->events);
	return o;
}

json_t *sp_device_report_json(const struct sp_device_run *run)
{
	const struct sp_device *d = sp_device_run_device(run);
	const struct sp_device_tally *t = sp_device_run_tally(run);
	const struct sp_cores *cores = sp_device_run_cores(run), *dma = sp_device_run_dma(run);
	const sp_time span = t->end > t->first ? t->end - t->first : 0;
	const struct sp_device_row *row;
	const char *limit;
	const double most = sp_device_run_most(run, &limit);
	json_t *rows = json_array(), *all;

	for (unsigned i = 0; (row = sp_device_run_row(run, i)); i++)
		json_array_append_new(rows, row_json(run, row));
	all = json_pack("{s:s, s:I, s:f, s:I, s:s, s:I, s:I, s:f, s:I, s:f, s:f, s:f, s:s?, s:f}", "name", d->name,
			"cores", (json_int_t)cores->count, "clock_hz",
			(double)SP_SEC / ((double)sp_device_time(d, 1e6) / 1e6), "line_rate_bps",
			(json_int_t)d->line_rate, "costs", costs_of(run), "packets", (json_int_t)t->packets, "bytes",
			(json_int_t)t->bytes, "span_ns", ns(span), "calls", (json_int_t)t->calls, "occupancy",
			sp_device_run_occupancy(run), "packets_per_second", sp_device_run_offered(run),
			"packets_per_second_most", most, "limit", limit, "cores_for_line_rate",
			sp_device_run_cores_needed(run));
	json_object_update_new(all, json_pack("{s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:o}",
					      "latency_ns", mean(t->latency, t->packets), "latency_least_ns",
					      ns(t->latency_least), "latency_most_ns", ns(t->latency_most), "wait_ns",
					      mean(t->wait, t->calls), "wait_most_ns", ns(t->wait_most),
					      "held_packets_most", (json_int_t)t->held_most, "held_bytes_most",
					      (json_int_t)t->held_bytes_most, "overflows", (json_int_t)t->overflows,
					      "order_lost", (json_int_t)t->forgotten, "dma_bytes",
					      (json_int_t)t->writes, "dma_busy_ns", ns(dma->busy), "handlers", rows));
	json_object_update_new(
		all, json_pack("{s:f, s:f}", "memory_last_ns", ns(t->memory_last), "event_last_ns", ns(t->event_last)));
	return all;
}

static void limit_text(const struct sp_device_run *run, FILE *out)
{
	const struct sp_device *d = sp_device_run_device(run);
	const double needed = sp_device_run_cores_needed(run);
	const char *limit;
	const double most = sp_device_run_most(run, &limit);

	if (limit)
		fprintf(out, "  it could take %.6g packets a second like these (limit: %s)\n", most, limit);
	if (d->line_rate && needed > 0)
		fprintf(out, "  at its line rate of %.4g Gbit/s they need %.0f core%s (%.3f busy)\n",
			(double)d->line_rate / 1e9, ceil(needed - 1e-9), needed > 1 ? "s" : "", needed);
}

static void row_text(const struct sp_device_run *run, const struct sp_device_row *row, FILE *out)
{
	char name[2 * SP_COST_NAME];

	snprintf(name, sizeof(name), "%s.%s", row->handler, sp_called_name((enum sp_called)row->function));
	fprintf(out, "  %-28s %9" PRIu64 " %11.1f %8.2f %% %10.4f %% %11.1f%s%s\n", name, row->calls,
		row->cycles / (double)row->calls, 100 * share(run, row),
		100 * share(run, row) * sp_device_run_occupancy(run), mean(row->wait, row->calls),
		row->measured ? "  measured" : "", row->serial ? "  in order" : "");
}

static void seen_text(const struct sp_device_row *row, const char *what, const struct sp_device_seen *s, FILE *out)
{
	char name[2 * SP_COST_NAME];

	if (!s->count)
		return;
	snprintf(name, sizeof(name), "%s.%s, %s", row->handler, sp_called_name((enum sp_called)row->function), what);
	fprintf(out, "  %-28s %9" PRIu64 " %11" PRIu64 " %10.1f %12.1f %11.9f\n", name, s->count, s->bytes,
		mean(s->sum, s->count), ns(s->most), (double)s->last / (double)SP_SEC);
}

void sp_device_report_text(const struct sp_device_run *run, FILE *out)
{
	const struct sp_device *d = sp_device_run_device(run);
	const struct sp_device_tally *t = sp_device_run_tally(run);
	const struct sp_cores *cores = sp_device_run_cores(run);
	const struct sp_device_row *row;

	fprintf(out, "device %s: %" PRIu32 " core%s of %.4g MHz, costs %s\n", d->name, cores->count,
		cores->count == 1 ? "" : "s", (double)SP_SEC / (double)sp_device_time(d, 1e6), costs_of(run));
	fprintf(out, "  %" PRIu64 " packets, %.6g a second; cores busy %.4f %%\n", t->packets,
		sp_device_run_offered(run), 100 * sp_device_run_occupancy(run));
	limit_text(run, out);
	fprintf(out, "  latency %.1f ns on average, %.1f to %.1f; wait for a core %.1f ns, at most %.1f\n",
		mean(t->latency, t->packets), ns(t->latency_least), ns(t->latency_most), mean(t->wait, t->calls),
		ns(t->wait_most));
	fprintf(out, "  at most %" PRIu32 " packets, %" PRIu64 " bytes in the device", t->held_most,
		t->held_bytes_most);
	if (d->buffer)
		fprintf(out, "; %" PRIu64 " found its buffer full", t->overflows);
	fprintf(out, "\n  %-28s %9s %11s %10s %12s %11s\n", "", "calls", "cycles", "share", "occupancy", "wait ns");
	for (unsigned i = 0; (row = sp_device_run_row(run, i)); i++)
		row_text(run, row, out);
	if (t->memory_last || t->event_last)
		fprintf(out, "  %-28s %9s %11s %10s %12s %11s\n", "what the host sees:", "calls", "bytes", "after ns",
			"at most ns", "last at s");
	for (unsigned i = 0; (row = sp_device_run_row(run, i)); i++) {
		seen_text(row, "memory", &row->memory, out);
		seen_text(row, "events", &row->events, out);
	}
}
