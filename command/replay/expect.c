/* SPDX-License-Identifier: BSD-3-Clause */
#include "expect.h"
#include "../../testbed/records.h"
#include "../output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct expectation {
	struct replay *r;
	const char *option, *file;
	const char *port; /* "port 1: ", or "" */
};

static void say(void *arg, const char *text)
{
	const struct expectation *e = arg;

	fflush(stdout);
	command_fail("replay", "%s %s: %s%s", e->option, e->file, e->port ? e->port : "", text);
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

static int check_capture(struct replay *r, const char *file)
{
	struct sp_error error = {.key = ""};
	struct sp_pcap *capture;
	int err = file ? sp_pcap_open(file, 1, &capture, &error) : 0;

	if (file && !err)
		sp_pcap_close(capture);
	return check((struct expectation){r, "--expect", file, NULL}, err, &error);
}

int replay_expect_check(struct replay *r)
{
	const struct sp_expect_say nothing = {.say = say_nothing};
	struct sp_error error = {.key = ""};
	int err = check_kind(r, "--expect", r->expect_file);

	for (unsigned i = 0; i < SP_MAX_PORTS && !err; i++)
		err = check_kind(r, "--expect", r->expect_port[i]);
	if (!err)
		err = check_kind(r, "--expect-json", r->expect_json);
	for (unsigned i = 0; i < r->buffers && !err; i++)
		err = check_kind(r, "--expect-memory", r->buffer[i].expect);
	if (!err)
		err = check_capture(r, r->expect_file);
	for (unsigned i = 0; i < SP_MAX_PORTS && !err; i++)
		err = check_capture(r, r->expect_port[i]);
	if (!err && r->expect_json)
		err = check((struct expectation){r, "--expect-json", r->expect_json, NULL},
			    sp_expect_json(r->expect_json, "{}", &nothing, &error), &error);
	for (unsigned i = 0; i < r->buffers && !err; i++)
		if (r->buffer[i].expect)
			err = check((struct expectation){r, "--expect-memory", r->buffer[i].expect, NULL},
				    sp_expect_memory(r->buffer[i].expect, "", 0, "", &nothing, &error), &error);
	return err;
}

void replay_expect_memory(struct replay *r)
{
	for (unsigned i = 0; i < r->buffers; i++) {
		const struct replay_buffer *b = &r->buffer[i];
		struct expectation e = {r, "--expect-memory", b->expect, NULL};
		const struct sp_expect_say to = {.say = say, .arg = &e};
		struct sp_error error = {.key = ""};
		char what[80];

		if (!b->expect || !b->base)
			continue;
		snprintf(what, sizeof(what), "context %.*s", (int)b->len, b->context);
		outcome(&e, sp_expect_memory(b->expect, b->base, b->bytes, what, &to, &error), &error);
	}
}

static void say_held(const struct replay *r)
{
	const char *before = "as expected: ";

	if (r->expect_file) {
		printf("%s--expect %s", before, r->expect_file);
		before = ", ";
	}
	for (unsigned i = 0; i < SP_MAX_PORTS; i++)
		if (r->expect_port[i]) {
			printf("%s--expect %u=%s", before, i, r->expect_port[i]);
			before = ", ";
		}
	if (r->expect_json) {
		printf("%s--expect-json %s", before, r->expect_json);
		before = ", ";
	}
	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].expect) {
			printf("%s--expect-memory %.*s=%s", before, (int)r->buffer[i].len, r->buffer[i].context,
			       r->buffer[i].expect);
			before = ", ";
		}
	if (*before == ',')
		putchar('\n');
	fflush(stdout);
}

/* Compares what a port has sent: with a file of its own, or with the interface of its number. */
static void expect_port(struct replay *r, unsigned port, const char *file, int interface)
{
	char name[32] = "", path[64];
	struct expectation e = {r, "--expect", file, name};
	const struct sp_expect_say to = {.say = say, .arg = &e};
	struct sp_tolerance tolerance = r->tolerance;
	struct sp_error error = {.key = ""};

	if (r->ports > 1)
		snprintf(name, sizeof(name), "port %u: ", port);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->recording);
	tolerance.start = r->start;
	if (r->device && !tolerance.time) /* real time differs each time */
		tolerance.time = SP_NEVER;
	outcome(&e,
		sp_expect_interface(file, interface, r->sent_file ? r->sent_file : path,
				    r->ports > 1 ? (int)port : SP_RECORDS_ALL, &tolerance, &to, &error),
		&error);
}

void replay_expect_rest(struct replay *r)
{
	struct expectation e = {r, "--expect-json", r->expect_json, NULL};
	const struct sp_expect_say to = {.say = say, .arg = &e};
	struct sp_error error = {.key = ""};

	for (unsigned i = 0; i < r->ports; i++)
		if (r->expect_port[i])
			expect_port(r, i, r->expect_port[i], SP_RECORDS_ALL);
		else if (r->expect_file)
			expect_port(r, i, r->expect_file, r->ports > 1 ? (int)i : SP_RECORDS_ALL);
	if (r->expect_json && r->report)
		outcome(&e, sp_expect_json(r->expect_json, r->report, &to, &error), &error);
	if (!r->differs && !r->status && !r->json)
		say_held(r);
}
