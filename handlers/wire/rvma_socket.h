/* SPDX-License-Identifier: BSD-3-Clause */
/* What sockets over RVMA put into each other's mailboxes (host-api/rvma_socket.h): records, each a put of one packet:
 * this header, `length` bytes, and zeros up to a multiple of 16. NICs know nothing of it. Numbers are big-endian. */
#ifndef SPINDLE_WIRE_RVMA_SOCKET_H
#define SPINDLE_WIRE_RVMA_SOCKET_H

#include <assert.h>
#include <stdint.h>

#define SP_RVMA_RECORD_VERSION 1
#define SP_RVMA_RECORD_ALIGN   16u

enum sp_rvma_record_type {
	SP_RVMA_RECORD_DATAGRAM = 1,
	SP_RVMA_RECORD_CONNECT, /* stream: 0 */
	SP_RVMA_RECORD_ACCEPT,	/* delivered before anything else of the stream is sent */
	SP_RVMA_RECORD_DATA,
	SP_RVMA_RECORD_END,    /* has a sequence number, which may be one after the limit */
	SP_RVMA_RECORD_WINDOW, /* sequence: of the next DATA or END. Also finds out whether the peer is alive */
	SP_RVMA_RECORD_RESET,  /* source may be 0: there was no such stream */
};

struct sp_rvma_record {
	uint8_t type, version;
	uint8_t length[2];
	uint8_t port[2]; /* of the sender, */
	uint8_t zero[2];
	uint8_t qpn[4];
	uint8_t zero2[4];
	uint8_t ip[16];	     /* IPv4 mapped into IPv6 */
	uint8_t stream[8];   /* the receiver's number of the stream; 0: a datagram */
	uint8_t source[8];   /* the sender's number of the stream */
	uint8_t sequence[4]; /* of DATA and END, from 0 in each direction */
	uint8_t limit[4];    /* the peer may send DATA of lower sequence numbers (modulo 2^32) */
	uint8_t record[2];   /* bytes of DATA that are accepted at most */
	uint8_t zero3[6];
};
static_assert(sizeof(struct sp_rvma_record) == 64, "on the wire");

#endif
