/* SPDX-License-Identifier: BSD-3-Clause */
/* An execution context: a handler, its state and its resources. Marks at the fields say who may access them: [control]
 * one control thread, before workers see the object; [worker] only the worker that owns the structure; [shared] any
 * worker, with atomics or read-only after publication. */
#ifndef PIPELINE_CONTEXT_H
#define PIPELINE_CONTEXT_H

#include <rte_branch_prediction.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "../handlers/spindle-handler.h"
#include "limits.h"
#include "exec/meter.h"
#include "view.h"

struct sp_nic;
struct sp_entity;
struct sp_view;
struct sp_messages_table;

struct sp_context {
	char name[40];
	uint32_t id;
	const struct sp_handler
		*handler; /* the functions that are called; a traced context has its own, see traced.h */
	struct sp_nic *nic;
	void *state;
	struct sp_messages_table *messages;
	struct sp_setting *setting; /* own copies, [control] */
	size_t settings;
	struct sp_error *error;	     /* sp_fail writes here during attach() */
	unsigned reasons, counters;  /* names the handler declares */
	uint32_t qp_first, qp_count; /* 0 = none */
	uint32_t qp_control;	     /* 0 = none */
	bool qp_any;		     /* [control] the NIC chooses qp_first when QPs are claimed */
	sp_time idle;		     /* message-timeout of the configuration */
	bool attached;
	struct sp_rule *rule;
	struct sp_context *companion; /* has the second handler, which works on the same messages */
	struct sp_context *first;     /* for a companion: the context it accompanies */
	uint8_t peer[16];	      /* [shared] written before peer_set */
	_Atomic bool peer_set;	      /* then packets from other addresses are dropped */
	bool peer_self;	     /* [shared] written before peer_set: the peer is this NIC, by the loop and no port */
	bool attaching;	     /* [control] inside attach(): workers do not know the context yet */
	bool home_only;	     /* of a NIC with several workers: all packets go to the home worker */
	struct sp_mem *area; /* shared with the host, or NULL */
	struct sp_allocation *allocation; /* sp_alloc's */
	bool flows;			  /* of a NIC with several workers: a QP's packets go to its own worker */
	LIST_ENTRY(sp_context) sweeping;  /* in the home worker's list */
	sp_time sweep_at;
	struct sp_event_queue *events;		/* to the host */
	uint32_t owner;				/* the application it belongs to; 0: the NIC's own and embedded ones */
	struct sp_device *device;		/* the application that opened it, or NULL; never dereferenced */
	uint32_t charged_qps, charged_messages; /* to the account; [control] */
	const char *over;			/* the limit that attach() has exceeded, or NULL; [control] */
	struct sp_account *account;		/* the application's; NULL: none */
	struct sp_doorbell *door;		/* the application's, or NULL */
	struct sp_zc *zc;			/* outlives it, see zero_copy.h */
	uint16_t home;
	bool heeded;				  /* its events have a listener: a doorbell, or a watch */
	struct sp_entity *entity[SP_MAX_WORKERS]; /* all versions have the same; what is `inherited` frees none */
	struct sp_view *view[SP_MAX_WORKERS];
	const struct sp_handler *registered; /* the handler that is registered by name */
	/* ---- versions of the handler: a reload makes a new one, and the older ones drain; see versions.h */
	struct sp_context *older; /* the version before, while it drains; NULL: the normal case. [shared] atomic, freed
				     after all workers have passed by */
	struct sp_context *newer; /* of a version that drains: the one that replaced it. [shared] atomic */
	uint32_t generation;	  /* 1, 2, ... of the context's versions */
	bool inherited;		  /* [control] another version owns what a context has only once: events, area, rule,
				     QPs, entities */
	sp_time replaced;	  /* [control] when a newer version took over */
	sp_time force;		  /* [control] a version that drains ends then, whatever it holds; 0: never */
	uint64_t since;		  /* [control] rte_rcu_qsbr token of that time */
	uint32_t weight;	  /* in the scheduler; 1 to SP_MAX_WEIGHT */
	struct sp_budget budget;  /* of cycles for a call; [control] before attach() */
	struct sp_traced *traced; /* NULL: the normal case */
	const char *file;	  /* the plug-in that its handler came from; NULL: linked in */
};

/* The newest version of c. */
static inline struct sp_context *sp_context_newest(struct sp_context *c)
{
	struct sp_context *newer;

	while (unlikely((newer = __atomic_load_n(&c->newer, __ATOMIC_ACQUIRE)) != NULL))
		c = newer;
	return c;
}

/* SP_HANDLER_FLOWS: the worker of the QP with that qp_index. */
static inline uint16_t sp_flow_worker(const struct sp_context *c, uint32_t index)
{
	const uint16_t workers = c->view[0]->pub.workers;

	return index == SP_QP_CONTROL ? c->home : (uint16_t)(index % workers);
}

/* Workers may call it, too. NULL: there is none. */
struct sp_context *sp_context_by_id(struct sp_nic *nic, uint32_t id);
/* The other context's name, as c's application may know it: only the NIC's own contexts see names of others. */
const char *sp_context_name_for(const struct sp_context *c, const struct sp_context *other);
/* Of a uint64_t in struct sp_view at that offset, over the workers. */
uint64_t sp_context_sum(const struct sp_context *c, size_t field);

#endif
