/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of a NIC. Marks at the fields: see context.h. */
#ifndef PIPELINE_ENGINE_H
#define PIPELINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "limits.h"
#include "nic.h"
#include "tx/route.h"
#include "tx/mac_table.h"

struct sp_context;
struct sp_worker;
struct sp_port;
struct sp_rule;
struct sp_freeing;
struct sp_gone;
struct sp_own;
struct sp_user;

struct sp_nic {
	struct sp_nic_config config; /* strings copied */
	uint16_t workers;
	bool icrc_off, any_source;
	uint16_t vlan;	      /* of the NIC's own packets; 0: they have no tag */
	bool seeded;	      /* its user has given the seed: also started workers draw from it */
	struct sp_port *port; /* SP_MAX_PORTS of them, and the exception port */
	unsigned ports;
	struct sp_port *exception;
	bool has_exception;
	uint32_t exception_most; /* bytes of a frame for it */
	struct sp_qp_table *qps;
	struct sp_rule *_Atomic rule[2][SP_MAX_RULES]; /* in order; NULL past the last; [shared] */
	/* Bit 0: which of the two lists is current (removing a rule switches lists); bits above: number of changes.
	 * [shared] */
	_Atomic uint64_t rules;
	struct sp_context *context[SP_MAX_CONTEXTS]; /* by id; [control], read under RCU */
	uint32_t context_next;			     /* one past the highest index ever used */
	uint16_t context_generation;		     /* part of ids, so that an old id matches no context */
	struct sp_routes routes;		     /* read-only */
	struct sp_neighbours *neighbours;
	struct sp_mac_table macs; /* [shared] of the exception port's traffic */
	_Atomic bool looping;	  /* [shared] relaxed: a path to the NIC itself has been opened */
	struct sp_memory *memory;
	struct sp_freeing *freeing;
	_Atomic uint64_t memory_used;
	uint64_t hash_key[2];	     /* read-only, sp_hash's */
	struct sp_gone *gone;	     /* drops of contexts that have been removed, by name; [control] */
	struct sp_device *device;    /* applications; [control] */
	struct sp_user *user;	     /* who has or had some; [control] */
	struct sp_own *own;	     /* the group of the NIC's own contexts */
	_Atomic uint64_t park_after; /* [shared] relaxed: an application is parked after so many polls without a post */
	uint32_t owner_next;	     /* [control] owner numbers given to applications so far */
	struct sp_notifier *notifier;
	struct sp_zc *zc_gone; /* of removed contexts while ports still read their payload; [control] */
	struct sp_capture *capture[SP_MAX_CAPTURES]; /* [control]; workers have their own pointers, see capture.h */
	pthread_mutex_t control;		     /* one control call at a time */
	_Atomic sp_time called; /* [shared] time that workers have spent on control calls, since the start */
	_Atomic bool stop;
	sp_time sleep_most;   /* the longest sleep of a worker; tests may set it */
	_Atomic bool leaving; /* [shared] the server ends: applications keep their mappings */
	bool started;
	sp_time started_at;		 /* [control] sp_clock then */
	uint32_t own4[SP_MAX_ADDRESSES]; /* the NIC's addresses, as they stand in a packet */
	uint8_t own6[SP_MAX_ADDRESSES][16];
	unsigned own4s, own6s;
	struct sp_worker *worker[SP_MAX_WORKERS];
	struct rte_rcu_qsbr *readers; /* readers of contexts, QPs and rules: the workers' threads */
	struct sp_stand *stand;	      /* workers stand still; NULL: the normal case; [control] */
	_Atomic uint32_t draining;    /* older versions of handlers; [control] writes, anybody looks */
	struct sp_watchdog *watchdog; /* the watchdog of a started NIC's workers */
	struct sp_tracers *tracers;   /* traces handlers, see watch.h; NULL: off */
};

#endif
