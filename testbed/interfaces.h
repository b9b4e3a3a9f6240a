/* SPDX-License-Identifier: BSD-3-Clause */
/* By which interface of a pcapng file each packet came, which libpcap does not tell. It has decoded the packets; this
 * reads no more than the blocks' heads, and in regular files only. */
#ifndef TESTBED_INTERFACES_H
#define TESTBED_INTERFACES_H

#include <stdbool.h>
#include <stdint.h>

struct sp_interfaces;

/* 0: *interfaces, or NULL in it: the file is no pcapng, its packets have one interface. -errno: it cannot be read;
 * -EINVAL: it is no regular file. */
int sp_interfaces_open(const char *file, struct sp_interfaces **interfaces);
/* The interface of the next packet, from 0, as its section counts them; -1: there is no further packet. */
int64_t sp_interfaces_next(struct sp_interfaces *interfaces);
/* How many interfaces the sections described so far have; the one with most counts. */
uint32_t sp_interfaces_described(const struct sp_interfaces *interfaces);
void sp_interfaces_close(struct sp_interfaces *interfaces); /* NULL is fine */

/* How many interfaces a capture has: 1 for pcap. -errno as above. */
int64_t sp_interfaces_count(const char *file);

#endif
