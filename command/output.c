/* SPDX-License-Identifier: BSD-3-Clause */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

int command_fail(const char *command, const char *format, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "spindle %s: ", command);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	putc('\n', stderr);
	return 1;
}

int output_json(json_t *object, size_t flags)
{
	char *text = object ? json_dumps(object, flags | JSON_PRESERVE_ORDER) : NULL;
	const int err = text ? 0 : -ENOMEM;

	if (text)
		puts(text);
	free(text);
	json_decref(object);
	return err;
}

void output_terminal(int fd, unsigned *columns, unsigned *rows)
{
	struct winsize size = {0};
	const bool known = !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col && size.ws_row;

	*columns = known ? size.ws_col : 80;
	*rows = known ? size.ws_row : 24;
}

/* The directory of a file that does not exist yet, and the start of its name. */
static bool folder_of(const char *path, struct stat *folder, const char **name)
{
	const char *slash = strrchr(path, '/');
	char parent[4096] = ".";

	*name = slash ? slash + 1 : path;
	if (slash && snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path) + 1, path) >= (int)sizeof(parent))
		return false;
	return !stat(parent, folder);
}

bool output_destroys(const char *output, const char *other)
{
	struct stat one, two;
	const char *name, *other_name;
	bool there = !stat(output, &one), other_there = !stat(other, &two);

	if (there && other_there)
		return S_ISREG(one.st_mode) && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
	if (there || other_there)
		return false;
	if (!strcmp(output, other))
		return true;
	return folder_of(output, &one, &name) && folder_of(other, &two, &other_name) && one.st_dev == two.st_dev &&
	       one.st_ino == two.st_ino && !strcmp(name, other_name);
}

int output_redirect(int to)
{
	const int before = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

	fflush(stdout);
	dup2(to, STDOUT_FILENO);
	return before;
}
