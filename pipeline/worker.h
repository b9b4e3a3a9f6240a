/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC's inside: what hangs off struct sp_nic, a worker, a context. Who may touch a field stands beside it:
 * [control] one control thread while workers do not see it yet; [worker] only the worker that owns the structure;
 * [shared] any worker, with atomics or read-only after publication. */
#ifndef PIPELINE_WORKER_H
#define PIPELINE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include <rte_mbuf.h>

#include "../handlers/spindle-handler.h"
#include "../host-api/device.h"
#include "drop.h"
#include "limits.h"
#include "match.h"
#include "meter.h"
#include "neighbour.h"
#include "nic.h"
#include "parser.h"
#include "route.h"
#include "station.h"
#include "wrong.h"

#define SP_CACHE_ALIGNED __attribute__((aligned(64)))

/* Queues beside the ports': the exception port's is SP_MAX_PORTS, and the one to the NIC itself, which is also what
 * struct sp_packet.port says of such packets. No port of a driver: nothing but loop.c sends there. */
#define SP_PORT_LOOP (SP_MAX_PORTS + 1)

struct sp_view;

/* One message. word (shared): bits 0-2 state, 3 closing, 4-6 why, 7 header has run, 8-31 how many are inside (with
 * several workers, without most runs of packets), 32-63 tag. See message.c. */
struct sp_message_entry {
	struct sp_message pub;
	_Atomic uint64_t word;
	uint32_t next;		  /* HASHED: free list or a worker's list of ended ones, index + 1 */
	struct sp_message beside; /* the same for the companion, with its own state */
};

struct sp_messages_table;
struct sp_handover;

/* An execution context, shared by the workers. */
struct sp_context {
	char name[40];
	uint32_t id;
	const struct sp_handler *handler; /* its functions; of one that is watched a copy, see watched.h */
	struct sp_nic *nic;
	void *state;
	uint64_t state_bytes; /* accounted to nic->memory_used */
	struct sp_messages_table *messages;
	struct sp_setting *setting; /* own copies, [control] */
	size_t settings;
	struct sp_error *error;	     /* where sp_fail writes while attaching */
	unsigned reasons, counters;  /* names the handler declares */
	uint32_t qp_first, qp_count; /* 0 = none */
	uint32_t qp_control;	     /* 0 = none */
	sp_time idle;		     /* message-timeout of the configuration */
	bool attached;
	struct sp_rule *rule;
	struct sp_context *companion; /* the handler beside this one, works on the same messages */
	struct sp_context *first;     /* for a companion: the context it accompanies */
	uint8_t peer[16];	      /* [shared] written before peer_set */
	_Atomic bool peer_set;	      /* only packets from peer count */
	bool peer_self; /* [shared] written before peer_set: the peer is this NIC, by the loop and no port */
	bool attaching; /* [control] inside attach(): workers do not know the context yet */
	bool home_only; /* packets go to the home worker; of a NIC with several */
	struct sp_path *path[SP_PATH_HEADS]; /* lists; [worker home] */
	struct sp_path *path_free;
	unsigned paths;
	struct sp_mem *area;		  /* shared with the host, or NULL */
	struct sp_backing *area_made;	  /* [control] what the area is to be made of; NULL: nothing yet */
	uint64_t area_wanted;		  /* [control] what attach() has asked for in vain, since it was not made yet */
	struct sp_allocation *allocation; /* sp_alloc's */
	uint64_t rate;			  /* bit/s, 0 = no limit; [worker home] */
	sp_time tx_next;		  /* when issue() may send again; [worker home] */
	uint64_t tx_rest;		  /* what the rate left of the last division, so that the long run is exact */
	struct sp_issue *issues;	  /* circular list, last started; [worker home] */
	struct sp_context *issuing_next;  /* in the home worker's list of contexts with issues */
	bool issuing;
	struct sp_issue *issue_elsewhere; /* started on another worker; [shared] atomic exchange */
	struct sp_context *elsewhere_next;
	struct sp_context *sweep_next; /* in the home worker's list of contexts with an idle timeout */
	sp_time sweep_at;
	struct sp_event_queue *events;		/* to the host */
	uint32_t owner;				/* the application it belongs to; 0: the NIC's own and embedded ones */
	struct sp_device *device;		/* that opened it, or NULL; only to be compared */
	uint32_t charged_qps, charged_messages; /* to the account; [control] */
	const char *over;			/* the limit that attach() has run into, NULL; [control] */
	struct sp_account *account;		/* the application's; NULL: none */
	struct sp_doorbell *door;		/* to be rung for it, or NULL */
	struct sp_lending *lending;		/* outlives it, see lend.h */
	uint16_t home;
	bool heeded; /* somebody waits for its events: at the doorbell, or by watching */
	struct sp_view *view[SP_MAX_WORKERS];
	const struct sp_handler *registered; /* the handler as it is known by name */
	struct sp_context *older; /* the copy that this one has taken over from, while something is in flight there;
				     [shared] atomic, freed after all workers have passed by */
	struct sp_context *newer; /* of an older copy: who has taken over; [shared] atomic */
	uint32_t copy;		  /* 1, 2, ... of the context's copies */
	bool apart;	  /* [control] what the context has but once (events, area, rule, QPs) is another copy's */
	sp_time replaced; /* [control] when a newer copy took over */
	sp_time force;	  /* [control] a superseded copy ends then, whatever it holds; 0: never */
	uint64_t since;	  /* [control] rte_rcu_qsbr token of when it was superseded */
	uint32_t weight;  /* share of a worker that is short of time; 1 to SP_MAX_WEIGHT */
	struct sp_budget budget;    /* what a call may cost; [control] before attach() */
	struct sp_watched *watched; /* NULL: the normal case */
	const char *file;	    /* the plug-in that its handler came from; NULL: linked in */
};

/* What a view has had of its worker, and what of its waits. [worker] */
struct sp_portion {
	uint64_t cost;		 /* cycles of a packet, of late; 0: none has been measured */
	uint64_t had;		 /* virtual time: cycles by weight, see share.c */
	uint64_t seen;		 /* cycles measured that are in it */
	uint64_t known;		 /* cost as it was then */
	uint32_t period;	 /* of shortage that it is of */
	uint16_t first, last;	 /* in the backlog, index + 1 */
	uint16_t packets, place; /* there; in the list of who has some */
};

/* A context as one worker sees it; pub is what handlers get. */
struct sp_view {
	struct sp_ctx pub;
	struct sp_context *context;
	struct sp_worker *owner;
	struct sp_lender *lender; /* its payload that ports have */
	uint64_t packets, bytes;  /* taken; [worker] writes, others read for reports */
	uint64_t forwarded;
	uint64_t drops[SP_MAX_DROPS];
	uint64_t counters[SP_MAX_COUNTERS];
	uint64_t dma_faults, dma_traced, events_lost, sent, sent_bytes;
	uint64_t errors;       /* verdicts that are none, sends that were not */
	struct sp_wrong wrong; /* the last such thing; [worker] writes, copies.c moves, a snapshot copies it */
	int64_t kept;	       /* packets that handlers hold; summed over workers */
	uint64_t ended;	       /* verdicts SP_END; these are among `packets` */
	uint64_t answered;     /* verdicts SP_SENT; these too */
	struct sp_meter meter;
	struct sp_alike alike[2];	       /* turns with packets, and without */
	uint64_t over_budget, disabled;	       /* drops by these two of the NIC's names; they are among `dropped` */
	uint64_t kept_refused;		       /* beyond SP_MAX_KEPT */
	uint64_t backlog_full;		       /* drops by this name of the NIC's; among `dropped`, too */
	struct sp_work *work_head, *work_tail; /* deferred work; FIFO */
	struct sp_view *working_next;	       /* in the worker's list of those that have some */
	uint64_t dropped;		       /* by handlers' reasons and errors of this context, all together */
	bool touched;			       /* in the worker's list of those that have something new for the host */
	struct sp_view *touched_next;
	/* the packets of the current burst that are this context's */
	struct sp_packet *batch[SP_BURST + SP_PARKED];
	unsigned batched;
	struct sp_portion portion;
	/* ---- copies.c: [worker], or a control thread while the worker stands still */
	uint64_t handed,
		taken_over; /* packets counted here whose count a newer copy has; of `packets`, an older one's */
	uint32_t timers;    /* armed */
} SP_CACHE_ALIGNED;

/* A port of the NIC. */
struct sp_port {
	struct sp_nic *nic;
	uint16_t index;
	const struct sp_port_ops *ops; /* NULL: ethdev */
	void *arg;
	uint16_t ethdev;
	uint8_t mac[6];		  /* what it sends from and answers as; read-only once the NIC exists */
	struct rte_mempool *pool; /* an ethdev's receive buffers */
	bool taken, started;
	struct sp_vdev *vdev;	     /* made by the NIC, or NULL */
	struct sp_port_below *below; /* what is known of the driver and the kernel; NULL: ops */
};

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
	uint64_t polls;		      /* [worker] writes, the warden reads: relaxed */
	struct sp_doing doing;	      /* the same */
	uint64_t (*cycles)(void *);   /* instead of the TSC; see sp_nic_config.cycles */
	bool metering;		      /* calls are measured */
	struct sp_question *question; /* the warden's, see fault.h; NULL: there is none */
	sp_time ran, busy;	      /* of its thread: since it began, and of that in polls that did something */
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
	struct sp_front *front;			      /* of the filter rules: made with the first of them */
	struct sp_mirrors *mirrors;		      /* captures of what passes here; NULL: none, the normal case */
	struct sp_share *share;			      /* NULL: nothing is measured, and each has all that it wants */
	struct sp_view *touched;		      /* contexts with something new for the host in this poll */
	struct sp_view *active[SP_BURST + SP_PARKED]; /* contexts with a batch in this burst */
	unsigned actives;
	pthread_t thread;
} SP_CACHE_ALIGNED;

/* A drop reason's sum. */
struct sp_gone {
	struct sp_gone *next;
	const char *name;
	uint64_t count;
};

/* sp_ctx.watch */
enum { SP_WATCH_TRACED = 1, SP_WATCH_PAYLOAD_LESS = 2 };

struct sp_nic {
	struct sp_nic_config config; /* strings copied */
	uint16_t workers;
	bool icrc_off, any_source;
	struct sp_port port[SP_MAX_PORTS];
	unsigned ports;
	struct sp_port exception;
	bool has_exception;
	struct sp_qp_table *qps;
	struct sp_rule *_Atomic rule[2][SP_MAX_RULES]; /* in order; NULL past the last; [shared] */
	/* The lowest bit: which of the two holds, as a rule goes by changing over to the other one; above it: how often
	 * there was a change. [shared] */
	_Atomic uint64_t rules;
	struct sp_context *context[SP_MAX_CONTEXTS]; /* by id; [control], read under RCU */
	uint32_t context_next;			     /* one past the highest index ever used */
	uint16_t context_turn;			     /* goes into ids, so that an old id names nobody */
	struct sp_routes routes;		     /* read-only */
	struct sp_neighbours *neighbours;
	struct sp_stations stations; /* [shared] behind the exception port's traffic */
	_Atomic bool looping;	     /* [shared] relaxed: a path to the NIC itself has been opened */
	struct sp_memory *memory;
	_Atomic uint64_t memory_used;
	uint64_t hash_key[2];	  /* read-only, sp_hash's */
	struct sp_gone *gone;	  /* drops of contexts that have been removed, by name; [control] */
	struct sp_device *device; /* applications; changed on all workers' behalf by sp_worker_call */
	uint32_t owner_next;	  /* [control] owner numbers given to applications so far */
	struct sp_notifier *notifier;
	struct sp_lending *lendings; /* of contexts that are gone, and something of theirs is still out; [control] */
	struct sp_mirror *mirror[SP_MAX_MIRRORS]; /* [control]; workers have their own pointers, see mirror.h */
	pthread_mutex_t control;		  /* one control call at a time */
	_Atomic sp_time called; /* [shared] time that workers have spent on control calls, since the start */
	_Atomic bool stop;
	_Atomic bool leaving; /* [shared] the server ends: what applications have in memory is theirs */
	bool started;
	sp_time started_at;		 /* [control] sp_clock then */
	uint32_t own4[SP_MAX_ADDRESSES]; /* the NIC's addresses, as they stand in a packet */
	uint8_t own6[SP_MAX_ADDRESSES][16];
	unsigned own4s, own6s;
	struct sp_worker *worker[SP_MAX_WORKERS];
	struct rte_rcu_qsbr *readers; /* who reads contexts, QPs and rules: the workers' threads */
	struct sp_stand *stand;	      /* workers stand still; NULL: the normal case; [control] */
	_Atomic uint32_t copies;      /* superseded and not gone yet; [control] writes, anybody looks */
	struct sp_warden *warden;     /* looks whether workers go round; of a NIC that is started */
	struct sp_watcher *watcher;   /* handlers are looked over their shoulders, see watch.h; NULL: the normal case */
};

static inline struct sp_view *sp_view_of(struct sp_ctx *c)
{
	return (struct sp_view *)c; /* pub is the first member */
}

/* Which copy has taken over; c itself, when none has. */
static inline struct sp_context *sp_context_newest(struct sp_context *c)
{
	struct sp_context *newer;

	while (unlikely((newer = __atomic_load_n(&c->newer, __ATOMIC_ACQUIRE)) != NULL))
		c = newer;
	return c;
}

/* Runs fn(w, arg) on a worker between two of its polls and waits; where no threads run, at once. All that the worker
 * did before is done by then: the barrier that control calls need before they free something. nic->control must be
 * held. */
void sp_worker_call(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg);
/* The same for who only looks: -ETIMEDOUT where the worker has stopped in a handler's call; then fn is not run. */
int sp_worker_look(struct sp_worker *w, void (*fn)(struct sp_worker *, void *), void *arg);

/* All workers stand still, between two of their polls, until sp_workers_go(); what sp_worker_call asks they do
 * meanwhile. nic->control must be held. -ETIMEDOUT: one has not come round, and all go on. */
int sp_workers_stand(struct sp_nic *nic);
void sp_workers_go(struct sp_nic *nic);

/* A deterministic generator per worker. */
uint64_t sp_worker_random(struct sp_worker *w);

/* ---- transmit.c: every frame that leaves passes here --------------------------------------------------------------
 */
/* Copies a frame (Ethernet header included) into the queue; -EAGAIN (counted tx-full), -EMSGSIZE, -ENODEV. */
int sp_transmit_frame(struct sp_worker *w, uint16_t port, const void *frame, uint32_t len);
/* Takes the packet on success. */
int sp_transmit_packet(struct sp_worker *w, uint16_t port, struct rte_mbuf *m);
/* Takes n packets: there is room for them (sp_transmit_room), on a port that there is, and nobody looks on. */
void sp_transmit_run(struct sp_worker *w, uint16_t port, struct rte_mbuf *const *m, unsigned n);
void sp_transmit_flush(struct sp_worker *w);
void sp_transmit_reclaim(struct sp_worker *w); /* what drivers keep of what was sent */
/* Keeps a frame of that context, complete but for its destination MAC, until its next hop has answered. Takes it on
 * success; -EAGAIN. */
int sp_transmit_later(struct sp_worker *w, uint16_t port, const uint8_t next_hop[16], uint32_t context,
		      struct rte_mbuf *m);
unsigned sp_transmit_room(const struct sp_worker *w, uint16_t port);
void sp_transmit_pending(struct sp_worker *w); /* neighbours that have answered */

#endif
