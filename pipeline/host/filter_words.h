/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PIPELINE_HOST_FILTER_WORDS_H
#define PIPELINE_HOST_FILTER_WORDS_H

struct sp_error;

/* A filter expression of a program that the NIC does not trust: 0, or -E2BIG or -EPERM and words. libpcap compiles in
 * the server's thread. The time grows with the square of the numbers (4 KB of ports take 10 s), and names of hosts are
 * asked from the network. */
int sp_filter_words(const char *expression, struct sp_error *error);

#endif
