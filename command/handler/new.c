/* SPDX-License-Identifier: BSD-3-Clause */
#include "new.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../pipeline/nic.h"
#include "../options.h"
#include "../output.h"

#define PLACEHOLDER "@NAME@"
#define MAX_NAME    31

static const struct usage usage = {
	.command = "handler",
	.forms = "spindle handler new NAME [DIR]",
	.about = "Writes a project for a new handler into DIR (./NAME by default), which must be empty or new: one C "
		 "file "
		 "that does something real, a meson file that finds the installed Spindle, a NIC, a capture with its "
		 "expected "
		 "result, and a test. NAME: a small letter, then up to 30 small letters, digits and -.",
	.end = "Exit status: 0 done, 1 failed (then nothing was written), 2 wrong usage.",
	.arguments = 2,
};

static int fail(const char *what, int err)
{
	return command_fail("handler", "%s: %s", what, strerror(err));
}

/* ---- the name ----------------------------------------------------------------------------------- */
static bool is_name(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return name[0] >= 'a' && name[0] <= 'z' && !name[len] && len <= MAX_NAME;
}

/* The meson target of the shared object has the handler's name; meson reserves these names. */
static bool is_mesons(const char *name)
{
	static const char *const taken[] = {"all",   "benchmark", "clean",	 "coverage", "dist",	 "distcheck",
					    "phony", "install",	  "reconfigure", "test",     "uninstall"};
	static const char *const prefix[] = {"meson-", "clean-", "coverage-", "scan-build"};

	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
		if (!strcmp(name, taken[i]))
			return true;
	for (size_t i = 0; i < sizeof(prefix) / sizeof(*prefix); i++)
		if (!strncmp(name, prefix[i], strlen(prefix[i])))
			return true;
	return false;
}

/* ---- the files ---------------------------------------------------------------------------------- */
static void place_of(const struct template_file *t, const char *name, char *place, size_t room)
{
	if (strcmp(t->name, "handler.c"))
		snprintf(place, room, "%s", t->name);
	else
		snprintf(place, room, "%s.c", name);
}

/* Replaces the placeholders by the handler's name. */
static void write_text(FILE *f, const struct template_file *t, const char *name)
{
	const char *at = (const char *)t->bytes, *end = at + t->len, *next;

	while (t->placeholders && (next = memmem(at, (size_t)(end - at), PLACEHOLDER, strlen(PLACEHOLDER)))) {
		fwrite(at, 1, (size_t)(next - at), f);
		fputs(name, f);
		at = next + strlen(PLACEHOLDER);
	}
	fwrite(at, 1, (size_t)(end - at), f);
}

/* 0 or -errno; removes a file that could not be written completely. */
static int write_file(int folder, const struct template_file *t, const char *name, const char *place)
{
	int fd = openat(folder, place, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, t->mode);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	bool bad;
	int err;

	if (fd < 0)
		return -errno;
	if (!f) {
		err = errno;
		close(fd);
	} else {
		errno = 0;
		write_text(f, t, name);
		bad = fflush(f) || ferror(f);
		err = bad ? (errno ? errno : EIO) : 0;
		if (fclose(f) && !err)
			err = errno;
	}
	if (err)
		unlinkat(folder, place, 0);
	return -err;
}

/* Writes all files, or none. */
static int write_files(int folder, const char *name, const char *directory)
{
	const struct template_file *t = template_files;
	char place[MAX_NAME + 8], what[4096];
	int err = 0;

	for (; t->name && !err; t++) {
		place_of(t, name, place, sizeof(place));
		err = write_file(folder, t, name, place);
	}
	if (!err)
		return 0;
	snprintf(what, sizeof(what), "%s/%s", directory, place);
	for (t--; t-- > template_files;) {
		place_of(t, name, place, sizeof(place));
		unlinkat(folder, place, 0);
	}
	return fail(what, -err);
}

/* 0, or 1 after a message: the directory is not empty, or cannot be read. */
static int check_empty(int folder, const char *directory)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* fdopendir() takes the descriptor */
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int n = 0;

	if (!d) {
		int err = errno;

		if (fd >= 0)
			close(fd);
		return fail(directory, err);
	}
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return n ? fail(directory, ENOTEMPTY) : 0;
}

static int write_project(const char *name, const char *directory)
{
	bool made = !mkdir(directory, 0777);
	int folder, status;

	if (!made && errno != EEXIST)
		return fail(directory, errno);
	folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	status = folder < 0 ? fail(directory, errno) : made ? 0 : check_empty(folder, directory);
	if (!status)
		status = write_files(folder, name, directory);
	if (folder >= 0)
		close(folder);
	if (status && made)
		rmdir(directory);
	return status;
}

/* ---- the command -------------------------------------------------------------------------------- */
/* Quoted for a shell. */
static void print_quoted(const char *path)
{
	bool plain = !path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:@")];

	if (plain && *path != '-') {
		printf("%s", path);
		return;
	}
	printf("%s'", *path == '-' ? "./" : "");
	for (; *path; path++)
		printf(*path == '\'' ? "'\\''" : "%c", *path);
	putchar('\'');
}

static void print_made(const char *name, const char *directory)
{
	char place[MAX_NAME + 8];

	printf("%s: a handler that answers STAMP probes, to begin with, and its test:\n ", name);
	for (const struct template_file *t = template_files; t->name; t++) {
		place_of(t, name, place, sizeof(place));
		printf(" %s", place);
	}
	printf("\n\nBuild it and test it:\n  cd ");
	print_quoted(directory);
	printf("\n  meson setup build\n  meson test -C build --print-errorlogs\n");
}

int handler_new(int argc, char **argv)
{
	static const struct option_row none[] = {{0}};
	struct options o = {&usage, {{NULL, none, NULL, NULL}}};
	const char *name, *directory;
	int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (!o.arguments)
		return options_misuse(&usage, "a name is missing after new");
	name = o.argument[0];
	directory = o.arguments == 2 ? o.argument[1] : name;
	if (!is_name(name))
		return options_bad_value(&usage, "NAME", "a small letter and up to 30 small letters, digits and -",
					 name);
	if (is_mesons(name))
		return options_bad_value(&usage, "NAME", "none of meson's own targets", name);
	if (sp_handler_find(name))
		return command_fail("handler", "there is a handler '%s' already", name);
	status = write_project(name, directory);
	if (!status)
		print_made(name, directory);
	return status;
}
