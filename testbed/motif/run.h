/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a schedule: each rank is a host of a simulated network with a modelled NIC (nic.h). A computation occupies its
 * processor of the rank. Everything happens in virtual time on the caller's thread; the same configuration gives the
 * same outcome. Memory: 4 bytes an operation beside the schedule, 100 a message that is on its way or not yet
 * received, 48 for each pair of ranks that talk, and the network.
 */
#ifndef TESTBED_MOTIF_RUN_H
#define TESTBED_MOTIF_RUN_H

#include "../goal/schedule.h"
#include "../net/net.h"
#include "nic.h"
#include "stalls.h"

struct motif_run_config {
	const struct goal *schedule;
	struct net_config net; /* callbacks and order are set here; it must be lossless */
	struct motif_nic nic;
	struct stalls *stalls; /* when hosts stand still (stalls.h), which the NICs do not; NULL: never */
	bool scatter;	       /* ranks are on hosts drawn by net.seed; otherwise rank r is on host r */
	sp_time *ends;	       /* for each rank: when its last operation is done is written there; NULL: nobody asks */
};

struct motif_outcome {
	sp_time time;		 /* until the last operation is done */
	uint64_t messages;	 /* sends of the schedule that are done */
	uint64_t bytes;		 /* their sizes */
	uint64_t packets;	 /* that NICs sent, of requests and acknowledgements, too */
	uint64_t wire_bytes;	 /* of these packets */
	uint64_t early_reads;	 /* messages whose receiver went on before all packets were there */
	uint64_t overtaking;	 /* messages that waited for an earlier one of their pair of ranks */
	uint64_t unexpected;	 /* messages, or requests, for which no receive was posted yet */
	uint64_t events;	 /* of hosts and NICs; the network's are in net.events */
	struct net_counters net; /* at the end; net.reordered: packets that came after a later one of their pair */
};

/* 0; -EINVAL: the configuration, why says what; -EDEADLK: operations remain that nothing will end, why names one;
 * -ENOMEM. why: whylen bytes, always ended by a NUL. */
int motif_run(const struct motif_run_config *config, struct motif_outcome *outcome, char *why, size_t whylen);

#endif
