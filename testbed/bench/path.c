/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two programs exchange messages while each NIC captures them. The programs say when they called and were woken, the
 * captures when each NIC had the packets in its hands (enum sp_capture_step): all by the time-stamp counter, which the
 * processors of a machine share. Programs and NICs are the ordinary ones; capturing a packet adds some 0.2 us to its
 * round at each NIC.
 */
#include "path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "../../handlers/wire/capture.h"
#include "../../host-api/attach.h"
#include "children.h"

#define REST	120000 /* us: NICs and programs sleep, and so do the processors */
#define SECONDS 300
#define FILTER	"udp dst port 4791 and udp[8] = 0x2b" /* packets of SDR messages */

const char *const bench_path_steps[BENCH_PATH_POINTS] = {
	[BENCH_PATH_CALL] = "from the program's call until the other has seen the message",
	[BENCH_PATH_ROUND] = "until the NIC's worker begins the round that takes the command",
	[BENCH_PATH_BUILT] = "command read, packet built",
	[BENCH_PATH_SENT] = "handed to the port",
	[BENCH_PATH_POLLED] = "until the other NIC's worker has it from its port",
	[BENCH_PATH_PLACED] = "checked, placed, event written; one NIC: by its next round",
	[BENCH_PATH_WOKEN] = "until the other program runs; polling: until it looks",
	[BENCH_PATH_SEEN] = "until it has found the message",
};

static const struct bench_path_case cases[] = {
	{"one-polling", "one NIC, programs poll", NULL, false, false},
	{"one-sleeping", "one NIC, programs sleep until something comes", NULL, true, false},
	{"one-rested", "the same, after 120 ms in which nothing happened", NULL, true, true},
	{"vhost-polling", "two NICs joined by vhost-user, programs poll", "vhost", false, false},
	{"vhost-sleeping", "two NICs, programs sleep until something comes", "vhost", true, false},
	{"vhost-rested", "the same, after 120 ms in which nothing happened", "vhost", true, true},
};

bool bench_path_has(const struct bench_path_case *c, enum bench_path_at step)
{
	return c->nics || (step != BENCH_PATH_SENT && step != BENCH_PATH_POLLED);
}

const struct bench_path_case *bench_path_case(unsigned i)
{
	return i < sizeof(cases) / sizeof(*cases) ? &cases[i] : NULL;
}

/* ---- captures ---- */

struct tap {
	struct sp_attach_link link;
	void *memory;
	uint64_t bytes;
};

static void close_tap(struct tap *t)
{
	if (t->memory)
		munmap(t->memory, t->bytes);
	if (t->link.fd >= 0)
		close(t->link.fd);
}

static int open_tap(const struct bench_house *h, const char *nic, struct tap *t, struct bench_why *why)
{
	const struct sp_capture_request request = {.snaplen = 64, .filter = FILTER};
	struct sp_error error = {.text = ""};
	struct sp_attach_exchange x = {
		.op = SP_ATTACH_CAPTURE, .data = &request, .bytes = sizeof(request), .error = &error};
	const struct sp_capture_memory *m;
	char sockets[128];
	int r;

	*t = (struct tap){.link = {.fd = -1}};
	snprintf(sockets, sizeof(sockets), "%s/sockets", h->dir);
	setenv("SPINDLE_SOCKETS", sockets, 1); /* children get their own, see bench_child_start() */
	r = sp_attach_connect(&t->link, nic);
	if (!r)
		r = sp_attach_exchange_memory(&t->link, &x, &t->memory, &t->bytes);
	if (r)
		return bench_fail(why, r, "capturing on %s: %s", nic, *error.text ? error.text : strerror(-r));
	sp_attach_release(&x);
	m = t->memory;
	if (t->bytes < sizeof(*m) || m->magic != SP_CAPTURE_MAGIC || m->workers != 1 ||
	    m->first + sizeof(struct sp_capture_ring) + (uint64_t)m->slots * m->slot_bytes > t->bytes)
		return bench_fail(why, -EPROTO, "capturing on %s: not what this version reads", nic);
	return 0;
}

/* The first packet that was sent (or received) and in the NIC's hands within the time; NULL: none. */
static const struct sp_capture_slot *find(const struct tap *t, bool sent, uint64_t from, uint64_t to)
{
	const struct sp_capture_memory *m = t->memory;
	const uint8_t *at = (const uint8_t *)t->memory + m->first;
	const struct sp_capture_ring *ring = (const void *)at;
	const uint64_t n = ring->tail < m->slots ? ring->tail : m->slots;

	for (uint64_t i = 0; i < n; i++) {
		const struct sp_capture_slot *s = (const void *)(at + sizeof(*ring) + i * m->slot_bytes);

		if (s->fate == (sent ? SP_CAPTURE_SENT : SP_CAPTURE_TAKEN) && s->tsc[SP_CAPTURE_IN_HAND] >= from &&
		    s->tsc[SP_CAPTURE_IN_HAND] <= to)
			return s;
	}
	return NULL;
}

/* ---- the steps ---- */

/* False: not all of them are known. What is published before it is stamped may be seen before, by some ns. */
static bool follow(const struct tap *from, const struct tap *to, uint64_t call, uint64_t woken, uint64_t seen,
		   uint64_t *at)
{
	const bool one = from == to; /* which has one slot for what it sends to itself */
	const struct sp_capture_slot *s = find(from, !one, call, seen),
				     *r = one || !s ? s : find(to, false, s->tsc[SP_CAPTURE_IN_HAND], seen);

	if (!r)
		return false;
	at[BENCH_PATH_CALL] = call;
	at[BENCH_PATH_ROUND] = s->tsc[SP_CAPTURE_ROUND];
	at[BENCH_PATH_BUILT] = s->tsc[SP_CAPTURE_IN_HAND];
	at[BENCH_PATH_SENT] = s->tsc[one ? SP_CAPTURE_IN_HAND : SP_CAPTURE_PASSED];
	at[BENCH_PATH_POLLED] = r->tsc[SP_CAPTURE_IN_HAND];
	at[BENCH_PATH_PLACED] = r->tsc[SP_CAPTURE_PASSED];
	at[BENCH_PATH_WOKEN] = woken;
	at[BENCH_PATH_SEEN] = seen;
	/* The round may have begun before the call, and the peer may have the packet before the port returns. */
	for (unsigned k = BENCH_PATH_SEEN; k-- > BENCH_PATH_CALL + 1;)
		if (at[k] > at[k + 1])
			at[k] = at[k + 1];
	for (unsigned k = BENCH_PATH_CALL + 1; k < BENCH_PATH_POINTS; k++)
		if (at[k] < at[k - 1])
			at[k] = at[k - 1];
	return true;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int digest(const struct tap *from, const struct tap *to, const struct bench_path_said *said, double ns,
		  struct bench_path *path, struct bench_why *why)
{
	double took[BENCH_PATH_POINTS][BENCH_PATH_MESSAGES];
	unsigned n = 0;

	for (unsigned i = 0; i < said->messages && i < BENCH_PATH_MESSAGES; i++) {
		uint64_t at[BENCH_PATH_POINTS];

		if (!follow(from, to, said->message[i].call, said->message[i].woken, said->message[i].seen, at))
			continue;
		took[BENCH_PATH_CALL][n] = (double)(at[BENCH_PATH_SEEN] - at[BENCH_PATH_CALL]) * ns;
		for (unsigned k = BENCH_PATH_CALL + 1; k < BENCH_PATH_POINTS; k++)
			took[k][n] = (double)(at[k] - at[k - 1]) * ns;
		n++;
	}
	if (n < said->messages)
		return bench_fail(why, -ENODATA, "the captures have %u of %u messages", n, said->messages);
	path->messages = n;
	for (unsigned k = 0; k < BENCH_PATH_POINTS; k++) {
		qsort(took[k], n, sizeof(double), by_value);
		path->step[k].median = took[k][n / 2];
		path->step[k].tail = took[k][n - 1 - n / 100];
	}
	for (unsigned k = 0; k < BENCH_PATH_PROCESSES; k++) {
		path->ran[k] = said->ran[k];
		path->ran[k].seconds /= n;
	}
	return 0;
}

/* ---- a run ---- */

static int read_said(const char *file, struct bench_path_said *said, struct bench_why *why)
{
	FILE *f = fopen(file, "rbe");
	const bool all = f && fread(said, sizeof(*said), 1, f) == 1;

	if (f)
		fclose(f);
	return all && said->messages ? 0 : bench_fail(why, -EIO, "%s: incomplete", file);
}

static int trace(const struct bench_path_case *c, const struct bench_options *o, struct bench_house *h,
		 struct tap tap[2], struct bench_path_said *said, struct bench_why *why)
{
	const bool two = c->nics != NULL;
	const char *wait = c->sleep			  ? "sleep"
			   : bench_cpus() < (two ? 4 : 3) ? "yield"
							  : "poll",
		   *far = two ? "right" : "left";
	char count[16], rest[16], file[128], pid[2][16], line[64];
	const char *const pong[] = {"spindle", "bench", "--end", "path", "pong", wait, count, rest, far, file, NULL};
	const char *const ping[] = {"spindle", "bench", "--end", "path", "ping", wait,
				    count,     rest,	"left",	 file,	 pid[0], two ? pid[1] : NULL,
				    NULL};
	int r;

	snprintf(count, sizeof(count), "%u", o->quick ? 8u : c->rest ? 32u : BENCH_PATH_MESSAGES);
	snprintf(rest, sizeof(rest), "%u", c->rest ? REST : 0);
	snprintf(file, sizeof(file), "%s/path", h->dir);
	for (unsigned i = 0; i < 2; i++)
		snprintf(pid[i], sizeof(pid[i]), "%d", (int)h->nic[i].pid);
	r = open_tap(h, "left", &tap[0], why);
	if (!r && two)
		r = open_tap(h, "right", &tap[1], why);
	if (!r)
		r = bench_children_pair(h, &(struct bench_start){.argv = pong, .space = -1},
					&(struct bench_start){.argv = ping, .space = -1}, SECONDS, line, sizeof(line),
					why);
	return r ? r : read_said(file, said, why);
}

int bench_path_run(const struct bench_path_case *c, const struct bench_options *o, struct bench_path *path,
		   struct bench_why *why)
{
	struct tap tap[2] = {{.link = {.fd = -1}}, {.link = {.fd = -1}}};
	struct bench_path_said *said = calloc(1, sizeof(*said));
	const sp_time began = sp_clock();
	const uint64_t tsc = rte_rdtsc();
	struct bench_house h;
	double ns; /* a tick of the TSC */
	int r = said ? bench_house_open(&h, why) : -ENOMEM;

	if (r) {
		free(said);
		return r;
	}
	r = c->nics ? bench_nics_start(&h, c->nics, why) : bench_nic_start(&h, 0, "null:", -1, why);
	if (!r)
		r = trace(c, o, &h, tap, said, why);
	ns = (double)(sp_clock() - began) / SP_NS / (double)(rte_rdtsc() - tsc);
	if (!r)
		r = digest(&tap[0], c->nics ? &tap[1] : &tap[0], said, ns, path, why);
	close_tap(&tap[0]);
	close_tap(&tap[1]);
	bench_house_close(&h);
	free(said);
	return r;
}
