/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whom to send a frame to: the neighbour table (ARP, ND) of every port, requests, ageing, static entries.
 *
 * An entry that has been confirmed (reply, advertisement, request seen) within 30 s is reachable, later it is stale: it
 * still answers, and is asked for again while it is used. Unused for 10 min it goes. One that is not known is asked for
 * three times, a second apart; then, for 3 s, requests are suppressed.
 */
#ifndef PIPELINE_NEIGHBOUR_H
#define PIPELINE_NEIGHBOUR_H

#include "route.h"

#define SP_NEIGHBOUR_RETRY     SP_SEC	      /* between requests for one address (RFC 4861, RETRANS_TIMER) */
#define SP_NEIGHBOUR_TRIES     3	      /* requests without an answer until it counts as failed */
#define SP_NEIGHBOUR_FAILED    (3 * SP_SEC)   /* failed: nothing is asked for so long */
#define SP_NEIGHBOUR_REACHABLE (30 * SP_SEC)  /* after a confirmation (RFC 4861, REACHABLE_TIME) */
#define SP_NEIGHBOUR_UNUSED    (600 * SP_SEC) /* neither used nor confirmed: freed */
#define SP_NEIGHBOUR_ACTIVE    (30 * SP_SEC)  /* used within that time: packets from the wire cannot evict it */

struct sp_worker;
struct sp_neighbours;

/* Static entries from the NIC's configuration; routes must outlive the table. -EINVAL: static entry without a unicast
 * MAC or given twice, too many; -ENOMEM. */
int sp_neighbours_create(const struct sp_nic_config *config, const struct sp_routes *routes, struct sp_neighbours **n);
void sp_neighbours_destroy(struct sp_neighbours *n);

/* A neighbour is an address on the link of one port; what another port hears of that address is not about it. */

/* Any worker, no lock. 0 and the MAC, or -EAGAIN: not known (yet), mac untouched. A stale entry still answers, and is
 * asked for again. */
int sp_neighbour_find(struct sp_neighbours *n, uint16_t port, const uint8_t next_hop[16], sp_time now, uint8_t mac[6]);
/* Asks for it, unless that was done less than a retry interval ago; creates the entry if needed, evicting what is least
 * missed (never a static one; one in use only when nothing else is left). Sends through sp_transmit_frame, by that
 * port, with its MAC, from its address. port and next_hop must be what sp_route_find() returned; what is not on the
 * port's link is ignored. */
void sp_neighbour_request(struct sp_worker *w, uint16_t port, const uint8_t next_hop[16]);
/* What a reply, advertisement or request has told, which came by that port. Only updates entries that exist (RFC 826's
 * merge flag), or creates when `create` and the address is on the port's link; that evicts neither entries in use nor
 * those being asked for. Static entries never change; own addresses and MACs that are no station's are ignored. */
void sp_neighbour_learn(struct sp_neighbours *n, uint16_t port, const uint8_t ip[16], const uint8_t mac[6], sp_time now,
			bool create);
/* What an advertisement without the override flag has told: fills in what is not known, confirms what is the same, and
 * replaces nothing (RFC 4861, 7.2.5). */
void sp_neighbour_confirm(struct sp_neighbours *n, uint16_t port, const uint8_t ip[16], const uint8_t mac[6],
			  sp_time now);
/* Retries and ageing of the entries; worker 0 calls it once sp_neighbours_deadline() has come. Returns the next one. */
sp_time sp_neighbours_tick(struct sp_worker *w, sp_time now);
/* When worker 0 must tick; one relaxed load. Any worker's request or learn may bring it forward. SP_NEVER: nothing
 * ages. */
sp_time sp_neighbours_deadline(const struct sp_neighbours *n);

#endif
