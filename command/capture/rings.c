/* SPDX-License-Identifier: BSD-3-Clause */
#include "rings.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "../../handlers/spindle-handler.h"
#include "../../testbed/pcapng.h"
#include "line.h"

#ifndef SP_VERSION
#define SP_VERSION "unknown"
#endif

static uint64_t wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- the rings ---- */

static const struct sp_capture_ring *ring_of(const struct capture_rings *c, unsigned i)
{
	return (const void *)((const uint8_t *)c->memory + c->shape.first + i * c->shape.stride);
}

static const struct sp_capture_slot *slot_of(const struct capture_rings *c, unsigned ring)
{
	const uint64_t at = c->head[ring] & (c->shape.slots - 1);

	return (const void *)((const uint8_t *)(ring_of(c, ring) + 1) + at * c->shape.slot_bytes);
}

bool capture_rings_sound(struct capture_rings *c)
{
	const struct sp_capture_memory *m = &c->shape;

	if (c->bytes < sizeof(*m))
		return false;
	memcpy(&c->shape, c->memory, sizeof(c->shape));
	if (m->magic != SP_CAPTURE_MAGIC || !m->workers || m->workers > CAPTURE_WORKERS_MAX || !m->slots ||
	    m->slots & (m->slots - 1) || m->slots > c->bytes || m->slot_bytes > c->bytes ||
	    m->slot_bytes < sizeof(struct sp_capture_slot) || m->slot_bytes % 8 || m->first % 8 || m->stride % 8)
		return false;
	return m->stride <= c->bytes && m->first <= c->bytes &&
	       m->stride >= sizeof(struct sp_capture_ring) + (uint64_t)m->slots * m->slot_bytes &&
	       m->workers * m->stride <= c->bytes - m->first;
}

/* ---- the file ---- */

static const char *verdict_name(uint16_t verdict)
{
	static const char *const names[] = {
		[SP_DONE] = "done",	 [SP_END] = "end",   [SP_FORWARD] = "forward", [SP_ERROR] = "error",
		[SP_DROP_KIND] = "drop", [SP_SENT] = "sent", [SP_AGAIN] = "again"};

	return verdict < sizeof(names) / sizeof(*names) ? names[verdict] : "unknown";
}

/* The verdict that each fate implies. */
static uint16_t usual_verdict(uint8_t fate)
{
	return fate == SP_CAPTURE_TAKEN ? SP_DONE : fate == SP_CAPTURE_FORWARDED ? SP_FORWARD : SP_DROP_KIND;
}

/* Names come from applications: removes control characters and what is not UTF-8. */
static void clean(char *name, size_t room)
{
	for (size_t i = 0; i < room && name[i]; i++)
		if (name[i] < 0x20 || name[i] >= 0x7F)
			name[i] = '?';
}

static void comment(const struct sp_capture_slot *s, char *text, size_t room)
{
	char context[64] = "", what[64] = "", verdict[32] = "";

	if (s->context[0])
		snprintf(context, sizeof(context), "context %.40s: ", s->context);
	switch (s->fate) {
	case SP_CAPTURE_TAKEN:
		snprintf(what, sizeof(what), "taken");
		break;
	case SP_CAPTURE_DROPPED:
		snprintf(what, sizeof(what), "dropped: %.40s", s->reason);
		break;
	case SP_CAPTURE_FORWARDED:
		snprintf(what, sizeof(what), "forwarded to the exception port");
		break;
	case SP_CAPTURE_ANSWERED:
		snprintf(what, sizeof(what), "answered by the NIC");
		break;
	case SP_CAPTURE_SENT:
		snprintf(what, sizeof(what), s->context[0] ? "sent by context %.40s" : "sent by the NIC", s->context);
		context[0] = '\0';
		break;
	}
	if (s->verdict != SP_CAPTURE_NO_VERDICT && s->verdict != usual_verdict(s->fate))
		snprintf(verdict, sizeof(verdict), " (verdict %s)", verdict_name(s->verdict));
	snprintf(text, room, "%s%s%s", context, what, verdict);
}

static int need_interface(struct capture_rings *c, unsigned port)
{
	char name[sizeof(c->shape.port[0]) + 1];

	if (c->interface[port] >= 0)
		return 0;
	snprintf(name, sizeof(name), "%.64s", c->shape.port[port]);
	c->interface[port] = c->interfaces++;
	return pcapng_interface(c->to, name, c->shape.snaplen);
}

int capture_rings_begin(struct capture_rings *c)
{
	int r;

	c->start = wall_clock();
	if (c->lines)
		return 0;
	r = pcapng_begin(c->to, "spindle " SP_VERSION);

	for (unsigned i = 0; i < SP_CAPTURE_PORTS; i++)
		c->interface[i] = -1;
	/* The other ports are written with their first packet. */
	for (unsigned i = 0; !r && i < SP_CAPTURE_EXCEPTION; i++)
		if (c->shape.port[i][0])
			r = need_interface(c, i);
	return r;
}

static int print_line(struct capture_rings *c, unsigned port, const struct pcapng_packet *packet)
{
	char name[sizeof(c->shape.port[0]) + 1];
	const struct capture_line line = {.time = packet->time,
					  .port = name,
					  .outgoing = packet->outgoing,
					  .frame = packet->frame,
					  .captured = packet->captured,
					  .length = packet->length,
					  .fate = packet->comment};

	snprintf(name, sizeof(name), "%.64s", c->shape.port[port]);
	return capture_line_print(c->to, &line);
}

static int write_packet(struct capture_rings *c, unsigned port, struct pcapng_packet *packet)
{
	const int r = need_interface(c, port);

	packet->interface = (uint32_t)c->interface[port];
	return r ? r : pcapng_packet(c->to, packet);
}

static int write_slot(struct capture_rings *c, const struct sp_capture_slot *slot)
{
	const uint32_t room = c->shape.slot_bytes - (uint32_t)sizeof(*slot);
	struct sp_capture_slot s; /* without the frame; a copy, as the NIC may change the original */
	char text[200];
	struct pcapng_packet packet;
	unsigned port;

	memcpy(&s, slot, sizeof(s));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	port = s.port < SP_CAPTURE_PORTS ? s.port : SP_CAPTURE_LOOP;
	clean(s.context, sizeof(s.context));
	comment(&s, text, sizeof(text));
	packet = (struct pcapng_packet){.time = s.time,
					.captured = s.captured < room ? s.captured : room,
					.length = s.length,
					.frame = slot->frame,
					.outgoing = s.outgoing,
					.queue = s.worker,
					.comment = text};
	c->packets[port]++;
	c->written++;
	return c->lines ? print_line(c, port, &packet) : write_packet(c, port, &packet);
}

static uint64_t lost_by(const struct capture_rings *c, unsigned port)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < c->shape.workers; i++)
		n += __atomic_load_n(&ring_of(c, i)->lost[port], __ATOMIC_RELAXED);
	return n;
}

uint64_t capture_rings_lost(const struct capture_rings *c)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SP_CAPTURE_PORTS; i++)
		n += lost_by(c, i);
	return n;
}

int capture_rings_finish(struct capture_rings *c)
{
	const uint64_t end = wall_clock();
	int r = 0;

	for (unsigned i = 0; !c->lines && !r && i < SP_CAPTURE_PORTS; i++)
		if (c->interface[i] >= 0)
			r = pcapng_statistics(c->to, (uint32_t)c->interface[i], c->start, end,
					      c->packets[i] + lost_by(c, i), lost_by(c, i));
	return r;
}

/* Collects what is in the rings now, sorted by time: each ring is in order, but two rings are not. The number, or
 * -errno. */
int capture_rings_look(struct capture_rings *c, uint64_t limit)
{
	const unsigned workers = c->shape.workers;
	int n = 0;

	for (unsigned i = 0; i < workers; i++) {
		c->tail[i] = __atomic_load_n(&ring_of(c, i)->tail, __ATOMIC_ACQUIRE);
		if (c->tail[i] - c->head[i] > c->shape.slots)
			return -EPROTO;
	}
	while (!limit || c->written < limit) {
		const struct sp_capture_slot *first = NULL;
		unsigned ring = 0;
		int r;

		for (unsigned i = 0; i < workers; i++)
			if (c->head[i] != c->tail[i] && (!first || slot_of(c, i)->time < first->time)) {
				first = slot_of(c, i);
				ring = i;
			}
		if (!first)
			break;
		r = write_slot(c, first);
		if (r)
			return r;
		n++;
		__atomic_store_n((uint64_t *)(uintptr_t)&ring_of(c, ring)->head, ++c->head[ring], __ATOMIC_RELEASE);
	}
	errno = 0;
	if (n && fflush(c->to))
		return errno ? -errno : -EIO;
	return n;
}
