/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ARP (RFC 826), neighbour discovery (RFC 4861) and echo (RFC 792, RFC 4443) for the NIC's own addresses.
 *
 * An answer is built in place from the request: VLAN tags, DSCP and data are kept. There is at most one answer, never
 * larger than the request (except for padding to the minimum frame), so the NIC amplifies no flood. A packet that fails
 * any check is left alone: false, and it takes the normal path. So do the answers of others, once the NIC has learnt
 * from them, where there is an exception port: a kernel behind it that has the same addresses asks as well.
 *
 * ARP and neighbour discovery concern one link: requests, answers and learning use the port's addresses only. Echo uses
 * any address of the NIC (weak host model); the reply leaves by the port that received the request.
 */
#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>

#include "../../handlers/wire/roce.h"
#include "answer.h"
#include "../engine.h"
#include "neighbour.h"
#include "../ports/port.h"
#include "transmit.h"
#include "../worker.h"

enum {
	TYPE_ARP = 0x0806,
	TYPE_IP4 = 0x0800,
	TYPE_IP6 = 0x86DD,
	ARP_LEN = 28,
	ARP_REQUEST = 1,
	ARP_REPLY = 2,
	IP4_LEN = 20,
	IP6_LEN = 40,
	PROTOCOL_ICMP = 1,
	PROTOCOL_ICMP6 = 58,
	ECHO_LEN = 8,
	ECHO_REPLY = 0,
	ECHO = 8,
	ECHO6 = 128,
	ECHO6_REPLY = 129,
	SOLICITATION = 135,
	ADVERTISEMENT = 136,
	ND_LEN = 24,
	OPTION_SOURCE_MAC = 1,
	OPTION_TARGET_MAC = 2,
	OPTION_LEN = 8,
	ND_HOP_LIMIT = 255, /* proves that no router has forwarded it */
	ECHO_TTL = 64,
	ETHERNET_MIN = 60,
	ADVERTISED_SOLICITED = 0x40,
	ADVERTISED_OVERRIDE = 0x20,
};

static unsigned get16(const uint8_t *b)
{
	return (unsigned)b[0] << 8 | b[1];
}

static void put16(uint8_t *to, unsigned value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}

static bool is_host(const uint8_t mac[6])
{
	static const uint8_t none[6];
	return !(mac[0] & 1) && memcmp(mac, none, 6);
}

static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

static void map4(uint8_t ip[16], const uint8_t ip4[4])
{
	memcpy(ip, mapped, 12);
	memcpy(ip + 12, ip4, 4);
}

static bool is_own(const struct sp_nic *nic, const uint8_t ip[16])
{
	for (unsigned i = 0; i < nic->config.addresses; i++)
		if (!memcmp(nic->config.address[i].ip, ip, 16))
			return true;
	return false;
}

static bool is_own4(const struct sp_nic *nic, const uint8_t ip4[4])
{
	uint8_t ip[16];
	map4(ip, ip4);
	return is_own(nic, ip);
}

/* ::ffff:a.b.c.d is invalid on the wire (RFC 4038, 4.2); internally it means the NIC's IPv4 address. */
static bool is_own6(const struct sp_nic *nic, const uint8_t ip[16])
{
	return memcmp(ip, mapped, 12) && is_own(nic, ip);
}

/* True for the NIC's address on that port. Answering for another port's address would teach a wrong MAC. */
static bool is_at(const struct sp_nic *nic, uint16_t port, const uint8_t ip[16])
{
	for (unsigned i = 0; i < nic->config.addresses; i++)
		if (!memcmp(nic->config.address[i].ip, ip, 16))
			return nic->config.address[i].port == port;
	return false;
}

static bool is_at4(const struct sp_nic *nic, uint16_t port, const uint8_t ip4[4])
{
	uint8_t ip[16];
	map4(ip, ip4);
	return is_at(nic, port, ip);
}

static bool is_at6(const struct sp_nic *nic, uint16_t port, const uint8_t ip[16])
{
	return memcmp(ip, mapped, 12) && is_at(nic, port, ip);
}

static bool is_own_mac(const struct sp_nic *nic, const uint8_t mac[6])
{
	for (unsigned i = 0; i < RTE_MAX(nic->ports, 1u); i++)
		if (!memcmp(nic->port[i].mac, mac, 6))
			return true;
	return false;
}

static bool is_unspecified6(const uint8_t ip[16])
{
	static const uint8_t none[16];
	return !memcmp(ip, none, 16);
}

static bool is_multicast6(const uint8_t ip[16])
{
	return ip[0] == 0xFF;
}

/* True for a unicast source: the answer reaches one host. */
static bool is_source4(const struct sp_nic *nic, const uint8_t ip4[4])
{
	if (!ip4[0] || ip4[0] == 127 || ip4[0] >= 224)
		return false;
	for (unsigned i = 0; i < nic->config.addresses; i++) {
		const struct sp_address *a = &nic->config.address[i];
		if (memcmp(a->ip, mapped, 12))
			continue;
		uint32_t own = sp_load_be32(a->ip + 12);
		uint32_t ip = sp_load_be32(ip4);
		uint32_t host = a->prefix && a->prefix < 31 ? UINT32_MAX >> a->prefix : 0;
		if (ip == own || (host && !((ip ^ own) & ~host) && (!(ip & host) || (ip & host) == host)))
			return false; /* own address, or its network's broadcast addresses */
	}
	return true;
}

static bool is_source6(const struct sp_nic *nic, const uint8_t ip[16])
{
	static const uint8_t loopback[16] = {[15] = 1};
	return !is_multicast6(ip) && !is_unspecified6(ip) && memcmp(ip, mapped, 12) && memcmp(ip, loopback, 16) &&
	       !is_own(nic, ip);
}

/* Sends the len bytes at p->frame and sets the MACs in their first l3 bytes. Bytes behind them become padding. */
static void answer(struct sp_worker *w, struct sp_packet *p, const uint8_t to[6], uint32_t len)
{
	memmove(p->frame, to, 6); /* `to` may point into this frame */
	memcpy(p->frame + 6, w->nic->port[p->port].mac, 6);
	if (len < ETHERNET_MIN && p->frame_len > len) {
		uint32_t padded = RTE_MIN(p->frame_len, (uint32_t)ETHERNET_MIN);
		memset(p->frame + len, 0, padded - len);
		len = padded;
	}
	sp_transmit_frame(w, p->port, p->frame, len); /* if the queue is full, the peer asks again */
}

static bool local_arp(struct sp_worker *w, struct sp_packet *p)
{
	static const uint8_t ethernet_ipv4[6] = {0, 1, 0x08, 0, 6, 4}; /* types and lengths of addresses */
	struct sp_nic *nic = w->nic;
	uint8_t *arp = p->data, *sender_mac = arp + 8, *sender = arp + 14, *target_mac = arp + 18, *target = arp + 24;
	static const uint8_t nobody[4];
	uint8_t ip[16], mac[6], asked[4];
	if (p->len < ARP_LEN || memcmp(arp, ethernet_ipv4, 6))
		return false;
	unsigned operation = get16(arp + 6);
	bool probe = !memcmp(sender, nobody, 4); /* duplicate address check (RFC 5227, 1.1) */
	if ((operation != ARP_REQUEST && operation != ARP_REPLY) || !is_host(sender_mac) ||
	    is_own_mac(nic, sender_mac) || (!probe && !is_source4(nic, sender)))
		return false;
	bool mine = is_at4(nic, p->port, target);
	if (!probe) {
		map4(ip, sender);
		sp_neighbour_learn(nic->neighbours, p->port, ip, sender_mac, w->now, mine && operation == ARP_REQUEST);
	}
	if (operation == ARP_REPLY)
		return mine && !nic->has_exception;
	if (!mine)
		return false; /* the exception port may want them */
	memcpy(mac, sender_mac, 6);
	memcpy(asked, target, 4);
	put16(arp + 6, ARP_REPLY);
	memcpy(target_mac, mac, 6);
	memcpy(target, sender, 4);
	memcpy(sender_mac, nic->port[p->port].mac, 6);
	memcpy(sender, asked, 4);
	answer(w, p, mac, p->l3 + ARP_LEN);
	return true;
}

/* ---- IPv4 ---- */

static bool local_ip4(struct sp_worker *w, struct sp_packet *p)
{
	uint8_t *ip = p->frame + p->l3, *icmp = p->data, to[6], source[4];
	uint16_t sum;
	/* No options: reversing a source route helps only attackers. p->l4: not a fragment. */
	if (ip[0] != 0x45 || ip[9] != PROTOCOL_ICMP || !p->l4 || p->len < ECHO_LEN || icmp[0] != ECHO || icmp[1])
		return false;
	if (!is_own4(w->nic, ip + 16) || !is_source4(w->nic, ip + 12) || rte_raw_cksum(icmp, p->len) != 0xFFFF)
		return false;
	icmp[0] = ECHO_REPLY;
	memset(icmp + 2, 0, 2);
	sum = (uint16_t)~rte_raw_cksum(icmp, p->len);
	memcpy(icmp + 2, &sum, 2);
	memcpy(source, ip + 12, 4);
	memcpy(ip + 12, ip + 16, 4);
	memcpy(ip + 16, source, 4);
	ip[8] = ECHO_TTL;
	memset(ip + 10, 0, 2);
	sum = (uint16_t)~rte_raw_cksum(ip, IP4_LEN);
	memcpy(ip + 10, &sum, 2);
	memcpy(to, p->frame + 6, 6);
	answer(w, p, to, p->l3 + IP4_LEN + p->len);
	return true;
}

/* ---- IPv6 ---- */

/* Sum of message and pseudo header; 0xFFFF if the message's checksum is right. */
static uint16_t sum6(const struct sp_packet *p)
{
	const uint8_t *ip = p->frame + p->l3;
	uint8_t pseudo[4] = {(uint8_t)(p->len >> 8), (uint8_t)p->len, 0, PROTOCOL_ICMP6};
	uint32_t sum = __rte_raw_cksum(pseudo, sizeof(pseudo), 0);
	sum = __rte_raw_cksum(ip + 8, 32, sum); /* the addresses */
	return __rte_raw_cksum_reduce(__rte_raw_cksum(p->data, p->len, sum));
}

/* Sets the checksum of a complete message. */
static void checksum6(struct sp_packet *p)
{
	uint16_t sum;
	memset(p->data + 2, 0, 2);
	sum = (uint16_t)~sum6(p);
	memcpy(p->data + 2, &sum, 2);
}

static bool echo6(struct sp_worker *w, struct sp_packet *p)
{
	uint8_t *ip = p->frame + p->l3, to[6], source[16];
	if (p->frame[0] & 1 || !is_own6(w->nic, ip + 24) || !is_source6(w->nic, ip + 8) || sum6(p) != 0xFFFF)
		return false;
	p->data[0] = ECHO6_REPLY;
	memcpy(source, ip + 8, 16);
	memcpy(ip + 8, ip + 24, 16);
	memcpy(ip + 24, source, 16);
	ip[7] = ECHO_TTL;
	checksum6(p);
	memcpy(to, p->frame + 6, 6);
	answer(w, p, to, p->l3 + IP6_LEN + p->len);
	return true;
}

/* Finds the MAC in the option of that type, or NULL; false: malformed options. */
static bool nd_option(const struct sp_packet *p, uint8_t type, const uint8_t **mac)
{
	*mac = NULL;
	for (uint32_t at = ND_LEN; at < p->len;) {
		const uint8_t *option = p->data + at;
		uint32_t left = p->len - at;
		if (left < OPTION_LEN || !option[1] || option[1] * 8u > left)
			return false;
		if (option[0] == type && option[1] == 1 && !*mac)
			*mac = option + 2;
		at += option[1] * 8u;
	}
	return !*mac || is_host(*mac);
}

static bool is_solicited_node(const uint8_t ip[16], const uint8_t target[16])
{
	static const uint8_t node[13] = {0xFF, 0x02, [11] = 1, [12] = 0xFF};
	return !memcmp(ip, node, 13) && !memcmp(ip + 13, target + 13, 3);
}

/* RFC 4861, 7.1.1 (validation) and 7.2.3, 7.2.4. */
static bool solicitation(struct sp_worker *w, struct sp_packet *p)
{
	uint8_t *ip = p->frame + p->l3, *source = ip + 8, *destination = ip + 24, *target = p->data + 8;
	const uint8_t *option;
	uint8_t mac[6];
	bool probe = is_unspecified6(source); /* duplicate address detection (RFC 4862, 5.4) */
	if (!is_at6(w->nic, p->port, target) || !nd_option(p, OPTION_SOURCE_MAC, &option))
		return false;
	if (memcmp(destination, target, 16) && !is_solicited_node(destination, target))
		return false;
	if (probe ? option || !is_multicast6(destination) : !is_source6(w->nic, source))
		return false;
	/* Without the option, answer to the frame's source MAC; the table learns only from options. */
	memcpy(mac, option ? option : p->frame + 6, 6);
	if (option && is_own_mac(w->nic, mac))
		return false;
	if (option)
		sp_neighbour_learn(w->nic->neighbours, p->port, source, mac, w->now, true);
	if (probe) {
		static const uint8_t all_nodes_mac[6] = {0x33, 0x33, 0, 0, 0, 1};
		static const uint8_t all_nodes[16] = {0xFF, 0x02, [15] = 1};
		memcpy(mac, all_nodes_mac, 6);
		memcpy(destination, all_nodes, 16);
	} else {
		memcpy(destination, source, 16);
	}
	/* The answer's option may not fit into the request: use another frame. */
	uint8_t frame[UINT8_MAX + IP6_LEN + ND_LEN + OPTION_LEN];
	struct sp_packet a = {.frame = frame, .data = frame + p->l3 + IP6_LEN, .l3 = p->l3, .port = p->port};
	a.len = ND_LEN + OPTION_LEN;
	a.frame_len = p->l3 + IP6_LEN + a.len;
	memcpy(frame, p->frame, p->l3 + IP6_LEN);
	put16(frame + p->l3 + 4, a.len);
	memcpy(frame + p->l3 + 8, target, 16);
	memset(a.data, 0, a.len);
	a.data[0] = ADVERTISEMENT;
	a.data[4] = (uint8_t)(ADVERTISED_OVERRIDE | (probe ? 0 : ADVERTISED_SOLICITED));
	memcpy(a.data + 8, target, 16);
	a.data[24] = OPTION_TARGET_MAC;
	a.data[25] = 1;
	memcpy(a.data + 26, w->nic->port[p->port].mac, 6);
	checksum6(&a);
	answer(w, &a, mac, a.frame_len);
	return true;
}

/* RFC 4861, 7.1.2 (validation) and 7.2.5. */
static bool advertisement(struct sp_worker *w, struct sp_packet *p)
{
	const uint8_t *ip = p->frame + p->l3, *destination = ip + 24, *target = p->data + 8, *mac;
	if (!is_source6(w->nic, ip + 8) || !is_source6(w->nic, target) || !nd_option(p, OPTION_TARGET_MAC, &mac))
		return false;
	if (is_multicast6(destination) ? p->data[4] & ADVERTISED_SOLICITED : !is_at6(w->nic, p->port, destination))
		return false;
	if (mac && !is_own_mac(w->nic, mac)) {
		if (p->data[4] & ADVERTISED_OVERRIDE)
			sp_neighbour_learn(w->nic->neighbours, p->port, target, mac, w->now, false);
		else
			sp_neighbour_confirm(w->nic->neighbours, p->port, target, mac, w->now);
	}
	return !is_multicast6(destination) && !w->nic->has_exception; /* which may have the address, and have asked */
}

static bool local_ip6(struct sp_worker *w, struct sp_packet *p)
{
	const uint8_t *ip = p->frame + p->l3;
	/* No extension headers, hence no fragments (RFC 6980). */
	if (ip[6] != PROTOCOL_ICMP6 || p->len < ECHO_LEN || p->data[1])
		return false;
	if (p->data[0] == ECHO6)
		return echo6(w, p);
	if (p->len < ND_LEN || ip[7] != ND_HOP_LIMIT || is_multicast6(p->data + 8) || sum6(p) != 0xFFFF)
		return false;
	if (p->data[0] == SOLICITATION)
		return solicitation(w, p);
	return p->data[0] == ADVERTISEMENT && advertisement(w, p);
}

bool sp_local_answer(struct sp_worker *w, struct sp_packet *p, int parsed, uint16_t ethertype)
{
	bool group = p->frame_len >= RTE_ETHER_HDR_LEN && p->frame[0] & 1;
	/* In promiscuous mode other hosts' frames arrive. Do not answer frames from a group MAC or the NIC's own. */
	if (p->port >= SP_MAX_PORTS || p->frame_len < RTE_ETHER_HDR_LEN ||
	    (!group && memcmp(p->frame, w->nic->port[p->port].mac, 6)))
		return false;
	if (!is_host(p->frame + 6) || is_own_mac(w->nic, p->frame + 6))
		return false;
	if (parsed == SP_PARSED_OTHER && ethertype == TYPE_ARP)
		return local_arp(w, p);
	if (parsed == SP_PARSED_IP && ethertype == TYPE_IP4)
		return !group && local_ip4(w, p);
	return parsed == SP_PARSED_IP && ethertype == TYPE_IP6 && !(group && p->frame[0] != 0x33) && local_ip6(w, p);
}
