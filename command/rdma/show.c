/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../output.h"

static const char *const op_names[] = {"send", "write", "read", "atomic"}, *const type_names[] = {"rc", "uc", "ud"};

int show_family(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, 0xFF};

	return memcmp(ip, mapped, sizeof(mapped)) ? AF_INET6 : AF_INET;
}

static const char *text_ip(const uint8_t ip[16], char text[64])
{
	const bool four = show_family(ip) == AF_INET;

	return inet_ntop(four ? AF_INET : AF_INET6, four ? ip + 12 : ip, text, 64);
}

void show_head(const struct rdma_asked *a)
{
	char ip[64];

	if (a->json)
		return;
	if (a->mode == RDMA_BW)
		printf("#bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n");
	else if (a->mode == RDMA_LAT)
		printf("#bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
		       "t_stdev[usec]   99%% percentile[usec]   99.9%% percentile[usec]\n");
	else
		printf("ping %s: %" PRIu64 " bytes, %s\n", text_ip(a->to, ip), a->size, type_names[a->type]);
	fflush(stdout);
}

void show_listening(const struct rdma_asked *a, uint16_t port)
{
	if (a->json)
		output_json(json_pack("{s:i}", "port", (int)port), JSON_COMPACT);
	else
		printf("listening: port %u\n", port);
	fflush(stdout);
}

void show_bw(const struct rdma_asked *a, const struct show_bw *r)
{
	const double seconds = r->seconds > 0 ? r->seconds : 1e-9, rate = (double)r->iterations / seconds,
		     average = rate * (double)r->size, best = r->peak > average ? r->peak : average;
	json_t *o;

	if (!a->json) {
		printf(" %-10" PRIu64 " %-15" PRIu64 " %-18.2f %-20.2f %.6f", r->size, r->iterations, best * 8 / 1e9,
		       average * 8 / 1e9, rate / 1e6);
		if (r->counted && r->received < r->iterations)
			printf("  lost: %" PRIu64, r->iterations - r->received);
		putchar('\n');
		fflush(stdout);
		return;
	}
	o = json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f}", "test", a->verb, "op", op_names[a->op], "qp",
		      type_names[a->type], "bytes", (json_int_t)r->size, "iterations", (json_int_t)r->iterations,
		      "seconds", r->seconds, "bw_peak_gbps", best * 8 / 1e9, "bw_average_gbps", average * 8 / 1e9,
		      "msg_rate_mpps", rate / 1e6);
	if (o && r->counted)
		json_object_set_new(o, "received", json_integer((json_int_t)r->received));
	if (o && r->srq)
		json_object_set_new(o, "srq", json_true());
	if (o && r->verified)
		json_object_set_new(o, "bad", json_integer((json_int_t)r->bad));
	output_json(o, JSON_COMPACT);
	fflush(stdout);
}

/* ---- latency ---- */
static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct figures {
	double min, max, typical, average, deviation, p99, p999;
};

static struct figures figures(double *s, size_t n)
{
	struct figures f = {0};
	double sum = 0, squares = 0;

	if (!n)
		return f;
	qsort(s, n, sizeof(*s), compare);
	for (size_t i = 0; i < n; i++)
		sum += s[i];
	f.average = sum / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (s[i] - f.average) * (s[i] - f.average);
	f.deviation = sqrt(squares / (double)n);
	f.min = s[0];
	f.max = s[n - 1];
	f.typical = s[n / 2];
	f.p99 = s[n - 1 - n / 100];
	f.p999 = s[n - 1 - n / 1000];
	return f;
}

void show_lat(const struct rdma_asked *a, uint64_t size, double *sample, size_t samples, uint64_t lost)
{
	const struct figures f = figures(sample, samples);

	if (a->json) {
		output_json(json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "test",
				      a->verb, "op", op_names[a->op], "qp", type_names[a->type], "bytes",
				      (json_int_t)size, "iterations", (json_int_t)samples, "lost", (json_int_t)lost,
				      "t_min_us", f.min, "t_max_us", f.max, "t_typical_us", f.typical, "t_avg_us",
				      f.average, "t_stdev_us", f.deviation, "p99_us", f.p99, "p999_us", f.p999),
			    JSON_COMPACT);
	} else {
		printf(" %-6" PRIu64 " %-14zu %-14.2f %-14.2f %-16.2f %-14.2f %-15.2f %-22.2f %.2f", size, samples,
		       f.min, f.max, f.typical, f.average, f.deviation, f.p99, f.p999);
		if (lost)
			printf("  lost: %" PRIu64, lost);
		putchar('\n');
	}
	fflush(stdout);
}

void show_ping(const struct rdma_asked *a, uint64_t size, uint64_t number, double us)
{
	char ip[64];

	text_ip(a->to, ip);
	if (a->json) {
		json_t *o = json_pack("{s:s, s:I, s:I}", "from", ip, "number", (json_int_t)number, "bytes",
				      (json_int_t)size);

		if (o)
			json_object_set_new(o, "us", us < 0 ? json_null() : json_real(us));
		output_json(o, JSON_COMPACT);
	} else if (us < 0) {
		printf("%s: number %" PRIu64 ": lost\n", ip, number);
	} else {
		printf("%" PRIu64 " bytes from %s: number %" PRIu64 ", %.2f us\n", size, ip, number, us);
	}
	fflush(stdout);
}

void show_ping_end(const struct rdma_asked *a, uint64_t sent, double *sample, size_t samples)
{
	const struct figures f = figures(sample, samples);

	if (a->json)
		output_json(json_pack("{s:I, s:I, s:f, s:f, s:f, s:f}", "sent", (json_int_t)sent, "received",
				      (json_int_t)samples, "min_us", f.min, "avg_us", f.average, "max_us", f.max,
				      "stdev_us", f.deviation),
			    JSON_COMPACT);
	else
		printf("%" PRIu64 " sent, %zu received; min/avg/max/stdev = %.2f/%.2f/%.2f/%.2f us\n", sent, samples,
		       f.min, f.average, f.max, f.deviation);
	fflush(stdout);
}
