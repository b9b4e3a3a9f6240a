/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RVMA, remote virtual memory access (Grant, Levenhagen, Dosanjh, Widener): what is on the wire, and what NIC and host
 * program share. A put names a 64-bit mailbox and never an address. The receiver's NIC knows the mailbox's current
 * buffer.
 *
 * On the wire all is RoCEv2 with opcodes of BTH's manufacturer range: BTH, one of the headers below, payload, pad,
 * ICRC. Delivery is exactly once and in any order. Two contexts have a *session* (HELLO, WELCOME), made at the first
 * put; they exchange no address. In it, transfers (puts, gets, the data of gets) are cut into *blocks* of 64 packets.
 * Blocks are numbered from 0 in each direction: they are the messages of wire/reliability.h, and packets are its units.
 * A transfer has the number of its first block: packet i of it is unit i % 64 of block `transfer` + i / 64, and carries
 * its bytes [i * mtu, (i + 1) * mtu). So each packet says all that is needed to place it.
 *
 * The receiver refuses a transfer as a whole, with a reason: by NACK at once, and in the answers to polls.
 */
#ifndef SPINDLE_WIRE_RVMA_H
#define SPINDLE_WIRE_RVMA_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host.h"

#define SP_RVMA_VERSION	    1
#define SP_RVMA_MTU_MIN	    64u
#define SP_RVMA_MTU_MAX	    4096u
#define SP_RVMA_BLOCK	    64u		 /* packets */
#define SP_RVMA_BLOCKS	    (1ull << 40) /* block numbers are below */
#define SP_RVMA_PACKETS_MAX (1ull << 32) /* of one transfer */
#define SP_RVMA_PEERS_MAX   4096u
#define SP_RVMA_WINDOWS_MAX (1u << 22)
#define SP_RVMA_BUFFERS_MAX (1u << 23)
#define SP_RVMA_APPEND	    UINT64_MAX /* offset of a put without one: after all bytes so far */

/* ---- packets ---- */
enum sp_rvma_opcode {
	SP_RVMA_PUT = 0xC0,	/* struct sp_rvma_put, payload */
	SP_RVMA_GET = 0xC1,	/* struct sp_rvma_get: a transfer of one packet */
	SP_RVMA_DATA = 0xC2,	/* struct sp_rvma_data, payload: the data of a get */
	SP_RVMA_POLL = 0xC3,	/* struct sp_rvma_datagram, struct sp_rel_poll */
	SP_RVMA_ACK = 0xC4,	/* struct sp_rvma_datagram, struct sp_rel_ack and its entries */
	SP_RVMA_NACK = 0xC5,	/* struct sp_rvma_nack */
	SP_RVMA_HELLO = 0xC6,	/* struct sp_rvma_hello */
	SP_RVMA_WELCOME = 0xC7, /* struct sp_rvma_hello: the answer */
	SP_RVMA_BYE = 0xC8,	/* struct sp_rvma_bye: the sender's context has ended */
};

enum sp_rvma_flags {
	SP_RVMA_FENCE =
		1, /* takes effect only when all earlier blocks of the session have arrived; until then it is dropped */
};

/* Begins PUT, GET and DATA. token: the receiver's, from its HELLO or WELCOME. */
struct sp_rvma_head {
	uint8_t token[8];
	uint8_t transfer[8]; /* number of the transfer, below SP_RVMA_BLOCKS */
	uint8_t packet[4];   /* of the transfer, from 0 */
	uint8_t version, flags;
	uint8_t zero[2];
};
static_assert(sizeof(struct sp_rvma_head) == 24, "on the wire");

struct sp_rvma_put {
	struct sp_rvma_head head;
	uint8_t length[8]; /* of the whole put */
	uint8_t mailbox[8];
	uint8_t key[8];
	uint8_t offset[8]; /* in the mailbox's head buffer; or SP_RVMA_APPEND */
};
static_assert(sizeof(struct sp_rvma_put) == 56, "on the wire");

/* Asks for bytes [offset, offset + length) of a completed buffer: the latest one, or the one `back` epochs before it.
 */
struct sp_rvma_get {
	struct sp_rvma_head head;
	uint8_t length[8];
	uint8_t mailbox[8];
	uint8_t key[8];
	uint8_t offset[8];
	uint8_t back[4];
	uint8_t zero[4];
};
static_assert(sizeof(struct sp_rvma_get) == 64, "on the wire");

struct sp_rvma_data {
	struct sp_rvma_head head;
	uint8_t length[8]; /* of all data */
	uint8_t get[8];	   /* transfer number of the get */
};
static_assert(sizeof(struct sp_rvma_data) == 40, "on the wire");

struct sp_rvma_datagram {
	uint8_t token[8];
};

struct sp_rvma_nack {
	uint8_t token[8];
	uint8_t transfer[8];
	uint8_t blocks[4]; /* of the transfer, within the receiver's window */
	uint8_t reason;	   /* enum sp_rvma_status */
	uint8_t zero[3];
};
static_assert(sizeof(struct sp_rvma_nack) == 24, "on the wire");

/* HELLO is repeated until WELCOME arrives. A HELLO from a known peer with another nonce means that the peer has
 * restarted. It makes a new session, which replaces the old one when the first packet with the new token arrives. */
struct sp_rvma_hello {
	uint8_t version;
	uint8_t zero[3];
	uint8_t qp[4];	   /* of the context that sends it */
	uint8_t mtu[4];	   /* payload bytes that it accepts; the smaller one of both is used */
	uint8_t window[4]; /* blocks that it accepts, from the first incomplete one on */
	uint8_t token[8];  /* packets to this end carry it */
	uint8_t nonce[8];  /* of this end's session, never 0 */
	uint8_t echo[8];   /* WELCOME: nonce of the HELLO; HELLO: 0 */
};
static_assert(sizeof(struct sp_rvma_hello) == 40, "on the wire");

struct sp_rvma_bye {
	uint8_t token[8];
	uint8_t nonce[8]; /* of the sender */
};

/* How a transfer ended. The receiver decides on NO_MAILBOX to GIVEN_UP, and sends them. */
enum sp_rvma_status {
	SP_RVMA_DELIVERED = 0, /* all bytes are in the buffer and counted; a get: all have arrived */
	SP_RVMA_NO_MAILBOX = 1,
	SP_RVMA_NO_BUFFER = 2, /* no buffer is posted, and there is no catch-all */
	SP_RVMA_BAD_KEY = 3,
	SP_RVMA_CLOSED = 4,
	SP_RVMA_TOO_LARGE = 5,	  /* exceeds the rest of the head buffer, or the window's limit on puts */
	SP_RVMA_BAD_RANGE = 6,	  /* offset + length is beyond 2^64 or, for a get, beyond the buffer */
	SP_RVMA_WRONG_MODE = 7,	  /* an offset in a put to a managed window */
	SP_RVMA_RATE = 8,	  /* exceeds the window's rate */
	SP_RVMA_NOT_COMPLETE = 9, /* a get: no such epoch is completed, or it was released */
	SP_RVMA_NOT_READABLE = 10,
	SP_RVMA_NO_ROOM = 11,  /* the receiver has no room for another transfer */
	SP_RVMA_REWOUND = 12,  /* its buffer was rewound */
	SP_RVMA_GIVEN_UP = 13, /* packets of it were missing for too long */
	/* decided by the initiator */
	SP_RVMA_PEER_GONE = 32, /* the peer did not answer, has ended the session, or has restarted */
	SP_RVMA_TIMEOUT = 33,	/* the peer answers, but not about this transfer (a window without NACKs) */
	SP_RVMA_FAULT = 34,	/* the memory has gone; a get: more data than asked for */
	SP_RVMA_CANCELLED = 35, /* the context has ended */
};

/* ---- commands ---- */
enum sp_rvma_window_flags {
	SP_RVMA_OPS = 1,       /* the threshold counts operations; otherwise bytes */
	SP_RVMA_MANAGED = 2,   /* each put is placed after the last one; otherwise puts name an offset */
	SP_RVMA_CATCH_ALL = 4, /* takes puts to mailboxes that do not exist, with its own key, and puts to those without
				  a buffer, with their key; one per context */
	SP_RVMA_SILENT = 8,    /* no NACKs */
	SP_RVMA_READABLE = 16, /* gets may read completed buffers */
	SP_RVMA_FORGET = 32,   /* completed buffers are released at once: no rewind, no get */
	SP_RVMA_REGION = 64, /* like RDMA's registered memory: one buffer for puts with an offset, never counted, never
				completed; if READABLE, gets read it at any time */
};

/* The NIC names windows by an id: the number of the line in the area, and a generation from 1 on, by which windows of
 * the same line differ (id 0 is the window of the configuration). Commands fail with -ENOENT if there is no such window
 * (any more). */
#define SP_RVMA_WINDOW(line, turn) ((uint64_t)(turn) << 32 | (uint32_t)(line))
enum sp_rvma_command {
	/* SP_CMD_POST: arg[0] memory | notification's memory << 32 (id 0: none), [1] offset, [2] length, [3] offset of
	 * the notification (64-byte aligned), [4] threshold, 0: the window's, [5] window; cookie: address that the
	 * notification will have, not 0. -ESHUTDOWN: closed. -EDQUOT: the window's limit. -ENOBUFS: no buffer
	 * descriptor is left. -EFAULT: not within a region. -EINVAL. */
	SP_RVMA_CMD_WINDOW = SP_CMD_OWN, /* arg[0] mailbox, [1] key, [2] threshold (0: never), [3] flags; result arg[0]:
					    id. -EEXIST: the mailbox has a window. -ENOSPC */
	SP_RVMA_CMD_LIMIT, /* arg[0] window, [1] buffers, [2] bytes posted at once, [3] bytes of a put, [4] bytes/s of
			      puts: a put is admitted when those before it are paid for; 0: no limit */
	SP_RVMA_CMD_INC_EPOCH, /* arg[0] window: hands the head over as it is. -ENODATA: there is none */
	SP_RVMA_CMD_CLOSE,     /* arg[0] window: refuses puts, hands over buffers in order. -ESHUTDOWN: it is closed.
				  -EINPROGRESS: more buffers are left, call again */
	SP_RVMA_CMD_FREE,  /* arg[0] window: closes and removes it, without notifying of more buffers. -EAGAIN: puts or
			      gets are still open (they end now), or more buffers are left: call again later */
	SP_RVMA_CMD_EPOCH, /* arg[0] window, [1] epoch: result arg[0..4] = address, length, flags, mailbox, epoch.
			      -ENODATA: not completed, or released */
	SP_RVMA_CMD_RELEASE, /* arg[0] window, [1] epoch: releases it and all before. -EAGAIN: a get reads one.
				-EINPROGRESS: more are left, call again. -ENODATA */
	SP_RVMA_CMD_REWIND, /* arg[0] window, [1] epoch: makes it the latest completed one again; result as EPOCH. Later
			       epochs are discarded, and the head buffer is emptied. SP_RVMA_BEGIN: none is completed
			       then; address and length are 0. -ENODATA. -EINPROGRESS: more are left, call again */
	SP_RVMA_CMD_PEER,   /* arg[0..1] address as in memory, [2] QP: result arg[0] = peer id. Sends no packet */
	SP_RVMA_CMD_PUT, /* arg[0] memory | peer << 32, [1] offset, [2] length, [3] mailbox, [4] key, [5] offset in the
			    mailbox's buffer or SP_RVMA_APPEND; cookie: operation. flags: see below. -EAGAIN: the slot
			    is in use. -EINVAL, -EFAULT, -EMSGSIZE */
	SP_RVMA_CMD_GET, /* arg[0] memory | peer << 32, [1] offset, [2] length, [3] mailbox, [4] key, [5] offset in
			    the completed buffer; cookie: operation; flags: epochs back */
};
#define SP_RVMA_BEGIN	       UINT64_MAX /* for REWIND: before the first epoch */
#define SP_RVMA_CMD_FENCE      0x10u	  /* flags of PUT */
#define SP_RVMA_CMD_BACK_SHIFT 4	  /* flags of GET: epochs back, shifted by this */

/* An operation is one of `ops` slots: cookie = slot | number << 32, number from 1. When it has ended, the NIC writes
 * its line in the area. Until then the NIC uses its memory. */
#define SP_RVMA_OP(slot, number) ((uint64_t)(number) << 32 | (uint32_t)(slot))

/* ---- what NIC and host share ---- */
/* The notification of a buffer ("completion pointer"), in the application's memory, 64-byte aligned. It is written when
 * the buffer is handed over, its address last. The application clears it before it posts the buffer. */
enum sp_rvma_notice {
	SP_RVMA_PARTIAL = 1, /* handed over before its threshold, by inc_epoch or close */
	SP_RVMA_LOST = 2,    /* a put into it was given up: some of its bytes are there */
	SP_RVMA_ENDED = 4,   /* the window was closed */
};
struct sp_rvma_notification {
	uint64_t address; /* of the buffer, as posted; not 0 */
	uint64_t length;  /* bytes received; managed: end of the last put */
	uint64_t epoch;	  /* from 0 */
	uint64_t flags;	  /* enum sp_rvma_notice */
	uint64_t mailbox; /* of the latest put: puts that the catch-all took name others */
	uint64_t puts;	  /* complete puts */
	uint64_t reserved[2];
};
static_assert(sizeof(struct sp_rvma_notification) == 64, "one line");

#define SP_RVMA_AREA_MAGIC   0x414D5652u
#define SP_RVMA_AREA_VERSION 2

/* Area: header | window status [windows] | op status [ops] | spilled counters [windows] | lost: puts into the window
 * that were given up [windows] | gone: peers that had sent something, and have gone. The NIC writes, the host reads. */
struct sp_rvma_area {
	uint32_t magic;
	uint16_t version, reserved;
	uint32_t windows, ops, peers, qp;
	uint64_t window, op, spill, bytes; /* offsets; bytes: of the whole area */
	uint32_t mtu, zero;
};
struct sp_rvma_window_status {
	uint64_t id;	 /* of the window that the line is about */
	uint64_t epoch;	 /* buffers completed so far, less rewound ones: the epoch of the next one to complete */
	uint64_t posted; /* buffers that the NIC owns: the head and those after it */
	uint64_t held;	 /* completed, and not released */
	uint64_t closed; /* 1: closed */
	uint64_t puts, bytes, refused; /* puts, bytes: less those of rewound epochs */
};
struct sp_rvma_op_status {
	uint64_t number; /* of the latest operation of this slot that ended */
	uint64_t status; /* enum sp_rvma_status */
};
struct sp_rvma_count {
	uint64_t bytes, ops;
};
static_assert(sizeof(struct sp_rvma_area) == 64 && sizeof(struct sp_rvma_window_status) == 64, "one line");

struct sp_rvma_layout {
	uint64_t window, op, spill, lost, gone, bytes;
};

static inline struct sp_rvma_layout sp_rvma_layout(uint32_t windows, uint32_t ops)
{
	struct sp_rvma_layout l = {.window = sizeof(struct sp_rvma_area)};

	l.op = l.window + (uint64_t)windows * sizeof(struct sp_rvma_window_status);
	l.spill = l.op + ((uint64_t)ops * sizeof(struct sp_rvma_op_status) + 63) / 64 * 64;
	l.lost = l.spill + (uint64_t)windows * sizeof(struct sp_rvma_count);
	l.gone = l.lost + (uint64_t)windows * sizeof(uint64_t);
	l.bytes = l.gone + sizeof(uint64_t);
	return l;
}

/* Packets of a transfer. A transfer of no bytes has one. */
static inline uint64_t sp_rvma_packets(uint64_t length, uint32_t mtu)
{
	return length <= mtu ? 1 : (length - 1) / mtu + 1;
}

#endif
