/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../pipeline/observe/report.h"
#include "../output.h"
#include "device.h"

/* ---- JSON ---- */
/* An object, or where the NIC has several ports an object of a list. */
static void open_part(const struct replay *r, struct sp_report *report, const char *name, unsigned port)
{
	sp_report_open(report, r->ports > 1 ? NULL : name, false);
	if (r->ports > 1)
		sp_report_uint(report, "port", port);
}

static void add_capture(const struct replay *r, struct sp_report *report, unsigned port)
{
	struct sp_pcap_counters in;

	sp_pcap_count(r->port[port].in, &in);
	open_part(r, report, "capture", port);
	if (r->ports > 1)
		sp_report_string(report, "file", r->capture_file[r->captures > 1 ? port : 0]);
	sp_report_uint(report, "packets", in.packets);
	sp_report_uint(report, "passes", in.passes);
	sp_report_uint(report, "snapped", in.snapped);
	sp_report_uint(report, "backwards", in.backwards);
	sp_report_uint(report, "oversized", in.oversized);
	sp_report_close(report);
}

static void add_captures(const struct replay *r, struct sp_report *report)
{
	if (r->ports > 1)
		sp_report_open(report, "captures", true);
	for (unsigned i = 0; i < r->ports; i++)
		if (r->port[i].in)
			add_capture(r, report, i);
	if (r->ports > 1)
		sp_report_close(report);
}

/* Only the direction towards the NIC: nobody receives the other one. */
static void add_link(const struct replay *r, struct sp_report *report, unsigned port)
{
	struct sp_link_counters c;

	sp_link_count(r->link[port].link, 0, &c);
	open_part(r, report, "link", port);
	sp_report_uint(report, "offered", c.offered);
	sp_report_uint(report, "lost", c.lost);
	sp_report_uint(report, "duplicated", c.duplicated);
	sp_report_uint(report, "reordered", c.reordered);
	sp_report_uint(report, "corrupted", c.corrupted);
	sp_report_uint(report, "delivered", c.delivered);
	sp_report_uint(report, "seed", r->link_config.seed);
	sp_report_close(report);
}

static void add_links(const struct replay *r, struct sp_report *report)
{
	if (r->ports > 1)
		sp_report_open(report, "links", true);
	for (unsigned i = 0; i < r->ports; i++)
		add_link(r, report, i);
	if (r->ports > 1)
		sp_report_close(report);
}

static void add_port(const struct replay *r, struct sp_report *report)
{
	const struct replay_port *p = &r->real;

	sp_report_open(report, "port", false);
	sp_report_string(report, "device", r->device);
	sp_report_uint(report, "sent", p->sent);
	sp_report_uint(report, "sent_bytes", p->sent_bytes);
	sp_report_uint(report, "received", p->received);
	sp_report_uint(report, "received_bytes", p->received_bytes);
	sp_report_uint(report, "oversized", p->oversized);
	sp_report_uint(report, "refused", p->refused);
	sp_report_uint(report, "span_ns", p->span / SP_NS);
	sp_report_uint(report, "late", p->late);
	sp_report_uint(report, "latest_ns", p->latest / SP_NS);
	sp_report_close(report);
}

void replay_report_make(struct replay *r)
{
	struct sp_report *report = sp_report_new();

	if (!report)
		return; /* replay_report_print() reports it */
	if (r->device)
		add_port(r, report);
	else
		sp_nic_report(r->nic, report);
	add_captures(r, report);
	if (r->linked)
		add_links(r, report);
	r->report = sp_report_finish(report);
}

/* ---- text ---- */
static void print_value(const json_t *value)
{
	if (json_is_string(value))
		printf("%s", json_string_value(value));
	else if (json_is_integer(value))
		printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		printf("%.0f", json_real_value(value));
	else
		printf("%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "-");
}

static bool is_plain(const json_t *value)
{
	return !json_is_object(value) && !json_is_array(value);
}

/* What a person reads: `answered` has two meanings in the report, the NIC's own answers and a verdict. */
static const char *shown_as(const char *name, bool verdicts)
{
	return strcmp(name, "answered") ? name : verdicts ? "answered_by_handler" : "answered_by_nic";
}

/* Objects of plain values inside a list become the rows of a table. */
static void print_rows(json_t *list, int indent)
{
	json_t *row, *value;
	const char *name;
	size_t i;

	json_array_foreach(list, i, row)
	{
		const char *gap = "";

		printf("%*s", indent, "");
		if (is_plain(row))
			print_value(row);
		else
			json_object_foreach(row, name, value)
			{
				printf("%s%s ", gap, shown_as(name, false));
				if (is_plain(value))
					print_value(value);
				else
					printf("(%zu)",
					       json_is_array(value) ? json_array_size(value) : json_object_size(value));
				gap = "  ";
			}
		putchar('\n');
	}
}

static void print_tree(json_t *object, int indent, bool verdicts)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		if (is_plain(value)) {
			printf("%*s%-*s ", indent, "", 24 - indent, shown_as(name, verdicts));
			print_value(value);
			putchar('\n');
		} else if (json_is_array(value) ? json_array_size(value) : json_object_size(value)) {
			printf("%*s%s\n", indent, "", name);
			if (json_is_array(value))
				print_rows(value, indent + 2);
			else
				print_tree(value, indent + 2, !strcmp(name, "verdicts"));
		}
	}
}

void replay_report_print(struct replay *r)
{
	const bool line = r->json && r->trace_asked && !r->trace_file;
	json_t *tree = NULL;

	if (r->report && (!r->json || line))
		tree = json_loads(r->report, 0, NULL);
	if (!r->report || ((!r->json || line) && !tree))
		replay_complain(r, "the report could not be made: out of memory, or a handler reports out of order");
	else if (line)
		output_json(json_incref(tree),
			    JSON_COMPACT | JSON_REAL_PRECISION(17)); /* like the lines of the trace */
	else if (r->json)
		puts(r->report);
	else {
		json_object_del(tree, "handlers"); /* sums of what the contexts say again */
		json_object_del(tree, "device");
		print_tree(tree, 0, false);
		replay_device_print(r);
	}
	json_decref(tree);
	if (fflush(stdout) || ferror(stdout))
		replay_complain(r, "standard output: %s", strerror(errno));
}
