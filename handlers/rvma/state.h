/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of the rvma handler, shared by its files: rvma.c (context, report), window.c (windows, commands),
 * bucket.c (their buffers, retirement), mailbox.c (what puts and gets find), place.c (transfers on their
 * way in), run.c (puts of one packet in a row), session.c, hello.c, blocks.c (peers: sessions,
 * duplicates, acknowledgement), send.c, issue.c, get.c (transfers on their way out). The handler runs on
 * its context's home worker alone (sp_handler.flags SP_HANDLER_HOME), so nothing here is shared between workers.
 */
#ifndef HANDLERS_RVMA_STATE_H
#define HANDLERS_RVMA_STATE_H

#include "../reliability/receiver.h"
#include "../reliability/sender.h"
#include "table.h"
#include "../spindle-handler.h"
#include "../wire/roce.h"
#include "../wire/rvma.h"

#define RV_NONE UINT32_MAX

enum rv_drop {
	RV_BAD_OPCODE,
	RV_SHORT_HEADER,
	RV_BAD_VERSION,
	RV_BAD_TOKEN,	/* no such session (any more) */
	RV_BAD_LENGTH,	/* payload, length and packet number contradict, or the transfer's earlier packets do */
	RV_DUPLICATE,	/* has been placed already */
	RV_REFUSED,	/* of a transfer that is, or was, refused; its reason is counted */
	RV_BEYOND,	/* a block further ahead than was offered */
	RV_FENCED,	/* something before it is missing */
	RV_CROWDED,	/* too many transfers of this peer are open: it is to come again */
	RV_NO_SESSION,	/* HELLO: there is no room for another peer */
	RV_BAD_CONTROL, /* a datagram, NACK, HELLO, WELCOME or BYE that cannot be true */
};

enum rv_counter {
	RV_PUTS, /* that have come whole */
	RV_BYTES,
	RV_PACKETS, /* placed */
	RV_EPOCHS,  /* buffers completed */
	RV_DUPLICATES,
	RV_BAD_KEYS,
	RV_REFUSALS, /* transfers; by reason in rvma.refused[] */
	RV_NACKS_SENT,
	RV_NACKS_SUPPRESSED, /* by nack-rate */
	RV_CAUGHT,	     /* puts that went to the catch-all */
	RV_SPILLS,	     /* buffers whose counts were in host memory, as the NIC's counters were used up */
	RV_GETS_SERVED,
	RV_PUTS_SENT, /* operations ended as delivered */
	RV_GETS_DONE,
	RV_OPS_FAILED,
	RV_PACKETS_SENT, /* first time */
	RV_RETRANSMITS,
	RV_SESSIONS, /* opened */
	RV_RESTARTS, /* of peers */
};

/* ---- windows and buffers ------------------------------------------------------------------------------------------
 */
enum rv_buffer_state {
	RV_FREE,
	RV_POSTED,    /* in the bucket */
	RV_RETIRING,  /* left the head; puts are open in it, or an earlier epoch's */
	RV_COMPLETE,  /* the application's; kept until released */
	RV_FORGOTTEN, /* was COMPLETE; goes when the gets that read it have ended */
};

struct rv_buffer {		  /* two lines: what every put needs is in the first */
	const struct sp_mem *mem; /* a reference; NULL: none any more */
	uint64_t offset, length;
	uint64_t threshold;	     /* 0: never reached */
	uint64_t tail;		     /* managed: where the next put goes */
	uint64_t mailbox;	     /* that the latest whole put named; none has come: the window's */
	uint32_t open;		     /* transfers that write to it (RETIRING or head) or read it (COMPLETE) */
	uint32_t next;		     /* in its window's queue, or the free list */
	uint8_t state, flags;	     /* enum rv_buffer_state, enum sp_rvma_notice */
	const struct sp_mem *notify; /* a reference; NULL: none */
	uint64_t notify_offset, address;
	uint64_t bytes, ops; /* final, once it has left the head; before that the window's counter has them */
} __attribute__((aligned(64)));
static_assert(sizeof(struct rv_buffer) == 128, "two lines");

/* A queue of buffers: posted ones in order of posting | retiring and complete ones in order of retirement. */
struct rv_queue {
	uint32_t first, last, count;
};

/* Three lines; with its line of the area, room for a count there and 26 to 52 bytes of the table that makes some 310
 * bytes a mailbox. */
struct rv_window {
	/* what every put needs */
	uint64_t key;
	struct rv_queue posted; /* posted.first is the head */
	uint32_t counter;	/* of the head: below rvma.counters on the NIC, otherwise in host memory; RV_NONE */
	uint32_t flags;		/* enum sp_rvma_window_flags */
	uint32_t open;		/* transfers in it, and gets that read its buffers */
	bool used, closed, freeing;
	bool handing; /* in the list of those that have more to hand over */
	bool rated;   /* limit_rate is not 0 */
	uint64_t limit_put;
	uint64_t puts, bytes;
	/* and others */
	uint64_t limit_rate;
	sp_time rate_at;   /* when the rate lets the next put in */
	uint64_t epoch;	   /* of the head: buffers that have left it, less those rewound */
	uint64_t notified; /* epochs below have been handed over; epoch - notified are RETIRING */
	uint64_t mailbox, threshold;
	uint64_t first_held;   /* epoch of held.first */
	struct rv_queue held;  /* retiring and complete ones */
	uint32_t retiring;     /* first of `held` that is not COMPLETE */
	uint32_t next_handing; /* rv.handing */
	uint64_t posted_bytes, limit_bytes;
	uint64_t refused;
	uint32_t limit_buffers;
	uint32_t turn; /* goes into the id; of the next one of this slot */
} __attribute__((aligned(64)));
static_assert(sizeof(struct rv_window) == 192, "three lines");
static_assert(offsetof(struct rv_window, bytes) < 64, "what every put needs is in the first");

/* ---- sessions -----------------------------------------------------------------------------------------------------
 */
/* A block on its way in: what has come of it. Exactly once: a bit is set when its packet has taken effect. One that is
 * refused before a packet of it has come may come after all as another transfer's: the sender gives numbers anew that
 * it has not used. */
struct rv_block {
	uint64_t number; /* + 1; 0: of none */
	uint64_t transfer;
	uint64_t have;
	uint8_t units;	 /* 1 to 64; 0: not known */
	uint8_t refused; /* enum sp_rvma_status, 0: it is not */
	bool seen;	 /* a packet of it has come */
	bool silent;	 /* the refusal is not told */
};

enum rv_session_state {
	RV_SESSION_FREE,
	RV_SESSION_IDLE,  /* a peer by name: nothing was sent yet */
	RV_SESSION_HELLO, /* asked, not answered */
	RV_SESSION_OFFER, /* HELLO came, WELCOME went: nothing has come with our token */
	RV_SESSION_OPEN,
};

static inline bool rv_block_is(const struct rv_block *b, uint64_t number)
{
	return b->number == number + 1;
}

/* What both ends know a session by. */
struct rv_names {
	uint64_t token, nonce;		 /* ours */
	uint64_t peer_token, peer_nonce; /* 0: not known */
	uint32_t mtu, window;		 /* that hold; blocks that the peer takes */
};

struct rv_transfer; /* state of a message: a transfer of several packets on its way in */
struct rv_op;

struct rv_session {
	uint32_t index, turn; /* turn changes when the slot is given to another session */
	uint8_t state;
	uint8_t ip[16];
	uint32_t qp;
	uint32_t named; /* the application knows it by this turn; 0: it does not */
	bool gone;	/* named, and its session has ended: it may make room */
	uint32_t chain; /* next with the same hash of (ip, qp); next free one */
	struct sp_path *path;
	struct rv_names names;
	uint32_t mtu;		   /* names.mtu: payload bytes of packets, both ways */
	struct rv_names candidate; /* the peer's next session, until a packet with its token comes; token 0: none */
	sp_time offered;	   /* the candidate, or an OFFER */
	uint32_t psn;
	sp_time heard;

	/* in */
	struct rv_block *block; /* [rv.blocks] number % rv.blocks */
	uint64_t base;		/* blocks below are complete, refused, or of no more use to the peer */
	uint64_t end;		/* highest seen, + 1 */
	uint64_t ordered;	/* blocks below are settled, as far as has been looked */
	struct sp_rel_receiver receiver;
	struct rv_transfer *transfers; /* open ones */
	uint32_t open;
	struct sp_timer ack_timer; /* cookie: index * 2 + 1 */

	/* out: see send.c */
	struct sp_rel_sender sender;
	void *sender_memory;
	struct rv_op **block_op;	  /* [rv.blocks] of the block number % rv.blocks on its way */
	bool sends;			  /* sender is initialised */
	uint64_t settled;		  /* blocks done, failed or refused that have been seen to */
	struct rv_op *first_op, *last_op; /* in order of posting, until they end */
	struct rv_op *sending;		  /* first whose blocks are not all started */
	uint32_t serving;		  /* answers to gets among them */
	sp_time get_at;			  /* not before, a get's time is over */
	sp_time hello_began, hello_wait;  /* began: 0: no HELLO is being repeated */
	sp_time rtt;			  /* first guess; 0: none */
	struct sp_timer timer;		  /* the sender's deadline, a get's, or HELLO's; cookie: index * 2 */
	struct rv_session *next_active;	  /* with something to send */
	bool active;
};

/* A transfer on its way in, of several packets: state of a message of the NIC's. One of a single packet has it on the
 * stack. */
struct rv_transfer {
	struct rv_transfer *next, **back; /* of the session */
	struct rv_session *session;
	uint64_t number, length;
	uint64_t received; /* bytes */
	uint64_t at;	   /* in mem */
	const struct sp_mem *mem;
	uint32_t window, buffer;  /* a put's; RV_NONE: none (a region's has the window alone) */
	struct rv_op *get;	  /* DATA */
	uint64_t key;		  /* of the message */
	sp_time until;		  /* it is given up then: neither repeats nor a trickle keep it open */
	uint64_t mailbox, secret; /* that all its packets carry */
	uint8_t ended;		  /* enum sp_rvma_status, if it was ended before its last packet */
};

/* ---- the context --------------------------------------------------------------------------------------------------
 */
struct rv {
	/* fixed by attach() */
	uint32_t mtu, windows, buffers, counters, peers, ops, blocks, transfers;
	uint32_t transfers_per_peer;
	sp_time timeout, ack_delay;
	uint64_t nack_rate;	/* a second */
	bool implicit;		/* replay: tokens are not looked at, all is one session's */
	uint64_t stream_region; /* bytes of a region from which on large packets go past the caches */
	const struct sp_mem *area;
	struct sp_rvma_layout layout;
	uint32_t qp;

	/* window.c, bucket.c */
	struct sp_rvma_table table; /* mailbox -> window */
	struct sp_rvma_table held;  /* RV_EPOCH(window, epoch) -> buffer */
	struct rv_window *window;
	struct rv_buffer *buffer;
	struct sp_rvma_count *count; /* on-NIC counters */
	uint32_t *counter_free, counters_free;
	uint32_t buffer_free, window_free;   /* lists by index, of those used before; */
	uint32_t buffer_fresh, window_fresh; /* from here on none has been used */
	uint32_t catch_all;		     /* window or RV_NONE */
	uint32_t handing;		     /* list of windows that have more to hand over, by next_handing */
	struct sp_work work;		     /* does it */
	uint32_t configured;		     /* window that the configuration made, or RV_NONE */

	bool unfenced; /* what has been placed must not be told of before rv_copied() */

	/* session.c */
	struct rv_session *session;
	uint32_t *same; /* [same_mask + 1] heads of chains of sessions */
	uint32_t same_mask;
	uint32_t hand;		       /* where the next one to make room is looked for */
	uint32_t session_free, naming; /* list by chain; turns given to names so far */
	sp_time nack_at;
	uint64_t refused[64]; /* by enum sp_rvma_status */

	/* send.c */
	struct rv_op *op;		  /* [ops], and then as many for answers to gets */
	struct rv_op *serve_free;	  /* of the latter */
	struct rv_op *ended, *ended_last; /* ports have packets of theirs still */
	struct rv_op **get;		  /* [get_mask + 1] those that wait for data, by session and number */
	uint32_t get_mask;
	struct rv_session *active, *active_last;
	struct sp_issue issue;
};

static inline struct rv *rv_of(struct sp_ctx *c)
{
	return c->state;
}

static inline struct rv_block *rv_block_of(const struct rv *s, const struct rv_session *x, uint64_t number)
{
	return &x->block[number & (s->blocks - 1)];
}

static inline uint32_t rv_line(const struct rv *s, const struct rv_window *w)
{
	return (uint32_t)(w - s->window);
}

/* Messages of sessions that a slot had before have other keys. */
static inline uint64_t rv_message_key(const struct rv_session *x, uint64_t transfer)
{
	static_assert(SP_RVMA_BLOCKS == 1ull << 40 && SP_RVMA_PEERS_MAX < 1u << 13, "room for all of it");

	return (uint64_t)(x->turn & 0x3FF) << 53 | (uint64_t)x->index << 40 | transfer;
}

/* How long a transfer may take in all: what is incomplete in the end would otherwise hold a buffer for as long as the
 * sender likes. An honest one gives a block up after `timeout`. */
#define RV_BLOCKS_A_TIMEOUT 16
static inline sp_time rv_time_of(const struct rv *s, uint64_t packets)
{
	const unsigned __int128 all =
		(unsigned __int128)s->timeout * (2 + packets / SP_RVMA_BLOCK / RV_BLOCKS_A_TIMEOUT);

	return all < SP_NEVER / 2 ? (sp_time)all : SP_NEVER / 2;
}

/* Into the window's line of the area. */
#define RV_TELL(c, s, w, field, value)                                                                                 \
	sp_dma_store64(c, (s)->area,                                                                                   \
		       (s)->layout.window + rv_line(s, w) * sizeof(struct sp_rvma_window_status) +                     \
			       offsetof(struct sp_rvma_window_status, field),                                          \
		       value)

#pragma GCC visibility push(hidden) /* several files, one handler */

/* ---- window.c ------------------------------------------------------------------------------------------------
 */
int rv_windows_attach(struct sp_ctx *c);
void rv_windows_detach(struct sp_ctx *c);
/* Commands on windows (WINDOW, LIMIT, POST, INC_EPOCH, CLOSE, FREE, EPOCH, RELEASE, REWIND). */
int rv_window_command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result);
void rv_windows_report(struct sp_ctx *c, struct sp_report *r);
/* The window's line in the area, whole: after whatever its numbers speak of. */
void rv_window_tell(struct sp_ctx *c, const struct rv_window *w);

/* ---- mailbox.c -----------------------------------------------------------------------------------------------
 */
/* A put comes: finds its window (or the catch-all) and head buffer, checks key, mode, range, limits, and reserves its
 * range: fills t->{window, buffer, mem, at, mailbox, secret}, and counts it as open. Or why not.
 * The catch-all stands in for a mailbox that is not there: its key counts, and whether it is closed. It takes over from
 * a window that has no buffer, whose own key has been checked, if it is open and has one itself. */
enum sp_rvma_status rv_put_begin(struct sp_ctx *c, struct rv_transfer *t, uint64_t mailbox, uint64_t key,
				 uint64_t offset);
/* `bytes` of it are in place. May retire the buffer. */
void rv_put_bytes(struct sp_ctx *c, struct rv_transfer *t, uint32_t bytes);
/* It has come whole (`why` DELIVERED), or is given up. May retire and hand over buffers. */
void rv_put_end(struct sp_ctx *c, struct rv_transfer *t, enum sp_rvma_status why);
/* A get comes: finds the completed buffer, checks; holds it: until rv_read_end. */
enum sp_rvma_status rv_read_begin(struct sp_ctx *c, uint64_t mailbox, uint64_t key, uint32_t back, uint64_t offset,
				  uint64_t length, uint32_t *window, uint32_t *buffer, uint64_t *at);
void rv_read_end(struct sp_ctx *c, uint32_t window, uint32_t buffer);
bool rv_window_silent(struct sp_ctx *c, uint64_t mailbox); /* refusals of puts to it are not told */

/* ---- run.c ---------------------------------------------------------------------------------------------------
 */
#define RV_EXPECT 32u /* puts that are looked at at once */
/* Of packets of no message, places those that begin it and are as most are. Returns how many. */
unsigned rv_run(struct sp_ctx *c, struct sp_packet *const *packet, unsigned n);

/* ---- bucket.c: the buffers of a window ------------------------------------------------------------------------
 */
#define RV_EPOCH(window, epoch) ((uint64_t)(window) << 42 | (epoch))
#define RV_SLICE		4096u /* buffers that one command retires or gives back at most */
#define RV_HANDED		256u  /* that are handed over at once */
int rv_bucket_post(struct sp_ctx *c, struct rv_window *w, const struct sp_command *command);
/* The head leaves with these flags, and is handed over when it may. */
void rv_bucket_retire(struct sp_ctx *c, struct rv_window *w, uint8_t flags);
/* Hands over what has left and is not written to any more, in order; much of it later, by rv_bucket_work(). */
void rv_bucket_hand_over(struct sp_ctx *c, struct rv_window *w);
bool rv_bucket_work(struct sp_ctx *c, struct sp_work *work);
struct rv_buffer *rv_bucket_held(struct rv *s, const struct rv_window *w, uint64_t epoch); /* COMPLETE; NULL */
uint64_t rv_bucket_length(const struct rv_window *w, const struct rv_buffer *b);	   /* as notified */
/* Adds to what has come to a buffer, and returns the sums. */
struct sp_rvma_count rv_bucket_count(struct sp_ctx *c, struct rv_window *w, struct rv_buffer *b, uint64_t bytes,
				     uint64_t ops);
/* Up to this one: -EAGAIN, -EINPROGRESS. */
int rv_bucket_release(struct sp_ctx *c, struct rv_window *w, uint64_t epoch);
void rv_bucket_rewind(struct sp_ctx *c, struct rv_window *w, uint64_t epoch); /* nothing is open but gets */
bool rv_bucket_empty(struct sp_ctx *c, struct rv_window *w); /* gives back a slice of all; false: there is more */
void rv_bucket_read_end(struct sp_ctx *c, struct rv_buffer *b);

/* ---- place.c -------------------------------------------------------------------------------------------------
 */
/* SP_NO_MESSAGE for transfers of one packet and for control packets, the message's key for others, SP_REJECT. */
uint64_t rv_classify(struct sp_ctx *c, struct sp_packet *p);
bool rv_classify_burst(struct sp_ctx *c, struct sp_packet *const *packet, unsigned n);
uint32_t rv_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p);
uint32_t rv_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n);
void rv_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end end);
/* Ends a transfer before its last packet: its blocks count as refused, its message closes. A get whose data it brings
 * is the caller's to end. */
void rv_transfer_end(struct sp_ctx *c, struct rv_transfer *t, enum sp_rvma_status why);

/* ---- session.c, hello.c, blocks.c ------------------------------------------------------------------
 */
int rv_sessions_attach(struct sp_ctx *c);
void rv_sessions_detach(struct sp_ctx *c);						  /* says BYE */
int rv_peer(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result); /* SP_RVMA_CMD_PEER */
struct rv_session *rv_peer_get(struct rv *s, uint32_t peer);				  /* NULL: gone */
/* The session that the token names, which proves it OPEN; NULL. */
struct rv_session *rv_session_find(struct sp_ctx *c, const uint8_t token[8]);
/* POLL, ACK, NACK, HELLO, WELCOME, BYE: verdict. */
uint32_t rv_control(struct sp_ctx *c, struct sp_packet *p);
void rv_session_timer(struct sp_ctx *c, struct sp_timer *timer);
void rv_sessions_report(struct sp_ctx *c, struct sp_report *r); /* entries of a list */
/* The session is over: transfers on their way in and out end; the slot can be used anew (by PEER or HELLO). The
 * candidate, if there is one, is an OFFER then. */
void rv_session_end(struct sp_ctx *c, struct rv_session *x, enum sp_rvma_status why);
/* In: what is known of a packet. */
enum rv_look { RV_NEW, RV_HAVE, RV_IS_REFUSED, RV_TOO_FAR };
enum rv_look rv_look(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint32_t packet, uint64_t packets);
/* It has taken effect. Not before it has: from here on it is acknowledged. packets: of the transfer. */
void rv_take(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint32_t packet, uint64_t packets);
/* Blocks have become complete. */
void rv_taken(struct sp_ctx *c, struct rv_session *x);
/* All blocks of it that are not complete count as refused; NACK, unless `silent` or too many go: then they just do not
 * count as there, and later packets of it are dropped. */
void rv_refuse(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, uint64_t packets, enum sp_rvma_status why,
	       bool silent);
bool rv_in_order(const struct rv *s, struct rv_session *x, uint64_t transfer); /* all before it are there */
/* Of these files only. */
struct rv_session *rv_session_of(struct sp_ctx *c, const uint8_t ip[16], uint32_t qp); /* known one; NULL */
size_t rv_sender_bytes(const struct rv *s);
int rv_session_new(struct sp_ctx *c, const uint8_t ip[16], uint32_t qp, struct rv_session **x);
uint64_t rv_token(struct sp_ctx *c, const struct rv_session *x);
void rv_session_open(struct sp_ctx *c, struct rv_session *x);
void rv_hello_begin(struct sp_ctx *c, struct rv_session *x); /* unless it is under way */
void rv_hello_timer(struct sp_ctx *c, struct rv_session *x);
void rv_bye(struct sp_ctx *c, struct rv_session *x);
uint32_t rv_poll(struct sp_ctx *c, struct rv_session *x, const void *datagram, uint32_t len);
void rv_ack_timer(struct sp_ctx *c, struct rv_session *x);
/* A packet of control; what cannot be sent is lost. */
void rv_tell(struct sp_ctx *c, struct rv_session *x, uint8_t opcode, const void *head, uint32_t head_len,
	     const void *bytes, uint32_t len);

/* ---- send.c, issue.c, get.c ------------------------------------------------------------------------
 */
int rv_ops_attach(struct sp_ctx *c);
void rv_ops_detach(struct sp_ctx *c);
int rv_put(struct sp_ctx *c, const struct sp_command *command); /* and get */
int rv_issue(struct sp_ctx *c, struct sp_issue *issue, unsigned budget);
/* x may have something to send (it opened, an ACK came, an operation was posted, its deadline came). */
void rv_send_more(struct sp_ctx *c, struct rv_session *x);
void rv_send_forget(struct sp_ctx *c, struct rv_session *x); /* it has ended: nothing is to be sent */
int rv_send_ack(struct sp_ctx *c, struct rv_session *x, const void *datagram, size_t len); /* -EINVAL */
void rv_op_end(struct sp_ctx *c, struct rv_op *op, enum sp_rvma_status why);
/* What an ACK or NACK has told: operations that have ended are told to the host. */
void rv_send_acked(struct sp_ctx *c, struct rv_session *x);
void rv_send_nacked(struct sp_ctx *c, struct rv_session *x, uint64_t transfer, enum sp_rvma_status why);
void rv_send_fail(struct sp_ctx *c, struct rv_session *x, enum sp_rvma_status why); /* all of its operations */
/* Answers to gets that read the window end. */
void rv_serves_end(struct sp_ctx *c, uint32_t window);
/* A get was accepted: its data go out as a transfer of ours, then rv_read_end. NO_ROOM. */
enum sp_rvma_status rv_serve(struct sp_ctx *c, struct rv_session *x, uint64_t get, const struct sp_mem *mem,
			     uint64_t at, uint64_t length, uint32_t window, uint32_t buffer);
/* DATA comes for the get with that number: where it goes, or NULL. */
struct rv_op *rv_get_find(struct sp_ctx *c, struct rv_session *x, uint64_t get, uint64_t length,
			  const struct sp_mem **mem, uint64_t *at);
void rv_get_end(struct sp_ctx *c, struct rv_op *op, enum sp_rvma_status why);
#pragma GCC visibility pop

#endif
