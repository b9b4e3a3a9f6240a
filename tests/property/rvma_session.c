/* SPDX-License-Identifier: BSD-3-Clause */
/* RVMA's sessions: what is put is delivered exactly once, whatever the network and the peer do. */
#include "../lib/rvma_records.h"

#define RULE(rule, count) TEST_SEEDS(rule, rec_over_seeds, count, struct rec *y)

#define LONG (1000 * SP_SEC)

RULE(every_put_is_delivered_exactly_once_over_a_bad_link, 40)
{
	const uint64_t limit = 40 + rec_below(y, 200);

	rec_open(y);
	for (unsigned e = 0; e < 2; e++) {
		struct rec_flow *f = rec_flow(y, e, !e, limit / (1 + rec_below(y, 3)), REC_HEAD,
					      rec_below(y, 2) ? REC_HEAD + 100 : 16000);

		f->most = rec_below(y, 2) ? 0 : 1 + rec_below(y, 64);
		f->fence = !rec_below(y, 8);
	}
	rec_run(y, LONG);
	for (unsigned e = 0; e < 2; e++)
		rec_read(y, e);
	for (unsigned e = 0; e < 2; e++)
		rec_all_delivered(y, &y->flow[e]);
}

/* 4,000 puts at once need no more than the way there and back, HELLO's before it, and the wire's time. */
RULE(thousands_of_puts_are_on_their_way_at_once, 2)
{
	const sp_time delay = 5 * SP_MS;

	y->ops = 4096;
	for (unsigned e = 0; e < 2; e++) {
		y->window[e] = 4096;
		y->mtu[e] = 256; /* a packet each: 4,096 of these may be on their way */
		y->link[e] = (struct sp_link_direction){.bandwidth = 100000000000, .delay = delay, .queue = 256};
	}
	rec_open(y);
	struct rec_flow *f = rec_flow(y, 0, 1, 4000, 64, 200);
	rec_run(y, LONG);
	rec_read(y, 1);
	rec_all_delivered(y, f);
	rec_expect(y, f->over < 5 * delay, "after %.6f s", (double)f->over / 1e12);
	rec_expect(y, rec_counter(y, 0, "retransmits") == 0, "%llu went again", U(rec_counter(y, 0, "retransmits")));
}

/* ---- sessions begin ---- */
static bool lose_beginnings(struct rec *y, unsigned from, uint8_t opcode)
{
	return (opcode == SP_RVMA_HELLO || opcode == SP_RVMA_WELCOME) && rec_below(y, 4);
}

RULE(a_session_begins_once_though_its_packets_are_lost_repeated_and_meet, 40)
{
	y->lose = lose_beginnings;
	for (unsigned e = 0; e < 2; e++)
		y->link[e].duplicate = 0.5;
	rec_open(y);
	rec_flow(y, 0, 1, 20, REC_HEAD, 3000);
	if (rec_below(y, 2)) /* both at once */
		rec_flow(y, 1, 0, 20, REC_HEAD, 3000);
	rec_run(y, LONG);
	for (unsigned e = 0; e < 2; e++)
		rec_read(y, e);
	for (unsigned i = 0; i < y->flows; i++)
		rec_all_delivered(y, &y->flow[i]);
	for (unsigned e = 0; e < 2; e++)
		rec_expect(y, rec_counter(y, e, "sessions") == 1, "%llu sessions", U(rec_counter(y, e, "sessions")));
}

/* One to itself, and two on the same NIC, with no link between them. */
RULE(puts_to_oneself_and_on_the_same_nic_are_delivered, 10)
{
	y->ends = 3;
	y->cut[0] = y->cut[1] = true;
	rec_open(y);
	rec_flow(y, 0, 0, 30, REC_HEAD, 9000);
	rec_flow(y, 0, 2, 30, REC_HEAD, 9000);
	rec_flow(y, 2, 0, 30, REC_HEAD, 9000);
	rec_run(y, LONG);
	rec_read(y, 0);
	rec_read(y, 2);
	for (unsigned i = 0; i < y->flows; i++)
		rec_all_delivered(y, &y->flow[i]);
}

/* ---- sessions end ---- */
/* Of the puts to a peer that went away some have come, none twice, and those that are said to be delivered have. */
static void expect_gone(struct rec *y, const struct rec_flow *f)
{
	rec_expect(y, f->ended == f->puts && f->by[SP_RVMA_DELIVERED] + f->by[SP_RVMA_PEER_GONE] == f->puts,
		   "%llu of %llu puts have ended, %llu delivered, %llu gone", U(f->ended), U(f->puts),
		   U(f->by[SP_RVMA_DELIVERED]), U(f->by[SP_RVMA_PEER_GONE]));
	for (uint64_t k = 0; k < f->posted; k++)
		rec_expect(y, f->came[k] || f->status[k] != SP_RVMA_DELIVERED + 1, "put %llu was delivered to nobody",
			   U(k));
}

static struct rec_flow *doomed(struct rec *y)
{
	const uint32_t bytes = 64 + (uint32_t)rec_below(y, 16000);

	return rec_flow(y, 0, 1, 64, bytes, bytes);
}

/* The peer ends without a word. Then it is there again, and knows nothing of before. */
RULE(after_a_restart_only_new_puts_go_to_the_new_peer, 40)
{
	const bool speaks = rec_below(y, 2);

	y->timeout = 2 * SP_SEC;
	rec_open(y);
	struct rec_flow *f = doomed(y);
	rec_run(y, rec_below(y, 20 * y->link[0].delay));
	rec_read_torn(y, f);
	y->cut[0] = y->cut[1] = true;
	rec_end_close(y, 1);
	rec_wait(y, 10 * y->link[0].delay + SP_MS);
	y->cut[0] = y->cut[1] = false;
	rec_end_open(y, 1);
	struct rec_flow *h = speaks ? rec_flow(y, 1, 0, 10, REC_HEAD, 100) : NULL;
	for (unsigned i = 0; i < 20000 && f->ended < f->puts && !f->by[SP_RVMA_PEER_GONE]; i++)
		rec_run(y, SP_MS);
	/* What it puts itself shows that it is another one; otherwise that it does not answer. */
	if (f->by[SP_RVMA_PEER_GONE])
		rec_expect(y, speaks || sp_world_now(y->world) >= y->timeout, "gone before its time");
	else if (f->by[SP_RVMA_DELIVERED] == f->puts) { /* nothing was under way: the first one to come is told */
		rec_flow(y, 0, 1, 1, REC_HEAD, REC_HEAD);
		rec_run(y, LONG);
	}
	struct rec_flow *g = rec_flow(y, 0, 1, 40, REC_HEAD, 3000);
	rec_run(y, LONG);
	for (unsigned e = 0; e < 2; e++)
		rec_read(y, e);
	rec_all_delivered(y, g);
	if (h)
		rec_all_delivered(y, h);
	expect_gone(y, f);
}

RULE(a_peer_that_says_goodbye_is_gone_at_once, 30)
{
	for (unsigned e = 0; e < 2; e++)
		y->link[e] = (struct sp_link_direction){.bandwidth = 1000000000, .delay = 50 * SP_US};
	rec_open(y);
	struct rec_flow *f = doomed(y);
	rec_run(y, rec_below(y, 500 * SP_US) + 300 * SP_US); /* two round trips: it is open */
	rec_read_torn(y, f);
	rec_end_close(y, 1);
	rec_run(y, 400 * SP_US); /* a frame may keep the wire busy */
	rec_expect(y, f->by[SP_RVMA_PEER_GONE] > 0 || f->by[SP_RVMA_DELIVERED] == f->puts, "BYE was not heard");
	rec_run(y, LONG);
	expect_gone(y, f);
}

RULE(a_peer_that_is_silent_is_gone_after_the_time_out, 30)
{
	y->timeout = 500 * SP_MS;
	rec_open(y);
	struct rec_flow *f = doomed(y);
	rec_run(y, rec_below(y, 20 * y->link[0].delay));
	sp_time since = sp_world_now(y->world);
	y->cut[rec_below(y, 2)] = true;
	rec_run(y, LONG);
	rec_read_torn(y, f);
	expect_gone(y, f);
	rec_expect(y, f->over <= since + 2 * y->timeout, "after %.6f s", (double)f->over / 1e12);
}

/* What was begun and not completed holds no buffer for longer than the time-out: the window can hand it over. */
RULE(puts_of_a_peer_that_is_gone_hold_no_buffer, 20)
{
	struct sp_event result;

	y->timeout = 300 * SP_MS;
	y->window[0] = y->window[1] = 4;
	for (unsigned e = 0; e < 2; e++)
		y->link[e] = (struct sp_link_direction){.bandwidth = 1000000000, .delay = 50 * SP_US, .loss = 0.2};
	rec_open(y);
	rec_flow(y, 0, 1, 8, 16000, 16000);
	rec_run(y, 300 * SP_US);
	y->cut[0] = true;
	int rc = rec_call(y, 1, SP_RVMA_CMD_INC_EPOCH, REC_ARGS(y->end[1].window), 0, 0, &result);
	rec_expect(y, !rc, "inc_epoch: %d", rc);
	rec_run(y, 3 * y->timeout);
	rec_wait(y, 2 * y->timeout);
	rec_expect(y, rec_status(y, 1).epoch == 1 && rec_status(y, 1).held == 1, "%llu epochs handed over",
		   U(rec_status(y, 1).held));
}

/* ---- refusals ---- */
static bool lose_nacks(struct rec *y, unsigned from, uint8_t opcode)
{
	return opcode == SP_RVMA_NACK;
}

/* Puts to no mailbox, among those that are delivered: all are told so, and why, whether or not NACKs come. */
static void refused(struct rec *y)
{
	if (rec_below(y, 2))
		y->lose = lose_nacks;
	rec_open(y);
	struct rec_flow *f = rec_flow(y, 0, 1, 60, REC_HEAD, 16000);
	struct rec_flow *g = rec_flow(y, 0, 1, 60, REC_HEAD, 16000);
	f->most = g->most = 1 + rec_below(y, 30);
	g->mailbox = 6;
	rec_run(y, LONG);
	rec_read(y, 1);
	rec_all_delivered(y, f);
	rec_expect(y, g->by[SP_RVMA_NO_MAILBOX] == g->puts, "%llu of %llu were refused", U(g->by[SP_RVMA_NO_MAILBOX]),
		   U(g->puts));
}

TEST_CALL(a_refusal_is_told_with_its_reason_though_nacks_are_lost, rec_over_seeds(__func__, 40, refused))

/* Who is not told finds out by the time-out that it was refused; others go on meanwhile. */
RULE(puts_to_a_silent_window_time_out_and_the_peer_is_not_gone, 5)
{
	struct sp_event result;

	y->timeout = 100 * SP_MS;
	for (unsigned e = 0; e < 2; e++)
		y->link[e] = (struct sp_link_direction){.bandwidth = 10000000000, .delay = 20 * SP_US, .loss = 0.01};
	rec_open(y);
	rec_expect(y, !rec_call(y, 1, SP_RVMA_CMD_WINDOW, REC_ARGS(6, 77, 0, SP_RVMA_SILENT), 0, 0, &result), "window");
	struct rec_flow *f = rec_flow(y, 0, 1, 200, REC_HEAD, 8000);
	struct rec_flow *g = rec_flow(y, 0, 1, 5, REC_HEAD, 8000);
	f->most = 10;
	g->mailbox = 6;
	rec_run(y, LONG);
	rec_read(y, 1);
	rec_all_delivered(y, f);
	rec_expect(y, g->by[SP_RVMA_TIMEOUT] == g->puts, "%llu of %llu have timed out, %llu are gone",
		   U(g->by[SP_RVMA_TIMEOUT]), U(g->puts), U(g->by[SP_RVMA_PEER_GONE]));
}

/* ---- many peers ---- */
/* A server of 4 sessions and 11 clients that come one after the other: those that were silent for long make room. */
RULE(peers_that_are_silent_make_room_for_others, 4)
{
	y->ends = 23;
	y->peers = 4;
	y->ops = 4;
	y->timeout = 20 * SP_MS;
	for (unsigned e = 0; e < 2; e++)
		y->link[e] = (struct sp_link_direction){.bandwidth = 10000000000, .delay = 20 * SP_US};
	rec_open(y);
	for (unsigned e = 1; e < y->ends; e += 2) {
		struct rec_flow *f = rec_flow(y, e, 0, 4, REC_HEAD, 3000);

		rec_run(y, LONG);
		rec_expect(y, f->by[SP_RVMA_DELIVERED] == 4, "client %u: %llu delivered", e,
			   U(f->by[SP_RVMA_DELIVERED]));
		if (e % 8 == 7)
			rec_wait(y, 25 * SP_MS);
	}
	rec_read(y, 0);
}
