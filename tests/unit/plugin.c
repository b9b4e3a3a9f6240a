/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers from shared objects: what is refused and in which words, what stays and what goes. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../../pipeline/config/config.h"
#include "../../pipeline/plugin/handler.h"
#include "../lib/suite.h"

static char place[256]; /* a directory of our own, and $TMPDIR */

/* ---- files -------------------------------------------------------------------------------------- */
static const char *built(const char *kind)
{
	static char path[512];

	snprintf(path, sizeof(path), PLUGINS "/plugin-%s.so", kind);
	return path;
}

static const char *at(const char *name)
{
	static char path[8][512];
	static unsigned turn;

	snprintf(path[turn % 8], sizeof(*path), "%s/%s", place, name);
	return path[turn++ % 8];
}

static char *content(const char *path, size_t *len)
{
	struct stat st;
	FILE *f = fopen(path, "re");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL_FATAL(fstat(fileno(f), &st), 0);
	char *bytes = malloc((size_t)st.st_size);
	*len = fread(bytes, 1, (size_t)st.st_size, f);
	CU_ASSERT_EQUAL_FATAL((off_t)*len, st.st_size);
	fclose(f);
	return bytes;
}

static void put(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "we"); /* the same inode, where there is a file */

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fwrite(bytes, 1, len, f), len);
	CU_ASSERT_EQUAL(fclose(f), 0);
}

/* The first bytes of what was built; max 0: all of it. */
static void put_built(const char *path, const char *kind, size_t max)
{
	size_t len;
	char *bytes = content(built(kind), &len);

	put(path, bytes, max && max < len ? max : len);
	free(bytes);
}

/* Directories of copies in $TMPDIR; name: the last one's. */
static unsigned directories(char *name, size_t room)
{
	unsigned n = 0;
	DIR *dir = opendir(place);

	CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
	for (struct dirent *e; (e = readdir(dir));)
		if (!strncmp(e->d_name, "spindle-plugins-", 16)) {
			if (name)
				snprintf(name, room, "%s/%s", place, e->d_name);
			n++;
		}
	closedir(dir);
	return n;
}

static unsigned handlers(void)
{
	unsigned n = 0;

	for (const struct sp_handler *h = sp_handler_next(NULL); h; h = sp_handler_next(h))
		n++;
	return n;
}

/* Whether code of a copy is there. */
static bool mapped(void)
{
	char line[1024];
	bool is = false;
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && fgets(line, sizeof(line), f))
		is |= strstr(line, "/spindle-plugins-") != NULL;
	if (f)
		fclose(f);
	return is;
}

/* ---- refusals ----------------------------------------------------------------------------------- */
static void refused_at(const char *path, int result, const char *words, int line)
{
	struct sp_plugin *plugin = (void *)place;
	struct sp_error error = {.key = ""};
	const unsigned before = handlers();
	const int r = sp_plugin_load(path, &plugin, &error);

	if (r != result || plugin || !strstr(error.text, words) || strstr(error.text, "spindle-plugins-"))
		printf("# line %d: %d, '%s'\n", line, r, error.text);
	CU_ASSERT_EQUAL(r, result);
	CU_ASSERT_PTR_NULL(plugin);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, words));
	CU_ASSERT_PTR_NULL(strstr(error.text, "spindle-plugins-")); /* the copy is nobody's business */
	CU_ASSERT_STRING_EQUAL(error.key, "plugin");
	CU_ASSERT_EQUAL(handlers(), before);
	CU_ASSERT_EQUAL(directories(NULL, 0), 0); /* nor does anything stay */
	CU_ASSERT_FALSE(mapped());
	CU_ASSERT_EQUAL(sp_plugin_load(path, &plugin, NULL), result);
}
#define REFUSED(path, result, words) refused_at(path, result, words, __LINE__)

TEST_CALL(another_abi_is_refused_by_name,
	  REFUSED(built("abi"), -EINVAL, "plugin-abi.so: handler plugged was built for ABI 99, this NIC has 5"))

TEST(another_size_is_refused_by_name)
{
	char words[120];

	snprintf(words, sizeof(words),
		 "plugin-size.so: handler plugged has a struct sp_handler of 96 bytes, here it has %zu",
		 sizeof(struct sp_handler));
	REFUSED(built("size"), -EINVAL, words);
}

TEST_CALL(an_object_without_a_handler_is_refused,
	  REFUSED(built("none"), -EINVAL, "plugin-none.so: registers no handler"))

TEST(a_name_that_is_built_in_is_refused)
{
	REFUSED(built("taken"), -EINVAL,
		"plugin-taken.so: handler count: the name is taken by the one that is built in");
	CU_ASSERT_PTR_NULL(sp_handler_file(sp_handler_find("count")));
}

TEST_CALL(missing_symbols_are_named,
	  REFUSED(built("undefined"), -EINVAL, "plugin-undefined.so: undefined symbol: sp_no_such_call"))
TEST_CALL(a_wrong_table_is_refused,
	  REFUSED(built("table"), -EINVAL, "plugin-table.so: handler plugged has messages but no classify()"))

TEST(two_handlers_of_an_object_are_refused_if_one_is_wrong)
{
	REFUSED(built("half"), -EINVAL, "handler count: the name is taken");
	CU_ASSERT_PTR_NULL(sp_handler_find("plugged"));
	REFUSED(built("twice"), -EINVAL, "registers two handlers plugged");
}

TEST(what_is_no_shared_object_is_refused)
{
	REFUSED("", -ENOENT, "no plug-in's file is named");
	REFUSED(at("missing.so"), -ENOENT, "missing.so: No such file or directory");
	REFUSED(place, -EISDIR, "is a directory");
	put(at("text.so"), "int main;\n", 10);
	REFUSED(at("text.so"), -EINVAL, "text.so: file too short");
	char line[4096];
	memset(line, ' ', sizeof(line));
	put(at("text.so"), line, sizeof(line));
	REFUSED(at("text.so"), -EINVAL, "text.so: invalid ELF header");
	put(at("empty.so"), "", 0);
	REFUSED(at("empty.so"), -EINVAL, "empty.so: is empty");
}

TEST(a_fifo_does_not_hang)
{
	CU_ASSERT_EQUAL_FATAL(mkfifo(at("fifo.so"), 0600), 0);
	alarm(10);
	REFUSED(at("fifo.so"), -EINVAL, "fifo.so: is no regular file");
	REFUSED("/dev/zero", -EINVAL, "/dev/zero: is no regular file");
	alarm(0);
}

TEST(a_file_cut_off_anywhere_is_refused)
{
	struct sp_plugin *plugin;
	size_t len;
	char *bytes = content(built("good"), &len);

	put(at("cut.so"), bytes, 800); /* all headers, and nothing of what they name */
	REFUSED(at("cut.so"), -EINVAL, "cut.so: is cut off");
	for (size_t keep = 1; keep < len; keep += keep < 1024 ? 61 : len / 40) {
		put(at("cut.so"), bytes, keep);
		CU_ASSERT_EQUAL(sp_plugin_load(at("cut.so"), &plugin, NULL), -EINVAL);
	}
	free(bytes);
	CU_ASSERT_EQUAL(directories(NULL, 0), 0);
}

/* As a linker leaves it that has made room for all and not written it yet. */
TEST(a_file_that_is_not_all_written_is_refused)
{
	struct sp_plugin *plugin;
	size_t len;
	char *bytes = content(built("good"), &len), *zeros = calloc(1, len);

	CU_ASSERT_PTR_NOT_NULL_FATAL(zeros);
	memcpy(zeros, bytes, 1024);
	put(at("half.so"), zeros, len);
	REFUSED(at("half.so"), -EINVAL, "half.so: is not all written");
	for (size_t keep = 64; keep < len; keep += keep < 1024 ? 61 : len / 40) {
		memcpy(zeros, bytes, keep);
		put(at("half.so"), zeros, len);
		CU_ASSERT_EQUAL(sp_plugin_load(at("half.so"), &plugin, NULL), -EINVAL);
	}
	free(zeros);
	free(bytes);
	CU_ASSERT_EQUAL(directories(NULL, 0), 0);
}

TEST(a_file_that_somebody_writes_is_refused)
{
	struct sp_plugin *plugin;
	size_t len;
	char *bytes = content(built("good"), &len);

	put(at("open.so"), bytes, len);
	const int fd = open(at("open.so"), O_WRONLY);
	CU_ASSERT_FATAL(fd >= 0);
	REFUSED(at("open.so"), -EAGAIN, "open.so: is being written");
	close(fd);
	CU_ASSERT_EQUAL(sp_plugin_load(at("open.so"), &plugin, NULL), 0);
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	free(bytes);
}

/* ---- loading ------------------------------------------------------------------------------------ */
static struct sp_plugin *load(const char *path)
{
	struct sp_plugin *plugin;
	struct sp_error error = {.key = ""};
	int r = sp_plugin_load(path, &plugin, &error);

	if (r)
		printf("# %s\n", error.text);
	CU_ASSERT_EQUAL_FATAL(r, 0);
	CU_ASSERT_STRING_EQUAL(error.text, "");
	return plugin;
}

/* Which of the builds runs; 0: there is none. */
static uint64_t version(void)
{
	const struct sp_handler *h = sp_handler_find("plugged");

	return h ? h->classify(NULL, NULL) : 0;
}

TEST(a_handler_comes_and_goes_with_its_file)
{
	char copies[512];
	struct stat st;
	struct sp_plugin *plugin = load(built("good"));
	const struct sp_handler *h = sp_handler_find("plugged");

	CU_ASSERT_PTR_NOT_NULL_FATAL(h);
	CU_ASSERT_STRING_EQUAL(sp_handler_file(h), built("good"));
	CU_ASSERT_EQUAL(directories(copies, sizeof(copies)), 1);
	CU_ASSERT_EQUAL(stat(copies, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0700);
	CU_ASSERT(mapped());
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	CU_ASSERT_PTR_NULL(sp_handler_find("plugged"));
	CU_ASSERT_EQUAL(directories(NULL, 0), 0);
	CU_ASSERT_FALSE(mapped());
	CU_ASSERT_EQUAL(sp_plugin_unload(NULL), 0);
}

TEST(two_handlers_in_one_object_are_both_there)
{
	struct sp_plugin *plugin = load(built("two"));

	CU_ASSERT_PTR_NOT_NULL(sp_handler_find("plugged"));
	CU_ASSERT_PTR_NOT_NULL(sp_handler_find("plugged-too"));
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	CU_ASSERT_PTR_NULL(sp_handler_find("plugged"));
	CU_ASSERT_PTR_NULL(sp_handler_find("plugged-too"));
}

TEST(a_plugin_that_loads_another_is_refused_and_does_not_hang)
{
	struct sp_plugin *plugin;
	struct sp_error error;
	char deadlock[8];

	snprintf(deadlock, sizeof(deadlock), "%d", EDEADLK);
	alarm(60); /* it would wait for itself */
	CU_ASSERT_EQUAL_FATAL(sp_plugin_load(built("nesting"), &plugin, &error), 0);
	CU_ASSERT_STRING_EQUAL(getenv("PLUGIN_CONSTRUCTOR"), deadlock);
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	CU_ASSERT_STRING_EQUAL(getenv("PLUGIN_DESTRUCTOR"), deadlock);
	alarm(0);
}

TEST(the_same_file_again_counts)
{
	struct sp_plugin *plugin = load(built("good"));

	CU_ASSERT_EQUAL_FATAL(symlink(built("good"), at("link.so")), 0);
	CU_ASSERT_PTR_EQUAL(load(built("good")), plugin);
	CU_ASSERT_PTR_EQUAL(load(at("link.so")), plugin);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(version(), 1);
		CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	}
	CU_ASSERT_EQUAL(version(), 0);
}

TEST(names_of_plugins_are_taken_too)
{
	struct sp_plugin *plugin = load(built("good")), *other;
	struct sp_error error;

	CU_ASSERT_EQUAL(sp_plugin_load(built("newer"), &other, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(error.text, "plugin-newer.so: handler plugged: the name is taken by the one from "));
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "plugin-good.so"));
	CU_ASSERT_EQUAL(version(), 1);
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
}

TEST(a_file_replaced_while_loaded_leaves_the_old_code)
{
	struct sp_plugin *other;
	struct sp_error error;

	put_built(at("replaced.so"), "good", 0);
	struct sp_plugin *plugin = load(at("replaced.so"));
	for (unsigned way = 0; way < 2; way++) { /* written over, and renamed over */
		put_built(at(way ? "fresh.so" : "replaced.so"), "newer", 0);
		CU_ASSERT_EQUAL(way ? rename(at("fresh.so"), at("replaced.so")) : 0, 0);
		CU_ASSERT_EQUAL(version(), 1);
		CU_ASSERT_EQUAL(sp_plugin_load(at("replaced.so"), &other, &error), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(
			strstr(error.text, "the name is taken by the one loaded from this file before it changed"));
		CU_ASSERT_EQUAL(version(), 1);
	}
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	plugin = load(at("replaced.so"));
	CU_ASSERT_EQUAL(version(), 2);
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
}

/* ---- copies ------------------------------------------------------------------------------------- */
/* A child that loads and then goes: by exit(), or killed. */
static void child(bool killed)
{
	struct sp_plugin *plugin;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (sp_plugin_load(built("good"), &plugin, NULL) || !version())
			_exit(1);
		if (killed)
			raise(SIGKILL);
		exit(0);
	}
	CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(killed ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status));
}

TEST(copies_go_with_their_process)
{
	child(false);
	CU_ASSERT_EQUAL(directories(NULL, 0), 0);
}

TEST(what_killed_processes_leave_goes_with_the_next_load)
{
	char left[512], alive[512];

	snprintf(alive, sizeof(alive), "%s/spindle-plugins-1-alive0", place);
	CU_ASSERT_EQUAL_FATAL(mkdir(alive, 0700), 0);
	int fd = open(alive, O_RDONLY | O_DIRECTORY);
	CU_ASSERT_EQUAL(flock(fd, LOCK_SH), 0); /* as a process that runs does */
	child(true);
	CU_ASSERT_EQUAL(directories(left, sizeof(left)), 2);
	struct sp_plugin *plugin = load(built("good"));
	CU_ASSERT_EQUAL(directories(NULL, 0), 2);
	CU_ASSERT_EQUAL(access(alive, F_OK), 0);
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	CU_ASSERT_EQUAL(directories(NULL, 0), 1);
	close(fd);
	CU_ASSERT_EQUAL(chmod(alive, 0755), 0); /* not one of ours */
	CU_ASSERT_EQUAL(sp_plugin_unload(load(built("good"))), 0);
	CU_ASSERT_EQUAL(rmdir(alive), 0);
}

TEST(a_child_does_not_take_its_parents_copies)
{
	struct sp_plugin *plugin = load(built("good"));
	int status;

	for (unsigned way = 0; way < 2; way++) {
		pid_t pid = fork();
		if (!pid) {
			if (way)
				sp_plugin_unload(plugin);
			if (way && sp_plugin_load(built("good"), &plugin, NULL))
				_exit(1);
			exit(0);
		}
		CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
		CU_ASSERT_EQUAL(status, 0);
		CU_ASSERT_EQUAL(directories(NULL, 0), 1);
	}
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	CU_ASSERT_EQUAL(directories(NULL, 0), 0);
}

TEST(a_missing_temporary_directory_is_reported)
{
	struct sp_plugin *plugin;
	struct sp_error error;

	setenv("TMPDIR", at("nowhere"), 1);
	CU_ASSERT_EQUAL(sp_plugin_load(built("good"), &plugin, &error), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "in $TMPDIR"));
	CU_ASSERT_EQUAL(version(), 0);
	setenv("TMPDIR", place, 1);
}

/* ---- in use ------------------------------------------------------------------------------------- */
TEST(handlers_of_a_context_are_not_unloaded)
{
	const struct sp_nic_config config = {.mtu = 1500};
	const struct sp_setting beside[] = {{"filter", "udp"}, {"companion", "plugged-too"}};
	struct sp_error error = {.key = ""};
	struct sp_nic *nic;
	uint32_t id;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&config, &error, &nic), 0);
	struct sp_plugin *plugin = load(built("two"));
	for (unsigned way = 0; way < 2; way++) { /* as the handler, and as the companion */
		struct sp_context_config context = {"mine", way ? "count" : "plugged", beside, way ? 2 : 1};
		CU_ASSERT_EQUAL_FATAL(sp_nic_context_add(nic, &context, &id, &error), 0);
		CU_ASSERT_EQUAL(sp_plugin_unload(plugin), -EBUSY);
		CU_ASSERT_PTR_NOT_NULL(sp_handler_find("plugged"));
		/* a context that is refused leaves no trace */
		CU_ASSERT_EQUAL(sp_nic_context_add(nic, &context, &id, &error), -EEXIST);
		context.name = "other";
		context.setting = &(struct sp_setting){"no-such-key", "1"};
		context.settings = 1;
		CU_ASSERT_EQUAL(sp_nic_context_add(nic, &context, &id, &error), -EINVAL);
		CU_ASSERT_EQUAL(sp_nic_context_find(nic, "mine", &id), 0);
		CU_ASSERT_EQUAL(sp_nic_context_remove(nic, id), 0);
	}
	CU_ASSERT_EQUAL(sp_plugin_unload(plugin), 0);
	CU_ASSERT_PTR_NULL(sp_handler_find("plugged"));
	char *json = NULL;
	CU_ASSERT_EQUAL(sp_nic_report_text(nic, true, NULL, &json), 0); /* what has gone is not looked at */
	free(json);
	sp_nic_destroy(nic);
}

/* ---- the configuration -------------------------------------------------------------------------- */
static struct sp_config *configuration(const char *name, const char *text)
{
	struct sp_config *config = NULL;
	struct sp_error error;

	int r = sp_config_parse(name, text, strlen(text), &config, &error);
	if (r)
		printf("# %s\n", error.text);
	CU_ASSERT_EQUAL_FATAL(r, 0);
	return config;
}

TEST(a_relative_path_is_relative_to_the_configuration)
{
	struct sp_nic_config nic = {.mtu = 0};
	struct sp_error error = {.key = ""};

	CU_ASSERT_EQUAL_FATAL(mkdir(at("etc"), 0700), 0);
	CU_ASSERT_EQUAL_FATAL(mkdir(at("etc/lib"), 0700), 0);
	put_built(at("etc/lib/here.so"), "two", 0);
	struct sp_config *config = configuration(at("etc/nic.ini"), "[nic]\nplugin = lib/here.so\nmtu = 9000\n"
								    "plugin = ../etc/lib/here.so\n");
	CU_ASSERT_EQUAL(sp_config_nic(config, &nic, &error), 0);
	CU_ASSERT_PTR_NULL(sp_handler_find("plugged")); /* not yet */
	CU_ASSERT_EQUAL(sp_config_plugins(config, &error), 0);
	CU_ASSERT_EQUAL(sp_config_plugins(config, &error), 0);
	CU_ASSERT_EQUAL(config->plugins, 2);
	CU_ASSERT_PTR_NOT_NULL_FATAL(sp_handler_find("plugged"));
	CU_ASSERT_STRING_EQUAL(sp_handler_file(sp_handler_find("plugged")), at("etc/lib/here.so"));
	sp_config_free(config);
	CU_ASSERT_PTR_NULL(sp_handler_find("plugged"));

	char text[640];
	snprintf(text, sizeof(text), "[nic]\nplugin = %s\n", built("good"));
	config = configuration("nic.ini", text);
	CU_ASSERT_EQUAL(sp_config_plugins(config, &error), 0);
	CU_ASSERT_EQUAL(version(), 1);
	sp_config_free(config);
	CU_ASSERT_EQUAL(version(), 0);
}

TEST(a_wrong_plugin_is_told_with_file_and_line)
{
	struct sp_nic_config nic = {.mtu = 0};
	struct sp_error error = {.key = ""};
	char text[1200];
	int used = snprintf(text, sizeof(text), "[nic]\nplugin = %s\n", built("good"));

	snprintf(text + used, sizeof(text) - (size_t)used, "plugin = %s\n", built("abi"));
	struct sp_config *config = configuration("nic.ini", text);
	CU_ASSERT_EQUAL(sp_config_plugins(config, &error), -EINVAL);
	CU_ASSERT_EQUAL(strncmp(error.text, "nic.ini:3: plugin: ", 19), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "plugin-abi.so: handler plugged was built for ABI 99"));
	CU_ASSERT_STRING_EQUAL(error.key, "plugin");
	CU_ASSERT_PTR_NULL(sp_handler_find("plugged")); /* the first one has gone again */
	sp_config_free(config);

	config = configuration("/etc/spindle/nic.ini", "[nic]\nplugin = missing.so\n");
	CU_ASSERT_EQUAL(sp_config_plugins(config, &error), -ENOENT);
	CU_ASSERT_STRING_EQUAL(error.text,
			       "/etc/spindle/nic.ini:2: plugin: /etc/spindle/missing.so: No such file or directory");
	sp_config_free(config);

	config = configuration("nic.ini", "[nic]\nmtu = 1500\nplugin =\n");
	CU_ASSERT_EQUAL(sp_config_nic(config, &nic, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.text, "nic.ini:3: plugin: which file?");
	sp_config_free(config);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	char command[300];

	snprintf(place, sizeof(place), "%s/spindle-plugin-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(place) || setenv("TMPDIR", place, 1))
		return 99;
	int status = suite_run();
	snprintf(command, sizeof(command), "rm -rf '%s'", place);
	return system(command) ? 99 : status;
}
