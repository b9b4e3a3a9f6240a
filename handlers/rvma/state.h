/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of the rvma handler. Its files, each of which calls only those before it:
 *   table                      mailbox -> window
 *   bucket, mailbox, window    the buffers of a window; what puts and gets find there; the host's commands
 *   blocks, answer, transfer   what has arrived of a session's blocks; ACKs and refusals; transfers that are coming in
 *   op, sender, session        the host's operations; a session's sender; peers and their sessions
 *   hello, send, get, issue    HELLO and WELCOME; blocks of operations; gets; packets
 *   control, run, place        packets that arrive: control, runs of single-packet puts, all others
 *   rvma                       parameters, attach, report
 * (window comes after get, which it calls when a window is freed.) The handler runs on its context's home worker only
 * (sp_handler.flags SP_HANDLER_HOME). So workers share nothing here.
 */
#ifndef HANDLERS_RVMA_STATE_H
#define HANDLERS_RVMA_STATE_H

#include "../reliability/receiver.h"
#include "../reliability/sender.h"
#include "../spindle-handler.h"
#include "../wire/roce.h"
#include "../wire/rvma.h"
#include "table.h"

#define RV_NONE UINT32_MAX

enum rv_drop {
	RV_BAD_OPCODE,
	RV_SHORT_HEADER,
	RV_BAD_VERSION,
	RV_BAD_TOKEN,	/* there is no such session, or it has ended */
	RV_WRONG_PEER,	/* it names a session that is not between its two addresses */
	RV_BAD_LENGTH,	/* payload, length and packet number contradict each other or earlier packets of the transfer */
	RV_DUPLICATE,	/* the packet was placed before */
	RV_REFUSED,	/* its transfer is refused; the reason is counted */
	RV_BEYOND,	/* its block is beyond the window that we offered */
	RV_FENCED,	/* it has the fence flag, and earlier blocks are missing */
	RV_CROWDED,	/* too many transfers of this peer are open; the peer repeats the packet */
	RV_NO_SESSION,	/* HELLO from one peer too many */
	RV_BAD_CONTROL, /* malformed or impossible POLL, ACK, NACK, HELLO, WELCOME or BYE */
};

enum rv_counter {
	RV_PUTS, /* complete puts */
	RV_BYTES,
	RV_PACKETS, /* placed packets */
	RV_EPOCHS,  /* completed buffers */
	RV_DUPLICATES,
	RV_BAD_KEYS,
	RV_REFUSALS, /* refused transfers; rv.refused[] has them by reason */
	RV_NACKS_SENT,
	RV_NACKS_SUPPRESSED, /* NACKs not sent because of nack-rate */
	RV_CAUGHT,	     /* puts that the catch-all window took */
	RV_SPILLS,	     /* buffers counted in host memory: no counter on the NIC was free */
	RV_GETS_SERVED,
	RV_PUTS_SENT, /* delivered puts */
	RV_GETS_DONE,
	RV_OPS_FAILED,
	RV_PACKETS_SENT, /* without retransmissions */
	RV_RETRANSMITS,
	RV_SESSIONS, /* sessions opened */
	RV_RESTARTS, /* peers that restarted */
};

/* ---- windows and buffers ---- */
enum rv_buffer_state {
	RV_FREE,
	RV_POSTED,    /* queued in the window */
	RV_RETIRING,  /* no longer the head; open puts still write to it or to an earlier epoch */
	RV_COMPLETE,  /* the application owns it; held for gets until the application releases it */
	RV_FORGOTTEN, /* was COMPLETE; freed when the gets that read it have ended */
};

struct rv_buffer {		  /* two cache lines; the first has all that a put needs */
	const struct sp_mem *mem; /* a reference; NULL: given back */
	uint64_t offset, length;
	uint64_t threshold;	     /* 0: none */
	uint64_t tail;		     /* managed mode: offset of the next put */
	uint64_t mailbox;	     /* of the latest complete put; before the first one, of the window */
	uint32_t open;		     /* transfers that write to it (head, RETIRING) or read it (COMPLETE) */
	uint32_t next;		     /* in the window's queue or in the free list */
	uint8_t state, flags;	     /* enum rv_buffer_state, enum sp_rvma_notice */
	const struct sp_mem *notify; /* a reference; NULL: none */
	uint64_t notify_offset, address;
	uint64_t bytes, ops; /* valid once it is no longer the head; until then the window's counter counts */
} __attribute__((aligned(64)));
static_assert(sizeof(struct rv_buffer) == 128, "two cache lines");

/* A queue of buffers, by index: posted buffers in order of posting, others in order of retirement. */
struct rv_queue {
	uint32_t first, last, count;
};

/* Three cache lines. A mailbox takes some 320 bytes: these, its line of the status area, its count there, and 26 to 52
 * bytes of the table. */
struct rv_window {
	/* needed by every put */
	uint64_t key;
	struct rv_queue posted; /* posted.first is the head */
	uint32_t counter;	/* of the head: < rv.counters: on the NIC; RV_NONE: none; else in host memory */
	uint32_t flags;		/* enum sp_rvma_window_flags */
	uint32_t open;		/* transfers into it, and gets that read its buffers */
	bool used, closed, freeing;
	bool handing; /* in the list rv.handing */
	bool rated;   /* limit_rate is not 0 */
	uint64_t limit_put;
	uint64_t puts, bytes;
	/* the rest */
	uint64_t limit_rate;
	sp_time rate_at;   /* limit_rate admits the next put at this time */
	uint64_t epoch;	   /* of the head: buffers retired so far, less rewound ones */
	uint64_t notified; /* epochs below are handed over; epochs from here up to `epoch` are RETIRING */
	uint64_t mailbox, threshold;
	uint64_t first_held;   /* epoch of held.first */
	struct rv_queue held;  /* retiring and complete buffers */
	uint32_t retiring;     /* the first in `held` that is not COMPLETE */
	uint32_t next_handing; /* in the list rv.handing */
	uint64_t posted_bytes, limit_bytes;
	uint64_t refused;
	uint32_t limit_buffers;
	uint32_t generation; /* of this slot: part of the window's id, so that an old id finds nothing */
} __attribute__((aligned(64)));
static_assert(sizeof(struct rv_window) == 192, "three cache lines");
static_assert(offsetof(struct rv_window, bytes) < 64, "the first line has what every put needs");

/* ---- sessions ---- */
/* A block of packets that is arriving. Exactly once: the bit of a packet is set when the packet has taken effect. A
 * block may be refused before its first packet has arrived. Its number can then belong to another transfer later: the
 * sender uses numbers again under which it has sent nothing. */
struct rv_block {
	uint64_t number; /* + 1; 0: the entry is unused */
	uint64_t transfer;
	uint64_t have;	 /* a bit per packet */
	uint8_t units;	 /* packets, 1 to 64; 0: not known yet */
	uint8_t refused; /* enum sp_rvma_status; 0: not refused */
	bool seen;	 /* a packet of it has arrived */
	bool silent;	 /* the peer is not told of the refusal */
};

enum rv_session_state {
	RV_SESSION_FREE,
	RV_SESSION_IDLE,  /* the application has named the peer; nothing was sent yet */
	RV_SESSION_HELLO, /* HELLO sent, no WELCOME yet */
	RV_SESSION_OFFER, /* HELLO received, WELCOME sent; no packet has carried our token yet */
	RV_SESSION_OPEN,
};

static inline bool rv_block_is(const struct rv_block *b, uint64_t number)
{
	return b->number == number + 1;
}

/* Identity of a session: both ends' tokens and nonces, and what they agreed on. */
struct rv_names {
	uint64_t token, nonce;		 /* ours */
	uint64_t peer_token, peer_nonce; /* 0: not known yet */
	uint32_t mtu, window;		 /* the smaller mtu of the two; blocks that the peer accepts ahead */
	bool ipv6;
	uint8_t from[32]; /* source and destination of the peer's packets, as IPv4 (8 bytes) or IPv6 has them */
};

struct rv_transfer;
struct rv_op; /* op.h */

struct rv_session {
	uint32_t index, generation; /* generation: changes when another session takes the slot */
	uint8_t state;
	uint8_t ip[16];
	uint32_t qp;
	uint32_t named; /* number in the handle that the application has; 0: it has none */
	bool gone;	/* named, but the session has ended: a new peer may take the slot */
	uint32_t chain; /* next with the same hash of (ip, qp), or next free slot */
	struct sp_path *path;
	struct rv_names names;
	uint32_t mtu;		   /* = names.mtu: payload bytes per packet, in both directions */
	struct rv_names candidate; /* next session with this peer, until a packet carries its token; token 0: none */
	sp_time offered;	   /* when the candidate, or the OFFER, was made */
	uint32_t psn;
	sp_time heard_at; /* time of the latest valid packet */

	/* receiving */
	struct rv_block *block; /* [rv.blocks], by block number % rv.blocks */
	uint64_t base;		/* blocks below are complete, refused, or given up by the peer */
	uint64_t end;		/* highest block number seen, + 1 */
	uint64_t ordered;	/* blocks below are settled; found so far, there may be more */
	struct sp_rel_receiver receiver;
	struct rv_transfer *transfers; /* open transfers of several packets, */
	uint32_t open;		       /* ... and their number */
	struct sp_timer ack_timer;     /* cookie: index * 2 + 1 */

	/* sending */
	struct sp_rel_sender sender;
	void *sender_memory;
	struct rv_op **block_op; /* [rv.blocks]: operation of the block in flight, by block number % rv.blocks */
	bool sends;		 /* `sender` is initialised */
	uint64_t settled;	 /* blocks done, failed or refused that rv_collect() has handled */
	struct rv_op *first_op, *last_op; /* operations in order of posting, until they end */
	struct rv_op *sending;		  /* the first with blocks that are not started */
	uint32_t serving;		  /* answers to gets among the operations */
	sp_time get_at;			  /* no get times out before */
	sp_time hello_began, hello_wait;  /* began 0: no HELLO is being repeated */
	sp_time rtt;			  /* first estimate; 0: none */
	struct sp_timer timer;		  /* deadline of the sender, of a get or of HELLO; cookie: index * 2 */
	struct rv_session *next_active;	  /* in the list rv.active */
	bool active;
};

/* A transfer that is arriving. With several packets, this is the state of a message of the NIC; for a transfer of one
 * packet it is on the stack. */
struct rv_transfer {
	struct rv_transfer *next, **back; /* in the session's list */
	struct rv_session *session;
	uint64_t number, length;
	uint64_t received; /* bytes so far */
	uint64_t at;	   /* offset in mem */
	const struct sp_mem *mem;
	uint32_t window, buffer;  /* of a put; otherwise RV_NONE */
	struct rv_op *get;	  /* DATA: the get that it answers */
	uint64_t key;		  /* of the message */
	sp_time until;		  /* then it is given up: repeats and single packets do not keep it open */
	uint64_t mailbox, secret; /* all its packets carry these; secret: the window's key */
	uint8_t ended;		  /* enum sp_rvma_status, if it ended before its last packet */
};

/* ---- the context ---- */
struct rv {
	/* fixed by attach() */
	uint32_t mtu, windows, buffers, counters, peers, ops, blocks, transfers;
	uint32_t transfers_per_peer;
	sp_time timeout, ack_delay;
	uint64_t nack_rate;	/* per second */
	bool implicit;		/* replay: one session for all packets, whatever their token */
	uint64_t stream_region; /* memory regions of this size or more get large packets past the caches */
	const struct sp_mem *area;
	struct sp_rvma_layout layout;
	uint32_t qp;

	/* windows and their buffers */
	struct sp_rvma_table table; /* mailbox -> window */
	struct sp_rvma_table held;  /* RV_EPOCH(window, epoch) -> buffer */
	struct rv_window *window;
	struct rv_buffer *buffer;
	struct sp_rvma_count *count; /* counters on the NIC */
	uint32_t *counter_free, counters_free;
	uint32_t buffer_free, window_free;   /* lists, by index, of entries that were used before */
	uint32_t buffer_fresh, window_fresh; /* entries from here on were never used */
	uint32_t catch_all;		     /* window, or RV_NONE */
	uint32_t handing;		     /* list of windows with more buffers to hand over, by next_handing */
	struct sp_work work;		     /* hands them over */
	uint32_t configured;		     /* the window of the configuration, or RV_NONE */

	bool unfenced; /* payload was written past the caches: rv_copied() must come before anything is published */

	/* sessions */
	struct rv_session *session;
	uint32_t *same; /* [same_mask + 1] heads of chains of sessions */
	uint32_t same_mask;
	uint32_t hand;		       /* where the search for a slot that can be reused goes on */
	uint32_t session_free, naming; /* list, by `chain`; latest number given to rv_session.named */
	sp_time nack_at;
	uint64_t refused[64]; /* by enum sp_rvma_status */
	uint64_t peers_gone;  /* that had sent something; as in the area */

	/* operations */
	struct rv_op *op;		  /* [2 * ops]: the host's, then answers to gets */
	struct rv_op *serve_free;	  /* free ones among the answers */
	struct rv_op *ended, *ended_last; /* ended, but ports still hold packets of them */
	struct rv_op **get;		  /* [get_mask + 1] gets that wait for data, hashed by session and number */
	uint32_t get_mask;
	struct rv_session *active, *active_last;
	struct sp_issue issue;
};

static inline struct rv *rv_of(struct sp_ctx *c)
{
	return c->state;
}

/* Its source and destination address: 8 bytes, or 32 with IPv6. */
static inline const uint8_t *rv_addresses(const struct sp_packet *p)
{
	return p->frame + p->l3 + (p->flags & SP_PKT_IPV6 ? 8 : 12);
}

static inline struct rv_block *rv_block_of(const struct rv *s, const struct rv_session *x, uint64_t number)
{
	return &x->block[number & (s->blocks - 1)];
}

static inline uint32_t rv_line(const struct rv *s, const struct rv_window *w)
{
	return (uint32_t)(w - s->window);
}

/* A new session in the same slot has other keys. */
static inline uint64_t rv_message_key(const struct rv_session *x, uint64_t transfer)
{
	static_assert(SP_RVMA_BLOCKS == 1ull << 40 && SP_RVMA_PEERS_MAX < 1u << 13, "the fields fit");

	return (uint64_t)(x->generation & 0x3FF) << 53 | (uint64_t)x->index << 40 | transfer;
}

/* Time limit of a transfer. Without it, a sender could hold a buffer for ever with an incomplete transfer. A correct
 * sender gives a block up after `timeout`. */
#define RV_BLOCKS_A_TIMEOUT 16
static inline sp_time rv_time_of(const struct rv *s, uint64_t packets)
{
	const unsigned __int128 all =
		(unsigned __int128)s->timeout * (2 + packets / SP_RVMA_BLOCK / RV_BLOCKS_A_TIMEOUT);

	return all < SP_NEVER / 2 ? (sp_time)all : SP_NEVER / 2;
}

/* Where the area has the number of puts into the window that were given up. */
static inline uint64_t rv_lost(const struct rv *s, const struct rv_window *w)
{
	return s->layout.lost + rv_line(s, w) * sizeof(uint64_t);
}

/* Stores a field of the window's line in the status area. */
#define RV_PUBLISH(c, s, w, field, value)                                                                              \
	sp_dma_store64(c, (s)->area,                                                                                   \
		       (s)->layout.window + rv_line(s, w) * sizeof(struct sp_rvma_window_status) +                     \
			       offsetof(struct sp_rvma_window_status, field),                                          \
		       value)

#endif
