/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs cases of `spindle bench`, and some of its own, a fixed number of times each, for callgrind to count their
 * instructions: those of sp_nic_poll() and what it calls, which counts.py tells it to collect, or of a kernel alone. A
 * first run fills tables and caches and does not count. SPINDLE_ISA names the level of instructions; where the
 * processor lacks it, "level skipped WHY" is all that is said. Prints a line for each case: its label, how many units
 * it had, of what; or that it is skipped, and why. counts [LABEL...]
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <rte_version.h>
#include <valgrind/callgrind.h>

#include "../../pipeline/nic.h"
#include "../../testbed/bench/cases.h"
#include "../../handlers/isa/isa.h"
#include "kernels.h"
#include "timers.h"

#define RUNS 2

#ifdef __clang__
#define COMPILER "clang " __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* A run of no time at all is one pass of the capture, or so many bursts, or one message. */
static const struct row {
	const char *label, *name;
	const struct bench_case *own; /* no case of spindle bench */
	const char *unit;	      /* of `own` */
	bool icrc;
	double kib; /* of a run, where KiB are what is counted, else packets, of which the case knows how many */
	double all; /* packets that it polls for each that it tells; 0: as many */
} rows[] = {
	{.label = "sdr-receive-64", .name = "sdr-receive-64"},
	{.label = "sdr-receive-64-icrc", .name = "sdr-receive-64", .icrc = true},
	{.label = "sdr-receive-4096", .name = "sdr-receive-4096"},
	{.label = "sdr-receive-4096-icrc", .name = "sdr-receive-4096", .icrc = true},
	{.label = "sdr-chunk-64", .name = "sdr-chunk-64"},
	{.label = "sdr-chunk-64-icrc", .name = "sdr-chunk-64", .icrc = true},
	{.label = "sdr-metered-64", .name = "sdr-metered-64"},
	{.label = "sdr-send-64", .name = "sdr-send-64", .icrc = true},
	{.label = "sdr-send-4096", .name = "sdr-send-4096", .icrc = true},
	{.label = "rvma-receive-64", .name = "rvma-receive-64-1"},
	{.label = "ec-encode-4-2", .name = "ec-encode-4-2-64K-warm", .kib = 4 * 64},
	{.label = "ec-decode-4-2", .name = "ec-decode-4-2-64K-warm", .kib = 4 * 64},
	{.label = "ec-encode-xor-4-2", .name = "ec-encode-xor-4-2-64K-warm", .kib = 4 * 64},
	{.label = "ec-decode-xor-4-2", .name = "ec-decode-xor-4-2-64K-warm", .kib = 4 * 64},
	{.label = "null", .name = "null"},
	{.label = "null-icrc", .name = "null", .icrc = true},
	{.label = "count", .name = "count"},
	{.label = "reflect", .name = "reflect"},
	{.label = "filters-1", .name = "filters-1"},
	{.label = "filters-32", .name = "filters-32"},
	{.label = "qps-1", .name = "qps-1"},
	{.label = "qps-100000", .name = "qps-100000"},
	{.label = "contexts-1000", .name = "contexts-1000"},
	{.label = "applications-1000", .name = "applications-1000"},
	{.label = "bpf-responder", .name = "bpf-responder", .all = 2}, /* as many before it looks at the clock */
	{.label = "timers", .own = &counts_timers, .unit = "timer"},
	{.label = "icrc-64", .own = &counts_kernel[COUNTS_ICRC_64], .unit = "packet"},
	{.label = "icrc-1024", .own = &counts_kernel[COUNTS_ICRC_1024], .unit = "packet"},
	{.label = "icrc-4096", .own = &counts_kernel[COUNTS_ICRC_4096], .unit = "packet"},
	{.label = "place-1024", .own = &counts_kernel[COUNTS_PLACE_1024], .unit = "packet"},
	{.label = "place-4096", .own = &counts_kernel[COUNTS_PLACE_4096], .unit = "packet"},
};
#define ROWS (sizeof(rows) / sizeof(*rows))

static const struct bench_case *find(const struct row *row)
{
	for (unsigned i = 0; row->name && bench_case(i); i++)
		if (!strcmp(bench_case(i)->name, row->name))
			return bench_case(i);
	return row->own;
}

static int count(const struct row *row, const struct bench_case *c, void *state, struct bench_why *why)
{
	struct bench_round round = {0};
	double units = 0;
	int r = c->run(state, 0, &round, why);

	CALLGRIND_ZERO_STATS;
	for (unsigned i = 0; i < RUNS && !r; i++) {
		r = c->run(state, 0, &round, why);
		units += row->kib ? row->kib : (double)round.units * (row->all ? row->all : 1);
	}
	CALLGRIND_DUMP_STATS_AT(row->label);
	if (!r)
		printf("%s %.0f %s\n", row->label, units, row->kib ? "KiB" : row->own ? row->unit : "packet");
	return r;
}

static int run(const struct row *row)
{
	const struct bench_options o = {.rounds = 1, .icrc = row->icrc, .loss = -1};
	const struct bench_case *c = find(row);
	struct bench_why why = {"no such case"};
	void *state = NULL;
	int r = c ? c->open(&o, &state, &why) : -1;

	if (!r) {
		r = count(row, c, state, &why);
		c->close(state);
	}
	if (r == BENCH_SKIPPED)
		printf("%s skipped %s\n", row->label, why.text);
	else if (r)
		fprintf(stderr, "counts: %s: %s\n", row->label, why.text);
	fflush(stdout);
	return r != 0 && r != BENCH_SKIPPED;
}

static bool wanted(const char *label, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], label))
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	struct sp_error error = {.text = ""};
	char why[256];
	int failed = 0;

	if (sp_isa_check(why, sizeof(why))) {
		printf("with %s, %s\nlevel skipped %s\n", COMPILER, rte_version(), why);
		return 0;
	}
	if (sp_eal_init(0, NULL, &error)) {
		fprintf(stderr, "counts: %s\n", error.text);
		return 1;
	}
	printf("with %s, %s\n", COMPILER, rte_version());
	for (size_t i = 0; i < ROWS; i++)
		if (wanted(rows[i].label, argc, argv))
			failed |= run(&rows[i]);
	return failed;
}
