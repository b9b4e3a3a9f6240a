/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdbool.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "../error.h"
#include "../limits.h"
#include "../process.h"
#include "route.h"

enum { ANY_PORT = -1 };

bool sp_ip_is_ipv4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	return !memcmp(ip, mapped, 12);
}

static bool is_link_local(const uint8_t ip[16])
{
	return ip[0] == 0xFE && (ip[1] & 0xC0) == 0x80;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i])
			return false;
	return true;
}

static bool in_prefix(const uint8_t a[16], const uint8_t b[16], unsigned bits)
{
	unsigned rest = bits % 8;
	return !memcmp(a, b, bits / 8) && (!rest || !((a[bits / 8] ^ b[bits / 8]) >> (8 - rest)));
}

/* True if all bits of ip from `bits` on are `value`. */
static bool host_part_is(const uint8_t ip[16], unsigned bits, bool value)
{
	for (unsigned i = bits; i < 128; i++)
		if ((ip[i / 8] >> (7 - i % 8) & 1) != value)
			return false;
	return true;
}

static const struct sp_route_own *own_at(const struct sp_routes *r, const uint8_t ip[16])
{
	for (unsigned i = 0; i < r->owns; i++)
		if (!memcmp(r->own[i].ip, ip, 16))
			return &r->own[i];
	return NULL;
}

bool sp_route_is_host(const struct sp_routes *r, const uint8_t ip[16])
{
	if (own_at(r, ip))
		return false;
	if (!sp_ip_is_ipv4(ip))
		return ip[0] != 0xFF && !(is_zero(ip, 15) && ip[15] <= 1);
	if (!ip[12] || ip[12] == 127 || ip[12] >= 224)
		return false;
	for (unsigned i = 0; i < r->owns; i++) {
		const struct sp_route_own *o = &r->own[i];
		if (sp_ip_is_ipv4(o->ip) && o->bits < 127 && in_prefix(ip, o->ip, o->bits) &&
		    (host_part_is(ip, o->bits, true) || host_part_is(ip, o->bits, false)))
			return false; /* broadcast address, new (all ones) or old (all zeros) */
	}
	return true;
}

/* The port's own address with the longest prefix that holds ip; NULL: none. */
static const struct sp_route_own *own_for(const struct sp_routes *r, int port, const uint8_t ip[16])
{
	const struct sp_route_own *best = NULL;
	for (unsigned i = 0; i < r->owns; i++) {
		const struct sp_route_own *o = &r->own[i];
		if ((port == ANY_PORT || o->port == port) && in_prefix(ip, o->ip, o->bits) &&
		    (!best || o->bits > best->bits))
			best = o;
	}
	for (unsigned i = 0; i < r->owns && !best && is_link_local(ip); i++)
		if ((port == ANY_PORT || r->own[i].port == port) && !sp_ip_is_ipv4(r->own[i].ip))
			best = &r->own[i];
	return best;
}

/* Every link has the link-local prefix; only the gateway's link is known. */
static const struct sp_route_own *own_towards(const struct sp_routes *r, const uint8_t ip[16])
{
	bool is_gateway = is_link_local(ip) && !memcmp(ip, r->gateway[false], 16);
	return own_for(r, is_gateway ? r->gateway_port[false] : ANY_PORT, ip);
}

int sp_route_find(const struct sp_routes *r, const uint8_t ip[16], struct sp_route *route)
{
	const struct sp_route_own *own = own_at(r, ip);
	const uint8_t *hop = ip;
	if (own) {
		*route = (struct sp_route){.port = SP_PORT_LOOP};
		memcpy(route->source, own->ip, 16);
		memcpy(route->next_hop, own->ip, 16);
		return 0;
	}
	if (!sp_route_is_host(r, ip))
		return -ENETUNREACH;
	own = own_towards(r, ip);
	if (!own) {
		hop = r->gateway[sp_ip_is_ipv4(ip)];
		if (is_zero(hop, 16))
			return -ENETUNREACH;
		own = own_towards(r, hop); /* not NULL: checked by sp_routes_set() */
	}
	memmove(route->next_hop, hop, 16); /* ip may point into *route */
	memcpy(route->source, own->ip, 16);
	route->port = own->port;
	return 0;
}

uint16_t sp_route_port(const struct sp_routes *r, const uint8_t ip[16])
{
	const struct sp_route_own *own = own_towards(r, ip);
	return own ? own->port : 0;
}

const uint8_t *sp_route_source(const struct sp_routes *r, uint16_t port, const uint8_t ip[16])
{
	const struct sp_route_own *own = own_for(r, port, ip);
	const struct sp_route_own *first = own_for(r, ANY_PORT, ip);
	/* A longer prefix on another port wins, except for link-local addresses, which each link has. */
	if (own && first->bits > own->bits && !is_link_local(ip))
		return NULL;
	return own ? own->ip : NULL;
}

/* ---- configuration ---- */

/* Rejects an own address or a gateway. */
static int refuse(struct sp_error *error, const char *key, const uint8_t ip[16], const char *what)
{
	char text[INET6_ADDRSTRLEN] = "";
	inet_ntop(sp_ip_is_ipv4(ip) ? AF_INET : AF_INET6, sp_ip_is_ipv4(ip) ? ip + 12 : ip, text, sizeof(text));
	return sp_error_set(error, EINVAL, key, "%s: %s", text, what);
}

static int add_own(struct sp_routes *r, const struct sp_address *a, unsigned ports, struct sp_error *error)
{
	unsigned base = sp_ip_is_ipv4(a->ip) ? 96 : 0;
	struct sp_route_own own = {.port = a->port};
	if (a->prefix > 128 - base)
		return refuse(error, "ip", a->ip, "the prefix is too long");
	own.bits = (uint8_t)(a->prefix ? base + a->prefix : 128);
	memcpy(own.ip, a->ip, 16);
	if (a->port && a->port >= ports)
		return refuse(error, "ip", a->ip, "there is no such port");
	for (unsigned i = 0; i < r->owns; i++) {
		const struct sp_route_own *o = &r->own[i];
		if (o->port == own.port)
			continue;
		if (!memcmp(o->ip, own.ip, 16))
			return refuse(error, "ip", a->ip, "is another port's address already");
		/* Two ports with one prefix: only one would ever send. */
		if (o->bits == own.bits && in_prefix(o->ip, own.ip, own.bits) && !is_link_local(own.ip))
			return refuse(error, "ip", a->ip, "another port has the same prefix");
	}
	r->own[r->owns++] = own;
	return 0;
}

static int check_gateway(const struct sp_routes *r, bool is4, struct sp_error *error)
{
	const uint8_t *ip = r->gateway[is4];
	const struct sp_route_own *own;
	if (is_zero(ip, 16))
		return 0;
	if (sp_ip_is_ipv4(ip) != is4)
		return refuse(error, "gateway", ip, "is of the other IP version");
	if (!sp_route_is_host(r, ip))
		return refuse(error, "gateway", ip, "is no other station's address");
	own = own_towards(r, ip);
	if (!own)
		return refuse(error, "gateway", ip, "is on no prefix of the NIC");
	if (r->gateway_port[is4] != ANY_PORT && own->port != r->gateway_port[is4])
		return refuse(error, "gateway", ip, "is on another port's prefix");
	return 0;
}

int sp_routes_set(struct sp_routes *r, const struct sp_nic_config *config, struct sp_error *error)
{
	int result = 0;
	memset(r, 0, sizeof(*r));
	if (config->addresses > SP_MAX_ADDRESSES)
		return sp_error_set(error, EINVAL, "ip", "more than %d addresses", SP_MAX_ADDRESSES);
	for (unsigned i = 0; i < config->addresses && !result; i++)
		result = add_own(r, &config->address[i], config->ports, error);
	if (result)
		return result;
	memcpy(r->gateway[false], config->gateway6, 16);
	memcpy(r->gateway[true], config->gateway4, 16);
	r->gateway_port[true] = ANY_PORT;
	r->gateway_port[false] = is_link_local(config->gateway6) ? config->gateway6_port : ANY_PORT;
	result = check_gateway(r, true, error);
	return result ? result : check_gateway(r, false, error);
}
