/* SPDX-License-Identifier: BSD-3-Clause */
/* Zero copy: the port's driver sends payload straight from a region. Such a frame has three mbuf segments: headers,
 * payload in place, ICRC. Until the driver frees it, the region is in use, and the handler must not report the payload
 * as free: see sp_send_settled(). An issue that waits for this is started by the last packet freed. */
#ifndef PIPELINE_TX_ZERO_COPY_H
#define PIPELINE_TX_ZERO_COPY_H

#include "../limits.h"

#include <stdint.h>

struct sp_view;
struct sp_send;
struct sp_context;

/* A region with packets in flight. They share one reference, since each atomic change is expensive. [worker] */
struct sp_zc_region {
	const struct sp_mem *mem;
	uint32_t out; /* packets in flight; 0: entry is free */
};
#define SP_ZC_REGIONS 4 /* per context and worker; packets of further regions take a reference each */

/* Zero-copy packets of a context on one worker. Only this worker sends and frees them, so all fields are [worker];
 * control calls also read `back`. */
struct sp_zc_queue {
	struct sp_zc *zc;
	uint64_t lent;			   /* packets sent so far */
	uint64_t back;			   /* all packets with lower numbers are freed; stored last, with release */
	uint64_t returned[SP_ZC_MAX / 64]; /* bitmap of later packets that are freed, by number modulo SP_ZC_MAX */
	struct sp_zc_region region[SP_ZC_REGIONS];
	uint64_t asked;		 /* the last mark checked by sp_send_settled() in this issue() call; 0: none */
	struct sp_issue *waiter; /* issue to start once all packets below `until` are freed; NULL: none */
	uint64_t until;
};

/* A context's packets at ports, by worker. Outlives the context while packets are in flight. [control] except for
 * zc_queue. */
struct sp_zc {
	struct sp_zc *next; /* in the list of ended contexts */
	unsigned workers;
	bool cut; /* the NIC is being destroyed: the last free frees this; set while no worker runs */
	struct sp_zc_queue zc_queue[];
};

/* Control calls. */
int sp_zc_create(struct sp_context *c); /* after the views exist; -ENOMEM */
/* The context ends, and no worker uses it any more. NULL views and state are fine. */
void sp_zc_end(struct sp_context *c);
/* Makes ports free the packets that they have sent. */
void sp_zc_reclaim(struct sp_nic *nic);
/* Workers and ports have stopped, regions are about to go: a later free does not touch the NIC. */
void sp_zc_detach(struct sp_nic *nic);

/* [worker] Allocates mbufs for the first of up to SP_BURST packets with payload in one region; returns how many. Each
 * is a chain of three: head + s[].ext_len bytes, payload, pad and ICRC; the caller fills the first and third.
 * rte_pktmbuf_free() drops the reference. 0: no mbufs, too many packets in flight, or the region is not mapped: copy
 * instead. */
unsigned sp_zc_attach(struct sp_view *v, uint32_t head, const struct sp_send *s, unsigned n, struct rte_mbuf **packet);

/* An issue() has returned SP_ISSUE_WAIT: if its packets are in flight, their return starts it. False: they have
 * returned since it asked, or another issue of the context is waiting already, so this one must run again. */
bool sp_zc_await(struct sp_view *v, struct sp_issue *i);
void sp_zc_forget(struct sp_view *v); /* clears the waiter: its context is ending */

#endif
