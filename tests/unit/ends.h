/* SPDX-License-Identifier: BSD-3-Clause */
/* Two NICs with a perfect link between them and a device on each, three ways: in virtual time; with NICs that have
 * threads of their own; and attached to such NICs, through their sockets. RULE and TESTS make three of each rule. */
#ifndef TESTS_ENDS_H
#define TESTS_ENDS_H

#include "../../host-api/device.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"

#include <errno.h>
#include <unistd.h>

#include "pair.h"
#include "../lib/suite.h"

/* How the NICs of the next ends_make() run. */
static enum { VIRTUAL, THREADS, ATTACHED } mode;
#define PATIENCE (60 * SP_SEC)

/* Virtual time has run as far as it should; with threads, what is to come may take its time. */
#define WAIT_FOR(condition)                                                                                            \
	do {                                                                                                           \
		const sp_time wait_until = sp_clock() + PATIENCE;                                                      \
		while (mode != VIRTUAL && !(condition) && sp_clock() < wait_until)                                     \
			usleep(100);                                                                                   \
		CU_ASSERT(condition);                                                                                  \
	} while (0)

struct ends {
	struct sp_nic *nic;
	struct sp_server *server;
	struct sp_dev *dev;
};

static struct ends ends[2];
static struct sp_link *link_;
static struct sp_world *world;
static struct pair pair;

static inline void bail(const struct sp_error *error)
{
	printf("Bail out! %s: %s\n", error->key, error->text);
	exit(1);
}

static inline void open_device(struct ends *e, unsigned index)
{
	struct sp_server_config server = {.group = -1};
	struct sp_error error = {.text = "no device"};
	char path[100];

	if (mode == VIRTUAL) {
		if (sp_nic_dev(e->nic, index == 1, &e->dev) || sp_world_add_nic(world, e->nic))
			bail(&error);
		return;
	}
	if (sp_nic_start(e->nic))
		bail(&error);
	if (mode == THREADS) {
		if (sp_nic_dev(e->nic, false, &e->dev))
			bail(&error);
		return;
	}
	if (getenv("TMPDIR") && chdir(getenv("TMPDIR"))) /* paths of sockets must be short */
		bail(&error);
	snprintf(path, sizeof(path), "./ends-%d-%u.sock", (int)getpid(), index);
	server.path = path;
	if (sp_server_start(e->nic, &server, &error, &e->server) || sp_attach(path, &e->dev))
		bail(&error);
	strcat(path, ".lock");
	unlink(path); /* nobody else wants the name */
}

static inline void make_end(struct ends *e, unsigned index)
{
	static struct sp_nic_config config;
	struct sp_error error = {.text = ""};

	memset(&config, 0, sizeof(config));
	memset(e, 0, sizeof(*e));
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *ip = i ? config.neighbour[0].ip : config.address[0].ip;

		ip[10] = ip[11] = 0xFF;
		ip[12] = 10;
		ip[15] = (uint8_t)(1 + (index ^ i));
	}
	config.address[0].prefix = 24;
	config.addresses = config.neighbours = 1;
	memcpy(config.mac, (uint8_t[]){2, 0, 0, 0, 0, (uint8_t)(1 + index)}, 6);
	memcpy(config.neighbour[0].mac, (uint8_t[]){2, 0, 0, 0, 0, (uint8_t)(2 - index)}, 6);
	config.seed = 7 + index;
	config.ports = 1;
	config.port[0] = (struct sp_port_config){.ops = &sp_link_ops, .ops_arg = sp_link_port(link_, index)};
	if (mode != VIRTUAL) {
		config.port[0] = (struct sp_port_config){.ops = &pair_ops, .ops_arg = &pair.end[index]};
		config.workers = 2;
	}
	if (sp_nic_create(&config, &error, &e->nic))
		bail(&error);
	open_device(e, index);
}

static inline void ends_make(void)
{
	const struct sp_link_direction wire = {.bandwidth = 10000000000, .delay = 50 * SP_US};
	const struct sp_link_config config = {.direction = {wire, wire}, .seed = 3};

	if (sp_eal_init(0, NULL, NULL) || sp_link_create(&config, &link_) || sp_world_create(&world)) {
		printf("Bail out! no link\n");
		exit(1);
	}
	pair_open(&pair);
	make_end(&ends[0], 0);
	make_end(&ends[1], 1);
}

static inline void run(sp_time time)
{
	if (mode != VIRTUAL) /* its threads run anyway */
		return;
	CU_ASSERT_EQUAL(sp_world_run(world, sp_world_now(world) + time, NULL, NULL), 0);
}

/* Nothing of the library's own is left. */
static inline void ends_unmake(void)
{
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_PTR_NULL(ends[i].dev->regions);
		sp_dev_close(ends[i].dev);
		sp_server_stop(ends[i].server);
		sp_nic_stop(ends[i].nic); /* both before one goes: the wire is theirs */
	}
	sp_nic_destroy(ends[0].nic);
	sp_nic_destroy(ends[1].nic);
	pair_close(&pair);
	sp_world_destroy(world);
	sp_link_destroy(link_);
}

/* The same rule three times. */
#define TEST_EACH_WAY(rule)                                                                                            \
	static void rule(void);                                                                                        \
	SUITE_RULE(rule##_virtual, #rule, NULL)                                                                        \
	{                                                                                                              \
		mode = VIRTUAL;                                                                                        \
		rule();                                                                                                \
	}                                                                                                              \
	TEST(rule##_with_threads)                                                                                      \
	{                                                                                                              \
		mode = THREADS;                                                                                        \
		rule();                                                                                                \
	}                                                                                                              \
	TEST(rule##_attached)                                                                                          \
	{                                                                                                              \
		mode = ATTACHED;                                                                                       \
		rule();                                                                                                \
	}                                                                                                              \
	static void rule(void)

#endif
