/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker: one thread, or one index that sp_nic_poll() is called with. Marks at the fields: see exec_context.h. */
#ifndef PIPELINE_WORKER_H
#define PIPELINE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "../handlers/spindle-handler.h"
#include "drop.h"
#include "limits.h"
#include "meter.h"

struct rte_mbuf;
struct sp_nic;
struct sp_view;
struct sp_context;
struct sp_handover;

struct sp_tx_queue {
	struct rte_mbuf *packet[SP_TX_QUEUE]; /* ring of what waits for the port */
	uint32_t length[64];		      /* of a burst being handed over: the port frees what it takes */
	unsigned head, count;
	bool blocked; /* the port took less than offered */
	uint64_t packets, bytes;
};

struct sp_rx_count {
	uint64_t packets, bytes;
};

struct sp_parked {
	struct sp_packet packet;
	struct sp_view *view;
	struct sp_record *record; /* for captures, see mirror.h; NULL: none */
};

struct sp_pending { /* waits for a neighbour */
	struct rte_mbuf *packet;
	uint8_t next_hop[16];
	uint16_t port;
	uint32_t context; /* id of the one that sends it */
	sp_time until;
};

struct sp_worker {
	struct sp_nic *nic;
	uint16_t index;
	bool running; /* inside sp_nic_poll */
	sp_time now;
	sp_time late;	    /* having been polled late, contexts may make up for so much of their pace */
	uint64_t random[4]; /* xoshiro256** state */
	uint64_t drops[SP_DROP_COUNT];
	uint64_t taken, refused; /* what this worker's views say of packets and drops, all contexts together */
	uint64_t answered, forwarded, busy_polls;
	uint64_t polls;		    /* [worker] writes, the warden reads: relaxed */
	struct sp_doing doing;	    /* the same */
	uint64_t (*cycles)(void *); /* instead of the TSC; see sp_nic_config.cycles */
	bool metering;		    /* calls are measured */
	struct sp_catch *catcher;   /* how it is taken out of a call, see recover.h; NULL: it is not */
	sp_time ran, busy;	    /* of its thread: since it began, and of that in polls that did something */
	struct sp_rx_count rx[SP_PORT_LOOP + 1];
	struct sp_tx_queue tx[SP_PORT_LOOP + 1];   /* ports, exception port, loop */
	struct sp_timer *timers;		   /* pairing heap */
	struct sp_view *working, *working_tail;	   /* who has deferred work here; FIFO */
	sp_time work_at;			   /* not before, see slice_time */
	struct sp_context *issuing, *issuing_tail; /* FIFO of contexts with issues whose home this is */
	struct sp_context *elsewhere;		   /* contexts whose home this is, on a NIC with several workers */
	struct sp_parked parked[SP_PARKED];
	unsigned parked_count;
	struct sp_handover *handed; /* from each worker to this one; NULL: there is no other */
	bool handing;		    /* the burst being dispatched is from there */
	struct sp_pending pending[SP_NEIGHBOUR_PENDING];
	unsigned pending_count;
	struct sp_context *sweeping;		      /* contexts with an idle timeout whose home this is */
	struct sp_call *_Atomic call;		      /* what a control thread wants done here between two polls */
	bool issue_stuck;			      /* somebody wanted to send in this poll and could not */
	bool dead;				      /* ended messages wait for their tables */
	bool observed;				      /* there are mirrors, or the NIC is watched: see onlooker.h */
	struct sp_flow_cache *flow_cache;	      /* made with the first filter rule */
	struct sp_mirrors *mirrors;		      /* captures of what passes here; NULL: none, the normal case */
	struct sp_share *share;			      /* NULL: nothing is measured, and each has all that it wants */
	struct sp_view *touched;		      /* contexts with something new for the host in this poll */
	struct sp_view *active[SP_BURST + SP_PARKED]; /* contexts with a batch in this burst */
	unsigned actives, turn;			      /* turn: the next one in `active` */
	uint64_t turns_end; /* what sums up to that when all of them have had their turn, see turn.c */
	pthread_t thread;
} SP_CACHE_ALIGNED;

/* A deterministic generator per worker. */
uint64_t sp_worker_random(struct sp_worker *w);

#endif
