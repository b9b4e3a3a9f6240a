/* SPDX-License-Identifier: BSD-3-Clause */
#include "outcome.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../output.h"

static uint64_t missing(const struct demo *d, const struct demo_lane *l)
{
	return d->chunks - l->good - l->differing;
}

static bool wrong(const struct demo_lane *l)
{
	return l->differing || l->stray;
}

/* Chunks that arrived in that way. */
static uint64_t came(const struct demo *d, const struct demo_lane *l, enum demo_kind how)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < d->chunks; i++)
		n += l->chunk[i].how == how;
	return n;
}

static double slowdown(const struct demo *d, const struct demo_lane *l)
{
	return (double)l->time / (double)d->lossless;
}

/* ---- as text ---- */
static void print_missing(const struct demo *d, const struct demo_lane *l)
{
	unsigned listed = 0;

	for (uint64_t k = 0; k < d->messages; k++) {
		const struct demo_message *m = &d->message[k];
		uint64_t lacks = 0, shown = 0;

		for (uint64_t i = 0; i < m->chunks; i++) {
			if (l->chunk[m->first_chunk + i].came != SP_NEVER)
				continue;
			if (!lacks++ && listed++ == 16) {
				printf("            ...\n");
				return;
			}
			if (lacks == 1)
				printf("            message %llu:", (unsigned long long)k);
			if (shown < 12) {
				printf(" %llu", (unsigned long long)i);
				shown++;
			}
		}
		if (lacks > shown)
			printf(" and %llu more", (unsigned long long)(lacks - shown));
		if (lacks)
			printf("\n");
	}
}

static void row(const struct demo *d, const char *name, uint64_t (*of)(const struct demo *d, const struct demo_lane *l))
{
	printf("%-18s", name);
	for (unsigned i = 0; i < d->o.lanes; i++)
		printf("%16llu", (unsigned long long)of(d, &d->lane[i]));
	printf("\n");
}

#define FIGURE(name, value)                                                                                            \
	static uint64_t name(const struct demo *d, const struct demo_lane *l)                                          \
	{                                                                                                              \
		(void)d;                                                                                               \
		return value;                                                                                          \
	}
FIGURE(packets, l->packets)
FIGURE(lost, l->lost)
FIGURE(again, l->again)
FIGURE(parity, l->parity)
FIGURE(repaired, came(d, l, DEMO_REPAIRED))
FIGURE(same, l->good)

static void print_table(const struct demo *d)
{
	printf("\n%-18s", "");
	for (unsigned i = 0; i < d->o.lanes; i++)
		printf("%16s", d->lane[i].title);
	printf("\n%-18s", "time, ms");
	for (unsigned i = 0; i < d->o.lanes; i++)
		printf("%16.3f", demo_ms(d->lane[i].time));
	printf("\n%-18s", "over lossless");
	for (unsigned i = 0; i < d->o.lanes; i++)
		printf("%15.2fx", slowdown(d, &d->lane[i]));
	printf("\n");
	row(d, "packets", packets);
	row(d, "lost", lost);
	row(d, "sent again", again);
	row(d, "of parity", parity);
	row(d, "chunks repaired", repaired);
	row(d, "chunks missing", missing);
	row(d, "chunks compared", same);
}

static void print_text(const struct demo *d)
{
	bool same_all = true;

	print_table(d);
	for (unsigned i = 0; i < d->o.lanes; i++) {
		const struct demo_lane *l = &d->lane[i];

		same_all &= !wrong(l);
		if (wrong(l))
			printf("DIFFERENT   %s: %llu chunks differ from the source, %llu packets' places hold what was "
			       "never sent\n",
			       l->title, (unsigned long long)l->differing, (unsigned long long)l->stray);
		if (missing(d, l)) {
			printf("missing     %s: %llu chunk%s\n", l->title, (unsigned long long)missing(d, l),
			       demo_s(missing(d, l)));
			print_missing(d, l);
		}
	}
	if (same_all)
		printf("Every chunk that came was compared with the source, byte by byte, and is the same.\n");
	printf("seed        %llu (--seed %llu repeats this run exactly)\n", (unsigned long long)d->o.link.seed,
	       (unsigned long long)d->o.link.seed);
}

/* ---- as JSON ---- */
static json_t *messages_json(const struct demo *d, const struct demo_lane *l)
{
	char *bits = malloc(demo_units(d->o.message, d->o.chunk) + 1);
	json_t *list = json_array();

	for (uint64_t k = 0; bits && k < d->messages; k++) {
		const struct demo_message *m = &d->message[k];
		bool complete = true;

		for (uint64_t i = 0; i < m->chunks; i++) {
			bits[i] = l->chunk[m->first_chunk + i].came != SP_NEVER ? '1' : '0';
			complete &= bits[i] == '1';
		}
		bits[m->chunks] = '\0';
		json_array_append_new(list, json_pack("{s:I, s:s, s:b}", "bytes", (json_int_t)m->len, "chunk_bitmap",
						      bits, "complete", (int)complete));
	}
	free(bits);
	return list;
}

static json_t *lane_json(const struct demo *d, const struct demo_lane *l)
{
	const struct sp_link_counters *n = &l->link;

	return json_pack(
		"{s:s, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I, "
		"s:I}, s:o}",
		"scheme", l->scheme->name, "time_s", (double)l->time / (double)SP_SEC, "slowdown", slowdown(d, l),
		"packets", (json_int_t)l->packets, "lost_packets", (json_int_t)l->lost, "retransmitted_packets",
		(json_int_t)l->again, "parity_packets", (json_int_t)l->parity, "decoded_chunks",
		(json_int_t)l->repaired, "repaired_chunks", (json_int_t)came(d, l, DEMO_REPAIRED), "resent_chunks",
		(json_int_t)came(d, l, DEMO_AGAIN), "arrived", (json_int_t)(l->good + l->differing), "differing",
		(json_int_t)l->differing, "stray", (json_int_t)l->stray, "duplicates", (json_int_t)l->duplicates,
		"late", (json_int_t)l->late, "link", "sent", (json_int_t)n->offered, "lost", (json_int_t)n->lost,
		"duplicated", (json_int_t)n->duplicated, "reordered", (json_int_t)n->reordered, "corrupted",
		(json_int_t)n->corrupted, "messages", messages_json(d, l));
}

static int print_json(const struct demo *d)
{
	const struct sp_link_direction *w = d->o.link.direction;
	json_t *lanes = json_array();
	json_t *root = json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:[I, I], s:o}", "file", d->o.file, "bytes",
		(json_int_t)d->size, "packets", (json_int_t)d->packets, "chunks", (json_int_t)d->chunks, "seed",
		(json_int_t)d->o.link.seed, "mtu", (json_int_t)d->o.mtu, "chunk_bytes", (json_int_t)d->o.chunk,
		"bandwidth", (json_int_t)w->bandwidth, "rtt_s", (double)(2 * w->delay) / (double)SP_SEC, "lossless_s",
		(double)d->lossless / (double)SP_SEC, "ec", (json_int_t)d->o.k, (json_int_t)d->o.m, "lanes", lanes);

	for (unsigned i = 0; i < d->o.lanes; i++)
		json_array_append_new(lanes, lane_json(d, &d->lane[i]));
	return output_json(root, JSON_INDENT(2)) ? demo_fail("JSON", -ENOMEM) : 0;
}

int demo_outcome(const struct demo *d)
{
	int status = 0;

	if (d->o.json)
		status = print_json(d);
	else
		print_text(d);
	if (fflush(stdout) || ferror(stdout))
		status = demo_fail("standard output", -errno);
	for (unsigned i = 0; i < d->o.lanes; i++)
		status |= wrong(&d->lane[i]) || (d->lane[i].scheme->scheme >= 0 && missing(d, &d->lane[i]));
	return status;
}
