/* SPDX-License-Identifier: BSD-3-Clause */
/* A share of one worker: the whole worker is divided among users, a user's share among its applications, and an
 * application's among its contexts, see exec/scheduler.h. [worker] */
#ifndef PIPELINE_SHARE_H
#define PIPELINE_SHARE_H

#include <stdint.h>

struct sp_share {
	struct sp_share *above; /* an application's: its user's; a user's: the worker's; NULL: the whole worker */
	uint32_t weight;	/* among those that have the same share above */
	uint32_t period;	/* the shortage of time that vtime belongs to */
	uint64_t vtime;		/* virtual time used, among those that have the same share above */
	uint64_t clock;		/* virtual time within it: of who was served last, when that began */
	uint64_t dearest;	/* within it: how far one call of who waits gets ahead, found in poll `looked` */
	uint64_t looked;
	/* of the backlog */
	unsigned packets; /* of all below */
	unsigned waiting; /* how many of those directly below wait */
	uint64_t weights; /* their sum */
};

#endif
