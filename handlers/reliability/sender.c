/* SPDX-License-Identifier: BSD-3-Clause */
#include "sender.h"

#include <errno.h>
#include <string.h>

#include "bytes.h"

#define ASKED	       3      /* polls that could prove everything: some may be lost, or sent a moment too early */
#define SILENT_MOST    40     /* doublings of the time between polls that nobody answers, at most */
#define SILENT_TELLS   5      /* ... after so many, the peer need not be told what was given up */
#define SILENT_LONGEST SP_SEC /* ... the longest such time */

static const uint8_t magic[4] = {SP_REL_MAGIC >> 24 & 0xFF, SP_REL_MAGIC >> 16 & 0xFF, SP_REL_MAGIC >> 8 & 0xFF,
				 SP_REL_MAGIC & 0xFF};

/* ---- memory ---- */
static bool power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static size_t have_words(const struct sp_rel_config *c)
{
	return ((size_t)c->units + 63) / 64;
}

static size_t era_words(const struct sp_rel_config *c)
{
	return ((size_t)c->units + 1) / 2;
}

size_t sp_rel_sender_bytes(const struct sp_rel_config *c)
{
	if (!power_of_two(c->messages) || c->messages > 1u << 20 || !c->units || c->units > 1u << 31 ||
	    !power_of_two(c->in_flight) || c->in_flight > 1u << 30 || c->polls > SP_REL_POLLS / 2 ||
	    (c->scheme != SP_REL_RTO && c->scheme != SP_REL_NACK))
		return 0;
	return c->messages * (sizeof(struct sp_rel_message) + 8 * (have_words(c) + era_words(c))) +
	       2 * (size_t)c->in_flight * sizeof(struct sp_rel_flight);
}

int sp_rel_sender_init(struct sp_rel_sender *s, const struct sp_rel_config *config, void *memory)
{
	uint64_t *words;

	if (!sp_rel_sender_bytes(config))
		return -EINVAL;
	memset(s, 0, sizeof(*s));
	s->config = *config;
	s->config.rtt = config->rtt ? config->rtt : SP_MS;
	s->config.rto_quarters = config->rto_quarters ? config->rto_quarters : 12;
	s->config.timeout = config->timeout ? config->timeout : 10 * SP_SEC;
	s->config.polls = config->polls ? config->polls : 32;
	sp_rtt_init(&s->rtt, s->config.rtt);
	s->message = memory;
	s->out.flight = (struct sp_rel_flight *)(s->message + config->messages);
	s->lost.flight = s->out.flight + config->in_flight;
	words = (uint64_t *)(s->lost.flight + config->in_flight);
	for (uint32_t i = 0; i < config->messages; i++) {
		s->message[i].have = words;
		words += have_words(config);
		s->message[i].era = (uint32_t *)words;
		words += era_words(config);
	}
	return 0;
}

/* ---- messages ---- */
static struct sp_rel_message *message_of(const struct sp_rel_sender *s, uint64_t number)
{
	return &s->message[number & (s->config.messages - 1)];
}

static bool is_open(const struct sp_rel_sender *s, uint64_t number)
{
	return number >= s->begin && number < s->end && message_of(s, number)->state == SP_REL_OPEN;
}

int sp_rel_start(struct sp_rel_sender *s, uint32_t units, sp_time now, uint64_t *number)
{
	struct sp_rel_message *m = message_of(s, s->end);

	if (!units || units > s->config.units)
		return -EINVAL;
	if (s->end - s->begin == s->config.messages)
		return -EAGAIN;
	memset(m->have, 0, (units + 63) / 64 * sizeof(*m->have));
	memset(m->era, 0, units * sizeof(*m->era));
	m->units = units;
	m->next = m->acked = m->below = 0;
	m->hold = 0;
	m->reason = 0;
	m->state = SP_REL_OPEN;
	m->deadline = s->config.timeout < SP_NEVER - now ? now + s->config.timeout : SP_NEVER;
	*number = s->end++;
	return 0;
}

enum sp_rel_state sp_rel_state(const struct sp_rel_sender *s, uint64_t number)
{
	return number >= s->begin && number < s->end ? message_of(s, number)->state : SP_REL_FREE;
}

int sp_rel_release(struct sp_rel_sender *s, uint64_t number)
{
	if (sp_rel_state(s, number) == SP_REL_FREE)
		return -ENOENT;
	message_of(s, number)->given_up =
		message_of(s, number)->state == SP_REL_OPEN || message_of(s, number)->state == SP_REL_FAILED;
	message_of(s, number)->state = SP_REL_FREE;
	for (; s->begin < s->end && message_of(s, s->begin)->state == SP_REL_FREE; s->begin++)
		if (message_of(s, s->begin)->given_up)
			s->tells = s->polls + 1;
	return 0;
}

int sp_rel_refuse(struct sp_rel_sender *s, uint64_t number, uint8_t reason)
{
	if (sp_rel_state(s, number) == SP_REL_FREE)
		return -ENOENT;
	if (!is_open(s, number))
		return 0;
	message_of(s, number)->state = SP_REL_REFUSED;
	message_of(s, number)->reason = reason;
	s->counters.refused++;
	return 0;
}

void sp_rel_hold(struct sp_rel_sender *s, uint64_t number, sp_time left)
{
	if (!is_open(s, number))
		return;
	message_of(s, number)->hold = left;
	if (left != SP_NEVER && left > s->left)
		s->left = left;
}

/* All messages have the same timeout, so they expire in order. */
static void expire(struct sp_rel_sender *s, sp_time now)
{
	for (s->open = s->open < s->begin ? s->begin : s->open; s->open < s->end; s->open++) {
		struct sp_rel_message *m = message_of(s, s->open);

		if (m->state == SP_REL_OPEN && m->deadline > now)
			break;
		if (m->state == SP_REL_OPEN) {
			m->state = SP_REL_FAILED;
			s->counters.failed++;
		}
	}
}

/* ---- units on their way ---- */
static struct sp_rel_flight *head(const struct sp_rel_sender *s, const struct sp_rel_ring *r)
{
	return &r->flight[r->first & (s->config.in_flight - 1)];
}

static void drop_head(struct sp_rel_ring *r)
{
	r->first++;
	r->count--;
}

static void append(const struct sp_rel_sender *s, struct sp_rel_ring *r, struct sp_rel_flight flight)
{
	r->flight[(r->first + r->count++) & (s->config.in_flight - 1)] = flight;
}

static bool has(const struct sp_rel_message *m, uint32_t unit)
{
	return m->have[unit / 64] >> (unit % 64) & 1;
}

/* True: nothing more is to be done for it. */
static bool settled(const struct sp_rel_sender *s, const struct sp_rel_flight *f)
{
	return !is_open(s, f->message) || has(message_of(s, f->message), f->unit);
}

static bool covered(const struct sp_rel_evidence *e, const struct sp_rel_flight *f)
{
	return (f->message > e->from_message || (f->message == e->from_message && f->unit >= e->from_unit)) &&
	       (f->message < e->limit_message || (f->message == e->limit_message && f->unit < e->limit_unit));
}

static sp_time rto(const struct sp_rel_sender *s)
{
	return s->rtt.smoothed / 4 * s->config.rto_quarters;
}

/* A poll proves a unit lost if it was sent this much later. At least 1: of two sent at the same time, the unit may have
 * been the later one. */
static sp_time window(const struct sp_rel_sender *s)
{
	const sp_time most = s->rtt.smoothed;
	sp_time wide = s->config.reorder ? s->config.reorder : most / 8;

	if (s->config.scheme == SP_REL_RTO)
		return rto(s) > most ? rto(s) - most : 1;
	for (unsigned i = 0; i < s->widened && wide < most; i++)
		wide *= 2;
	return wide ? wide : 1;
}

static sp_time later(sp_time t, sp_time by)
{
	return by < SP_NEVER - t ? t + by : SP_NEVER;
}

static bool full(const struct sp_rel_sender *s)
{
	return s->out.count + s->lost.count >= s->config.in_flight;
}

/* When the unit counts as sent: not before its parity (hold), unless that waits for room that only units can make. */
static sp_time left_at(const struct sp_rel_sender *s, const struct sp_rel_flight *f)
{
	const sp_time hold = is_open(s, f->message) ? message_of(s, f->message)->hold : 0;

	return f->left > hold || (hold == SP_NEVER && full(s)) ? f->left : hold;
}

/* When the evidence makes the unit lost; SP_NEVER: it does not. */
static sp_time lost_at(const struct sp_rel_sender *s, const struct sp_rel_flight *f)
{
	if (later(left_at(s, f), window(s)) > s->evidence.time || !covered(&s->evidence, f))
		return SP_NEVER;
	return s->config.scheme == SP_REL_RTO ? later(left_at(s, f), rto(s)) : 0;
}

/* Units in front were sent first: once one is undecided, all after it are. */
static void settle(struct sp_rel_sender *s, sp_time now)
{
	while (s->out.count) {
		const struct sp_rel_flight *f = head(s, &s->out);

		if (!settled(s, f)) {
			if (lost_at(s, f) > now)
				break;
			append(s, &s->lost, *f);
		}
		drop_head(&s->out);
	}
	while (s->lost.count && settled(s, head(s, &s->lost)))
		drop_head(&s->lost);
	for (s->fresh = s->fresh < s->begin ? s->begin : s->fresh; s->fresh < s->end; s->fresh++)
		if (is_open(s, s->fresh) && message_of(s, s->fresh)->next < message_of(s, s->fresh)->units)
			break;
}

/* ---- what to send ---- */
static bool more_fresh(const struct sp_rel_sender *s)
{
	return s->fresh < s->end && !full(s);
}

/* How long an answer may take: longer the more answers are missing. */
static sp_time patience(const struct sp_rel_sender *s)
{
	const sp_time late = sp_rtt_late(&s->rtt), most = later(late, SILENT_LONGEST);

	return late > most >> s->silent ? most : late << s->silent;
}

/* True: enough polls were sent since `all`, to a peer that answers. */
static bool asked_enough(const struct sp_rel_sender *s, sp_time all)
{
	return s->silent || (s->polls >= ASKED && s->poll_sent[(s->polls - ASKED + 1) % SP_REL_POLLS] >= all);
}

/* When to poll next; SP_NEVER: there is nothing to ask. late: the latest poll was not answered in time. */
static sp_time poll_due(const struct sp_rel_sender *s, bool *late)
{
	const sp_time sent = s->polls ? s->poll_sent[s->polls % SP_REL_POLLS] : 0;
	const sp_time often = s->rtt.smoothed / s->config.polls + 1; /* more often than units are sent is useless */
	const sp_time regular = s->polls ? later(sent, often > s->unit_time ? often : s->unit_time) : 0;
	const sp_time overdue = later(sent, patience(s));
	const sp_time all = later(s->left, window(s)); /* from then on, a poll proves everything */

	*late = false;
	if (!s->out.count && (s->answered >= s->tells || s->silent > SILENT_TELLS))
		return SP_NEVER;
	if (s->polls > s->answered && asked_enough(s, all) && (s->out.count || s->polls >= s->tells)) {
		*late = true; /* nobody answers: poll less often */
		return overdue;
	}
	if (!s->out.count || !s->polls || s->out.count > s->config.in_flight / 2)
		return regular;
	if (all > sent) {
		const sp_time first = later(left_at(s, head(s, &s->out)), window(s));
		const sp_time due = regular > first ? regular : first;
		/* Not after each unit that is sent again: answers to polls of long ago can no longer be used. */
		const sp_time soon = s->polls ? later(sent, s->rtt.smoothed / (SP_REL_POLLS / 2)) : 0;
		const sp_time end = all > soon ? all : soon;

		return due < end ? due : end;
	}
	if (s->polls > s->answered)
		return regular;
	/* Answered, but the first unit is still undecided: the answer was cut, or time alone will decide. */
	return covered(&s->evidence, head(s, &s->out)) ? SP_NEVER : regular;
}

/* Nothing was sent of messages from here on. */
static uint64_t sent_below(const struct sp_rel_sender *s)
{
	const uint64_t fresh = s->fresh > s->begin ? s->fresh : s->begin;

	return fresh + (fresh < s->end && message_of(s, fresh)->next);
}

/* Where the answer shall begin: at the first unit that is not acknowledged, as units sent again are further back in the
 * order of sending. If the latest answer did not get so far, at the unit to be decided next. */
static struct sp_rel_flight ask_from(const struct sp_rel_sender *s)
{
	const struct sp_rel_evidence *e = &s->evidence;
	const struct sp_rel_flight *f = head(s, &s->out);
	uint64_t k = s->open > s->begin ? s->open : s->begin;

	if (!s->out.count)
		return (struct sp_rel_flight){.message = s->begin};
	if (f->message > e->limit_message || (f->message == e->limit_message && f->unit >= e->limit_unit))
		return *f;
	while (k < f->message && !is_open(s, k))
		k++;
	return (struct sp_rel_flight){.message = k, .unit = message_of(s, k)->below};
}

static void make_poll(const struct sp_rel_sender *s, struct sp_rel_poll *poll)
{
	const struct sp_rel_flight from = ask_from(s), *f = &from;

	*poll = (struct sp_rel_poll){.head = {.version = SP_REL_VERSION, .type = SP_REL_POLL}};
	memcpy(poll->head.magic, magic, sizeof(magic));
	sp_rel_put64(poll->head.poll, s->polls + 1);
	sp_rel_put64(poll->begin, s->begin);
	sp_rel_put64(poll->from_message, f->message);
	sp_rel_put32(poll->from_unit, f->unit);
	sp_rel_put32(poll->reach, (uint32_t)(sent_below(s) - s->begin));
}

void sp_rel_next(struct sp_rel_sender *s, sp_time now, struct sp_rel_next *next)
{
	bool late;

	expire(s, now);
	settle(s, now);
	next->what = SP_REL_NOTHING;
	if (poll_due(s, &late) <= now) {
		next->what = SP_REL_ASK;
		make_poll(s, &next->poll);
	} else if (s->room > now) {
		return;
	} else if (s->lost.count) {
		next->what = SP_REL_UNIT_AGAIN;
		next->message = head(s, &s->lost)->message;
		next->unit = head(s, &s->lost)->unit;
	} else if (more_fresh(s)) {
		next->what = SP_REL_UNIT;
		next->message = s->fresh;
		next->unit = message_of(s, s->fresh)->next;
	}
}

static void poll_sent(struct sp_rel_sender *s, sp_time now)
{
	bool late;

	(void)poll_due(s, &late);
	if (late) {
		s->counters.polls_late++;
		s->silent += s->silent < SILENT_MOST;
	}
	s->poll_sent[++s->polls % SP_REL_POLLS] = now;
	s->counters.polls++;
}

void sp_rel_sent(struct sp_rel_sender *s, const struct sp_rel_next *next, uint64_t bits, sp_time now)
{
	struct sp_rel_message *m = message_of(s, next->message);

	switch (next->what) {
	case SP_REL_NOTHING:
		return;
	case SP_REL_ASK:
		poll_sent(s, now);
		return;
	case SP_REL_UNIT_AGAIN:
		drop_head(&s->lost);
		m->era[next->unit] = sp_rel_era(s->polls + 1);
		s->counters.retransmitted++;
		break;
	case SP_REL_UNIT:
		m->next++;
		s->counters.units++;
		break;
	}
	s->room = s->room > now ? s->room : now;
	if (s->config.rate) {
		s->unit_time = (sp_time)((unsigned __int128)bits * SP_SEC / s->config.rate);
		s->room += s->unit_time;
	}
	s->left = s->room;
	append(s, &s->out, (struct sp_rel_flight){.message = next->message, .unit = next->unit, .left = s->left});
}

sp_time sp_rel_deadline(const struct sp_rel_sender *s)
{
	bool late;
	sp_time next = poll_due(s, &late), lost;

	for (uint64_t k = s->open < s->begin ? s->begin : s->open; k < s->end; k++)
		if (message_of(s, k)->state == SP_REL_OPEN) {
			next = next < message_of(s, k)->deadline ? next : message_of(s, k)->deadline;
			break;
		}
	if (s->lost.count || more_fresh(s))
		next = next < s->room ? next : s->room;
	if (s->out.count) {
		lost = lost_at(s, head(s, &s->out));
		next = next < lost ? next : lost;
	}
	return next;
}
