/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handler interface: the only header that a handler includes. docs/handlers.md is the guide.
 * Order for every message: header() once and first, payload() per packet in any order, completion() once and last.
 * Threads: with several workers classify(), miss(), header(), payload() and completion() (by whoever leaves the message
 * last) run at the same time on different packets; attach, detach, command, issue and report run on the context's home
 * worker only, one at a time; timer and work run on the worker that started them. A timer or a work is one worker's at a
 * time, which the handler sees to: keep none in message state. `struct sp_ctx` is per worker, its `state` is shared.
 */
#ifndef SPINDLE_HANDLER_H
#define SPINDLE_HANDLER_H
/* clang-format off: kept in columns */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "wire/host.h" /* sp_time, struct sp_command, struct sp_event */
#define SP_ABI 3

/* ---- packets ---------------------------------------------------------------------------------------------------- */
enum { SP_PKT_ROCE = 1, SP_PKT_IPV6 = 2, SP_PKT_UDP = 4, SP_PKT_SE = 8 /* BTH solicited event */ };
/* One received packet, all lengths checked. The handler may change the frame's bytes; they last until it returns. */
struct sp_packet {
	uint8_t *data;       /* first byte above the headers parsed: after BTH, else after UDP, else after the IP header */
	uint32_t len;        /* bytes at data, without BTH pad bytes and ICRC and without Ethernet padding */
	uint32_t verdict;    /* SP_DONE on entry; payload() changes it for packets that end otherwise */
	uint64_t key;        /* message key, as classify() returned it */
	uint32_t dest_qp;    /* BTH destination QP, 24 bits; 0 where there is no BTH */
	uint32_t psn;        /* BTH packet sequence number, 24 bits */
	uint16_t qp_index;   /* dest_qp minus the context's first QP; SP_QP_CONTROL for its control QP */
	uint8_t opcode;      /* BTH opcode */
	uint8_t flags;       /* SP_PKT_* */
	uint32_t frame_len;  /* bytes of the whole frame at `frame` */
	uint8_t *frame;      /* Ethernet header */
	uint8_t l3, l4;      /* bytes from frame to what follows the last tag (IP), and to the L4 header; 0: there is none */
	uint16_t port;       /* port of the NIC by which it came; none that it could be sent by when the NIC sent it to itself */
	uint32_t hash;       /* of addresses, protocol and UDP ports: the same for all packets of a flow */
	void *buf;           /* the NIC's */
};
static_assert(sizeof(struct sp_packet) == 64, "one cache line");
#define SP_QP_CONTROL 0xFFFF
/* Verdicts, after sPIN: kind in the low byte, drop reason (index into sp_handler.drops) above it. */
enum { SP_DONE = 0, SP_END = 1 /* done, and the message ends */, SP_FORWARD = 2 /* the normal way: exception port */, SP_ERROR = 3,
       SP_DROP_KIND = 4, SP_SENT = 5 /* sp_packet_send() has taken the packet */,
       SP_AGAIN = 6 /* miss() only: it has opened the message, look again */ };
#define SP_DROP(reason) (SP_DROP_KIND | (uint32_t)(reason) << 8)

/* ---- execution context and message ------------------------------------------------------------------------------ */
struct sp_ctx {
	void *state;            /* ctx_size zeroed bytes, shared by the workers; of this version: sp_handler.version */
	uint64_t *counters;     /* this worker's, one per name in sp_handler.counters: plain ++ */
	sp_time now;            /* time of this call */
	uint16_t worker, workers; /* this worker, and how many there are; with 1, no atomics are needed */
	uint16_t home;          /* the context's home worker */
	uint16_t watch;         /* the NIC's: DMA is being traced, or left out */
	uint64_t version, post_bytes; /* post_bytes: set by attach(): largest buffer that SP_CMD_POST takes, 0 = none */
};
struct sp_message {
	uint64_t key;
	void *state;      /* msg_size bytes, zeroed before header() */
	sp_time first;    /* time of the first packet */
	sp_time last;     /* time of the latest packet */
};
enum sp_end { SP_END_VERDICT, SP_END_CLOSED /* sp_message_close */, SP_END_TIMEOUT, SP_END_DETACH };
#define SP_NO_MESSAGE UINT64_MAX         /* classify(): no message; payload() is called with message NULL */
#define SP_REJECT(reason) (UINT64_MAX - 1 - (uint64_t)(reason)) /* classify(): drop, reason < 256 */
#define SP_SLOT_KEY(slot, tag) ((uint64_t)(tag) << 32 | (uint32_t)(slot)) /* SP_MESSAGES_SLOTS; tag < 2^31 */
/* Where messages come from. HASHED: any 64-bit key; the first packet opens. SLOTS: key = SP_SLOT_KEY, opened by
 * sp_message_open(); a packet whose slot is closed or holds another tag goes to miss(). */
enum sp_messages { SP_MESSAGES_NONE, SP_MESSAGES_HASHED, SP_MESSAGES_SLOTS };
enum sp_handler_flags { SP_HANDLER_HOME = 1 /* all calls are on the home worker: others hand their packets over to it */ };
enum sp_param_type { SP_UINT /* 12, 0x1F, 64K, 1M (powers of 1024) */, SP_BOOL /* yes, no */, SP_STRING, SP_TIME /* 10us, 5ms */,
		     SP_RATE /* 400G, 2.5M (bit/s, powers of 1000) */ };
struct sp_param {
	const char *name;
	enum sp_param_type type;
	const char *fallback; /* default, as it would be written in nic.ini; NULL: must be given */
	uint64_t min, max;    /* SP_UINT, SP_RATE and SP_TIME; max 0 = no limit */
	const char *help;
	const char *const *choices; /* SP_STRING: the words it may be, up to NULL; sp_param_uint() gives the index */
};

/* Live in the handler's state, zeroed before first use; cookie is the handler's, the rest the NIC's. */
struct sp_issue { struct sp_issue *next, *away; void *ctx; uint64_t cookie; uint32_t active, wait, woken; };
struct sp_work { struct sp_work *next; void *ctx; uint64_t cookie; uint32_t active, worker; };
struct sp_timer { struct sp_timer *child, *next, *prev; void *ctx; sp_time at; uint64_t cookie; uint32_t worker, armed; };
enum sp_migrate { SP_MIGRATE_SWAP /* after attach(), before the first packet */, SP_MIGRATE_DRAINED /* nothing is left there */ };
enum { SP_ISSUE_DONE, SP_ISSUE_MORE, SP_ISSUE_WAIT /* until sp_issue_start() again */ };
struct sp_report; struct sp_export; /* a sink of named values; what a first handler offers its companion: spindle-export.h */

struct sp_handler {
	uint32_t abi, size; /* SP_ABI and sizeof(struct sp_handler): SP_HANDLER_HEAD */
	const char *name, *doc;
	const struct sp_param *params;  /* up to a NULL name */
	const char *const *drops;       /* names of drop reasons up to NULL, at most 64 */
	const char *const *counters;    /* names of counters up to NULL, at most 64 */
	size_t ctx_size, msg_size;      /* bytes */
	enum sp_messages messages;
	uint32_t flags, version;        /* enum sp_handler_flags; version: of its state, the handler's own count, for migrate() */
	/* First, and alone: checks the parameters and reads them into the state. *area, 0 before: bytes of memory that the host maps too. */
	int (*configure)(struct sp_ctx *, uint64_t *area);             /* 0 or -errno after sp_fail(); may run again, on a zeroed state */
	int (*attach)(struct sp_ctx *);                                /* once; 0 or -errno after sp_fail() */
	void (*detach)(struct sp_ctx *);                               /* all messages, timers, issues are gone */
	uint64_t (*classify)(struct sp_ctx *, struct sp_packet *);     /* message key, SP_NO_MESSAGE or SP_REJECT(); absent: none */
	bool (*classify_burst)(struct sp_ctx *, struct sp_packet *const *, unsigned n); /* beside it: sets key; true: rejects are among them */
	uint32_t (*miss)(struct sp_ctx *, struct sp_packet *);         /* SP_MESSAGES_SLOTS: verdict for a packet of no open message */
	uint32_t (*header)(struct sp_ctx *, struct sp_message *, struct sp_packet *); /* SP_DONE, or the message is refused */
	uint32_t (*payload)(struct sp_ctx *, struct sp_message *, struct sp_packet *);
	/* Burst form, used instead where present: n >= 1 packets of one message. Sets verdicts that are not SP_DONE, returns the OR of all. */
	uint32_t (*payload_burst)(struct sp_ctx *, struct sp_message *, struct sp_packet *const *packet, unsigned n);
	void (*completion)(struct sp_ctx *, struct sp_message *, enum sp_end);
	int (*command)(struct sp_ctx *, const struct sp_command *, struct sp_event *result); /* 0 or -errno; result is pre-filled */
	int (*issue)(struct sp_ctx *, struct sp_issue *, unsigned budget); /* send at most budget packets; SP_ISSUE_* */
	bool (*work)(struct sp_ctx *, struct sp_work *);               /* one slice of about 10 us; true: more to do */
	void (*timer)(struct sp_ctx *, struct sp_timer *);
	void (*report)(struct sp_ctx *, struct sp_report *);           /* state for people and JSON */
	/* Takes over from an older copy; the other workers stand still. At SWAP 0, or -errno after sp_fail(): that one stays. */
	int (*migrate)(struct sp_ctx *to, struct sp_ctx *from, enum sp_migrate when);
	const struct sp_export *exports;
};
#define SP_HANDLER_HEAD .abi = SP_ABI, .size = sizeof(struct sp_handler)
/* Register: one per handler file. Runs when the program or the shared object is loaded. */
#define SP_HANDLER(ops) __attribute__((constructor)) static void sp_register_##ops(void) { sp_handler_register(&ops); }
void sp_handler_register(const struct sp_handler *);
struct sp_mem { uint8_t *base; uint64_t len; uint32_t id, owner; }; /* a region of host memory */

/* ---- calls: any time unless marked ------------------------------------------------------------------------------- */
/* configure() and attach() only; of these calls configure() may make the first three. Values were range-checked against the declaration. */
uint64_t sp_param_uint(struct sp_ctx *, const char *name); /* also SP_BOOL 0/1, SP_TIME in ps, SP_RATE in bit/s; "qp": the context's first QP number, or 0; of `qp = any` after sp_qp_claim() */
const char *sp_param_string(struct sp_ctx *, const char *name);
int sp_fail(struct sp_ctx *, int err, const char *param, const char *format, ...) __attribute__((format(printf, 4, 5))); /* returns -err */
void *sp_alloc(struct sp_ctx *, size_t bytes);          /* zeroed, 64-byte aligned, freed after detach(); NULL when over the limit */
int sp_qp_claim(struct sp_ctx *, uint32_t count);       /* count QPs from the context's `qp`, or, for `qp = any`, in a row where the NIC has them free; -EINVAL, -EADDRINUSE */
int sp_qp_control(struct sp_ctx *, uint32_t *qp);       /* a QP number of the NIC's choice, qp_index SP_QP_CONTROL */
int sp_messages_limit(struct sp_ctx *, uint32_t count, sp_time idle); /* messages at once; idle timeout, 0 = none */
const struct sp_mem *sp_host_area(struct sp_ctx *);     /* the zeroed memory that configure() asked for; NULL: none */
/* Messages */
int sp_message_open(struct sp_ctx *, uint64_t key);     /* SLOTS, home worker: -EEXIST while the slot is in use */
/* An open message stays open until sp_message_release(). NULL: there is none, or its header() has yet to run. */
struct sp_message *sp_message_hold(struct sp_ctx *, uint64_t key);
void sp_message_release(struct sp_ctx *, struct sp_message *);
int sp_message_close(struct sp_ctx *, uint64_t key);    /* completion() follows once no packet is inside; -ENOENT */
/* Host memory. base is for addressing only: go through sp_dma_*, which check. */
const struct sp_mem *sp_mem_get(struct sp_ctx *, uint32_t id); /* takes a reference; NULL: not a region of this context's owner */
void sp_mem_put(struct sp_ctx *, const struct sp_mem *);
void sp_dma_fault(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t len);
bool sp_dma_traced(struct sp_ctx *, const struct sp_mem *, uint64_t offset, const void *from, uint64_t len);
static inline bool sp_mem_holds(const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	return offset <= m->len && len <= m->len - offset;
}
/* A checked pointer to [offset, offset + len) of a region, to write payload by one's own means. NULL: not within, or the NIC
 * traces writes or leaves them out: sp_dma_write() then does what is right, and counts a fault. Valid as long as the caller's reference of the region. */
static inline uint8_t *sp_dma_window(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	if (__builtin_expect(c->watch, 0) || __builtin_expect(!sp_mem_holds(m, offset, len), 0))
		return NULL;
	return m->base + offset;
}
static inline int sp_dma_write(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, const void *from, uint32_t len)
{
	if (__builtin_expect(!sp_mem_holds(m, offset, len), 0))
		return sp_dma_fault(c, m, offset, len), -EFAULT;
	if (__builtin_expect(c->watch, 0) && sp_dma_traced(c, m, offset, from, len))
		return 0;
	memcpy(m->base + offset, from, len);
	return 0;
}
int sp_dma_read(struct sp_ctx *, const struct sp_mem *, uint64_t offset, void *to, uint32_t len);    /* -EFAULT */
int sp_dma_or64(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t bits);             /* atomic; -EFAULT, -EINVAL unaligned */
int sp_dma_add64(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t n, uint64_t *old);/* atomic */
int sp_dma_store64(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t value);         /* release */
int sp_event_post(struct sp_ctx *, const struct sp_event *); /* -EAGAIN: the host's queue is full (counted) */
/* Sending. A path is an address resolved: it belongs to the context, at most 4096 each. -EAGAIN: no room now. */
struct sp_path; enum { SP_SEND_UNPACED = 0x80 };
int sp_path_open(struct sp_ctx *, const uint8_t ip[16], bool only, struct sp_path **); /* IPv4 mapped; only: refuse other sources (one: -EISCONN); home worker */
void sp_path_close(struct sp_ctx *, struct sp_path *); /* home worker; as often as it was opened: one address is one path */
struct sp_send {
	uint32_t dest_qp, psn;
	uint8_t opcode, flags;         /* SP_PKT_SE, SP_SEND_UNPACED: beside the pace, and not counted in it */
	uint16_t udp_source;           /* entropy; 0: derived from the path */
	const void *ext;               /* extension headers after the BTH, at most 64 bytes */
	uint32_t ext_len, len;         /* len: payload bytes, taken from mem at offset, or from bytes when mem is NULL */
	const struct sp_mem *mem; uint64_t offset;
	const void *bytes;
};
int sp_send_roce(struct sp_ctx *, struct sp_path *, const struct sp_send *); /* large payload from mem is not always copied: */
int sp_send_roce_run(struct sp_ctx *, struct sp_path *, const struct sp_send *, unsigned n); /* the same, and cheaper: how many of the first ones were sent; where none, why */
uint64_t sp_send_mark(struct sp_ctx *);                   /* this worker's packets so far; sp_send_settled(), on the same worker: */
bool sp_send_settled(struct sp_ctx *, uint64_t mark);     /* ports are done with mem's bytes; if not, an issue() WAITs for them */
int sp_send_frame(struct sp_ctx *, uint16_t port, const void *frame, uint32_t len); /* copied */
int sp_packet_send(struct sp_ctx *, struct sp_packet *);  /* the frame as it stands now, by the port it came by; verdict SP_SENT */
int sp_packet_keep(struct sp_ctx *, struct sp_packet *);  /* frame bytes stay until sp_packet_release(buf); -ENOBUFS: 1024 of the context's do */
void sp_packet_release(struct sp_ctx *, void *buf);
uint16_t sp_checksum(const void *bytes, size_t len, uint32_t sum); /* Internet checksum (RFC 1071), network order; sum: carried in */
void sp_issue_start(struct sp_ctx *, struct sp_issue *);  /* any worker: issue() is called on the home one while the pace allows */
void sp_work_start(struct sp_ctx *, struct sp_work *);
int sp_timer_arm(struct sp_ctx *, struct sp_timer *, sp_time at); /* re-arms too; -EXDEV: another worker armed it */
int sp_timer_cancel(struct sp_ctx *, struct sp_timer *);  /* -EXDEV */
int sp_pace(struct sp_ctx *, uint64_t bits_per_second);   /* what issue() may send; 0: as fast as the port goes; home worker: -EXDEV */
uint64_t sp_random(struct sp_ctx *);                      /* from the NIC's seed */
uint64_t sp_hash(struct sp_ctx *, const void *bytes, size_t len); /* below 2^63: a message key; keyed by the NIC's seed */
const struct sp_export *sp_first(struct sp_ctx *, struct sp_ctx **first); /* companion only: the first handler's exports, its context */
/* Reporting (report() only). Name NULL inside a list. */
void sp_report_uint(struct sp_report *, const char *name, uint64_t);
void sp_report_string(struct sp_report *, const char *name, const char *); /* NULL: null */
void sp_report_bool(struct sp_report *, const char *name, bool);
void sp_report_open(struct sp_report *, const char *name, bool list); /* object, or list */
void sp_report_close(struct sp_report *);
#endif
