/* SPDX-License-Identifier: BSD-3-Clause */
/* One end of a measurement between processes: a program that the measuring process starts as `spindle bench --end KIND
 * ...`, connected with its counterpart by descriptor BENCH_LINK. Not for other use. */
#ifndef TESTBED_BENCH_END_H
#define TESTBED_BENCH_END_H

/* KIND ROLE WAIT SECONDS TARGET. KIND: nic (8-byte SDR messages, TARGET a NIC's name), write (RDMA WRITEs, as nic; it
 * cannot sleep), unix (over BENCH_LINK itself), udp (loopback); ROLE: ping or pong (there and back), first or late (one
 * way, after a pause); WAIT: poll, yield (poll, and let others run between two looks) or sleep. Or tcp, ROLE: send or
 * recv, WAIT: the receiver's address, TARGET: the file. The first role prints "MEDIAN P99" (ns, half a round trip, or
 * one way), or seconds. Or memory WHAT, see memory.h: prints bytes; attach COUNT NIC: start.h. Or stream,
 * see stream.h; or path, see path.h. Returns the exit status. */
int bench_end(int argc, char **argv);

/* A TCP connection between the two ends, whose address goes over BENCH_LINK. A socket, or -1 with errno. */
int bench_tcp_accept(const char *address);
int bench_tcp_connect(void);

#endif
