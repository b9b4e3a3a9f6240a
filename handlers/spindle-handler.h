/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handler interface: the only header that a handler includes. docs/handlers.md is the guide. This file has what a
 * handler declares and is given; spindle-calls.h, which it includes, has what a handler calls.
 * For every message: header() once and first, payload() per packet in any order, completion() once and last.
 * Threads: with several workers, classify(), miss(), header(), payload() and completion() (on the worker that leaves
 * the message last) run at the same time on different packets. attach, detach, command, issue and report run only on
 * the context's home worker, one at a time; of a handler with SP_HANDLER_FLOWS, see there. timer and work run on the
 * worker that started them, and only one worker may use a timer or a work at a time: the handler sees to that, and
 * keeps none in message state. `struct sp_ctx` is per worker; its `state` is shared.
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
#define SP_ABI 5

/* ---- packets ---- */
enum { SP_PKT_ROCE = 1, SP_PKT_IPV6 = 2, SP_PKT_UDP = 4, SP_PKT_SE = 8 /* BTH solicited event */ };
/* One received packet, all lengths checked. The handler may change the frame's bytes until it returns. */
struct sp_packet {
	uint8_t *data;	    /* first byte after parsed headers: after BTH, else after UDP, else after the IP header */
	uint32_t len;	    /* bytes at data, without BTH pad bytes and ICRC and without Ethernet padding */
	uint32_t verdict;   /* SP_DONE on entry; payload() changes it for packets that end otherwise */
	uint64_t key;	    /* message key, as classify() returned it */
	uint32_t dest_qp;   /* BTH destination QP, 24 bits; 0 where there is no BTH */
	uint32_t psn;	    /* BTH packet sequence number, 24 bits */
	uint16_t qp_index;  /* dest_qp minus the context's first QP; SP_QP_CONTROL for its control QP */
	uint8_t opcode;	    /* BTH opcode */
	uint8_t flags;	    /* SP_PKT_* */
	uint32_t frame_len; /* bytes of the whole frame at `frame` */
	uint8_t *frame;	    /* Ethernet header */
	uint8_t l3, l4;	    /* bytes from frame to what follows the last tag (IP), and to the L4 header; 0: none */
	uint16_t port;	    /* of the NIC, by which it came; no real port if the NIC sent it to itself */
	uint32_t hash;	    /* of addresses, protocol and UDP ports: the same for all packets of a flow */
	void *buf;	    /* the NIC's */
};
static_assert(sizeof(struct sp_packet) == 64, "one cache line");
#define SP_QP_CONTROL 0xFFFF
/* Verdicts, after sPIN: kind in the low byte, drop reason (index into sp_handler.drops) above it. */
enum {
	SP_DONE = 0,
	SP_END = 1 /* done, and the message ends */,
	SP_FORWARD = 2 /* the normal way: exception port */,
	SP_ERROR = 3,
	SP_DROP_KIND = 4,
	SP_SENT = 5 /* sp_packet_send() has sent the packet */,
	SP_AGAIN = 6 /* miss() only: it has opened the message, look again */
};
#define SP_DROP(reason) (SP_DROP_KIND | (uint32_t)(reason) << 8)

/* ---- execution context and message ---- */
struct sp_ctx {
	void *state;	    /* ctx_size bytes, zeroed, shared by the workers; of this version: sp_handler.version */
	uint64_t *counters; /* this worker's, one per name in sp_handler.counters: plain ++ */
	sp_time now;	    /* time of this call */
	uint16_t worker, workers;     /* this worker, and how many there are; with 1, no atomics are needed */
	uint16_t home;		      /* the context's home worker */
	uint16_t watch;		      /* the NIC's: DMA is being traced, or left out */
	uint64_t version, post_bytes; /* post_bytes: attach() sets the largest buffer for SP_CMD_POST; 0 = none */
};
struct sp_message {
	uint64_t key;
	void *state;   /* msg_size bytes, zeroed before header() */
	sp_time first; /* time of the first packet */
	sp_time last;  /* time of the latest packet */
};
enum sp_end { SP_END_VERDICT, SP_END_CLOSED /* sp_message_close */, SP_END_TIMEOUT, SP_END_DETACH };
#define SP_NO_MESSAGE	       UINT64_MAX /* classify(): no message; payload() is called with message NULL */
#define SP_REJECT(reason)      (UINT64_MAX - 1 - (uint64_t)(reason))	  /* classify(): drop, reason < 256 */
#define SP_SLOT_KEY(slot, tag) ((uint64_t)(tag) << 32 | (uint32_t)(slot)) /* SP_MESSAGES_SLOTS; tag < 2^31 */
/* Where messages come from. HASHED: any 64-bit key; the first packet opens. SLOTS: key = SP_SLOT_KEY, opened by
 * sp_message_open(); a packet whose slot is closed or holds another tag goes to miss(). */
enum sp_messages { SP_MESSAGES_NONE, SP_MESSAGES_HASHED, SP_MESSAGES_SLOTS };
/* HOME: all calls are on the home worker. The others hand their packets over to it. HOSTED: a context does nothing
 * without the application that opens it: `spindle run` refuses it in a configuration.
 * FLOWS: each QP is a flow that one worker owns for good, sp_qp_worker(). Its packets are handed to that worker in
 * order of arrival; commands with SP_CMD_ON, and control() for a QP, run there; issues run where sp_issue.on says. So
 * all that belongs to a flow needs no atomics.
 * SERVICE: the NIC opens one context of it, before the first context of a handler that names it in `service`, and asks
 * it on behalf of these contexts by control(). It may claim QP 1. */
enum sp_handler_flags { SP_HANDLER_HOME = 1, SP_HANDLER_HOSTED = 2, SP_HANDLER_FLOWS = 4, SP_HANDLER_SERVICE = 8 };
enum sp_param_type {
	SP_UINT /* 12, 0x1F, 64K, 1M (powers of 1024) */,
	SP_BOOL /* yes, no */,
	SP_STRING,
	SP_TIME /* 10us, 5ms */,
	SP_RATE /* 400G, 2.5M (bit/s, powers of 1000) */
};
struct sp_param {
	const char *name;
	enum sp_param_type type;
	const char *fallback; /* default, as it would be written in nic.ini; NULL: must be given */
	uint64_t min, max;    /* SP_UINT, SP_RATE and SP_TIME; max 0 = no limit */
	const char *help;
	const char *const *choices; /* SP_STRING: the words it may be, up to NULL; sp_param_uint() gives the index */
};

/* These are parts of the handler's state, zeroed before first use. `cookie` is the handler's, the rest the NIC's. */
/* sp_issue.on: the worker that runs it, plus 1 (SP_HANDLER_FLOWS, before the first start); 0: the home worker. */
struct sp_issue {
	struct sp_issue *next, *away;
	void *ctx;
	uint64_t cookie;
	uint32_t active, wait, woken, on;
};
struct sp_work {
	struct sp_work *next;
	void *ctx;
	uint64_t cookie;
	uint32_t active, worker;
};
struct sp_timer {
	struct sp_timer *child, *next, *prev;
	void *ctx;
	sp_time at;
	uint64_t cookie;
	uint32_t worker, armed;
};
enum sp_migrate {
	SP_MIGRATE_SWAP /* after attach(), before the first packet */,
	SP_MIGRATE_DRAINED /* nothing is left in the older version */
};
enum { SP_ISSUE_DONE, SP_ISSUE_MORE, SP_ISSUE_WAIT /* until sp_issue_start() again */ };
struct sp_report; /* a sink of named values */
struct sp_handler {
	uint32_t abi, size; /* SP_ABI and sizeof(struct sp_handler): SP_HANDLER_HEAD */
	const char *name, *doc;
	const struct sp_param *params; /* up to a NULL name */
	const char *const *drops;      /* names of drop reasons up to NULL, at most 64 */
	const char *const *counters;   /* names of counters up to NULL, at most 64 */
	size_t ctx_size, msg_size;     /* bytes */
	enum sp_messages messages;
	uint32_t flags, version; /* enum sp_handler_flags; version: of the state, for migrate() */
	/* First. Checks the parameters and reads them into the state. *area: bytes of memory to share with the host, 0
	 * before. May run again, on a zeroed state. 0 or -errno after sp_fail(). */
	int (*configure)(struct sp_ctx *, uint64_t *area);
	int (*attach)(struct sp_ctx *);	 /* once; 0 or -errno after sp_fail() */
	void (*detach)(struct sp_ctx *); /* all messages, timers, issues have ended */
	/* Message key, SP_NO_MESSAGE or SP_REJECT(). Absent: no packet has a message. */
	uint64_t (*classify)(struct sp_ctx *, struct sp_packet *);
	/* Burst form, optional: sets `key` of each. True: some are rejected. */
	bool (*classify_burst)(struct sp_ctx *, struct sp_packet *const *, unsigned n);
	uint32_t (*miss)(struct sp_ctx *, struct sp_packet *); /* SP_MESSAGES_SLOTS, no open message: verdict */
	/* SP_DONE, or the message is refused. */
	uint32_t (*header)(struct sp_ctx *, struct sp_message *, struct sp_packet *);
	uint32_t (*payload)(struct sp_ctx *, struct sp_message *, struct sp_packet *);
	/* Burst form, called instead if present: n >= 1 packets of one message. Sets verdicts other than SP_DONE, and
	 * returns the OR of all. */
	uint32_t (*payload_burst)(struct sp_ctx *, struct sp_message *, struct sp_packet *const *packet, unsigned n);
	void (*completion)(struct sp_ctx *, struct sp_message *, enum sp_end);
	/* 0 or -errno; `result` is pre-filled. */
	int (*command)(struct sp_ctx *, const struct sp_command *, struct sp_event *result);
	/* Sends at most `budget` packets. SP_ISSUE_*. */
	int (*issue)(struct sp_ctx *, struct sp_issue *, unsigned budget);
	bool (*work)(struct sp_ctx *, struct sp_work *); /* one slice of about 10 us; true: more to do */
	void (*timer)(struct sp_ctx *, struct sp_timer *);
	void (*report)(struct sp_ctx *, struct sp_report *); /* state for people and JSON */
	/* Takes over from an older version of the handler, while the other workers stand still. At SWAP: 0, or -errno
	 * after sp_fail(): then the older version stays. */
	int (*migrate)(struct sp_ctx *to, struct sp_ctx *from, enum sp_migrate when);
	const struct sp_export *exports;
	int (*control)(struct sp_ctx *, struct sp_control *); /* 0 or -errno */
	const char *service; /* the handler with SP_HANDLER_SERVICE that contexts of this one ask */
};
#define SP_HANDLER_HEAD .abi = SP_ABI, .size = sizeof(struct sp_handler)
/* Register: one per handler file. Runs when the program or the shared object is loaded. */
#define SP_HANDLER(ops)                                                                                                \
	__attribute__((constructor)) static void sp_register_##ops(void)                                               \
	{                                                                                                              \
		sp_handler_register(&ops);                                                                             \
	}
void sp_handler_register(const struct sp_handler *);
struct sp_mem {
	uint8_t *base;
	uint64_t len;
	uint32_t id, owner;
}; /* a region of host memory */

#include "spindle-calls.h"
#endif
