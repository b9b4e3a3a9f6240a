/* SPDX-License-Identifier: BSD-3-Clause */
/* The compiler of a clone in which a document is followed (follow.py): what it is to make within build/ or build-NAME/,
 * be it an object, a library or a program, is copied from the build that is tested, if that has made it. All else is
 * for the compiler. CC, CLONE and BUILD are absolute paths. In C, as it runs a thousand times. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int within_a_build(void)
{
	char here[4096];
	const size_t len = strlen(CLONE "/build");

	return getcwd(here, sizeof(here)) && !strncmp(here, CLONE "/build", len) && (!here[len] || here[len] == '-');
}

/* All that is left of a file. 1: done. */
static int pour(int in, int out)
{
	char bytes[1 << 16];
	ssize_t n;

	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		if (write(out, bytes, (size_t)n) != n)
			return 0;
	return n == 0;
}

/* 1: made. */
static int take_over(const char *name)
{
	const char *header = strstr(name, ".gch"), *slash = strrchr(name, '/');
	char from[4096];
	struct stat s;
	int in, out, done = 0;

	if (*name == '/' || strstr(name, "../") || !strncmp(name, "tests/", 6) || !strncmp(name, "meson-private/", 14))
		return 0;
	/* A precompiled header stays empty: nothing is compiled with it, and the compiler takes none of another one. */
	if (snprintf(from, sizeof(from), BUILD "/%.*s", header && slash ? (int)(slash - name) : (int)strlen(name),
		     name) >= (int)sizeof(from))
		return 0;
	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return 0;
	if (!fstat(in, &s) && (header || S_ISREG(s.st_mode))) {
		unlink(name);
		out = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, header ? 0644 : s.st_mode & 0777);
		done = out >= 0 && (header || pour(in, out));
		if (out >= 0)
			close(out);
	}
	close(in);
	return done;
}

int main(int argc, char **argv)
{
	const char *made = NULL;

	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], "-o"))
			made = argv[i + 1];
	if (made && within_a_build() && take_over(made))
		return 0;
	argv[0] = CC;
	execv(CC, argv);
	perror(CC);
	return 127;
}
