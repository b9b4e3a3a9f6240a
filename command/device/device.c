/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle device: lists the devices that replay --device knows, shows one, and compares the model with what was
 * published. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../testbed/device/load.h"
#include "../../pipeline/observe/trace.h"
#include "../command.h"
#include "../options.h"
#include "../output.h"

struct asked {
	bool json;
};

static const struct usage usage = {
	.command = "device",
	.forms = "spindle device [NAME | FILE.ini] [OPTIONS]",
	.about = "Lists the devices that spindle replay --device can stand in for. With a name: what is assumed of it, "
		 "and "
		 "the model's results beside published ones.",
	.end = "Exit status: 0, 1 there is no such device or its file is wrong, 2 wrong usage.",
	.arguments = 1,
};

static const struct option_row rows[] = {
	{"json", 0, OPTION_FLAG, NULL, "print JSON", OPTION_AT(struct asked, json)},
	{0},
};

/* ---- all ---- */

static int list_one(void *arg, const char *path)
{
	static struct sp_device d; /* static: large */
	struct sp_error error = {.key = ""};
	json_t *all = arg;

	if (sp_device_read(path, &d, &error)) {
		command_fail("device", "%s", error.text);
		return 1;
	}
	json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "name", d.name, "about", d.about, "file", path));
	return 0;
}

static int list(bool json)
{
	json_t *all = json_array(), *one;
	int status = sp_device_each(list_one, all);
	size_t i;

	if (!status && !json_array_size(all))
		status = command_fail("device", "no folder of devices was found (SPINDLE_DEVICES names one)");
	if (!status && json)
		return output_json(all, JSON_INDENT(2)) ? 1 : 0;
	if (!status)
		json_array_foreach(all, i, one) printf("%-10s %s\n", json_string_value(json_object_get(one, "name")),
						       json_string_value(json_object_get(one, "about")));
	json_decref(all);
	return status;
}

/* ---- one ---- */

static void cost_text(const struct sp_cost *c, char *text, size_t room)
{
	const struct {
		double n;
		const char *per;
	} term[] = {
		{c->byte, "byte"}, {c->write, "write"}, {c->word, "word"}, {c->frame, "frame"}, {c->event, "event"}};
	int used = snprintf(text, room, "%g", c->call);

	for (size_t i = 0; i < sizeof(term) / sizeof(*term) && used < (int)room; i++)
		if (term[i].n > 0 || term[i].n < 0)
			used += snprintf(text + used, room - (size_t)used, " %c %g/%s", term[i].n > 0 ? '+' : '-',
					 fabs(term[i].n), term[i].per);
}

static json_t *check_json(const struct sp_device *d, const struct sp_device_check *c)
{
	double value = 0;

	if (sp_device_check_run(d, c, &value))
		return NULL;
	return json_pack("{s:s, s:s, s:s, s:b, s:s, s:f, s:f, s:f}", "name", c->name, "about", c->about, "source",
			 c->source, "fitted", c->fitted, "quantity", sp_device_quantity_name(c->quantity), "published",
			 c->value, "model", value, "residual", value / c->value - 1);
}

static json_t *one_json(const struct sp_device *d)
{
	json_t *costs = json_array(), *checks = json_array(), *all;
	char text[160];

	for (unsigned i = 0; i < d->costs.count; i++) {
		const struct sp_cost_row *r = &d->costs.row[i];

		cost_text(&r->cost, text, sizeof(text));
		json_array_append_new(costs, json_pack("{s:s, s:s, s:s}", "handler", r->handler, "function",
						       sp_called_name((enum sp_called)r->function), "cycles", text));
	}
	for (unsigned i = 0; i < d->checks; i++)
		json_array_append_new(checks, check_json(d, &d->check[i]));
	all = json_pack("{s:s, s:s, s:I, s:f, s:f, s:s, s:s}", "name", d->name, "about", d->about, "cores",
			(json_int_t)d->cores, "clock_hz", d->clock, "host_cycles", d->host_cycles, "placement",
			d->by_worker ? "worker" : "any", "matching", d->core_matches ? "core" : "device");
	json_object_update_new(all, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}",
					      "arrive_ps", (json_int_t)d->arrive, "arrive_rate_bps",
					      (json_int_t)d->arrive_rate, "depart_ps", (json_int_t)d->depart,
					      "depart_rate_bps", (json_int_t)d->depart_rate, "dma_latency_ps",
					      (json_int_t)d->dma_latency, "dma_rate_bps", (json_int_t)d->dma_rate,
					      "line_rate_bps", (json_int_t)d->line_rate, "packet_overhead",
					      (json_int_t)d->overhead, "packet_interval_ps", (json_int_t)d->interval,
					      "buffer", (json_int_t)d->buffer, "costs", costs, "checks", checks));
	return all;
}

/* Numbers of 0 are unlimited rates, "host" or "workers": the file says it better. */
static void show_value(const char *name, const json_t *value)
{
	if (json_is_string(value))
		printf("  %-20s %s\n", name, json_string_value(value));
	else if (json_number_value(value) > 0)
		printf("  %-20s %.10g\n", name, json_number_value(value));
}

static void show_check(const json_t *c)
{
	printf("  %-20s %-18s %12.6g %12.6g %+9.2f %%  %-7s %s\n", json_string_value(json_object_get(c, "name")),
	       json_string_value(json_object_get(c, "quantity")), json_number_value(json_object_get(c, "published")),
	       json_number_value(json_object_get(c, "model")), 100 * json_number_value(json_object_get(c, "residual")),
	       json_is_true(json_object_get(c, "fitted")) ? "fitted" : "follows",
	       json_string_value(json_object_get(c, "source")));
}

static void show(json_t *all)
{
	json_t *value, *costs = json_object_get(all, "costs"), *checks = json_object_get(all, "checks");
	const char *name;
	size_t i;

	json_object_foreach(all, name, value) if (!json_is_array(value)) show_value(name, value);
	json_array_foreach(costs, i, value) printf("  %-20s %s.%s costs %s cycles\n", i ? "" : "costs",
						   json_string_value(json_object_get(value, "handler")),
						   json_string_value(json_object_get(value, "function")),
						   json_string_value(json_object_get(value, "cycles")));
	if (json_array_size(checks))
		printf("\n  %-20s %-18s %12s %12s %11s\n", "check", "", "published", "model", "residual");
	json_array_foreach(checks, i, value) show_check(value);
}

static int one(const char *name, bool json)
{
	static struct sp_device d; /* static: large */
	struct sp_error error = {.key = ""};
	json_t *all;

	if (sp_device_find(name, &d, &error))
		return command_fail("device", "%s", error.text);
	all = one_json(&d);
	if (!all)
		return command_fail("device", "%s", strerror(ENOMEM));
	if (json)
		return output_json(all, JSON_INDENT(2)) ? 1 : 0;
	show(all);
	json_decref(all);
	return 0;
}

int command_device(int argc, char **argv)
{
	struct asked asked = {0};
	struct options o = {&usage, {{NULL, rows, &asked, NULL}}};
	const int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	return o.arguments ? one(o.argument[0], asked.json) : list(asked.json);
}
