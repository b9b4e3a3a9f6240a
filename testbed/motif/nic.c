/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets and bytes of a modelled NIC's messages. */
#include "nic.h"

#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/rvma.h"

#define ETHERNET 14u
#define IPV4	 20u
#define UDP	 8u
#define ROCE	 (ETHERNET + IPV4 + UDP + (uint32_t)sizeof(struct sp_bth) + SP_ROCE_ICRC_LEN + MOTIF_WIRE)

const char *const motif_transport_names[] = {"rvma", "rdma", "rdma-polled", "mpi", NULL};

void motif_nic_defaults(struct motif_nic *nic)
{
	*nic = (struct motif_nic){.packet = 4096,
				  .header = MOTIF_HEADERS,
				  .pcie = 150 * SP_NS,
				  .tx_delay = 50 * SP_NS,
				  .rx_match = 100 * SP_NS,
				  .mpi = {.eager = 12000,
					  .tx_setup = 130 * SP_NS,
					  .rx_setup = 100 * SP_NS,
					  .match = 150 * SP_NS,
					  .copy = 344,
					  .register_memory = 3000 * SP_NS,
					  .page = 100 * SP_NS}};
}

uint64_t motif_phase_bytes(enum motif_phase phase, uint64_t bytes)
{
	switch (phase) {
	case MOTIF_PHASE_REQUEST:
		return MOTIF_REQUEST;
	case MOTIF_PHASE_REPLY:
		return MOTIF_REPLY;
	case MOTIF_PHASE_COMPLETION:
		return MOTIF_COMPLETION;
	case MOTIF_PHASE_ACK:
		return 0;
	default:
		return bytes;
	}
}

uint64_t motif_packets(const struct motif_nic *nic, uint64_t bytes)
{
	return bytes ? (bytes + nic->packet - 1) / nic->packet : 1;
}

/* The headers of one packet. */
static uint32_t header(const struct motif_nic *nic, enum motif_phase phase, uint64_t i)
{
	if (nic->header != MOTIF_HEADERS)
		return nic->header;
	if (phase == MOTIF_PHASE_ACK)
		return ROCE + (uint32_t)sizeof(struct sp_aeth);
	if (nic->transport == MOTIF_RVMA)
		return ROCE + (uint32_t)sizeof(struct sp_rvma_put);
	return ROCE + (phase == MOTIF_PHASE_PUT && !i ? (uint32_t)sizeof(struct sp_reth) : 0);
}

uint32_t motif_packet_bytes(const struct motif_nic *nic, enum motif_phase phase, uint64_t bytes, uint64_t i)
{
	const uint64_t left = bytes - i * nic->packet;
	uint32_t payload = left < nic->packet ? (uint32_t)left : nic->packet;

	if (nic->header == MOTIF_HEADERS && nic->transport != MOTIF_RVMA)
		payload = (payload + 3) & ~3u; /* the pad of RoCE */
	return header(nic, phase, i) + payload;
}
