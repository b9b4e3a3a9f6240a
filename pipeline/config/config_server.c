/* SPDX-License-Identifier: BSD-3-Clause */
/* What nic.ini says about applications: the NIC's socket, and [limits NAME], what the programs of a user may have. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "../value.h"
#include "config_private.h"
#include "../limits.h"

#define MAX_APPLICATIONS 4096
#define MOST_A_SECOND	 1000000000000ull
#define LOOKUP_BYTES	 65536 /* a group's entry names its members */

/* A user's or group's number, all ones is none; false: text is no number. */
static bool identity(const char *text, uint32_t *id)
{
	uint64_t value;

	if (*text < '0' || *text > '9' || strlen(text) > 10 || strspn(text, "0123456789") != strlen(text))
		return false;
	value = strtoull(text, NULL, 10);
	*id = (uint32_t)value;
	return value < UINT32_MAX;
}

int sp_config_set_socket(struct sp_config_target *t)
{
	const char *path = t->key->value;
	const size_t room = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	if (*path != '/')
		return sp_config_refuse(t, "'%.40s' is no absolute path", path);
	if (strlen(path) > room)
		return sp_config_refuse(t, "the path of a socket has at most %zu bytes", room);
	if (path[strlen(path) - 1] == '/')
		return sp_config_refuse(t, "'%.60s' is a directory", path);
	t->server->path = path;
	return 0;
}

/* As chmod writes it. The NIC's own user can always use it: 0 would mean the default. */
int sp_config_set_socket_mode(struct sp_config_target *t)
{
	const char *text = t->key->value;
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	if (*text < '0' || *text > '7' || *end || mode > 0777 || (mode & 0600) != 0600)
		return sp_config_refuse(t, "'%.40s' is no mode of a socket: 0600, 0660 or 0666", text);
	t->server->mode = (uint32_t)mode;
	return 0;
}

int sp_config_uid(struct sp_config_target *t, uint32_t *uid)
{
	const char *name = t->key->value;
	struct passwd user, *found = NULL;

	if (identity(name, uid))
		return 0;
	char *buffer = malloc(LOOKUP_BYTES);
	if (!buffer)
		return sp_config_refuse(t, "out of memory");
	getpwnam_r(name, &user, buffer, LOOKUP_BYTES, &found);
	if (found)
		*uid = found->pw_uid;
	free(buffer);
	return found ? 0
		     : sp_config_refuse(t, "there is no user '%.40s' (a name, a number%s)", name,
					t->user ? ", or everyone" : "");
}

int sp_config_gid(struct sp_config_target *t, uint32_t *gid)
{
	const char *name = t->key->value;
	struct group group, *found = NULL;

	if (identity(name, gid))
		return 0;
	char *buffer = malloc(LOOKUP_BYTES);
	if (!buffer)
		return sp_config_refuse(t, "out of memory");
	getgrnam_r(name, &group, buffer, LOOKUP_BYTES, &found);
	if (found)
		*gid = found->gr_gid;
	free(buffer);
	return found ? 0 : sp_config_refuse(t, "there is no group '%.40s'", name);
}

int sp_config_set_socket_group(struct sp_config_target *t)
{
	uint32_t gid;
	int result = sp_config_gid(t, &gid);

	if (!result)
		t->server->group = gid;
	return result;
}

int sp_config_set_applications(struct sp_config_target *t)
{
	uint64_t value;
	int result = sp_config_number(t, 1, MAX_APPLICATIONS, &value);

	if (!result)
		t->server->applications = (uint32_t)value;
	return result;
}

/* ---- [limits NAME] ------------------------------------------------------------------------------ */
static int set_user(struct sp_config_target *t)
{
	if (!strcmp(t->key->value, "everyone")) {
		t->user->everyone = true;
		return 0;
	}
	return sp_config_uid(t, &t->user->uid);
}

static int set_memory(struct sp_config_target *t)
{
	return sp_config_number(t, 1, UINT64_MAX, &t->user->limits.memory);
}

static int set_count(struct sp_config_target *t, uint64_t max, uint32_t *count)
{
	uint64_t value;
	int result = sp_config_number(t, 1, max, &value);

	if (!result)
		*count = (uint32_t)value;
	return result;
}

static int set_contexts(struct sp_config_target *t)
{
	return set_count(t, SP_MAX_CONTEXTS, &t->user->limits.contexts);
}

static int set_qps(struct sp_config_target *t)
{
	return set_count(t, SP_MAX_QPS, &t->user->limits.qps);
}

static int set_messages(struct sp_config_target *t)
{
	return set_count(t, UINT32_MAX, &t->user->limits.messages);
}

static int set_weight(struct sp_config_target *t)
{
	return set_count(t, SP_MAX_WEIGHT, &t->user->weight);
}

/* 20%: of one worker's time; of all workers, so many times as much. */
static int set_worker_time(struct sp_config_target *t)
{
	const char *text = t->key->value;
	const size_t len = strlen(text);
	uint64_t value = 0;

	if (len < 2 || len > 5 || text[len - 1] != '%' || strspn(text, "0123456789") != len - 1)
		return sp_config_refuse(t, "'%.40s' is no part of a worker's time such as 20%%", text);
	for (size_t i = 0; i < len - 1; i++)
		value = value * 10 + (uint64_t)(text[i] - '0');
	if (!value || value > 100 * SP_MAX_WORKERS)
		return sp_config_refuse(t, "'%.40s' is out of range (1%% to %d%%)", text, 100 * SP_MAX_WORKERS);
	t->user->worker_time = (uint32_t)value;
	return 0;
}

/* 1M/s, or 1M: powers of 1000, as rates are. */
static int set_a_second(struct sp_config_target *t, uint64_t *to)
{
	const char *text = t->key->value;
	size_t len = strlen(text);
	char number[32];
	uint64_t value;

	if (len > 2 && !strcmp(text + len - 2, "/s"))
		len -= 2;
	if (len >= sizeof(number))
		return sp_config_refuse(t, "'%.40s' is no number a second such as 1M/s", text);
	memcpy(number, text, len);
	number[len] = 0;
	if (sp_parse_rate(number, &value))
		return sp_config_refuse(t, "'%.40s' is no number a second such as 1M/s", text);
	if (!value || value > MOST_A_SECOND)
		return sp_config_refuse(t, "'%.40s' is out of range (1/s to 1T/s)", text);
	*to = value;
	return 0;
}

static int set_packets(struct sp_config_target *t)
{
	return set_a_second(t, &t->user->packets);
}

static int set_bytes(struct sp_config_target *t)
{
	return set_a_second(t, &t->user->bytes);
}

static int set_bool(struct sp_config_target *t, bool *to)
{
	uint64_t on;

	if (sp_parse_bool(t->key->value, &on))
		return sp_config_refuse(t, "'%.40s' is neither yes nor no", t->key->value);
	*to = on;
	return 0;
}

static int set_places(struct sp_config_target *t)
{
	return set_count(t, MAX_APPLICATIONS, &t->user->applications);
}

static int set_refuse(struct sp_config_target *t)
{
	return set_bool(t, &t->user->refused);
}

static int set_filters(struct sp_config_target *t)
{
	return set_bool(t, &t->user->filters);
}

#define LIMITS_KEYS(X)                                                                                                 \
	X("user", set_user)                                                                                            \
	X("applications", set_places)                                                                                  \
	X("memory", set_memory)                                                                                        \
	X("contexts", set_contexts)                                                                                    \
	X("qps", set_qps)                                                                                              \
	X("messages", set_messages)                                                                                    \
	X("weight", set_weight)                                                                                        \
	X("worker-time", set_worker_time)                                                                              \
	X("packets", set_packets)                                                                                      \
	X("bytes", set_bytes)                                                                                          \
	X("filters", set_filters)                                                                                      \
	X("refuse", set_refuse)

static int limits_key(struct sp_config_target *t)
{
#define X(name, set) name,
	static const char *const names[] = {LIMITS_KEYS(X) NULL};
#undef X
#define X(name, set) set,
	static int (*const setters[])(struct sp_config_target *) = {LIMITS_KEYS(X)};
#undef X
	for (unsigned i = 0; names[i]; i++)
		if (!strcmp(names[i], t->key->name))
			return setters[i](t);
	return sp_config_unknown(t, "limits NAME", names);
}

static int limits_add(struct sp_config_target *t, const struct sp_config_section *section)
{
	struct sp_server_config *server = t->server;
	const struct sp_config_key *user = NULL;

	if (server->users == SP_MAX_USERS)
		return sp_config_fail(t->config, section->line, "", t->error, "more than %d sections [limits NAME]",
				      SP_MAX_USERS);
	t->user = &server->user[server->users];
	*t->user = (struct sp_user_limits){0};
	for (size_t k = 0; k < section->keys; k++) {
		t->key = &section->key[k];
		if (!strcmp(t->key->name, "user"))
			user = t->key;
		int result = limits_key(t);
		if (result)
			return result;
	}
	if (!user)
		return sp_config_fail(t->config, section->line, "user", t->error,
				      "[limits %s] has no user = NAME, NUMBER or everyone", section->name);
	/* The first match counts, so an entry after one for the same user, or everyone, would have no effect. */
	for (unsigned i = 0; i < server->users; i++)
		if (server->user[i].everyone || (!t->user->everyone && server->user[i].uid == t->user->uid)) {
			t->key = user;
			return sp_config_refuse(t, "an earlier [limits NAME] is for %s already, and the first counts",
						server->user[i].everyone ? "everyone" : "this user");
		}
	server->users++;
	return 0;
}

int sp_config_server(const struct sp_config *config, struct sp_server_config *server, struct sp_error *error)
{
	struct sp_config_target t = {.config = config, .server = server, .error = error};

	*server = (struct sp_server_config){.group = -1};
	int result = sp_config_nic_keys(&t);
	for (size_t i = 0; !result && i < config->sections; i++)
		if (!strcmp(config->section[i].kind, "limits"))
			result = limits_add(&t, &config->section[i]);
	return result;
}
