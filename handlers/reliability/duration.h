/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a message is expected to take by each scheme, if chunks are lost at a given rate: the mean of the SDR
 * paper's model (arXiv 2505.05366, section 4), in closed form and to about a percent, where testbed/model.h draws
 * samples or goes through the whole distribution. A decision needs some fifty of these means within microseconds.
 *
 * Beyond the paper: losses may come in bursts, encoding and decoding take time.
 *
 * No clock, no I/O, no allocation, no state. All functions take whatever they are given: what cannot be (not a number,
 * nothing, less than nothing, more than there is) counts as the nearest value that can, and times are finite.
 */
#ifndef RELIABILITY_DURATION_H
#define RELIABILITY_DURATION_H

#include <stdbool.h>
#include <stdint.h>

enum sp_choice_scheme { SP_CHOICE_SR_RTO, SP_CHOICE_SR_NACK, SP_CHOICE_EC_MDS, SP_CHOICE_EC_XOR };

struct sp_choice {
	enum sp_choice_scheme scheme;
	uint8_t k, m; /* erasure coding, else 0; 1 <= m <= k, k + m <= 255 */
};

/* Times are seconds. */
struct sp_choice_path {
	double bandwidth; /* bit/s of payload */
	double rtt;
	/* When a lost chunk goes again after it left, in round trips: at least 1. */
	double rto;	 /* sr-rto */
	double nack;	 /* sr-nack: 1, half the time between polls, and the reordering window; also of a fallback */
	double fallback; /* erasure coding: how much later than without a fallback chunks that go again arrive if they
			    are not lost again, in round trips; 2 and the paper's beta, or 1 */
	bool lost_only;	 /* a fallback sends again what was lost; else the submessages that failed */
	/* What coding takes: bytes/s of data, times the rows that are made of them; 0: no time. Both go on beside
	 * sending and receiving. Fewer rows than SP_CHOICE_ROWS take as long as that many, for memory is the limit
	 * then. */
	double encode, decode;
};
#define SP_CHOICE_ROWS 3

struct sp_choice_size {
	uint64_t bytes;
	uint32_t chunk; /* bytes, that are acknowledged and sent again */
	uint32_t mtu;	/* bytes, of a packet; 0: chunk */
};

/* How packets are lost. */
struct sp_hazard {
	double rate;	    /* n packets all arrive with probability exp(-rate n) */
	double correlation; /* of neighbouring chunks' losses, 0 to less than 1: bursts of 1 / (1 - correlation) times
			       as many chunks as independent losses have */
};

/* The rate at which a packet is lost with probability `drop`. */
double sp_hazard_rate(double drop);
/* Probability that one of so many packets is lost. */
double sp_hazard_lost(double rate, double packets);

/* More than `most` of n chunks in a row are lost, if each is with probability p. Takes n * most * 2 ns. */
double sp_duration_more_lost(unsigned n, unsigned most, double p, double correlation);
/* A submessage of `data` chunks cannot be recovered; 1: choice is not of erasure coding. */
double sp_duration_fails(struct sp_choice choice, unsigned data, double p, double correlation);

/* The mean time from the first packet injected to the last acknowledgement. A chunk's loss is taken as at most 3/4. */
double sp_duration(const struct sp_choice_path *path, const struct sp_choice_size *size, const struct sp_hazard *hazard,
		   struct sp_choice choice);

#endif
