/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle handler list | show NAME: what handlers declare about themselves. Calls new.c and live.c for the rest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../pipeline/value.h"
#include "../../pipeline/nic.h"
#include "../../pipeline/observe/report.h"
#include "../command.h"
#include "../options.h"
#include "live.h"
#include "new.h"
#include "../output.h"

#define MAX_PLUGINS 64

static const char *const type_names[] = {
	[SP_UINT] = "number", [SP_BOOL] = "yes/no", [SP_STRING] = "text", [SP_TIME] = "time", [SP_RATE] = "rate"};
static const char *const messages_names[] = {
	[SP_MESSAGES_NONE] = "none", [SP_MESSAGES_HASHED] = "hashed", [SP_MESSAGES_SLOTS] = "slots"};
static const char *const messages_help[] = {[SP_MESSAGES_NONE] = "none: packets are handled one by one",
					    [SP_MESSAGES_HASHED] = "hashed: the first packet of a key opens a message",
					    [SP_MESSAGES_SLOTS] =
						    "slots: the handler opens messages, for what is posted"};

static const struct usage usage = {
	.command = "handler",
	.forms = "spindle handler list [--plugin FILE]... [--json]\n"
		 "spindle handler show NAME [--plugin FILE]... [--json]\n"
		 "spindle handler new NAME [DIR]\n"
		 "spindle handler load|unload|reload|attach|detach|status ...",
	.about = "Lists the handlers of this program, or shows one: its parameters (keys of a [context] section of "
		 "nic.ini), "
		 "its counters and its reasons for dropping packets. new: writes a project for a handler, see handler "
		 "new "
		 "--help. The last line is for a running NIC: see handler load --help.",
	.arguments = 2,
};

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

/* ---- text --------------------------------------------------------------------------------------- */
static void show_range(const struct sp_param *p)
{
	bool has_range = (p->type == SP_UINT || p->type == SP_RATE) && (p->min || p->max);

	if (p->fallback && *p->fallback)
		printf(", default %s", p->fallback);
	else
		printf(p->fallback ? ", default empty" : ", must be given");
	if (has_range && p->max)
		printf(", %" PRIu64 " to %" PRIu64, p->min, p->max);
	else if (has_range)
		printf(", at least %" PRIu64, p->min);
}

static void show_names(const char *title, const char *const *names)
{
	if (!names || !*names)
		return;
	printf("\n%s:\n", title);
	for (; *names; names++)
		printf("  %s\n", *names);
}

static void show(const struct sp_handler *h)
{
	printf("%s: %s\n\nMessages: %s\n", h->name, or_empty(h->doc), messages_help[h->messages]);
	if (h->params && h->params->name)
		printf("\nParameters:\n");
	for (const struct sp_param *p = h->params; p && p->name; p++) {
		printf("  %s (%s", p->name, type_names[p->type]);
		show_range(p);
		printf(")\n      %s\n", or_empty(p->help));
	}
	if (sp_handler_file(h))
		printf("\nFrom: %s\n", sp_handler_file(h));
	show_names("Counters", h->counters);
	show_names("Reasons for dropping", h->drops);
}

/* ---- JSON --------------------------------------------------------------------------------------- */
static void report_names(struct sp_report *r, const char *title, const char *const *names)
{
	sp_report_open(r, title, true);
	for (; names && *names; names++)
		sp_report_string(r, NULL, *names);
	sp_report_close(r);
}

static void report(struct sp_report *r, const struct sp_handler *h)
{
	sp_report_string(r, "name", h->name);
	sp_report_string(r, "doc", h->doc);
	sp_report_string(r, "file", sp_handler_file(h));
	sp_report_string(r, "messages", messages_names[h->messages]);
	sp_report_open(r, "parameters", true);
	for (const struct sp_param *p = h->params; p && p->name; p++) {
		sp_report_open(r, NULL, false);
		sp_report_string(r, "name", p->name);
		sp_report_string(r, "type", type_names[p->type]);
		sp_report_bool(r, "required", !p->fallback);
		sp_report_string(r, "default", p->fallback);
		if (p->type == SP_UINT || p->type == SP_RATE) {
			sp_report_uint(r, "min", p->min);
			if (p->max)
				sp_report_uint(r, "max", p->max);
		}
		sp_report_string(r, "help", p->help);
		sp_report_close(r);
	}
	sp_report_close(r);
	report_names(r, "counters", h->counters);
	report_names(r, "drops", h->drops);
}

static int print(struct sp_report *r)
{
	char *text = sp_report_finish(r);

	if (!text)
		return command_fail("handler", "no memory for the report");
	puts(text);
	free(text);
	return 0;
}

static void list_line(const struct sp_handler *h)
{
	const char *file = sp_handler_file(h);

	printf("%-10s %s%s%s%s\n", h->name, or_empty(h->doc), file ? " (" : "", or_empty(file), file ? ")" : "");
}

static int list(bool json)
{
	struct sp_report *r = json ? sp_report_new() : NULL;

	sp_report_open(r, "handlers", true);
	for (const struct sp_handler *h = sp_handler_next(NULL); h; h = sp_handler_next(h)) {
		if (!json)
			list_line(h);
		sp_report_open(r, NULL, false);
		sp_report_string(r, "name", h->name);
		sp_report_string(r, "doc", h->doc);
		sp_report_string(r, "file", sp_handler_file(h));
		sp_report_close(r);
	}
	sp_report_close(r);
	return json ? print(r) : 0;
}

static int unknown(const char *name)
{
	const char *names[256] = {NULL};
	size_t count = 0;

	for (const struct sp_handler *h = sp_handler_next(NULL); h && count < 255; h = sp_handler_next(h))
		names[count++] = h->name;
	const char *near = sp_nearest(name, names);
	fprintf(stderr, "spindle handler: there is no handler '%s'", name);
	if (near)
		fprintf(stderr, "; is '%s' meant?\n", near);
	else
		fprintf(stderr, "; 'spindle handler list' lists them\n");
	return 1;
}

/* ---- the command -------------------------------------------------------------------------------- */
struct asked {
	bool json;
	const char *file[MAX_PLUGINS];
	unsigned files;
};

static int take_plugin(void *to, const char *text)
{
	struct asked *a = to;

	if (a->files == MAX_PLUGINS)
		return options_misuse(&usage, "too many plug-ins: %s", text);
	a->file[a->files++] = text;
	return 0;
}

static const struct option_row rows[] = {
	{"plugin", 0, OPTION_CALL, "FILE",
	 "include the handlers of that shared object, which is loaded (its constructors run)", .take = take_plugin},
	{"json", 0, OPTION_FLAG, NULL, "print JSON", OPTION_AT(struct asked, json)},
	{0},
};

/* Handlers' names and files are valid while their plug-ins are loaded. */
static int answer(int argc, char **argv, bool json)
{
	if (!strcmp(argv[0], "list"))
		return argc > 1 ? options_misuse(&usage, "extra argument %s", argv[1]) : list(json);
	if (strcmp(argv[0], "show"))
		return options_misuse(&usage, "list, show, new, load, unload, reload, attach, detach or status, not %s",
				      argv[0]);
	if (argc < 2)
		return options_misuse(&usage, "a handler's name is missing after show");
	const struct sp_handler *h = sp_handler_find(argv[1]);
	if (!h)
		return unknown(argv[1]);
	if (!json) {
		show(h);
		return 0;
	}
	struct sp_report *r = sp_report_new();
	report(r, h);
	return print(r);
}

int command_handler(int argc, char **argv)
{
	struct sp_plugin *plugin[MAX_PLUGINS];
	struct sp_error error = {.key = ""};
	struct asked a = {.files = 0};
	struct options o = {&usage, {{NULL, rows, &a, NULL}}};
	unsigned plugins = 0;
	int status;

	if (argc > 1 && !strcmp(argv[1], "new"))
		return handler_new(argc - 1, argv + 1);
	if (argc > 1 && handler_live_is(argv[1]))
		return handler_live(argc - 1, argv + 1);
	status = options_parse(&o, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!o.arguments)
		return options_misuse(&usage, "what? list, show, new, load, unload, reload, attach, detach or status");
	for (status = 0; plugins < a.files && !status; plugins++)
		status = sp_plugin_load(a.file[plugins], &plugin[plugins], &error);
	if (status)
		command_fail("handler", "%s", error.text);
	status = status ? 1 : answer(o.arguments, o.argument, a.json);
	while (plugins--)
		sp_plugin_unload(plugin[plugins]); /* NULL for one that could not be loaded */
	return status;
}
