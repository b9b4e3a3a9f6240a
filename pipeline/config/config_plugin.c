/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin = FILE in [nic]: the shared objects that handlers of the [context NAME] sections come from. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_private.h"

int sp_config_set_plugin(struct sp_config_target *t)
{
	if (!*t->key->value)
		return sp_config_refuse(t, "which file?");
	return 0;
}

/* A relative path starts at the configuration file's directory, not the working directory. */
int sp_config_beside(const struct sp_config *config, const char *name, char *path, size_t room)
{
	const char *slash = strrchr(config->file, '/');
	const int directory = *name == '/' || !slash ? 0 : (int)(slash + 1 - config->file);
	const int len = snprintf(path, room, "%.*s%s", directory, config->file, name);

	return len < 0 || (size_t)len >= room ? -ENAMETOOLONG : 0;
}

static int plugin_load(struct sp_config *config, const struct sp_config_key *key, struct sp_error *error)
{
	char path[PATH_MAX];
	struct sp_error core = {.key = ""};
	struct sp_plugin **more = realloc(config->plugin, (config->plugins + 1) * sizeof(*more));
	int r = more ? sp_config_beside(config, key->value, path, sizeof(path)) : -ENOMEM;

	if (more)
		config->plugin = more;
	if (!r)
		r = sp_plugin_load(path, &config->plugin[config->plugins], &core);
	if (!r)
		config->plugins++;
	else
		sp_config_fail(config, key->line, "plugin", error, "plugin: %s", *core.text ? core.text : strerror(-r));
	return r;
}

void sp_config_unload(struct sp_config *config)
{
	while (config->plugins)
		sp_plugin_unload(config->plugin[--config->plugins]);
	free(config->plugin);
	config->plugin = NULL;
}

int sp_config_plugins(struct sp_config *config, struct sp_error *error)
{
	int r = 0;

	for (size_t i = 0; i < config->sections && !config->plugins; i++) {
		const struct sp_config_section *section = &config->section[i];

		for (size_t k = 0; !strcmp(section->kind, "nic") && k < section->keys; k++) {
			if (strcmp(section->key[k].name, "plugin"))
				continue;
			r = plugin_load(config, &section->key[k], error);
			if (r) {
				sp_config_unload(config);
				return r;
			}
		}
	}
	return 0;
}
