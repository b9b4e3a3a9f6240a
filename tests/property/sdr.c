/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SDR as a whole, from host program to host program over a bad network: the rules, each under many seeds.
 * Every run checks every packet on the wire, every clear-to-send, every bitmap and every byte (sdr_pair.h); what
 * differs from rule to rule is what is made to happen. SPINDLE_LONG=1 runs 20 times the seeds, SPINDLE_SEED=N only seed
 * N.
 */
#include "../../pipeline/observe/trace.h"
#include "../lib/sdr_feed.h"

static void run(struct pair *r)
{
	pair_open(r);
	if (pair_chance(r, 0.4)) /* the contexts that matter get another home worker */
		pair_conn_open(r, 0, 0, 0);
	pair_conn_open(r, r->p.fixed_qpn ? 0x20000 : 0, r->p.messages, r->p.both ? r->p.messages : 0);
	pair_run(r);
	pair_close(r);
}

#define RULE(rule, count) TEST_SEEDS(rule, pair_seeds, count, struct pair *r)

/* ---- 1: what arrived ---- */
RULE(bitmaps_and_bytes_say_exactly_what_arrived_over_a_bad_network, 500)
{
	pair_random_params(r);
	pair_bad_network(r, true);
	r->p.early = 0.15;
	run(r);
}

RULE(damaged_packets_change_nothing_and_every_packet_ends_in_one_place, 100)
{
	pair_random_params(r);
	pair_bad_network(r, pair_chance(r, 0.5));
	r->p.junk = 0.5;
	run(r);
}

/* ---- 2: matching ---- */
static void lossless(struct pair *r)
{
	pair_random_params(r);
	pair_bad_network(r, false);
	r->p.lossless = true;
	r->p.messages = (uint64_t)r->p.slots * r->p.generations * (4 + pair_below(r, 8)) + pair_below(r, 5);
	if (r->p.messages > 400)
		r->p.messages = 400;
	r->p.resolve = !r->p.link[0].reorder && !r->p.link[1].reorder && pair_chance(r, 0.5);
	run(r);
}

TEST_CALL(the_kth_send_lands_in_the_kth_receive_and_all_completes_without_loss, pair_seeds(__func__, 100, lossless))

RULE(no_message_leaves_before_its_clear_to_send, 150)
{
	pair_random_params(r);
	pair_bad_network(r, true);
	r->p.slow = 0.9;
	r->p.early = 0.3;
	run(r);
}

RULE(a_lost_clear_to_send_is_repeated_until_a_packet_comes, 150)
{
	pair_random_params(r);
	pair_bad_network(r, false);
	r->p.lossless = true;
	r->p.cts_loss = 0.9;
	r->p.mismatched = 0;
	if (r->p.messages > 30)
		r->p.messages = 30;
	r->p.tick = 4 * r->p.cts_interval; /* there is much waiting */
	run(r);
}

RULE(receives_are_completed_early_at_any_moment, 125)
{
	pair_random_params(r);
	pair_bad_network(r, true);
	r->p.early = 0.8;
	run(r);
}

/* The receiver takes back what has not been sent yet, lap after lap, and posts on without regard to the sender. */
RULE(a_receiver_may_run_ahead_of_the_sender_by_laps, 100)
{
	pair_random_params(r);
	pair_bad_network(r, true);
	if (r->p.slots > 3)
		r->p.slots = 1 + (uint32_t)pair_below(r, 3);
	r->p.generations = 2 + (uint32_t)pair_below(r, 2);
	r->p.messages = (uint64_t)r->p.slots * r->p.generations * 6;
	for (unsigned e = 0; e < 2; e++)
		r->p.link[e].reorder = 0.3;
	r->p.trusting = true;
	r->p.early = 0.9;
	r->p.slow = pair_chance(r, 0.5) ? 0.9 : 0.2;
	run(r);
}

/* ---- 3, 4: late packets ---- */
static void late(struct pair *r)
{
	pair_random_params(r);
	pair_bad_network(r, pair_chance(r, 0.5));
	r->p.inject = 0.6;
	r->p.early = 0.2;
	r->p.both = pair_chance(r, 0.3);
	run(r);
}

/* Of somebody on the link who records, repeats and forges what he can read there. */
RULE(a_stranger_on_the_link_stops_nothing, 40)
{
	pair_random_params(r);
	r->p.lossless = r->p.hostile = true;
	r->p.mismatched = 0;
	r->p.inject = 0.6;
	run(r);
	PAIR_CHECK(r, r->failed || r->forged, "nothing was forged");
}

TEST_CALL(packets_recorded_of_any_message_before_change_nothing, pair_seeds(__func__, 200, late))

RULE(nothing_is_written_after_sdr_recv_complete_has_said_0, 100)
{
	pair_random_params(r);
	pair_bad_network(r, true);
	for (int e = 0; e < 2; e++)
		r->p.link[e].duplicate = 0.7;
	r->p.early = 1;
	r->p.inject = 0.8;
	run(r);
}

/* ---- 5: streams, both ways, several QPs, ends in the middle ---- */
static void streams(struct pair *r)
{
	pair_random_params(r);
	pair_bad_network(r, pair_chance(r, 0.5));
	r->p.stream = 1;
	r->p.segments = (uint32_t)pair_log(r, 8);
	r->p.both = true;
	r->p.early = pair_chance(r, 0.5) ? 0.3 : 0;
	run(r);
}

TEST_CALL(streams_go_in_any_order_with_repeats_in_both_directions_at_once, pair_seeds(__func__, 100, streams))

struct closing {
	sp_time at, second_at, again_at;
	unsigned state, first;
	struct conn *victim;
	uint32_t qpn[2];
	unsigned rounds;
};

/* Connections that end in the middle, at one end first, and start anew on the same QP numbers while what the old one
 * had sent is still under way. */
static void closing_act(struct pair *r, sp_time now)
{
	struct closing *x = r->mark;

	switch (x->state) {
	case 0:
		if (now < x->at)
			return;
		x->first = (unsigned)pair_below(r, 2);
		if (pair_chance(r, 0.3) && x->victim->connected[x->first]) {
			int rc = sdr_qp_disconnect(x->victim->qp[x->first]);

			PAIR_CHECK(r, rc == 0, "sdr_qp_disconnect says %d", rc);
			rc = sdr_mr_dereg(x->victim->flow[x->first].scratch_mr);
			PAIR_CHECK(r, rc == 0, "sdr_mr_dereg of send buffers after sdr_qp_disconnect says %d", rc);
			x->victim->flow[x->first].scratch_mr = NULL;
		}
		for (unsigned e = 0; e < 2; e++)
			x->qpn[e] = x->victim->info[e].qpn;
		pair_conn_close(r, x->victim, x->first);
		x->second_at = now + pair_below(r, 2 * r->p.network);
		x->state = 1;
		break;
	case 1:
		if (now < x->second_at)
			return;
		pair_conn_free(r, x->victim);
		x->again_at = now + (pair_chance(r, 0.5) ? 0 : pair_below(r, r->p.network));
		x->state = 2;
		break;
	case 2:
		if (now < x->again_at)
			return;
		x->victim = pair_conn_open(r, x->qpn[0], r->p.messages, r->p.messages);
		PAIR_CHECK(r, x->victim->info[0].qpn == x->qpn[0] && x->victim->info[1].qpn == x->qpn[1],
			   "other QP numbers than asked for");
		x->at = now + pair_below(r, 20 * r->p.network);
		x->state = --x->rounds ? 0 : 3;
		break;
	default:
		r->act = NULL; /* the last one lives */
	}
}

static void closing(struct pair *r)
{
	struct closing x = {.rounds = 2};

	pair_random_params(r);
	pair_bad_network(r, true);
	r->p.early = 0.2;
	if (r->p.messages > 40)
		r->p.messages = 40;
	r->p.budget = 200;
	pair_open(r);
	pair_conn_open(r, 0x30000, r->p.messages, r->p.messages);
	x.victim = pair_conn_open(r, 0x20000, r->p.messages, r->p.messages);
	pair_conn_open(r, 0, r->p.messages, r->p.messages);
	x.at = pair_below(r, 20 * r->p.network);
	r->mark = &x;
	r->act = closing_act;
	pair_run(r);
	pair_close(r);
}

TEST_CALL(a_QP_that_ends_in_the_middle_frees_its_memory_and_disturbs_no_other, pair_seeds(__func__, 100, closing))

/* ---- 6: virtual time ---- */
static void told_wrong(void *arg, const struct sp_traced_call *call, const char *what)
{
	pair_fail(arg, "%s, %s: %s", call ? call->context : "", call ? sp_called_name(call->function) : "", what);
}

/* report: of both NICs, which the caller frees; or NULL. */
static uint64_t hash_of(struct pair *r, uint64_t seed, uint64_t *frames, bool watched, char *report[2])
{
	uint64_t hash;

	pair_init(r, seed);
	pair_random_params(r);
	pair_bad_network(r, true);
	r->p.early = 0.3;
	r->p.inject = 0.2;
	r->p.both = true;
	pair_open(r);
	for (unsigned e = 0; e < 2 && watched; e++)
		if (sp_nic_trace(r->nic[e], &(struct sp_tracer){.arg = r, .wrong = told_wrong}))
			abort();
	pair_conn_open(r, 0, r->p.messages, r->p.messages);
	pair_run(r);
	for (unsigned e = 0; e < 2 && report; e++)
		sp_nic_report_text(r->nic[e], true, NULL, &report[e]);
	hash = r->tap[0].hash ^ r->tap[1].hash * 3;
	*frames = r->tap[0].in + r->tap[0].out;
	pair_close(r);
	return hash;
}

RULE(the_same_seed_gives_the_same_frames_at_the_same_times, 100)
{
	static struct pair again;
	uint64_t frames[3], first = hash_of(r, r->seed, &frames[0], false, NULL), other;

	other = hash_of(&again, r->seed, &frames[1], false, NULL);
	PAIR_CHECK(r, first == other && frames[0] == frames[1], "%llu and %llu frames: two runs differ", U(frames[0]),
		   U(frames[1]));
	other = hash_of(&again, r->seed + 1000003, &frames[2], false, NULL);
	PAIR_CHECK(r, first != other, "the seed makes no difference");
	if (again.failed && !r->failed)
		*r = again;
}

static void watched(struct pair *r)
{
	static struct pair again;
	char *report[2][2] = {{NULL}};
	uint64_t frames[2], first = hash_of(r, r->seed, &frames[0], false, report[0]), other;

	other = hash_of(&again, r->seed, &frames[1], true, report[1]);
	PAIR_CHECK(r, first == other && frames[0] == frames[1], "%llu frames, watched %llu: they differ", U(frames[0]),
		   U(frames[1]));
	for (unsigned e = 0; e < 2; e++) {
		PAIR_CHECK(r, report[0][e] && report[1][e] && !strcmp(report[0][e], report[1][e]),
			   "the reports of NIC %u differ", e);
		free(report[0][e]);
		free(report[1][e]);
	}
	if (again.failed && !r->failed)
		*r = again;
}

TEST_CALL(watching_handlers_changes_no_frame_and_no_report_and_finds_nothing_wrong, pair_seeds(__func__, 60, watched))

struct pace {
	uint64_t bits, last;
	sp_time first_at, last_at;
	uint64_t packets;
};

/* Counts at the receiver: the link has no limit and loses nothing, so that what comes is what was sent. */
static bool pace_count(struct pair *r, unsigned end, const struct wire_packet *w, sp_time now)
{
	struct pace *x = r->mark;

	if (end != 1 || w->opcode != WIRE_WRITE_ONLY_IMM)
		return false;
	if (!x->packets++)
		x->first_at = now;
	x->last_at = now;
	/* headers of Ethernet, IP, UDP, BTH, and ICRC; preamble and delimiter 8, FCS 4, gap 12 */
	x->last = (14 + (w->ipv6 ? 40u : 20u) + 8 + 12 + w->len + w->pad + 4 + 8 + 4 + 12) * 8ull;
	x->bits += x->last;
	return false;
}

RULE(the_rate_on_the_wire_is_the_rate_asked_for, 60)
{
	struct pace x = {0};
	double rate;

	pair_random_params(r);
	r->p.split = pair_splits[0];
	r->p.mtu = r->p.mtu < 4096 ? r->p.mtu : 1024;
	r->p.max_bytes = r->p.mtu * 40;
	r->p.slots = 16;
	r->p.messages = 16;
	r->p.segments = 64;
	r->p.budget = 100000;
	r->p.slow = 0;
	r->p.chunk = r->p.mtu * 8;
	r->p.link[0].bandwidth = 0;
	r->p.rate = 1000000 + pair_below(r, pair_chance(r, 0.5) ? 1000000000 : 50000000000);
	r->p.life = r->p.cts_interval = SP_SEC;
	r->p.network = 2 * SP_SEC;
	r->mark = &x;
	r->lose = pace_count;
	pair_open(r);
	r->tick = SP_MS;
	pair_conn_open(r, 0, r->p.messages, 0);
	for (unsigned e = 0; e < 2; e++)
		r->conn[0]->connect_at[e] = 0;
	for (uint64_t k = 0; k < 16; k++)
		r->conn[0]->flow[0].in[k].posted = r->conn[0]->flow[0].out[k].length = r->p.max_bytes - k % r->p.mtu;
	pair_run(r);
	rate = (double)(x.bits - x.last) * 1e12 / (double)(x.last_at - x.first_at);
	PAIR_CHECK(r, x.packets >= 16 * 39, "%llu packets", U(x.packets));
	PAIR_CHECK(r, rate / (double)r->p.rate < 1.002 && rate / (double)r->p.rate > 0.998,
		   "%.0f bit/s, should be %llu", rate, U(r->p.rate));
	pair_close(r);
}

/* ---- 7: workers ---- */
static void workers(struct pair *r)
{
	struct feed *alone = malloc(sizeof(*alone)), *two = malloc(sizeof(*two));

	if (!alone || !two)
		abort();
	pair_random_params(r);
	if (r->p.max_bytes > 16384)
		r->p.max_bytes = 16384;
	feed_run(alone, r, 1, 0);
	for (uint64_t spread = 2; spread < 4; spread++) {
		feed_run(two, r, 2, spread);
		PAIR_CHECK(r, alone->entries == two->entries && alone->entries < FEED_LOG, "%llu and %llu observations",
			   U(alone->entries), U(two->entries));
		for (uint64_t i = 0; i < alone->entries && !r->failed; i++)
			PAIR_CHECK(r, alone->log[i] == two->log[i],
				   "observation %llu of %llu: %llx with one worker, %llx with two", U(i),
				   U(alone->entries), U(alone->log[i]), U(two->log[i]));
		free(two->log);
	}
	pair_sum.delivered += alone->frames;
	free(alone->log);
	free(alone);
	free(two);
}

TEST_CALL(one_worker_and_two_say_the_same_of_the_same_frames, pair_seeds(__func__, 100, workers))
