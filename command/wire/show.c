/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../pipeline/ports/port.h"
#include "loop.h"
#include "../output.h"

#define ROWS 16

struct row {
	const char *name; /* in JSON */
	const char *text; /* in text */
	uint64_t value;
	bool unknown; /* the port does not count it */
};

/* All counters of one direction, in the order in which a packet meets them. */
static unsigned rows(const struct wire *w, unsigned e, struct row row[ROWS])
{
	const struct wire_way *y = &w->way[e];
	struct sp_link_counters c;
	uint64_t kernel = 0;
	const bool told = sp_port_kernel_drops(y->from, &kernel);
	unsigned n = 0;

	sp_link_count(w->link, e, &c);
	row[n++] = (struct row){"kernel_drops", "lost below the port", kernel, !told};
	row[n++] = (struct row){"received", "received", y->received, false};
	row[n++] = (struct row){"received_bytes", "  bytes", y->received_bytes, false};
	row[n++] = (struct row){"oversized", "too large", y->oversized, false};
	row[n++] = (struct row){"queue_dropped", "dropped, queue full", y->queue_dropped, false};
	row[n++] = (struct row){"memory_dropped", "dropped, memory full", y->memory_dropped, false};
	row[n++] = (struct row){"lost", "lost", c.lost, false};
	row[n++] = (struct row){"duplicated", "duplicated", c.duplicated, false};
	row[n++] = (struct row){"reordered", "reordered", c.reordered, false};
	row[n++] = (struct row){"corrupted", "corrupted", c.corrupted, false};
	row[n++] = (struct row){"refused", "refused by the port", y->refused, false};
	row[n++] = (struct row){"sent", "sent", y->sent, false};
	row[n++] = (struct row){"sent_bytes", "  bytes", y->sent_bytes, false};
	row[n++] = (struct row){"in_flight", "under way at the end", wire_in_flight(w, e), false};
	row[n++] = (struct row){"late_mean_ns", "  late, mean (ns)",
				y->sent ? (uint64_t)(y->late_sum / (double)y->sent / (double)SP_NS) : 0, false};
	row[n++] = (struct row){"late_max_ns", "  late, most (ns)", y->late_most / SP_NS, false};
	return n;
}

int wire_show_ready(const struct wire *w)
{
	errno = 0;
	if (!w->json)
		printf("ready: %s <-> %s; pid %d\n", w->device[0], w->device[1], (int)getpid());
	else if (output_json(json_pack("{s:b, s:[s, s], s:i}", "ready", 1, "ports", w->device[0], w->device[1], "pid",
				       (int)getpid()),
			     JSON_COMPACT))
		return -ENOMEM; /* or a name that is not UTF-8, which JSON cannot hold */
	return fflush(stdout) || ferror(stdout) ? errno ? -errno : -EIO : 0;
}

static json_t *way_json(const struct wire *w, unsigned e)
{
	struct row row[ROWS];
	const unsigned n = rows(w, e, row);
	json_t *o = json_pack("{s:s, s:s}", "from", w->device[e], "to", w->device[!e]);

	for (unsigned i = 0; i < n; i++)
		json_object_set_new(o, row[i].name,
				    row[i].unknown ? json_null() : json_integer((json_int_t)row[i].value));
	return o;
}

static void print_json(const struct wire *w)
{
	json_t *o = json_pack("{s:f, s:I, s:o, s:o}", "seconds", (double)w->ran / (double)SP_SEC, "seed",
			      (json_int_t)w->config.seed, "there", way_json(w, 0), "back", way_json(w, 1));

	if (output_json(o, JSON_COMPACT | JSON_REAL_PRECISION(9)))
		command_fail("wire", "no memory for the report");
}

static void print_value(const struct row *r)
{
	if (r->unknown)
		printf(" %20s", "-");
	else
		printf(" %20" PRIu64, r->value);
}

static void print_text(const struct wire *w)
{
	struct row there[ROWS], back[ROWS];
	const unsigned n = rows(w, 0, there);

	rows(w, 1, back);
	printf("there: %s to %s; back: the other way; %.3f s, seed %" PRIu64 "\n", w->device[0], w->device[1],
	       (double)w->ran / (double)SP_SEC, w->config.seed);
	printf("%-21s %20s %20s\n", "", "there", "back");
	for (unsigned i = 0; i < n; i++) {
		printf("%-21s", there[i].text);
		print_value(&there[i]);
		print_value(&back[i]);
		putchar('\n');
	}
}

void wire_show_report(const struct wire *w)
{
	if (w->json)
		print_json(w);
	else
		print_text(w);
	for (unsigned e = 0; e < 2; e++) {
		const struct wire_way *y = &w->way[e];

		if (y->oversized)
			command_fail("wire",
				     "%" PRIu64 " packets from %s were larger than the MTU of %u: not sent (--mtu, "
				     "or ethtool -K INTERFACE tso off gso off gro off)",
				     y->oversized, w->device[e], w->mtu);
		if (y->memory_dropped)
			command_fail("wire", "%" PRIu64 " packets from %s were dropped: no memory for more in flight",
				     y->memory_dropped, w->device[e]);
	}
}
