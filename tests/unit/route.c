/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefix, gateway and port: where a packet goes, and what configuration makes no sense. */
#include "../../pipeline/engine.h"
#include "../../pipeline/context.h"
#include "../../pipeline/view.h"
#include "../../pipeline/worker.h"

#include "../lib/ips.h"
#include "../lib/suite.h"

static struct sp_nic_config config;
static struct sp_routes routes;

static void begin(unsigned ports)
{
	memset(&config, 0, sizeof(config));
	config.ports = ports;
}

static void add_at(uint8_t port, const uint8_t *ip, uint8_t prefix)
{
	struct sp_address *a = &config.address[config.addresses++];
	memcpy(a->ip, ip, 16);
	a->prefix = prefix;
	a->port = port;
}

static void add_address(const uint8_t *ip, uint8_t prefix)
{
	add_at(0, ip, prefix);
}

static void end(void)
{
	struct sp_error error = {.text = ""};
	int r = sp_routes_set(&routes, &config, &error);
	if (r)
		printf("# %s: %s\n", error.key, error.text);
	CU_ASSERT_EQUAL_FATAL(r, 0);
}

static bool route_by(unsigned port, const uint8_t *ip, const uint8_t *hop, const uint8_t *source)
{
	struct sp_route got;
	int r = sp_route_find(&routes, ip, &got);
	if (!hop)
		return r == -ENETUNREACH;
	return !r && !memcmp(got.next_hop, hop, 16) && !memcmp(got.source, source, 16) && got.port == port;
}

static bool route(const uint8_t *ip, const uint8_t *hop, const uint8_t *source)
{
	return route_by(0, ip, hop, source);
}

/* Whether the configuration is refused, for that key and with these words. */
static bool refused(const char *key, const char *words)
{
	struct sp_error error = {.text = ""};
	int r = sp_routes_set(&routes, &config, &error);
	if (r == -EINVAL && !strcmp(error.key, key) && strstr(error.text, words))
		return true;
	printf("# %d %s: %s\n", r, error.key, error.text);
	return false;
}

TEST(routes_take_the_longest_local_prefix_then_the_gateway)
{
	begin(1);
	add_address(ip4(10, 0, 0, 1), 8);
	add_address(ip4(10, 1, 0, 1), 16);
	add_address(ip4(192, 0, 2, 1), 31);
	add_address(ip6(0, 1), 64);
	add_address(ip6(0, 0x10001), 112);
	memcpy(config.gateway4, ip4(10, 1, 0, 254), 16);
	memcpy(config.gateway6, ip6(0, 0xFE), 16);
	end();
	CU_ASSERT_TRUE(route(ip4(10, 2, 3, 4), ip4(10, 2, 3, 4), ip4(10, 0, 0, 1)));
	CU_ASSERT_TRUE(route(ip4(10, 1, 3, 4), ip4(10, 1, 3, 4), ip4(10, 1, 0, 1)));
	CU_ASSERT_TRUE(route(ip4(192, 0, 2, 0), ip4(192, 0, 2, 0), ip4(192, 0, 2, 1))); /* RFC 3021 */
	CU_ASSERT_TRUE(route(ip4(198, 51, 100, 7), ip4(10, 1, 0, 254), ip4(10, 1, 0, 1)));
	CU_ASSERT_TRUE(route(ip4(192, 0, 2, 2), ip4(10, 1, 0, 254), ip4(10, 1, 0, 1)));
	CU_ASSERT_TRUE(route(ip6(0, 5), ip6(0, 5), ip6(0, 1)));
	CU_ASSERT_TRUE(route(ip6(0, 0x10005), ip6(0, 0x10005), ip6(0, 0x10001)));
	CU_ASSERT_TRUE(route(ip6(9, 5), ip6(0, 0xFE), ip6(0, 1)));
}

TEST(routes_without_prefix_or_gateway_are_unreachable)
{
	begin(1);
	add_address(ip4(192, 0, 2, 1), 24);
	add_address(ip6(0, 1), 64);
	end();
	CU_ASSERT_TRUE(route(ip4(192, 0, 3, 1), NULL, NULL));
	CU_ASSERT_TRUE(route(ip6(1, 1), NULL, NULL));
	begin(1); /* one family only */
	add_address(ip4(192, 0, 2, 1), 24);
	memcpy(config.gateway4, ip4(192, 0, 2, 254), 16);
	end();
	CU_ASSERT_TRUE(route(ip4(198, 51, 100, 1), ip4(192, 0, 2, 254), ip4(192, 0, 2, 1)));
	CU_ASSERT_TRUE(route(ip6(1, 1), NULL, NULL));
	CU_ASSERT_TRUE(route(ip6(-1, 1), NULL, NULL));
}

TEST(link_local_gateway_is_reached_from_a_global_address)
{
	begin(1);
	add_address(ip4(192, 0, 2, 1), 24);
	add_address(ip6(0, 1), 64);
	memcpy(config.gateway6, ip6(-1, 1), 16);
	end();
	CU_ASSERT_TRUE(route(ip6(7, 7), ip6(-1, 1), ip6(0, 1)));
	add_address(ip6(-1, 0x99), 64);
	end();
	CU_ASSERT_TRUE(route(ip6(7, 7), ip6(-1, 1), ip6(-1, 0x99)));
}

TEST(nobody_is_reached_at_group_and_reserved_addresses)
{
	begin(1);
	add_address(ip4(192, 0, 2, 1), 24);
	add_address(ip4(10, 0, 0, 1), 0); /* no prefix: the address alone */
	add_address(ip6(0, 1), 64);
	memcpy(config.gateway4, ip4(192, 0, 2, 254), 16);
	memcpy(config.gateway6, ip6(0, 0xFE), 16);
	end();
	CU_ASSERT_TRUE(route(ip4(192, 0, 2, 255), NULL, NULL));
	CU_ASSERT_TRUE(route(ip4(192, 0, 2, 0), NULL, NULL));
	CU_ASSERT_TRUE(route(ip4(255, 255, 255, 255), NULL, NULL));
	CU_ASSERT_TRUE(route(ip4(224, 0, 0, 1), NULL, NULL));
	CU_ASSERT_TRUE(route(ip4(127, 0, 0, 1), NULL, NULL));
	CU_ASSERT_TRUE(route(ip4(0, 0, 0, 0), NULL, NULL));
	uint8_t none[16] = {0}, loopback[16] = {[15] = 1}, group[16] = {0xFF, 2, [15] = 1};
	CU_ASSERT_TRUE(route(none, NULL, NULL));
	CU_ASSERT_TRUE(route(loopback, NULL, NULL));
	CU_ASSERT_TRUE(route(group, NULL, NULL));
	CU_ASSERT_TRUE(route(ip4(10, 0, 0, 2), ip4(192, 0, 2, 254), ip4(192, 0, 2, 1)));
}

TEST(own_addresses_are_reached_by_the_loop_from_themselves)
{
	begin(2);
	add_at(0, ip4(192, 0, 2, 1), 24);
	add_at(1, ip4(10, 0, 0, 1), 0);
	add_at(1, ip6(0, 1), 64);
	memcpy(config.gateway4, ip4(192, 0, 2, 254), 16);
	end();
	CU_ASSERT_TRUE(route_by(SP_PORT_LOOP, ip4(192, 0, 2, 1), ip4(192, 0, 2, 1), ip4(192, 0, 2, 1)));
	CU_ASSERT_TRUE(route_by(SP_PORT_LOOP, ip4(10, 0, 0, 1), ip4(10, 0, 0, 1), ip4(10, 0, 0, 1)));
	CU_ASSERT_TRUE(route_by(SP_PORT_LOOP, ip6(0, 1), ip6(0, 1), ip6(0, 1)));
}

TEST(the_port_is_that_of_the_longest_prefix)
{
	begin(3);
	add_at(0, ip4(10, 0, 0, 1), 8);
	add_at(1, ip4(10, 1, 0, 1), 16);
	add_at(2, ip4(10, 1, 2, 1), 24);
	add_at(1, ip6(0, 1), 64);
	add_at(2, ip6(1, 1), 64);
	end();
	CU_ASSERT_TRUE(route_by(0, ip4(10, 9, 9, 9), ip4(10, 9, 9, 9), ip4(10, 0, 0, 1)));
	CU_ASSERT_TRUE(route_by(1, ip4(10, 1, 9, 9), ip4(10, 1, 9, 9), ip4(10, 1, 0, 1)));
	CU_ASSERT_TRUE(route_by(2, ip4(10, 1, 2, 9), ip4(10, 1, 2, 9), ip4(10, 1, 2, 1)));
	CU_ASSERT_TRUE(route_by(1, ip6(0, 9), ip6(0, 9), ip6(0, 1)));
	CU_ASSERT_TRUE(route_by(2, ip6(1, 9), ip6(1, 9), ip6(1, 1)));
	/* What is on the link of one port is not on another's, even if a shorter prefix there holds it. */
	CU_ASSERT_PTR_NULL(sp_route_source(&routes, 0, ip4(10, 1, 2, 9)));
	CU_ASSERT_PTR_NULL(sp_route_source(&routes, 1, ip4(10, 1, 2, 9)));
	CU_ASSERT_PTR_NOT_NULL(sp_route_source(&routes, 2, ip4(10, 1, 2, 9)));
}

TEST(each_gateway_is_on_the_port_of_its_prefix)
{
	begin(2);
	add_at(0, ip4(192, 0, 2, 1), 24);
	add_at(1, ip4(198, 51, 100, 1), 24);
	add_at(0, ip6(0, 1), 64);
	add_at(1, ip6(1, 1), 64);
	memcpy(config.gateway4, ip4(198, 51, 100, 254), 16);
	memcpy(config.gateway6, ip6(0, 0xFE), 16);
	end();
	CU_ASSERT_TRUE(route_by(1, ip4(203, 0, 113, 5), ip4(198, 51, 100, 254), ip4(198, 51, 100, 1)));
	CU_ASSERT_TRUE(route_by(0, ip4(192, 0, 2, 5), ip4(192, 0, 2, 5), ip4(192, 0, 2, 1)));
	CU_ASSERT_TRUE(route_by(0, ip6(9, 5), ip6(0, 0xFE), ip6(0, 1)));
	CU_ASSERT_TRUE(route_by(1, ip6(1, 5), ip6(1, 5), ip6(1, 1)));
	memcpy(config.gateway6, ip6(-1, 0xFE), 16); /* link-local: it must be said which link */
	end();
	CU_ASSERT_TRUE(route_by(0, ip6(9, 5), ip6(-1, 0xFE), ip6(0, 1)));
	config.gateway6_port = 1;
	end();
	CU_ASSERT_TRUE(route_by(1, ip6(9, 5), ip6(-1, 0xFE), ip6(1, 1)));
	CU_ASSERT_TRUE(route_by(1, ip6(-1, 0xFE), ip6(-1, 0xFE), ip6(1, 1)));
	CU_ASSERT_TRUE(route_by(0, ip6(-1, 0xFD), ip6(-1, 0xFD), ip6(0, 1)));
}

TEST(invalid_prefixes_are_refused)
{
	begin(1);
	add_address(ip4(192, 0, 2, 1), 33);
	CU_ASSERT_TRUE(refused("ip", "192.0.2.1: the prefix is too long"));
	config.address[0].prefix = 32;
	end();
	add_address(ip6(0, 1), 129);
	CU_ASSERT_TRUE(refused("ip", "2001:db8::1: the prefix is too long"));
	config.address[1].prefix = 128;
	end();
	config.addresses = SP_MAX_ADDRESSES + 1;
	CU_ASSERT_TRUE(refused("ip", "more than"));
}

TEST(addresses_on_ports_that_do_not_exist_are_refused)
{
	begin(2);
	add_at(1, ip4(192, 0, 2, 1), 24);
	end();
	add_at(2, ip4(198, 51, 100, 1), 24);
	CU_ASSERT_TRUE(refused("ip", "198.51.100.1: there is no such port"));
	begin(0); /* a NIC without ports has addresses all the same */
	add_at(0, ip4(192, 0, 2, 1), 24);
	end();
	add_at(1, ip4(198, 51, 100, 1), 24);
	CU_ASSERT_TRUE(refused("ip", "no such port"));
}

TEST(one_prefix_on_two_ports_is_refused)
{
	begin(2);
	add_at(0, ip4(192, 0, 2, 1), 24);
	add_at(1, ip4(192, 0, 2, 2), 24);
	CU_ASSERT_TRUE(refused("ip", "192.0.2.2: another port has the same prefix"));
	config.address[1].prefix = 25; /* the longer one goes first */
	end();
	CU_ASSERT_TRUE(route_by(1, ip4(192, 0, 2, 9), ip4(192, 0, 2, 9), ip4(192, 0, 2, 2)));
	CU_ASSERT_TRUE(route_by(0, ip4(192, 0, 2, 200), ip4(192, 0, 2, 200), ip4(192, 0, 2, 1)));
	config.address[1].prefix = 24;
	config.address[1].port = 0; /* two addresses of one network on one port are fine */
	end();
	begin(2);
	add_at(0, ip4(192, 0, 2, 1), 24);
	add_at(1, ip4(192, 0, 2, 1), 32);
	CU_ASSERT_TRUE(refused("ip", "192.0.2.1: is another port's address already"));
	begin(2); /* every link has this one */
	add_at(0, ip6(-1, 1), 64);
	add_at(1, ip6(-1, 2), 64);
	end();
	CU_ASSERT_TRUE(route_by(0, ip6(-1, 9), ip6(-1, 9), ip6(-1, 1)));
}

TEST(gateways_that_cannot_be_reached_are_refused)
{
	begin(2);
	add_at(0, ip4(192, 0, 2, 1), 24);
	memcpy(config.gateway4, ip4(10, 0, 0, 1), 16);
	CU_ASSERT_TRUE(refused("gateway", "10.0.0.1: is on no prefix of the NIC"));
	memcpy(config.gateway4, ip4(192, 0, 2, 1), 16);
	CU_ASSERT_TRUE(refused("gateway", "192.0.2.1: is no other station's address"));
	memcpy(config.gateway4, ip4(192, 0, 2, 255), 16);
	CU_ASSERT_TRUE(refused("gateway", "is no other station's address"));
	memcpy(config.gateway4, ip4(192, 0, 2, 254), 16);
	end();
	memcpy(config.gateway6, ip6(0, 1), 16);
	CU_ASSERT_TRUE(refused("gateway", "2001:db8::1: is on no prefix of the NIC"));
	memcpy(config.gateway6, ip6(-1, 1), 16);
	CU_ASSERT_TRUE(refused("gateway", "is on no prefix of the NIC")); /* there is no IPv6 address */
	add_at(0, ip6(0, 2), 64);
	end();
	config.gateway6_port = 1; /* nor any on that port */
	CU_ASSERT_TRUE(refused("gateway", "is on no prefix of the NIC"));
}
