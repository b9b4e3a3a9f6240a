/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the reliability core: an input is a configuration, then what happens, time and datagrams from anybody among
 * it. A model of what was sent checks what the core wants to send; whatever the peer has said, everything is over in
 * the end.
 */
#include "standalone.h"

#include "../../handlers/reliability/receiver.h"
#include "../../handlers/reliability/sender.h"

#include <errno.h>

#define MESSAGES 8
#define UNITS	 80
#define TIMEOUT	 SP_SEC

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

struct input {
	const uint8_t *at;
	size_t len;
};

struct run {
	struct sp_rel_config config;
	struct sp_rel_sender sender;
	struct sp_rel_receiver receiver;
	void *memory;
	sp_time now;
	uint64_t started, answered; /* answered: highest poll that an answer taken for true has named */
	uint64_t polls, units, again;
	uint32_t sent[MESSAGES];	/* units of message k, at k % MESSAGES, that were sent */
	uint64_t poll[MESSAGES][UNITS]; /* polls when the unit was last sent */
	uint64_t bitmap[MESSAGES][2];	/* of an honest receiver's */
	sp_time left;
};

static uint64_t take(struct input *in, unsigned bytes)
{
	uint64_t n = 0;

	for (; bytes && in->len; bytes--, in->at++, in->len--)
		n = n << 8 | *in->at;
	return n;
}

static const struct sp_rel_message *message_of(const struct run *r, uint64_t k)
{
	return &r->sender.message[k % r->config.messages];
}

static bool is_acknowledged(const struct run *r, uint64_t k, uint32_t unit)
{
	return message_of(r, k)->have[unit / 64] >> (unit % 64) & 1;
}

static void check(const struct run *r)
{
	const struct sp_rel_sender *s = &r->sender;

	REQUIRE(s->out.count + s->lost.count <= r->config.in_flight);
	REQUIRE(s->begin <= s->end && s->end == r->started && s->end - s->begin <= r->config.messages);
	REQUIRE(s->counters.units == r->units && s->counters.retransmitted == r->again && s->polls == r->polls);
	REQUIRE(s->counters.done + s->counters.failed + s->counters.refused <= r->started);
	REQUIRE(s->answered <= s->polls && s->counters.spurious <= r->again);
	for (uint64_t k = s->begin; k < s->end; k++) {
		const struct sp_rel_message *m = message_of(r, k);
		uint32_t bits = 0;

		for (uint32_t i = 0; i < (m->units + 63) / 64; i++)
			bits += (uint32_t)__builtin_popcountll(m->have[i]);
		REQUIRE(bits == m->acked && bits <= m->next && m->next <= m->units);
		if (m->state == SP_REL_FREE)
			continue;
		REQUIRE(m->next == r->sent[k % MESSAGES]);
		REQUIRE((m->state == SP_REL_DONE) == (m->acked == m->units));
	}
}

static void check_unit(struct run *r, const struct sp_rel_next *next)
{
	const uint32_t slot = next->message % MESSAGES;

	REQUIRE(sp_rel_state(&r->sender, next->message) == SP_REL_OPEN);
	REQUIRE(next->unit < message_of(r, next->message)->units);
	REQUIRE(!is_acknowledged(r, next->message, next->unit));
	if (next->what == SP_REL_UNIT) {
		REQUIRE(next->unit == r->sent[slot]);
		r->sent[slot]++;
		r->units++;
	} else { /* nothing goes again without an answer to a poll that left after it */
		REQUIRE(next->unit < r->sent[slot] && r->answered > r->poll[slot][next->unit]);
		r->again++;
	}
	r->poll[slot][next->unit] = r->polls;
}

static void check_poll(struct run *r, const struct sp_rel_next *next)
{
	struct sp_rel_asked asked;
	const uint64_t begin = r->receiver.begin;

	REQUIRE(sp_rel_poll_take(&r->receiver, &next->poll, sizeof(next->poll), &asked) == 0);
	REQUIRE(asked.poll == ++r->polls && asked.from_message >= r->sender.begin);
	REQUIRE(r->receiver.begin >= begin && r->receiver.begin <= r->started && r->receiver.end <= r->started);
}

/* All that is due, or so much of it. Nothing is due any more: the deadline is later. */
static void send(struct run *r, unsigned most)
{
	struct sp_rel_next next;

	for (; most; most--) {
		sp_rel_next(&r->sender, r->now, &next);
		if (next.what == SP_REL_NOTHING) {
			REQUIRE(sp_rel_deadline(&r->sender) > r->now);
			return;
		}
		if (next.what == SP_REL_ASK)
			check_poll(r, &next);
		else
			check_unit(r, &next);
		sp_rel_sent(&r->sender, &next, 8 * 4096, r->now);
		if (next.what != SP_REL_ASK && r->config.rate) {
			REQUIRE(r->sender.left >= r->left + (sp_time)8 * 4096 * SP_SEC / r->config.rate);
			r->left = r->sender.left;
		}
	}
}

static void hear(struct run *r, const uint8_t *bytes, size_t len)
{
	const struct sp_rel_counters before = r->sender.counters;
	uint8_t *exact = malloc(len ? len : 1); /* so that ASan sees a read beyond it */
	struct sp_rel_head head = {.poll = {0}};
	uint64_t poll = 0;

	memcpy(exact, bytes, len);
	int rc = sp_rel_ack(&r->sender, exact, len, r->now);
	free(exact);
	REQUIRE(rc == 0 || rc == -EINVAL);
	if (rc) {
		REQUIRE(!memcmp(&before, &r->sender.counters, sizeof(before)));
		return;
	}
	REQUIRE(len >= sizeof(struct sp_rel_ack));
	memcpy(&head, bytes, sizeof(head));
	for (int i = 0; i < 8; i++)
		poll = poll << 8 | head.poll[i];
	if (!(head.flags & SP_REL_UNASKED)) {
		REQUIRE(poll && poll <= r->polls);
		r->answered = poll > r->answered ? poll : r->answered;
	}
}

/* An answer as a receiver makes it, of what the input says, and one byte of it changed if it says so. */
static void answer(struct run *r, struct input *in)
{
	const uint64_t how = take(in, 1);
	struct sp_rel_asked asked = {.poll = r->polls - take(in, 1) % 4,
				     .from_message = r->sender.begin + take(in, 1) % 4,
				     .from_unit = (uint32_t)take(in, 1) % 90};
	uint8_t bytes[SP_REL_ACK_LEAST + 255];
	struct sp_rel_ack_maker m;
	size_t len;

	sp_rel_ack_begin(&m, bytes, SP_REL_ACK_LEAST + take(in, 1), how & 1 ? &asked : NULL,
			 r->sender.begin + (how & 2 ? take(in, 1) % 3 : 0));
	for (uint64_t k = m.from_message; k < r->sender.end && in->len; k++) {
		const uint64_t what = take(in, 1);
		uint64_t *bitmap = r->bitmap[k % MESSAGES];

		bitmap[0] |= take(in, what % 8);
		bitmap[1] |= what & 8 ? take(in, 2) : 0;
		if (what & 16 && !sp_rel_ack_refuse(&m, k, what))
			break;
		if (!(what & 48) &&
		    !sp_rel_ack_add(&m, k, what & 64 ? NULL : bitmap, (uint32_t)take(in, 1) % (UNITS + 1)))
			break;
	}
	len = sp_rel_ack_end(&m);
	REQUIRE(len <= m.room);
	if (how & 4)
		bytes[take(in, 1) % len] = (uint8_t)take(in, 1);
	hear(r, bytes, len);
}

static void ask(struct run *r, struct input *in)
{
	const struct sp_rel_receiver before = r->receiver;
	const size_t len = in->len < 40 ? in->len : 40;
	struct sp_rel_asked asked;

	if (sp_rel_poll_take(&r->receiver, in->at, len, &asked)) {
		REQUIRE(!memcmp(&before, &r->receiver, sizeof(before)));
	} else {
		REQUIRE(asked.poll && r->receiver.begin >= before.begin && r->receiver.end >= before.end);
		REQUIRE(asked.from_message >= r->receiver.begin || r->receiver.begin == before.begin);
	}
	r->receiver = before; /* forged: the real one knows nothing of it */
	take(in, 0);
}

static void step(struct run *r, struct input *in)
{
	const uint64_t what = take(in, 1);
	uint64_t number;
	size_t len;

	switch (what % 8) {
	case 0:
		if (sp_rel_start(&r->sender, (uint32_t)take(in, 1) % (UNITS + 2), r->now, &number) == 0) {
			REQUIRE(number == r->started++);
			r->sent[number % MESSAGES] = 0;
			memset(r->bitmap[number % MESSAGES], 0, sizeof(r->bitmap[0]));
		}
		break;
	case 1:
		r->now += take(in, 1 + what / 8 % 5) % (TIMEOUT / 4);
		break;
	case 2:
	case 3:
		send(r, what / 8 ? 2 + (unsigned)(what / 8) : 1000);
		break;
	case 4:
	case 5:
		answer(r, in);
		break;
	case 6:
		if (what & 8) {
			ask(r, in);
			break;
		}
		len = take(in, 1);
		len = len < in->len ? len : in->len;
		hear(r, in->at, len);
		in->at += len;
		in->len -= len;
		break;
	case 7:
		sp_rel_release(&r->sender, r->sender.begin + what / 8 % MESSAGES);
		break;
	}
	check(r);
}

/* Nobody answers any more. */
static void end(struct run *r)
{
	unsigned steps = 0;

	for (sp_time next = 0; next != SP_NEVER; r->now = next > r->now && next != SP_NEVER ? next : r->now) {
		send(r, UINT32_MAX);
		REQUIRE(steps++ < 20000);
		next = sp_rel_deadline(&r->sender);
	}
	for (uint64_t k = r->sender.begin; k < r->sender.end; k++)
		REQUIRE(sp_rel_state(&r->sender, k) != SP_REL_OPEN);
	while (r->sender.begin < r->sender.end)
		REQUIRE(sp_rel_release(&r->sender, r->sender.begin) == 0 || sp_rel_state(&r->sender, r->sender.begin));
	check(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	static struct run run;
	struct run *r = &run;

	memset(r, 0, sizeof(*r));
	r->config = (struct sp_rel_config){.scheme = (enum sp_rel_scheme)(take(&in, 1) % 2),
					   .rtt = take(&in, 3) * SP_NS,
					   .rto_quarters = (uint32_t)take(&in, 1) % 20,
					   .reorder = take(&in, 2) * SP_NS,
					   .timeout = TIMEOUT,
					   .polls = (uint32_t)take(&in, 1) % 140,
					   .rate = take(&in, 1) << 28,
					   .messages = MESSAGES >> take(&in, 1) % 4,
					   .units = UNITS,
					   .in_flight = 1u << take(&in, 1) % 10};
	if (!sp_rel_sender_bytes(&r->config)) {
		REQUIRE(r->config.polls > 128);
		return 0;
	}
	r->memory = calloc(1, sp_rel_sender_bytes(&r->config));
	REQUIRE(r->memory && sp_rel_sender_init(&r->sender, &r->config, r->memory) == 0);
	while (in.len)
		step(r, &in);
	end(r);
	free(r->memory);
	return 0;
}

#ifdef FUZZ_STANDALONE
int main(int argc, char **argv)
{
	/* Configuration; messages, units, time, answers: whole, cut, refusing, raw. */
	static const uint8_t plain[] = {1, 0, 4, 0, 12,	 0,  9,	   32, 4,  0, 6, 0, 20, 0,  80, 2, 9,	200, 100, 4,
					1, 0, 0, 0, 200, 7,  0xF0, 1,  2,  3, 4, 5, 6,	80, 2,	9, 255, 255, 2,	  5,
					3, 0, 1, 0, 255, 64, 20,   64, 80, 2, 7, 7, 7,	0,  5,	2, 1,	9,   9};
	static const uint8_t refusing[] = {0,  1,  0,  0,  4, 1, 0, 8, 0, 0, 9,	 0,  30, 0,  1,	 0, 70, 2,
					   17, 50, 50, 50, 2, 4, 1, 0, 0, 0, 90, 16, 16, 16, 2,	 7, 15, 2,
					   17, 90, 90, 90, 2, 4, 5, 0, 0, 0, 0,	 64, 9,	 60, 77, 2};
	static const uint8_t raw[] = {
		1,    0,    1,	  0,	0,    0,    0,	  0,	0, 0, 3, 0, 9, 2, 6, 80, 'S', 'P', 'R', 'L', 1, 2, 0, 0,
		0,    0,    0,	  0,	0,    0,    0,	  1,	0, 0, 0, 0, 0, 0, 0, 0,	 0,   0,   0,	0,   0, 0, 0, 0,
		0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0,	 0,   1,   0,	0,   0, 0, 0, 0,
		0,    0,    0,	  0,	0,    0,    0,	  0,	0, 0, 0, 0, 0, 0, 0, 3,	 0,   2,   0,	0,   0, 0, 0, 0,
		0xF0, 1,    2,	  14,	'S',  'P',  'R',  'L',	1, 1, 0, 0, 0, 0, 0, 0,	 0,   0,   0,	7,   0, 0, 0, 0,
		0,    0,    0,	  1,	0,    0,    0,	  0,	0, 0, 0, 2, 0, 0, 0, 0,	 0,   0,   0,	3};
	static const uint8_t *const seed[] = {plain, refusing, raw};
	static const size_t len[] = {sizeof(plain), sizeof(refusing), sizeof(raw)};

	return fuzz_standalone(argc, argv, seed, len, 3);
}
#endif
