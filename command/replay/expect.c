/* SPDX-License-Identifier: BSD-3-Clause */
#include "expect.h"
#include "../output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct expectation {
	struct replay *r;
	const char *option, *file;
};

static void say(void *arg, const char *text)
{
	const struct expectation *e = arg;

	fflush(stdout);
	command_fail("replay", "%s %s: %s", e->option, e->file, text);
}

static void say_nothing(void *arg, const char *text)
{
	(void)arg;
	(void)text;
}

/* The result of a comparison: the number of differences, or -errno and the reason. */
static void outcome(const struct expectation *e, int64_t n, const struct sp_error *error)
{
	char text[64];

	if (n < 0) {
		replay_complain(e->r, "%s: %s", e->option, *error->text ? error->text : strerror((int)-n));
	} else if (n) {
		snprintf(text, sizeof(text), "%lld difference%s", (long long)n, replay_s((uint64_t)n));
		say((void *)(uintptr_t)e, text);
		e->r->differs = true;
	}
}

/* The check before the run: can the file be read, and is it of the right kind? */
static int check(struct expectation e, int64_t result, const struct sp_error *error)
{
	if (result >= 0)
		return 0;
	outcome(&e, result, error);
	return (int)result;
}

/* An expectation is read twice, now and at the end: a pipe would be empty then, and a device may never end. */
static int check_kind(struct replay *r, const char *option, const char *file)
{
	struct stat st;

	if (!file || stat(file, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) /* opening it reports these */
		return 0;
	replay_complain(r, "%s: %s: no regular file: it can be read only once", option, file);
	return -EINVAL;
}

int replay_expect_check(struct replay *r)
{
	const struct sp_expect_say nothing = {.say = say_nothing};
	struct sp_error error = {.key = ""};
	struct sp_pcap *capture;
	int err = check_kind(r, "--expect", r->expect_file);

	if (!err)
		err = check_kind(r, "--expect-json", r->expect_json);
	for (unsigned i = 0; i < r->buffers && !err; i++)
		err = check_kind(r, "--expect-memory", r->buffer[i].expect);
	if (!err && r->expect_file) {
		err = sp_pcap_open(r->expect_file, 1, &capture, &error);
		if (!err)
			sp_pcap_close(capture);
		err = check((struct expectation){r, "--expect", r->expect_file}, err, &error);
	}
	if (!err && r->expect_json)
		err = check((struct expectation){r, "--expect-json", r->expect_json},
			    sp_expect_json(r->expect_json, "{}", &nothing, &error), &error);
	for (unsigned i = 0; i < r->buffers && !err; i++)
		if (r->buffer[i].expect)
			err = check((struct expectation){r, "--expect-memory", r->buffer[i].expect},
				    sp_expect_memory(r->buffer[i].expect, "", 0, "", &nothing, &error), &error);
	return err;
}

void replay_expect_memory(struct replay *r)
{
	for (unsigned i = 0; i < r->buffers; i++) {
		const struct replay_buffer *b = &r->buffer[i];
		struct expectation e = {r, "--expect-memory", b->expect};
		const struct sp_expect_say to = {.say = say, .arg = &e};
		struct sp_error error = {.key = ""};
		char what[80];

		if (!b->expect || !b->base)
			continue;
		snprintf(what, sizeof(what), "context %.*s", (int)b->len, b->context);
		outcome(&e, sp_expect_memory(b->expect, b->base, b->bytes, what, &to, &error), &error);
	}
}

void replay_expect_rest(struct replay *r)
{
	struct expectation e = {r, "--expect", r->expect_file};
	const struct sp_expect_say to = {.say = say, .arg = &e};
	struct sp_tolerance tolerance = r->tolerance;
	struct sp_error error = {.key = ""};
	char path[64];

	if (r->expect_file) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", r->recording);
		tolerance.start = sp_pcap_start(r->port.in);
		if (r->device && !tolerance.time) /* real time differs each time */
			tolerance.time = SP_NEVER;
		outcome(&e,
			sp_expect_capture(r->expect_file, r->sent_file ? r->sent_file : path, &tolerance, &to, &error),
			&error);
	}
	if (r->expect_json && r->report) {
		e.option = "--expect-json";
		e.file = r->expect_json;
		outcome(&e, sp_expect_json(r->expect_json, r->report, &to, &error), &error);
	}
}
