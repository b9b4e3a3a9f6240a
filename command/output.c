/* SPDX-License-Identifier: BSD-3-Clause */
#include "output.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
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
