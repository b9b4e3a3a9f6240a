/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The neighbour tables (ARP, ND) of all ports: requests, ageing, static entries.
 *
 * An entry confirmed within 30 s (by a reply, advertisement or request) is reachable, then stale: still valid, and
 * requested again while in use. After 10 min without use it is freed. An unknown address is requested three times, a
 * second apart; then requests pause for 3 s.
 *
 * Whoever is on the link can say that an address is at its MAC. Such a claim (reply, advertisement, request,
 * announcement) does not move a known entry: the host at the known MAC is asked, three times within 600 ms, and only
 * its silence moves the entry. For 30 s after a claim an entry in use is asked like that all the time, and, if it is
 * silent, anew by broadcast: what a host that lied has left behind is gone within a second of its end.
 */
#ifndef PIPELINE_TX_NEIGHBOUR_H
#define PIPELINE_TX_NEIGHBOUR_H

#include "route.h"

#define SP_NEIGHBOUR_RETRY     SP_SEC	      /* between requests for one address (RFC 4861, RETRANS_TIMER) */
#define SP_NEIGHBOUR_TRIES     3	      /* unanswered requests until the address counts as failed */
#define SP_NEIGHBOUR_FAILED    (3 * SP_SEC)   /* pause of requests after failure */
#define SP_NEIGHBOUR_REACHABLE (30 * SP_SEC)  /* after a confirmation (RFC 4861, REACHABLE_TIME) */
#define SP_NEIGHBOUR_UNUSED    (600 * SP_SEC) /* not used or confirmed for this time: freed */
#define SP_NEIGHBOUR_PROBE     (200 * SP_MS)  /* between requests to a MAC whose address somebody else claims */
#define SP_NEIGHBOUR_WATCHED                                                                                           \
	(30 * SP_SEC)			  /* after a claim the MAC goes on being asked for so long, while it is used   \
					   */
#define SP_NEIGHBOUR_ACTIVE (30 * SP_SEC) /* used within this time: packets from the wire cannot evict it */

struct sp_worker;
struct sp_neighbours;

/* Creates the static entries of the configuration; routes must outlive the table. -EINVAL: static entry without a
 * unicast MAC, duplicate, or too many; -ENOMEM. */
int sp_neighbours_create(const struct sp_nic_config *config, const struct sp_routes *routes, struct sp_neighbours **n);
void sp_neighbours_destroy(struct sp_neighbours *n);

/* An entry belongs to one port's link: other ports do not update it. */

/* Any worker, lock-free. 0 and the MAC (also of a stale entry, which is requested again), or -EAGAIN: unknown, mac
 * unchanged. */
int sp_neighbour_find(struct sp_neighbours *n, uint16_t port, const uint8_t next_hop[16], sp_time now, uint8_t mac[6]);
/* Sends a request through sp_transmit_frame, with the port's MAC and address, unless the last one is too recent.
 * Creates the entry if needed, by evicting the least used (never a static one; an active one last). port and next_hop
 * come from sp_route_find(); addresses off the port's link are ignored. */
void sp_neighbour_request(struct sp_worker *w, uint16_t port, const uint8_t next_hop[16]);
/* Learns from a reply, advertisement or request received by the port. Completes and confirms existing
 * entries; another MAC than the known one is a claim, see above;
 * with `create` also adds an address on the port's link, without evicting active or requested entries. Static entries
 * never change; own addresses and non-unicast MACs are ignored. */
void sp_neighbour_learn(struct sp_neighbours *n, uint16_t port, const uint8_t ip[16], const uint8_t mac[6], sp_time now,
			bool create);
/* Learns from an advertisement without the override flag: completes unknown entries, confirms equal ones, and replaces
 * nothing (RFC 4861, 7.2.5). */
void sp_neighbour_confirm(struct sp_neighbours *n, uint16_t port, const uint8_t ip[16], const uint8_t mac[6],
			  sp_time now);
/* Retries and ages entries; worker 0 calls it at sp_neighbours_deadline(). Returns the next deadline. */
sp_time sp_neighbours_tick(struct sp_worker *w, sp_time now);
/* Deadline of worker 0's next tick, by one relaxed load; any worker's request or learn may advance it. SP_NEVER:
 * nothing ages. */
sp_time sp_neighbours_deadline(const struct sp_neighbours *n);

#endif
