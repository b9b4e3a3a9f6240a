/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages over a long path, in virtual time: two NICs with a link between them, one reliable SDR connection, a host
 * program at each end. One message is sent after the other, and the time of each is measured.
 *
 * A message's time is measured at the sender: from the first packet sent to the last acknowledgement received.
 */
#ifndef TESTBED_TRANSFER_H
#define TESTBED_TRANSFER_H

#include "../host-api/reliable.h"
#include "device/device.h"
#include "link.h"

struct sp_transfer_config {
	struct sp_link_direction link[2]; /* 0: data, 1: acknowledgements */
	uint64_t message;		  /* bytes, 1 to mtu * 2^18 */
	uint32_t chunk, mtu;		  /* bytes, as in struct sdr_qp_attr */
	/* probability that a transmission of a chunk is lost, all its packets together; 0 to 1. Other packets, both
	 * ways, are lost with the probability that gives single packets the same chunk loss: 1 - (1 - p)^(1 / packets
	 * of a chunk). */
	double chunk_drop;
	struct sdr_reliable_attr reliable;
	struct sdr_ec ec;    /* if the scheme needs it */
	uint64_t repair_bps; /* speed of repairs on the receiving NIC, bit/s of chunks multiplied and added; 0: repairs
				take no time */
	uint16_t workers;    /* of each NIC, 1 to 16; 0: 1. Each repairs at that speed. Packets are spread over them */
	bool payload_less;   /* of NICs and link, see link.h and nic.h: received bytes are not compared then */
	/* on whose cores the receiving NIC's sdr runs, see device/gate.h: it must have a cost for it, and the path must
	 * not be payload-less. NULL: calls take no time. Must stay valid. */
	const struct sp_device *device;
	sp_time grain; /* of virtual time, see sp_world_set_grain */
	uint64_t seed;
};

struct sp_transfer_counters {
	uint64_t messages, packets;   /* packets: of data, retransmissions included */
	uint64_t retransmitted;	      /* packets of retransmitted chunks */
	uint64_t spurious;	      /* ... known to be needless */
	uint64_t verified;	      /* bytes received and equal to those sent */
	uint64_t parity;	      /* packets of parity */
	uint64_t repaired;	      /* chunks repaired from parity */
	sp_time repairing;	      /* time that repairs took, see repair_bps */
	uint64_t fallbacks;	      /* messages sent with parity that needed retransmissions all the same */
	uint64_t coded[SDR_EC_CODES]; /* messages sent with parity, by code of sdr_ec_codes() */
	/* with a device: packets that it took, packets that found its buffer full and were lost; the time of its cores,
	 * of packets in it, and of packets that waited for a core */
	uint64_t device_packets, device_lost;
	sp_time device_busy, device_latency, device_wait;
	uint64_t held, oversized; /* of the link, see struct sp_link_counters; not 0: the times are wrong */
};

struct sp_transfer;

/* EAL must be initialised (sp_eal_init). -EINVAL, -ENOMEM, or what the calls that it makes return; error has the text.
 * Use one thread for all calls. */
int sp_transfer_create(const struct sp_transfer_config *config, struct sp_error *error, struct sp_transfer **transfer);
/* Sends the next message. 0; -ETIMEDOUT: not acknowledged in time (config.reliable.timeout); -EBADMSG: the received
 * bytes differ from those sent; -ELOOP: time stands still. After any error but the first, only destroy. */
int sp_transfer_send(struct sp_transfer *transfer, sp_time *took);
/* Changes the path from now on: config.link without the queues, and chunk_drop, which can be set only if it was more
 * than 0 at creation. -EINVAL. */
int sp_transfer_change(struct sp_transfer *transfer, const struct sp_link_direction link[2], double chunk_drop);
void sp_transfer_count(const struct sp_transfer *transfer, struct sp_transfer_counters *counters);
/* Adds n to sum; sign -1 subtracts it. */
void sp_transfer_add(struct sp_transfer_counters *sum, const struct sp_transfer_counters *n, int sign);
void sp_transfer_destroy(struct sp_transfer *transfer);

#endif
