/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The traffic of distributed training: generators of schedules, and what they take over full-duplex links (links.h), in
 * virtual time. It is traffic and stalls alone: to compute is to wait, and no model is trained. Numbers do move where a
 * scheme adds up gradients, see train_sums().
 *
 * All workers make `steps` steps. A step of the data-parallel schemes: compute, then make the sum of all gradients (N
 * bytes) known to all. A worker begins the next step once it has ended this one. Of the other schemes: the forward
 * passes of all micro-batches, then all backward passes.
 */
#ifndef TESTBED_MOTIF_TRAIN_H
#define TESTBED_MOTIF_TRAIN_H

#include <stdbool.h>

#include "../goal/noise.h"
#include "links.h"

#define TRAIN_WORKERS_MAX 4096u
#define TRAIN_BYTES_MAX	  (1ull << 48)
#define TRAIN_OPS_MAX	  (1u << 23) /* operations of a schedule; they take about 100 bytes each */
#define TRAIN_HOST	  0	     /* processors, "cpu" of an operation */
#define TRAIN_NIC	  1	     /* ... of handlers; nothing disturbs it */
#define TRAIN_PACER	  2	     /* ... that sends a checkpoint's parts, one at a time */
#define TRAIN_NETWORK	  0	     /* links, "nic" of an operation */
#define TRAIN_INSIDE	  1	     /* ... between the workers of a server, of a hybrid */

enum train_scheme {
	TRAIN_PS,	      /* workers send all to a server, which is one rank more; it answers with the sum */
	TRAIN_PS_ASYNC,	      /* ... which answers each worker at once: nobody waits for another worker */
	TRAIN_PS_SHARDED,     /* every worker is the server of a P-th */
	TRAIN_DECENTRALISED,  /* P - 1 rounds: in round r to the r-th next, all of its own gradients */
	TRAIN_RING,	      /* reduce-scatter, then all-gather: 2 (P - 1) rounds of a P-th to the next */
	TRAIN_REDUCE_SCATTER, /* each alone */
	TRAIN_ALL_GATHER,
	TRAIN_BARRIER,	/* dissemination: ceil(log2 P) rounds, in round r to the 2^r-th next */
	TRAIN_PIPELINE, /* a stage each: N bytes a micro-batch go to the next stage, and back */
	TRAIN_TENSOR,	/* a part of each layer each: forward an all-gather, backward a ring allreduce of N bytes */
	TRAIN_HYBRID, /* tensor parallel inside servers, which are the stages of a pipeline; each worker sends a P-th */
};

struct train_config {
	enum train_scheme scheme;
	bool offload;		/* handlers on NICs add, forward and answer: the server's; if there is none, all */
	bool multicast;		/* of PS: the server sends the sum once, and the switch copies it to all workers */
	uint32_t workers;	/* P, 2 to TRAIN_WORKERS_MAX; of a hybrid: of each server, from 1 */
	uint32_t servers;	/* of a hybrid, 1 to TRAIN_WORKERS_MAX; else not looked at */
	uint32_t steps;		/* from 1 */
	uint32_t segments;	/* of TRAIN_PS: the server answers each part once all have sent it; from 1 */
	uint32_t micro_batches; /* of PIPELINE, TENSOR and HYBRID, from 1 */
	uint32_t layers;	/* of TENSOR, from 1 */
	uint64_t bytes;	   /* N, up to TRAIN_BYTES_MAX: gradients; activations of a micro-batch; a barrier's messages */
	uint64_t compute;  /* ns: a step, or the forward pass of a micro-batch through a stage or layer */
	uint64_t backward; /* ns: the same of the backward pass */
	uint64_t add_rate; /* bit/s at which gradients are added, by the host or the NIC; 0: that takes no time */
	/* Of PS, PS_SHARDED, DECENTRALISED and RING. What a worker knows goes to storage, which is the last rank. */
	uint32_t checkpoint;	    /* worker 0 sends it there after each so many steps; 0: never */
	uint64_t checkpoint_bytes;  /* up to TRAIN_BYTES_MAX */
	uint64_t checkpoint_rate;   /* bit/s of what it sends; not 0 */
	uint32_t before;	    /* steps that were made before this schedule */
	bool restore;		    /* all workers begin with what storage sends them */
	bool dies;		    /* a worker does nothing after the first message of one of its steps */
	uint32_t dying, dying_step; /* which; the step: of this schedule */
};

struct train {
	struct goal *goal; /* finished */
	struct train_config config;
	uint32_t ranks; /* workers first */
	uint32_t *join; /* [rank * steps + step]: the operation that ends the step; UINT32_MAX: that never comes */
	uint32_t death; /* operation of config.dying, its last */
};

/* A schedule, *train, which the caller destroys. -EINVAL: beyond the bounds above; -E2BIG: more than TRAIN_OPS_MAX;
 * -ENOMEM. */
int train_create(const struct train_config *config, struct train **train);
void train_destroy(struct train *train); /* may be NULL */

/* Ranks of a scheme: its workers, a server of PS and PS_ASYNC, and storage if there are checkpoints. */
uint32_t train_ranks(const struct train_config *config);
bool train_has_store(const struct train_config *config); /* the last rank is storage */

/* What a schedule meets: as in links.h. */
struct train_world {
	struct links_nic nic[LINKS_NICS];
	sp_time overhead[LINKS_CPUS];
	sp_time (*stretch)(void *arg, uint32_t rank, uint8_t cpu, sp_time from, sp_time work);
	void *arg;
	const struct goal_draws *latency; /* of each message on the network, instead of nic[]'s; NULL: that one */
	uint64_t seed;			  /* of these draws */
};

struct train_outcome {
	struct links_node *node; /* train->ranks entries */
	sp_time *step;		 /* config.steps entries: when the last rank has ended the step */
	struct links_result all;
	uint32_t rounds; /* messages of the first step of which each needed the one before */
	/* Of PS_ASYNC: what the server has added. Stale: how many updates of others came between the parameters that an
	 * update was computed from and itself. */
	uint64_t updates, stale_sum, stale_most;
};

/* Runs a schedule; the caller frees the outcome, also after an error. Errors as of links_run. */
int train_run(const struct train *train, const struct train_world *world, struct train_outcome *outcome);
void train_outcome_free(struct train_outcome *outcome);

/* Whether the messages of one step give every worker the sums: numbers of 32 bits, four for each part of the gradients
 * that travels by itself, go the way of the messages and are added in the order in which these come. *compared: how
 * many results were as they must be. -EBADMSG: one was not; -ENOTSUP: the scheme adds nothing (also PS_ASYNC); else as
 * above. */
int train_sums(const struct train_config *config, uint64_t *compared);

#endif
