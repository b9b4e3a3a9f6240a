/* SPDX-License-Identifier: BSD-3-Clause */
/* The neighbour table's rules in virtual time, its requests byte by byte, and its life among threads. */
#include "neighbour_nic.h"

TEST(bad_static_entries_are_refused)
{
	struct sp_neighbours *n = NULL;
	begin();
	add_static(ip6(0, 2), 1);
	nic.config.neighbour[0].mac[0] = 0x33; /* a group */
	CU_ASSERT_EQUAL(sp_neighbours_create(&nic.config, &nic.routes, &n), -EINVAL);
	memset(nic.config.neighbour[0].mac, 0, 6);
	CU_ASSERT_EQUAL(sp_neighbours_create(&nic.config, &nic.routes, &n), -EINVAL);
	nic.config.neighbour[0].mac[0] = 2;
	add_static(ip6(0, 2), 2); /* twice */
	CU_ASSERT_EQUAL(sp_neighbours_create(&nic.config, &nic.routes, &n), -EINVAL);
	nic.config.neighbours = SP_MAX_STATIC + 1;
	CU_ASSERT_EQUAL(sp_neighbours_create(&nic.config, &nic.routes, &n), -EINVAL);
	CU_ASSERT_PTR_NULL(n);
	sp_neighbours_destroy(NULL);
}

/* ---- requests on the wire ---- */

TEST(arp_request_is_as_rfc_826_says)
{
	static const uint8_t expect[60] = {
		0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2,	  0,   0, 0, 0, 0xAA, 0x08, 0x06, 0, 1, 8, 0,	6, 4, 0,
		1,    2,    0,	  0,	0,    0,    0xAA, 192, 0, 2, 1, 0,    0,    0,	  0, 0, 0, 192, 0, 2, 77,
	};
	begin();
	nic.ports = 3;
	request(ip4(192, 0, 2, 77), SP_SEC);
	CU_ASSERT_EQUAL_FATAL(sents, 1);
	CU_ASSERT_EQUAL(sent[0].port, 0);
	CU_ASSERT_EQUAL(sent[0].len, 60);
	CU_ASSERT_EQUAL(memcmp(sent[0].bytes, expect, 60), 0);
}

TEST(neighbour_solicitation_is_as_rfc_4861_says)
{
	static const uint8_t head[] = {
		0x33, 0x33, 0xFF, 0x12, 0x34, 0x56, 2,	0,   0, 0, 0, 0xAA, 0x86, 0xDD,		    /* Ethernet */
		0x60, 0,    0,	  0,	0,    32,   58, 255,					    /* hop limit 255 */
		0x20, 0x01, 0x0D, 0xB8, 0,    0,    0,	0,   0, 0, 0, 0,    0,	  0,	0,    1,    /* source */
		0xFF, 0x02, 0,	  0,	0,    0,    0,	0,   0, 0, 0, 1,    0xFF, 0x12, 0x34, 0x56, /* solicited node */
		135,  0,
	};
	static const uint8_t tail[] = {
		0, 0, 0, 0, 0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0xAB, 0x12, 0x34, 0x56, /* target */
		1, 1, 2, 0, 0,	  0,	0,    0xAA, /* source link-layer */
	};
	begin();
	request(ip6(0, 0xAB123456), SP_SEC);
	CU_ASSERT_EQUAL_FATAL(sents, 1);
	const uint8_t *f = sent[0].bytes;
	CU_ASSERT_EQUAL(sent[0].len, 86);
	CU_ASSERT_EQUAL(memcmp(f, head, sizeof(head)), 0);
	CU_ASSERT_EQUAL(memcmp(f + 58, tail, sizeof(tail)), 0);
	/* RFC 4443, 2.3: addresses, length and next header, message; all words add up to ones */
	uint32_t sum = 32 + 58;
	for (unsigned i = 22; i < 86; i += 2)
		sum += (uint32_t)f[i] << 8 | f[i + 1];
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	CU_ASSERT_EQUAL(sum, 0xFFFF);
	CU_ASSERT_TRUE(f[56] || f[57]);
}

TEST(only_next_hops_are_asked_for)
{
	begin();
	request(ip4(198, 51, 100, 1), SP_SEC); /* off link */
	request(ip4(192, 0, 2, 1), SP_SEC);    /* own */
	request(ip4(192, 0, 2, 255), SP_SEC);  /* broadcast */
	request(ip6(1, 1), SP_SEC);
	CU_ASSERT_EQUAL(sents, 0);
	CU_ASSERT_EQUAL(sp_neighbours_deadline(nic.neighbours), SP_NEVER);
}

/* ---- states and times ---- */

TEST(unknown_is_asked_three_times_a_second_apart_then_rests_three_seconds)
{
	const sp_time t0 = 5 * SP_SEC;
	uint8_t ip[16];
	memcpy(ip, ip4(192, 0, 2, 9), 16);
	begin();
	CU_ASSERT_TRUE(finds(ip, t0, NULL));
	/* a sender that asks every 10 ms, and the ticks */
	unsigned at_second[12];
	for (unsigned s = 0; s < 12; s++) {
		for (unsigned i = 0; i < 100; i++) {
			sp_time now = t0 + s * SP_SEC + i * 10 * SP_MS;
			run_until(now);
			request(ip, now);
			CU_ASSERT_TRUE(finds(ip, now, NULL));
		}
		at_second[s] = sents;
	}
	static const unsigned expect[12] = {1, 2, 3, 3, 3, 3, 4, 5, 6, 6, 6, 6};
	CU_ASSERT_EQUAL(memcmp(at_second, expect, sizeof(expect)), 0);
}

TEST(unknown_that_nobody_wants_is_retried_by_the_tick_and_then_forgotten)
{
	begin();
	CU_ASSERT_EQUAL(sp_neighbours_deadline(nic.neighbours), SP_NEVER);
	request(ip4(192, 0, 2, 9), 0);
	CU_ASSERT_EQUAL(sents, 1);
	CU_ASSERT_TRUE(sp_neighbours_deadline(nic.neighbours) <= SP_SEC);
	run_until(999 * SP_MS);
	CU_ASSERT_EQUAL(sents, 1);
	run_until(SP_SEC);
	CU_ASSERT_EQUAL(sents, 2);
	run_until(100 * SP_SEC);
	CU_ASSERT_EQUAL(sents, 3);
	CU_ASSERT_EQUAL(sp_neighbours_deadline(nic.neighbours), SP_NEVER);
	sp_neighbour_learn(nic.neighbours, 0, ip4(192, 0, 2, 9), mac_of(9), 100 * SP_SEC, false);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), 100 * SP_SEC, NULL));
}

TEST(answer_makes_it_known_and_ends_the_requests)
{
	struct sp_neighbours *n = begin();
	request(ip4(192, 0, 2, 9), 0);
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(9), SP_MS, false);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), SP_MS, mac_of(9)));
	request(ip4(192, 0, 2, 9), 2 * SP_SEC);
	run_until(29 * SP_SEC);
	CU_ASSERT_EQUAL(sents, 1);
}

TEST(answer_after_failure_still_counts)
{
	struct sp_neighbours *n = begin();
	request(ip4(192, 0, 2, 9), 0);
	run_until(4 * SP_SEC);
	CU_ASSERT_EQUAL(sents, 3);
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(9), 4 * SP_SEC, false);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), 4 * SP_SEC, mac_of(9)));
}

TEST(stale_entry_in_use_still_answers_and_is_asked_for)
{
	struct sp_neighbours *n = begin();
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(9), 0, true);
	for (sp_time t = 0; t < 30 * SP_SEC; t += 50 * SP_MS) {
		run_until(t);
		CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), t, mac_of(9)));
	}
	CU_ASSERT_EQUAL(sents, 0);
	for (sp_time t = 30 * SP_SEC; t < 32 * SP_SEC; t += 50 * SP_MS) {
		run_until(t);
		CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), t, mac_of(9)));
	}
	CU_ASSERT_TRUE(sents >= 1 && sents <= 2);
	unsigned before = sents;
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(9), 32 * SP_SEC, false);
	for (sp_time t = 32 * SP_SEC; t < 61 * SP_SEC; t += 50 * SP_MS) {
		run_until(t);
		CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), t, mac_of(9)));
	}
	CU_ASSERT_EQUAL(sents, before);
}

TEST(stale_entry_that_stays_silent_is_asked_for_seldom)
{
	struct sp_neighbours *n = begin();
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(9), 0, true);
	for (sp_time t = 0; t < 300 * SP_SEC; t += 50 * SP_MS) {
		run_until(t);
		if (!finds(ip4(192, 0, 2, 9), t, mac_of(9)))
			CU_FAIL("lost");
	}
	CU_ASSERT_TRUE(sents >= 8 && sents <= 13); /* 3 in the first seconds, then one in 30 s */
}

TEST(stale_entry_that_nobody_uses_is_not_asked_for_and_goes_after_ten_minutes)
{
	struct sp_neighbours *n = begin();
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(9), 0, true);
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 10), mac_of(10), 0, true);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 10), 20 * SP_SEC, mac_of(10)));
	run_until(601 * SP_SEC);
	CU_ASSERT_EQUAL(sents, 0);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), 601 * SP_SEC, NULL));
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 10), 601 * SP_SEC, mac_of(10)));
	run_until(1300 * SP_SEC);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 10), 1300 * SP_SEC, NULL));
	CU_ASSERT_EQUAL(sp_neighbours_deadline(n), SP_NEVER);
}

TEST(learning_updates_and_creates_only_when_told_and_on_link)
{
	struct sp_neighbours *n = begin();
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(9), 0, false);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), 0, NULL));
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(9), 0, true);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), 0, mac_of(9)));
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(8), 0, false);
	run_until(SP_SEC); /* nobody answers at the MAC of before */
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), SP_SEC, mac_of(8)));
	sp_neighbour_learn(n, 0, ip4(198, 51, 100, 1), mac_of(1), 0, true);
	CU_ASSERT_TRUE(finds(ip4(198, 51, 100, 1), 0, NULL));
	sp_neighbour_learn(n, 0, ip6(-1, 5), mac_of(5), 0, true);
	CU_ASSERT_TRUE(finds(ip6(-1, 5), 0, mac_of(5)));
}

TEST(own_addresses_and_group_macs_are_never_learnt)
{
	static const uint8_t group[6] = {0x33, 0x33, 0, 0, 0, 1}, all[6] = {255, 255, 255, 255, 255, 255}, none[6];
	struct sp_neighbours *n = begin();
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 1), mac_of(1), 0, true);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 1), 0, NULL));
	sp_neighbour_learn(n, 0, ip6(0, 1), mac_of(1), 0, true);
	CU_ASSERT_TRUE(finds(ip6(0, 1), 0, NULL));
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 255), mac_of(1), 0, true);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 255), 0, NULL));
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), group, 0, true);
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), all, 0, true);
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), none, 0, true);
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), 0, NULL));
}

TEST(confirmation_without_override_replaces_nothing)
{
	struct sp_neighbours *n = begin();
	sp_neighbour_confirm(n, 0, ip6(0, 9), mac_of(9), 0);
	CU_ASSERT_TRUE(finds(ip6(0, 9), 0, NULL));
	request(ip6(0, 9), 0);
	sp_neighbour_confirm(n, 0, ip6(0, 9), mac_of(9), 0);
	CU_ASSERT_TRUE(finds(ip6(0, 9), 0, mac_of(9)));
	sp_neighbour_confirm(n, 0, ip6(0, 9), mac_of(10), 20 * SP_SEC);
	CU_ASSERT_TRUE(finds(ip6(0, 9), 20 * SP_SEC, mac_of(9)));
	/* the other MAC has not confirmed this one: stale at 30 s; the same MAC would */
	finds(ip6(0, 9), 31 * SP_SEC, mac_of(9));
	request(ip6(0, 9), 31 * SP_SEC);
	CU_ASSERT_EQUAL(sents, 2);
	sp_neighbour_confirm(n, 0, ip6(0, 9), mac_of(9), 32 * SP_SEC);
	request(ip6(0, 9), 33 * SP_SEC);
	CU_ASSERT_EQUAL(sents, 2);
}

TEST(static_entries_never_change_nor_age)
{
	config_begin();
	add_address(ip4(192, 0, 2, 1), 24);
	for (unsigned i = 0; i < SP_MAX_STATIC; i++)
		add_static(ip4(192, 0, 2, 100 + i), (uint8_t)i);
	config_end();
	CU_ASSERT_EQUAL(sp_neighbours_deadline(nic.neighbours), SP_NEVER);
	sp_neighbour_learn(nic.neighbours, 0, ip4(192, 0, 2, 100), mac_of(1), 0, true);
	sp_neighbour_confirm(nic.neighbours, 0, ip4(192, 0, 2, 100), mac_of(1), 0);
	request(ip4(192, 0, 2, 100), 3600 * SP_SEC);
	sp_neighbours_tick(&worker, 3600 * SP_SEC);
	CU_ASSERT_EQUAL(sents, 0);
	for (unsigned i = 0; i < SP_MAX_STATIC; i++)
		CU_ASSERT_TRUE(
			finds(ip4(192, 0, 2, 100 + i), 3600 * SP_SEC, (uint8_t[]){2, 0, 0, 0, 0x57, (uint8_t)i}));
}

/* ---- claims of others ---- */

/* Hosts of a link, at MACs 9 (the right one) and 66. What is asked of them, they answer, in time `rtt`. */
struct link {
	const uint8_t *ip;
	bool right, liar; /* they are there */
	bool floods;	  /* the liar claims the address every millisecond */
	unsigned seen;	  /* requests so far */
};

static void hosts_answer(struct link *l, sp_time now)
{
	for (; l->seen < sents && l->seen < CAPTURED; l->seen++) {
		const uint8_t *to = sent[l->seen].bytes;
		if (l->liar && (to[0] & 1 || !memcmp(to, mac_of(66), 6))) /* it is nearer */
			sp_neighbour_learn(nic.neighbours, 0, l->ip, mac_of(66), now, false);
		if (l->right && (to[0] & 1 || !memcmp(to, mac_of(9), 6)))
			sp_neighbour_learn(nic.neighbours, 0, l->ip, mac_of(9), now, false);
	}
	if (l->seen == sents)
		l->seen = sents = 0; /* there is room for a few only */
	if (l->liar && l->floods)
		sp_neighbour_learn(nic.neighbours, 0, l->ip, mac_of(66), now, false);
}

/* A sender that needs the address all the time. Returns for how many milliseconds it had the right MAC. */
static unsigned use(struct link *l, sp_time from, sp_time to)
{
	unsigned right = 0;
	for (sp_time t = from; t < to; t += SP_MS) {
		run_until(t);
		hosts_answer(l, t);
		if (finds(l->ip, t, NULL))
			request(l->ip, t);
		right += finds(l->ip, t, mac_of(9));
	}
	return right;
}

TEST(a_neighbour_that_answers_is_not_moved_by_claims_of_others)
{
	for (unsigned family = 0; family < 2; family++) {
		uint8_t ip[16];
		struct link l = {.ip = ip, .right = true};
		memcpy(ip, family ? ip6(0, 9) : ip4(192, 0, 2, 9), 16);
		begin();
		CU_ASSERT_TRUE(use(&l, SP_SEC, 2 * SP_SEC) >= 999);
		l.liar = l.floods = true;
		CU_ASSERT_EQUAL(use(&l, 2 * SP_SEC, 12 * SP_SEC), 10000);
		CU_ASSERT_TRUE(sent_total <= 1 + 5 * 10 + 1); /* a flood does not make one of us */
		l.liar = false;
		CU_ASSERT_EQUAL(use(&l, 12 * SP_SEC, 50 * SP_SEC), 38000);
		const unsigned asked = sent_total;
		CU_ASSERT_EQUAL(use(&l, 50 * SP_SEC, 60 * SP_SEC), 10000);
		CU_ASSERT_TRUE(sent_total <= asked + 1); /* and that is all */
	}
}

TEST(a_neighbour_that_is_silent_gives_way_to_a_claim)
{
	struct link l = {.ip = ip4(192, 0, 2, 9), .right = true};
	uint8_t ip[16];
	memcpy(ip, l.ip, 16);
	l.ip = ip;
	begin();
	use(&l, SP_SEC, 2 * SP_SEC);
	l.right = false; /* another host has taken the address over, and says so */
	l.liar = true;
	sp_neighbour_learn(nic.neighbours, 0, ip, mac_of(66), 2 * SP_SEC, false);
	CU_ASSERT_TRUE(finds(ip, 2 * SP_SEC, mac_of(9)));
	CU_ASSERT_TRUE(use(&l, 2 * SP_SEC, 3 * SP_SEC) <= 610);
	CU_ASSERT_TRUE(finds(ip, 3 * SP_SEC, mac_of(66)));
	CU_ASSERT_EQUAL(use(&l, 3 * SP_SEC, 33 * SP_SEC), 0);
	CU_ASSERT_TRUE(finds(ip, 33 * SP_SEC, mac_of(66)));
}

TEST(what_a_liar_leaves_behind_is_gone_within_a_second)
{
	uint8_t ip[16];
	struct link l = {.ip = ip, .right = true, .liar = true, .floods = true};
	memcpy(ip, ip4(192, 0, 2, 9), 16);
	begin();
	/* It was there first: nothing was known that could be asked. */
	CU_ASSERT_EQUAL(use(&l, SP_SEC, 5 * SP_SEC), 0);
	l.liar = false;
	use(&l, 5 * SP_SEC, 6 * SP_SEC);
	CU_ASSERT_EQUAL(use(&l, 6 * SP_SEC, 20 * SP_SEC), 14000);
	/* The right host was away, its place was taken, and it comes back without a word. */
	l.right = false;
	l.liar = true;
	use(&l, 20 * SP_SEC, 22 * SP_SEC);
	CU_ASSERT_TRUE(finds(ip, 22 * SP_SEC, mac_of(66)));
	l.right = true;
	CU_ASSERT_EQUAL(use(&l, 22 * SP_SEC, 25 * SP_SEC), 0);
	l.liar = false;
	use(&l, 25 * SP_SEC, 26 * SP_SEC);
	CU_ASSERT_EQUAL(use(&l, 26 * SP_SEC, 40 * SP_SEC), 14000);
}

/* ---- floods ---- */

TEST(flood_of_spoofed_arp_leaves_static_and_active_entries)
{
	config_begin();
	add_address(ip4(10, 0, 0, 1), 8);
	for (unsigned i = 0; i < SP_MAX_STATIC; i++)
		add_static(ip4(10, 255, 0, i + 1), (uint8_t)i);
	config_end();
	for (unsigned i = 0; i < 100; i++) {
		sp_neighbour_learn(nic.neighbours, 0, ip4(10, 1, 0, i + 1), mac_of(i), 0, true);
		CU_ASSERT_TRUE(finds(ip4(10, 1, 0, i + 1), 0, mac_of(i)));
	}
	request(ip4(10, 2, 0, 1), 0);		/* one that is being asked for */
	for (unsigned i = 0; i < 100000; i++) { /* 10 s */
		sp_time now = i * 100 * SP_US;
		run_until(now);
		sp_neighbour_learn(nic.neighbours, 0, ip4(10, 128 + (i >> 16), i >> 8 & 255, i & 255), mac_of(i), now,
				   true);
		if (i == 5000)
			sp_neighbour_learn(nic.neighbours, 0, ip4(10, 2, 0, 1), mac_of(77), now, false);
		if (i > 5000 && i % 1000 == 0)
			CU_ASSERT_TRUE(finds(ip4(10, 2, 0, 1), now, mac_of(77)));
	}
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_TRUE(finds(ip4(10, 1, 0, i + 1), 10 * SP_SEC, mac_of(i)));
	for (unsigned i = 0; i < SP_MAX_STATIC; i++)
		CU_ASSERT_TRUE(finds(ip4(10, 255, 0, i + 1), 10 * SP_SEC, (uint8_t[]){2, 0, 0, 0, 0x57, (uint8_t)i}));
	/* the table still takes a new one */
	sp_neighbour_learn(nic.neighbours, 0, ip4(10, 3, 0, 1), mac_of(3), 10 * SP_SEC, true);
	CU_ASSERT_TRUE(finds(ip4(10, 3, 0, 1), 10 * SP_SEC, mac_of(3)));
}

TEST(flood_cannot_enter_a_table_full_of_active_entries_but_a_request_can)
{
	config_begin();
	add_address(ip4(10, 0, 0, 1), 8);
	config_end();
	for (unsigned i = 0; i < SP_NEIGHBOURS; i++) {
		sp_time now = i * SP_MS;
		sp_neighbour_learn(nic.neighbours, 0, ip4(10, 1, i >> 8, i & 255), mac_of(i), now, true);
		CU_ASSERT_TRUE(finds(ip4(10, 1, i >> 8, i & 255), now, mac_of(i)));
	}
	for (unsigned i = 0; i < 1000; i++)
		sp_neighbour_learn(nic.neighbours, 0, ip4(10, 9, i >> 8, i & 255), mac_of(i), SP_SEC, true);
	for (unsigned i = 0; i < SP_NEIGHBOURS; i++)
		if (!finds(ip4(10, 1, i >> 8, i & 255), i == 0 ? 0 : SP_SEC, mac_of(i)))
			CU_FAIL("evicted");
	request(ip4(10, 2, 0, 1), 2 * SP_SEC);
	CU_ASSERT_EQUAL(sents, 1);
	sp_neighbour_learn(nic.neighbours, 0, ip4(10, 2, 0, 1), mac_of(7), 2 * SP_SEC, false);
	CU_ASSERT_TRUE(finds(ip4(10, 2, 0, 1), 2 * SP_SEC, mac_of(7)));
	unsigned lost = 0, first = 0;
	for (unsigned i = 0; i < SP_NEIGHBOURS; i++) {
		bool there = finds(ip4(10, 1, i >> 8, i & 255), 2 * SP_SEC, mac_of(i));
		lost += !there;
		first |= !there && i == 0;
	}
	CU_ASSERT_EQUAL(lost, 1);
	CU_ASSERT_TRUE(first); /* the one not used for longest */
}
