/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

void __attribute__((format(printf, 3, 4))) sim_expect(struct sim *s, bool right, const char *format, ...)
{
	va_list list;

	if (right || s->text[0])
		return;
	int n = snprintf(s->text, sizeof(s->text), "at %.9f s: ", s->world ? (double)sp_world_now(s->world) / 1e12 : 0);
	va_start(list, format);
	vsnprintf(s->text + n, sizeof(s->text) - (size_t)n, format, list);
	va_end(list);
}

uint64_t sim_below(struct sim *s, uint64_t bound)
{
	return sp_random_next(&s->random) % bound;
}

void sim_ip(bool six, unsigned nic, uint8_t ip[16])
{
	const uint8_t last = (uint8_t)(nic + 1);

	if (six)
		memcpy(ip, (const uint8_t[]){0xFD, 0, 0, 7, [15] = last}, 16);
	else
		memcpy(ip, (const uint8_t[]){[10] = 0xFF, 0xFF, 10, 7, 0, last}, 16);
}

void sim_begin(struct sim *s, size_t size, const struct seeds *seeds)
{
	memset(s, 0, size);
	s->seed = seeds->seed;
	sp_random_seed(&s->random, s->seed, 0);
}

void sim_open(struct sim *s, struct sp_link_config link)
{
	link.direction[0] = s->link[0];
	link.direction[1] = s->link[1];
	link.seed = sp_random_next(&s->random);
	if (sp_link_create(&link, &s->under) || sp_world_create(&s->world))
		abort();
}

void sim_nic(struct sim *s, unsigned e, uint32_t mtu, uint16_t workers, enum sim_ip ips)
{
	struct sp_nic_config config = {.mtu = mtu,
				       .workers = workers,
				       .seed = sp_random_next(&s->random),
				       .ports = 1,
				       .port = {{.ops = &sp_link_ops, .ops_arg = sp_link_port(s->under, e)}},
				       .mac = {2, 0, 0, 0, 7, (uint8_t)(e + 1)}};
	struct sp_error error = {.text = ""};

	for (unsigned six = 2; six-- > 0;) {
		if (!(ips & (six ? SIM_IP6 : SIM_IP4)))
			continue;
		sim_ip(six, e, config.address[config.addresses].ip);
		config.address[config.addresses++].prefix = six ? 64 : 24;
		sim_ip(six, !e, config.neighbour[config.neighbours].ip);
		memcpy(config.neighbour[config.neighbours++].mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(!e + 1)},
		       6);
	}
	snprintf(config.name, sizeof(config.name), "sim%u", e);
	if (sp_nic_create(&config, &error, &s->nic[e]) || sp_world_add_nic(s->world, s->nic[e])) {
		printf("# %s\n", error.text);
		abort();
	}
}

void sim_close(struct sim *s)
{
	for (unsigned e = 0; e < 2; e++)
		sp_nic_destroy(s->nic[e]);
	sp_world_destroy(s->world);
	s->world = NULL;
	sp_link_destroy(s->under);
}
