/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files that give keys their meaning share: which key it is, where its value goes, how to refuse it. */
#ifndef PIPELINE_CONFIG_CONFIG_PRIVATE_H
#define PIPELINE_CONFIG_CONFIG_PRIVATE_H

#include "config.h"

static inline bool sp_config_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

#define CONFIG_KEYS 256 /* of one section: keys are looked for one by one */

struct sp_config_target {
	const struct sp_config *config;
	const struct sp_config_key *key;
	struct sp_nic_config *nic;	 /* NULL: its keys are not wanted now */
	struct sp_server_config *server; /* NULL: likewise */
	struct sp_run_config *run;	 /* NULL: likewise */
	struct sp_user_limits *user;	 /* in [limits NAME] */
	struct sp_error *error;
};

/* "FILE:LINE: KEY: what", always -EINVAL. */
int __attribute__((format(printf, 2, 3))) sp_config_refuse(struct sp_config_target *t, const char *format, ...);
/* The key's value, between min and max. */
int sp_config_number(struct sp_config_target *t, uint64_t min, uint64_t max, uint64_t *value);
/* Refuses a key that is none of those known (up to NULL), for the section of this kind. */
int sp_config_unknown(struct sp_config_target *t, const char *section, const char *const *known);

/* What sp_config_plugins has loaded. */
void sp_config_unload(struct sp_config *config);

/* All keys of [nic]: those of t->nic, of t->server, of t->run, or several. */
int sp_config_nic_keys(struct sp_config_target *t);
int sp_config_set_plugin(struct sp_config_target *t);
int sp_config_set_socket(struct sp_config_target *t);
int sp_config_set_socket_mode(struct sp_config_target *t);
int sp_config_set_socket_group(struct sp_config_target *t);
int sp_config_set_applications(struct sp_config_target *t);
int sp_config_set_run_user(struct sp_config_target *t);
int sp_config_set_run_group(struct sp_config_target *t);
int sp_config_set_sandbox(struct sp_config_target *t);
int sp_config_set_live_handlers(struct sp_config_target *t);
int sp_config_set_plugin_directory(struct sp_config_target *t);
/* The number of a user or group, given as a name or a number. */
int sp_config_uid(struct sp_config_target *t, uint32_t *uid);
int sp_config_gid(struct sp_config_target *t, uint32_t *gid);

#endif
