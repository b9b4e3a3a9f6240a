/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RVMA, remote virtual memory access (Grant et al., section IV of the paper): a put names a mailbox, the receiver
 * owns the memory. The calls have the paper's names and meaning; types are made sane, results are 0 or -errno.
 *
 * Receiver: rvma_open, rvma_init_window (a mailbox), rvma_post_buffer (as many as it likes: the mailbox's bucket). Puts
 * go to the head buffer only. When its threshold of bytes or operations is reached, the NIC writes address and length
 * to the buffer's notification, and the next buffer is the head: the sender notices nothing. Initiator: rvma_open,
 * rvma_peer_open with the receiver's address, rvma_put. No address of memory is ever exchanged.
 *
 * Puts are delivered exactly once, in any order; completion at the initiator says delivered, refused (why), or that the
 * peer is gone. Nothing is ever written to a buffer that the application owns.
 *
 * Errors beside those named at calls: -EINVAL an argument is out of its range, -EFAULT a range is not within its
 * region, -ENODEV the NIC has ended, -ECONNABORTED it has died, -ECONNRESET it has ended
 * the context.
 * Calls do not wait for a peer; those on windows wait for the NIC (control work). Threads: one at a time for a device
 * and all that hangs off it. An embedded NIC without threads is driven by sp_progress; calls ..._wait do that.
 */
#ifndef SPINDLE_RVMA_H
#define SPINDLE_RVMA_H

#include <stdbool.h>

#include "spindle.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rvma;	    /* a context of the NIC: mailboxes and operations */
struct rvma_window; /* a mailbox */
struct rvma_peer;   /* another struct rvma, anywhere */
struct rvma_op;	    /* a put or get on its way: valid until rvma_op_test has said something else than -EAGAIN */

/* ---- contexts ------------------------------------------------------------------------------------------------------
 */
/* Zero is the default for every field. */
struct rvma_attr {
	uint32_t mtu;	    /* payload bytes of a packet, 64 to 4096; default 1024, or what the port takes */
	uint32_t qpn;	    /* 0: the library takes a free one */
	uint32_t windows;   /* mailboxes; default 1024, at most 2^22 */
	uint32_t buffers;   /* posted or completed and not released, over all windows; default 4096, at most 2^23 */
	uint32_t counters;  /* of windows with buffers, on the NIC; further ones are in host memory; default 1024 */
	uint32_t peers;	    /* default 64, at most 4096 */
	uint32_t ops;	    /* puts and gets at once; default 1024 */
	uint64_t rate_bps;  /* limit for sending, bit/s; 0: none */
	uint64_t nack_rate; /* NACKs a second at most; default 10000 */
	sp_time timeout;    /* of a transfer, and of a silent peer; default 5 s, at most an hour */
	sp_time ack_delay;  /* how long an acknowledgement may wait for others; default 5 us, at most 1 s; 1: at once */
	int family;	    /* AF_INET or AF_INET6; 0: whichever the NIC has an address of, IPv4 first */
	const char *name;   /* of the NIC's execution context; NULL: "rvma-" and the QP number */
};

/* What puts to a context name it by: 32 bytes that one program may tell another as they are. */
struct rvma_address {
	uint8_t ip[16]; /* IPv4 mapped into IPv6 */
	uint32_t qpn;
	uint32_t reserved[3];
};

int rvma_open(struct sp_dev *dev, const struct rvma_attr *attr, struct rvma **rvma, struct sp_error *error);
/* All windows, peers and operations end with it, buffers are the caller's again, peers hear of it. */
int rvma_close(struct rvma *rvma);
int rvma_address_get(struct rvma *rvma, struct rvma_address *address);
/* -ENOSPC: too many. -EHOSTUNREACH: no route. The same address gives the same peer. No packet goes. */
int rvma_peer_open(struct rvma *rvma, const struct rvma_address *address, struct rvma_peer **peer);
int rvma_peer_close(struct rvma_peer *peer); /* -EBUSY: operations are on their way */

/* ---- windows: the receiver's side ----------------------------------------------------------------------------------
 */
enum rvma_epoch_type { RVMA_EPOCH_BYTES, RVMA_EPOCH_OPS };
enum rvma_mode {
	RVMA_STEERED, /* puts name an offset in the head buffer (0 if they do not) */
	RVMA_MANAGED, /* puts are placed one behind the other, in order of their first packets' arrival */
	RVMA_REGION,  /* RDMA's registered memory, as a baseline: one buffer, puts with offsets, never completed */
};
struct rvma_window_attr {
	uint64_t key;	    /* that puts and gets must carry; any value, 0 too */
	uint64_t threshold; /* of a buffer that gives none: bytes or operations; 0: never reached (inc_epoch ends it) */
	enum rvma_epoch_type type;
	enum rvma_mode mode;
	bool catch_all;	      /* also gets puts to mailboxes that are not there or have no buffer; one per context */
	bool silent;	      /* refused puts are not answered: their initiators see -ETIMEDOUT */
	bool readable;	      /* completed buffers can be read by rvma_get */
	bool forget;	      /* completed buffers are released at once */
	uint32_t max_buffers; /* limits, 0: none: posted at once, */
	uint64_t max_bytes;   /* bytes of these, */
	uint64_t max_put;     /* bytes of one put, */
	uint64_t max_rate;    /* bytes of puts taken a second: each put is refused until those before it are paid for */
};

/* RVMA_Init_window. -EEXIST: the mailbox has a window. -ENOSPC: too many. */
int rvma_init_window(struct rvma *rvma, uint64_t mailbox, const struct rvma_window_attr *attr,
		     struct rvma_window **window);

/* The completion pointer: in memory of a region, 64-byte aligned, zeroed before it is posted. The NIC writes address
 * last, so that who sees it not 0 (acquire) sees all else, and all the data. */
struct rvma_notification {
	void *address;	  /* of the buffer */
	uint64_t length;  /* bytes received; RVMA_MANAGED: up to where puts were placed */
	uint64_t epoch;	  /* from 0 */
	uint64_t flags;	  /* RVMA_PARTIAL, RVMA_LOST, RVMA_ENDED */
	uint64_t mailbox; /* that the latest put named */
	uint64_t puts;	  /* that have come whole */
	uint64_t reserved[2];
};
enum {
	RVMA_PARTIAL = 1, /* handed over before its threshold: rvma_win_inc_epoch or rvma_close_win */
	RVMA_LOST = 2,	  /* a put was given up, part of its bytes is there */
	RVMA_ENDED = 4,	  /* the window was closed */
};

struct rvma_buffer {
	struct sp_mr *mr;
	uint64_t offset, size;	 /* in mr */
	struct sp_mr *notify_mr; /* may be NULL: the epoch tells */
	uint64_t notify_offset;
	uint64_t threshold; /* 0: the window's */
};
/* RVMA_Post_buffer: at the end of the window's bucket. The buffer is the NIC's until its notification. -ESHUTDOWN:
 * closed. -EDQUOT: over the window's limits. -ENOBUFS: over the context's. */
int rvma_post_buffer(struct rvma_window *window, const struct rvma_buffer *buffer);
/* RVMA_Close_win: puts are refused (or discarded), buffers handed over in order as partial. The handle stays, for
 * completed buffers. -ESHUTDOWN: it is closed. */
int rvma_close_win(struct rvma_window *window);
/* The handle goes too; buffers not handed over are the caller's again. -EAGAIN: puts or gets are still open in it, and
 * have been told to end: again, soon. */
int rvma_free_win(struct rvma_window *window);
/* RVMA_Win_inc_epoch: the head buffer is handed over as it is, when the puts open in it have ended. -ENODATA: there is
 * none. */
int rvma_win_inc_epoch(struct rvma_window *window);
/* RVMA_Win_get_epoch: buffers completed so far. Reads shared memory, does not ask the NIC. */
int rvma_win_get_epoch(struct rvma_window *window, uint64_t *epoch);
struct rvma_window_status {
	uint64_t epoch, posted, held; /* held: completed and not released */
	uint64_t puts, bytes, refused;
	bool closed;
};
int rvma_win_status(struct rvma_window *window, struct rvma_window_status *status);

struct rvma_completed {
	void *address;
	uint64_t length, epoch, flags, mailbox;
};
/* RVMA_Win_get_buf_ptrs: the completed buffers that were not released, in order of retirement, the first `count` of
 * them at the most. Returns how many it has put into completed[]; rvma_win_status tells how many there are (held). */
int rvma_win_get_buf_ptrs(struct rvma_window *window, struct rvma_completed *completed, unsigned count);
/* Epoch and all before are not needed any more: neither rewound to nor read. -EAGAIN: a get still reads one of them. */
int rvma_win_release(struct rvma_window *window, uint64_t epoch);
/* MPIX_Rewind in the paper: epoch is the latest completed one again, and its buffer is returned. Later ones are
 * forgotten (their buffers stay the application's), the head begins anew: what was put into it is lost, and its open
 * puts are refused. -ENODATA: it was never completed, or has been released. completed may be NULL. */
int rvma_win_rewind(struct rvma_window *window, uint64_t epoch, struct rvma_completed *completed);

enum rvma_wait {
	RVMA_WAIT_POLL,	   /* reads the line again and again */
	RVMA_WAIT_MONITOR, /* umwait or mwaitx where the CPU has it, otherwise as poll */
	RVMA_WAIT_SLEEP,   /* on the device's descriptor */
};
/* Until the notification has an address. timeout: ps, SP_NEVER: for ever; -ETIMEDOUT. */
int rvma_wait(struct rvma *rvma, const volatile struct rvma_notification *notification, enum rvma_wait how,
	      sp_time timeout);
bool rvma_wait_monitors(void); /* whether RVMA_WAIT_MONITOR is more than polling here */

/* ---- operations: the initiator's side ------------------------------------------------------------------------------
 */
/* RVMA_Put: size bytes at offset of mr to the mailbox, at `at` of its head buffer (UINT64_MAX: -EINVAL). mr's bytes
 * must stay as they are until the operation has ended; mr may be NULL for none. -EAGAIN: too many are on their way. To
 * a peer that was gone it is as after rvma_peer_open: -ENOSPC, -EHOSTUNREACH. */
int rvma_put_at(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset,
		uint64_t size, uint64_t at, struct rvma_op **op);
/* Without an offset: for RVMA_MANAGED windows; 0 in others. */
int rvma_put(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset, uint64_t size,
	     struct rvma_op **op);
/* As rvma_put, but counted only when all that this context sent to the peer before is there: what an RDMA send behind
 * writes does on a network that keeps order. Costs retransmissions on others. */
int rvma_put_fenced(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset,
		    uint64_t size, struct rvma_op **op);
/* Reads [at, at + size) of the mailbox's latest completed buffer, or of the one `back` epochs earlier, at most 255. */
int rvma_get(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, unsigned back, uint64_t at, struct sp_mr *mr,
	     uint64_t offset, uint64_t size, struct rvma_op **op);

/* 0: delivered. -EAGAIN: not yet. Otherwise it was refused, and the handle is gone too:
 *   -ENOENT no such mailbox	-ENOBUFS no buffer is posted	-EACCES wrong key, or not readable
 *   -ESHUTDOWN closed		-EMSGSIZE too large		-ERANGE outside the buffer, or the offset overflows
 *   -EPROTOTYPE wrong mode	-EDQUOT over the window's rate	-ENODATA a get of what is not complete
 *   -ECANCELED rewound, or the context ends			-ENOSPC the receiver has no room
 *   -ECONNABORTED the receiver gave it up, or the NIC died		-ECONNRESET the peer is gone, or another one now
 *   -ETIMEDOUT the peer lives and says nothing of it (a silent window)
 *   -EHOSTUNREACH no path to it. */
int rvma_op_test(struct rvma_op *op);
/* Until it says something else than -EAGAIN, or timeout (ps; SP_NEVER: for ever) is over: then -EAGAIN. */
int rvma_op_wait(struct rvma_op *op, sp_time timeout);
const char *rvma_op_reason(int error); /* for people; never NULL */

#ifdef __cplusplus
}
#endif
#endif
