/* SPDX-License-Identifier: BSD-3-Clause */
#include "two_nics.h"

enum two_mode two_mode;

struct two_end two_ends[2];

struct sp_link *two_link;

struct sp_world *two_world;

struct cable two_cable;

void two_bail(const struct sp_error *error)
{
	printf("Bail out! %s: %s\n", error->key, error->text);
	exit(1);
}

static void open_device(struct two_end *e, unsigned index)
{
	struct sp_server_config server = {.group = -1};
	struct sp_error error = {.text = "no device"};
	char path[100];

	if (two_mode == VIRTUAL) {
		if (sp_nic_dev(e->nic, index == 1, &e->dev) || sp_world_add_nic(two_world, e->nic))
			two_bail(&error);
		return;
	}
	if (sp_nic_start(e->nic))
		two_bail(&error);
	if (two_mode == THREADS) {
		if (sp_nic_dev(e->nic, false, &e->dev))
			two_bail(&error);
		return;
	}
	if (getenv("TMPDIR") && chdir(getenv("TMPDIR"))) /* paths of sockets must be short */
		two_bail(&error);
	snprintf(path, sizeof(path), "./ends-%d-%u.sock", (int)getpid(), index);
	server.path = path;
	if (sp_server_start(e->nic, &server, &error, &e->server) || sp_attach(path, &e->dev))
		two_bail(&error);
	strcat(path, ".lock");
	unlink(path); /* nobody else wants the name */
}

static void make_end(struct two_end *e, unsigned index)
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
	config.port[0] = (struct sp_port_config){.ops = &sp_link_ops, .ops_arg = sp_link_port(two_link, index)};
	if (two_mode != VIRTUAL) {
		config.port[0] = (struct sp_port_config){.ops = &cable_ops, .ops_arg = &two_cable.end[index]};
		config.workers = 2;
	}
	if (sp_nic_create(&config, &error, &e->nic))
		two_bail(&error);
	open_device(e, index);
}

void two_make(void)
{
	const struct sp_link_direction wire = {.bandwidth = 10000000000, .delay = 50 * SP_US};
	const struct sp_link_config config = {.direction = {wire, wire}, .seed = 3};

	if (sp_eal_init(0, NULL, NULL) || sp_link_create(&config, &two_link) || sp_world_create(&two_world)) {
		printf("Bail out! no link\n");
		exit(1);
	}
	cable_open(&two_cable);
	make_end(&two_ends[0], 0);
	make_end(&two_ends[1], 1);
}

void two_run(sp_time time)
{
	if (two_mode != VIRTUAL) /* its threads run anyway */
		return;
	CU_ASSERT_EQUAL(sp_world_run(two_world, sp_world_now(two_world) + time, NULL, NULL), 0);
}

void two_unmake(void)
{
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_PTR_NULL(two_ends[i].dev->regions);
		sp_dev_close(two_ends[i].dev);
		sp_server_stop(two_ends[i].server);
		sp_nic_stop(two_ends[i].nic); /* both before one goes: the wire is theirs */
	}
	sp_nic_destroy(two_ends[0].nic);
	sp_nic_destroy(two_ends[1].nic);
	cable_close(&two_cable);
	sp_world_destroy(two_world);
	sp_link_destroy(two_link);
}
