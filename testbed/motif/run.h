/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a schedule: each rank is a host of a simulated network with a modelled NIC (nic.h), or with a real one. A
 * computation occupies its processor of the rank. Everything happens in virtual time on the caller's thread; the same
 * configuration gives the same outcome, but for nic_bytes. Memory: 4 bytes an operation beside the schedule, 100 a
 * message that is on its way or not yet received, 48 for each pair of ranks that talk, and the network.
 *
 * Real NICs are those of pipeline/, at the hosts of the network, and hosts use them by libspindle's calls (real.h):
 * rvma puts, or RC SENDs and WRITEs. The program begins when all sessions and QPs are there. They take the delays of
 * nic.h beside their own work, which takes no time. A NIC and its rank need 0.4 to 5 MB, and twice to six times the
 * largest message for each rank that it talks to. Beyond half of the machine's memory they are refused. They start DPDK
 * in the process (sp_eal_init()), if it does not run.
 */
#ifndef TESTBED_MOTIF_RUN_H
#define TESTBED_MOTIF_RUN_H

#include "../goal/schedule.h"
#include "../net/net.h"
#include "nic.h"
#include "stalls.h"

/*
 * How long messages take in the network, beyond what its switches and links say. Each message (a put, a request, an
 * acknowledgement) draws its latency, and so do all its packets, which keep their order; other messages may overtake
 * them. Each 16 MiB of a message draw the time of a byte, on all links that their packets pass. What is drawn is
 * spread alike over the values that were measured. NULL: no distribution. The draws must outlive the run.
 */
struct motif_noise {
	sp_time latency;		    /* of each message if no distribution is given, at most 1 s */
	const struct goal_draws *latencies; /* ps; 1 s and more count as 1 s */
	const struct goal_draws *bytes;	    /* ps of a byte, cut off at 2^32 - 1; not with PFC */
};

struct motif_run_config {
	const struct goal *schedule;
	struct net_config net; /* callbacks and order are set here; lossless, unless NICs are real */
	struct motif_nic nic;
	sp_time *ends; /* for each rank: when its last operation is done is written there; NULL: nobody asks */
	struct motif_noise noise; /* of the network */
	struct stalls *stalls;	  /* when hosts stand still (stalls.h), which the NICs do not; NULL: never */
	bool scatter;		  /* ranks are on hosts drawn by net.seed; otherwise rank r is on host r */
	bool real;	/* real NICs; their transports are rvma, rdma and rdma-polled, sends MOTIF_SEND_ACKED */
	bool selective; /* real, rdma: selective repeat; otherwise RC goes back N */
};

struct motif_outcome {
	sp_time time;	      /* until the last operation is done */
	uint64_t messages;    /* sends of the schedule that are done */
	uint64_t bytes;	      /* their sizes */
	uint64_t packets;     /* that NICs sent, of requests and acknowledgements, too */
	uint64_t carrying;    /* packets of messages, requests, answers and completions, each once */
	uint64_t wire_bytes;  /* of all packets */
	uint64_t early_reads; /* messages whose receiver went on before all packets were there */
	uint64_t overtaking;  /* messages that waited for an earlier one of their pair of ranks */
	uint64_t unexpected;  /* messages, or requests, for which no receive was posted yet */
	uint64_t events;      /* of hosts and NICs; the network's are in net.events */
	/* Of real NICs; of modelled ones 0. */
	uint64_t compared;  /* bytes that have arrived and were compared with what was sent */
	uint64_t again;	    /* packets that were sent once more */
	uint64_t refused;   /* puts that found no buffer, and were made again */
	uint64_t waited;    /* times that a packet waited for a buffer. Not 0: times are too long */
	uint64_t nic_bytes; /* memory that the process took for them, over the ranks; with DPDK's, if it began here */
	struct net_counters net; /* at the end; net.reordered: packets that came after a later one of their pair */
};

/* 0; -EINVAL: the configuration, why says what; -EDEADLK: operations remain that nothing will end, why names one;
 * -ENOMEM; of real NICs also -EBADMSG: other bytes have come than were sent, and what their calls return; why says
 * what. why: whylen bytes, always ended by a NUL. */
int motif_run(const struct motif_run_config *config, struct motif_outcome *outcome, char *why, size_t whylen);

#endif
