/* SPDX-License-Identifier: BSD-3-Clause */
#include "picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../output.h"

#define TEXT_WIDTH 72 /* columns for time, at most */
#define TEXT_ROWS  8
#define COLUMNS	   400 /* of the SVG, in cells of CELL by CELL px */
#define ROWS	   120
#define CELL	   2
#define LEFT	   60 /* px */
#define TOP	   70
#define GAP	   50 /* below each lane, with its axis and the title of the next */
#define TICKS	   10 /* about so many */

/* The most important event in each cell: enum demo_kind. */
struct raster {
	unsigned columns, rows;
	uint8_t *cell;
};

static int raster_make(struct raster *r, unsigned columns, unsigned rows)
{
	*r = (struct raster){.columns = columns, .rows = rows, .cell = malloc((size_t)columns * rows)};
	return r->cell ? 0 : demo_fail("memory", -ENOMEM);
}

static void mark(const struct demo *d, struct raster *r, uint64_t chunk, sp_time at, enum demo_kind kind)
{
	uint64_t column, row = chunk * r->rows / d->chunks;
	uint8_t *cell;

	if (at > d->longest) /* also SP_NEVER */
		return;
	column = (uint64_t)((double)at / ((double)d->longest + 1) * r->columns);
	cell = &r->cell[row * r->columns + (column < r->columns ? column : r->columns - 1)];
	if (kind > *cell)
		*cell = (uint8_t)kind;
}

static void raster_fill(const struct demo *d, const struct demo_lane *l, struct raster *r)
{
	memset(r->cell, DEMO_NOTHING, (size_t)r->columns * r->rows);
	for (uint64_t i = 0; i < d->chunks; i++) {
		const struct demo_chunk *c = &l->chunk[i];

		mark(d, r, i, c->sent, DEMO_SENT);
		mark(d, r, i, c->came, (enum demo_kind)c->how);
	}
	for (size_t i = 0; i < l->events; i++) {
		const struct demo_event *e = &l->event[i];

		mark(d, r, e->chunk, e->at, (enum demo_kind)e->kind);
	}
}

/* ---- as text ---- */
static void row_print(const struct raster *r, unsigned row, bool colour)
{
	static const char *const sign[DEMO_KINDS] = {" ", "·", ":", "█", "o", "×", "▓", "▒"};
	static const char *const dye[DEMO_KINDS] = {"", "37", "35", "32", "33", "31", "33", "36"};

	for (unsigned column = 0; column < r->columns; column++) {
		const unsigned kind = r->cell[row * r->columns + column];

		if (colour && kind != DEMO_NOTHING)
			printf("\033[%sm%s\033[0m", dye[kind], sign[kind]);
		else
			printf("%s", sign[kind]);
	}
	printf("|\n");
}

void demo_timeline(const struct demo *d)
{
	const bool terminal = isatty(STDOUT_FILENO);
	unsigned width = 80, height;
	struct raster r;

	if (terminal)
		output_terminal(STDOUT_FILENO, &width, &height);
	if (width < 40) /* no room for a picture */
		return;
	if (raster_make(&r, width - 8u < TEXT_WIDTH ? width - 8u : TEXT_WIDTH, TEXT_ROWS))
		return;
	printf("\nThe file's chunks downwards, time to the right from 0 to %.3f ms:\n"
	       "· sent  : parity sent  × lost  o resent  █ came  ▓ resent, came  ▒ repaired\n",
	       demo_ms(d->longest));
	for (unsigned i = 0; i < d->o.lanes; i++) {
		raster_fill(d, &d->lane[i], &r);
		printf("%s\n", d->lane[i].title);
		for (unsigned row = 0; row < r.rows; row++) {
			printf("%6llu|", (unsigned long long)demo_units(row * d->chunks, r.rows) - !row);
			row_print(&r, row, terminal);
		}
	}
	free(r.cell);
}

/* ---- as SVG ---- */
static const struct {
	const char *name, *colour;
} paint[DEMO_KINDS] = {
	[DEMO_SENT] = {"sent", "#b8c4d6"},	   [DEMO_PARITY] = {"parity sent", "#8d6cc9"},
	[DEMO_CAME] = {"came", "#2f9e44"},	   [DEMO_RESENT] = {"resent", "#ffc078"},
	[DEMO_LOST] = {"lost", "#e03131"},	   [DEMO_AGAIN] = {"resent, came", "#f08c00"},
	[DEMO_REPAIRED] = {"repaired", "#1098ad"},
};

/* All cells of a kind are one path; rare kinds are drawn larger. */
static void svg_marks(FILE *f, const struct raster *r, unsigned kind)
{
	fprintf(f, "<path stroke=\"%s\" stroke-width=\"%d\" d=\"", paint[kind].colour, kind > DEMO_CAME ? 2 : 1);
	for (unsigned row = 0; row < r->rows; row++)
		for (unsigned column = 0; column < r->columns; column++)
			if (r->cell[row * r->columns + column] == kind)
				fprintf(f, "M%u %uh%d", column, row, kind > DEMO_CAME ? 2 : 1);
	fputs("\"/>\n", f);
}

static double svg_x(const struct demo *d, sp_time t)
{
	return LEFT + (double)t / ((double)d->longest + 1) * COLUMNS * CELL;
}

static void svg_line(FILE *f, double x, int top, const char *style)
{
	fprintf(f, "<path d=\"M%.1f %dv%d\" %s/>\n", x, top, ROWS * CELL, style);
}

static void svg_text(FILE *f, double x, int y, const char *anchor, const char *text)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text);
}

/* 1, 2 or 5 times a power of ten. */
static sp_time tick(sp_time longest)
{
	sp_time step = 1;

	for (unsigned i = 0; step * TICKS < longest; i++)
		step = i % 3 == 1 ? step / 2 * 5 : step * 2;
	return step;
}

static void svg_lane(FILE *f, const struct demo *d, const struct demo_lane *l, const struct raster *r, int top)
{
	const sp_time step = tick(d->longest);
	char text[160];

	snprintf(text, sizeof(text), "%s: %.3f ms, %.2f times what it takes without losses", l->title, demo_ms(l->time),
		 (double)l->time / (double)d->lossless);
	svg_text(f, LEFT, top - 8, "start", text);
	fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n", LEFT, top,
		COLUMNS * CELL, ROWS * CELL);
	fprintf(f, "<g transform=\"translate(%d %d) scale(%d) translate(0 .5)\">\n", LEFT, top, CELL);
	for (unsigned kind = DEMO_SENT; kind < DEMO_KINDS; kind++)
		svg_marks(f, r, kind);
	fputs("</g>\n", f);
	svg_line(f, svg_x(d, d->lossless < d->longest ? d->lossless : d->longest), top,
		 "stroke=\"#555\" stroke-dasharray=\"4 3\"");
	svg_line(f, svg_x(d, l->time), top, "stroke=\"#000\"");
	svg_text(f, LEFT - 6, top + 10, "end", "0");
	snprintf(text, sizeof(text), "%llu", (unsigned long long)d->chunks);
	svg_text(f, LEFT - 6, top + ROWS * CELL, "end", text);
	for (sp_time t = 0; t <= d->longest; t += step) {
		snprintf(text, sizeof(text), "%g ms", demo_ms(t));
		svg_text(f, svg_x(d, t), top + ROWS * CELL + 14, "middle", text);
	}
}

static void svg_print(FILE *f, const struct demo *d, struct raster *r)
{
	const struct sp_link_direction *w = d->o.link.direction;
	char text[240];

	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
		"font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		LEFT + COLUMNS * CELL + 30, TOP + (int)d->o.lanes * (ROWS * CELL + GAP));
	snprintf(text, sizeof(text),
		 "%llu chunks of %llu bytes (downwards) over time: %g Mbit/s, round trip %g ms, %llu packets; seed "
		 "%llu. "
		 "Dashed: without losses.",
		 (unsigned long long)d->chunks, (unsigned long long)d->o.chunk, (double)w->bandwidth / 1e6,
		 demo_ms(2 * w->delay), (unsigned long long)d->packets, (unsigned long long)d->o.link.seed);
	svg_text(f, LEFT, 18, "start", text);
	for (unsigned kind = DEMO_SENT; kind < DEMO_KINDS; kind++) {
		const int x = LEFT + 110 * ((int)kind - DEMO_SENT);

		fprintf(f, "<rect x=\"%d\" y=\"28\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x, paint[kind].colour);
		svg_text(f, x + 14, 37, "start", paint[kind].name);
	}
	for (unsigned i = 0; i < d->o.lanes; i++) {
		raster_fill(d, &d->lane[i], r);
		svg_lane(f, d, &d->lane[i], r, TOP + (int)i * (ROWS * CELL + GAP));
	}
	fputs("</svg>\n", f);
}

int demo_picture_write(const struct demo *d)
{
	struct raster r;
	FILE *f;
	int err;

	if (raster_make(&r, COLUMNS, ROWS))
		return 1;
	f = fopen(d->o.picture, "we");
	if (!f) {
		err = errno;
		free(r.cell);
		return demo_fail(d->o.picture, -err);
	}
	svg_print(f, d, &r);
	err = ferror(f) ? EIO : 0;
	if (fclose(f) && !err)
		err = errno;
	free(r.cell);
	return err ? demo_fail(d->o.picture, -err) : 0;
}
