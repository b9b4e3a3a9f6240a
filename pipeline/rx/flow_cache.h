/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each worker's cache of what the filter rules answered. Frames with the same bytes wherever the rules read get the
 * same answer, so a frame that differs only elsewhere needs no run of the rules. Which bytes a rule reads is taken from
 * its program (rule_reads.h), and all of them are compared.
 *
 * A rule that reads the frame's length, or bytes beyond the first 64, cannot be cached. That rule and those after it
 * run for each frame that no rule before it takes.
 */
#ifndef PIPELINE_RX_FLOW_CACHE_H
#define PIPELINE_RX_FLOW_CACHE_H

#include <stdatomic.h>
#include <stdint.h>

#include "rule_reads.h"

#define SP_FLOW_CACHE_BYTES   SP_RULE_READS_BYTES
#define SP_FLOW_CACHE_WORDS   (SP_FLOW_CACHE_BYTES / 8)
#define SP_FLOW_CACHE_ENTRIES 1024

struct rte_mbuf;
struct sp_rule;

/* Of one worker; no other thread touches it. */
struct sp_flow_cache {
	uint64_t version; /* of the list that the masks are made of, + 1; 0: not made yet */
	struct sp_flow_cache_mask {
		uint64_t word[SP_FLOW_CACHE_WORDS]; /* the bytes that are compared */
		uint16_t reach;			    /* only of frames that have all of these bytes */
		uint16_t rules;			    /* the first so many rules of the list read nothing else */
	} mask[SP_FRAME_KINDS];
	struct sp_flow_cache_entry {
		uint64_t key[SP_FLOW_CACHE_WORDS];
		uint64_t version;	    /* as above: an entry of another version is void */
		const struct sp_rule *rule; /* the first one that takes such frames; NULL: none of mask.rules does */
	} __attribute__((aligned(64))) entry[SP_FLOW_CACHE_ENTRIES];
};

/* The first rule of the list that takes the packet, or NULL. The packet is in one piece. Each change of the list
 * changes its version. */
const struct sp_rule *sp_flow_cache_match(struct sp_flow_cache *cache, struct sp_rule *const _Atomic *list,
					  uint64_t version, struct rte_mbuf *packet);

#endif
