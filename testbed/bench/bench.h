/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring: a case and its baseline alternate, several rounds each; the result is the ratio of their medians. */
#ifndef TESTBED_BENCH_H
#define TESTBED_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_ROUNDS_MAX   101
#define BENCH_PACKETS_MAX  1024
#define BENCH_CHUNK_MAX	   128
#define BENCH_MESSAGES_MAX 1024

/* One round: work done, and the TSC cycles for it. */
struct bench_round {
	uint64_t units; /* packets */
	uint64_t cycles;
	/* Cases with a unit of their own set these instead, in that unit. tail: the 99th percentile, if there is
	 * one. */
	double value, tail;
	double processor; /* seconds of all processes for each GiB; 0: not measured */
	/* us: the median and the longest of the case's slices of work, of each the shortest of all repetitions so far;
	 * 0: none */
	double slice, slice_max;
};

/* The reason of an error or a skip; "": none given. */
struct bench_why {
	char text[256];
};
/* Sets the text and returns error. */
int bench_fail(struct bench_why *why, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

typedef int bench_run_t(void *state, double seconds, struct bench_round *round, struct bench_why *why);

#define BENCH_SKIPPED 1 /* returned instead of -errno: not possible here, reason in why */
#define BENCH_OTHERS  3

struct bench_options {
	unsigned rounds; /* rounds of each side */
	double round_seconds;
	bool icrc, quick;
	/* Of messages and chunks on a port. 0: the case's own; else powers of 2 up to BENCH_PACKETS_MAX and
	 * BENCH_CHUNK_MAX. A message has at least 2 packets, otherwise the application cannot keep up. */
	uint32_t message_packets, chunk_packets;
	uint32_t messages;     /* of sdr in flight, 0: the case's own; a power of 2, up to BENCH_MESSAGES_MAX */
	double loss;	       /* of packets, in virtual time; negative: the case's own */
	double required;       /* replaces the required ratio of all cases; 0: does not */
	uint64_t file_bytes;   /* a multiple of 64 KiB */
	uint64_t stream_bytes; /* a multiple of 1 MiB */
};

struct bench_case {
	const char *name, *help;
	const char *unit; /* NULL: packets on a port in this process (EAL runs), compared in cycles per packet */
	bool less;	  /* smaller values are better */
	bool once;	  /* always the same result: one round */
	bool fresh;	  /* each round starts anew, in other processes: no round warms up for the others */
	unsigned threads; /* threads that poll at once; 0: any */
	/* Name of the baseline; NULL: none, the value stands alone. If it is skipped, the first of the others that is
	 * not replaces it. */
	const char *baseline;
	double required, goal;		 /* of the ratio; 0: none */
	bool strict;			 /* they are of the baseline only, not of what replaces it */
	double icrc_required, icrc_goal; /* with the ICRC checked; packets only */
	enum {
		BENCH_EITHER,
		BENCH_UNCHECKED,
		BENCH_CHECKED
	} icrc; /* whether it is measured with and without ICRC check; packets only */
	/* Prepares all sides; *state is passed to the others. 0, or -errno with the reason in why. */
	int (*open)(const struct bench_options *options, void **state, struct bench_why *why);
	bench_run_t *run, *run_baseline;
	struct { /* measured in the same rounds; may be skipped while the case is not */
		const char *name;
		bench_run_t *run;
		double required; /* of the ratio of the case to this; 0: none */
	} other[BENCH_OTHERS];
	void (*close)(void *state);
};

/* Medians over the rounds. */
struct bench_side {
	double value, tail; /* cycles per packet, or in the case's unit */
	double ratio;	    /* to the baseline: 1 is equal, more is better */
	double spread;	    /* (upper - lower quartile) / median */
	double best;	    /* of a single round */
	double processor;   /* s/GiB; 0: not measured */
	char skipped[256];  /* the reason, or "" */
};

struct bench_result {
	struct bench_side mine, baseline, other[BENCH_OTHERS];
	double slice, slice_max; /* after the last round */
	int against;		 /* what the ratio refers to: -1: the baseline; else this other */
};

/* Runs one case. 0, BENCH_SKIPPED or -errno with the reason in why. */
int bench_run(const struct bench_case *c, const struct bench_options *options, struct bench_result *result,
	      struct bench_why *why);

/* The ratio required for these options; 0: none. */
static inline double bench_required(const struct bench_case *c, const struct bench_options *o)
{
	return c->baseline && o->required > 0 ? o->required : o->icrc ? c->icrc_required : c->required;
}
static inline double bench_goal(const struct bench_case *c, const struct bench_options *o)
{
	return o->icrc ? c->icrc_goal : c->goal;
}
/* The same of the ratio to other k; none if a ratio is required of all cases (which is to the baseline). */
static inline double bench_other_required(const struct bench_case *c, const struct bench_options *o, int k)
{
	return o->required > 0 ? 0 : c->other[k].required;
}
/* The side that the ratio refers to, and its name; NULL: none. */
static inline const struct bench_side *bench_against(const struct bench_result *r)
{
	return r->against < 0 ? &r->baseline : &r->other[r->against];
}
static inline const char *bench_against_name(const struct bench_case *c, const struct bench_result *r)
{
	return !r || r->against < 0 ? c->baseline : c->other[r->against].name;
}

/* Counts cycles while this thread has the processor: time that the kernel gives to others is excluded. */
struct bench_clock {
	uint64_t cycles;
	double ran; /* s */
};
struct bench_clock bench_clock_begin(void);
uint64_t bench_clock_end(const struct bench_clock *clock);
/* The TSC value at which a round of `seconds` that begins now ends. */
uint64_t bench_round_end(double seconds);

/* For signal handlers: the running case ends soon, with -EINTR. */
void bench_stop(int signal_number);
int bench_stopped(void);		   /* the signal number, or 0 */
unsigned bench_cpus(void);		   /* available to this process */
int bench_two_cpus(struct bench_why *why); /* 0, or BENCH_SKIPPED with the reason */
/* Pins the calling thread to the n-th available CPU; unpin: to all again. */
void bench_pin(unsigned n);
void bench_unpin(void);

#endif
