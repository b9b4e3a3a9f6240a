/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time of one SDR message, by the stochastic model of the SDR paper (arXiv 2505.05366): chunks are injected one after
 * the other, and each transmission of a chunk is lost with the same probability, independently of all others. Headers,
 * processing and decoding take no time, acknowledgements are never lost. With M chunks, T the time to inject one, and Y
 * geometric (transmissions of a chunk until it arrives):
 *
 *   selective repeat  max over i of i·T + (RTO + T)(Y_i - 1), + RTT
 *   erasure coding    (M + parity)·T + RTT; if submessages cannot be recovered, which have n data chunks together,
 *                     + RTT + beta·RTT + the time that selective repeat takes for n chunks
 *
 * The time is the sender's, from the first packet sent to the last acknowledgement received. The last chunk may be
 * short, and the last submessage, too: k' chunks have ceil(k'·m/k) parity chunks of full size.
 *
 * Times are seconds. The functions keep no state: any thread may call them, and the caller owns the results.
 */
#ifndef TESTBED_MODEL_H
#define TESTBED_MODEL_H

#include <stdint.h>

#define SP_MODEL_MESSAGE_MAX	 (1ull << 50) /* bytes */
#define SP_MODEL_SAMPLES_MAX	 100000000u
#define SP_MODEL_SUBMESSAGES_MAX (1u << 20)
#define SP_MODEL_EC_MAX		 256	    /* k + m: the codes count in GF(2^8) */
#define SP_MODEL_DROP_MAX	 0.999	    /* of a chunk: with more, messages hardly ever end */
#define SP_MODEL_EXACT_MAX	 (1u << 22) /* steps of a distribution, for sp_model_mean */

enum sp_model_scheme { SP_MODEL_SR, SP_MODEL_EC_MDS, SP_MODEL_EC_XOR };

struct sp_model {
	double bandwidth; /* bit/s of payload, more than 0 */
	double rtt;	  /* s, more than 0 */
	uint64_t message; /* bytes, 1 to SP_MODEL_MESSAGE_MAX */
	uint64_t chunk;	  /* bytes, 1 or more */
	uint32_t mtu;	  /* 0: drop is that of a chunk; otherwise that of a packet with so many bytes, and chunk is a
			     multiple of it */
	double drop;	  /* probability, from 0; of a chunk at most SP_MODEL_DROP_MAX */
	enum sp_model_scheme scheme;
	double rto;    /* in round trips, 1 or more: 1 + alpha of the paper; with erasure coding for the fallback */
	unsigned k, m; /* erasure coding: 1 <= m <= k, k + m <= SP_MODEL_EC_MAX */
	double beta;   /* erasure coding: 0 or more */
};

struct sp_model_outcome {
	double mean, deviation; /* s, of the samples; the standard error of the mean is deviation / sqrt(samples) */
	/* s: quantiles by the nearest rank: of N samples in order, p99 is number ceil(0.99 N), counted from 1. */
	double p50, p99, p999;
	double lossless;    /* s: without losses and without parity: M·T + RTT */
	uint64_t fallbacks; /* erasure coding: samples in which a submessage could not be recovered */
};

/* Probability that one of this many packets is lost: 1 - (1 - p)^packets, precise for small p, too. */
double sp_model_chunk_drop(double packet_drop, uint64_t packets);

/* Probability that a submessage cannot be recovered if each chunk is lost with probability p: 1 - P_MDS, 1 - P_XOR. An
 * XOR parity chunk i covers the data chunks j with j mod m = i; where m does not divide k, some cover one more. */
double sp_model_mds_fails(unsigned k, unsigned m, double p);
double sp_model_xor_fails(unsigned k, unsigned m, double p);
/* Erasure coding: probability that any submessage of the message cannot be recovered; selective repeat: 0. sp_model_run
 * must accept the model. */
double sp_model_fallback(const struct sp_model *model);

/* Draws 1 to SP_MODEL_SAMPLES_MAX messages (8 bytes of memory each). A sample takes a few random numbers, whatever the
 * number of chunks, and with erasure coding one more for each submessage that fails. times: NULL, or room for the
 * seconds of each sample. 0; -EINVAL: an invalid value; -ERANGE: the chunks' drop probability or the number of
 * submessages is beyond its limit; -ENOMEM. */
int sp_model_run(const struct sp_model *model, uint32_t samples, uint64_t seed, double *times,
		 struct sp_model_outcome *outcome);

/* Exact values of the distribution: the probability that the message takes at most `time` (s), and its mean. The mean
 * sums over the steps of the distribution, one for each chunk and number of losses, and with erasure coding for each
 * number of failed submessages: -E2BIG for more than SP_MODEL_EXACT_MAX steps. -ENOMEM; else as sp_model_run. The mean
 * for erasure coding replaces the paper's lower bound. */
int sp_model_below(const struct sp_model *model, double time, double *probability);
int sp_model_mean(const struct sp_model *model, double *mean);

#endif
