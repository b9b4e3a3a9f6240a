/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages across a long way, in virtual time: two NICs with a link between, one reliable SDR connection, a host
 * program at each end. One message after the other crosses; how long each took is told.
 *
 * A message's time is its sender's: from the first packet injected to the last acknowledgement received.
 */
#ifndef TESTBED_TRANSFER_H
#define TESTBED_TRANSFER_H

#include "../host-api/reliable.h"
#include "link.h"

struct sp_transfer_config {
	struct sp_link_direction link[2]; /* 0: data's way, 1: back */
	uint64_t message;		  /* bytes, 1 to mtu * 2^18 */
	uint32_t chunk, mtu;		  /* bytes, as in struct sdr_qp_attr */
	/* Of each sending of a chunk: all its packets are lost together. 0 to 1. Other packets are then lost, both
	 * ways, with the probability that a single packet would need for it: 1 - (1 - p)^(1 / packets of a chunk). */
	double chunk_drop;
	struct sdr_reliable_attr reliable;
	struct sdr_ec ec;    /* what the scheme needs */
	uint64_t repair_bps; /* what the receiving NIC multiplies and adds to repair chunks, bit/s; 0: it takes no time
			      */
	uint16_t workers;    /* of each NIC, 1 to 16; 0: 1. Each repairs so fast. Packets are spread over them */
	bool payload_less;   /* NICs and link, see link.h and nic.h: nothing is compared then */
	sp_time grain;	     /* of time, see sp_world_set_grain */
	uint64_t seed;
};

struct sp_transfer_counters {
	uint64_t messages, packets;   /* packets: of data, those sent again among them */
	uint64_t retransmitted;	      /* packets of chunks sent again */
	uint64_t spurious;	      /* of these, known to have been needless */
	uint64_t verified;	      /* bytes compared with what was sent, and equal */
	uint64_t parity;	      /* packets of parity, besides */
	uint64_t repaired;	      /* chunks made from parity */
	sp_time repairing;	      /* time that it took, see repair_bps */
	uint64_t fallbacks;	      /* messages sent with parity of which chunks went again all the same */
	uint64_t coded[SDR_EC_CODES]; /* messages sent with parity of each of sdr_ec_codes() */
	uint64_t held, oversized;     /* of the link, see struct sp_link_counters: not 0, and the times are not right */
};

struct sp_transfer;

/* EAL must be there (sp_eal_init). error says what is wrong. -EINVAL, -ENOMEM, and what the calls say that it makes.
 * One thread for all calls. */
int sp_transfer_create(const struct sp_transfer_config *config, struct sp_error *error, struct sp_transfer **transfer);
/* The next message. 0; -ETIMEDOUT: it was not acknowledged in time (config.reliable.timeout); -EBADMSG: it arrived with
 * other bytes than were sent; -ELOOP: time stands still. After an error but the first, only destroy. */
int sp_transfer_send(struct sp_transfer *transfer, sp_time *took);
/* From now on the way is another: of config.link, but for the queues, and of chunk_drop, which must have been more than
 * 0 before if it is now. -EINVAL. */
int sp_transfer_change(struct sp_transfer *transfer, const struct sp_link_direction link[2], double chunk_drop);
void sp_transfer_count(const struct sp_transfer *transfer, struct sp_transfer_counters *counters);
/* Adds n to sum, or with `sign` -1 takes it off. */
void sp_transfer_add(struct sp_transfer_counters *sum, const struct sp_transfer_counters *n, int sign);
void sp_transfer_destroy(struct sp_transfer *transfer);

#endif
