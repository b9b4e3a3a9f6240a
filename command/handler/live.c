/* SPDX-License-Identifier: BSD-3-Clause */
#include "live.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../ask.h"
#include "../nic_error.h"
#include "../output.h"

static const struct usage usage = {
	.command = "handler",
	.forms = "spindle handler load FILE\n"
		 "spindle handler unload NAME|FILE\n"
		 "spindle handler reload NAME|FILE [NEW-FILE] [--wait] [--force TIME]\n"
		 "spindle handler attach CONTEXT HANDLER [KEY=VALUE]...\n"
		 "spindle handler detach CONTEXT\n"
		 "spindle handler status",
	.about = "Handlers and contexts of a running NIC; for its own user and root. NAME is a handler, FILE a "
		 "plug-in.\n"
		 "load: a plug-in, for contexts to come.\n"
		 "unload: a plug-in that nothing holds; otherwise it says what does.\n"
		 "reload: the file as it is now (or NEW-FILE) takes over in all contexts of the plug-in's handlers. "
		 "Messages in "
		 "flight end on the copy that began them, and no packet is lost. If the new file is refused, the old "
		 "one goes "
		 "on.\n"
		 "attach: makes a context of the NIC's own, as a [context] section does.\n"
		 "detach: ends one, with its messages.\n"
		 "status: plug-ins, the contexts that have their handlers, and what their copies hold.",
	.end = "Exit status: 0 done, 1 refused or failed, and nothing has changed, 2 wrong usage.",
	.arguments = INT_MAX,
};

static const struct word {
	const char *name;
	enum sp_handler_op op;
	int least, most; /* arguments */
	bool first_file; /* the first argument is a file; otherwise it may be a handler */
} words[] = {
	{"load", SP_HANDLER_LOAD, 1, 1, true},	    {"unload", SP_HANDLER_UNLOAD, 1, 1, false},
	{"reload", SP_HANDLER_RELOAD, 1, 2, false}, {"attach", SP_HANDLER_ATTACH, 2, 2 + SP_ATTACH_SETTINGS, false},
	{"detach", SP_HANDLER_DETACH, 1, 1, false}, {"status", SP_HANDLER_STATUS, 0, 0, false},
};

struct asked {
	const struct word *word;
	const char *nic;
	sp_time force;
	bool wait, json;
	char data[SP_ATTACH_BYTES]; /* strings */
	uint32_t bytes, strings;
};

static const struct word *find(const char *name)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(words[i].name, name))
			return &words[i];
	return NULL;
}

bool handler_live_is(const char *name)
{
	return find(name);
}

static int fail(const char *what, const char *about)
{
	return command_fail("handler", "%s%s", what, about);
}

/* ---- the request ---- */

static bool add(struct asked *a, const char *text, size_t len)
{
	if (len >= sizeof(a->data) - a->bytes)
		return false;
	memcpy(a->data + a->bytes, text, len);
	a->data[a->bytes + len] = 0;
	a->bytes += (uint32_t)len + 1;
	a->strings++;
	return true;
}

/* Sends an absolute path: the NIC has another working directory. loaded: the file may have been deleted since. */
static int add_file(struct asked *a, const char *file, bool loaded)
{
	char *path = realpath(file, NULL);
	int status = 0;

	if (!path && loaded && *file == '/')
		path = strdup(file);

	if (!path)
		return command_fail("handler", "%s: %s", file, strerror(errno));
	if (!add(a, path, strlen(path)))
		status = fail("the path is too long: ", file);
	free(path);
	return status;
}

static int add_setting(struct asked *a, const char *text)
{
	const char *sign = strchr(text, '=');

	if (!sign || sign == text)
		return options_misuse(&usage, "a setting is KEY=VALUE, not %s", text);
	if (!add(a, text, (size_t)(sign - text)) || !add(a, sign + 1, strlen(sign + 1)))
		return fail("the settings are too long: ", text);
	return 0;
}

static int add_words(struct asked *a, int argc, char **argv)
{
	int status = 0;

	for (int i = 0; i < argc && !status; i++) {
		const bool file =
			a->word->first_file || strchr(argv[i], '/') || (i && a->word->op == SP_HANDLER_RELOAD);

		if (a->word->op == SP_HANDLER_ATTACH || a->word->op == SP_HANDLER_DETACH)
			status = i < 2 ? (add(a, argv[i], strlen(argv[i])) ? 0 : fail("too long: ", argv[i]))
				       : add_setting(a, argv[i]);
		else if (file)
			status = add_file(a, argv[i], !i && a->word->op != SP_HANDLER_LOAD);
		else if (!add(a, argv[i], strlen(argv[i])))
			status = fail("too long: ", argv[i]);
	}
	return status;
}

#define AT(field) OPTION_AT(struct asked, field)

static const struct option_row rows[] = {
	{"wait", 0, OPTION_FLAG, NULL, "reload: wait until nothing is left on older copies", AT(wait)},
	{"force", 0, OPTION_TIME, "TIME", "reload: end messages that are still in flight after that time (10ms, 5s)",
	 AT(force), .least = 1, .wants = "a time such as 10ms or 5s"},
	{"json", 0, OPTION_FLAG, NULL, "print the NIC's answer as JSON", AT(json)},
	{0},
};

static int arguments(struct asked *a, int argc, char **argv)
{
	struct options o = {&usage, {{NULL, nic_rows, &a->nic, NULL}, {NULL, rows, a, NULL}}};
	int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if ((a->force || a->wait) && a->word->op != SP_HANDLER_RELOAD)
		return options_misuse(&usage, "--force and --wait are for reload, not for %s", a->word->name);
	if (o.arguments < a->word->least)
		return options_misuse(&usage, "something is missing after %s", a->word->name);
	if (o.arguments > a->word->most)
		return options_misuse(&usage, "extra argument %s", o.argument[a->word->most]);
	status = add_words(a, o.arguments, o.argument);
	return status ? status : OPTIONS_GO_ON;
}

/* ---- the answer ---- */

static int refused(const struct asked *a, int status, const struct sp_error *error)
{
	const char *why = *error->text		    ? error->text
			  : status == -EPERM	    ? "only its own user and root may change handlers and contexts"
			  : status == -ENODEV	    ? "it has gone, or does not answer"
			  : status == -ECONNABORTED ? "it has died"
			  : status == -EPROTO	    ? "its answer is malformed: is it another version?"
						    : strerror(-status);

	return command_fail("handler", "NIC %s: %s%s", command_nic_name(a->nic), why,
			    status == -ENODEV || status == -ECONNABORTED || status == -EPROTO ||
					    a->word->op == SP_HANDLER_STATUS
				    ? ""
				    : " (nothing has changed)");
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static void show_copies(const json_t *contexts)
{
	static const char *const column[] = {"copy", "packets", "open_messages", "timers", "issues",
					     "work", "waiting", "kept",		 "lent"};
	const json_t *context, *copy;
	size_t i, k;

	if (!json_array_size(contexts))
		return;
	printf("%-20s %4s %14s %9s %7s %7s %5s %8s %5s %5s  %s\n", "context", "copy", "packets", "messages", "timers",
	       "issues", "work", "waiting", "kept", "lent", "state");
	json_array_foreach((json_t *)(uintptr_t)contexts, i, context)
	{
		json_array_foreach(json_object_get(context, "copies"), k, copy)
		{
			static const int width[] = {4, 14, 9, 7, 7, 5, 8, 5, 5};

			printf("%-20s", k ? "" : text_of(context, "name"));
			for (size_t c = 0; c < sizeof(column) / sizeof(*column); c++)
				printf(" %*" JSON_INTEGER_FORMAT, width[c], number_of(copy, column[c]));
			printf("  %s\n", text_of(copy, "state"));
		}
	}
}

static void show_plugins(const json_t *plugins)
{
	const json_t *plugin, *handler;
	size_t i, k;

	json_array_foreach((json_t *)(uintptr_t)plugins, i, plugin)
	{
		const json_int_t users = number_of(plugin, "users");

		printf("%s: load %" JSON_INTEGER_FORMAT ", %s, %" JSON_INTEGER_FORMAT " user%s; handlers",
		       text_of(plugin, "file"), number_of(plugin, "load"), text_of(plugin, "state"), users,
		       users == 1 ? "" : "s");
		json_array_foreach(json_object_get(plugin, "handlers"), k, handler)
			printf("%s %s (version %" JSON_INTEGER_FORMAT ")", k ? "," : "", text_of(handler, "name"),
			       number_of(handler, "version"));
		puts("");
	}
}

static void show(const struct asked *a, const json_t *said)
{
	switch (a->word->op) {
	case SP_HANDLER_RELOAD:
		printf("%s is now what %s has\n", text_of(said, "handler"), text_of(said, "file"));
		show_copies(json_object_get(said, "contexts"));
		printf("packets received meanwhile: %" JSON_INTEGER_FORMAT ", lost: %" JSON_INTEGER_FORMAT "\n",
		       number_of(said, "received_meanwhile"), number_of(said, "lost"));
		break;
	case SP_HANDLER_STATUS:
		if (!json_array_size(json_object_get(said, "plugins")))
			puts("no plug-ins: all handlers are built in");
		/* fall through */
	default:
		show_plugins(json_object_get(said, "plugins"));
		show_copies(json_object_get(said, "contexts"));
		break;
	}
}

static void tell(const struct asked *a, const json_t *said)
{
	if (a->json) {
		json_dumpf(said ? said : json_null(), stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_ENSURE_ASCII);
		puts("");
	} else if (said) {
		show(a, said);
	}
	fflush(stdout);
}

/* ---- waiting for older copies ---- */

/* Whether a context that was reloaded still has an older copy. */
static bool drains(const json_t *reloaded, const json_t *now)
{
	const json_t *context, *other;
	size_t i, k;

	json_array_foreach(json_object_get(reloaded, "contexts"), i, context)
	{
		json_array_foreach(json_object_get(now, "contexts"), k,
				   other) if (!strcmp(text_of(context, "name"), text_of(other, "name")) &&
					      json_array_size(json_object_get(other, "copies")) > 1) return true;
	}
	return false;
}

static int wait_for(struct sp_attach_link *link, const struct asked *a, json_t **said)
{
	struct asked status = {.word = find("status"), .nic = a->nic, .json = a->json};

	for (;;) {
		struct sp_error error = {.key = ""};
		struct sp_attach_exchange x = {.op = SP_ATTACH_HANDLER, .arg = {SP_HANDLER_STATUS}, .error = &error};
		json_t *now;
		const int rc = ask_json(link, &x, &now);

		if (rc)
			return refused(&status, rc, &error);
		if (!drains(*said, now)) {
			if (!a->json)
				puts("nothing is left on older copies:");
			json_decref(*said);
			*said = now;
			tell(&status, now);
			return 0;
		}
		json_decref(now);
		poll(NULL, 0, 50);
	}
}

int handler_live(int argc, char **argv)
{
	static struct sp_attach_link link; /* large */
	static struct asked a;
	struct sp_error error = {.key = ""};
	json_t *said;
	int status;

	a = (struct asked){.word = find(argv[0])};
	status = arguments(&a, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	status = sp_attach_connect(&link, a.nic);
	if (status)
		return command_nic_fail("handler", a.nic, status);
	struct sp_attach_exchange x = {.op = SP_ATTACH_HANDLER,
				       .arg = {(uint64_t)a.word->op, a.strings, a.force},
				       .data = a.data,
				       .bytes = a.bytes,
				       .error = &error};
	status = ask_json(&link, &x, &said);
	if (status) {
		status = refused(&a, status, &error);
	} else {
		if (!a.wait || !a.json)
			tell(&a, said);
		if (a.wait)
			status = wait_for(&link, &a, &said);
	}
	json_decref(said);
	close(link.fd);
	return status || ferror(stdout) ? 1 : 0;
}
