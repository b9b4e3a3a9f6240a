/* SPDX-License-Identifier: BSD-3-Clause */
/* From a burst of received packets to handler calls, and what becomes of each packet. */
#ifndef PIPELINE_DISPATCH_H
#define PIPELINE_DISPATCH_H

#include <stdint.h>

struct sp_context;
struct sp_packet;
struct sp_parked;
struct sp_worker;
struct rte_mbuf;

/* Parses, matches and dispatches packets; every one of them ends in a context, the exception port or a drop, or is
 * parked. Takes them all. */
void sp_dispatch(struct sp_worker *w, uint16_t port, struct rte_mbuf **packet, unsigned n);
/* Packets that waited for a header handler on another worker: again. */
unsigned sp_dispatch_parked(struct sp_worker *w);
/* Packets that have waited, each for its view: they end as those of a burst, or wait again. */
void sp_dispatch_again(struct sp_worker *w, struct sp_parked *again, unsigned n);
/* To the home worker of a context that wants its packets there (home_only): it counts them as received. */
void sp_dispatch_hand_over(struct sp_worker *w, const struct sp_context *c, struct sp_packet *p);
/* What is parked for the one is, for the other, which has taken over from it. */
void sp_dispatch_give(struct sp_worker *w, const struct sp_context *from, const struct sp_context *to);
/* Drops what is parked for a context that goes away. */
void sp_dispatch_forget(struct sp_worker *w, const struct sp_context *c);
void sp_dispatch_close(struct sp_worker *w, struct sp_parked *parked); /* one that is in no list any more */

#endif
