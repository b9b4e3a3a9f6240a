/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Payload that goes to a port's driver as it lies in a region, without a copy. Such a frame has three pieces: the
 * headers, the payload in its place, the ICRC. Until the driver frees it, the region is in use, and the handler that
 * has sent it must not call the payload's bytes free again: sp_send_settled() says so. An issue that waits for that is
 * not called in vain: the last packet that comes back starts it.
 */
#ifndef PIPELINE_LEND_H
#define PIPELINE_LEND_H

#include "limits.h"

#include <stdint.h>

struct sp_view;
struct sp_send;
struct sp_context;

/* A region of which something is out. One reference of it stands for all of that: taking and giving back are locked
 * operations. [worker] */
struct sp_lent_region {
	const struct sp_mem *mem;
	uint32_t out; /* packets; 0: nobody's */
};
#define SP_LENT_REGIONS 4 /* of a lender; packets of further ones have a reference each */

/* What a context has lent on one worker. A driver's queue is one worker's, and so are the calls by which it frees: all
 * fields are [worker]; `back` is read by control calls too. */
struct sp_lender {
	struct sp_lending *lending;
	uint64_t lent;			 /* packets so far */
	uint64_t back;			 /* all packets below have come back; stored with release, and last */
	uint64_t returned[SP_LENT / 64]; /* of those from there on, by number modulo SP_LENT: has come back */
	struct sp_lent_region region[SP_LENT_REGIONS];
	uint64_t asked; /* the mark that sp_send_settled() has last found out in this call of issue(); 0: none */
	struct sp_issue *waiter; /* to be started once all packets below `until` are back; NULL: none */
	uint64_t until;
};

/* A context's lenders, one per worker. Outlives the context as long as something is out. [control] but for lender. */
struct sp_lending {
	struct sp_lending *next; /* of contexts that are gone */
	unsigned workers;
	bool cut; /* the NIC is gone, or nearly so: nobody else will free this; set when no worker runs */
	struct sp_lender lender[];
};

/* Control calls. */
int sp_lending_create(struct sp_context *c); /* once it has its views; -ENOMEM */
/* The context is going, workers have nothing of it any more. NULL views and lending are fine. */
void sp_lending_end(struct sp_context *c);
/* Asks ports for what they have sent and hold still. */
void sp_lent_reclaim(struct sp_nic *nic);
/* Workers and ports have stopped, regions go: what comes back after this finds nothing of the NIC. */
void sp_lent_cut(struct sp_nic *nic);

/* [worker] Of up to SP_BURST packets, all with payload of one region, the first ones, how many: three pieces each,
 * chained, with head + s[].ext_len bytes in the first, the payload in the second, and pad and ICRC in the third; the
 * bytes of first and third are to be filled in. rte_pktmbuf_free() gives back what is lent. 0: no pieces left, too much
 * is out, or devices cannot read this region; then copy. */
unsigned sp_lend(struct sp_view *v, uint32_t head, const struct sp_send *s, unsigned n, struct rte_mbuf **packet);

/* An issue() has returned SP_ISSUE_WAIT: if it waits for packets, they start it. False: another issue of the context
 * does already, and this one has to ask again. */
bool sp_lent_await(struct sp_view *v, struct sp_issue *i);
void sp_lent_forget(struct sp_view *v); /* the waiter: its context is going */

#endif
