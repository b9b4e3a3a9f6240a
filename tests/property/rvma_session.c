/* SPDX-License-Identifier: BSD-3-Clause */
/* RVMA's sessions: what is put is delivered exactly once, whatever the network and the peer do. */
#include "rvma_yard.h"

#define LONG (1000 * SP_SEC)

static void bad_link(struct yard *y)
{
	const uint64_t limit = 40 + yard_below(y, 200);

	yard_open(y);
	for (unsigned e = 0; e < 2; e++) {
		struct yard_flow *f = yard_flow(y, e, !e, limit / (1 + yard_below(y, 3)), YARD_HEAD,
						yard_below(y, 2) ? YARD_HEAD + 100 : 16000);

		f->most = yard_below(y, 2) ? 0 : 1 + yard_below(y, 64);
		f->fence = !yard_below(y, 8);
	}
	yard_run(y, LONG);
	for (unsigned e = 0; e < 2; e++)
		yard_read(y, e);
	for (unsigned e = 0; e < 2; e++)
		yard_all_delivered(y, &y->flow[e]);
}

TEST(every_put_is_delivered_exactly_once_over_a_bad_link)
{
	over_seeds(__func__, 40, bad_link);
}

/* 4,000 puts at once need no more than the way there and back, HELLO's before it, and the wire's time. */
static void thousands(struct yard *y)
{
	const sp_time delay = 5 * SP_MS;
	struct yard_flow *f;

	y->ops = 4096;
	for (unsigned e = 0; e < 2; e++) {
		y->window[e] = 4096;
		y->mtu[e] = 256; /* a packet each: 4,096 of these may be on their way */
		y->link[e] = (struct sp_link_direction){.bandwidth = 100000000000, .delay = delay, .queue = 256};
	}
	yard_open(y);
	f = yard_flow(y, 0, 1, 4000, 64, 200);
	yard_run(y, LONG);
	yard_read(y, 1);
	yard_all_delivered(y, f);
	yard_expect(y, f->over < 5 * delay, "after %.6f s", (double)f->over / 1e12);
	yard_expect(y, yard_counter(y, 0, "retransmits") == 0, "%llu went again", U(yard_counter(y, 0, "retransmits")));
}

TEST(thousands_of_puts_are_on_their_way_at_once)
{
	over_seeds(__func__, 2, thousands);
}

/* ---- sessions begin ------------------------------------------------------------------------------------------------
 */
static bool lose_beginnings(struct yard *y, unsigned from, uint8_t opcode)
{
	return (opcode == SP_RVMA_HELLO || opcode == SP_RVMA_WELCOME) && yard_below(y, 4);
}

static void lost_hellos(struct yard *y)
{
	y->lose = lose_beginnings;
	for (unsigned e = 0; e < 2; e++)
		y->link[e].duplicate = 0.5;
	yard_open(y);
	yard_flow(y, 0, 1, 20, YARD_HEAD, 3000);
	if (yard_below(y, 2)) /* both at once */
		yard_flow(y, 1, 0, 20, YARD_HEAD, 3000);
	yard_run(y, LONG);
	for (unsigned e = 0; e < 2; e++)
		yard_read(y, e);
	for (unsigned i = 0; i < y->flows; i++)
		yard_all_delivered(y, &y->flow[i]);
	for (unsigned e = 0; e < 2; e++)
		yard_expect(y, yard_counter(y, e, "sessions") == 1, "%llu sessions", U(yard_counter(y, e, "sessions")));
}

TEST(a_session_begins_once_though_its_packets_are_lost_repeated_and_meet)
{
	over_seeds(__func__, 40, lost_hellos);
}

/* One to itself, and two on the same NIC, with no link between them. */
static void at_home(struct yard *y)
{
	y->ends = 3;
	y->cut[0] = y->cut[1] = true;
	yard_open(y);
	yard_flow(y, 0, 0, 30, YARD_HEAD, 9000);
	yard_flow(y, 0, 2, 30, YARD_HEAD, 9000);
	yard_flow(y, 2, 0, 30, YARD_HEAD, 9000);
	yard_run(y, LONG);
	yard_read(y, 0);
	yard_read(y, 2);
	for (unsigned i = 0; i < y->flows; i++)
		yard_all_delivered(y, &y->flow[i]);
}

TEST(puts_to_oneself_and_on_the_same_nic_are_delivered)
{
	over_seeds(__func__, 10, at_home);
}

/* ---- sessions end --------------------------------------------------------------------------------------------------
 */
/* Of the puts to a peer that went away some have come, none twice, and those that are said to be delivered have. */
static void expect_gone(struct yard *y, const struct yard_flow *f)
{
	yard_expect(y, f->ended == f->puts && f->by[SP_RVMA_DELIVERED] + f->by[SP_RVMA_PEER_GONE] == f->puts,
		    "%llu of %llu puts have ended, %llu delivered, %llu gone", U(f->ended), U(f->puts),
		    U(f->by[SP_RVMA_DELIVERED]), U(f->by[SP_RVMA_PEER_GONE]));
	for (uint64_t k = 0; k < f->posted; k++)
		yard_expect(y, f->came[k] || f->status[k] != SP_RVMA_DELIVERED + 1, "put %llu was delivered to nobody",
			    U(k));
}

static struct yard_flow *doomed(struct yard *y)
{
	const uint32_t bytes = 64 + (uint32_t)yard_below(y, 16000);

	return yard_flow(y, 0, 1, 64, bytes, bytes);
}

/* The peer ends without a word. Then it is there again, and knows nothing of before. */
static void restart(struct yard *y)
{
	const bool speaks = yard_below(y, 2);
	struct yard_flow *f, *g, *h;

	y->timeout = 2 * SP_SEC;
	yard_open(y);
	f = doomed(y);
	yard_run(y, yard_below(y, 20 * y->link[0].delay));
	yard_read_torn(y, f);
	y->cut[0] = y->cut[1] = true;
	yard_end_close(y, 1);
	yard_wait(y, 10 * y->link[0].delay + SP_MS);
	y->cut[0] = y->cut[1] = false;
	yard_end_open(y, 1);
	h = speaks ? yard_flow(y, 1, 0, 10, YARD_HEAD, 100) : NULL;
	for (unsigned i = 0; i < 20000 && f->ended < f->puts && !f->by[SP_RVMA_PEER_GONE]; i++)
		yard_run(y, SP_MS);
	/* What it puts itself shows that it is another one; otherwise that it does not answer. */
	if (f->by[SP_RVMA_PEER_GONE])
		yard_expect(y, speaks || sp_world_now(y->world) >= y->timeout, "gone before its time");
	else if (f->by[SP_RVMA_DELIVERED] == f->puts) { /* nothing was under way: the first one to come is told */
		yard_flow(y, 0, 1, 1, YARD_HEAD, YARD_HEAD);
		yard_run(y, LONG);
	}
	g = yard_flow(y, 0, 1, 40, YARD_HEAD, 3000);
	yard_run(y, LONG);
	for (unsigned e = 0; e < 2; e++)
		yard_read(y, e);
	yard_all_delivered(y, g);
	if (h)
		yard_all_delivered(y, h);
	expect_gone(y, f);
}

TEST(after_a_restart_puts_go_to_the_new_peer_and_none_of_before_does)
{
	over_seeds(__func__, 40, restart);
}

static void goodbye(struct yard *y)
{
	struct yard_flow *f;

	for (unsigned e = 0; e < 2; e++)
		y->link[e] = (struct sp_link_direction){.bandwidth = 1000000000, .delay = 50 * SP_US};
	yard_open(y);
	f = doomed(y);
	yard_run(y, yard_below(y, 500 * SP_US) + 300 * SP_US); /* two round trips: it is open */
	yard_read_torn(y, f);
	yard_end_close(y, 1);
	yard_run(y, 400 * SP_US); /* a frame may keep the wire busy */
	yard_expect(y, f->by[SP_RVMA_PEER_GONE] > 0 || f->by[SP_RVMA_DELIVERED] == f->puts, "BYE was not heard");
	yard_run(y, LONG);
	expect_gone(y, f);
}

TEST(a_peer_that_says_goodbye_is_gone_at_once)
{
	over_seeds(__func__, 30, goodbye);
}

static void silence(struct yard *y)
{
	struct yard_flow *f;
	sp_time since;

	y->timeout = 500 * SP_MS;
	yard_open(y);
	f = doomed(y);
	yard_run(y, yard_below(y, 20 * y->link[0].delay));
	since = sp_world_now(y->world);
	y->cut[yard_below(y, 2)] = true;
	yard_run(y, LONG);
	yard_read_torn(y, f);
	expect_gone(y, f);
	yard_expect(y, f->over <= since + 2 * y->timeout, "after %.6f s", (double)f->over / 1e12);
}

TEST(a_peer_that_is_silent_is_gone_after_the_time_out)
{
	over_seeds(__func__, 30, silence);
}

/* What was begun and not completed holds no buffer for longer than the time-out: the window can hand it over. */
static void abandoned(struct yard *y)
{
	struct sp_event result;
	int rc;

	y->timeout = 300 * SP_MS;
	y->window[0] = y->window[1] = 4;
	for (unsigned e = 0; e < 2; e++)
		y->link[e] = (struct sp_link_direction){.bandwidth = 1000000000, .delay = 50 * SP_US, .loss = 0.2};
	yard_open(y);
	yard_flow(y, 0, 1, 8, 16000, 16000);
	yard_run(y, 300 * SP_US);
	y->cut[0] = true;
	rc = yard_call(y, 1, SP_RVMA_CMD_INC_EPOCH, YARD_ARGS(y->end[1].window), 0, 0, &result);
	yard_expect(y, !rc, "inc_epoch: %d", rc);
	yard_run(y, 3 * y->timeout);
	yard_wait(y, 2 * y->timeout);
	yard_expect(y, yard_status(y, 1).epoch == 1 && yard_status(y, 1).held == 1, "%llu epochs handed over",
		    U(yard_status(y, 1).held));
}

TEST(puts_of_a_peer_that_is_gone_hold_no_buffer)
{
	over_seeds(__func__, 20, abandoned);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------
 */
static bool lose_nacks(struct yard *y, unsigned from, uint8_t opcode)
{
	return opcode == SP_RVMA_NACK;
}

/* Puts to no mailbox, among those that are delivered: all are told so, and why, whether or not NACKs come. */
static void refused(struct yard *y)
{
	struct yard_flow *f, *g;

	if (yard_below(y, 2))
		y->lose = lose_nacks;
	yard_open(y);
	f = yard_flow(y, 0, 1, 60, YARD_HEAD, 16000);
	g = yard_flow(y, 0, 1, 60, YARD_HEAD, 16000);
	f->most = g->most = 1 + yard_below(y, 30);
	g->mailbox = 6;
	yard_run(y, LONG);
	yard_read(y, 1);
	yard_all_delivered(y, f);
	yard_expect(y, g->by[SP_RVMA_NO_MAILBOX] == g->puts, "%llu of %llu were refused", U(g->by[SP_RVMA_NO_MAILBOX]),
		    U(g->puts));
}

TEST(a_refusal_is_told_with_its_reason_though_nacks_are_lost)
{
	over_seeds(__func__, 40, refused);
}

/* Who is not told finds out by the time-out that it was refused; others go on meanwhile. */
static void silent_window(struct yard *y)
{
	struct yard_flow *f, *g;
	struct sp_event result;

	y->timeout = 100 * SP_MS;
	for (unsigned e = 0; e < 2; e++)
		y->link[e] = (struct sp_link_direction){.bandwidth = 10000000000, .delay = 20 * SP_US, .loss = 0.01};
	yard_open(y);
	yard_expect(y, !yard_call(y, 1, SP_RVMA_CMD_WINDOW, YARD_ARGS(6, 77, 0, SP_RVMA_SILENT), 0, 0, &result),
		    "window");
	f = yard_flow(y, 0, 1, 200, YARD_HEAD, 8000);
	g = yard_flow(y, 0, 1, 5, YARD_HEAD, 8000);
	f->most = 10;
	g->mailbox = 6;
	yard_run(y, LONG);
	yard_read(y, 1);
	yard_all_delivered(y, f);
	yard_expect(y, g->by[SP_RVMA_TIMEOUT] == g->puts, "%llu of %llu have timed out, %llu are gone",
		    U(g->by[SP_RVMA_TIMEOUT]), U(g->puts), U(g->by[SP_RVMA_PEER_GONE]));
}

TEST(puts_to_a_silent_window_time_out_and_the_peer_is_not_gone)
{
	over_seeds(__func__, 5, silent_window);
}

/* ---- many peers ----------------------------------------------------------------------------------------------------
 */
/* A server of 4 sessions and 11 clients that come one after the other: those that were silent for long make room. */
static void crowd(struct yard *y)
{
	y->ends = 23;
	y->peers = 4;
	y->ops = 4;
	y->timeout = 20 * SP_MS;
	for (unsigned e = 0; e < 2; e++)
		y->link[e] = (struct sp_link_direction){.bandwidth = 10000000000, .delay = 20 * SP_US};
	yard_open(y);
	for (unsigned e = 1; e < y->ends; e += 2) {
		struct yard_flow *f = yard_flow(y, e, 0, 4, YARD_HEAD, 3000);

		yard_run(y, LONG);
		yard_expect(y, f->by[SP_RVMA_DELIVERED] == 4, "client %u: %llu delivered", e,
			    U(f->by[SP_RVMA_DELIVERED]));
		if (e % 8 == 7)
			yard_wait(y, 25 * SP_MS);
	}
	yard_read(y, 0);
}

TEST(peers_that_are_silent_make_room_for_others)
{
	over_seeds(__func__, 4, crowd);
}
