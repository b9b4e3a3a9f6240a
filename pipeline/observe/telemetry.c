/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NIC's report through DPDK's telemetry socket. DPDK has one list of commands per process, without removal: the
 * first served NIC registers the commands, and they answer null while no NIC is served. DPDK's writer does not take
 * fractions, nested lists, or names with other characters than letters, digits and _; put() converts these. DPDK cuts
 * an answer at 16 KiB, so no command returns the full report.
 */
#include "../nic.h"
#include <rte_common.h>
#include <errno.h>
#include <string.h>
#include <pthread.h>
#include <stdbool.h>
#include <jansson.h>
#include <stdlib.h>

#include <rte_telemetry.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all variables here; held while a report is made */
static struct sp_nic *served;
static bool registered;

/* ---- JSON into telemetry's data ---- */

#define NAME_ROOM 64 /* DPDK's maximum */

/* no-match -> no_match */
static const char *telemetry_name(const char *name, char room[NAME_ROOM])
{
	unsigned i;

	for (i = 0; name[i] && i + 1 < NAME_ROOM; i++)
		room[i] = (name[i] >= '0' && name[i] <= '9') || (name[i] >= 'a' && name[i] <= 'z') ||
					  (name[i] >= 'A' && name[i] <= 'Z')
				  ? name[i]
				  : '_';
	room[i] = 0;
	return room;
}

static void put_dict(struct rte_tel_data *d, const json_t *object);

/* Leaves lists out: other commands return their members. */
static void put(struct rte_tel_data *d, const char *key, const json_t *value)
{
	char name[NAME_ROOM];
	struct rte_tel_data *inner;

	telemetry_name(key, name);
	switch (json_typeof(value)) {
	case JSON_INTEGER:
		rte_tel_data_add_dict_u64(d, name, (uint64_t)json_integer_value(value));
		break;
	case JSON_REAL: /* above INT64_MAX */
		rte_tel_data_add_dict_u64(d, name, (uint64_t)json_real_value(value));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		rte_tel_data_add_dict_u64(d, name, json_is_true(value));
		break;
	case JSON_STRING:
		rte_tel_data_add_dict_string(d, name, json_string_value(value));
		break;
	case JSON_OBJECT:
		inner = rte_tel_data_alloc();
		if (!inner)
			break;
		put_dict(inner, value);
		if (rte_tel_data_add_dict_container(d, name, inner, 0))
			rte_tel_data_free(inner);
		break;
	default:
		break;
	}
}

static void put_dict(struct rte_tel_data *d, const json_t *object)
{
	const char *key;
	json_t *value;

	rte_tel_data_start_dict(d);
	json_object_foreach((json_t *)(uintptr_t)object, key, value) put(d, key, value);
}

/* ---- the commands ---- */

/* The report as a tree, or NULL. Workers only copy counters; handlers are not called. */
static json_t *report(const char *context)
{
	json_t *tree = NULL;
	char *text;

	pthread_mutex_lock(&lock);
	if (served && !sp_nic_report_text(served, false, context, &text)) {
		tree = json_loads(text, 0, NULL);
		free(text);
	}
	pthread_mutex_unlock(&lock);
	return tree;
}

/* /spindle/nic: the report's plain values. /spindle/drops: drops by reason. */
static int telemetry_nic(const char *command, const char *params, struct rte_tel_data *d)
{
	json_t *tree = report(NULL), *drops = json_object_get(tree, "drops"), *value;
	const char *key;

	(void)params;
	if (!tree)
		return -1;
	if (!strcmp(command, "/spindle/drops")) {
		put_dict(d, drops);
	} else {
		rte_tel_data_start_dict(d);
		json_object_foreach(tree, key, value) if (!json_is_object(value) && !json_is_array(value))
			put(d, key, value);
	}
	json_decref(tree);
	return 0;
}

/* /spindle/ports, /spindle/workers: their numbers. */
static int telemetry_list(const char *command, const char *params, struct rte_tel_data *d)
{
	json_t *tree = report(NULL), *list = json_object_get(tree, command + strlen("/spindle/"));

	(void)params;
	if (!tree)
		return -1;
	rte_tel_data_start_array(d, RTE_TEL_U64_VAL);
	for (size_t i = 0; i < json_array_size(list); i++)
		rte_tel_data_add_array_u64(d, i);
	json_decref(tree);
	return 0;
}

/* /spindle/port,N and /spindle/worker,N */
static int telemetry_member(const char *command, const char *params, struct rte_tel_data *d)
{
	const bool port = !strcmp(command, "/spindle/port");
	unsigned long at;
	json_t *tree, *one;
	char *end;

	if (!params || params[0] < '0' || params[0] > '9')
		return -1;
	at = strtoul(params, &end, 10);
	if (*end)
		return -1;
	tree = report(NULL);
	one = json_array_get(json_object_get(tree, port ? "ports" : "workers"), at);
	if (one)
		put_dict(d, one);
	json_decref(tree);
	return one ? 0 : -1;
}

/* /spindle/contexts: their names, as many as fit. */
static int telemetry_contexts(const char *command, const char *params, struct rte_tel_data *d)
{
	json_t *tree = report(NULL), *value;
	const char *key;

	(void)command, (void)params;
	if (!tree)
		return -1;
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	json_object_foreach(json_object_get(tree, "contexts"), key,
			    value) if (rte_tel_data_add_array_string(d, key)) break;
	json_decref(tree);
	return 0;
}

/* /spindle/context,NAME */
static int telemetry_context(const char *command, const char *params, struct rte_tel_data *d)
{
	json_t *tree = params && *params ? report(params) : NULL, *contexts = json_object_get(tree, "contexts"), *one;

	(void)command;
	one = json_object_get(contexts, params ? params : "");
	if (!one) /* NAME alone means the first application's context of that name */
		one = json_object_iter_value(json_object_iter(contexts));
	if (one)
		put_dict(d, one);
	json_decref(tree);
	return one ? 0 : -1;
}

int sp_telemetry_serve(struct sp_nic *nic)
{
	static const struct {
		const char *command;
		telemetry_cb answer;
		const char *help;
	} commands[] = {
		{"/spindle/nic", telemetry_nic, "Totals of the NIC. Takes no parameters"},
		{"/spindle/drops", telemetry_nic, "Drops by reason. Takes no parameters"},
		{"/spindle/ports", telemetry_list, "Numbers of the ports. Takes no parameters"},
		{"/spindle/port", telemetry_member, "One port. Parameters: its number"},
		{"/spindle/workers", telemetry_list, "Numbers of the workers. Takes no parameters"},
		{"/spindle/worker", telemetry_member, "One worker. Parameters: its number"},
		{"/spindle/contexts", telemetry_contexts, "Names of the contexts. Takes no parameters"},
		{"/spindle/context", telemetry_context, "One context. Parameters: its name"},
	};
	int r = 0;

	pthread_mutex_lock(&lock);
	if (served && served != nic)
		r = -EBUSY;
	for (size_t i = 0; i < RTE_DIM(commands) && !r && !registered; i++)
		r = rte_telemetry_register_cmd(commands[i].command, commands[i].answer, commands[i].help);
	if (!r) {
		registered = true;
		served = nic;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

void sp_telemetry_end(struct sp_nic *nic)
{
	pthread_mutex_lock(&lock);
	if (served == nic)
		served = NULL;
	pthread_mutex_unlock(&lock);
}
