/* SPDX-License-Identifier: BSD-3-Clause */
/* What nic.ini says about the process of `spindle run`: whose it is, and what it may do. */
#include <errno.h>
#include <string.h>

#include "../value.h"
#include "config_private.h"

int sp_config_set_run_user(struct sp_config_target *t)
{
	uint32_t uid;
	int result = sp_config_uid(t, &uid);

	if (!result) {
		t->run->user = uid;
		t->run->user_name = t->key->value;
	}
	return result;
}

int sp_config_set_run_group(struct sp_config_target *t)
{
	uint32_t gid;
	int result = sp_config_gid(t, &gid);

	if (!result)
		t->run->group = gid;
	return result;
}

static int set_off(struct sp_config_target *t, bool *off)
{
	uint64_t on;

	if (sp_parse_bool(t->key->value, &on))
		return sp_config_refuse(t, "'%.40s' is neither yes nor no", t->key->value);
	*off = !on;
	return 0;
}

int sp_config_set_sandbox(struct sp_config_target *t)
{
	return set_off(t, &t->run->no_sandbox);
}

int sp_config_set_live_handlers(struct sp_config_target *t)
{
	return set_off(t, &t->run->no_live_handlers);
}

int sp_config_set_plugin_directory(struct sp_config_target *t)
{
	if (*t->key->value != '/')
		return sp_config_refuse(t, "'%.60s' is no absolute path", t->key->value);
	if (t->run->directories == SP_RUN_DIRECTORIES)
		return sp_config_refuse(t, "more than %d", SP_RUN_DIRECTORIES);
	t->run->directory[t->run->directories++] = t->key->value;
	return 0;
}

int sp_config_run(const struct sp_config *config, struct sp_run_config *run, struct sp_error *error)
{
	struct sp_config_target t = {.config = config, .run = run, .error = error};

	*run = (struct sp_run_config){.user = -1, .group = -1};
	return sp_config_nic_keys(&t);
}
