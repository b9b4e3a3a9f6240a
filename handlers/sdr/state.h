/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of the sdr handler. Its files, each of which calls only those before it:
 *   connection, queue     the connection and clear-to-send; messages that have segments to send
 *   datagram, send        datagrams; messages become packets
 *   control, receive      control packets that arrive; receives, and the message that a packet is for
 *   place_workers, place  packets into messages, by several workers and by one
 *   export, sdr           what a companion may call; parameters, attach, report
 * Who may access a field: [fixed] attach() alone writes it; [home] only the context's home worker; [any] any worker,
 * with
 * __atomic builtins; [open] the home worker writes it while the slot is free, and it is read-only while the message is
 * open.
 */
#ifndef HANDLERS_SDR_STATE_H
#define HANDLERS_SDR_STATE_H

#include "../branch.h"
#include "../spindle-export.h"
#include "../spindle-handler.h"
#include "../wire/roce.h"
#include "../wire/sdr.h"

enum sdr_drop {
	SDR_BAD_OPCODE,	  /* not UC RDMA WRITE Only with Immediate */
	SDR_SHORT_HEADER, /* too short for RETH and ImmDt */
	SDR_BAD_RKEY,	  /* of another connection, or of another lap */
	SDR_OUT_OF_RANGE, /* message id or packet offset beyond those of the context */
	SDR_BAD_LENGTH,	  /* DMALen differs from the payload's length */
	SDR_OVER_MTU,
	SDR_ADDRESS_MISMATCH, /* address contradicts the immediate */
	SDR_BEYOND_END,	      /* contradicts the length of the message */
	SDR_LATE,	      /* for a message that has ended (null key) */
	SDR_NOT_POSTED,	      /* for a message that was never posted */
	SDR_BAD_CONTROL,
	SDR_BAD_NONCE,	   /* control packet of another connection */
	SDR_DATAGRAM_BUSY, /* another worker is writing to its slot */
	SDR_NOT_CONNECTED, /* data before there is a peer */
};

enum sdr_counter {
	SDR_PACKETS,
	SDR_BYTES,
	SDR_DUPLICATES,
	SDR_LATE_PACKETS,
	SDR_CHUNKS,
	SDR_MESSAGES, /* complete messages */
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
	SDR_PROBES_SENT,
};

#define SDR_FIXED  SP_SDR_LENGTH_FIXED
#define SDR_FIXING (1ull << 62) /* in `extent`: a worker checks whether the length can be this */

enum sdr_slot_state { SDR_FREE, SDR_OPEN };

/* What one of several workers has counted in a message. Two cache lines each, as processors fetch lines in pairs. [any]
 * Its worker writes, a report reads. */
struct sdr_worker_stats {
	uint64_t packets, duplicates;
	uint8_t pad[112];
};

/* A receive slot and the message in it. */
struct sdr_slot {
	uint64_t message;	  /* [open] its number k */
	const struct sp_mem *mem; /* [open] */
	uint64_t offset, posted;  /* [open] of the buffer in mem; its bytes */
	/* Bitmaps: the pointers are [fixed], the words [any]. */
	uint64_t *taken; /* a bit per packet: the worker that sets it may write the packet's bytes */
	uint64_t *done;	 /* a bit per packet: its bytes are in place. With one worker this is `taken`; with several, it
			    is  `chunk` where a chunk is one packet */
	uint64_t *chunk; /* a bit per chunk: published to the host. The worker that sets it counts the chunk */
	uint64_t *reserved;		/* a bit per chunk: the worker or companion that sets it publishes the chunk */
	uint32_t index;			/* [fixed] */
	uint32_t generation;		/* [open] */
	uint32_t tag;			/* [open] which of the slot's messages it is: see sdr_tag() */
	uint64_t units;			/* [home] one worker: packets of the message, as far as its length is known */
	struct sdr_worker_stats *stats; /* [fixed] several workers: one each */
	uint64_t touched;		/* [any] parts of the bitmaps in which a bit is set: see sdr_part() */
	/* [any] SDR_FIXED | length, once the length is known. Before: with one worker, the furthest end of a packet
	 * accepted; with several, 0, or SDR_FIXING | the length that one of them is about to fix. One word, so that
	 * there is one order for "may this packet be accepted" and "may the length become this". */
	uint64_t extent __attribute__((aligned(64)));
	uint64_t awaited;		      /* [any] several workers: a word of `chunk` that is not full */
	uint64_t packets, duplicates, chunks; /* [home] one worker; chunks: bits set in `chunk` */
	uint64_t immediate;		      /* [any] value, mask << 32 */
	uint32_t complete;		      /* [any] 1: published as complete */
	uint32_t state;	 /* [any] enum sdr_slot_state: home opens, the last worker to leave frees */
	uint64_t opened; /* [home] messages opened (or skipped) in this slot so far */
} __attribute__((aligned(64)));

/* A posted receive that is not open yet. */
struct sdr_post {
	uint64_t message; /* k + 1; 0: free */
	const struct sp_mem *mem;
	uint64_t offset, length;
	bool cancelled;
};

/* What the report shows of a message. Message k is at k mod `records`. */
struct sdr_record {
	uint64_t message; /* [home] k + 1, once it was opened */
	uint64_t late;	  /* [any] */
	bool finished;	  /* completion() has filled in the rest */
	bool skipped;	  /* no packet of it arrived in time: it has no bitmap */
	bool complete;
	uint64_t length, packets, duplicates, immediate;
	uint64_t touched; /* parts of its bitmap that are not zero */
};

/* Implicit credit: the accepted packet of a QP with the newest PSN. */
struct sdr_newest {
	uint64_t message;
	uint32_t packet; /* offset within the message */
	uint32_t psn;	 /* 1 + PSN; 0: none yet */
};

#define SDR_NONE UINT32_MAX

/* Late packets make a slot and generation rest for longer, but for no more than so many times max-packet-life in all:
 * else a host that repeats one of them stops the connection for as long as it likes. */
#define SDR_LIVES_MOST 4u

/* A piece of a message to send. */
struct sdr_segment {
	const struct sp_mem *mem;
	uint64_t offset, at, left; /* in memory, in the message; bytes still to send */
	uint64_t more;		   /* bytes after those that a companion still has to make */
	uint64_t mark;		   /* sp_send_mark() of its last packet */
	uint32_t send, next;
};

/* A send slot and the message in it. [home] */
struct sdr_send {
	uint64_t message; /* k + 1; 0: free */
	uint64_t length, segments;
	uint32_t immediate, rkey;
	uint64_t reach; /* the furthest end of what was sent */
	bool ended, listed;
	bool behind;		 /* waits until all of the message before it was sent once, or has ended */
	uint32_t head, tail;	 /* segments */
	uint32_t sent;		 /* segments sent, of which ports still hold payload */
	uint32_t previous, next; /* in the queue of messages that have segments, by k */
};

/* A datagram to send. */
struct sdr_datagram {
	const struct sp_mem *mem; /* NULL: no bytes */
	uint64_t offset;
	uint32_t len;
};

/* When both wait, this many datagrams may be sent before as many packets of data. */
#define SDR_DATAGRAMS_AHEAD 4u

enum sdr_timer_kind { SDR_TIMER_OPEN, SDR_TIMER_CTS, SDR_TIMER_PROBE, SDR_TIMERS };

struct sdr {
	/* [fixed], first what every packet needs */
	uint32_t rkey, mtu;
	uint32_t open;	    /* [any] 1: data may come, because there is a peer, or nobody waits for one */
	uint32_t laps;	    /* keys from rkey on, one for each lap; 1: with implicit credit, and for captures */
	uint32_t lap_turns; /* messages of a slot in a lap: generations; 0: its laps cannot be told apart */
	struct sp_sdr_split split;
	uint8_t id_shift;  /* 32 - id bits */
	uint8_t fragments; /* fragments of the user's immediate - 1; with user bits */
	uint32_t offset_mask, slots;
	uint32_t whole_packets;	 /* max_bytes / mtu */
	uint64_t max_bytes;	 /* M */
	uint16_t *generation_of; /* QP index -> generation */
	struct sdr_slot *slot;
	const struct sp_mem *area;
	struct sp_sdr_layout layout;
	uint32_t chunk_bytes, per_chunk; /* per_chunk: packets */
	int8_t chunk_shift;		 /* per_chunk is 1 << chunk_shift; -1: it is no power of two */
	uint64_t stream_region;		 /* memory regions of this size or more get large packets past the caches */
	uint64_t chunk_firsts;		 /* packets 0 to 63 that begin a chunk; for chunk_shift 0 to 6 */
	bool implicit;			 /* implicit credit */
	bool queued;			 /* receives may be posted for slots in use: implicit credit, one worker */
	bool send, receive;
	uint8_t part_shift; /* a part of a slot's bitmaps has 1 << part_shift words of `taken` */
	uint32_t generations, channels;
	uint64_t max_packets, max_chunks; /* of one message */
	sp_time life, cts_interval;
	uint64_t
		*quiet; /* [any] per slot and generation: when its message ended, here or by what is seen of the peer */
	uint64_t *late; /* [any] per slot and generation: time of the last packet that came too late */

	/* receives, [home] */
	struct sdr_post *post;
	uint64_t posts;	    /* entries of post */
	uint64_t next_post; /* k of the next receive */
	uint64_t next_open; /* k of the next to open, where they open in order (control credit) */
	struct sdr_record *record;
	uint64_t *record_chunks; /* bitmaps of finished messages, where they are held */
	uint64_t records;
	uint64_t peer_ended;   /* [any] the peer has said that messages below are ended */
	uint64_t highest_seen; /* [any] k + 1 of the highest message of which a packet has surely arrived */
	/* [home] Of accepted packets, where slots move on by themselves (queued, more than one generation).
	 * highest_seen does not serve here: it is what the peer knows to be granted, and dropped packets raise it too.
	 */
	uint64_t accepted;	   /* k + 1 of the highest message */
	struct sdr_newest *newest; /* per QP index; NULL: slots do not move on by themselves */
	bool psn_counts;	   /* a new highest message came with a newer PSN than the packet before on its QP */
	bool psn_misleads;	   /* and one came without: this sender does not count packets there */
	struct sp_timer timer[SDR_TIMERS];
	sp_time cts_wait;

	/* connection, [home] unless marked */
	struct sp_path *path;
	uint32_t peer_qp, peer_control, peer_rkey;
	uint64_t peer_nonce, nonce; /* written before `connected` */
	uint32_t connected;	    /* [any] */
	uint32_t control_psn;
	uint64_t flags;	   /* [any] SP_SDR_CONNECTED... */
	uint64_t may_send; /* [any] clear-to-send for messages below */
	uint64_t ended;	   /* [home] writes, any worker reads: all sends below have ended */
	uint32_t answer;   /* [any] 1: ENDED is to be sent to the peer */
	/* Has the peer restarted? */
	uint32_t suspect;     /* [any] 1: somebody says so */
	uint32_t probes;      /* [home] sent */
	uint64_t probe;	      /* [any] number of the probe that is under way; 0: none, or it was answered */
	uint64_t alive;	      /* [any] number of the peer's probe that is to be answered; 0: none */
	sp_time probes_again; /* [home] not before this time */

	/* sends, [home] */
	struct sdr_send *sends;
	struct sdr_segment *segment;
	uint32_t segment_free;
	uint32_t first, last;		/* messages that have segments */
	uint32_t first_sent, last_sent; /* segments sent, of all messages: they settle in this order */
	uint64_t next_send, segments_done, published_may_send;
	uint32_t *psn; /* per generation and channel */
	uint32_t channel;
	struct sp_issue issue;

	/* datagrams */
	uint32_t datagrams;	       /* [fixed] slots of the area, and entries to send; 0: no datagrams */
	uint32_t datagram_bytes;       /* [fixed] largest one */
	struct sdr_datagram *datagram; /* [home] to send: a ring of `datagrams` */
	uint32_t datagram_first, datagrams_waiting; /* [home] */
	uint32_t datagrams_ahead;		    /* [home] that may still go before waiting data */
	uint64_t datagrams_sent;		    /* [home] published to the host */
	uint64_t datagrams_in;			    /* [any] received */
	uint64_t *datagram_slot; /* [any] `number` of each slot of the area; odd: a worker writes there */
};

#define SDR_LINE(s, kind, index, field)                                                                                \
	((s)->layout.kind + (uint64_t)(index)*64 + offsetof(struct sp_sdr_##kind##_status, field))
#define SDR_CONNECTION(s, field) ((s)->layout.connection + offsetof(struct sp_sdr_connection, field))

static inline void sdr_publish(struct sp_ctx *c, const struct sdr *s, uint64_t offset, uint64_t value)
{
	sp_dma_store64(c, s->area, offset, value);
}

/* The same of how far the host's own sends and receives are, before anything is received: see sp_dma_progress64(). */
static inline void sdr_publish_progress(struct sp_ctx *c, const struct sdr *s, uint64_t offset, uint64_t value)
{
	sp_dma_progress64(c, s->area, offset, value);
}

/* *p = max(*p, value) */
static inline void sdr_raise(uint64_t *p, uint64_t value)
{
	uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);

	while (old < value && !__atomic_compare_exchange_n(p, &old, value, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* True: PSN a comes after b, in 24-bit serial number arithmetic (RFC 1982). Half the circle apart, neither does. */
static inline bool sdr_psn_after(uint32_t a, uint32_t b)
{
	const uint32_t ahead = (a - b) & SP_ROCE_PSN_MASK;

	return ahead && ahead < (SP_ROCE_PSN_MASK + 1) / 2;
}

/* Stores in *k the latest message that was opened in the slot with that generation. False: there was none. Other
 * workers read `opened` of the home worker here: with an old value a packet that came too early counts as late, nothing
 * else. */
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

/* Bitmaps of a free slot are zero. They may be large and a message small, so only those of their up to 64 parts are
 * cleared that have been written to. Returns the part that this word of `taken` is of, as a bit of `touched`. */
static inline uint64_t sdr_part(const struct sdr *s, uint64_t word)
{
	return 1ull << (word >> s->part_shift);
}

/* For several workers. Before the bit in `taken` is set. */
static inline void sdr_touch(const struct sdr *s, struct sdr_slot *slot, uint64_t word)
{
	const uint64_t part = sdr_part(s, word);

	if (!(__atomic_load_n(&slot->touched, __ATOMIC_SEQ_CST) & part))
		__atomic_fetch_or(&slot->touched, part, __ATOMIC_SEQ_CST);
}

/* The tag of the turn-th message of a slot: in the pipeline's key of the open message, and in that of a packet. Where
 * laps have keys it is the turn, else the generation. */
static inline uint32_t sdr_tag(const struct sdr *s, uint64_t turn)
{
	return (uint32_t)(turn % ((uint64_t)s->laps * s->generations));
}

static inline uint32_t sdr_packet_offset(const struct sdr *s, const struct sp_packet *p)
{
	return sp_load_be32(p->data + offsetof(struct sp_write_imm, immdt)) >> s->split.user & s->offset_mask;
}

static inline uint64_t sdr_key(const struct sdr_slot *slot)
{
	return SP_SLOT_KEY(slot->index, slot->tag);
}

/* Length of the message, as far as it is known. */
static inline uint64_t sdr_length(const struct sdr_slot *slot)
{
	uint64_t extent = __atomic_load_n(&slot->extent, __ATOMIC_SEQ_CST);

	return extent & SDR_FIXED ? extent & ~SDR_FIXED : slot->posted;
}

#endif
