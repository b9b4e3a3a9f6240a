/* SPDX-License-Identifier: BSD-3-Clause */
/* The chunk bitmap while it fills; and the outcome, compared with the source, as text or JSON. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "demo.h"

/* A smaller terminal gets plain lines. */
#define MIN_WIDTH  20
#define MIN_HEIGHT 6

/* ---- the picture ---- */
static uint64_t message_of(const struct demo *d, uint64_t chunk)
{
	uint64_t per = demo_units(d->o.message, d->o.chunk);

	return chunk / per;
}

/* Present now: as noted when its message ended, or in the live bitmap. */
static bool chunk_present(const struct demo *d, uint64_t chunk)
{
	const struct demo_message *m = &d->message[message_of(d, chunk)];
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

void demo_view_init(struct demo_view *v, bool live)
{
	*v = (struct demo_view){.live = live};
}

/* The terminal as it is now. False: too small for a picture. */
static bool measure(struct demo_view *v)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
		size = (struct winsize){.ws_col = 80, .ws_row = 24};
	if (size.ws_col < MIN_WIDTH || size.ws_row < MIN_HEIGHT) {
		v->drawn = 0; /* what is on the screen stays */
		return false;
	}
	if (v->drawn && (size.ws_col != v->width || size.ws_row != v->height)) {
		printf("\033[2J\033[H"); /* the terminal has wrapped the old picture: nobody knows where it starts */
		v->drawn = 0;
	}
	v->width = size.ws_col;
	v->height = size.ws_row;
	v->columns = size.ws_col > 200 ? 200 : size.ws_col;
	v->rows = size.ws_row > 30 ? 25 : size.ws_row < 9 ? 4 : size.ws_row - 5u;
	return true;
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

static void draw(struct demo *d, struct demo_view *v, bool last)
{
	const uint64_t room = (uint64_t)v->columns * v->rows;
	const uint64_t per = demo_units(d->chunks, room), cells = demo_units(d->chunks, per);
	struct sp_link_counters n;
	uint64_t present = present_count(d);
	unsigned lines = 0;
	char status[160];

	if (v->drawn)
		printf("\033[%uA", v->drawn);
	for (uint64_t cell = 0; cell < cells; cell++) {
		uint64_t end = (cell + 1) * per;

		if (cell % v->columns == 0)
			printf("\033[K"); /* first: after the last column it would erase that one */
		draw_cell(d, cell * per, end < d->chunks ? end : d->chunks);
		if ((cell + 1) % v->columns == 0 || cell + 1 == cells) {
			printf("\033[0m\n");
			lines++;
		}
	}
	sp_link_count(d->link, 0, &n);
	snprintf(status, sizeof(status), "%9.3f ms  %llu of %llu chunk%s, %llu packet%s lost",
		 (double)sp_world_now(d->world) / (double)SP_MS, (unsigned long long)present,
		 (unsigned long long)d->chunks, demo_s(d->chunks), (unsigned long long)n.lost, demo_s(n.lost));
	printf("\033[K%.*s\n", (int)v->width, status);
	v->drawn = last ? 0 : lines + 1;
	fflush(stdout);
}

void demo_show(struct demo *d, struct demo_view *v, bool last)
{
	if (d->o.json)
		return;
	if (v->live && measure(v)) {
		draw(d, v, last);
		return;
	}
	if (!last && d->ended * 8 / d->messages < v->lines + 1)
		return; /* about every eighth of the way */
	v->lines = d->ended * 8 / d->messages;
	printf("%9.3f ms  %llu of %llu message%s ended, %llu of %llu chunk%s there\n",
	       (double)sp_world_now(d->world) / (double)SP_MS, (unsigned long long)d->ended,
	       (unsigned long long)d->messages, demo_s(d->messages), (unsigned long long)present_count(d),
	       (unsigned long long)d->chunks, demo_s(d->chunks));
	fflush(stdout);
}

/* ---- the outcome ---- */
/* Chunks that the bitmap has must be the source's. In the others each packet's place holds the source's bytes or
 * nothing. */
static void verify(struct demo *d)
{
	const uint8_t *source = d->side[0].mr->addr, *got = d->side[1].mr->addr;

	for (uint64_t k = 0; k < d->messages; k++) {
		const struct demo_message *m = &d->message[k];

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
		const struct demo_message *m = &d->message[k];
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
	printf("arrived     %llu of %llu chunk%s, %s\n", (unsigned long long)(d->good + d->differing),
	       (unsigned long long)d->chunks, demo_s(d->chunks),
	       d->differing || d->stray ? "BUT NOT AS THEY WERE SENT"
					: "every one compared with the source and the same");
	if (d->differing || d->stray)
		printf("DIFFERENT   %llu chunks differ from the source, %llu packets' places hold what was never "
		       "sent\n",
		       (unsigned long long)d->differing, (unsigned long long)d->stray);
	printf("missing     %llu chunk%s; %llu of %llu message%s ended early\n",
	       (unsigned long long)(d->chunks - d->good - d->differing), demo_s(d->chunks - d->good - d->differing),
	       (unsigned long long)partial, (unsigned long long)d->messages, demo_s(d->messages));
	print_missing(d);
	printf("link        %llu packet%s sent, %llu lost, %llu duplicated, %llu reordered\n",
	       (unsigned long long)n->offered, demo_s(n->offered), (unsigned long long)n->lost,
	       (unsigned long long)n->duplicated, (unsigned long long)n->reordered);
	printf("receiver    %llu duplicate%s, %llu late packet%s\n", (unsigned long long)duplicates, demo_s(duplicates),
	       (unsigned long long)late, demo_s(late));
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
	char *bits = malloc(demo_units(d->o.message, d->o.chunk) + 1), *text = NULL;

	for (uint64_t k = 0; root && bits && k < d->messages; k++) {
		const struct demo_message *m = &d->message[k];

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
	return text ? 0 : demo_fail("JSON", -ENOMEM);
}

int demo_outcome(struct demo *d)
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
		status = demo_fail("standard output", -errno);
	return status || d->differing || d->stray ? 1 : 0;
}
