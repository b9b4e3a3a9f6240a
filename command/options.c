/* SPDX-License-Identifier: BSD-3-Clause */
#include "../pipeline/value.h"
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pipeline/nic.h"

#define FIRST	  256 /* getopt's number of the first row */
#define WIDTH	  100 /* columns of --help */
#define COLUMN	  30  /* the help texts start here at the latest */
#define HAS(text) ((text) ? (text) : "")

static const struct option_row help_row = {"help", 'h', OPTION_FLAG, NULL, "print this text", .bytes = 0};

const char *option_name(const struct option_row *row)
{
	static char name[40];

	if (row->name)
		snprintf(name, sizeof(name), "--%s", row->name);
	else
		snprintf(name, sizeof(name), "-%c", row->letter);
	return name;
}

/* ---- messages ---- */

static void print_forms(FILE *f, const struct usage *u)
{
	fputs("usage: ", f);
	for (const char *s = u->forms; *s; s++) {
		putc(*s, f);
		if (*s == '\n')
			fputs("       ", f);
	}
	putc('\n', f);
}

int options_misuse(const struct usage *u, const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "spindle %s: ", u->command);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	putc('\n', stderr);
	print_forms(stderr, u);
	fprintf(stderr, "'spindle %s --help' tells more.\n", u->command);
	return 2;
}

int options_bad_value(const struct usage *u, const char *name, const char *wants, const char *value)
{
	fprintf(stderr, "spindle %s: %s must be %s, not %s\n", u->command, name, wants, value);
	return 2;
}

static const struct scale {
	const char *unit;
	uint64_t scale;
} scales[][6] = {
	[OPTION_NUMBER] = {{"", 1}},
	[OPTION_SIZE] = {{"T", 1ull << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1}},
	[OPTION_TIME] = {{"s", SP_SEC}, {"ms", SP_MS}, {"us", SP_US}, {"ns", SP_NS}, {"ps", 1}},
	[OPTION_RATE] = {{"T", 1000000000000}, {"G", 1000000000}, {"M", 1000000}, {"k", 1000}, {"", 1}},
};

/* The value in the largest unit that divides it. */
static void show_integer(char *text, size_t room, enum option_kind kind, uint64_t value)
{
	const struct scale *s = scales[kind];

	while (value % s->scale)
		s++;
	snprintf(text, room, "%" PRIu64 "%s", value / s->scale, value ? s->unit : "");
}

static void show_words(char *text, size_t room, const char *const *words)
{
	size_t used = 0;

	for (unsigned i = 0; words[i] && used < room; i++) {
		const char *gap = !i ? "" : words[i + 1] ? ", " : " or ";

		used += (size_t)snprintf(text + used, room - used, "%s%s", gap, words[i]);
	}
}

static void show_real(char *text, size_t room, const struct option_row *row)
{
	const double high = row->kind == OPTION_PROBABILITY ? 1 : row->high;
	char most[32] = "";

	if (row->open == OPTION_ABOVE) {
		if (high > 0)
			snprintf(most, sizeof(most), " and at most %.12g", high);
		snprintf(text, room, "more than %.12g%s%s", row->low, most, HAS(row->unit));
	} else {
		snprintf(text, room, row->open ? "%.12g or more and less than %.12g%s" : "%.12g to %.12g%s", row->low,
			 high, HAS(row->unit));
	}
}

/* What the value of an option must be. */
static void show_wants(char *text, size_t room, const struct option_row *row)
{
	char least[32], most[32] = "more";

	if (row->wants) {
		snprintf(text, room, "%s", row->wants);
	} else if (row->kind == OPTION_WORD) {
		show_words(text, room, row->words);
	} else if (row->kind == OPTION_REAL || row->kind == OPTION_PROBABILITY) {
		show_real(text, room, row);
	} else {
		show_integer(least, sizeof(least), row->kind, row->least);
		if (row->most)
			show_integer(most, sizeof(most), row->kind, row->most);
		snprintf(text, room, "%s %s %s%s", least, row->most ? "to" : "or", most, HAS(row->unit));
	}
}

/* ---- help ---- */

/* Words up to a line break; the text is at column `at` and goes on at `indent` in further lines. */
static void print_wrapped(const char *text, unsigned at, unsigned indent)
{
	unsigned start = at;

	for (;;) {
		const size_t len = strcspn(text, " \n");

		if (at > start && at + 1 + len > WIDTH) {
			printf("\n%*s", (int)indent, "");
			at = start = indent;
		}
		at += (unsigned)printf("%s%.*s", at > start ? " " : "", (int)len, text);
		text += len;
		if (!*text)
			break;
		if (*text++ == '\n') {
			printf("\n%*s", (int)indent, "");
			at = start = indent;
		}
	}
	putchar('\n');
}

static bool is_optional(const struct option_row *row)
{
	return row->value && !strncmp(row->value, "[=", 2);
}

static unsigned row_text(char *text, size_t room, const struct option_row *row)
{
	const char *value = HAS(row->value);

	return (unsigned)snprintf(text, room, "  %c%c%s%s%s%s%s", row->letter ? '-' : ' ',
				  row->letter ? row->letter : ' ',
				  row->letter && row->name ? ", "
				  : row->name		   ? "  "
							   : "",
				  row->name ? "--" : "", HAS(row->name), *value && !is_optional(row) ? " " : "", value);
}

static void print_row(const struct option_row *row, unsigned column)
{
	char text[128];
	const unsigned len = row_text(text, sizeof(text), row);

	if (len + 2 > column)
		printf("%s\n%*s", text, (int)column, "");
	else
		printf("%s%*s", text, (int)(column - len), "");
	print_wrapped(row->help, column, column);
}

static bool is_end(const struct option_row *row)
{
	return !row->name && !row->letter;
}

static void print_help(const struct options *o)
{
	unsigned column = 0;
	char text[128];

	for (const struct option_group *g = o->group; g->rows; g++)
		for (const struct option_row *row = g->rows; !is_end(row); row++) {
			const unsigned len = row_text(text, sizeof(text), row) + 2;

			if (len > column && len <= COLUMN)
				column = len;
		}
	column = column ? column : COLUMN;
	print_forms(stdout, o->usage);
	putchar('\n');
	print_wrapped(o->usage->about, 0, 0);
	putchar('\n');
	for (const struct option_group *g = o->group; g->rows; g++) {
		if (g->title)
			puts(g->title);
		for (const struct option_row *row = g->rows; !is_end(row); row++)
			print_row(row, column);
	}
	print_row(&help_row, column);
	if (o->usage->end) {
		putchar('\n');
		print_wrapped(o->usage->end, 0, 0);
	}
}

/* For the shells' completion: a line an option, with tabs between letter, name, value, words and help. */
static void print_rows(const struct options *o)
{
	printf("h\thelp\t\t\t%s\n", help_row.help);
	for (const struct option_group *g = o->group; g->rows; g++)
		for (const struct option_row *row = g->rows; !is_end(row); row++) {
			if (row->letter)
				putchar(row->letter);
			printf("\t%s\t%s\t", row->name ? row->name : "", row->value ? row->value : "");
			for (const char *const *word = row->kind == OPTION_WORD ? row->words : NULL; word && *word;
			     word++)
				printf("%s ", *word);
			printf("\t%s\n", row->help);
		}
}

/* ---- values ---- */

static void store(void *to, size_t bytes, uint64_t value)
{
	if (bytes == 1)
		*(uint8_t *)to = (uint8_t)value;
	else if (bytes == 4)
		*(uint32_t *)to = (uint32_t)value;
	else
		*(uint64_t *)to = value;
}

static int take_integer(const struct option_row *row, void *to, const char *text)
{
	uint64_t value = 0;
	const int err = row->kind == OPTION_TIME   ? sp_parse_time(text, &value)
			: row->kind == OPTION_RATE ? sp_parse_rate(text, &value)
						   : sp_parse_uint(text, &value);

	if (err || value < row->least || (row->most && value > row->most))
		return -EINVAL;
	store(to, row->bytes, value);
	return 0;
}

int option_real(const struct option_row *row, const char *text, double *to)
{
	const double high = row->kind == OPTION_PROBABILITY ? 1 : row->high > 0 ? row->high : HUGE_VAL;
	const size_t digits = strspn(text, "0123456789.eE+-"); /* strtod() also takes 0x10, nan, inf and blanks */
	char *end;
	const double value = strtod(text, &end);

	if (!digits || end != text + digits || (*end && strcmp(end, HAS(row->suffix))) || !isfinite(value))
		return -EINVAL;
	if (value < row->low || value > high || ((row->open & OPTION_ABOVE) && value <= row->low) ||
	    ((row->open & OPTION_BELOW) && value >= high))
		return -EINVAL;
	*to = value;
	return 0;
}

static int take_word(const struct option_row *row, void *to, const char *text)
{
	for (unsigned i = 0; row->words[i]; i++)
		if (!strcmp(row->words[i], text)) {
			store(to, row->bytes, i);
			return 0;
		}
	return -EINVAL;
}

static int take_string(const struct option_row *row, const char **to, const char *text)
{
	const size_t len = strlen(text);

	if (len < row->least || (row->most && len > row->most))
		return -EINVAL;
	*to = text;
	return 0;
}

static int take(const struct option_group *g, const struct option_row *row, const char *text)
{
	void *to = (char *)g->to + row->at;

	switch (row->kind) {
	case OPTION_FLAG:
		store(to, row->bytes, row->least ? row->least : 1);
		return 0;
	case OPTION_STRING:
		return take_string(row, to, text);
	case OPTION_REAL:
	case OPTION_PROBABILITY:
		return option_real(row, text, to);
	case OPTION_WORD:
		return take_word(row, to, text);
	case OPTION_CALL:
		return row->take(g->to, text);
	default:
		return take_integer(row, to, text);
	}
}

/* ---- the command line ---- */

/* The rows in getopt's form. */
struct getopt_form {
	struct option option[OPTIONS_MOST + 2];
	const struct option_row *row[OPTIONS_MOST];
	const struct option_group *group[OPTIONS_MOST];
	char letters[3 * OPTIONS_MOST + 3];
	int rows;
};

static void form_make(struct getopt_form *f, const struct options *o)
{
	char *letter = f->letters;
	int options = 0;

	*letter++ = ':'; /* getopt tells a missing value from an unknown option */
	*letter++ = 'h';
	f->option[options++] = (struct option){"help", no_argument, NULL, 'h'};
	f->rows = 0;
	for (const struct option_group *g = o->group; g->rows; g++)
		for (const struct option_row *row = g->rows; !is_end(row) && f->rows < OPTIONS_MOST; row++) {
			const int argument = is_optional(row) ? optional_argument
					     : row->value     ? required_argument
							      : no_argument;

			if (row->name)
				f->option[options++] = (struct option){row->name, argument, NULL, FIRST + f->rows};
			if (row->letter)
				*letter++ = row->letter;
			for (int i = 0; row->letter && i < argument;
			     i++) /* required_argument is 1, optional_argument 2 */
				*letter++ = ':';
			f->row[f->rows] = row;
			f->group[f->rows++] = g;
		}
	f->option[options] = (struct option){0};
	*letter = 0;
}

static int row_index(const struct getopt_form *f, int option)
{
	int i = 0;

	if (option >= FIRST)
		return option - FIRST;
	while (f->row[i]->letter != option)
		i++;
	return i;
}

/* getopt has returned '?' or ':' */
static int bad_option(const struct usage *u, int option, char **argv)
{
	const char *word = argv[optind - 1];

	if (option == ':')
		return options_misuse(u, "a value is missing after %s", word);
	if (optopt == 'h' ||
	    optopt >= FIRST) /* known, so a long one; of several letters `word` may be an earlier one */
		return options_misuse(u, "this option takes no value: %s", word);
	if (optopt) /* one argument may hold several letters */
		return options_misuse(u, "unknown option -%c", optopt);
	return options_misuse(u, "unknown option %s", word);
}

static void remember(struct options *o, const struct option_row *row)
{
	unsigned i = 0;

	while (o->given[i] && o->given[i] != row)
		i++;
	o->given[i] = row;
}

static int take_option(struct options *o, const struct getopt_form *f, int index)
{
	const struct option_row *row = f->row[index];
	const struct option_group *g = f->group[index];
	const int status = take(g, row, optarg);
	char wants[256];

	if (status == -EINVAL) {
		show_wants(wants, sizeof(wants), row);
		return options_bad_value(o->usage, option_name(row), wants, optarg);
	}
	if (status)
		return status;
	remember(o, row);
	if (g->taken)
		g->taken(g->to, row);
	return OPTIONS_GO_ON;
}

/* What follows "--" is for EAL, wherever getopt would move it. Returns how many arguments are left. */
static int split_eal(struct options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--")) {
			o->eal = argv + i + 1;
			o->eals = argc - i - 1;
			argv[i] = NULL; /* ends argv as main()'s ends */
			return i;
		}
	return argc;
}

int options_parse(struct options *o, int argc, char **argv)
{
	static struct getopt_form f;
	int option, status = OPTIONS_GO_ON;

	if (argc > 1 && !strcmp(argv[argc - 1], "--options")) {
		print_rows(o);
		return 0;
	}
	form_make(&f, o);
	if (o->usage->eal)
		argc = split_eal(o, argc, argv);
	optind = 0; /* GNU: start anew; argv is not main()'s */
	opterr = 0;
	while (status == OPTIONS_GO_ON && (option = getopt_long(argc, argv, f.letters, f.option, NULL)) != -1) {
		if (option == 'h') {
			print_help(o);
			return 0;
		}
		status = option == '?' || option == ':' ? bad_option(o->usage, option, argv)
							: take_option(o, &f, row_index(&f, option));
	}
	if (status != OPTIONS_GO_ON)
		return status;
	o->argument = argv + optind;
	o->arguments = argc - optind;
	if (o->arguments > o->usage->arguments)
		return options_misuse(o->usage, "extra argument %s%s", o->argument[o->usage->arguments],
				      o->usage->eal ? " (arguments for EAL follow --)" : "");
	if (o->eals > o->usage->eal)
		return options_misuse(o->usage, "too many EAL arguments: at most %d", o->usage->eal);
	return OPTIONS_GO_ON;
}

bool options_has(const struct options *o, const char *name)
{
	for (unsigned i = 0; i < OPTIONS_MOST && o->given[i]; i++)
		if (o->given[i]->name && !strcmp(o->given[i]->name, name))
			return true;
	return false;
}

const struct option_row *options_foreign(const struct options *o, unsigned mode)
{
	for (unsigned i = 0; i < OPTIONS_MOST && o->given[i]; i++)
		if (o->given[i]->modes && !(o->given[i]->modes & mode))
			return o->given[i];
	return NULL;
}
