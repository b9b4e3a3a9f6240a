/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes pcapng (draft-ietf-opsawg-pcapng) with a comment per packet; libpcap and DPDK 22.11 cannot do that. Ethernet,
 * nanoseconds, native byte order. All calls return 0 or -errno of the stream. */
#ifndef TESTBED_PCAPNG_H
#define TESTBED_PCAPNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pcapng_packet {
	uint32_t interface; /* its number, from 0 in the order of pcapng_interface() */
	uint64_t time;	    /* ns since the epoch */
	uint32_t captured, length;
	const void *frame;
	bool outgoing;
	uint32_t queue;
	const char *comment;
};

/* Section header. */
int pcapng_begin(FILE *to, const char *application);
/* snaplen 0: no limit. */
int pcapng_interface(FILE *to, const char *name, uint32_t snaplen);
int pcapng_packet(FILE *to, const struct pcapng_packet *packet);
/* The same, written straight to a descriptor; async-signal-safe. begin: section header and one interface. */
int pcapng_begin_fd(int fd, const char *application, const char *interface);
int pcapng_packet_fd(int fd, const struct pcapng_packet *packet);
/* received: includes packets that were lost on the way to the file. */
int pcapng_statistics(FILE *to, uint32_t interface, uint64_t start, uint64_t end, uint64_t received, uint64_t lost);

#endif
