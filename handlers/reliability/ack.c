/* SPDX-License-Identifier: BSD-3-Clause */
/* ACKs that arrive. All of an ACK is checked before any of it counts. */
#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "sender.h"

struct ack {
	struct sp_rel_ack head;
	const uint8_t *entries;
	size_t len; /* bytes of entries */
	uint64_t poll, base, from_message, to_message;
	uint32_t from_unit, to_unit;
	unsigned count;
	bool asked;
	sp_time came;
};

struct entry {
	uint64_t message;
	bool refuses;
	uint8_t reason;
	uint32_t below, first, bytes;
	const uint8_t *bits;
};

static int head_parse(struct ack *a, const void *datagram, size_t len)
{
	if (len < sizeof(a->head))
		return -EINVAL;
	memcpy(&a->head, datagram, sizeof(a->head));
	if (sp_rel_get32(a->head.head.magic) != SP_REL_MAGIC || a->head.head.version != SP_REL_VERSION ||
	    a->head.head.type != SP_REL_ACK)
		return -EINVAL;
	a->entries = (const uint8_t *)datagram + sizeof(a->head);
	a->len = len - sizeof(a->head);
	a->poll = sp_rel_get64(a->head.head.poll);
	a->base = sp_rel_get64(a->head.base);
	a->from_message = sp_rel_get64(a->head.from_message);
	a->to_message = sp_rel_get64(a->head.to_message);
	a->from_unit = sp_rel_get32(a->head.from_unit);
	a->to_unit = sp_rel_get32(a->head.to_unit);
	a->count = sp_rel_get16(a->head.entries);
	a->asked = !(a->head.head.flags & SP_REL_UNASKED);
	return 0;
}

/* Parses the entry at `at`, and moves on. */
static bool entry_parse(const struct ack *a, size_t *at, struct entry *e)
{
	struct sp_rel_entry raw;

	if (a->len - *at < sizeof(raw))
		return false;
	memcpy(&raw, a->entries + *at, sizeof(raw));
	*at += sizeof(raw);
	e->message = sp_rel_get64(raw.message);
	e->below = sp_rel_get32(raw.below);
	e->first = sp_rel_get32(raw.first);
	e->bytes = sp_rel_get16(raw.bytes);
	e->refuses = raw.flags & SP_REL_REFUSAL;
	e->reason = raw.reason;
	e->bits = a->entries + *at;
	if (a->len - *at < e->bytes)
		return false;
	*at += e->bytes;
	return true;
}

static struct sp_rel_message *message_of(const struct sp_rel_sender *s, uint64_t number)
{
	return &s->message[number & (s->config.messages - 1)];
}

/* True: the entry speaks only of units that were sent. */
static bool entry_possible(const struct sp_rel_sender *s, const struct entry *e)
{
	const struct sp_rel_message *m = message_of(s, e->message);
	uint32_t last = e->bytes;

	if (e->message >= s->end) /* the receiver may give it up before we start it */
		return e->refuses && !e->below && !e->bytes;
	if (e->message < s->begin || m->state == SP_REL_FREE) /* it has ended */
		return true;
	if (e->below > m->next || e->first < e->below || e->first > m->units)
		return false;
	while (last && !e->bits[last - 1])
		last--;
	return !last || (uint64_t)e->first + 8ull * last - (unsigned)__builtin_clz(e->bits[last - 1]) % 8 <= m->next;
}

static int possible(const struct sp_rel_sender *s, const struct ack *a)
{
	uint64_t before = a->base;
	size_t at = 0;
	struct entry e;

	if (a->poll > s->polls || (a->asked && !a->poll) || a->base > s->end || a->from_message < a->base)
		return -EINVAL;
	for (uint64_t k = s->begin; k < a->base; k++)
		if (message_of(s, k)->state == SP_REL_OPEN && message_of(s, k)->next < message_of(s, k)->units)
			return -EINVAL;
	for (unsigned i = 0; i < a->count; i++) {
		if (!entry_parse(a, &at, &e) || e.message < before || !entry_possible(s, &e))
			return -EINVAL;
		before = e.message + 1;
	}
	return 0;
}

/* A unit that was sent again, and that had arrived when a poll before that was answered, was not lost. But the peer's
 * program may look late, and then its answer contains what arrived meanwhile. So this also wants another poll sent
 * between the two, and an answer that came sooner after that poll than any before. */
static void judge(struct sp_rel_sender *s, const struct sp_rel_message *m, uint32_t unit, const struct ack *a)
{
	const uint32_t since = (sp_rel_era(s->polls + 1) - m->era[unit]) / 2; /* polls */
	const uint64_t between = s->polls - since;

	if (!a->asked || !m->era[unit] || since >= SP_REL_POLLS || a->poll >= between ||
	    a->came - s->poll_sent[between % SP_REL_POLLS] >= s->rtt.least)
		return;
	s->counters.spurious++;
	s->widened += s->widened < 16;
}

static void take(struct sp_rel_sender *s, struct sp_rel_message *m, uint32_t unit, const struct ack *a)
{
	const uint64_t bit = 1ull << (unit % 64);

	if (m->have[unit / 64] & bit)
		return;
	m->have[unit / 64] |= bit;
	m->acked++;
	judge(s, m, unit, a);
}

static void take_below(struct sp_rel_sender *s, struct sp_rel_message *m, uint32_t below, const struct ack *a)
{
	for (; m->below < below; m->below++)
		take(s, m, m->below, a);
}

static void take_entry(struct sp_rel_sender *s, struct sp_rel_message *m, const struct entry *e, const struct ack *a)
{
	take_below(s, m, e->below, a);
	for (uint32_t i = 0; i < e->bytes; i++)
		for (uint32_t bits = e->bits[i]; bits; bits &= bits - 1)
			take(s, m, e->first + 8 * i + (uint32_t)__builtin_ctz(bits), a);
}

static bool finish(struct sp_rel_sender *s, struct sp_rel_message *m)
{
	if (m->acked < m->units)
		return false;
	m->state = SP_REL_DONE;
	s->counters.done++;
	return true;
}

static void prove(struct sp_rel_sender *s, const struct ack *a)
{
	const sp_time sent = s->poll_sent[a->poll % SP_REL_POLLS];

	/* A further part of the latest answer. */
	if (a->asked && a->poll == s->answered && a->from_message == s->evidence.limit_message &&
	    a->from_unit == s->evidence.limit_unit) {
		s->evidence.limit_message = a->to_message;
		s->evidence.limit_unit = a->to_unit;
		return;
	}
	if (!a->asked || a->poll <= s->answered || s->polls - a->poll >= SP_REL_POLLS)
		return;
	s->answered = a->poll;
	if (a->poll >= s->timed) {
		if (!s->silent || a->poll == s->polls) {
			s->silent = 0;
			if (a->came >= sent)
				sp_rtt_sample(&s->rtt, a->came - sent);
		} else { /* what was polled meanwhile waits there too, and its answer is as late as it was polled early
			  */
			s->timed = s->polls + 1;
		}
	}
	s->evidence = (struct sp_rel_evidence){.time = sent,
					       .from_message = a->from_message,
					       .from_unit = a->from_unit,
					       .limit_message = a->to_message,
					       .limit_unit = a->to_unit};
}

int sp_rel_ack(struct sp_rel_sender *s, const void *datagram, size_t len, sp_time now)
{
	uint64_t acked = 0;
	struct entry e = {.bytes = 0};
	struct ack a;
	size_t at = 0;
	int r = head_parse(&a, datagram, len);

	a.came = now;
	r = r ? r : possible(s, &a);
	if (r)
		return r;
	s->counters.acks++;
	for (uint64_t k = s->begin; k < a.base; k++) {
		struct sp_rel_message *m = message_of(s, k);

		if (m->state != SP_REL_OPEN)
			continue;
		take_below(s, m, m->units, &a);
		acked += finish(s, m);
	}
	for (unsigned i = 0; i < a.count && entry_parse(&a, &at, &e); i++) {
		struct sp_rel_message *m = message_of(s, e.message);
		const uint32_t before = m->acked;

		if (e.message < s->begin || e.message >= s->end || m->state != SP_REL_OPEN)
			continue;
		take_entry(s, m, &e, &a);
		acked += m->acked - before;
		if (!finish(s, m) && e.refuses)
			sp_rel_refuse(s, e.message, e.reason);
	}
	if ((int32_t)(sp_rel_get32(a.head.repaired) - s->repaired) > 0) {
		s->repaired = sp_rel_get32(a.head.repaired);
		s->repaired_runs += (uint16_t)(sp_rel_get16(a.head.repaired_runs) - s->repaired_runs);
	}
	s->counters.acks_stale += !acked && (!a.asked || a.poll <= s->answered);
	prove(s, &a);
	return 0;
}
