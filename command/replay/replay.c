/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle replay: runs a capture through a NIC in virtual time, each packet at its own time stamp. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../command.h"
#include "../options.h"
#include "arguments.h"
#include "device.h"
#include "expect.h"
#include "files.h"
#include "link.h"
#include "memory.h"
#include "port.h"
#include "ports.h"
#include "show.h"

#define AFTERMATH SP_SEC /* time after the last packet for deferred work */
#define HELD	  3600	 /* times that long, for frames that a device holds */
#define DIFFERS	  3	 /* exit status: not as expected */

/* ---- the configuration ---- */
static const struct sp_config_key *key_of(const struct sp_config_section *section, const char *name)
{
	for (size_t i = 0; i < section->keys; i++)
		if (!strcmp(section->key[i].name, name))
			return &section->key[i];
	return NULL;
}

/* A handler with a parameter "credit" would wait for credit from its peer. A capture has no peer: credit is given. */
static int credit_is_implicit(struct sp_config *config)
{
	for (size_t i = 0; i < config->sections; i++) {
		struct sp_config_section *section = &config->section[i];
		const struct sp_config_key *name = key_of(section, "handler");
		const struct sp_handler *handler = name ? sp_handler_find(name->value) : NULL;
		const struct sp_param *param = handler ? handler->params : NULL;
		struct sp_config_key *key;

		if (strcmp(section->kind, "context") || key_of(section, "credit"))
			continue;
		while (param && param->name && strcmp(param->name, "credit"))
			param++;
		if (!param || !param->name)
			continue;
		key = reallocarray(section->key, section->keys + 1, sizeof(*key));
		if (!key)
			return -ENOMEM;
		section->key = key;
		key += section->keys++; /* from here on sp_config_free() frees it */
		*key = (struct sp_config_key){
			.name = strdup("credit"), .value = strdup("implicit"), .line = section->line};
		if (!key->name || !key->value)
			return -ENOMEM;
	}
	return 0;
}

static int plugins_load(struct replay *r, struct sp_error *error)
{
	int err = 0;

	for (unsigned i = 0; i < r->plugins && !err; i++)
		err = sp_plugin_load(r->plugin_file[i], &r->plugin[i], error);
	return err ? err : sp_config_plugins(r->config, error);
}

/* Everything that needs neither EAL nor a NIC comes first: its errors are printed at once. */
static int configure(struct replay *r)
{
	struct sp_error error = {.key = ""};
	int err = sp_config_read(r->config_file, &r->config, &error);

	if (!err)
		err = plugins_load(r, &error);
	if (!err)
		err = credit_is_implicit(r->config);
	if (!err)
		r->nic_config = calloc(1, sizeof(*r->nic_config));
	if (!err)
		err = r->nic_config ? sp_config_nic(r->config, r->nic_config, &error) : -ENOMEM;
	if (err)
		replay_complain(r, "%s", *error.text ? error.text : strerror(-err));
	return err;
}

/* ---- the guard: handlers that crash or hang ---- */
static void say_wrong(void *arg, const char *text)
{
	replay_complain(arg, "%s", text);
}

/* Runs in a signal handler: trace and recording show how far the run came. */
static void flush_files(void *arg)
{
	struct replay *r = arg;

	if (r->trace)
		sp_trace_log_crashed(r->trace);
	if (r->out)
		sp_pcap_flush(r->out);
}

static int guard_open(struct replay *r)
{
	const struct sp_guard_config config = {
		.limit_ms = r->call_limit / SP_MS,
		.say = say_wrong,
		.crash = flush_files,
		.arg = r,
		.program = "spindle replay",
	};
	int err = sp_guard_create(&config, &r->guard);

	if (!err)
		err = sp_guard_add(r->guard, r->nic);
	if (err)
		replay_complain(r, "watching the handlers: %s", strerror(-err));
	return err;
}

/* Runs fn, which may call a handler. fn prints its errors, and returns 0 or -EIO. */
static int guarded(struct replay *r, int (*fn)(void *arg))
{
	int err = sp_guard_run(r->guard, fn, r);

	if (err == -ETIMEDOUT) { /* the guard has printed a message */
		r->hung = true;
		r->status = 1;
	} else if (err && err != -EIO) {
		replay_complain(r, "watching the handlers: %s", strerror(-err));
	}
	return err;
}

/* ---- the NIC ---- */
static int contexts_add(void *arg)
{
	struct replay *r = arg;
	struct sp_error error = {.key = ""};
	int err = sp_config_contexts(r->config, r->nic, &error);

	if (err)
		replay_complain(r, "%s", *error.text ? error.text : strerror(-err));
	return err ? -EIO : 0;
}

static int world_open(struct replay *r)
{
	int err = sp_nic_dev(r->nic, false, &r->dev);

	if (!err)
		err = sp_world_create(&r->world);
	if (!err)
		err = sp_world_add_nic(r->world, r->nic);
	if (!err)
		err = replay_link_feed(r);
	if (err)
		replay_complain(r, "%s", strerror(-err));
	return err;
}

static int nic_open(struct replay *r)
{
	struct sp_error error = {.key = ""};
	int err = configure(r);

	if (!err)
		err = replay_ports_count(r);
	if (!err)
		err = replay_expect_check(r);
	if (!err)
		err = replay_device_read(r);
	if (err)
		return err;
	err = sp_eal_init(0, NULL, &error);
	if (err) {
		replay_complain(r, "%s", error.text);
		return err;
	}
	/* With a link, the link spreads flows over the workers' queues. */
	err = replay_files_open(r, r->linked ? 1 : r->nic_config->workers);
	if (!err)
		err = replay_ports_set(r);
	if (!err)
		err = replay_device_ports(r);
	if (err)
		return err;
	err = sp_nic_create(r->nic_config, &error, &r->nic);
	if (err) {
		replay_complain(r, "%s: %s", r->config_file, *error.text ? error.text : strerror(-err));
		return err;
	}
	err = guard_open(r);
	if (!err)
		err = replay_device_watch(r);
	if (!err)
		err = replay_trace_open(r);
	if (!err)
		err = guarded(r, contexts_add);
	return err ? err : world_open(r);
}

/* ---- the run ---- */
static bool capture_over(void *arg)
{
	const struct replay *r = arg;

	for (unsigned i = 0; i < r->ports; i++)
		if (r->port[i].in && !sp_pcap_ended(r->port[i].in))
			return false;
	return replay_link_over(r);
}

static int play(void *arg)
{
	struct replay *r = arg;
	int err;

	for (unsigned i = 0; i < r->buffers; i++)
		if (replay_buffer_open(r, &r->buffer[i]))
			return -EIO;
	err = sp_world_run(r->world, SP_NEVER, capture_over, r);
	for (unsigned i = 0; err >= 0 && i < (replay_device_holds(r) ? HELD : 1); i++)
		err = sp_world_run(r->world, sp_world_now(r->world) + AFTERMATH, NULL, NULL);
	replay_device_flush(r);
	if (err < 0)
		replay_complain(
			r, "virtual time stands still at %.9f s: a timer that is always due, or no packet buffers left",
			(double)sp_world_now(r->world) / (double)SP_SEC);
	replay_report_make(r);
	replay_device_report(r);
	return 0;
}

/* Under the guard: handlers may still run when contexts end. */
static int contexts_remove(void *arg)
{
	struct replay *r = arg;
	uint32_t id;

	for (size_t i = 0; r->nic && r->config && i < r->config->sections; i++)
		if (!strcmp(r->config->section[i].kind, "context") &&
		    !sp_nic_context_find(r->nic, r->config->section[i].name, &id))
			sp_nic_context_remove(r->nic, id);
	return 0;
}

static void run(struct replay *r)
{
	struct sp_error error = {.key = ""};
	char said[sizeof(error.text)] = "";

	if (guarded(r, play))
		return;
	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].dump)
			replay_buffer_dump(r, &r->buffer[i]);
	replay_expect_memory(r);
	if (guarded(r, contexts_remove))
		return;
	replay_trace_close(r);
	replay_report_print(r);
	for (unsigned i = 0; i < r->ports; i++)
		if (r->port[i].in && sp_pcap_status(r->port[i].in, &error) && strcmp(error.text, said)) {
			replay_complain(r, "%s", error.text);
			memcpy(said, error.text, sizeof(said)); /* ports with the same file have the same to say */
		}
}

/* ---- the end ---- */
static void nic_close(struct replay *r)
{
	sp_world_destroy(r->world);
	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].mr)
			sp_mr_free(r->buffer[i].mr);
	if (r->dev)
		sp_dev_close(r->dev);
	sp_nic_destroy(r->nic);
	sp_guard_destroy(r->guard);
	replay_device_close(r);
	replay_link_close(r);
	replay_buffers_free(r);
}

static void finish(struct replay *r)
{
	struct sp_error error = {.key = ""};
	bool whole = r->report != NULL;

	if (r->guard && !r->hung) /* after an early end: this may hang, too */
		guarded(r, contexts_remove);
	replay_trace_close(r);
	if (!r->hung)
		nic_close(r);
	/* after the NIC: it holds the NIC's last packets */
	if (r->out && sp_pcap_finish(r->out, &error)) {
		replay_complain(r, "%s", error.text);
		whole = false;
	}
	if (whole && !r->hung)
		replay_expect_rest(r);
	if (r->recording >= 0)
		close(r->recording);
	if (r->hung)
		return; /* the handler may still use all of this */
	for (unsigned i = 0; i < r->ports; i++)
		sp_pcap_close(r->port[i].in);
	sp_config_free(r->config);
	for (unsigned i = 0; i < r->plugins; i++)
		sp_plugin_unload(r->plugin[i]);
	sp_tolerance_free(&r->tolerance);
	free(r->nic_config);
	free(r->report);
}

int command_replay(int argc, char **argv)
{
	static struct replay r; /* static: a handler that hangs may still use it */
	int status;

	r = (struct replay){.recording = -1, .ports = 1};
	status = replay_arguments(&r, argc, argv);
	if (status != OPTIONS_GO_ON) {
		sp_tolerance_free(&r.tolerance);
		return status;
	}
	if (replay_outputs_collide(&r))
		;
	else if (r.device)
		replay_port_run(&r);
	else if (!nic_open(&r))
		run(&r);
	finish(&r);
	return r.status ? r.status : r.differs ? DIFFERS : 0;
}
