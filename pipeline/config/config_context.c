/* SPDX-License-Identifier: BSD-3-Clause */
/* The [context NAME] sections: each becomes a context of the NIC. */
#include <errno.h>
#include <string.h>

#include "../../handlers/spindle-handler.h"
#include "config_private.h"

static int context_add(const struct sp_config *config, const struct sp_config_section *section, struct sp_nic *nic,
		       struct sp_error *error)
{
	struct sp_setting setting[CONFIG_KEYS];
	struct sp_context_config context = {.name = section->name, .setting = setting};
	struct sp_error core = {.key = ""};
	unsigned line = section->line;
	uint32_t id;

	for (size_t k = 0; k < section->keys; k++) {
		const struct sp_config_key *key = &section->key[k];
		if (!strcmp(key->name, "handler"))
			context.handler = key->value;
		else
			setting[context.settings++] = (struct sp_setting){.key = key->name, .value = key->value};
	}
	if (!context.handler)
		return sp_config_fail(config, line, "handler", error, "[context %s] has no handler = NAME",
				      section->name);
	int result = sp_nic_context_add(nic, &context, &id, &core);
	if (!result)
		return 0;
	for (size_t k = 0; k < section->keys; k++)
		if (!strcmp(section->key[k].name, core.key))
			line = section->key[k].line;
	const char *text = *core.text ? core.text : strerror(-result);
	if (*core.key && !strstr(text, core.key))
		sp_config_fail(config, line, core.key, error, "[context %s] %s: %s", section->name, core.key, text);
	else
		sp_config_fail(config, line, core.key, error, "[context %s] %s", section->name, text);
	return result;
}

int sp_config_unhosted(const struct sp_config *config, struct sp_error *error)
{
	for (size_t i = 0; i < config->sections; i++) {
		const struct sp_config_section *section = &config->section[i];

		for (size_t k = 0; !strcmp(section->kind, "context") && k < section->keys; k++) {
			const struct sp_config_key *key = &section->key[k];
			const struct sp_handler *h = strcmp(key->name, "handler") ? NULL : sp_handler_find(key->value);

			if (h && h->flags & SP_HANDLER_HOSTED)
				return sp_config_fail(config, key->line, "handler", error,
						      "[context %s] %s works for an application, and none can use this "
						      "context: each opens its own (sp_context_open(3)). Leave it out",
						      section->name, key->value);
		}
	}
	return 0;
}

int sp_config_contexts(const struct sp_config *config, struct sp_nic *nic, struct sp_error *error)
{
	for (size_t i = 0; i < config->sections; i++) {
		if (strcmp(config->section[i].kind, "context"))
			continue;
		int result = context_add(config, &config->section[i], nic, error);
		if (result)
			return result;
	}
	return 0;
}
