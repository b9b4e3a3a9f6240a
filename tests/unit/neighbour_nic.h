/* SPDX-License-Identifier: BSD-3-Clause */
/* A neighbour table of a NIC made by hand, and a port that remembers what is sent. Includes the code under test. */
#ifndef TESTS_NEIGHBOUR_NIC_H
#define TESTS_NEIGHBOUR_NIC_H

#include "../../pipeline/tx/neighbour.c"
#include "../lib/ips.h"
#include "../lib/suite.h"
#include <pthread.h>

/* ---- a NIC made by hand, and a port that remembers ---- */

static struct sp_port ports[2];
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
	nic.port = ports;
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

static inline void request(const uint8_t *ip, sp_time now)
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

#endif
