/* SPDX-License-Identifier: BSD-3-Clause */
#include "screen.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "../output.h"
#include "show.h"

/* ---- what is shown ---- */

static void measure(struct stat_view *v)
{
	unsigned width, height;

	output_terminal(STDOUT_FILENO, &width, &height);
	if (v->drawn && (width != v->width || height != v->height)) {
		printf("\033[2J\033[H"); /* the terminal has wrapped the old table: its first line is unknown */
		v->drawn = 0;
	}
	v->width = width;
	v->height = height;
}

/* Replaces the previous table, with as many lines as the terminal has. */
static void draw(struct stat_view *v, const char *text)
{
	const unsigned room = v->height > 2 ? v->height - 1 : 1;
	unsigned lines = 0, all = 0;

	for (const char *c = text; *c; c++)
		all += *c == '\n';
	if (v->drawn)
		printf("\033[%uA", v->drawn);
	for (; *text && lines < (all > room ? room - 1 : room); lines++) {
		const size_t len = strcspn(text, "\n");

		printf("\033[K%.*s\n", (int)len, text);
		text += len + (text[len] == '\n');
	}
	if (all > room) {
		printf("\033[K%.*s\n", (int)v->width, "... the terminal has no more lines");
		lines++;
	}
	printf("\033[J");
	v->drawn = lines;
}

static bool has_order(const struct stat_view *v, unsigned order)
{
	return !v->orders || v->orders >> order & 1;
}

/* One line: what the keys do. */
static void explain(const struct stat_view *v, FILE *to)
{
	char line[200];
	int at = snprintf(line, sizeof(line), "by %s%s; keys:", stat_order_names[v->order],
			  v->backwards ? ", the least first" : "");

	for (unsigned i = 0; i < STAT_ORDERS; i++)
		if (has_order(v, i))
			at += snprintf(line + at, sizeof(line) - (size_t)at, " %c %s", stat_order_keys[i],
				       stat_order_names[i]);
	snprintf(line + at, sizeof(line) - (size_t)at, ", r reverse, q quit");
	fprintf(to, "%.*s\n", (int)v->width, line);
}

void stat_draw_with(struct stat_view *v, void (*show)(const struct stat_view *v, void *arg, FILE *to), void *arg)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return;
	if (v->live || isatty(STDOUT_FILENO))
		measure(v);
	else
		v->width = 10000;
	if (v->keys && v->height >= 8)
		explain(v, to);
	show(v, arg, to);
	if (!fclose(to)) {
		if (v->live)
			draw(v, text);
		else
			printf("%s%s", v->shown ? "\n" : "", text);
		fflush(stdout);
		v->shown++;
	}
	free(text);
}

static void show_samples(const struct stat_view *v, void *arg, FILE *to)
{
	const struct stat_sample *const *sample = arg;

	stat_show(v, sample[0], sample[1], to);
}

void stat_draw(struct stat_view *v, const struct stat_sample *now, const struct stat_sample *before)
{
	const struct stat_sample *sample[] = {now, before};

	stat_draw_with(v, show_samples, sample);
}

/* ---- keys ---- */

static struct termios found; /* the terminal's former settings */

void stat_keys_begin(struct stat_view *v)
{
	struct termios raw;

	/* a background process that changes the terminal is stopped */
	if (v->keys || tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, &found))
		return;
	raw = found;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: Ctrl-C is still a signal */
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	v->keys = !tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

void stat_keys_end(struct stat_view *v)
{
	if (v->keys && tcgetpgrp(STDIN_FILENO) == getpgrp())
		tcsetattr(STDIN_FILENO, TCSADRAIN, &found);
	v->keys = false;
}

static bool press(struct stat_view *v, char key, bool *quit)
{
	if (key == 'q')
		*quit = true;
	if (key == 'r') {
		v->backwards = !v->backwards;
		return true;
	}
	for (unsigned i = 0; i < STAT_ORDERS; i++)
		if (key == stat_order_keys[i] && has_order(v, i)) {
			v->order = (enum stat_order)i;
			return true;
		}
	return false;
}

/* Esc, or Esc [ parameters letter: one key that sends several bytes. It has no meaning here. */
static bool in_sequence(struct stat_view *v, unsigned char c)
{
	if (c == 033)
		v->sequence = STAT_ESCAPE;
	else if (v->sequence == STAT_ESCAPE)
		v->sequence = c == '[' || c == 'O' ? STAT_PARAMETERS : STAT_NONE;
	else if (v->sequence == STAT_PARAMETERS && c >= 0x40 && c < 0x7F)
		v->sequence = STAT_NONE;
	else
		return v->sequence != STAT_NONE;
	return true;
}

bool stat_keys(struct stat_view *v, bool *quit)
{
	struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
	bool changed = false;
	char key[64];

	while (v->keys && poll(&wait, 1, 0) > 0) {
		const ssize_t n = read(STDIN_FILENO, key, sizeof(key));

		if (n <= 0) { /* the terminal has gone: its signal ends the command, unless nohup ignores it */
			v->keys = false;
			break;
		}
		for (ssize_t i = 0; i < n; i++)
			if (!in_sequence(v, (unsigned char)key[i]))
				changed |= press(v, key[i], quit);
	}
	return changed;
}
