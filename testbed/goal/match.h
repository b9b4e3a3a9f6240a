/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives that wait for messages, and messages that wait for receives, of all ranks, matched as MPI does: by source
 * and tag, the oldest first, GOAL_ANY matches all. A pair without GOAL_ANY is found in constant time, however many
 * wait. For one thread at a time.
 */
#ifndef TESTBED_GOAL_MATCH_H
#define TESTBED_GOAL_MATCH_H

#include <stdbool.h>
#include <stdint.h>

struct goal_match;

/* What waits: operation `op` of rank `from`, which is the receiver's own of a receive, and the sender of a message. */
struct goal_waiting {
	uint32_t from, op;
};

int goal_match_create(uint32_t ranks, struct goal_match **m); /* -ENOMEM; the caller destroys it */
void goal_match_destroy(struct goal_match *m);		      /* m may be NULL */
void goal_match_clear(struct goal_match *m);		      /* nothing waits; keeps its memory */

/* A receive at `rank`: true and *message, which waits no longer, if a message from src with the tag is there. */
bool goal_match_receive(struct goal_match *m, uint32_t rank, uint32_t src, uint32_t tag, struct goal_waiting *message);
/* A message from src at `rank`: true and *receive, which waits no longer, if one for it is there. Neither src nor
 * tag is GOAL_ANY, here and in goal_match_keep(). */
bool goal_match_message(struct goal_match *m, uint32_t rank, uint32_t src, uint32_t tag, struct goal_waiting *receive);

/* Lets a receive, operation op of rank, or a message, operation op of rank src, wait. -ENOMEM. */
int goal_match_post(struct goal_match *m, uint32_t rank, uint32_t src, uint32_t tag, uint32_t op);
int goal_match_keep(struct goal_match *m, uint32_t rank, uint32_t src, uint32_t tag, uint32_t op);

/* How many wait, and the oldest message's rank and source if there is one. */
uint64_t goal_match_receives(const struct goal_match *m);
uint64_t goal_match_messages(const struct goal_match *m);
bool goal_match_message_left(const struct goal_match *m, uint32_t *rank, uint32_t *src);

#endif
