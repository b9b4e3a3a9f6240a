/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring: a case and its baseline take turns, several times; what counts is the ratio of their medians. */
#ifndef TESTBED_BENCH_H
#define TESTBED_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_ROUNDS_MAX   101
#define BENCH_PACKETS_MAX  1024
#define BENCH_CHUNK_MAX	   128
#define BENCH_MESSAGES_MAX 1024

/* One round: how much was done in how many TSC cycles. */
struct bench_round {
	uint64_t units; /* packets */
	uint64_t cycles;
	/* Cases with a unit of their own give these instead, in that unit; tail: 99 of 100 are below, where there is
	 * one. */
	double value, tail;
	/* us, of the case's slices of work, of each the shortest of all repetitions so far: the median, the longest; 0:
	 * it has none */
	double slice, slice_max;
};

typedef int bench_run_t(void *state, double seconds, struct bench_round *round, char *why, unsigned room);

#define BENCH_SKIPPED 1 /* instead of -errno: cannot be done here, words in why */
#define BENCH_OTHERS  3

struct bench_options {
	unsigned rounds; /* rounds of each side */
	double round_seconds;
	bool icrc;
	/* Of messages and chunks on a port: 0: the case's own, else powers of 2 up to BENCH_PACKETS_MAX and
	 * BENCH_CHUNK_MAX; a message has 2 or more, or the application cannot keep up. */
	uint32_t message_packets, chunk_packets;
	uint32_t messages;   /* of sdr at once, 0: the case's own; a power of 2, up to BENCH_MESSAGES_MAX */
	double loss;	     /* in virtual time, of packets; negative: the case's own */
	double required;     /* of every ratio, instead of what the cases require; 0: that */
	uint64_t file_bytes; /* a multiple of 64 KiB */
};

struct bench_case {
	const char *name, *help;
	const char *unit; /* NULL: of packets on a port in this process (EAL runs), compared in cycles per packet */
	bool less;	  /* less of unit is better */
	bool once;	  /* it is the same every time: one round */
	unsigned threads; /* that poll at once; 0: does not matter */
	/* What it is measured against, in words; NULL: nothing, the value speaks for itself. Where it is skipped, the
	 * first of the others that is not takes its place. */
	const char *baseline;
	double required, goal;					    /* of the ratio; 0: none */
	double icrc_required, icrc_goal;			    /* the same with the ICRC checked; packets only */
	enum { BENCH_EITHER, BENCH_UNCHECKED, BENCH_CHECKED } icrc; /* how it can be measured; packets only */
	/* Makes what all sides need; *state is given to the others. 0, or -errno and words in why. */
	int (*open)(const struct bench_options *options, void **state, char *why, unsigned room);
	bench_run_t *run, *run_baseline;
	struct { /* measured in the same rounds, too; may be skipped while the case is not */
		const char *name;
		bench_run_t *run;
	} other[BENCH_OTHERS];
	void (*close)(void *state);
};

/* Medians over the rounds. */
struct bench_side {
	double value, tail; /* cycles per packet, or in the case's unit */
	double ratio;	    /* to the baseline, 1 = as good, more is better */
	double spread;	    /* (upper - lower quartile) / median */
	double best;	    /* round's value */
	char skipped[160];  /* why there are no figures, or "" */
};

struct bench_result {
	struct bench_side mine, baseline, other[BENCH_OTHERS];
	double slice, slice_max; /* as after the last round */
	int against;		 /* what the ratio is to: -1: the baseline; else this other */
};

/* Runs one case. 0, BENCH_SKIPPED or -errno, and words in why. */
int bench_run(const struct bench_case *c, const struct bench_options *options, struct bench_result *result, char *why,
	      unsigned room);

/* Of the result's ratio, when measured so; 0: none. */
static inline double bench_required(const struct bench_case *c, const struct bench_options *o)
{
	return c->baseline && o->required > 0 ? o->required : o->icrc ? c->icrc_required : c->required;
}
static inline double bench_goal(const struct bench_case *c, const struct bench_options *o)
{
	return o->icrc ? c->icrc_goal : c->goal;
}
/* What the ratio is to, as it was measured; and in words, NULL: to nothing. */
static inline const struct bench_side *bench_against(const struct bench_result *r)
{
	return r->against < 0 ? &r->baseline : &r->other[r->against];
}
static inline const char *bench_against_name(const struct bench_case *c, const struct bench_result *r)
{
	return !r || r->against < 0 ? c->baseline : c->other[r->against].name;
}

/* Cycles that this thread has had the processor since: what the kernel gave to others meanwhile is not in them. */
struct bench_clock {
	uint64_t cycles;
	double ran; /* s */
};
struct bench_clock bench_clock_begin(void);
uint64_t bench_clock_end(const struct bench_clock *clock);
/* The TSC at which a round of `seconds` ends that begins now. */
uint64_t bench_round_end(double seconds);

/* For a signal's handler: what runs ends soon, with -EINTR. */
void bench_stop(int signal_number);
int bench_stopped(void);		      /* the signal, or 0 */
unsigned bench_cpus(void);		      /* that this process may use */
int bench_two_cpus(char *why, unsigned room); /* 0, or BENCH_SKIPPED and why */
/* Keeps the calling thread to the n-th of them; restores: to all again. */
void bench_pin(unsigned n);
void bench_unpin(void);

#endif
