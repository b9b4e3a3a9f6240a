/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of figures, with perftest's columns, and lines of JSON. */
#ifndef COMMAND_RDMA_SHOW_H
#define COMMAND_RDMA_SHOW_H

#include "ends.h"

struct show_bw {
	uint64_t size, iterations, received, bad;
	double seconds, peak;	/* peak: bytes/s; 0: too short to tell */
	bool verified, counted; /* counted: received says something */
	bool srq;		/* the peer has said that its receives are shared */
};

int show_family(const uint8_t ip[16]);
void show_head(const struct rdma_asked *a);
void show_listening(const struct rdma_asked *a, uint16_t port);
void show_bw(const struct rdma_asked *a, const struct show_bw *row);
/* Sorts them. */
void show_lat(const struct rdma_asked *a, uint64_t size, double *sample, size_t samples, uint64_t lost);
void show_ping(const struct rdma_asked *a, uint64_t size, uint64_t number, double us); /* us < 0: lost */
void show_ping_end(const struct rdma_asked *a, uint64_t sent, double *sample, size_t samples);

#endif
