/* SPDX-License-Identifier: BSD-3-Clause */
/* SP_ATTACH_HANDLER: load, unload and reload handlers of a running NIC, add and remove its own contexts. The server's
 * thread runs constructors and attach(): other requests wait meanwhile, packets do not. */
#include "../control/context.h"
#include "../engine.h"
#include "../error.h"
#include "../plugin/plugin.h"
#include "../process.h"
#include "session.h"

#include <stdio.h>
#include <stdlib.h>

struct asked {
	struct sp_nic *nic;
	const char *const *string;
	size_t strings;
	sp_time force;
	char **json;
	struct sp_error *error;
};

/* ---- whose plug-in ---- */

struct known {
	const char *path;
	char *as;
};

static void compare(void *arg, const struct sp_object_text *o)
{
	struct known *k = arg;
	char *path = o->replaced || k->as ? NULL : realpath(o->file, NULL);

	if (path && !strcmp(path, k->path))
		k->as = strdup(o->file);
	free(path);
}

/* The client has another working directory and sends full paths; a plug-in's name is the path that it was loaded by. */
static int named(const struct asked *a, int (*run)(const struct asked *, const char *))
{
	struct known k = {.path = a->string[0]};
	int rc;

	if (*k.path != '/')
		return run(a, k.path);
	sp_objects_each(compare, &k);
	rc = run(a, k.as ? k.as : k.path);
	free(k.as);
	if (rc == -ENOENT && !sp_plugin_find(k.path) && !k.as)
		return sp_error_set(a->error, ENOENT, "", "no plug-in has been loaded from %.180s", k.path);
	return rc;
}

/* ---- operations ---- */

static int load(const struct asked *a)
{
	return sp_nic_handler_load(a->nic, a->string[0], a->json, a->error);
}

static int unload_named(const struct asked *a, const char *name)
{
	return sp_nic_handler_unload(a->nic, name, a->error);
}

static int unload(const struct asked *a)
{
	return named(a, unload_named);
}

/* Bounded, so that adding it to a time cannot overflow. */
static int reload_named(const struct asked *a, const char *name)
{
	const sp_time force = a->force < SP_NEVER / 2 ? a->force : SP_NEVER / 2;

	return sp_nic_handler_reload(a->nic, name, a->strings > 1 ? a->string[1] : NULL, force, a->json, a->error);
}

static int reload(const struct asked *a)
{
	return named(a, reload_named);
}

static int attach(const struct asked *a)
{
	struct sp_setting setting[SP_ATTACH_SETTINGS];
	const size_t settings = (a->strings - 2) / 2;
	uint32_t id;

	for (size_t i = 0; i < settings; i++)
		setting[i] = (struct sp_setting){a->string[2 + 2 * i], a->string[3 + 2 * i]};
	return sp_nic_context_add(
		a->nic,
		&(struct sp_context_config){
			.name = a->string[0], .handler = a->string[1], .setting = setting, .settings = settings},
		&id, a->error);
}

/* name is NAME or NAME@PID, as in reports. nic->control is held. */
static bool is_application(const struct sp_context *c, const char *name)
{
	const size_t len = strlen(c->name);
	const struct sp_device *d = c->nic->device;
	char pid[16];

	if (!c->owner || strncmp(c->name, name, len))
		return false;
	while (d && d->owner != c->owner)
		d = d->next;
	snprintf(pid, sizeof(pid), "@%u", d ? d->pid : 0);
	return !name[len] || !strncmp(name + len, pid, strlen(pid));
}

/* Removes the NIC's own context of that name; applications end theirs themselves. */
static int detach(const struct asked *a)
{
	struct sp_nic *nic = a->nic;
	bool others = false;
	uint32_t id = 0;
	int rc;

	pthread_mutex_lock(&nic->control);
	for (uint32_t i = 0; i < nic->context_next; i++) {
		const struct sp_context *c = nic->context[i];

		others |= c && is_application(c, a->string[0]);
		if (c && !c->owner && !strcmp(c->name, a->string[0]))
			id = c->id;
	}
	pthread_mutex_unlock(&nic->control);
	if (!id && others)
		return sp_error_set(a->error, EPERM, "", "context %.40s is an application's, which ends it itself",
				    a->string[0]);
	if (!id)
		return sp_error_set(a->error, ENOENT, "", "there is no context %.40s", a->string[0]);
	rc = sp_nic_context_remove(nic, id);
	if (rc == -ETIMEDOUT) {
		char text[sizeof(a->error->text)];

		return sp_error_set(a->error, ETIMEDOUT, "", "%s",
				    sp_nic_stopped(nic, text, sizeof(text)) ? text : "a worker has stopped");
	}
	return rc ? sp_error_set(a->error, -rc, "", "context %.40s: %s", a->string[0], strerror(-rc)) : 0;
}

static int status(const struct asked *a)
{
	return sp_nic_handler_text(a->nic, a->json);
}

int sp_session_handler(struct sp_nic *nic, uint64_t op, const char *const *string, size_t strings, sp_time force,
		       char **json, struct sp_error *error)
{
	static const struct {
		int (*run)(const struct asked *);
		size_t least, most;
	} operation[] = {
		[SP_HANDLER_LOAD] = {load, 1, 1},     [SP_HANDLER_UNLOAD] = {unload, 1, 1},
		[SP_HANDLER_RELOAD] = {reload, 1, 2}, [SP_HANDLER_ATTACH] = {attach, 2, 2 + 2 * SP_ATTACH_SETTINGS},
		[SP_HANDLER_DETACH] = {detach, 1, 1}, [SP_HANDLER_STATUS] = {status, 0, 0},
	};
	const struct asked a = {nic, string, strings, force, json, error};

	*json = NULL;
	if (op >= sizeof(operation) / sizeof(*operation) || !operation[op].run || strings < operation[op].least ||
	    strings > operation[op].most || (op == SP_HANDLER_ATTACH && strings % 2))
		return -EINVAL;
	const int rc = operation[op].run(&a);

	if (rc) {
		free(*json);
		*json = NULL;
	}
	return rc > 0 ? -EINVAL : rc;
}
