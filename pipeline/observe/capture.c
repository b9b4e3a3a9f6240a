/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet capture. A handler may change or forward a received packet, so the worker copies it into a record on arrival.
 * Once the packet's fate is known, the record goes into the rings: a slot reserved on arrival would leave a hole when
 * the packet waits or does not match. Transmitted frames are staged in the rings before the port gets them, and
 * published when the port accepts them. */
#include "../rx/rule.h"
#include "capture.h"
#include "capture_tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_ether.h>

#include "../engine.h"
#include "../error.h"
#include "../context.h"
#include "../rx/match.h"
#include "../exec/scheduler.h"
#include "../mem/freeing.h"
#include "../worker_call.h"

#define ROOM	(16u << 20) /* bytes of memory of one capture */
#define SLOTS	65536	    /* limit per ring: a longer ring only delays the program */
#define LINE	64
#define RECORDS (SP_BURST + SP_PARKED + SP_BACKLOG)

/* ---- control ---- */

static void captures_free(struct sp_captures *ms)
{
	if (ms)
		free(ms->records);
	free(ms);
}

static struct sp_captures *captures_new(void)
{
	const size_t bytes = RTE_ALIGN(sizeof(struct sp_record) + SP_PACKET_ROOM, LINE);
	struct sp_captures *ms = calloc(1, sizeof(*ms));

	if (!ms)
		return NULL;
	ms->records = calloc(RECORDS, bytes);
	if (!ms->records) {
		free(ms);
		return NULL;
	}
	for (unsigned i = 0; i < RECORDS; i++)
		recycle(ms, (struct sp_record *)(void *)(ms->records + i * bytes));
	return ms;
}

static void name_ports(const struct sp_nic *nic, struct sp_capture_memory *head)
{
	for (unsigned i = 0; i < nic->ports; i++) {
		const char *device = nic->config.port[i].device;

		if (device)
			snprintf(head->port[i], sizeof(head->port[i]), "%s", device);
		else
			snprintf(head->port[i], sizeof(head->port[i]), "port%u", i);
	}
	if (nic->has_exception)
		snprintf(head->port[SP_CAPTURE_EXCEPTION], sizeof(head->port[0]), "%s",
			 nic->config.exception.device ? nic->config.exception.device : "exception");
	snprintf(head->port[SP_CAPTURE_LOOP], sizeof(head->port[0]), "loop");
}

/* What the memory of a capture holds, and its bytes. */
static size_t shape_of(const struct sp_nic *nic, uint32_t snaplen, struct sp_capture_memory *shape)
{
	const uint32_t largest = nic->config.mtu + RTE_ETHER_HDR_LEN + 8; /* and two VLAN tags */
	const size_t first = RTE_ALIGN(sizeof(struct sp_capture_memory), LINE);
	uint32_t slots, slot_bytes;

	snaplen = RTE_MIN(snaplen ? snaplen : largest, (uint32_t)SP_PACKET_ROOM);
	slot_bytes = RTE_ALIGN((uint32_t)sizeof(struct sp_capture_slot) + snaplen, LINE);
	slots = (uint32_t)(((ROOM - first) / nic->workers - sizeof(struct sp_capture_ring)) / slot_bytes);
	slots = RTE_MIN(rte_align32prevpow2(slots), (uint32_t)SLOTS);
	*shape = (struct sp_capture_memory){.magic = SP_CAPTURE_MAGIC,
					    .workers = nic->workers,
					    .slots = slots,
					    .slot_bytes = slot_bytes,
					    .first = first,
					    .stride = sizeof(struct sp_capture_ring) + (size_t)slots * slot_bytes,
					    .snaplen = snaplen};
	return first + nic->workers * shape->stride;
}

size_t sp_capture_bytes(const struct sp_nic *nic, const struct sp_capture_request *request)
{
	struct sp_capture_memory shape;

	return sp_shm_pages(shape_of(nic, request->snaplen, &shape));
}

void sp_capture_init(const struct sp_nic *nic, const struct sp_capture_request *request, void *memory)
{
	struct sp_capture_memory *head = memory;

	shape_of(nic, request->snaplen, head);
	name_ports(nic, head);
}

static void use_rings(struct sp_capture *m, const struct sp_nic *nic, uint32_t snaplen)
{
	struct sp_capture_memory shape; /* not the one in memory, which the program can change */

	shape_of(nic, snaplen, &shape);
	m->snaplen = shape.snaplen;
	m->slot_bytes = shape.slot_bytes;
	m->slots = shape.slots;
	for (unsigned i = 0; i < nic->workers; i++)
		m->lane[i].ring =
			(struct sp_capture_ring *)(void *)((uint8_t *)m->memory.base + shape.first + i * shape.stride);
}

static bool is_text(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

static int check(const struct sp_nic *nic, const struct sp_capture_request *q, struct sp_error *error)
{
	if (q->flags & ~(uint32_t)SP_CAPTURE_DROPS || !is_text(q->context, sizeof(q->context)) ||
	    !is_text(q->filter, sizeof(q->filter)))
		return sp_error_set(error, EINVAL, "", "not a request to capture");
	if (!q->context[0])
		return 0;
	for (uint32_t i = 0; i < nic->context_next; i++)
		if (nic->context[i] && !strcmp(nic->context[i]->name, q->context))
			return 0;
	return sp_error_set(error, ENOENT, "context", "there is no context %s", q->context);
}

struct change {
	struct sp_capture *capture;
	unsigned index;
	struct sp_captures *part[SP_MAX_WORKERS]; /* in: parts for new workers' lists; out: parts to free */
	bool last;
};

static void join(struct sp_worker *w, void *arg)
{
	struct change *change = arg;
	struct timespec wall;

	if (!w->captures)
		w->captures = change->part[w->index];
	clock_gettime(CLOCK_REALTIME, &wall);
	w->captures->wall = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
	w->captures->since = w->now;
	w->captures->capture[change->index] = change->capture;
	sp_tap_set(w, SP_OBSERVER_CAPTURE, &sp_capture_tap);
}

static void unrecord(struct sp_waiting *waiting, void *arg)
{
	const struct change *change = arg;

	if (waiting->record) /* the next capture at this index has another filter */
		waiting->record->wanted &= ~(1u << change->index);
	if (change->last)
		waiting->record = NULL;
}

static void leave(struct sp_worker *w, void *arg)
{
	struct change *change = arg;
	struct sp_captures *ms = w->captures;
	struct sp_waiting *waiting;

	ms->capture[change->index] = NULL;
	STAILQ_FOREACH (waiting, &w->parked.list, next)
		unrecord(waiting, change);
	sp_scheduler_each(w, unrecord, change);
	if (change->last) {
		change->part[w->index] = ms;
		w->captures = NULL;
		sp_tap_set(w, SP_OBSERVER_CAPTURE, NULL);
	}
}

int sp_capture_open(struct sp_nic *nic, const struct sp_capture_request *request, struct sp_shm *memory,
		    struct sp_error *error, struct sp_capture **capture)
{
	struct change change = {0};
	struct sp_capture *m;
	unsigned index = 0;
	int r = check(nic, request, error);

	if (r)
		return r;
	while (index < SP_MAX_CAPTURES && nic->capture[index])
		index++;
	if (index == SP_MAX_CAPTURES)
		return sp_error_set(error, EBUSY, "", "there are %d captures already", SP_MAX_CAPTURES);
	m = aligned_alloc(LINE, RTE_ALIGN(sizeof(*m), LINE));
	if (!m)
		return sp_error_set(error, ENOMEM, "", "no memory for a capture");
	memset(m, 0, sizeof(*m));
	m->index = index;
	m->drops = request->flags & SP_CAPTURE_DROPS;
	memcpy(m->context, request->context, sizeof(m->context));
	r = request->filter[0] ? sp_rule_create(request->filter, NULL, &m->rule, error) : 0;
	if (r)
		goto fail;
	for (unsigned i = 0; !r && i < nic->workers; i++)
		if (!nic->worker[i]->captures && !(change.part[i] = captures_new()))
			r = sp_error_set(error, ENOMEM, "", "no memory for a capture");
	if (r)
		goto fail;
	m->memory = *memory;
	*memory = (struct sp_shm){.fd = -1, .file = -1};
	use_rings(m, nic, request->snaplen);
	change.capture = m;
	change.index = index;
	for (unsigned i = 0; i < nic->workers; i++)
		sp_worker_call(nic->worker[i], join, &change);
	nic->capture[index] = m;
	*capture = m;
	return 0;
fail:
	for (unsigned i = 0; i < nic->workers; i++)
		captures_free(change.part[i]);
	sp_rule_destroy(m->rule);
	free(m);
	return r;
}

void sp_capture_close(struct sp_nic *nic, struct sp_capture *m, uint32_t uid)
{
	struct change change = {.index = m->index, .last = true};

	nic->capture[m->index] = NULL;
	for (unsigned i = 0; i < SP_MAX_CAPTURES; i++)
		change.last &= !nic->capture[i];
	for (unsigned i = 0; i < nic->workers; i++)
		sp_worker_call(nic->worker[i], leave, &change);
	for (unsigned i = 0; i < nic->workers; i++)
		captures_free(change.part[i]);
	sp_rule_destroy(m->rule);
	sp_freeing_memory(nic, NULL, uid, &m->memory, 0); /* the program may still read earlier packets */
	free(m);
}
