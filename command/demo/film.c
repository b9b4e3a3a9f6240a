/* SPDX-License-Identifier: BSD-3-Clause */
#include "film.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../output.h"

#define SHOW_TIME  6.0	/* seconds that the longest lane is stretched to */
#define FRAME_TIME 0.04 /* seconds between two pictures */
#define LINES	   8	/* of text */

/* A smaller terminal gets plain lines. */
#define MIN_WIDTH  20
#define MIN_HEIGHT 8

struct view {
	unsigned width, height; /* of the terminal when last drawn */
	unsigned columns, rows; /* of a lane's chunks */
	unsigned drawn;		/* lines on the screen */
};

/* ---- one cell ---- */
static enum demo_kind chunk_kind(const struct demo_chunk *c, sp_time now)
{
	if (c->came <= now)
		return (enum demo_kind)c->how;
	if (c->lost <= now)
		return DEMO_LOST;
	return c->sent <= now ? DEMO_SENT : DEMO_NOTHING;
}

/* One sign for several chunks: what is missing comes first, then repairs and repeats. */
static enum demo_kind cell_kind(const struct demo_lane *l, uint64_t first, uint64_t end, sp_time now)
{
	uint64_t count[DEMO_KINDS] = {0};

	for (uint64_t i = first; i < end; i++)
		count[chunk_kind(&l->chunk[i], now)]++;
	if (count[DEMO_LOST])
		return DEMO_LOST;
	if (count[DEMO_NOTHING] + count[DEMO_SENT])
		return count[DEMO_NOTHING] == end - first ? DEMO_NOTHING : DEMO_SENT;
	return count[DEMO_REPAIRED] ? DEMO_REPAIRED : count[DEMO_AGAIN] ? DEMO_AGAIN : DEMO_CAME;
}

/* ---- on a terminal ---- */
/* The terminal as it is now. False: too small for a picture. */
static bool measure(const struct demo *d, struct view *v)
{
	const unsigned lanes = d->o.lanes;
	unsigned width, height;
	uint64_t wanted;

	output_terminal(STDOUT_FILENO, &width, &height);
	if (width < MIN_WIDTH || width < lanes * 10 || height < MIN_HEIGHT) {
		v->drawn = 0; /* what is on the screen stays */
		return false;
	}
	if (v->drawn && (width != v->width || height != v->height)) {
		printf("\033[2J\033[H"); /* the terminal has wrapped the old picture: its first line is unknown */
		v->drawn = 0;
	}
	v->width = width;
	v->height = height;
	v->columns = ((width > 240 ? 240 : width) - 2 * (lanes - 1)) / lanes;
	v->rows = height > 30 ? 24 : height - 6u;
	wanted = demo_units(d->chunks, v->columns);
	if (v->rows > wanted)
		v->rows = (unsigned)wanted;
	return true;
}

/* A line of text, cut to the lane's width. */
static void column_text(const struct view *v, unsigned lane, const char *text)
{
	printf("%s%-*.*s", lane ? "  " : "", (int)v->columns, (int)v->columns, text);
}

static void status_text(const struct demo *d, const struct demo_lane *l, sp_time now, char *text, size_t room)
{
	uint64_t count[DEMO_KINDS] = {0};
	const uint64_t *c = count;
	int len;

	for (uint64_t i = 0; i < d->chunks; i++)
		count[chunk_kind(&l->chunk[i], now)]++;
	len = snprintf(text, room, "%.1f %%",
		       100 * (double)(c[DEMO_CAME] + c[DEMO_AGAIN] + c[DEMO_REPAIRED]) / (double)d->chunks);
	if (c[DEMO_LOST])
		len += snprintf(text + len, room - (size_t)len, ", %llu lost", (unsigned long long)c[DEMO_LOST]);
	if (c[DEMO_AGAIN])
		len += snprintf(text + len, room - (size_t)len, ", %llu sent again", (unsigned long long)c[DEMO_AGAIN]);
	if (c[DEMO_REPAIRED])
		snprintf(text + len, room - (size_t)len, ", %llu repaired", (unsigned long long)c[DEMO_REPAIRED]);
}

/* A lane's cells of one row. */
static void draw_row(const struct demo *d, const struct demo_lane *l, const struct view *v, unsigned row, sp_time now)
{
	static const struct {
		const char *colour, *sign;
	} look[DEMO_KINDS] = {
		[DEMO_NOTHING] = {"90", "·"}, [DEMO_SENT] = {"37", "░"},  [DEMO_CAME] = {"32", "█"},
		[DEMO_LOST] = {"31", "×"},    [DEMO_AGAIN] = {"33", "▓"}, [DEMO_REPAIRED] = {"36", "▒"},
	};
	const uint64_t per = demo_units(d->chunks, (uint64_t)v->columns * v->rows);
	enum demo_kind last = DEMO_KINDS;

	for (unsigned column = 0; column < v->columns; column++) {
		const uint64_t first = (row * (uint64_t)v->columns + column) * per;
		const uint64_t end = first + per < d->chunks ? first + per : d->chunks;

		if (first < d->chunks) {
			const enum demo_kind kind = cell_kind(l, first, end, now);

			if (kind != last)
				printf("\033[%sm", look[kind].colour);
			printf("%s", look[kind].sign);
			last = kind;
		} else {
			putchar(' ');
		}
	}
	printf("\033[0m");
}

static void draw_chunks(const struct demo *d, const struct view *v, sp_time now)
{
	for (unsigned row = 0; row < v->rows; row++) {
		printf("\033[K");
		for (unsigned i = 0; i < d->o.lanes; i++) {
			printf("%s", i ? "  " : "");
			draw_row(d, &d->lane[i], v, row, now);
		}
		printf("\n");
	}
}

static void draw(const struct demo *d, struct view *v, sp_time now)
{
	char text[160];

	if (v->drawn)
		printf("\033[%uA", v->drawn);
	printf("\033[K");
	for (unsigned i = 0; i < d->o.lanes; i++) {
		const struct demo_lane *l = &d->lane[i];
		const sp_time at = now < l->time ? now : l->time;

		snprintf(text, sizeof(text), "%s %9.3f ms%s", l->title, demo_ms(at), now < l->time ? "" : " done");
		column_text(v, i, text);
	}
	printf("\n");
	draw_chunks(d, v, now);
	printf("\033[K");
	for (unsigned i = 0; i < d->o.lanes; i++) {
		status_text(d, &d->lane[i], now, text, sizeof(text));
		column_text(v, i, text);
	}
	printf("\n");
	v->drawn = v->rows + 2;
	fflush(stdout);
}

/* ---- not on a terminal ---- */
static void line(const struct demo *d, sp_time now)
{
	char text[160];

	printf("%9.3f ms", demo_ms(now));
	for (unsigned i = 0; i < d->o.lanes; i++) {
		status_text(d, &d->lane[i], now, text, sizeof(text));
		printf("%s  %s: %s", i ? ";" : "", d->lane[i].title, text);
	}
	printf("\n");
	fflush(stdout);
}

static void sleep_until(const struct timespec *start, double seconds)
{
	struct timespec at = *start;
	uint64_t ns = (uint64_t)at.tv_nsec + (uint64_t)(seconds * 1e9);

	at.tv_sec += (time_t)(ns / 1000000000);
	at.tv_nsec = (long)(ns % 1000000000);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

void demo_film(const struct demo *d)
{
	const bool terminal = isatty(STDOUT_FILENO);
	const unsigned frames = (unsigned)(SHOW_TIME / FRAME_TIME);
	const double slower = SHOW_TIME * (double)SP_SEC / ((double)d->longest + 1); /* wall-clock for virtual time */
	struct view view = {.drawn = 0};
	struct timespec start;
	unsigned lines = 0;

	if (!d->o.fast)
		printf("Shown %.3g times %s than it is.\n", slower >= 1 ? slower : 1 / slower,
		       slower >= 1 ? "slower" : "faster");
	if (terminal)
		printf("\033[32m█\033[0m came  \033[31m×\033[0m lost  \033[33m▓\033[0m sent again  \033[36m▒\033[0m "
		       "repaired by parity\n");
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (unsigned frame = d->o.fast ? frames : 0; frame <= frames; frame++) {
		const sp_time now = (sp_time)((double)d->longest * frame / frames);

		if (!d->o.fast)
			sleep_until(&start, frame * FRAME_TIME);
		if (terminal && measure(d, &view)) {
			draw(d, &view, frame == frames ? d->longest : now);
		} else if (frame * LINES / frames >= lines) {
			line(d, frame == frames ? d->longest : now);
			lines = frame * LINES / frames + 1;
		}
	}
}
