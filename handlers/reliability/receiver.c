/* SPDX-License-Identifier: BSD-3-Clause */
#include "receiver.h"

#include <errno.h>

#include "bytes.h"

static const uint8_t magic[4] = {SP_REL_MAGIC >> 24 & 0xFF, SP_REL_MAGIC >> 16 & 0xFF, SP_REL_MAGIC >> 8 & 0xFF,
				 SP_REL_MAGIC & 0xFF};

int sp_rel_poll_take(struct sp_rel_receiver *r, const void *datagram, size_t len, struct sp_rel_asked *asked)
{
	struct sp_rel_poll poll;
	uint64_t begin, end;

	if (len < sizeof(poll))
		return -EINVAL;
	memcpy(&poll, datagram, sizeof(poll));
	if (memcmp(poll.head.magic, magic, sizeof(magic)) || poll.head.version != SP_REL_VERSION ||
	    poll.head.type != SP_REL_POLL)
		return -EINVAL;
	asked->poll = sp_rel_get64(poll.head.poll);
	asked->from_message = sp_rel_get64(poll.from_message);
	asked->from_unit = sp_rel_get32(poll.from_unit);
	begin = sp_rel_get64(poll.begin);
	end = begin + sp_rel_get32(poll.reach);
	if (!asked->poll || begin > asked->from_message || end < asked->from_message || begin >= SP_REL_MESSAGES)
		return -EINVAL;
	if (asked->poll > r->poll)
		r->poll = asked->poll;
	if (begin > r->begin)
		r->begin = begin;
	if (end > r->end)
		r->end = end;
	return 0;
}

void sp_rel_ack_begin(struct sp_rel_ack_maker *m, void *bytes, size_t room, const struct sp_rel_asked *asked,
		      uint64_t base)
{
	struct sp_rel_ack ack = {.head = {.version = SP_REL_VERSION, .type = SP_REL_ACK}};

	*m = (struct sp_rel_ack_maker){
		.bytes = bytes, .room = room, .len = sizeof(ack), .from_message = base, .to_message = UINT64_MAX};
	if (asked && asked->from_message >= base) {
		m->from_message = asked->from_message;
		m->from_unit = asked->from_unit;
	}
	memcpy(ack.head.magic, magic, sizeof(magic));
	ack.head.flags = asked ? 0 : SP_REL_UNASKED;
	sp_rel_put64(ack.head.poll, asked ? asked->poll : 0);
	sp_rel_put64(ack.base, base);
	sp_rel_put64(ack.from_message, m->from_message);
	sp_rel_put32(ack.from_unit, m->from_unit);
	memcpy(bytes, &ack, sizeof(ack));
}

static uint32_t all_below(const uint64_t *bitmap, uint32_t units)
{
	uint32_t unit = 0;

	for (uint32_t i = 0; unit < units; i++, unit += 64) {
		const uint64_t missing = ~__atomic_load_n(&bitmap[i], __ATOMIC_ACQUIRE);

		if (missing) {
			unit += (uint32_t)__builtin_ctzll(missing);
			break;
		}
	}
	return unit < units ? unit : units;
}

/* One past the highest bit that is set. */
static uint32_t some_below(const uint64_t *bitmap, uint32_t units)
{
	for (uint32_t i = (units + 63) / 64; i-- > 0;) {
		uint64_t word = __atomic_load_n(&bitmap[i], __ATOMIC_ACQUIRE);

		if (units - i * 64 < 64)
			word &= (1ull << (units - i * 64)) - 1;
		if (word)
			return i * 64 + 64 - (uint32_t)__builtin_clzll(word);
	}
	return 0;
}

static uint8_t eight(const uint64_t *bitmap, uint32_t first, uint32_t end)
{
	uint8_t byte = 0;

	for (uint32_t unit = first; unit < first + 8 && unit < end; unit++)
		byte |= (uint8_t)((__atomic_load_n(&bitmap[unit / 64], __ATOMIC_ACQUIRE) >> (unit % 64) & 1)
				  << (unit - first));
	return byte;
}

/* The ACK ends before this unit: it says nothing of what comes from here on. */
static bool cut(struct sp_rel_ack_maker *m, uint64_t message, uint32_t unit)
{
	m->cut = true;
	m->to_message = message;
	m->to_unit = unit;
	return false;
}

bool sp_rel_ack_add(struct sp_rel_ack_maker *m, uint64_t message, const uint64_t *bitmap, uint32_t units)
{
	struct sp_rel_entry entry = {.bytes = {0}};
	const uint32_t below = bitmap ? all_below(bitmap, units) : units, end = bitmap ? some_below(bitmap, units) : 0;
	uint32_t first = below, bytes;
	size_t room;

	if (m->cut || message < m->from_message)
		return !m->cut;
	if (message == m->from_message && m->from_unit > first)
		first = m->from_unit < units ? m->from_unit : units;
	bytes = end > first ? (end - first + 7) / 8 : 0;
	if (m->room - m->len < sizeof(entry) || m->entries == UINT16_MAX)
		return cut(m, message, 0);
	room = m->room - m->len - sizeof(entry);
	room = room < UINT16_MAX ? room : UINT16_MAX;
	if (bytes > room) {
		bytes = (uint32_t)room;
		cut(m, message, first + 8 * bytes);
	}
	sp_rel_put64(entry.message, message);
	sp_rel_put32(entry.below, below);
	sp_rel_put32(entry.first, first);
	sp_rel_put16(entry.bytes, (uint16_t)bytes);
	memcpy(m->bytes + m->len, &entry, sizeof(entry));
	m->len += sizeof(entry);
	for (uint32_t i = 0; i < bytes; i++)
		m->bytes[m->len++] = eight(bitmap, first + 8 * i, units);
	m->entries++;
	return !m->cut;
}

bool sp_rel_ack_stop(struct sp_rel_ack_maker *m, uint64_t message, uint32_t unit)
{
	if (!m->cut || message < m->to_message || (message == m->to_message && unit < m->to_unit)) {
		cut(m, message, unit);
		m->stopped = true;
	}
	return false;
}

bool sp_rel_ack_refuse(struct sp_rel_ack_maker *m, uint64_t message, uint8_t reason)
{
	struct sp_rel_entry entry = {.flags = SP_REL_REFUSAL, .reason = reason};

	if (m->cut || message < m->from_message)
		return !m->cut;
	if (m->room - m->len < sizeof(entry) || m->entries == UINT16_MAX)
		return cut(m, message, 0);
	sp_rel_put64(entry.message, message);
	memcpy(m->bytes + m->len, &entry, sizeof(entry));
	m->len += sizeof(entry);
	m->entries++;
	return true;
}

size_t sp_rel_ack_end(struct sp_rel_ack_maker *m)
{
	struct sp_rel_ack ack;

	memcpy(&ack, m->bytes, sizeof(ack));
	sp_rel_put64(ack.to_message, m->to_message);
	sp_rel_put32(ack.to_unit, m->to_unit);
	sp_rel_put16(ack.entries, (uint16_t)m->entries);
	sp_rel_put16(ack.repaired_runs, (uint16_t)m->repaired_runs);
	sp_rel_put32(ack.repaired, m->repaired);
	memcpy(m->bytes, &ack, sizeof(ack));
	return m->len;
}
