/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports of real NICs on a network: frames are kept beside it, and its packets carry pointers to them. */
#include "nics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "../../pipeline/limits.h"
#include "../flow.h"
#include "../frames.h"
#include "../impairment.h"
#include "../packet_number.h"
#include "../shortage.h"

#define DEFAULT_MEMORY (1ull << 31)
#define MAX_MEMORY     (1ull << 44)
#define HEAD	       64u /* of a frame, that the flow is computed from */
#define MAC_ROOM       16u

/* A frame in flight; its bytes follow. */
struct frame {
	struct frame *next; /* among those that have arrived */
	uint64_t number;
	sp_time arrival;
	uint32_t len;
	bool ecn;
};

struct port {
	struct net_nics *nics;
	uint32_t host;
	struct frame *first, *last;		 /* have arrived */
	enum { FREE, NO_ROOM, NO_MEMORY } state; /* why a frame was refused, until that has changed */
	uint32_t flooded;			 /* of a frame to everybody: the hosts that it was sent to already */
	struct sp_shortage shortage;
};

struct mac {
	uint64_t address;
	uint32_t host;
};

struct net_nics {
	struct net *net;
	const struct net_topology *topology;
	struct port *port; /* [hosts] */
	struct port *clock;
	struct mac *mac;
	uint32_t macs, room;
	struct sp_frames frames;
	uint64_t memory;
	bool short_memory;			   /* a port's state is NO_MEMORY */
	void (*touched)(void *arg, uint32_t host); /* NULL: the clock's port moves the network on */
	void *touched_arg;
	struct net_nics_counters counters;
};

static void touch(struct net_nics *n, uint32_t host)
{
	if (n->touched)
		n->touched(n->touched_arg, host);
}

static void frame_drop(struct net_nics *n, struct frame *f)
{
	sp_frames_drop(&n->frames, (uint8_t *)f);
	for (uint32_t h = 0; n->short_memory && h < net_topology_hosts(n->topology); h++)
		if (n->port[h].state == NO_MEMORY) {
			n->port[h].state = FREE;
			touch(n, h);
		}
	n->short_memory = false;
}

/* ---- callbacks of the network ---- */
static void delivered(void *arg, const struct net_packet *p, sp_time now)
{
	struct net_nics *n = arg;
	struct port *port = &n->port[p->dst];
	struct frame *f = p->user;

	f->next = NULL;
	f->arrival = now;
	f->ecn = p->ecn;
	if (port->first)
		port->last->next = f;
	else
		port->first = f;
	port->last = f;
	touch(n, p->dst);
}

static void room(void *arg, uint32_t host, sp_time now)
{
	struct net_nics *n = arg;

	(void)now;
	n->port[host].state = FREE;
	touch(n, host);
}

static void dropped(void *arg, const struct net_packet *p, enum net_drop why, sp_time now)
{
	struct net_nics *n = arg;

	(void)why;
	(void)now;
	frame_drop(n, p->user);
}

/* ---- MACs ---- */
static uint64_t address_of(const uint8_t mac[6])
{
	uint64_t address = 0;

	for (int i = 0; i < 6; i++)
		address = address << 8 | mac[i];
	return address;
}

/* Where the address is in the sorted table, or would be. */
static uint32_t find_mac(const struct net_nics *n, uint64_t address)
{
	uint32_t low = 0, high = n->macs;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (n->mac[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int net_nics_mac(struct net_nics *n, uint32_t host, const uint8_t mac[6])
{
	const uint64_t address = address_of(mac);
	const uint32_t at = find_mac(n, address);

	if (host >= net_topology_hosts(n->topology) || (mac[0] & 1))
		return -EINVAL;
	if (at < n->macs && n->mac[at].address == address)
		return n->mac[at].host == host ? 0 : -EINVAL;
	if (n->macs == n->room) {
		const uint32_t room = n->room ? n->room * 2 : MAC_ROOM;
		struct mac *more = realloc(n->mac, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		n->mac = more;
		n->room = room;
	}
	memmove(&n->mac[at + 1], &n->mac[at], (n->macs - at) * sizeof(*n->mac));
	n->mac[at] = (struct mac){.address = address, .host = host};
	n->macs++;
	return 0;
}

/* ---- making it ---- */
int net_nics_create(const struct net_nics_config *config, struct net_nics **nics, char *why, size_t whylen)
{
	struct net_config net = config->net;
	struct net_nics *n;
	int err;

	if (config->memory > MAX_MEMORY) {
		snprintf(why, whylen, "more than 2^44 bytes for frames in flight");
		return -EINVAL;
	}
	n = calloc(1, sizeof(*n));
	if (!n) {
		snprintf(why, whylen, "out of memory");
		return -ENOMEM;
	}
	net.deliver = delivered;
	net.room = room;
	net.drop = dropped;
	net.arg = n;
	n->topology = net.topology;
	n->memory = config->memory ? config->memory : DEFAULT_MEMORY;
	err = net_create(&net, &n->net, why, whylen);
	if (!err) {
		n->port = calloc(net_topology_hosts(n->topology), sizeof(*n->port));
		err = n->port ? sp_frames_init(&n->frames) : -ENOMEM;
		if (err)
			snprintf(why, whylen, "out of memory");
	}
	if (err) {
		net_nics_destroy(n);
		return err;
	}
	for (uint32_t h = 0; h < net_topology_hosts(n->topology); h++)
		n->port[h] = (struct port){.nics = n, .host = h};
	*nics = n;
	return 0;
}

void net_nics_destroy(struct net_nics *n)
{
	if (!n)
		return;
	net_destroy(n->net);
	sp_frames_free(&n->frames);
	free(n->port);
	free(n->mac);
	free(n);
}

void *net_nics_port(struct net_nics *n, uint32_t host)
{
	if (host >= net_topology_hosts(n->topology))
		return NULL;
	if (!n->clock)
		n->clock = &n->port[host];
	return &n->port[host];
}

struct net *net_nics_net(struct net_nics *n)
{
	return n->net;
}

void net_nics_watch(struct net_nics *n, void (*touched)(void *arg, uint32_t host), void *arg)
{
	n->touched = touched;
	n->touched_arg = arg;
}

void net_nics_count(const struct net_nics *n, struct net_nics_counters *counters)
{
	*counters = n->counters;
}

/* ---- the port's operations ---- */

/* Addresses and ports: ECMP keeps a flow on one way. */
static uint64_t flow_of(const struct rte_mbuf *m)
{
	uint8_t room[HEAD];
	const uint32_t len = rte_pktmbuf_pkt_len(m) < HEAD ? rte_pktmbuf_pkt_len(m) : HEAD;

	return sp_flow_hash(rte_pktmbuf_read(m, 0, len, room), len);
}

/* Its PCP, or the class selector of its IP header. */
static uint8_t priority_of(const struct rte_mbuf *m)
{
	uint8_t room[18];
	const uint32_t len = rte_pktmbuf_pkt_len(m) < sizeof(room) ? rte_pktmbuf_pkt_len(m) : (uint32_t)sizeof(room);
	const uint8_t *f = rte_pktmbuf_read(m, 0, len, room);

	if (!f || len < sizeof(room))
		return 0;
	if (f[12] == 0x81 && f[13] == 0)
		return f[14] >> 5;
	if (f[12] == 0x08 && f[13] == 0)
		return f[15] >> 5;
	return f[12] == 0x86 && f[13] == 0xDD ? (f[14] & 0x0F) >> 1 : 0;
}

/* Sends a copy of the frame to a host. False: later; there is no room, or no memory. */
static bool send_to(struct port *p, const struct rte_mbuf *m, uint32_t host, sp_time now)
{
	struct net_nics *n = p->nics;
	const uint32_t len = rte_pktmbuf_pkt_len(m);
	const uint32_t wire = (len < SP_LINK_MIN_FRAME ? SP_LINK_MIN_FRAME : len) + SP_LINK_OVERHEAD;
	struct net_packet packet = {.dst = host, .bytes = wire, .flow = flow_of(m), .priority = priority_of(m)};
	struct frame *f;
	uint8_t *to;

	if (!sp_frames_ready(&n->frames, (uint32_t)sizeof(*f) + len, &n->memory)) {
		n->counters.held++;
		n->short_memory = true;
		p->state = NO_MEMORY;
		return false;
	}
	f = (struct frame *)sp_frames_take(&n->frames, (uint32_t)sizeof(*f) + len);
	*f = (struct frame){.len = len, .number = sp_packet_number(m)};
	packet.user = f;
	to = (uint8_t *)(f + 1);
	for (; m; to += m->data_len, m = m->next)
		memcpy(to, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
	if (net_send(n->net, p->host, &packet, now)) /* it may have dropped the frame */
		return true;
	p->state = NO_ROOM;
	frame_drop(n, f);
	return false;
}

/* To every host with a MAC but the sender's; goes on where it was refused. */
static bool flood(struct port *p, const struct rte_mbuf *m, sp_time now)
{
	struct net_nics *n = p->nics;

	for (; p->flooded < n->macs; p->flooded++) {
		const struct mac *mac = &n->mac[p->flooded];
		bool again = mac->host == p->host;

		for (uint32_t i = 0; i < p->flooded; i++)
			again |= n->mac[i].host == mac->host; /* a host with several MACs */
		if (!again && !send_to(p, m, mac->host, now))
			return false;
	}
	p->flooded = 0;
	return true;
}

static bool forward(struct port *p, const struct rte_mbuf *m, sp_time now)
{
	struct net_nics *n = p->nics;
	uint8_t room[6];
	const uint8_t *mac;
	uint32_t at;

	if (rte_pktmbuf_pkt_len(m) > SP_PACKET_ROOM) {
		n->counters.oversized++;
		return true;
	}
	mac = rte_pktmbuf_read(m, 0, sizeof(room), room);
	if (mac && (mac[0] & 1))
		return flood(p, m, now);
	at = mac ? find_mac(n, address_of(mac)) : n->macs;
	if (at == n->macs || n->mac[at].address != address_of(mac)) {
		n->counters.unknown++;
		return true;
	}
	return send_to(p, m, n->mac[at].host, now);
}

static unsigned nics_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct port *p = port;
	unsigned sent = 0;

	(void)queue;
	net_run(p->nics->net, now);
	for (; sent < count && forward(p, packet[sent], now); sent++)
		rte_pktmbuf_free(packet[sent]);
	return sent;
}

/* Sets Congestion Experienced in an IPv4 or IPv6 header that has ECT set; corrects the checksum (RFC 1624). */
static bool set_congestion(uint8_t *frame, uint32_t len)
{
	const uint32_t at = len > 18 && frame[12] == 0x81 && frame[13] == 0 ? 18 : 14;
	uint8_t *ip = frame + at;
	uint32_t sum;

	if (len < at + 20 || frame[at - 1] != (ip[0] >> 4 == 6 ? 0xDD : 0x00))
		return false;
	if (frame[at - 2] == 0x86 && ip[0] >> 4 == 6) {
		if (!(ip[1] & 0x30))
			return false;
		ip[1] |= 0x30;
		return true;
	}
	if (frame[at - 2] != 0x08 || ip[0] >> 4 != 4 || !(ip[1] & 3))
		return false;
	sum = (uint16_t) ~(ip[10] << 8 | ip[11]) + (uint16_t) ~(ip[0] << 8 | ip[1]);
	ip[1] |= 3;
	sum += (uint32_t)(ip[0] << 8 | ip[1]);
	sum = (sum & 0xFFFF) + (sum >> 16);
	sum = (uint16_t) ~((sum & 0xFFFF) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
	return true;
}

static struct rte_mbuf *take(struct port *p)
{
	struct net_nics *n = p->nics;
	struct frame *f = p->first;
	struct rte_mbuf *m = sp_packet_alloc();
	uint8_t *bytes;

	if (!m)
		return NULL;
	bytes = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)f->len);
	memcpy(bytes, f + 1, f->len);
	if (f->ecn)
		n->counters.congested += set_congestion(bytes, f->len);
	sp_packet_number_set(m, f->number);
	p->first = f->next;
	frame_drop(n, f);
	return m;
}

static unsigned nics_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct port *p = port;
	unsigned count = 0;

	if (queue)
		return 0;
	net_run(p->nics->net, now);
	while (count < max && p->first && p->first->arrival <= now) {
		packet[count] = take(p);
		if (!packet[count]) {
			sp_shortage_begin(&p->shortage, now);
			p->nics->counters.waited++;
			break;
		}
		sp_shortage_end(&p->shortage);
		count++;
	}
	return count;
}

static sp_time earlier(sp_time a, sp_time b)
{
	return a < b ? a : b;
}

static sp_time nics_next(void *port, uint16_t queue, bool transmit_blocked)
{
	struct port *p = port;
	sp_time next = p == p->nics->clock && !p->nics->touched ? net_next(p->nics->net) : SP_NEVER;

	if (queue)
		return SP_NEVER;
	if (p->first)
		next = earlier(next, p->shortage.on ? sp_shortage_next(&p->shortage) : p->first->arrival);
	return transmit_blocked && p->state == FREE ? 0 : next;
}

const struct sp_port_ops net_nics_ops = {.receive = nics_receive, .transmit = nics_transmit, .next = nics_next};
