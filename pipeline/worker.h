/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker: one thread, or one index that sp_nic_poll() is called with. Marks at the fields: see context.h. */
#ifndef PIPELINE_WORKER_H
#define PIPELINE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "../handlers/spindle-handler.h"
#include "drop.h"
#include "generator.h"
#include "limits.h"
#include "share.h"
#include "exec/meter.h"
#include "exec/queue.h"

struct rte_mbuf;
struct sp_nic;
struct sp_view;
struct sp_context;
struct sp_entity;
struct sp_flow_cache;
struct sp_handover;
struct sp_captures;
struct sp_scheduler;
struct sp_tap_calls;

struct sp_tx_queue {
	struct rte_mbuf *packet[SP_TX_QUEUE]; /* a ring: frames that wait for the port */
	uint32_t length[64];		      /* of the frames that are offered: the port frees what it takes */
	unsigned head, count;
	bool blocked; /* the port took less than offered */
	uint64_t packets, bytes;
};

struct sp_rx_count {
	uint64_t packets, bytes;
};

struct sp_worker {
	struct sp_nic *nic;
	uint16_t index;
	sp_time now;
	uint64_t tsc; /* when this round began; 0: not in real time */
	sp_time late; /* a context may make up for so much time of its pace that a late poll has cost */
	uint64_t drops[SP_DROP_COUNT];
	uint64_t taken, refused; /* packets and drops of all views of this worker */
	uint64_t answered, forwarded, busy_polls;
	uint64_t polls;		    /* [worker] writes, the watchdog reads: relaxed */
	struct sp_doing doing;	    /* [worker] writes, the watchdog reads: relaxed */
	uint64_t (*cycles)(void *); /* instead of the TSC; see sp_nic_config.cycles */
	bool metering;		    /* calls are measured */
	_Atomic bool stopped; /* [shared] the watchdog writes: a handler's call has not come back for config.stall */
	struct sp_question *question; /* the watchdog's, see fault.h; NULL: there is none */
	sp_time ran, busy;	      /* the thread's time so far, and its time in polls that had something to do */
	struct sp_rx_count rx[SP_PORT_LOOP + 1];
	struct sp_tx_queue tx[SP_PORT_LOOP + 1]; /* ports, exception port, loop */
	struct sp_timer *timers;		 /* pairing heap */
	TAILQ_HEAD(, sp_view) working;		 /* contexts with deferred work here, in turn */
	sp_time work_at;			 /* no slice of deferred work before, see slice_time */
	TAILQ_HEAD(sp_issuing, sp_view) issuing; /* contexts with issues here, in turn */
	LIST_HEAD(, sp_view) elsewhere;		 /* contexts that issue here, on a NIC with several workers */
	LIST_HEAD(, sp_context) sweeping;	 /* contexts with an idle timeout whose home this is */
	struct sp_packet_queue parked;		 /* packets whose message's header handler runs on another worker */
	struct sp_packet_queue pending;		 /* frames whose next hop's address is not known yet */
	struct sp_packet_pool places;		 /* of both queues */
	struct sp_waiting place[SP_PARKED + SP_NEIGHBOUR_PENDING];
	struct sp_handover *handed;   /* a queue from each worker to this one; NULL: there is no other worker */
	bool handing;		      /* the burst being dispatched comes from such a queue */
	struct sp_call *_Atomic call; /* of a control thread: to be done between two polls */
	struct sp_command_queue *_Atomic woken; /* [shared] applications that are to be active again: a stack */
	_Atomic uint32_t asleep;		/* [shared] see worker_sleep.h */
	LIST_HEAD(, sp_command_queue) queues;	/* commands of active applications */
	LIST_HEAD(, sp_command_queue) dozing;	/* parked as long as the worker sleeps */
	uint64_t park_at;			/* the poll that looks for quiet applications, */
	uint64_t park_walked;			/* or when `walked` is that */
	uint64_t walked;			/* queues looked at so far, in all polls */
	bool issue_stuck;			/* a context wanted to send in this poll and could not */
	uint32_t awaited;			/* issues that wait for packets that ports have, see zero_copy.h */
	bool dead;				/* entries of ended messages have not been given back yet */
	const struct sp_tap_calls *tap;		/* somebody looks on, see tap.h; NULL: the normal case */
	const struct sp_tap_calls *observer[SP_TAPS]; /* behind the tap */
	struct sp_flow_cache *flow_cache;	      /* made with the first filter rule */
	struct sp_captures *captures; /* captures of this worker's packets; NULL: none, the normal case */
	struct sp_share whole;	      /* what users share */
	sp_time put_off; /* a user's limit lets the first of what waits go on; in the past: nothing waits */
	struct sp_scheduler *scheduler;			/* NULL: calls are not measured, and no context waits */
	SLIST_HEAD(, sp_view) touched;			/* views with something new for the host in this poll */
	struct sp_entity *active[SP_BURST + SP_PARKED]; /* contexts with packets in this burst, in order of arrival */
	unsigned actives;
	bool can_sleep, drowsy;	       /* see worker_sleep.h: it has a descriptor; it is about to sleep */
	int epoll, wake;	       /* ... what wakes it; an eventfd in it, for others */
	uint32_t gave;		       /* workers that this one has given something in this poll: bits */
	uint64_t sleeps, sleeps_woken; /* sleeps; those that something has ended */
	uint64_t measured;	       /* the clock at the end of the run before, within a burst; or SP_UNMEASURED */
	pthread_t thread;
	struct sp_generator random;
} SP_CACHE_ALIGNED;

/* Of the NIC's seed, or secret ones: see generator.h. On that worker only. */
uint64_t sp_worker_random(struct sp_worker *w);
/* From here on those of all workers, and QP numbers, come from getrandom(2). No worker runs. -errno. */
int sp_workers_secret(struct sp_nic *nic);

#endif
