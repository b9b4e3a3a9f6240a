/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../testbed/device/report.h"
#include "../../testbed/device/watch.h"

struct replay_device {
	struct sp_device device;
	struct sp_device_run *run;
	struct sp_device_watch *watch;
	struct sp_device_port port[SP_MAX_PORTS];
	json_t *inner[SP_DEVICE_INNER]; /* of the trace: calls within one, whose times come with its */
	unsigned inners;
};

/* HANDLER=CYCLES or HANDLER.FUNCTION=CYCLES */
static int take_cost(struct replay *r, const char *text)
{
	const char *equals = strchr(text, '=');
	char what[2 * SP_COST_NAME] = "", handler[SP_COST_NAME], why[120];

	if (equals && (size_t)(equals - text) < sizeof(what))
		memcpy(what, text, (size_t)(equals - text));
	snprintf(handler, sizeof(handler), "%.*s", (int)strcspn(what, "."), what);
	if (!*what) {
		replay_complain(r, "--cost %s: wants HANDLER=CYCLES or HANDLER.FUNCTION=CYCLES", text);
		return -EINVAL;
	}
	if (sp_costs_set(&r->stand_in->device.costs, what, equals + 1, why)) {
		replay_complain(r, "--cost %s: %s", text, why);
		return -EINVAL;
	}
	if (strcmp(handler, "*") && !sp_handler_find(handler)) {
		replay_complain(r, "--cost %s: there is no handler %s", text, handler);
		return -ENOENT;
	}
	return 0;
}

int replay_device_read(struct replay *r)
{
	struct sp_error error = {.key = ""};
	int err = 0;

	if (!r->device_name)
		return 0;
	r->stand_in = calloc(1, sizeof(*r->stand_in));
	if (!r->stand_in) {
		replay_complain(r, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	err = sp_device_find(r->device_name, &r->stand_in->device, &error);
	if (err)
		replay_complain(r, "%s", error.text);
	for (unsigned i = 0; i < r->costs && !err; i++)
		err = take_cost(r, r->cost[i]);
	return err;
}

/* Between the NIC and what it would send to: a link, or the recording. */
int replay_device_ports(struct replay *r)
{
	struct replay_device *d = r->stand_in;
	struct sp_nic_config *nic = r->nic_config;
	int err;

	if (!d)
		return 0;
	err = sp_device_run_create(&d->device, nic->workers ? nic->workers : 1, &d->run);
	if (!err)
		err = sp_device_watch_create(d->run, &d->watch);
	if (err) {
		replay_complain(r, "--device: %s", strerror(-err));
		return err;
	}
	for (unsigned i = 0; i < r->ports; i++) {
		d->port[i] = (struct sp_device_port){
			.watch = d->watch, .index = i, .ops = nic->port[i].ops, .port = nic->port[i].ops_arg};
		nic->port[i] = (struct sp_port_config){.ops = &sp_device_port_ops, .ops_arg = &d->port[i]};
	}
	return 0;
}

int replay_device_watch(struct replay *r)
{
	int err = r->stand_in ? sp_device_watch_add(r->stand_in->watch, r->nic) : 0;

	if (err)
		replay_complain(r, "--device: %s", strerror(-err));
	return err;
}

/* ---- the trace ---- */
static void set_time(json_t *to, const char *name, sp_time at)
{
	json_object_set_new(to, name, json_integer((json_int_t)at));
}

static void times(json_t *call, const struct sp_device_result *result)
{
	json_t *device = json_object();

	set_time(device, "start_ps", result->start);
	set_time(device, "end_ps", result->end);
	if (json_object_get(call, "sent"))
		set_time(device, "sent_ps", result->sent);
	if (json_object_get(call, "wrote"))
		set_time(device, "memory_ps", result->placed);
	if (json_object_get(call, "events"))
		set_time(device, "event_ps", result->told);
	json_object_set_new(call, "device", device);
}

static void more(void *arg, json_t *call)
{
	struct replay_device *d = arg;
	const struct sp_device_result *result;
	const int n = sp_device_watch_ended(d->watch, &result);

	if (!n && d->inners < SP_DEVICE_INNER)
		d->inner[d->inners++] = json_incref(call);
	if (n > 0)
		times(call, &result[n - 1]);
	if (n <= 0 && json_object_get(call, "within"))
		return;
	for (unsigned i = 0; i < d->inners; i++) {
		if ((int)i < n - 1)
			times(d->inner[i], &result[i]);
		json_decref(d->inner[i]);
	}
	d->inners = 0;
}

void replay_device_trace(struct replay *r)
{
	if (r->stand_in && r->trace)
		sp_trace_log_more(r->trace, more, r->stand_in);
}

bool replay_device_holds(const struct replay *r)
{
	for (unsigned i = 0; r->stand_in && i < r->ports; i++)
		if (r->stand_in->port[i].helds)
			return true;
	return false;
}

void replay_device_flush(struct replay *r)
{
	for (unsigned i = 0; r->stand_in && i < r->ports; i++)
		sp_device_port_flush(&r->stand_in->port[i]);
}

void replay_device_report(struct replay *r)
{
	json_t *tree, *device;
	char *text = NULL;

	if (!r->stand_in || !r->report)
		return;
	sp_device_run_finish(r->stand_in->run);
	tree = json_loads(r->report, 0, NULL);
	device = sp_device_report_json(r->stand_in->run);
	if (tree && device && !json_object_set(tree, "device", device))
		text = json_dumps(tree, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
	free(r->report);
	r->report = text; /* NULL: replay_report_print() says it */
	json_decref(tree);
	json_decref(device);
}

void replay_device_print(struct replay *r)
{
	if (r->stand_in && r->report)
		sp_device_report_text(r->stand_in->run, stdout);
}

void replay_device_close(struct replay *r)
{
	struct replay_device *d = r->stand_in;

	if (!d)
		return;
	replay_device_flush(r);
	for (unsigned i = 0; i < d->inners; i++)
		json_decref(d->inner[i]);
	sp_device_watch_destroy(d->watch);
	sp_device_run_destroy(d->run);
	free(d);
	r->stand_in = NULL;
}
