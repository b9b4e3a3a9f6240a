/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle top: what NICs do now, in one table that is drawn again and again. */
#include <string.h>
#include <unistd.h>

#include "../command.h"
#include "../nic_error.h"
#include "../options.h"
#include "../output.h"
#include "../stat/ask.h"
#include "../stat/pause.h"
#include "../stat/screen.h"
#include "show.h"

struct top {
	struct stat_view view;
	double interval;
	uint64_t count; /* tables; 0: for ever */
	unsigned nics;
	struct top_nic nic[STAT_LINKS];
	struct sp_attach_link link[STAT_LINKS];
};

static const struct usage usage = {
	.command = "top",
	.forms = "spindle top [NAME]... [OPTIONS]",
	.about = "Shows what the running NICs NAME (default: $SPINDLE_NIC, or spindle0) do: packets, bytes and drops "
		 "per "
		 "second, and shares of workers, by NIC, worker, context and application. On a terminal the table is "
		 "live, "
		 "until q or Ctrl-C, and keys sort it; elsewhere it is printed once, after the first interval.",
	.end = "Exit status: 0 done, 1 there is no such NIC, or it has gone, 2 wrong usage.",
	.arguments = STAT_LINKS,
};

#define ORDERS                                                                                                         \
	(1u << STAT_ACTIVITY | 1u << STAT_NAME | 1u << STAT_PACKETS | 1u << STAT_BYTES | 1u << STAT_DROPPED |          \
	 1u << STAT_SHARE)
/* By the place of each in ORDERS. */
static const enum stat_order order_of[] = {STAT_ACTIVITY, STAT_NAME,	STAT_PACKETS,
					   STAT_BYTES,	  STAT_DROPPED, STAT_SHARE};
static const char *const order_names[] = {"activity", "name", "packets", "bytes", "dropped", "share", NULL};

static uint64_t order; /* index */

#define AT(field) OPTION_AT(struct top, field)

static const struct option_row rows[] = {
	{"interval", 0, OPTION_REAL, "S", "seconds between two tables, 0.05 to 3600 (1)", AT(interval), .low = 0.05,
	 .high = 3600},
	{"count", 0, OPTION_NUMBER, "N", "end after N tables", AT(count), .least = 1, .most = 1000000000},
	{"once", 0, OPTION_FLAG, NULL, "one table: --count 1", AT(count), .least = 1},
	{"reverse", 0, OPTION_FLAG, NULL, "the smallest first", AT(view.backwards)},
	{"top", 0, OPTION_NUMBER, "N", "only the first N contexts", AT(view.top), .least = 1, .most = 1000000000},
	{0},
};
static const struct option_row sort_rows[] = {
	{"sort", 0, OPTION_WORD, "FIELD",
	 "sort contexts by name, packets, bytes, dropped, share (of a worker), or activity (packets received and sent: "
	 "the default)",
	 0, sizeof(order), .words = order_names},
	{0},
};

static int arguments(struct top *t, int argc, char **argv)
{
	struct options o = {&usage, {{NULL, rows, t, NULL}, {NULL, sort_rows, &order, NULL}}};
	const int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	t->nics = o.arguments ? (unsigned)o.arguments : 1;
	for (int i = 0; i < o.arguments; i++) {
		t->nic[i].name = o.argument[i];
		for (int k = 0; k < i; k++)
			if (!strcmp(o.argument[i], o.argument[k]))
				return options_misuse(&usage, "NIC %s twice", o.argument[i]);
	}
	t->view.order = order_of[order];
	t->view.orders = ORDERS;
	if (!t->count && !isatty(STDOUT_FILENO))
		t->count = 1;
	return OPTIONS_GO_ON;
}

static void show(const struct stat_view *v, void *arg, FILE *to)
{
	const struct top *t = arg;

	top_show(v, t->nic, t->nics, to);
}

static void redraw(void *arg)
{
	struct top *t = arg;

	if (t->nic[0].before.report)
		stat_draw_with(&t->view, show, t);
}

/* 0, or 1 after a message. */
static int sample(struct top *t)
{
	for (unsigned i = 0; i < t->nics; i++) {
		struct top_nic *n = &t->nic[i];
		const struct stat_asked asked = {.nic = n->name};
		struct stat_sample s;
		char words[400];
		int status = t->link[i].dead;

		status = status ? status : stat_ask(&t->link[i], &asked, &s);
		if (status) {
			stat_keys_end(&t->view);
			stat_ask_words(&asked, status, words, sizeof(words));
			return command_fail("top", "%s", words);
		}
		json_decref(n->before.report);
		n->before = n->now;
		n->now = s;
	}
	return 0;
}

static int watch(struct top *t)
{
	const struct stat_pause pause = {
		.view = &t->view, .link = t->link, .links = t->nics, .redraw = redraw, .arg = t};
	const sp_time interval = (sp_time)(t->interval * (double)SP_SEC);
	sp_time next = sp_clock();
	int status = sample(t); /* rates need two */

	t->view.live = isatty(STDOUT_FILENO) && t->count != 1;
	for (uint64_t n = 0; !status && n != (t->count ? t->count : UINT64_MAX) && !ferror(stdout); n++) {
		next += interval;
		if (sp_clock() > next) /* the process was stopped: skip what was missed */
			next = sp_clock() + interval;
		if (!stat_pause(&pause, next))
			break;
		status = sample(t);
		if (!status)
			stat_draw_with(&t->view, show, t);
	}
	stat_keys_end(&t->view);
	return status;
}

int command_top(int argc, char **argv)
{
	static struct top t; /* large */
	int status;

	memset(&t, 0, sizeof(t));
	t.interval = 1;
	status = arguments(&t, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	for (unsigned i = 0; i < t.nics; i++) {
		status = sp_attach_connect(&t.link[i], t.nic[i].name);
		if (status)
			return command_nic_fail("top", t.nic[i].name, status);
		t.nic[i].name = command_nic_name(t.nic[i].name);
	}
	stat_pause_signals();
	status = watch(&t);
	for (unsigned i = 0; i < t.nics; i++) {
		close(t.link[i].fd);
		json_decref(t.nic[i].now.report);
		json_decref(t.nic[i].before.report);
	}
	return status;
}
