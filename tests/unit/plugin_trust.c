/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose plug-ins are loaded: root's and the own user's, from where nobody else may write. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../../pipeline/nic.h"
#include "../../pipeline/plugin/handler.h"
#include "../lib/suite.h"

#define STRANGER 61001 /* nobody's number */

static char place[256]; /* a directory of our own, and $TMPDIR */

static const char *at(const char *name)
{
	static char path[8][512];
	static unsigned turn;

	snprintf(path[turn % 8], sizeof(*path), "%s/%s", place, name);
	return path[turn++ % 8];
}

static void put_built(const char *path, const char *kind)
{
	char command[1600];

	snprintf(command, sizeof(command), "install -m 0644 '" PLUGINS "/plugin-%s.so' '%s'", kind, path);
	CU_ASSERT_EQUAL_FATAL(system(command), 0);
}

/* Which of the builds runs; 0: there is none. */
static uint64_t version(void)
{
	const struct sp_handler *h = sp_handler_find("plugged");

	return h ? h->classify(NULL, NULL) : 0;
}

static void refused_at(const char *path, int result, const char *words, int line)
{
	struct sp_plugin *plugin;
	struct sp_error error = {.key = ""};
	const int r = sp_plugin_load(path, &plugin, &error);

	if (r != result || !strstr(error.text, words))
		printf("# line %d: %d, '%s'\n", line, r, error.text);
	CU_ASSERT_EQUAL(r, result);
	CU_ASSERT_PTR_NULL(plugin);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, words));
	CU_ASSERT_EQUAL(version(), 0);
}
#define REFUSED(path, result, words) refused_at(path, result, words, __LINE__)

static void loads(const char *path, uint64_t wanted)
{
	struct sp_plugin *plugin;
	struct sp_error error = {.key = ""};
	const int r = sp_plugin_load(path, &plugin, &error);

	if (r)
		printf("# %s\n", error.text);
	CU_ASSERT_EQUAL_FATAL(r, 0);
	CU_ASSERT_EQUAL(version(), wanted);
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
}

TEST(a_file_that_others_may_write_to_is_refused)
{
	static const mode_t modes[] = {0664, 0646, 0666, 0777};

	put_built(at("open.so"), "good");
	for (unsigned i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL(chmod(at("open.so"), modes[i]), 0);
		REFUSED(at("open.so"), -EPERM, "/open.so (mode 0");
		REFUSED(at("open.so"), -EPERM, "others than its owner may write to ");
	}
	CU_ASSERT_EQUAL(chmod(at("open.so"), 0600), 0);
	loads(at("open.so"), 1);
}

TEST(a_directory_on_the_way_that_others_may_write_to_is_refused_by_name)
{
	CU_ASSERT_EQUAL_FATAL(mkdir(at("way"), 0755) || mkdir(at("way/in"), 0755) || mkdir(at("apart"), 0755), 0);
	put_built(at("way/in/mine.so"), "good");
	CU_ASSERT_EQUAL(chmod(at("way"), 0777), 0);
	REFUSED(at("way/in/mine.so"), -EPERM, "/way (mode 0777): chmod go-w");
	CU_ASSERT_EQUAL(symlink("../way/in", at("apart/link")), 0); /* not by a link, nor by .. either */
	REFUSED(at("apart/link/mine.so"), -EPERM, "/way (mode 0777): chmod go-w");
	REFUSED(at("apart/../way/in/mine.so"), -EPERM, "/way (mode 0777): chmod go-w");
	CU_ASSERT_EQUAL(chmod(at("way"), 0775), 0);
	REFUSED(at("way/in/mine.so"), -EPERM, "/way (mode 0775): chmod go-w");
	CU_ASSERT_EQUAL(chmod(at("way"), 01777), 0); /* as /tmp: what is in it stays its owner's */
	loads(at("way/in/mine.so"), 1);
	CU_ASSERT_EQUAL(chmod(at("way"), 0755), 0);
	loads(at("apart/link/mine.so"), 1);
	CU_ASSERT_EQUAL(symlink("round", at("round")), 0);
	REFUSED(at("round"), -ELOOP, "Too many levels of symbolic links");
	REFUSED(at("way/in/mine.so/further"), -ENOTDIR, "mine.so: Not a directory");
}

TEST(what_belongs_to_another_user_is_refused_by_name)
{
	if (geteuid()) {
		printf("# only root can give files away\n");
		return;
	}
	CU_ASSERT_EQUAL_FATAL(mkdir(at("theirs"), 0755), 0);
	put_built(at("theirs/a.so"), "good");
	put_built(at("given.so"), "good");
	CU_ASSERT_EQUAL(chown(at("given.so"), STRANGER, 0), 0);
	REFUSED(at("given.so"), -EPERM, "given.so belongs to user 61001: only root's plug-ins are loaded");
	CU_ASSERT_EQUAL(chown(at("theirs"), STRANGER, 0), 0);
	REFUSED(at("theirs/a.so"), -EPERM, "/theirs belongs to user 61001");
	CU_ASSERT_EQUAL(chown(at("theirs"), 0, 0), 0);
	CU_ASSERT_EQUAL(symlink("theirs/a.so", at("theirs.so")), 0);
	loads(at("theirs.so"), 1);
	CU_ASSERT_EQUAL(lchown(at("theirs.so"), STRANGER, 0), 0);
	REFUSED(at("theirs.so"), -EPERM, "theirs.so belongs to user 61001");

	/* The NIC's own user: his files are his to load, and root's. */
	CU_ASSERT_EQUAL(chown(place, STRANGER, 0), 0);
	CU_ASSERT_EQUAL_FATAL(seteuid(STRANGER), 0);
	loads(at("given.so"), 1);
	loads(at("theirs/a.so"), 1);
	CU_ASSERT_EQUAL_FATAL(seteuid(0), 0);
	CU_ASSERT_EQUAL(chown(place, 0, 0), 0);
}

/* Another file takes the name's place all the time; others may write to it. */
TEST(a_swap_while_it_is_loaded_loads_no_file_that_others_may_write_to)
{
	unsigned loaded = 0, refused = 0;
	struct sp_plugin *plugin;

	put_built(at("good.so"), "good");
	put_built(at("bad.so"), "newer");
	CU_ASSERT_EQUAL(chmod(at("bad.so"), 0666), 0);
	CU_ASSERT_EQUAL(link(at("good.so"), at("swap.so")), 0);
	const pid_t pid = fork();
	if (!pid)
		for (bool bad = true;; bad = !bad) {
			if (link(at(bad ? "bad.so" : "good.so"), at("next.so")) || rename(at("next.so"), at("swap.so")))
				_exit(1);
			usleep(50);
		}
	for (unsigned i = 0; i < 200; i++) {
		if (sp_plugin_load(at("swap.so"), &plugin, NULL)) {
			refused++;
			continue;
		}
		loaded++;
		CU_ASSERT_EQUAL(version(), 1);
		CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("# %u times loaded, %u times refused\n", loaded, refused);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	char command[300];

	snprintf(place, sizeof(place), "%s/spindle-trust-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(place) || setenv("TMPDIR", place, 1))
		return 99;
	int status = suite_run();
	snprintf(command, sizeof(command), "rm -rf '%s'", place);
	return system(command) ? 99 : status;
}
