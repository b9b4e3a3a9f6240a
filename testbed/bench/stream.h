/* SPDX-License-Identifier: BSD-3-Clause */
/* Many bytes from the memory of one program to that of another, and the processor time that all take for it. */
#ifndef TESTBED_BENCH_STREAM_H
#define TESTBED_BENCH_STREAM_H

#include <stdint.h>

struct bench_house;
struct bench_round;
struct bench_why;

/* A round, from the right NIC or namespace to the left one: MB/s and processor s/GiB. way: see below; mtu: payload
 * bytes of a packet; bytes: a multiple of 1 MiB. */
int bench_stream_round(const struct bench_house *house, const char *way, unsigned mtu, uint64_t bytes,
		       struct bench_round *round, struct bench_why *why);

/* One end: ROLE WAY MTU BYTES TARGET PID... ROLE: send or recv; WAY: write (RDMA WRITEs), sdr (reliable SDR messages)
 * or tcp; TARGET: the NIC's name, or the receiver's address; PID: of the sender, NICs whose processor time counts
 * beside that of the two ends. The sender prints "SECONDS PROCESSOR-SECONDS". Returns the exit status. */
int bench_stream_end(int argc, char **argv);

#endif
