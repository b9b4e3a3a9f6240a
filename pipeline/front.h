/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In front of the filter rules: frames that are alike in all that the rules read are alike to them, so what they said
 * of one is kept for the next. Nothing is assumed about what an expression means: the bytes that its program can read
 * are found in the program itself, and all of them are compared.
 *
 * A program reads at fixed offsets, and behind the IPv4 header, whose length it takes from byte 14. So which bytes it
 * reads is known for each value of that byte's lower half. A rule that reads anything else (the frame's length, bytes
 * beyond the first 64, behind an IPv4 header that is elsewhere) is tried on each frame, and so are those after it.
 */
#ifndef PIPELINE_FRONT_H
#define PIPELINE_FRONT_H

#include <stdatomic.h>
#include <stdint.h>

#define SP_FRONT_BYTES	 64 /* of a frame, that may be compared */
#define SP_FRONT_ENTRIES 1024

struct bpf_program;
struct rte_mbuf;
struct sp_rule;

/* What a program may read of frames whose byte 14 has a lower half of 0 to 15. */
struct sp_front_reads {
	uint64_t bytes[16]; /* a bit each */
	uint16_t known;	    /* a bit for each of the 16: it reads nothing else */
};
void sp_front_reads(const struct bpf_program *program, struct sp_front_reads *reads);

/* A worker's: nobody else touches it. */
struct sp_front {
	uint64_t turn; /* of the list that this is about, + 1 */
	struct sp_front_sight {
		uint64_t mask[SP_FRONT_BYTES / 8]; /* what is compared, */
		uint16_t reach;			   /* ... of frames that are so long; */
		uint16_t rules;			   /* ... says all of the first so many rules */
	} sight[16];
	struct sp_front_entry {
		uint64_t key[SP_FRONT_BYTES / 8];
		uint64_t turn;		    /* as above: that of another list counts for nothing */
		const struct sp_rule *rule; /* that takes such frames; NULL: none of the first ones does */
	} __attribute__((aligned(64))) entry[SP_FRONT_ENTRIES];
};

/* The first rule of the list that takes the packet, a linear one; or NULL. turn changes with every change of the list.
 */
const struct sp_rule *sp_front_match(struct sp_front *f, struct sp_rule *const _Atomic *list, uint64_t turn,
				     struct rte_mbuf *packet);

#endif
