/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbours of one network, of many threads, and of several ports. */
#include "neighbour_nic.h"

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

#define HOSTS 600u /* more than fit: entries change hands all the time */

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
