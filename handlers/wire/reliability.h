/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of a reliable connection tell each other, in datagrams that may be lost, repeated and overtaken.
 *
 * The sender asks (POLL), the receiver answers with what it has (ACK): a message below which all have come, and for
 * those above a cumulative unit number and as much of the bitmap as fits. An answer names the poll that it answers: the
 * sender knows when that left, so what it had sent long enough before and is not in the answer has been lost. A
 * receiver also tells unasked when a message becomes complete, or when it has refused one, which it then takes nothing
 * more of.
 *
 * Units are what is acknowledged and sent again: chunks (SDR) or packets (RVMA). Numbers are big-endian.
 */
#ifndef SPINDLE_WIRE_RELIABILITY_H
#define SPINDLE_WIRE_RELIABILITY_H

#include <assert.h>
#include <stdint.h>

#define SP_REL_MAGIC	0x5350524Cu /* "SPRL" */
#define SP_REL_VERSION	1
#define SP_REL_MESSAGES (1ull << 63) /* numbers of messages are below */

enum sp_rel_type { SP_REL_POLL = 1, SP_REL_ACK = 2 };
#define SP_REL_UNASKED 1u /* flags of an ACK: it answers no poll */

struct sp_rel_head {
	uint8_t magic[4];
	uint8_t version, type, flags, zero;
	uint8_t poll[8]; /* POLL: its number, from 1; ACK: of the poll that it answers, 0 if it answers none */
};
static_assert(sizeof(struct sp_rel_head) == 16, "on the wire");

struct sp_rel_poll {
	struct sp_rel_head head;
	uint8_t begin[8];	 /* the sender has no more use for messages below this one: done, or given up */
	uint8_t from_message[8]; /* where the answer shall begin: not all of it may fit */
	uint8_t from_unit[4];
	uint8_t reach[4]; /* nothing was sent of messages from begin + reach on: there is nothing to say of them */
};
static_assert(sizeof(struct sp_rel_poll) == 40, "on the wire");

/* An ACK speaks of the units in [from, to), in ascending order, and says of each whether it has come: those of messages
 * that have no entry have not, nor those behind an entry's bitmap. `to` is behind everything, or where there was no
 * more room. What base and below say is true also of units before `from`. */
struct sp_rel_ack {
	struct sp_rel_head head;
	uint8_t base[8]; /* all messages below this one are complete, or of no more use */
	uint8_t from_message[8], to_message[8];
	uint8_t from_unit[4], to_unit[4];
	uint8_t entries[2];	  /* struct sp_rel_entry, each with its bitmap, follow */
	uint8_t repaired_runs[2]; /* of neighbours, that the next were lost in: modulo 2^16 */
	uint8_t repaired[4]; /* units that were lost, and made from parity, so far and modulo 2^32: what losses there
				are */
};
static_assert(sizeof(struct sp_rel_ack) == 56, "on the wire");

#define SP_REL_REFUSAL 1u /* flags of an entry: no more of the message is taken, it will never be complete */

struct sp_rel_entry {
	uint8_t message[8];
	uint8_t below[4]; /* all units below this one have come */
	uint8_t first[4]; /* of the bitmap: bit i of byte i/8 is unit first + i; at least `below` */
	uint8_t bytes[2]; /* of bitmap behind this */
	uint8_t flags;
	uint8_t reason; /* of a refusal: the protocol's, 0: none is given */
	uint8_t zero[4];
};
static_assert(sizeof(struct sp_rel_entry) == 24, "on the wire");

#endif
