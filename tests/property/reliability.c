/* SPDX-License-Identifier: BSD-3-Clause */
/* The reliability core, under seeds, over a network that does to it what networks do. */
#include "../lib/reliability_net.h"

/* ---- rules ---- */
static void over_seeds(unsigned few, void (*rule)(struct net *))
{
	const char *one = getenv("SPINDLE_SEED");
	const uint64_t first = one ? strtoull(one, NULL, 10) : 1;

	for (uint64_t seed = first; seed < first + (one ? 1 : net_seeds(few)); seed++) {
		struct net *n = net_random_net(seed);
		bool failed;

		rule(n);
		failed = n->failed;
		net_close_net(n);
		CU_ASSERT_FALSE(failed);
		if (failed)
			return;
	}
}

static void bad_planet(struct net *n)
{
	n->data_loss = (double)net_below(n, 40) / 100;
	n->control_loss = (double)net_below(n, 40) / 100;
	n->duplicate = (double)net_below(n, 30) / 100;
	n->jitter = net_below(n, 2) ? net_below(n, 4 * n->delay) : 0; /* also beyond the window */
	net_open(n);
	net_play(n);
	net_expect(n, !n->failures, "%llu messages failed", (unsigned long long)n->failures);
	net_expect(n, n->sender.counters.done == n->to_start, "done");
	net_expect(n, n->sender.counters.units + n->sender.counters.retransmitted == n->data_sent, "units sent");
}

TEST_CALL(every_message_comes_whole_over_a_network_that_loses_repeats_and_overtakes, over_seeds(250, bad_planet))

static void only_reordered(struct net *n)
{
	n->control_loss = (double)net_below(n, 50) / 100;
	n->duplicate = (double)net_below(n, 50) / 100;
	n->config.reorder = n->jitter = 1 + net_below(n, 2 * n->delay);
	n->config.rtt = 2 * n->delay + n->jitter;
	if (n->config.scheme == SP_REL_RTO) /* two round trips, and the shortest is without jitter */
		n->jitter = n->jitter < n->delay ? n->jitter : n->delay;
	net_open(n);
	net_play(n);
	net_expect(n, !n->sender.counters.retransmitted, "%llu units were sent again, and none was lost",
		   (unsigned long long)n->sender.counters.retransmitted);
}

TEST_CALL(nothing_is_sent_again_for_reordering_repeats_or_lost_acknowledgements, over_seeds(200, only_reordered))

static void lossy_in_order(struct net *n)
{
	n->data_loss = (double)net_below(n, 60) / 100;
	n->control_loss = (double)net_below(n, 30) / 100;
	n->idle = net_below(n, 2) ? net_below(n, n->delay) : 0;
	net_open(n);
	net_play(n);
	net_expect(n, n->sender.counters.retransmitted == n->data_lost, "%llu units lost, %llu sent again",
		   (unsigned long long)n->data_lost, (unsigned long long)n->sender.counters.retransmitted);
	/* With a poll lost, one that looks late knows more than it can be thought to. */
	net_expect(n, n->sender.counters.spurious <= (n->idle ? 2 + n->data_lost / 50 : 0),
		   "%llu units sent again needlessly", (unsigned long long)n->sender.counters.spurious);
}

TEST_CALL(each_loss_is_answered_by_one_retransmission_and_no_more, over_seeds(200, lossy_in_order))

/* Nothing is lost, but overtaken by far more than the window. */
static void late(struct net *n)
{
	const struct sp_rel_counters *c = &n->sender.counters;

	n->config.scheme = SP_REL_NACK;
	n->delay = 12500 * SP_US;
	n->config.rtt = 2 * n->delay;
	n->config.reorder = 10 * SP_US;
	n->config.rate = n->unit_bits * 10000; /* 250 in a round trip, */
	n->config.polls = 32;
	n->config.in_flight = 2048;
	n->config.messages = 64;
	n->to_start = 40; /* ... and several round trips of them */
	n->jitter = n->delay / 2;
	net_open(n);
	net_play(n);
	net_expect(n, c->spurious && 2 * c->spurious >= c->retransmitted && c->spurious <= c->retransmitted,
		   "%llu units sent again, all needlessly, and known of %llu", (unsigned long long)c->retransmitted,
		   (unsigned long long)c->spurious);
	net_expect(n, 50 * c->retransmitted <= c->units, "%llu of %llu units sent again: the window does not grow",
		   (unsigned long long)c->retransmitted, (unsigned long long)c->units);
}

TEST_CALL(needless_retransmissions_are_detected_and_widen_the_window, over_seeds(40, late))

static void nobody_there(struct net *n)
{
	const sp_time begin = n->now;

	n->dead = true;
	n->config.timeout = 10 * SP_SEC;
	n->to_start = 1 + net_below(n, n->config.messages);
	net_open(n);
	net_play(n);
	net_expect(n, n->failures == n->to_start, "%llu of %llu failed", (unsigned long long)n->failures,
		   (unsigned long long)n->to_start);
	net_expect(n, n->now == begin + n->config.timeout, "after %.6f s", (double)(n->now - begin) / (double)SP_SEC);
	net_expect(n, sp_rel_deadline(&n->sender) == SP_NEVER, "there is still something to do");
	net_expect(n, !n->sender.counters.retransmitted, "data was sent again to nobody");
	net_expect(n, n->sender.counters.polls_late < 40 + n->config.timeout / (16 * 2 * n->delay), "%llu polls",
		   (unsigned long long)n->sender.counters.polls);
}

TEST_CALL(a_message_to_nobody_fails_at_its_timeout_and_the_polls_back_off, over_seeds(50, nobody_there))

/* It answers all polls, and nothing has ever come. */
static void denied(struct net *n)
{
	const sp_time begin = n->now;
	uint64_t units = 0;

	n->denies = true;
	n->config.rtt = 2 * n->delay;
	n->config.timeout = 200 * n->delay + 20 * SP_MS;
	n->to_start = 1 + net_below(n, n->config.messages < 8 ? n->config.messages : 8);
	n->delay = n->delay < 50 * SP_US ? 50 * SP_US : n->delay;
	n->config.rate = n->config.rate ? n->config.rate : 1000000000;
	net_open(n);
	net_play(n);
	for (uint64_t k = 0; k < n->to_start; k++)
		units += n->units[k];
	net_expect(n, n->failures == n->to_start, "%llu failed", (unsigned long long)n->failures);
	net_expect(n, n->data_sent <= (n->now - begin) / (n->unit_bits * SP_SEC / n->config.rate) + 2,
		   "%llu units in %.6f s: faster than the rate", (unsigned long long)n->data_sent,
		   (double)(n->now - begin) / (double)SP_SEC);
	/* Each needs an answer to a poll after it: once a round trip. */
	net_expect(n, n->data_sent <= units * (2 + (n->now - begin) / (2 * n->delay)), "%llu units of %llu",
		   (unsigned long long)n->data_sent, (unsigned long long)units);
}

TEST_CALL(a_peer_that_denies_everything_gets_each_unit_once_a_round_trip_at_the_rate, over_seeds(50, denied))

static void refusing(struct net *n)
{
	const sp_time begin = n->now;

	n->refuses = true;
	n->config.rtt = 2 * n->delay;
	n->config.rate = 0;
	n->config.in_flight = 32768;
	n->to_start = 1 + net_below(n, n->config.messages < 8 ? n->config.messages : 8);
	for (uint64_t k = 0; k < n->to_start; k++)
		n->units[k] = 2 + (uint32_t)net_below(n, UNITS - 2);
	net_open(n);
	net_play(n);
	net_expect(n, n->refusals == n->to_start && !n->failures && n->sender.counters.refused == n->refusals,
		   "%llu of %llu refused", (unsigned long long)n->refusals, (unsigned long long)n->to_start);
	net_expect(n, n->now - begin <= (6 + 2 * n->to_start) * n->delay, "after %.2f round trips",
		   (double)(n->now - begin) / (2 * (double)n->delay));
	net_expect(n, !n->sender.counters.retransmitted && sp_rel_deadline(&n->sender) == SP_NEVER, "it goes on");
}

TEST_CALL(a_refused_message_is_over_as_soon_as_the_sender_hears_it, over_seeds(50, refusing))

/* What the sender gives up while nothing is on its way: the receiver hears of it, then all is silent. */
static void given_up(struct net *n)
{
	unsigned turns = 0;
	uint64_t number;

	n->control_loss = (double)net_below(n, 20) / 100;
	n->to_start = 1;
	net_open(n);
	net_play(n);
	net_expect(n, !sp_rel_start(&n->sender, 5, n->now, &number) && !sp_rel_release(&n->sender, number), "start");
	while ((n->events || sp_rel_deadline(&n->sender) != SP_NEVER) && !n->failed) {
		const sp_time next = sp_rel_deadline(&n->sender);

		n->now = n->events && n->heap[0]->at < next ? n->heap[0]->at : next > n->now ? next : n->now;
		while (n->events && n->heap[0]->at <= n->now) {
			struct event *e = net_pop(n);

			net_arrive(n, e);
			free(e);
		}
		net_step(n);
		net_expect(n, turns++ < 1000, "it does not become silent");
	}
	n->told += n->receiver.begin == number + 1;
	net_expect(n, n->control_loss > 0 || n->told, "the receiver does not know");
}

TEST_CALL(a_message_given_up_is_told_of_until_it_is_heard, over_seeds(60, given_up))

static void paced(struct net *n)
{
	const sp_time begin = n->now;
	uint64_t units = 0, time;

	n->config.rate = n->config.rate ? n->config.rate : 1000000000;
	n->config.in_flight = 32768;
	n->to_start = 1 + net_below(n, n->config.messages);
	for (uint64_t k = 0; k < n->to_start; k++)
		units += n->units[k];
	time = (uint64_t)((unsigned __int128)n->unit_bits * SP_SEC / n->config.rate);
	net_open(n);
	net_play(n);
	net_expect(n, n->last_left == begin + units * time, "%llu units of %llu ps left after %llu",
		   (unsigned long long)units, (unsigned long long)time, (unsigned long long)(n->last_left - begin));
}

TEST_CALL(units_leave_exactly_at_the_rate, over_seeds(40, paced))

static void tail(struct net *n)
{
	const sp_time begin = n->now, rtt = 2 * n->delay;

	n->config.scheme = SP_REL_NACK;
	n->config.rtt = rtt;
	n->config.rate = 0;
	n->config.in_flight = 4096;
	n->to_start = 1;
	n->dead = true; /* the units are lost, the first poll too or not */
	net_open(n);
	net_step(n);
	n->dead = false;
	net_play(n);
	net_expect(n, n->now - begin <= 3 * rtt, "the tail took %.2f round trips",
		   (double)(n->now - begin) / (double)rtt);
}

TEST_CALL(a_lost_tail_costs_less_than_a_full_timeout, over_seeds(100, tail))

/* Of three polls that show all, or of the answers to them, two are lost, and so is the word that all has come; all of
 * the units have come, or none. */
static void unheard(struct net *n)
{
	const sp_time begin = n->now, rtt = 2 * n->delay;
	const bool again = net_below(n, 2);
	const unsigned lost = 7 ^ 1u << net_below(n, 3);

	n->config.scheme = SP_REL_NACK;
	n->config.rtt = rtt;
	n->config.reorder = rtt / 8;
	n->config.rate = 0;
	n->config.polls = 32;
	n->config.in_flight = 4096;
	n->to_start = 1;
	n->untold = true;
	n->proof = begin + n->config.reorder;
	n->polls_lost = lost & (unsigned)net_below(n, 8);
	n->answers_lost = lost & ~n->polls_lost;
	n->ack_room = DATAGRAM;
	n->data_loss = again;
	net_open(n);
	net_step(n);
	n->data_loss = 0;
	net_play(n);
	sp_time most = (again ? 2 : 1) * (rtt + n->config.reorder) + 2 * (rtt / n->config.polls + 1) + SP_NS;
	net_expect(n, n->now - begin <= most, "it took %.3f round trips", (double)(n->now - begin) / (double)rtt);
	net_expect(n, !n->sender.counters.polls_late && n->sender.counters.spurious == 0, "%llu polls were late",
		   (unsigned long long)n->sender.counters.polls_late);
}

TEST_CALL(lost_polls_and_answers_at_the_end_cost_no_round_trip, over_seeds(100, unheard))

static void held(struct net *n)
{
	const sp_time rtt = 2 * n->delay;

	n->config.rtt = rtt;
	n->config.rate = 0;
	n->config.in_flight = 4096;
	n->to_start = 1;
	n->dead = true; /* all units are lost */
	net_open(n);
	net_step(n);
	n->dead = false;
	sp_rel_hold(&n->sender, 0, SP_NEVER);
	net_run_to(n, n->now + (1 + net_below(n, 30)) * rtt);
	net_expect(n, !n->sender.counters.retransmitted && n->started && !n->finished,
		   "units went again before the parity");
	sp_time parity = n->now;
	sp_rel_hold(&n->sender, 0, parity);
	net_play(n);
	net_expect(n, n->sender.counters.retransmitted == n->units[0], "%llu of %u units went again",
		   (unsigned long long)n->sender.counters.retransmitted, n->units[0]);
	net_expect(n, n->now - parity >= 2 * rtt && n->now - parity <= 6 * rtt, "%.2f round trips after the parity",
		   (double)(n->now - parity) / (double)rtt);
}

TEST_CALL(nothing_is_lost_before_what_may_make_up_for_it_has_left, over_seeds(100, held))

static void absent(struct net *n)
{
	const sp_time rtt = 2 * n->delay, begin = n->now;

	n->config.rtt = rtt;
	n->config.rate = 0;
	n->config.in_flight = 4096;
	n->to_start = 2;
	n->away = n->now + (20 + net_below(n, 200)) * rtt;
	net_open(n);
	net_play(n);
	net_expect(n, n->now >= n->away && n->now - n->away < 2 * rtt, "done %.1f round trips after it came back",
		   ((double)n->now - (double)n->away) / (double)rtt);
	net_expect(n, !n->sender.counters.retransmitted, "%llu units went again",
		   (unsigned long long)n->sender.counters.retransmitted);
	/* The next messages tell what the estimate is now. */
	n->to_start = 6;
	net_play(n);
	net_expect(n, n->sender.rtt.smoothed < 2 * rtt, "after %.1f round trips it believes in one of %.1f",
		   (double)(n->now - begin) / (double)rtt, (double)n->sender.rtt.smoothed / (double)rtt);
}

TEST_CALL(a_peer_that_was_away_does_not_spoil_the_estimate_of_the_round_trip, over_seeds(50, absent))

static void far_away(struct net *n)
{
	n->config.rtt = 2 * n->delay / (2 + net_below(n, 1000)) + 1;
	n->config.in_flight = 4096;
	n->config.polls = 0;
	n->config.rate = 0;
	net_open(n);
	for (n->to_start = 1; n->to_start <= 8; n->to_start++) /* one after the other */
		net_play(n);
	n->to_start = n->finished;
	net_expect(n, n->sender.rtt.smoothed > n->delay, "it believes in a round trip of %.3f us",
		   (double)n->sender.rtt.smoothed / (double)SP_US);
	net_expect(n, n->sender.counters.polls < 2000, "%llu polls", (unsigned long long)n->sender.counters.polls);
}

TEST_CALL(a_round_trip_longer_than_believed_is_found_out, over_seeds(50, far_away))

/* Everything that the receiver says is changed here and there: nothing of it may do harm. */
static void forged(struct net *n)
{
	n->data_loss = 0.2;
	n->to_start = 1 + net_below(n, 8);
	n->forged = true;
	net_open(n);
	for (int turn = 0; turn < 300 && !n->failed; turn++) {
		uint8_t bytes[256];
		struct sp_rel_ack_maker m;
		struct sp_rel_asked asked = {.poll = net_below(n, n->sender.polls + 3),
					     .from_message = net_below(n, 12)};
		const uint64_t bitmap[8] = {sp_random_next(&n->random), sp_random_next(&n->random)};

		net_step(n);
		n->now += n->delay;
		while (n->events)
			free(net_pop(n));
		sp_rel_ack_begin(&m, bytes, sizeof(bytes), net_below(n, 3) ? &asked : NULL, net_below(n, 10));
		for (uint64_t k = net_below(n, 10); k < 10; k += 1 + net_below(n, 3))
			sp_rel_ack_add(&m, k, net_below(n, 4) ? bitmap : NULL, 1 + (uint32_t)net_below(n, 128));
		size_t len = sp_rel_ack_end(&m);
		for (uint64_t i = net_below(n, 4); i--;)
			bytes[net_below(n, len)] = (uint8_t)sp_random_next(&n->random);
		sp_rel_ack(&n->sender, bytes, net_below(n, 8) ? len : net_below(n, len + 1), n->now);
		for (uint64_t k = n->sender.begin; k < n->sender.end; k++) {
			const struct sp_rel_message *message = &n->sender.message[k & (n->config.messages - 1)];
			uint32_t bits = 0;

			for (uint32_t u = 0; u < message->units; u++)
				bits += message->have[u / 64] >> (u % 64) & 1;
			net_expect(n,
				   message->state == SP_REL_FREE || (bits == message->acked && bits <= message->next),
				   "%u acknowledged, %u sent", bits, message->next);
		}
		n->finished = 0;
		for (uint64_t k = 0; k < n->to_start; k++) /* what is "done" by a forged word has not come */
			n->came[k] = n->units[k];
	}
}

TEST_CALL(acknowledgements_of_units_never_sent_change_nothing, over_seeds(200, forged))

TEST(an_answer_in_several_datagrams_proves_all_that_it_speaks_of)
{
	const struct sp_rel_config config = {.scheme = SP_REL_NACK,
					     .rtt = SP_MS,
					     .reorder = 1,
					     .messages = 1,
					     .units = UNITS,
					     .in_flight = 2 * UNITS};
	void *memory = calloc(1, sp_rel_sender_bytes(&config));
	uint64_t bitmap[UNITS / 64], polls = UINT64_MAX, number;
	struct sp_rel_receiver receiver = {.poll = 0};
	unsigned again[3] = {0}, count = 0, parts = 0;
	struct sp_rel_ack_maker m = {.cut = true};
	struct sp_rel_sender s;
	struct sp_rel_next next = {.what = SP_REL_NOTHING};
	struct sp_rel_asked asked;
	sp_time now = SP_MS;

	CU_ASSERT_EQUAL(sp_rel_sender_init(&s, &config, memory), 0);
	CU_ASSERT_EQUAL(sp_rel_start(&s, UNITS, now, &number), 0);
	/* All units, and a poll after them. */
	while (polls == UINT64_MAX || s.polls == polls) {
		sp_rel_next(&s, now, &next);
		sp_rel_sent(&s, &next, 0, now);
		if (next.what == SP_REL_NOTHING)
			now = now < sp_rel_deadline(&s) ? sp_rel_deadline(&s) : now + SP_US;
		if (polls == UINT64_MAX && s.counters.units == UNITS) {
			polls = s.polls;
			now += SP_US;
		}
	}
	CU_ASSERT_EQUAL(sp_rel_poll_take(&receiver, &next.poll, sizeof(next.poll), &asked), 0);
	memset(bitmap, 0xFF, sizeof(bitmap));
	bitmap[0] &= ~8ull;
	bitmap[500 / 64] &= ~(1ull << 500 % 64);
	for (now += SP_MS; m.cut; parts++) {
		uint8_t bytes[SP_REL_ACK_LEAST];

		sp_rel_ack_begin(&m, bytes, sizeof(bytes), &asked, 0);
		sp_rel_ack_add(&m, number, bitmap, UNITS);
		CU_ASSERT_EQUAL(sp_rel_ack(&s, bytes, sp_rel_ack_end(&m), now), 0);
		asked.from_message = m.to_message;
		asked.from_unit = m.to_unit;
	}
	CU_ASSERT(parts > 2);
	for (sp_rel_next(&s, now, &next); next.what != SP_REL_NOTHING && count < 3; sp_rel_next(&s, now, &next)) {
		if (next.what == SP_REL_UNIT_AGAIN)
			again[count++] = next.unit;
		sp_rel_sent(&s, &next, 0, now);
	}
	CU_ASSERT(count == 2 && again[0] == 3 && again[1] == 500);
	free(memory);
}

TEST(configurations_that_cannot_be_are_refused)
{
	const struct sp_rel_config good = {.messages = 4, .units = 10, .in_flight = 16};
	struct sp_rel_sender s;
	struct sp_rel_config c;
	uint64_t number;

	CU_ASSERT(sp_rel_sender_bytes(&good) > 0);
#define REFUSED(field, value)                                                                                          \
	c = good;                                                                                                      \
	c.field = value;                                                                                               \
	CU_ASSERT_EQUAL(sp_rel_sender_bytes(&c), 0);                                                                   \
	CU_ASSERT_EQUAL(sp_rel_sender_init(&s, &c, NULL), -EINVAL)
	REFUSED(messages, 0);
	REFUSED(messages, 3);
	REFUSED(messages, 1u << 21);
	REFUSED(units, 0);
	REFUSED(units, UINT32_MAX);
	REFUSED(in_flight, 0);
	REFUSED(in_flight, 24);
	REFUSED(polls, 129);
	REFUSED(scheme, (enum sp_rel_scheme)7);

	void *memory = calloc(1, sp_rel_sender_bytes(&good));
	CU_ASSERT_EQUAL(sp_rel_sender_init(&s, &good, memory), 0);
	CU_ASSERT_EQUAL(sp_rel_start(&s, 0, 0, &number), -EINVAL);
	CU_ASSERT_EQUAL(sp_rel_start(&s, 11, 0, &number), -EINVAL);
	for (int i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(sp_rel_start(&s, 10, 0, &number), 0);
	CU_ASSERT_EQUAL(sp_rel_start(&s, 10, 0, &number), -EAGAIN);
	CU_ASSERT_EQUAL(sp_rel_release(&s, 4), -ENOENT);
	CU_ASSERT_EQUAL(sp_rel_release(&s, 2), 0);
	CU_ASSERT_EQUAL(sp_rel_release(&s, 2), -ENOENT);
	CU_ASSERT_EQUAL(sp_rel_start(&s, 10, 0, &number), -EAGAIN);
	CU_ASSERT_EQUAL(sp_rel_release(&s, 0), 0);
	CU_ASSERT_EQUAL(sp_rel_start(&s, 10, 0, &number), 0);
	CU_ASSERT_EQUAL(number, 4);
	free(memory);
}

/* By word of another kind (RVMA's NACK): it is as if an answer had said so. Nothing of it goes again, nobody is told of
 * it when it is released, and what lies beside it goes on. */
TEST(what_the_owner_has_heard_to_be_refused_is_refused)
{
	const struct sp_rel_config config = {.messages = 4, .units = 3, .in_flight = 16};
	void *memory = calloc(1, sp_rel_sender_bytes(&config));
	struct sp_rel_next next;
	struct sp_rel_sender s;
	uint64_t number;
	unsigned units = 0;

	CU_ASSERT_EQUAL(sp_rel_sender_init(&s, &config, memory), 0);
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(sp_rel_start(&s, 3, 0, &number), 0);
	CU_ASSERT_EQUAL(sp_rel_refuse(&s, 2, 9), -ENOENT);
	sp_rel_next(&s, 0, &next);
	CU_ASSERT(next.what == SP_REL_UNIT && next.message == 0);
	sp_rel_sent(&s, &next, 0, 0);
	CU_ASSERT_EQUAL(sp_rel_refuse(&s, 0, 9), 0);
	CU_ASSERT_EQUAL(sp_rel_refuse(&s, 0, 8), 0); /* the first word counts */
	CU_ASSERT_EQUAL(sp_rel_state(&s, 0), SP_REL_REFUSED);
	CU_ASSERT_EQUAL(sp_rel_reason(&s, 0), 9);
	CU_ASSERT_EQUAL(s.counters.refused, 1);
	for (sp_rel_next(&s, 1, &next); next.what != SP_REL_NOTHING && units < 9; sp_rel_next(&s, 1, &next)) {
		units += next.what == SP_REL_UNIT;
		CU_ASSERT(next.what == SP_REL_ASK || next.message == 1);
		sp_rel_sent(&s, &next, 0, 1);
	}
	CU_ASSERT_EQUAL(units, 3);
	CU_ASSERT_EQUAL(sp_rel_refuse(&s, 1, 7), 0);
	CU_ASSERT_EQUAL(sp_rel_release(&s, 0), 0);
	CU_ASSERT_EQUAL(sp_rel_release(&s, 1), 0);
	sp_rel_next(&s, 2, &next);
	CU_ASSERT_EQUAL(next.what, SP_REL_NOTHING);
	CU_ASSERT_EQUAL(sp_rel_deadline(&s), SP_NEVER);
	CU_ASSERT_EQUAL(sp_rel_refuse(&s, 0, 9), -ENOENT);
	free(memory);
}
