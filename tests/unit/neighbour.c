/* SPDX-License-Identifier: BSD-3-Clause */
/* The neighbour table's rules in virtual time, its requests byte by byte, and its life among threads. */
#include "../../pipeline/neighbour.c"
#include "../lib/ips.h"
#include "../lib/suite.h"

#include <pthread.h>

/* ---- a NIC made by hand, and a port that remembers ---- */

static struct sp_nic nic;
static struct sp_worker worker = {.nic = &nic};
static const uint8_t own_mac[6] = {2, 0, 0, 0, 0, 0xAA};

#define CAPTURED 64
static struct {
	uint16_t port;
	uint32_t len;
	uint8_t bytes[128];
} sent[CAPTURED];
static unsigned sents;
static _Atomic unsigned sent_total;

int sp_transmit_frame(struct sp_worker *w, uint16_t port, const void *frame, uint32_t len)
{
	atomic_fetch_add(&sent_total, 1);
	if (w != &worker) /* the threads of the last tests */
		return 0;
	if (sents < CAPTURED && len <= sizeof(sent->bytes)) {
		sent[sents].port = port;
		sent[sents].len = len;
		memcpy(sent[sents].bytes, frame, len);
	}
	sents++;
	return 0;
}

static void add_address(const uint8_t *ip, uint8_t prefix)
{
	memcpy(nic.config.address[nic.config.addresses].ip, ip, 16);
	nic.config.address[nic.config.addresses++].prefix = prefix;
}

static void add_static(const uint8_t *ip, uint8_t last)
{
	struct sp_neighbour_config *s = &nic.config.neighbour[nic.config.neighbours++];
	memcpy(s->ip, ip, 16);
	memcpy(s->mac, (uint8_t[]){2, 0, 0, 0, 0x57, last}, 6);
}

static void config_begin(void)
{
	sp_neighbours_destroy(nic.neighbours);
	memset(&nic, 0, sizeof(nic));
	memcpy(nic.port[0].mac, own_mac, 6);
	nic.ports = nic.config.ports = 1;
	worker.now = 0;
	sents = 0;
	sent_total = 0;
}

static void config_end(void)
{
	CU_ASSERT_EQUAL_FATAL(sp_routes_set(&nic.routes, &nic.config, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(sp_neighbours_create(&nic.config, &nic.routes, &nic.neighbours), 0);
}

/* 192.0.2.1/24 and 2001:db8::1/64 */
static struct sp_neighbours *begin(void)
{
	config_begin();
	add_address(ip4(192, 0, 2, 1), 24);
	add_address(ip6(0, 1), 64);
	config_end();
	return nic.neighbours;
}

static const uint8_t *mac_of(unsigned i)
{
	static uint8_t ring[4][6];
	static unsigned at;
	uint8_t *mac = ring[at++ % 4];
	memset(mac, 0, 6);
	mac[0] = 2;
	mac[2] = (uint8_t)(i >> 24), mac[3] = (uint8_t)(i >> 16), mac[4] = (uint8_t)(i >> 8), mac[5] = (uint8_t)i;
	return mac;
}

static bool finds(const uint8_t *ip, sp_time now, const uint8_t *mac)
{
	uint8_t got[6] = {0};
	int r = sp_neighbour_find(nic.neighbours, 0, ip, now, got);
	return mac ? !r && !memcmp(got, mac, 6) : r == -EAGAIN && !got[0];
}

static void request(const uint8_t *ip, sp_time now)
{
	worker.now = now;
	sp_neighbour_request(&worker, 0, ip);
}

/* What the worker's loop does: ticks when they are due, up to `until`. */
static void run_until(sp_time until)
{
	for (unsigned i = 0; i < 100000; i++) {
		sp_time at = sp_neighbours_deadline(nic.neighbours);
		if (at > until)
			return;
		worker.now = at;
		CU_ASSERT_EQUAL(sp_neighbours_tick(&worker, at), sp_neighbours_deadline(nic.neighbours));
		if (sp_neighbours_deadline(nic.neighbours) <= at) {
			CU_FAIL("the tick does not move on");
			return;
		}
	}
	CU_FAIL("too many ticks");
}

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
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(10), 32 * SP_SEC, false);
	for (sp_time t = 32 * SP_SEC; t < 61 * SP_SEC; t += 50 * SP_MS) {
		run_until(t);
		CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), t, mac_of(10)));
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
	CU_ASSERT_TRUE(finds(ip4(192, 0, 2, 9), 0, mac_of(8)));
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

TEST(neighbours_of_one_network_spread_over_the_table)
{
	for (unsigned family = 0; family < 2; family++) {
		unsigned homes = 0;
		bool taken[SP_NEIGHBOURS] = {false};
		struct sp_neighbours *n = begin();
		for (unsigned i = 2; i < 130; i++) {
			const uint8_t *ip = family ? ip6(0, i) : ip4(192, 0, 2, i);
			struct key k = key_of(n, 0, ip);
			homes += !taken[k.hash % SP_NEIGHBOURS];
			taken[k.hash % SP_NEIGHBOURS] = true;
			sp_neighbour_learn(n, 0, ip, mac_of(i), 0, true);
		}
		/* 128 at random into 256 places take 101 of them on average */
		CU_ASSERT_TRUE(homes > 80);
		CU_ASSERT_TRUE(n->furthest < 2 * PROBE_WINDOW);
	}
}

/* ---- threads ---- */

#define THREADS 4
#define HOSTS	600u /* more than fit: entries change hands all the time */
static _Atomic unsigned foreign, found;

/* The MAC says whose it is: address i has MACs that end in i. */
static void *hammer(void *arg)
{
	struct sp_worker w = {.nic = &nic, .index = (uint16_t)(uintptr_t)arg};
	uint64_t random = 0x9E3779B97F4A7C15ull * ((uintptr_t)arg + 1);
	uint8_t ip[16], mac[6];
	memcpy(ip, (uint8_t[16]){[10] = 0xFF, [11] = 0xFF, [12] = 10}, 16);
	for (unsigned i = 0; i < 40000; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		unsigned host = 2 + (unsigned)(random >> 32) % HOSTS;
		ip[14] = (uint8_t)(host >> 8);
		ip[15] = (uint8_t)host;
		w.now = i * SP_MS;
		switch (random % 8) {
		case 0:
			sp_neighbour_request(&w, 0, ip);
			break;
		case 1:
		case 2:
			memcpy(mac, (uint8_t[]){2, (uint8_t)random, (uint8_t)(random >> 8), 0, ip[14], ip[15]}, 6);
			sp_neighbour_learn(nic.neighbours, 0, ip, mac, w.now, random & 256);
			break;
		case 3:
			if (!w.index && i % 16 == 0)
				sp_neighbours_tick(&w, w.now);
			break;
		default:
			if (!sp_neighbour_find(nic.neighbours, 0, ip, w.now, mac)) {
				atomic_fetch_add(&found, 1);
				if (mac[4] != ip[14] || mac[5] != ip[15] || mac[0] != 2)
					atomic_fetch_add(&foreign, 1);
			}
		}
	}
	return NULL;
}

TEST(nobody_ever_gets_the_mac_of_another_address)
{
	pthread_t thread[THREADS];
	config_begin();
	add_address(ip4(10, 0, 0, 1), 8);
	config_end();
	foreign = found = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, hammer, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CU_ASSERT_EQUAL(foreign, 0);
	CU_ASSERT_TRUE(found > 1000);
	CU_ASSERT_TRUE(sent_total > 0);
}

/* Two addresses that share a place in the table, so that it changes hands as fast as can be. */
static uint8_t rivals[2][16];
static _Atomic bool rivals_stop;

static void *rival_reader(void *arg)
{
	uintptr_t wrong = 0, right = 0;
	uint8_t mac[6];
	while (!atomic_load_explicit(&rivals_stop, memory_order_relaxed))
		for (unsigned i = 0; i < 2; i++)
			if (!sp_neighbour_find(nic.neighbours, 0, rivals[i], 0, mac)) {
				right += mac[5] == i;
				wrong += mac[5] != i;
			}
	*(uintptr_t *)arg = right;
	return (void *)wrong;
}

TEST(a_place_that_changes_hands_never_mixes_key_and_mac)
{
	pthread_t thread;
	uintptr_t right;
	void *wrong;
	config_begin();
	add_address(ip4(10, 0, 0, 1), 8);
	config_end();
	struct sp_neighbours *n = nic.neighbours;
	memcpy(rivals[0], ip4(10, 0, 1, 0), 16);
	struct key a = key_of(n, 0, rivals[0]), b;
	for (unsigned i = 1; i < 65536; i++) {
		memcpy(rivals[1], ip4(10, 1, i >> 8, i & 255), 16);
		b = key_of(n, 0, rivals[1]);
		if (entry_at(n, &a, 0) == entry_at(n, &b, 0))
			break;
	}
	struct entry *e = entry_at(n, &a, 0);
	CU_ASSERT_PTR_EQUAL_FATAL(e, entry_at(n, &b, 0));
	rivals_stop = false;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, rival_reader, &right), 0);
	for (unsigned i = 0; i < 2000000; i++) {
		CU_ASSERT_EQUAL_FATAL(insert(n, 0, rivals[i & 1], KNOWN, mac_of(i & 1), 0, VICTIM_FREE), 0);
		uint64_t word = atomic_load(&e->word);
		atomic_store(&e->word, word_of(word, FREE, NULL)); /* as the tick does */
	}
	rivals_stop = true;
	pthread_join(thread, &wrong);
	CU_ASSERT_PTR_NULL(wrong);
	CU_ASSERT_TRUE(right > 0);
}

/* ---- several ports ---- */

static const uint8_t second_mac[6] = {2, 0, 0, 0, 0, 0xAB};

/* 192.0.2.1/24, 2001:db8::1/64, fe80::1/64 on port 0; 198.51.100.1/24, 2001:db8:1::1/64 and
 * fe80::1:1/64 on port 1. */
static struct sp_neighbours *begin_two(void)
{
	config_begin();
	nic.ports = nic.config.ports = 2;
	memcpy(nic.port[1].mac, second_mac, 6);
	add_address(ip4(192, 0, 2, 1), 24);
	add_address(ip6(0, 1), 64);
	add_address(ip6(-1, 1), 64);
	for (unsigned i = 3; i < 6; i++)
		nic.config.address[i].port = 1;
	add_address(ip4(198, 51, 100, 1), 24);
	add_address(ip6(1, 1), 64);
	add_address(ip6(-1, 0x10001), 64);
	config_end();
	return nic.neighbours;
}

static bool finds_at(uint16_t port, const uint8_t *ip, const uint8_t *mac)
{
	uint8_t got[6] = {0};
	int r = sp_neighbour_find(nic.neighbours, port, ip, 0, got);
	return mac ? !r && !memcmp(got, mac, 6) : r == -EAGAIN;
}

TEST(requests_leave_by_the_port_asked_with_its_mac_and_address)
{
	begin_two();
	worker.now = SP_SEC;
	sp_neighbour_request(&worker, 1, ip4(198, 51, 100, 9));
	CU_ASSERT_EQUAL_FATAL(sents, 1);
	CU_ASSERT_EQUAL(sent[0].port, 1);
	CU_ASSERT(!memcmp(sent[0].bytes + 6, second_mac, 6) && !memcmp(sent[0].bytes + 22, second_mac, 6));
	CU_ASSERT(!memcmp(sent[0].bytes + 28, ip4(198, 51, 100, 1) + 12, 4));
	sp_neighbour_request(&worker, 1, ip6(1, 9));
	CU_ASSERT_EQUAL_FATAL(sents, 2);
	CU_ASSERT_EQUAL(sent[1].port, 1);
	CU_ASSERT(!memcmp(sent[1].bytes + 6, second_mac, 6) && !memcmp(sent[1].bytes + 22, ip6(1, 1), 16) &&
		  !memcmp(sent[1].bytes + 80, second_mac, 6));
	run_until(2 * SP_SEC); /* the retries too */
	CU_ASSERT_EQUAL_FATAL(sents, 4);
	CU_ASSERT(sent[2].port == 1 && sent[3].port == 1);
	sp_neighbour_request(&worker, 0, ip4(198, 51, 100, 9)); /* of the other link */
	sp_neighbour_request(&worker, 1, ip4(192, 0, 2, 9));
	sp_neighbour_request(&worker, 0, ip6(1, 9));
	CU_ASSERT_EQUAL(sents, 4);
}

TEST(a_port_learns_of_its_own_link_alone)
{
	struct sp_neighbours *n = begin_two();
	sp_neighbour_learn(n, 1, ip4(192, 0, 2, 9), mac_of(9), 0, true);
	sp_neighbour_learn(n, 0, ip4(198, 51, 100, 9), mac_of(9), 0, true);
	sp_neighbour_learn(n, 0, ip6(1, 9), mac_of(9), 0, true);
	for (uint16_t port = 0; port < 2; port++)
		CU_ASSERT(finds_at(port, ip4(192, 0, 2, 9), NULL) && finds_at(port, ip4(198, 51, 100, 9), NULL) &&
			  finds_at(port, ip6(1, 9), NULL));
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 9), mac_of(9), 0, true);
	sp_neighbour_learn(n, 1, ip4(198, 51, 100, 9), mac_of(10), 0, true);
	CU_ASSERT(finds_at(0, ip4(192, 0, 2, 9), mac_of(9)) && finds_at(1, ip4(198, 51, 100, 9), mac_of(10)));
	/* Known, and now somebody on the other link claims to be it. */
	sp_neighbour_learn(n, 1, ip4(192, 0, 2, 9), mac_of(66), 0, true);
	sp_neighbour_confirm(n, 1, ip4(192, 0, 2, 9), mac_of(66), 0);
	CU_ASSERT(finds_at(0, ip4(192, 0, 2, 9), mac_of(9)) && finds_at(1, ip4(192, 0, 2, 9), NULL));
	/* Asked for on its link, and answered on the other. */
	worker.now = 0;
	sp_neighbour_request(&worker, 0, ip4(192, 0, 2, 10));
	sp_neighbour_learn(n, 1, ip4(192, 0, 2, 10), mac_of(66), 0, false);
	CU_ASSERT(finds_at(0, ip4(192, 0, 2, 10), NULL));
	sp_neighbour_learn(n, 0, ip4(192, 0, 2, 10), mac_of(10), 0, false);
	CU_ASSERT(finds_at(0, ip4(192, 0, 2, 10), mac_of(10)));
}

TEST(the_same_link_local_address_is_another_neighbour_on_each_port)
{
	struct sp_neighbours *n = begin_two();
	sp_neighbour_learn(n, 0, ip6(-1, 9), mac_of(9), 0, true);
	CU_ASSERT(finds_at(0, ip6(-1, 9), mac_of(9)) && finds_at(1, ip6(-1, 9), NULL));
	sp_neighbour_learn(n, 1, ip6(-1, 9), mac_of(10), 0, true);
	CU_ASSERT(finds_at(0, ip6(-1, 9), mac_of(9)) && finds_at(1, ip6(-1, 9), mac_of(10)));
}

TEST(a_static_entry_is_where_its_prefix_is)
{
	begin_two();
	add_static(ip4(198, 51, 100, 7), 7);
	add_static(ip4(192, 0, 2, 7), 8);
	sp_neighbours_destroy(nic.neighbours);
	config_end();
	CU_ASSERT(finds_at(1, ip4(198, 51, 100, 7), nic.config.neighbour[0].mac));
	CU_ASSERT(finds_at(0, ip4(198, 51, 100, 7), NULL));
	CU_ASSERT(finds_at(0, ip4(192, 0, 2, 7), nic.config.neighbour[1].mac));
	CU_ASSERT(finds_at(1, ip4(192, 0, 2, 7), NULL));
}

/* What two workers leave behind that both found nothing and then both inserted. */
TEST(copies_of_one_address_become_one_and_the_known_one_stays)
{
	static const enum state orders[3][2] = {{INCOMPLETE, KNOWN}, {KNOWN, INCOMPLETE}, {INCOMPLETE, INCOMPLETE}};
	for (unsigned i = 0; i < 3; i++) {
		struct sp_neighbours *n = begin();
		const uint8_t *ip = ip4(192, 0, 2, 9);
		unsigned used = 0;
		for (unsigned j = 0; j < 2; j++)
			CU_ASSERT_EQUAL(insert(n, 0, ip, orders[i][j], orders[i][j] == KNOWN ? mac_of(9) : NULL, 0,
					       VICTIM_IDLE),
					0);
		for (unsigned j = 0; j < SP_NEIGHBOURS; j++)
			used += state_of(n->entry[j].word) != FREE;
		CU_ASSERT_EQUAL(used, 1);
		CU_ASSERT_TRUE(finds(ip, 0, i < 2 ? mac_of(9) : NULL));
	}
}

static pthread_barrier_t barrier;

static void *insert_same(void *arg)
{
	struct sp_worker w = {.nic = &nic, .index = (uint16_t)(uintptr_t)arg};
	uint8_t ip[16] = {[10] = 0xFF, [11] = 0xFF, [12] = 10};
	for (unsigned i = 1; i <= 200; i++) {
		ip[14] = (uint8_t)(i >> 8), ip[15] = (uint8_t)(i + 1);
		pthread_barrier_wait(&barrier);
		sp_neighbour_request(&w, 0, ip);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

TEST(workers_that_insert_one_address_at_once_keep_one_entry)
{
	pthread_t thread[2];
	config_begin();
	add_address(ip4(10, 0, 0, 1), 8);
	config_end();
	pthread_barrier_init(&barrier, NULL, 2);
	for (uintptr_t i = 0; i < 2; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, insert_same, (void *)i), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&barrier);
	unsigned used = 0;
	for (unsigned i = 0; i < SP_NEIGHBOURS; i++)
		used += state_of(nic.neighbours->entry[i].word) != FREE;
	CU_ASSERT_EQUAL(used, 200);
	CU_ASSERT_TRUE(sent_total >= 200 && sent_total <= 400);
	sp_neighbours_destroy(nic.neighbours);
	nic.neighbours = NULL;
}
