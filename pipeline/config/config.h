/* SPDX-License-Identifier: BSD-3-Clause */
/* nic.ini: sections, keys, values and where they stood; and a NIC's configuration made from them. */
#ifndef PIPELINE_CONFIG_CONFIG_H
#define PIPELINE_CONFIG_CONFIG_H

#include "../nic.h"

struct sp_config_key {
	char *name, *value;
	unsigned line;
};

struct sp_config_section {
	char *kind, *name; /* "nic", "" or "context", NAME or "limits", NAME */
	unsigned line;
	struct sp_config_key *key;
	size_t keys;
};

struct sp_config {
	char *file;
	struct sp_config_section *section;
	size_t sections;
	struct sp_plugin **plugin; /* loaded by sp_config_plugins */
	size_t plugins;
};

/* Reads a file. Errors name file and line: text in error. Refuses sections other than [nic] (once), [context NAME]
 * and [limits NAME] (unique names), keys outside sections, keys twice (except those of [nic] that may repeat: ip,
 * gateway, port, neighbour, plugin, plugin-directory). */
int sp_config_read(const char *file, struct sp_config **config, struct sp_error *error);
int sp_config_parse(const char *name, const char *text, size_t len, struct sp_config **config, struct sp_error *error);
/* The same for other files of this form: with sections of these kinds alone, up to one without a name. */
struct sp_config_kind {
	const char *name;
	bool named; /* [KIND NAME], unique; false: [KIND], once */
};
int sp_config_read_kinds(const char *file, const struct sp_config_kind *kinds, struct sp_config **config,
			 struct sp_error *error);
int sp_config_parse_kinds(const char *name, const char *text, size_t len, const struct sp_config_kind *kinds,
			  struct sp_config **config, struct sp_error *error);
void sp_config_free(struct sp_config *config);
/* "FILE:LINE: what", always -EINVAL: what is wrong with a value, for those who give keys their meaning. */
int __attribute__((format(printf, 5, 6))) sp_config_fail(const struct sp_config *config, unsigned line, const char *key,
							 struct sp_error *error, const char *format, ...);

/* The [nic] section into nic (which must be zeroed): ip, mac, mtu, gateway, workers, seed, icrc, port, exception,
 * neighbour, plugin (checked, not loaded), name, memory-limit, idle. Strings in nic point into config, which must
 * outlive it. */
int sp_config_nic(const struct sp_config *config, struct sp_nic_config *nic, struct sp_error *error);
/* The server's configuration: socket, socket-mode, socket-group and applications of [nic], and the [limits NAME]
 * sections in order. Users and groups must exist on this machine. server->path points into config; NULL: not given. */
int sp_config_server(const struct sp_config *config, struct sp_server_config *server, struct sp_error *error);
/* How `spindle run` fences its process in. Strings point into config. */
#define SP_RUN_DIRECTORIES 32
struct sp_run_config {
	int64_t user, group;			   /* whom to become once the ports are open; -1: not given */
	const char *user_name;			   /* as it was given; NULL: it was not */
	bool no_sandbox;			   /* sandbox = no */
	bool no_live_handlers;			   /* live-handlers = no */
	const char *directory[SP_RUN_DIRECTORIES]; /* where else plug-ins may be loaded from: absolute paths */
	unsigned directories;
};
/* The keys user, group, sandbox, live-handlers and plugin-directory of [nic]. */
int sp_config_run(const struct sp_config *config, struct sp_run_config *run, struct sp_error *error);
/* The path that a `plugin` of [nic] names: a relative one is beside the configuration file. */
int sp_config_beside(const struct sp_config *config, const char *name, char *path, size_t room);
/* Loads what `plugin` in [nic] names (may repeat; a relative path is relative to the configuration file's directory):
 * before handlers are looked for. All or none; once more: no effect. sp_config_free unloads them: contexts, and NICs,
 * must be gone by then. */
int sp_config_plugins(struct sp_config *config, struct sp_error *error);
/* -EINVAL: a [context NAME] whose handler does nothing without an application (SP_HANDLER_HOSTED). On a NIC that
 * applications attach to, each opens contexts of its own, and cannot use the configuration's. After the plug-ins. */
int sp_config_unhosted(const struct sp_config *config, struct sp_error *error);
/* Adds every [context NAME] to a NIC; what sp_nic_context_add says is reported with file and line. */
int sp_config_contexts(const struct sp_config *config, struct sp_nic *nic, struct sp_error *error);

#endif
