/* SPDX-License-Identifier: BSD-3-Clause */
#include "run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "../../pipeline/observe/trace.h"

#define CHAINS 4096 /* of calls in order; a power of 2 */

struct message {
	uint64_t key;
	uint32_t context;
	bool used;
	sp_time header, payloads;		/* ends */
	sp_time header_posted, payloads_posted; /* of their writes */
};

struct chain {
	uint32_t context;
	uint16_t worker;
	bool used;
	sp_time end, busy, posted;
};

struct held {
	sp_time until;
	uint32_t bytes;
};

struct sp_device_run {
	struct sp_device device;
	struct sp_cores cores, dma;
	struct sp_device_row row[SP_DEVICE_ROWS];
	unsigned rows;
	struct sp_device_tally tally;
	struct message *message;
	struct chain chain[CHAINS];
	struct { /* the packet that calls belong to */
		bool on, called;
		sp_time now, ready, done, posted;
		uint32_t bytes;
	} packet;
	struct held *held; /* a heap: the earliest first */
	uint32_t helds, held_room;
	uint64_t held_bytes;
	bool short_of_memory; /* for the heap: packets are no longer counted */
};

int sp_device_run_create(const struct sp_device *device, unsigned workers, struct sp_device_run **run)
{
	struct sp_device_run *r = calloc(1, sizeof(*r));
	int err;

	*run = NULL;
	if (!r)
		return -ENOMEM;
	r->device = *device;
	if (!r->device.cores)
		r->device.cores = workers ? workers : 1;
	err = sp_cores_init(&r->cores, r->device.cores);
	if (!err)
		err = sp_cores_init(&r->dma, 1);
	if (!err) {
		r->message = calloc(SP_DEVICE_MESSAGES, sizeof(*r->message));
		err = r->message ? 0 : -ENOMEM;
	}
	if (err) {
		sp_device_run_destroy(r);
		return err;
	}
	*run = r;
	return 0;
}

void sp_device_run_destroy(struct sp_device_run *r)
{
	if (!r)
		return;
	sp_cores_free(&r->cores);
	sp_cores_free(&r->dma);
	free(r->message);
	free(r->held);
	free(r);
}

static sp_time later(sp_time a, sp_time b)
{
	return a > b ? a : b;
}

static sp_time bytes_time(uint64_t rate, uint64_t bytes)
{
	return rate ? (sp_time)llround(8.0 * (double)bytes * (double)SP_SEC / (double)rate) : 0;
}

/* ---- packets in the device ---- */

static void held_swap(struct held *a, struct held *b)
{
	const struct held t = *a;

	*a = *b;
	*b = t;
}

static void held_put(struct sp_device_run *r, struct held h)
{
	uint32_t i = r->helds++;

	r->held_bytes += h.bytes;
	for (r->held[i] = h; i && r->held[(i - 1) / 2].until > r->held[i].until; i = (i - 1) / 2)
		held_swap(&r->held[i], &r->held[(i - 1) / 2]);
}

static void held_take(struct sp_device_run *r)
{
	uint32_t i = 0;

	r->held_bytes -= r->held[0].bytes;
	r->held[0] = r->held[--r->helds];
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= r->helds)
			return;
		if (child + 1 < r->helds && r->held[child + 1].until < r->held[child].until)
			child++;
		if (r->held[i].until <= r->held[child].until)
			return;
		held_swap(&r->held[i], &r->held[child]);
		i = child;
	}
}

static bool held_room(struct sp_device_run *r)
{
	const uint32_t room = r->held_room ? 2 * r->held_room : 1024;
	struct held *more;

	if (r->helds < r->held_room)
		return true;
	if (room > SP_DEVICE_HELD || r->short_of_memory)
		return false;
	more = realloc(r->held, room * sizeof(*more));
	if (!more) {
		r->short_of_memory = true;
		return false;
	}
	r->held = more;
	r->held_room = room;
	return true;
}

/* The packet at hand has all its calls. */
static void packet_end(struct sp_device_run *r)
{
	struct sp_device_tally *t = &r->tally;
	const sp_time latency = r->packet.done - r->packet.now;

	if (!r->packet.on)
		return;
	r->packet.on = false;
	t->latency += latency;
	t->latency_most = later(t->latency_most, latency);
	if (t->packets == 1 || latency < t->latency_least)
		t->latency_least = latency;
	while (r->helds && r->held[0].until <= r->packet.now)
		held_take(r);
	if (!held_room(r))
		return;
	held_put(r, (struct held){r->packet.done, r->packet.bytes});
	if (r->helds > t->held_most)
		t->held_most = r->helds;
	if (r->held_bytes > t->held_bytes_most)
		t->held_bytes_most = r->held_bytes;
	if (r->device.buffer && r->held_bytes > r->device.buffer)
		t->overflows++;
}

void sp_device_run_packet(struct sp_device_run *r, sp_time now, uint32_t bytes)
{
	struct sp_device_tally *t = &r->tally;

	packet_end(r);
	if (!t->packets++)
		t->first = now;
	t->last = now;
	t->bytes += bytes;
	t->wire += sp_device_wire_time(&r->device, bytes);
	r->packet.on = true;
	r->packet.now = now;
	r->packet.bytes = bytes;
	r->packet.ready = now + r->device.arrive + bytes_time(r->device.arrive_rate, bytes);
	r->packet.done = r->packet.ready;
	r->packet.posted = 0;
}

void sp_device_run_finish(struct sp_device_run *r)
{
	packet_end(r);
}

/* ---- order ---- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7FB5D329728EA185u;
	x = (x ^ x >> 27) * 0x81DADEF4BC2DD44Du;
	return x ^ x >> 33;
}

static struct message *message_of(struct sp_device_run *r, const struct sp_device_job *j)
{
	struct message *m = &r->message[mix(j->message + ((uint64_t)j->context << 48)) % SP_DEVICE_MESSAGES];

	if (m->used && (m->key != j->message || m->context != j->context)) {
		r->tally.forgotten++;
		m->used = false;
	}
	if (!m->used)
		*m = (struct message){.key = j->message, .context = j->context, .used = true};
	return m;
}

static struct chain *chain_of(struct sp_device_run *r, const struct sp_device_job *j)
{
	struct chain *c = &r->chain[mix(((uint64_t)j->context << 16) + j->worker) % CHAINS];

	if (c->used && (c->context != j->context || c->worker != j->worker)) {
		r->tally.forgotten++;
		c->used = false;
	}
	if (!c->used)
		*c = (struct chain){.context = j->context, .worker = j->worker, .used = true};
	return c;
}

/* When the job may begin. */
static sp_time ready_of(const struct sp_device_run *r, const struct sp_device_job *j, const struct message *m,
			const struct chain *c)
{
	sp_time ready = later(j->now, j->after);

	if (j->packet && r->packet.on)
		ready = later(ready, r->packet.ready);
	if (m && j->function != SP_CALLED_HEADER)
		ready = later(ready, m->header);
	if (m && j->function == SP_CALLED_COMPLETION)
		ready = later(ready, m->payloads);
	return c ? later(ready, c->end) : ready;
}

/* ... and its writes leave, behind those of the calls that it waited for. */
static sp_time behind_of(const struct sp_device_run *r, const struct sp_device_job *j, const struct message *m,
			 const struct chain *c)
{
	sp_time behind = j->behind;

	if (j->packet && r->packet.on)
		behind = later(behind, r->packet.posted);
	if (m && j->function != SP_CALLED_HEADER)
		behind = later(behind, m->header_posted);
	if (m && j->function == SP_CALLED_COMPLETION)
		behind = later(behind, m->payloads_posted);
	return c ? later(behind, c->posted) : behind;
}

static void ended(struct sp_device_run *r, const struct sp_device_job *j, struct message *m, struct chain *c,
		  const struct sp_device_result *result)
{
	if (m && j->function == SP_CALLED_HEADER) {
		m->header = later(m->header, result->end);
		m->header_posted = later(m->header_posted, result->posted);
	} else if (m && j->function == SP_CALLED_COMPLETION) {
		m->used = false;
	} else if (m) {
		m->payloads = later(m->payloads, result->end);
		m->payloads_posted = later(m->payloads_posted, result->posted);
	}
	if (c) {
		c->end = result->end;
		c->posted = later(c->posted, result->posted);
		c->busy += result->end - result->start;
		r->tally.serial = later(r->tally.serial, c->busy);
	}
}

/* ---- a call ---- */

static struct sp_device_row *row_of(struct sp_device_run *r, const struct sp_device_job *j)
{
	struct sp_device_row *row;

	for (unsigned i = 0; i < r->rows; i++)
		if (r->row[i].function == j->function && !strcmp(r->row[i].handler, j->handler))
			return &r->row[i];
	if (r->rows == SP_DEVICE_ROWS)
		return &r->row[SP_DEVICE_ROWS - 1];
	row = &r->row[r->rows++];
	strncpy(row->handler, j->handler, sizeof(row->handler) - 1);
	row->function = j->function;
	return row;
}

static void row_add(struct sp_device_row *row, const struct sp_device_job *j, double cycles, sp_time busy, sp_time wait)
{
	row->serial |= j->serial;
	row->busy += busy;
	row->wait += wait;
	row->wait_most = later(row->wait_most, wait);
	row->cycles += cycles;
	row->most = fmax(row->most, cycles);
	row->least = row->calls ? fmin(row->least, cycles) : cycles;
	row->calls++;
}

static void seen(struct sp_device_seen *s, uint64_t bytes, sp_time since, sp_time at)
{
	s->count++;
	s->bytes += bytes;
	s->sum += at - since;
	s->most = later(s->most, at - since);
	s->last = later(s->last, at);
}

/* When the host sees so many bytes, which can leave from `behind` on; posted: when they have left. */
static sp_time written(struct sp_device_run *r, sp_time now, sp_time behind, uint64_t bytes, sp_time *posted)
{
	r->tally.writes += bytes;
	*posted = sp_cores_take(&r->dma, now, behind, bytes_time(r->device.dma_rate, bytes), SP_CORES_ANY).end;
	return *posted + r->device.dma_latency;
}

/* The call's writes and events. */
static void write_all(struct sp_device_run *r, const struct sp_device_job *j, sp_time behind, struct sp_device_row *row,
		      struct sp_device_result *result)
{
	const uint64_t memory = j->work.writes - j->work.event_bytes;
	const sp_time since = j->packet && r->packet.on ? r->packet.now : j->now;

	behind = later(behind, result->end);
	if (memory) {
		result->placed = written(r, j->now, behind, memory, &result->posted);
		seen(&row->memory, memory, since, result->placed);
		r->tally.memory_last = later(r->tally.memory_last, result->placed);
		behind = result->posted;
	}
	if (j->work.event_bytes) {
		result->told = written(r, j->now, behind, j->work.event_bytes, &result->posted);
		seen(&row->events, j->work.event_bytes, since, result->told);
		r->tally.event_last = later(r->tally.event_last, result->told);
	}
}

/* Until the last of its frames and writes. */
static sp_time over(const struct sp_device_result *result)
{
	return later(result->sent, later(result->placed, result->told));
}

static void packet_goes_on(struct sp_device_run *r, const struct sp_device_result *result)
{
	r->packet.ready = later(r->packet.ready, result->end);
	r->packet.done = later(r->packet.done, over(result));
	r->packet.posted = later(r->packet.posted, result->posted);
}

struct sp_device_result sp_device_run_job(struct sp_device_run *r, const struct sp_device_job *j)
{
	const struct sp_cost *cost = sp_costs_find(&r->device.costs, j->handler, j->function);
	const double cycles = cost ? sp_cost_of(cost, &j->work) : j->measured * r->device.host_cycles;
	const sp_time length = sp_device_time(&r->device, cycles);
	struct message *m = j->has_message ? message_of(r, j) : NULL;
	struct chain *c = j->serial ? chain_of(r, j) : NULL;
	struct sp_device_row *row = row_of(r, j);
	const sp_time ready = ready_of(r, j, m, c);
	const struct sp_core_place p =
		sp_cores_take(&r->cores, j->now, ready, length, r->device.by_worker ? j->worker : SP_CORES_ANY);
	struct sp_device_result result = {
		.start = p.start, .end = p.end, .sent = p.end, .placed = p.end, .told = p.end};

	row->measured |= !cost;
	row_add(row, j, cycles, length, p.start - ready);
	r->tally.calls++;
	r->tally.wait += p.start - ready;
	r->tally.wait_most = later(r->tally.wait_most, p.start - ready);
	if (j->work.frames)
		result.sent += r->device.depart + bytes_time(r->device.depart_rate, r->packet.on ? r->packet.bytes : 0);
	write_all(r, j, behind_of(r, j, m, c), row, &result);
	ended(r, j, m, c, &result);
	if (j->packet && r->packet.on)
		packet_goes_on(r, &result);
	r->tally.end = later(r->tally.end, over(&result));
	return result;
}

/* ---- results ---- */

const struct sp_device *sp_device_run_device(const struct sp_device_run *r)
{
	return &r->device;
}

const struct sp_device_tally *sp_device_run_tally(const struct sp_device_run *r)
{
	return &r->tally;
}

const struct sp_cores *sp_device_run_cores(const struct sp_device_run *r)
{
	return &r->cores;
}

const struct sp_cores *sp_device_run_dma(const struct sp_device_run *r)
{
	return &r->dma;
}

const struct sp_device_row *sp_device_run_row(const struct sp_device_run *r, unsigned i)
{
	return i < r->rows ? &r->row[i] : NULL;
}

double sp_device_run_occupancy(const struct sp_device_run *r)
{
	const double span = (double)(r->cores.last - r->tally.first) * r->cores.count;

	return r->cores.last > r->tally.first ? (double)r->cores.busy / span : 0;
}

double sp_device_run_offered(const struct sp_device_run *r)
{
	const struct sp_device_tally *t = &r->tally;

	return t->packets > 1 && t->last > t->first
		       ? (double)(t->packets - 1) * (double)SP_SEC / (double)(t->last - t->first)
		       : 0;
}

double sp_device_run_most(const struct sp_device_run *r, const char **limit)
{
	const struct sp_device_tally *t = &r->tally;
	const struct {
		const char *name;
		double time; /* for all packets, ps */
	} limits[] = {{"cores", (double)r->cores.busy / r->cores.count},
		      {"order", (double)t->serial},
		      {"dma", (double)r->dma.busy},
		      {"line", (double)t->wire}};
	double most = 0;

	*limit = NULL;
	for (unsigned i = 0; i < sizeof(limits) / sizeof(*limits); i++)
		if (limits[i].time > most) {
			most = limits[i].time;
			*limit = limits[i].name;
		}
	return most > 0 ? (double)t->packets * (double)SP_SEC / most : 0;
}

double sp_device_run_cores_needed(const struct sp_device_run *r)
{
	return r->tally.wire ? (double)r->cores.busy / (double)r->tally.wire : 0;
}
