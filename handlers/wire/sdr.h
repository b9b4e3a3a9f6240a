/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SDR (software-defined RDMA, arXiv 2505.05366): what is on the wire, and what NIC and host program share.
 *
 * Each packet of a message is one UC RDMA WRITE Only with Immediate: BTH, RETH, ImmDt, payload. The immediate is the
 * transport. From its most significant bit it has message id, packet offset and user bits (10 + 18 + 4 by default).
 *
 *   31            22 21                                4 3      0
 *  +----------------+-----------------------------------+--------+
 *  |   message id   |  packet offset within the message |  user  |
 *  +----------------+-----------------------------------+--------+
 *
 * The k-th message sent is placed in the k-th receive posted (k from 0, 64 bits, never on the wire). With S slots and G
 * generations it has id k mod S, and its QP is base + g * C + c, with g = (k div S) mod G, and c any of C channels.
 * RETH's address is id * M + offset * mtu (M: maximum message bytes), its length is the payload's without padding. SE
 * is set on the packet that ends the message. The user's 32-bit immediate travels in fragments: with u user bits,
 * packet p carries bits [f * u, f * u + u), f = p mod (32 / u). A message of no bytes is one packet of no bytes.
 *
 * After S * G messages, a lap, ids and QPs repeat. With clear-to-send RETH's rkey tells the laps apart, also in packets
 * of no bytes: message k has the key that the receiver has told, plus (k div (S * G)) mod (2^31 div G). So a packet
 * that a host on the way has recorded is no packet of a later message, however late it is sent again, and the PSN is no
 * reason to drop anything. The receiver grants message and key together: both follow from k. With implicit credit
 * (plain RDMA peers, captures) the key is the same for all messages, and packets of no bytes may carry any.
 */
#ifndef SPINDLE_WIRE_SDR_H
#define SPINDLE_WIRE_SDR_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host.h"

#define SP_SDR_HEADER	     20u /* RETH and ImmDt */
#define SP_SDR_MTU_MIN	     64u
#define SP_SDR_MTU_MAX	     4096u
#define SP_SDR_MAX_MESSAGES  (1u << 20) /* S */
#define SP_SDR_MAX_QPS	     4096u	/* G * C */
#define SP_SDR_SPLIT_DEFAULT "10+18+4"
#define SP_SDR_SEGMENTS_MAX  (1u << 20)
#define SP_SDR_DATAGRAM_MAX  1024u /* bytes */
#define SP_SDR_DATAGRAM_MIN  64u   /* ... that fit any mtu */
#define SP_SDR_DATAGRAMS_MAX 4096u /* slots for them */

/* ---- the immediate ---- */
struct sp_sdr_split {
	uint8_t id, offset, user; /* bits, 32 in all */
};

/* "10+18+4"; -EINVAL unless the sum is 32 and user one of 0, 1, 2, 4, 8, 16. */
static inline int sp_sdr_split_parse(const char *text, struct sp_sdr_split *split)
{
	unsigned part[3] = {0, 0, 0};

	for (int i = 0; i < 3; i++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		for (; *text >= '0' && *text <= '9'; text++) {
			part[i] = part[i] * 10 + (unsigned)(*text - '0');
			if (part[i] > 32)
				return -EINVAL;
		}
		if (*text++ != (i < 2 ? '+' : '\0'))
			return -EINVAL;
	}
	if (part[0] + part[1] + part[2] != 32 || part[2] > 16 || (part[2] & (part[2] - 1)))
		return -EINVAL;
	split->id = (uint8_t)part[0];
	split->offset = (uint8_t)part[1];
	split->user = (uint8_t)part[2];
	return 0;
}

/* 64 bits wide inside, because a part may have all 32 bits or none. */
static inline uint32_t sp_sdr_ones(unsigned bits)
{
	return (uint32_t)((1ull << bits) - 1);
}

static inline uint32_t sp_sdr_imm_id(struct sp_sdr_split s, uint32_t imm)
{
	return (uint32_t)((uint64_t)imm >> (32 - s.id));
}

static inline uint32_t sp_sdr_imm_packet(struct sp_sdr_split s, uint32_t imm)
{
	return imm >> s.user & sp_sdr_ones(s.offset);
}

/* Lowest bit of a packet's fragment in the user's immediate. Only with user bits. */
static inline unsigned sp_sdr_fragment_shift(struct sp_sdr_split s, uint64_t packet)
{
	return (unsigned)(packet & (32u / s.user - 1)) * s.user;
}

static inline uint32_t sp_sdr_imm(struct sp_sdr_split s, uint32_t id, uint64_t packet, uint32_t user)
{
	uint64_t imm = (uint64_t)id << (32 - s.id) | packet << s.user;

	if (s.user)
		imm |= user >> sp_sdr_fragment_shift(s, packet) & sp_sdr_ones(s.user);
	return (uint32_t)imm;
}

static inline uint32_t sp_sdr_slot(uint64_t message, uint32_t slots)
{
	return (uint32_t)(message % slots);
}

static inline uint32_t sp_sdr_generation(uint64_t message, uint32_t slots, uint32_t generations)
{
	return (uint32_t)(message / slots % generations);
}

/* Laps until a key comes again. G times that is below 2^31: slots know their messages by turn and not by lap. */
static inline uint32_t sp_sdr_laps(uint32_t generations)
{
	return (1u << 31) / generations;
}

/* The key of message k, with clear-to-send; rkey: what the receiver has told. */
static inline uint32_t sp_sdr_rkey(uint32_t rkey, uint64_t message, uint32_t slots, uint32_t generations)
{
	return rkey + (uint32_t)(message / slots / generations % sp_sdr_laps(generations));
}

/* Packets, or chunks, of `unit` bytes in `bytes`: at least one. */
static inline uint64_t sp_sdr_units(uint64_t bytes, uint64_t unit)
{
	return bytes ? (bytes - 1) / unit + 1 : 1;
}

/* ---- control packets: payload of UC SEND Only to the peer's control QP, big-endian ---- */
#define SP_SDR_CONTROL_MAGIC   0x53445243u /* "SDRC" */
#define SP_SDR_CONTROL_VERSION 1

enum sp_sdr_control_type {
	SP_SDR_CTS = 1,	     /* struct sp_sdr_cts */
	SP_SDR_ENDED = 2,    /* struct sp_sdr_cts: the sender's answer to a clear-to-send that it knew already */
	SP_SDR_DATAGRAM = 3, /* the head, then the application's bytes: those of `length` after the head */
	SP_SDR_PROBE = 4,    /* struct sp_sdr_cts: are you still there? `count` is a random number */
	SP_SDR_ALIVE = 5,    /* struct sp_sdr_cts: the answer to a probe, with its number */
};			     /* an end drops types that it does not know: bad-control */

struct sp_sdr_control {
	uint8_t magic[4];
	uint8_t version, type;
	uint8_t length[2]; /* bytes of the whole, including this header; what follows is ignored */
	uint8_t to[8]; /* nonce of the receiving end: packets for an earlier connection of the same QP numbers differ */
	uint8_t from[8]; /* nonce of the sending end: a peer that has restarted differs */
};

/* Clear-to-send: messages [0, count) may be sent. Idempotent: the largest count that arrived is valid. */
struct sp_sdr_cts {
	struct sp_sdr_control head;
	uint8_t count[8];
};
static_assert(sizeof(struct sp_sdr_control) == 24 && sizeof(struct sp_sdr_cts) == 32, "on the wire");
/* ENDED: no more packets of the messages [0, count) will be sent. A receiver that ended S * G messages of which it saw
 * no packet needs this before it opens their slots and generations again: the messages may not have been sent yet. */
/* PROBE: a packet with the right `to` and another `from` says that the peer has restarted, and no longer holds our
 * messages. A host that has read the nonces can send it, too. So the peer that we know is asked first, SP_SDR_PROBES
 * times, each time with twice the pause of before: for a second, or for 8 times cts-interval if that is longer. Its
 * answer ends that, and for SP_SDR_PROBE_REST first pauses no packet begins it anew. A peer that has restarted has
 * another nonce, and drops the probes. */
#define SP_SDR_PROBES			 10u
#define SP_SDR_PROBE_REST		 128u
#define SP_SDR_PROBE_FIRST(cts_interval) ((cts_interval) / 128 > SP_MS ? (cts_interval) / 128 : SP_MS)
#define SP_SDR_CTS_AHEAD		 (1ull << 32) /* no peer grants so many messages beyond those we have sent */

/* Datagrams need neither receive nor clear-to-send. The network may lose, repeat and reorder them. Their size is
 * limited so that a packet is no larger than one with `mtu` bytes of payload (unless mtu < 68). The receiver holds the
 * latest ones in the area, each new one in the place of the oldest. */
static inline uint32_t sp_sdr_datagram_bytes(uint32_t mtu)
{
	const uint32_t room = mtu + SP_SDR_HEADER - (uint32_t)sizeof(struct sp_sdr_control);

	return room < SP_SDR_DATAGRAM_MIN   ? SP_SDR_DATAGRAM_MIN
	       : room > SP_SDR_DATAGRAM_MAX ? SP_SDR_DATAGRAM_MAX
					    : room;
}

/* ---- commands; cookie is the message number k except where noted ---- */
enum sp_sdr_command {
	/*
	 * SP_CMD_POST: arg[0..2] = memory, offset, length. k must be the next. -EAGAIN: its slot is in use.
	 * SP_CMD_COMPLETE: -ENOENT when k is not held (or no longer).
	 * SP_CMD_CLOSE: ends the connection: nothing more is sent, and what waited to be sent is dropped.
	 */
	SP_SDR_CMD_CONNECT = SP_CMD_OWN, /* arg[0..1] peer's address as in memory, [2] its QP | control QP << 32,
					    [3] its nonce, [4] our nonce, [5] its rkey */
	SP_SDR_CMD_SEND,     /* one-shot: arg[0..2] memory, offset, length, [3] immediate. k must be the next */
	SP_SDR_CMD_START,    /* stream: arg[2] length of the message, [3] immediate. k must be the next */
	SP_SDR_CMD_CONTINUE, /* arg[0..2] memory, offset, length, [3] offset within the message */
	SP_SDR_CMD_END,	     /* no more segments: the slot is free when those posted are sent */
	SP_SDR_CMD_PACKETS,  /* arg[0] chunk: copies its packet bits to the area's `packets`; result arg[0] = packets */
	SP_SDR_CMD_DATAGRAM, /* arg[0..2] memory, offset, length; the memory is in use until `datagrams_sent` counts it.
				-EAGAIN: as many as slots are waiting. -EOPNOTSUPP: implicit credit */
};

/* ---- area shared with the host program: NIC writes, host reads. 64 bytes a line, host byte order ---- */
#define SP_SDR_AREA_MAGIC   0x41524453u
#define SP_SDR_AREA_VERSION 3

struct sp_sdr_area {
	uint32_t magic;
	uint16_t version, workers;
	uint32_t slots, generations, channels;
	uint32_t control_qp;				/* 0: none, with implicit credit */
	uint64_t bitmap, bitmap_stride, packets, bytes; /* offsets; bytes: of the whole area */
	uint64_t datagrams;				/* offset of the datagram slots; 0: none */
};

enum { SP_SDR_CONNECTED = 1, SP_SDR_PEER_SEEN = 2, SP_SDR_PEER_RESTARTED = 4, SP_SDR_CLOSED = 8 };
struct sp_sdr_connection {
	uint64_t flags;
	uint64_t may_send;	 /* clear-to-send from the peer: messages below this number */
	uint64_t granted;	 /* messages that the peer may send: cleared, or, with implicit credit, posted */
	uint64_t segments;	 /* segments sent since the QP was made */
	uint64_t datagrams_sent; /* the host's datagrams that were sent or dropped, in order */
	uint64_t datagrams;	 /* the peer's datagrams put into slots */
	uint64_t completed;	 /* complete messages */
	uint64_t repaired; /* chunks that a companion has supplied, modulo 2^SP_SDR_RUNS_SHIFT; above them in how many
			      runs of neighbours */
};
#define SP_SDR_RUNS_SHIFT 40

enum { SP_SDR_OPEN = 1, SP_SDR_COMPLETE = 2 };
#define SP_SDR_LENGTH_FIXED (1ull << 63)
struct sp_sdr_recv_status {
	uint64_t message;   /* k + 1 of the message that the fields below are about, 0: none */
	uint64_t state;	    /* SP_SDR_OPEN, SP_SDR_COMPLETE */
	uint64_t length;    /* as posted; with SP_SDR_LENGTH_FIXED: as the sender has said */
	uint64_t packets;   /* distinct packets that have arrived; with several workers 0: see `counts` */
	uint64_t immediate; /* user immediate; above it the mask of its bits that have arrived */
	uint64_t released;  /* k + 1 of the latest message of this slot that the NIC has released */
	uint64_t reserved[2];
};

struct sp_sdr_send_status {
	uint64_t message;  /* k + 1 of the message in the slot */
	uint64_t segments; /* segments of it that were sent */
	uint64_t released; /* k + 1 of the latest message of this slot that is sent and ended */
	uint64_t reserved[5];
};

/* A slot for a datagram; its bytes follow. Datagram n is in slot n mod slots until another one replaces it. A reader
 * reads `number` before and after the bytes: both must be the same, and even. */
struct sp_sdr_datagram {
	uint64_t number; /* 2 * n + 1 while datagram n is being written, 2 * n + 2 when it is complete; 0: none yet */
	uint64_t length; /* bytes */
};
static_assert(sizeof(struct sp_sdr_area) == 64 && sizeof(struct sp_sdr_connection) == 64, "one line");
static_assert(sizeof(struct sp_sdr_recv_status) == 64 && sizeof(struct sp_sdr_send_status) == 64, "one line");

/* header | connection | recv_status[S] | send_status[S] | S chunk bitmaps | packet bits of one chunk | counts |
 * datagrams. Bitmaps: bit 0 of word 0 is chunk (packet) 0. A chunk's bit is set once all its bytes are in place.
 * Counts, with several workers only: packets of the message in a slot that each has placed, a line each. */
struct sp_sdr_layout {
	uint64_t connection, recv, send, bitmap, bitmap_stride, packets, counts, bytes;
	uint64_t datagrams, datagram_stride; /* 0: none */
};

/* chunks: of a message of the maximum size; per_chunk: packets of a chunk; workers: of the NIC. */
static inline struct sp_sdr_layout sp_sdr_layout(uint32_t slots, uint64_t chunks, uint64_t per_chunk, uint32_t workers)
{
	struct sp_sdr_layout l = {.connection = sizeof(struct sp_sdr_area)};

	l.recv = l.connection + sizeof(struct sp_sdr_connection);
	l.send = l.recv + (uint64_t)slots * sizeof(struct sp_sdr_recv_status);
	l.bitmap = l.send + (uint64_t)slots * sizeof(struct sp_sdr_send_status);
	l.bitmap_stride = (chunks + 511) / 512 * 64;
	l.packets = l.bitmap + slots * l.bitmap_stride;
	l.counts = l.packets + (per_chunk + 511) / 512 * 64;
	l.bytes = l.counts + (workers > 1 ? (uint64_t)slots * workers * 64 : 0);
	return l;
}

/* Offset of that worker's count of the message in a slot. */
static inline uint64_t sp_sdr_count(const struct sp_sdr_layout *l, uint32_t slot, uint32_t worker, uint32_t workers)
{
	return l->counts + ((uint64_t)slot * workers + worker) * 64;
}

static inline void sp_sdr_layout_datagrams(struct sp_sdr_layout *l, uint32_t slots, uint32_t bytes)
{
	l->datagrams = l->bytes;
	l->datagram_stride = (sizeof(struct sp_sdr_datagram) + bytes + 63) / 64 * 64;
	l->bytes += slots * l->datagram_stride;
}

#endif
