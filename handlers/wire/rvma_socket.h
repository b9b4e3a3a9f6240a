/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sockets over RVMA put into each other's mailboxes (host-api/rvma_socket.h): records, each a put of one packet:
 * this header, `length` bytes, and zeros up to a multiple of 16. NICs know nothing of it. Numbers are big-endian.
 */
#ifndef SPINDLE_WIRE_RVMA_SOCKET_H
#define SPINDLE_WIRE_RVMA_SOCKET_H

#include <assert.h>
#include <stdint.h>

#define SP_RVMA_RECORD_VERSION 1
#define SP_RVMA_RECORD_ALIGN   16u

enum sp_rvma_record_type {
	SP_RVMA_RECORD_DATAGRAM = 1,
	SP_RVMA_RECORD_CONNECT, /* stream: 0 */
	SP_RVMA_RECORD_ACCEPT,	/* nothing else of the stream goes before it has been delivered */
	SP_RVMA_RECORD_DATA,
	SP_RVMA_RECORD_END,    /* takes a sequence number, and may be the one after the limit */
	SP_RVMA_RECORD_WINDOW, /* sequence: of the next DATA or END. To learn whether the peer lives, too */
	SP_RVMA_RECORD_RESET,  /* source may be 0: the stream never was */
};

struct sp_rvma_record {
	uint8_t type, version;
	uint8_t length[2];
	uint8_t port[2]; /* where it comes from, */
	uint8_t zero[2];
	uint8_t qpn[4];
	uint8_t zero2[4];
	uint8_t ip[16];	     /* IPv4 mapped into IPv6 */
	uint8_t stream[8];   /* the receiver's name for the stream; 0: a datagram */
	uint8_t source[8];   /* the sender's name for it */
	uint8_t sequence[4]; /* of DATA and END, from 0 in each direction */
	uint8_t limit[4];    /* DATA of lower sequence number are taken from the peer (modulo 2^32) */
	uint8_t record[2];   /* bytes of DATA that are taken, at the most */
	uint8_t zero3[6];
};
static_assert(sizeof(struct sp_rvma_record) == 64, "on the wire");

#endif
