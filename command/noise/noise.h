/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle noise measures, as its options say. */
#ifndef COMMAND_NOISE_NOISE_H
#define COMMAND_NOISE_NOISE_H

#include <stdbool.h>
#include <stdint.h>

#define NOISE_CPUS 1024u

struct noise {
	const char *host; /* NULL: this one */
	bool cpu[NOISE_CPUS], has_cpus;
	uint64_t duration, factor, count, size, port;
	const char *write; /* a file, or NULL */
	bool json;
};

/* The words. Each returns the exit status. */
int noise_detour(const struct noise *n);
int noise_latency(const struct noise *n);
int noise_bandwidth(const struct noise *n);
int noise_loggp(const struct noise *n);
int noise_serve(const struct noise *n);

#endif
