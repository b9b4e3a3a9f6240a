/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of the sdr handler, shared by sdr.c (context, commands, report), receive.c (receives, and which one a
 * packet is for), place.c and place_workers.c (packets into a message), send.c (messages into packets) and
 * control.c (the connection, clear-to-send, datagrams). Who may touch a field: [fixed] written by attach() only;
 * [home] the context's home worker only; [shared] any worker, by __atomic builtins; [open] written by the home worker
 * while the slot is free, read-only while the message is open.
 */
#ifndef HANDLERS_SDR_STATE_H
#define HANDLERS_SDR_STATE_H

#include "../spindle-export.h"
#include "../spindle-handler.h"
#include "../wire/roce.h"
#include "../wire/sdr.h"

enum sdr_drop {
	SDR_BAD_OPCODE,	  /* not UC RDMA WRITE Only with Immediate */
	SDR_SHORT_HEADER, /* no room for RETH and ImmDt */
	SDR_BAD_RKEY,
	SDR_OUT_OF_RANGE, /* message id or packet offset that the context does not have */
	SDR_BAD_LENGTH,	  /* DMALen is not the payload's length */
	SDR_OVER_MTU,
	SDR_ADDRESS_MISMATCH, /* address contradicts the immediate */
	SDR_BEYOND_END,	      /* contradicts the length of the message */
	SDR_LATE,	      /* for a message that is gone: the null key */
	SDR_NOT_POSTED,	      /* for a message that never was */
	SDR_BAD_CONTROL,
	SDR_BAD_NONCE,	   /* control packet for or from another connection */
	SDR_DATAGRAM_BUSY, /* its slot is being written to by another worker */
};

enum sdr_counter {
	SDR_PACKETS,
	SDR_BYTES,
	SDR_DUPLICATES,
	SDR_LATE_PACKETS,
	SDR_CHUNKS,
	SDR_MESSAGES, /* complete ones */
	SDR_RELEASED,
	SDR_CTS_SENT,
	SDR_CTS_RECEIVED,
	SDR_PACKETS_SENT,
	SDR_BYTES_SENT,
	SDR_MESSAGES_SENT,
	SDR_SEND_ERRORS,
	SDR_PEER_RESTARTS,
	SDR_DATAGRAMS_SENT,
	SDR_DATAGRAMS_RECEIVED,
};

#define SDR_FIXED  SP_SDR_LENGTH_FIXED
#define SDR_FIXING (1ull << 62) /* in `extent`: somebody looks whether the length can be this */

enum sdr_slot_state { SDR_FREE, SDR_OPEN };

/* What one of several workers has counted of a message, on lines of its own (processors fetch them in pairs): [shared]
 * it writes, a report reads. */
struct sdr_share {
	uint64_t packets, duplicates;
	uint8_t apart[112];
};

/* A receive slot and the message in it. */
struct sdr_slot {
	uint64_t message;	  /* [open] k */
	const struct sp_mem *mem; /* [open] */
	uint64_t offset, posted;  /* [open] where in mem, how many bytes */
	uint64_t *claim; /* [fixed] a bit per packet; words [shared]: who sets it may write the packet's bytes */
	uint64_t *done;	 /* [fixed] the same, set once the bytes are there; with one worker it is `claim`, with several
			    `chunk` where a chunk is one packet */
	uint64_t *chunk; /* [fixed] a bit per chunk; words [shared]: set once it has been published to the host; for
			    whoever sets it it counts */
	uint64_t *reserved;	 /* [fixed] a bit per chunk; words [shared]: who sets it is the one to set the other */
	uint32_t index;		 /* [fixed] */
	uint32_t generation;	 /* [open] */
	uint64_t units;		 /* [home] packets of the message, as far as its length is known; with one worker */
	struct sdr_share *share; /* [fixed] one per worker, where there are several */
	/* [shared]: SDR_FIXED | length once that is known. One word, so that "may this packet still be accepted" and
	 * "may the length still become this" are decided in one order. Before it, with one worker: the furthest end of
	 * a packet accepted; with several: 0, or SDR_FIXING | what one of them is about to fix. */
	uint64_t extent __attribute__((aligned(64)));
	uint64_t watch;			      /* [shared] with several workers: word of `chunk` that is not full */
	uint64_t packets, duplicates, chunks; /* [home] with one worker; chunks: bits set in `chunk` */
	uint64_t immediate;		      /* [shared] value, mask << 32 */
	uint32_t complete;		      /* [shared] 1 once that was published */
	uint32_t state;			      /* [shared] enum sdr_slot_state: home opens, the last one out frees */
	uint64_t opened;		      /* [home] messages opened (or skipped) in this slot so far */
} __attribute__((aligned(64)));

/* A receive that waits to be opened. */
struct sdr_post {
	uint64_t message; /* k + 1; 0: free */
	const struct sp_mem *mem;
	uint64_t offset, length;
	bool cancelled;
};

/* What is left of a message for the report: message k at k mod `records`. */
struct sdr_record {
	uint64_t message; /* [home] k + 1, from opening on */
	uint64_t late;	  /* [shared] */
	bool finished;	  /* the rest is filled in, by completion() */
	bool skipped;	  /* nothing of it came in time: its bitmap is not kept */
	bool complete;
	uint64_t length, packets, duplicates, immediate;
};

/* Of the packets accepted on a QP, by implicit credit: the one with the newest PSN. */
struct sdr_newest {
	uint64_t message;
	uint32_t packet; /* offset within the message */
	uint32_t psn;	 /* 1 + PSN; 0: there is none */
};

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define SDR_NONE    UINT32_MAX

/* A piece of a message to send. */
struct sdr_segment {
	const struct sp_mem *mem;
	uint64_t offset, at, left; /* in memory, in the message, bytes still to go */
	uint64_t more;		   /* bytes behind those that a companion has yet to make */
	uint64_t mark;		   /* sp_send_mark() when it had been sent */
	uint32_t send, next;
};

/* A send slot and the message in it; [home] all of it. */
struct sdr_send {
	uint64_t message; /* k + 1; 0: free */
	uint64_t length, segments;
	uint32_t immediate;
	uint64_t reach; /* end of what was sent of it */
	bool ended, listed;
	bool behind;		 /* goes when all of the message before it was sent once, or that has ended */
	uint32_t head, tail;	 /* segments */
	uint32_t sent;		 /* segments sent of which ports still have payload */
	uint32_t previous, next; /* messages that have segments, by k */
};

/* A datagram to send. */
struct sdr_datagram {
	const struct sp_mem *mem; /* NULL: of no bytes */
	uint64_t offset;
	uint32_t len;
};

/* Datagrams that may go before as many packets of data, when both wait. */
#define SDR_DATAGRAMS_AHEAD 4u

enum sdr_timer_kind { SDR_TIMER_OPEN, SDR_TIMER_CTS, SDR_TIMERS };

struct sdr {
	/* [fixed], what every packet needs first */
	uint32_t rkey, mtu;
	struct sp_sdr_split split;
	uint8_t id_shift;  /* 32 - id bits */
	uint8_t fragments; /* of the user's immediate, less 1; with user bits */
	uint32_t offset_mask, slots;
	uint32_t whole_packets;	 /* of M: max_bytes / mtu */
	uint64_t max_bytes;	 /* M */
	uint16_t *generation_of; /* QP index -> generation */
	struct sdr_slot *slot;
	const struct sp_mem *area;
	struct sp_sdr_layout layout;
	uint32_t chunk_bytes, per_chunk; /* per_chunk: packets */
	int8_t chunk_shift;		 /* per_chunk is 1 << chunk_shift; -1: no power of two */
	uint64_t stream_region;		 /* bytes of a region from which on large packets go past the caches */
	uint64_t chunk_firsts;		 /* of packets 0 to 63, those that begin a chunk; where chunk_shift is 0 to 6 */
	bool implicit;			 /* credit */
	bool queued;			 /* receives may be posted for slots in use: implicit credit, one worker */
	bool send, receive;
	uint32_t generations, channels;
	uint64_t max_packets, max_chunks; /* of one message */
	sp_time life, cts_interval;
	uint64_t *quiet; /* [shared] per slot and generation: time of the last packet, or of the message's end */
	uint8_t *passed; /* [shared] per slot and generation: 1 when its latest message was cancelled before it was open
			  */

	/* receives, [home] */
	struct sdr_post *post;
	uint64_t posts;	    /* entries of post */
	uint64_t next_post; /* k of the next receive */
	uint64_t next_open; /* k of the next to open, where opening goes in order (control credit) */
	struct sdr_record *record;
	uint64_t *record_chunks; /* bitmaps of finished messages, only where they are kept */
	uint64_t records;
	uint64_t peer_ended; /* [shared] messages below are ended by the peer, it said */
	uint64_t heard;	     /* [shared] k + 1 of the highest message of which a packet has surely come */
	/* Only where slots move on by themselves (queued, more than one generation): [home], of accepted packets. Not
	 * `heard`: that is what the peer knows to be granted, which packets dropped tell as well. */
	uint64_t accepted;	   /* k + 1 of the highest message */
	struct sdr_newest *newest; /* per QP index; NULL: slots do not move on so */
	bool psn_counts;	   /* a new highest message has come with a newer PSN than the one before on its QP */
	bool psn_misleads;	   /* and one with none newer: this sender does not count packets there */
	struct sp_timer timer[SDR_TIMERS];
	sp_time cts_wait;

	/* connection, [home] unless marked */
	struct sp_path *path;
	uint32_t peer_qp, peer_control, peer_rkey;
	uint64_t peer_nonce, nonce; /* written before connected */
	uint32_t connected;	    /* [shared] */
	uint32_t control_psn;
	uint64_t flags;	   /* [shared] SP_SDR_CONNECTED... */
	uint64_t may_send; /* [shared] clear-to-send: messages below */
	uint64_t ended;	   /* [home] sends ended: all below. Read by [shared] */
	uint32_t answer;   /* [shared] 1: tell the peer `ended` */

	/* sends, [home] */
	struct sdr_send *sends;
	struct sdr_segment *segment;
	uint32_t segment_free;
	uint32_t first, last; /* messages that have segments */
	uint32_t first_sent,
		last_sent; /* segments sent, of all messages: done with, in this order, once they are settled */
	uint64_t next_send, segments_done, told_may_send;
	uint32_t *psn; /* per generation and channel */
	uint32_t channel;
	struct sp_issue issue;

	/* datagrams */
	uint32_t datagrams;	       /* [fixed] slots, and places to wait for sending; 0: there are none */
	uint32_t datagram_bytes;       /* [fixed] of one at most */
	struct sdr_datagram *datagram; /* [home] to send: ring of `datagrams` */
	uint32_t datagram_first, datagrams_waiting; /* [home] */
	uint32_t datagrams_ahead;		    /* [home] how many more may go before data that waits */
	uint64_t datagrams_sent;		    /* [home] as the host is told */
	uint64_t datagrams_in;			    /* [shared] that have come */
	uint64_t *datagram_slot; /* [shared] `number` of each slot of the area: odd, and it is taken */
};

#define SDR_LINE(s, kind, index, field)                                                                                \
	((s)->layout.kind + (uint64_t)(index)*64 + offsetof(struct sp_sdr_##kind##_status, field))
#define SDR_CONNECTION(s, field) ((s)->layout.connection + offsetof(struct sp_sdr_connection, field))

static inline void sdr_tell(struct sp_ctx *c, const struct sdr *s, uint64_t offset, uint64_t value)
{
	sp_dma_store64(c, s->area, offset, value);
}

/* *p = max(*p, value) */
static inline void sdr_raise(uint64_t *p, uint64_t value)
{
	uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);

	while (old < value && !__atomic_compare_exchange_n(p, &old, value, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Does PSN a come after b? 24-bit serial number arithmetic (RFC 1982): half the circle apart, neither comes after. */
static inline bool sdr_psn_after(uint32_t a, uint32_t b)
{
	const uint32_t ahead = (a - b) & SP_ROCE_PSN_MASK;

	return ahead && ahead < (SP_ROCE_PSN_MASK + 1) / 2;
}

/* The latest message opened in a slot with that generation, into *k; false: there was none. [home]'s `opened` is read
 * by other workers here: an old value makes a packet late that came too early, nothing else. */
static inline bool sdr_latest(const struct sdr *s, const struct sdr_slot *slot, uint32_t generation, uint64_t *k)
{
	uint64_t opened = __atomic_load_n(&slot->opened, __ATOMIC_RELAXED);

	if (opened <= generation)
		return false;
	opened--;
	opened -= (opened - generation) % s->generations;
	*k = opened * s->slots + slot->index;
	return true;
}

static inline uint32_t sdr_packet_offset(const struct sdr *s, const struct sp_packet *p)
{
	return sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt)) >> s->split.user & s->offset_mask;
}

static inline uint64_t sdr_key(const struct sdr_slot *slot)
{
	return SP_SLOT_KEY(slot->index, slot->generation);
}

/* As far as it is known. */
static inline uint64_t sdr_length(const struct sdr_slot *slot)
{
	uint64_t extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST);

	return extent & SDR_FIXED ? extent & ~SDR_FIXED : slot->posted;
}

#pragma GCC visibility push(hidden) /* five files, one handler */
/* receive.c */
uint64_t sdr_classify(struct sp_ctx *c, struct sp_packet *p);
bool sdr_classify_burst(struct sp_ctx *c, struct sp_packet *const *packet, unsigned n);
uint32_t sdr_miss(struct sp_ctx *c, struct sp_packet *p);
void sdr_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end end);
int sdr_post(struct sp_ctx *c, const struct sp_command *command);
int sdr_complete(struct sp_ctx *c, const struct sp_command *command);
void sdr_hear(struct sp_ctx *c, struct sdr *s, uint64_t k); /* a packet of message k has come */
void sdr_open_due(struct sp_ctx *c); /* opens what is posted, in order, and grants it to the peer */
void sdr_receive_detach(struct sp_ctx *c);
bool sdr_roll(struct sp_ctx *c, struct sdr *s, struct sdr_slot *slot); /* on to the next message, if it may */

/* place.c */
uint32_t sdr_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *packet, unsigned n);
int sdr_packets(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result);

/* export.c */
extern const struct sp_export sdr_exports;

/* send.c */
int sdr_send_command(struct sp_ctx *c, const struct sp_command *command);
void sdr_send_detach(struct sp_ctx *c);
int sdr_issue(struct sp_ctx *c, struct sp_issue *issue, unsigned budget);
int sdr_export_send(struct sp_ctx *c, uint64_t k, uint64_t mem, uint64_t offset, uint64_t bytes, uint32_t immediate);
int sdr_export_ready(struct sp_ctx *c, uint64_t k, uint64_t bytes);
int sdr_source(struct sp_ctx *c, const struct sp_command *command, const struct sp_mem **mem); /* arg[0..2] */
bool sdr_data_waits(const struct sdr *s); /* for the port or the pace, not for clear-to-send */

/* control.c */
int sdr_connect(struct sp_ctx *c, const struct sp_command *command);
int sdr_datagram(struct sp_ctx *c, const struct sp_command *command);
uint32_t sdr_control(struct sp_ctx *c, struct sp_packet *p);   /* a packet on the control QP: verdict */
void sdr_flag(struct sp_ctx *c, struct sdr *s, uint64_t flag); /* SP_SDR_CONNECTED and the like, for the host too */
void sdr_grant(struct sp_ctx *c);			       /* more receives are open: tell the peer */
void sdr_cts_timer(struct sp_ctx *c);
int sdr_tell_peer(struct sp_ctx *c, struct sdr *s, enum sp_sdr_control_type type, uint64_t count); /* home worker */
unsigned sdr_send_datagrams(struct sp_ctx *c, struct sdr *s, unsigned budget); /* how many packets */
void sdr_drop_datagrams(struct sp_ctx *c, struct sdr *s);		       /* those that wait */
#pragma GCC visibility pop

#endif
