/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A modelled NIC: what a message costs in packets, bytes and time, without any of its bytes. It is no engine of
 * pipeline/ and runs no handler; packets and their sizes are those that handlers/rvma and handlers/rdma make.
 *
 *   host --pcie--> NIC: tx_delay, then packet by packet as the link takes them --network--> NIC: rx_match --pcie-->
 * host
 *
 * Messages of a NIC leave one after the other, in the order in which hosts (or the NIC itself, acknowledgements) hand
 * them over; with control_first, requests, answers and acknowledgements pass puts, between two packets of one, too, as
 * NICs do that serve their queues in turn. Nothing is lost. The transports are:
 *
 * rvma: one put. The receiving NIC counts packets, in whatever order they come, and tells its host when all are there.
 *
 * rdma: the sender asks for a buffer (a SEND), the receiver answers with address and key as soon as the receive is
 * posted (a SEND), the sender writes (a WRITE), the receiving NIC acknowledges, and then the sender tells the receiver
 * (a SEND; motif_completion). With setup_once only the first message from one rank to another asks; buffers of later
 * ones are taken to be free.
 *
 * rdma-polled: as rdma, but the receiver looks at the last byte, instead of being told. That is right only if no packet
 * overtakes another: where the last packet comes before others the receiver goes on too early, which is counted.
 *
 * mpi: two-sided messages as a host's library does them; up to `eager` bytes one message that is copied at both ends,
 * beyond it request, answer and put of registered memory. What the host does costs time (motif_mpi). The sender
 * registers before it asks, the receiver when it posts the receive; at the end the receiver gives its memory back,
 * which takes as long, and the sender does not, as in SST's firefly.
 *
 * A send of rvma and rdma is done, so that a rank that blocks goes on, when the host knows that its put is
 * acknowledged: until then the NIC may need the bytes again. Or (MOTIF_SEND_READ) as soon as the NIC has read them all.
 *
 * Messages from one rank to another are matched in the order in which they were sent; one that overtakes waits.
 * Acknowledgements that nobody waits for are not modelled.
 */
#ifndef TESTBED_MOTIF_NIC_H
#define TESTBED_MOTIF_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include "../../handlers/wire/host.h"

#define MOTIF_PACKET_MAX (1u << 20) /* payload bytes of a packet */
#define MOTIF_WIRE	 24u	    /* bytes that Ethernet adds to a frame: preamble, FCS, gap */
#define MOTIF_REQUEST	 16u	    /* payload of a request: bytes, source, tag */
#define MOTIF_REPLY	 16u	    /* of an answer: address, key, tag */
#define MOTIF_COMPLETION 1u
#define MOTIF_HEADERS	 UINT32_MAX /* header: as on the wire */

enum motif_transport { MOTIF_RVMA, MOTIF_RDMA, MOTIF_RDMA_POLLED, MOTIF_MPI, MOTIF_TRANSPORTS };

/* When the completion of rdma leaves: once the write is acknowledged, or right behind it. The latter is right only if
 * no packet overtakes another; where it comes before others that is counted. */
enum motif_completion { MOTIF_AFTER_ACK, MOTIF_BEHIND };

enum motif_sends { MOTIF_SEND_ACKED, MOTIF_SEND_READ };

/* What is on its way. */
enum motif_phase { MOTIF_PHASE_REQUEST, MOTIF_PHASE_REPLY, MOTIF_PHASE_PUT, MOTIF_PHASE_ACK, MOTIF_PHASE_COMPLETION };

struct motif_mpi {
	uint64_t eager;		       /* bytes */
	sp_time tx_setup, rx_setup;    /* of each message, of the host */
	sp_time match;		       /* of each receive, or message, that is looked at for a message or receive */
	sp_time copy;		       /* ps a byte, at each end of an eager message */
	sp_time register_memory, page; /* registering memory, or giving it back, and each page of 4096 bytes */
};

struct motif_nic {
	enum motif_transport transport;
	enum motif_completion completion;
	enum motif_sends sends;
	bool setup_once, control_first;
	uint32_t packet; /* payload bytes, 1 to MOTIF_PACKET_MAX */
	uint32_t header; /* bytes of a packet beside its payload, all that the wire adds included; MOTIF_HEADERS */
	/* ps, each at most 1 s: from host to NIC and back; of each message when it leaves, and when all of it has
	 * arrived. */
	sp_time pcie, tx_delay, rx_match;
	struct motif_mpi mpi;
};

extern const char *const motif_transport_names[MOTIF_TRANSPORTS + 1]; /* up to a NULL */

/* rvma with packets of 4096 bytes, 150 ns, 50 ns, 100 ns; of mpi what SST's files say. */
void motif_nic_defaults(struct motif_nic *nic);
/* Payload of a phase of a message of so many bytes. */
uint64_t motif_phase_bytes(enum motif_phase phase, uint64_t bytes);
/* Packets for so many bytes: one if there are none. */
uint64_t motif_packets(const struct motif_nic *nic, uint64_t bytes);
/* Bytes on the wire of packet i of a phase with so many bytes of payload. */
uint32_t motif_packet_bytes(const struct motif_nic *nic, enum motif_phase phase, uint64_t bytes, uint64_t i);

#endif
