/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <stdlib.h>

#include <rte_mbuf.h>

#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/sdr.h"

enum { SENT = 1, LOST = 2 };

static void note(struct demo_watch *w, enum demo_kind kind, uint64_t chunk, sp_time now)
{
	struct demo_lane *l = w->l;

	if (l->events == l->room) {
		const size_t room = l->room ? l->room * 2 : 1024;
		struct demo_event *more = realloc(l->event, room * sizeof(*more));

		if (!more) {
			w->failed = true;
			return;
		}
		l->event = more;
		l->room = room;
	}
	l->event[l->events++] =
		(struct demo_event){.at = now - w->begin, .chunk = (uint32_t)chunk, .kind = (uint8_t)kind};
}

static void data_sent(struct demo_watch *w, const struct demo_message *m, uint64_t index, bool lost, sp_time now)
{
	const uint64_t number = index / (w->d->o.chunk / w->d->o.mtu);
	struct demo_chunk *c = &w->l->chunk[m->first_chunk + number];
	uint8_t *packet = &w->l->packet[m->first_packet + index];

	if (*packet) {
		w->l->again++;
		note(w, DEMO_RESENT, m->first_chunk + number, now);
	} else if (c->sent == SP_NEVER) {
		c->sent = now - w->begin;
	}
	c->again |= *packet == (SENT | LOST);
	if (lost) {
		note(w, DEMO_LOST, m->first_chunk + number, now);
		if (c->lost == SP_NEVER)
			c->lost = now - w->begin;
		*packet = *packet ? *packet : SENT | LOST;
	} else {
		c->packets += *packet != SENT;
		*packet = SENT;
	}
}

static void parity_sent(struct demo_watch *w, const struct demo_message *m, uint64_t index, sp_time now)
{
	const uint64_t parity = index / (w->d->o.chunk / w->d->o.mtu), k = w->d->o.k, of = w->d->o.m;
	const uint64_t beside = parity / of * k + parity % of * k / of;

	w->l->parity++;
	note(w, DEMO_PARITY, m->first_chunk + (beside < m->chunks ? beside : m->chunks - 1), now);
}

/* The slot of a message is its number. With erasure coding every second slot is parity. */
static void packet_sent(struct demo_watch *w, uint32_t immediate, bool lost, sp_time now)
{
	struct sp_sdr_split split = {.id = 0};
	uint64_t slot, index;
	bool parity = false;

	sp_sdr_split_parse(SP_SDR_SPLIT_DEFAULT, &split);
	slot = sp_sdr_imm_id(split, immediate);
	index = sp_sdr_imm_packet(split, immediate);
	if (w->l->scheme->code != SDR_CODE_NONE) {
		parity = slot % 2;
		slot /= 2;
	}
	w->l->packets++;
	w->l->lost += lost;
	if (slot >= w->d->messages)
		return;
	if (parity)
		parity_sent(w, &w->d->message[slot], index, now);
	else if (index < demo_units(w->d->message[slot].len, w->d->o.mtu))
		data_sent(w, &w->d->message[slot], index, lost, now);
}

/* False: the packet carries no data. */
static bool immediate_of(const struct rte_mbuf *m, uint32_t *immediate)
{
	uint8_t room[SP_LINK_HEAD];
	const uint32_t len = rte_pktmbuf_pkt_len(m) < sizeof(room) ? rte_pktmbuf_pkt_len(m) : sizeof(room);
	const uint8_t *frame = rte_pktmbuf_read(m, 0, len, room);
	const uint32_t roce = 14 + (frame[12] == 0x86 ? 40 : 20) + 8, at = roce + 12 + 16;

	if (len < at + 4 || frame[roce] != SP_UC_WRITE_ONLY_IMM)
		return false;
	*immediate = sp_load_be32(frame + at);
	return true;
}

/* ---- the port ---- */
static unsigned watch_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	const struct demo_watch *w = arg;

	return w->ops->receive(w->port, queue, packet, max, now);
}

/* Sends one packet at a time: the link's counters then tell whether it lost the packet. The receiver drops a packet
 * that the link corrupts. */
static unsigned watch_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct demo_watch *w = arg;
	struct sp_link_counters before, after;
	unsigned n;

	for (n = 0; n < count; n++) {
		uint32_t immediate = 0;
		const bool data = immediate_of(packet[n], &immediate);

		sp_link_count(w->link, 0, &before);
		if (!w->ops->transmit(w->port, queue, &packet[n], 1, now))
			break;
		sp_link_count(w->link, 0, &after);
		if (data)
			packet_sent(w, immediate, after.lost + after.corrupted > before.lost + before.corrupted, now);
	}
	return n;
}

static sp_time watch_next(void *arg, uint16_t queue, bool transmit_blocked)
{
	const struct demo_watch *w = arg;

	return w->ops->next(w->port, queue, transmit_blocked);
}

const struct sp_port_ops demo_watch_ops = {.receive = watch_receive, .transmit = watch_transmit, .next = watch_next};

/* ---- what has arrived ---- */
static void chunk_came(struct demo_watch *w, const struct demo_message *m, uint64_t i, sp_time now)
{
	const uint64_t end = (i + 1) * w->d->o.chunk < m->len ? (i + 1) * w->d->o.chunk : m->len;
	struct demo_chunk *c = &w->l->chunk[m->first_chunk + i];

	c->came = now - w->begin;
	if (c->packets < demo_units(end - i * w->d->o.chunk, w->d->o.mtu))
		c->how = DEMO_REPAIRED;
	else
		c->how = c->again ? DEMO_AGAIN : DEMO_CAME;
}

void demo_watch_chunks(struct demo_watch *w, const struct demo_message *m, const uint64_t *bitmap, sp_time now)
{
	uint64_t *seen = &w->l->seen[m->first_chunk / 64 + (uint64_t)(m - w->d->message)];

	for (uint64_t i = 0; i < m->chunks; i += 64) {
		const uint64_t word = bitmap ? __atomic_load_n(&bitmap[i / 64], __ATOMIC_ACQUIRE) : UINT64_MAX;

		for (uint64_t fresh = word & ~seen[i / 64]; fresh; fresh &= fresh - 1) {
			const uint64_t bit = i + (uint64_t)__builtin_ctzll(fresh);

			if (bit < m->chunks)
				chunk_came(w, m, bit, now);
		}
		seen[i / 64] = word;
	}
}
