/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle verbs: runs a program with our libibverbs and librdmacm, on a NIC that `spindle run` runs. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../host-api/spindle.h"
#include "../command.h"
#include "../nic_error.h"
#include "../output.h"
#include "find.h"
#include "tree.h"

#define PRELOADED "libspindle-paths.so"

static const struct usage usage = {
	.command = "verbs",
	.forms = "spindle verbs [-n NIC] [-v] -- COMMAND [ARGUMENTS]\n"
		 "spindle verbs [-n NIC] [-v] --install-env",
	.about = "Runs a program that was made for libibverbs or librdmacm, unchanged, on a NIC that `spindle run` "
		 "runs. "
		 "The program is executed in the place of this command. --install-env prints lines for a shell "
		 "instead, after which programs run so.",
	.end = "Exit status: the program's; 126 it cannot be executed, 127 there is none, 1 failed before, 2 wrong "
	       "usage.",
	.arguments = INT_MAX,
};

struct asked {
	const char *nic;
	bool verbose, install;
};
#define AT(field) OPTION_AT(struct asked, field)

static const struct option_row rows[] = {
	{"nic", 'n', OPTION_STRING, "NAME",
	 "the NIC, or the path of its socket (default: $SPINDLE_NIC, or the only one that runs)", AT(nic)},
	{"verbose", 'v', OPTION_FLAG, NULL, "say what is used; when the program ends, how its memory was registered",
	 AT(verbose)},
	{"install-env", 0, OPTION_FLAG, NULL, "print lines for a shell", AT(install)},
	{0},
};

/* ---- the libraries ---- */

/* Beside this program as it was built, or as it was installed. */
static int libraries(char path[PATH_MAX])
{
	static const char *const places[] = {"host-api/verbs", SP_VERBS_DIR};
	char self[PATH_MAX / 2], at[PATH_MAX];
	const ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[len > 0 ? len : 0] = 0;
	slash = strrchr(self, '/');
	if (!slash)
		return command_fail("verbs", "/proc/self/exe: %s", strerror(len < 0 ? errno : EINVAL));
	*slash = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if (places[i][0] == '/')
			snprintf(at, sizeof(at), "%s/" PRELOADED, places[i]);
		else
			snprintf(at, sizeof(at), "%s/%s/" PRELOADED, self, places[i]);
		if (!realpath(at, path))
			continue;
		*strrchr(path, '/') = 0;
		/* The dynamic linker takes both as separators. */
		return strpbrk(path, ": ") ? command_fail("verbs", "the path %s has a space or a colon", path) : 0;
	}
	return command_fail("verbs", "%s: %s", at, strerror(errno));
}

/* ---- the environment ---- */

struct setting {
	const char *name, *value;
	bool before; /* what the variable has already follows, after a colon */
};
#define SETTINGS 6

static void print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++)
		*text == '\'' ? (void)printf("'\\''") : (void)putchar(*text);
	putchar('\'');
}

static void print_settings(const struct setting *s)
{
	for (; s->name; s++) {
		printf("export %s=", s->name);
		print_quoted(s->value);
		if (s->before)
			printf("${%s:+:$%s}", s->name, s->name);
		putchar('\n');
	}
}

static int set(const struct setting *s)
{
	const char *old = getenv(s->name);
	char *value = NULL;
	int rc;

	if (!s->before || !old || !*old)
		return setenv(s->name, s->value, 1);
	if (asprintf(&value, "%s:%s", s->value, old) < 0)
		return -1;
	rc = setenv(s->name, value, 1);
	free(value);
	return rc;
}

/* ---- the command ---- */

static int identify(const struct verbs_nic *nic, struct shim_identity *id)
{
	struct sp_dev *dev;
	const int rc = sp_attach(nic->nic, &dev);

	if (rc)
		return command_nic_fail("verbs", nic->nic, rc);
	shim_identify(dev, id);
	sp_dev_close(dev);
	return 0;
}

static int execute(char **command)
{
	execvp(command[0], command);
	const int error = errno;
	command_fail("verbs", "%s: %s", command[0], strerror(error));
	return error == ENOENT ? 127 : 126;
}

static int serve(const struct asked *asked, char **command)
{
	char tree[PATH_MAX], library[PATH_MAX], preload[PATH_MAX + sizeof(PRELOADED) + 1];
	struct shim_identity id;
	struct verbs_nic nic;

	if (libraries(library) || verbs_find(asked->nic, &nic) || identify(&nic, &id) || verbs_tree(&nic, &id, tree))
		return 1;
	snprintf(preload, sizeof(preload), "%s/" PRELOADED, library);
	const char *sockets = getenv("SPINDLE_SOCKETS");
	struct setting settings[SETTINGS + 1] = {
		{"SPINDLE_NIC", nic.nic, false},
		{"SPINDLE_VERBS_TREE", tree, false},
		{"LD_LIBRARY_PATH", library, true},
		{"LD_PRELOAD", preload, true},
	};
	unsigned count = 4;
	if (sockets && *sockets) /* where SPINDLE_NIC's socket is */
		settings[count++] = (struct setting){"SPINDLE_SOCKETS", sockets, false};
	if (asked->verbose)
		settings[count++] = (struct setting){"SPINDLE_VERBS_VERBOSE", "1", false};
	if (asked->verbose)
		fprintf(stderr, "spindle verbs: device %s, NIC %s; libraries %s; /sys and /dev %s\n", nic.name,
			nic.socket, library, tree);
	if (asked->install) {
		print_settings(settings);
		return 0;
	}
	for (const struct setting *s = settings; s->name; s++)
		if (set(s))
			return command_fail("verbs", "%s: %s", s->name, strerror(errno));
	return execute(command);
}

int command_verbs(int argc, char **argv)
{
	struct asked asked = {.nic = NULL};
	struct options o = {&usage, {{NULL, rows, &asked, NULL}}};
	int mine = 1;

	/* What is behind "--" is the program's, options too. */
	while (mine < argc && strcmp(argv[mine], "--"))
		mine++;
	const int status = options_parse(&o, mine, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (asked.install && mine + 1 < argc)
		return options_misuse(&usage, "--install-env runs no command");
	if (o.arguments)
		return options_misuse(&usage, "%s is before --, behind which the command begins", o.argument[0]);
	if (!asked.install && mine + 1 >= argc)
		return options_misuse(&usage, "which command? It begins behind --");
	return serve(&asked, argv + mine + 1);
}
