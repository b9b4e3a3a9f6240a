/* SPDX-License-Identifier: BSD-3-Clause */
/* From a burst of received packets to handler calls, and what becomes of each packet. */
#ifndef PIPELINE_DISPATCH_H
#define PIPELINE_DISPATCH_H

#include "worker.h"

/* Parses, matches and dispatches packets; every one of them ends in a context, the exception port or a drop, or is
 * parked. Takes them all. */
void sp_dispatch(struct sp_worker *w, uint16_t port, struct rte_mbuf **packet, unsigned n);
/* Packets that waited for a header handler on another worker: again. */
unsigned sp_dispatch_parked(struct sp_worker *w);
/* Drops what is parked for a context that goes away. */
void sp_dispatch_forget(struct sp_worker *w, const struct sp_context *c);

#endif
