/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RVMA, remote virtual memory access (Grant et al., section IV of the paper): a put names a mailbox, the receiver owns
 * the memory. The calls have the paper's names and meaning, with clean types; results are 0 or -errno.
 *
 * Receiver: rvma_open, rvma_init_window (a mailbox), rvma_post_buffer (any number: the mailbox's bucket). Puts go to
 * the head buffer only. When it has reached its threshold of bytes or operations, the NIC writes address and length to
 * the buffer's notification, and the next buffer becomes the head. The sender does not see that. Initiator: rvma_open,
 * rvma_peer_open with the receiver's address, rvma_put. The two never exchange a memory address.
 *
 * Puts are delivered exactly once, in any order. An operation ends with delivered, with the reason why it was refused,
 * or with "the peer is gone". The NIC never writes to a buffer that the application owns.
 *
 * Errors besides those named at calls: -EINVAL an argument is out of its range, -EFAULT a range is not within its
 * region, -ENODEV the NIC has ended, -ECONNABORTED it has died, -ECONNRESET it has ended the context. Calls do not wait
 * for a peer; those on windows wait for the NIC (control work). Threads: one at a time for a device and everything
 * opened on it. sp_progress drives an embedded NIC without threads; calls named ..._wait do it themselves.
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
struct rvma_op;	    /* a put or get in flight: valid until rvma_op_test returns anything but -EAGAIN */

/* ---- contexts ---- */
/* Zero is the default for every field. */
struct rvma_attr {
	uint32_t mtu;	    /* payload bytes of a packet, 64 to 4096; default 1024, or what the port takes */
	uint32_t qpn;	    /* 0: a free one */
	uint32_t windows;   /* mailboxes; default 1024, at most 2^22 */
	uint32_t buffers;   /* posted, or completed and not released, of all windows; default 4096, at most 2^23 */
	uint32_t counters;  /* windows with buffers whose counters are on the NIC; those of others are in host memory;
			       default 1024 */
	uint32_t peers;	    /* default 64, at most 4096 */
	uint32_t ops;	    /* puts and gets in flight; default 1024 */
	uint64_t rate_bps;  /* limit for sending, bit/s; 0: none */
	uint64_t nack_rate; /* NACKs a second at most; default 10000 */
	sp_time timeout;    /* for a transfer, and for a silent peer; default 5 s, at most an hour */
	sp_time ack_delay;  /* longest delay of an acknowledgement to combine it with others; default 5 us, at most 1 s;
			       1: none */
	int family;	    /* AF_INET or AF_INET6; 0: the family of the NIC's address, IPv4 first */
	const char *name;   /* of the NIC's execution context; NULL: "rvma-" and the QP number */
};

/* The address of a context for puts: 32 bytes that one program may send to another unchanged. */
struct rvma_address {
	uint8_t ip[16]; /* IPv4 mapped into IPv6 */
	uint32_t qpn;
	uint32_t reserved[3];
};

int rvma_open(struct sp_dev *dev, const struct rvma_attr *attr, struct rvma **rvma, struct sp_error *error);
/* Ends all windows, peers and operations. The application owns its buffers again. Peers are told. */
int rvma_close(struct rvma *rvma);
int rvma_address_get(struct rvma *rvma, struct rvma_address *address);
/* -ENOSPC: too many. -EHOSTUNREACH: no route. The same address gives the same peer. Sends no packet. */
int rvma_peer_open(struct rvma *rvma, const struct rvma_address *address, struct rvma_peer **peer);
int rvma_peer_close(struct rvma_peer *peer); /* -EBUSY: operations are in flight */

/* ---- windows: the receiver's side ---- */
enum rvma_epoch_type { RVMA_EPOCH_BYTES, RVMA_EPOCH_OPS };
enum rvma_mode {
	RVMA_STEERED, /* puts name an offset in the head buffer (default 0) */
	RVMA_MANAGED, /* puts are placed one behind the other, in the order in which their first packets arrive */
	RVMA_REGION,  /* as RDMA's registered memory, for comparison: one buffer, puts with offsets, never completed */
};
struct rvma_window_attr {
	uint64_t key;	    /* puts and gets must carry it; any value, 0 too */
	uint64_t threshold; /* bytes or operations, for buffers without one; 0: never reached (rvma_win_inc_epoch
			       completes it) */
	enum rvma_epoch_type type;
	enum rvma_mode mode;
	bool catch_all;	      /* also gets puts to mailboxes without window or buffer; one per context */
	bool silent;	      /* does not answer refused puts: their initiators get -ETIMEDOUT */
	bool readable;	      /* rvma_get can read completed buffers */
	bool forget;	      /* releases completed buffers at once */
	uint32_t max_buffers; /* limits, 0: none. Buffers posted, */
	uint64_t max_bytes;   /* ... their bytes, */
	uint64_t max_put;     /* ... bytes of one put, */
	uint64_t max_rate;    /* ... bytes of puts per second: a put is refused until the rate has caught up with those
				 before it */
};

/* RVMA_Init_window. -EEXIST: the mailbox has a window. -ENOSPC: too many. */
int rvma_init_window(struct rvma *rvma, uint64_t mailbox, const struct rvma_window_attr *attr,
		     struct rvma_window **window);

/* The completion pointer: memory in a region, 64-byte aligned, zeroed before posting. The NIC writes address last: when
 * it is not 0 (acquire), all other fields and the data are there. */
struct rvma_notification {
	void *address;	  /* of the buffer */
	uint64_t length;  /* bytes received; RVMA_MANAGED: end of the last put */
	uint64_t epoch;	  /* counts from 0 */
	uint64_t flags;	  /* RVMA_PARTIAL, RVMA_LOST, RVMA_ENDED */
	uint64_t mailbox; /* mailbox of the latest put */
	uint64_t puts;	  /* puts that have arrived whole */
	uint64_t reserved[2];
};
enum {
	RVMA_PARTIAL = 1, /* completed before its threshold: rvma_win_inc_epoch or rvma_close_win */
	RVMA_LOST = 2,	  /* a put was abandoned, part of its bytes is in the buffer */
	RVMA_ENDED = 4,	  /* the window was closed */
};

struct rvma_buffer {
	struct sp_mr *mr;
	uint64_t offset, size;	 /* in mr */
	struct sp_mr *notify_mr; /* may be NULL: poll the epoch instead */
	uint64_t notify_offset;
	uint64_t threshold; /* 0: that of the window */
};
/* RVMA_Post_buffer: appends to the window's bucket. The NIC owns the buffer until its notification. -ESHUTDOWN: closed.
 * -EDQUOT: over the window's limits. -ENOBUFS: over the context's limit. */
int rvma_post_buffer(struct rvma_window *window, const struct rvma_buffer *buffer);
/* RVMA_Close_win: refuses (or discards) further puts and completes all buffers in order, with RVMA_PARTIAL. The handle
 * stays, for completed buffers. -ESHUTDOWN: already closed. */
int rvma_close_win(struct rvma_window *window);
/* Also frees the handle. The application owns the buffers that were not completed. -EAGAIN: puts or gets are still open
 * in the window and were told to end: call again soon. */
int rvma_free_win(struct rvma_window *window);
/* RVMA_Win_inc_epoch: completes the head buffer as it is, once the puts open in it have ended. -ENODATA: no buffer. */
int rvma_win_inc_epoch(struct rvma_window *window);
/* RVMA_Win_get_epoch: number of buffers completed. Reads shared memory, does not ask the NIC. */
int rvma_win_get_epoch(struct rvma_window *window, uint64_t *epoch);
struct rvma_window_status {
	uint64_t epoch, posted, held;  /* held: completed and not released */
	uint64_t puts, bytes, refused; /* puts, bytes: without what was rewound, so a rewind makes them smaller */
	uint64_t lost; /* puts that were given up with some of their bytes missing: the sender died, has restarted, or
			  was silent for too long */
	uint64_t gone; /* peers of the context that had sent something and then went: their program ended or died, or
			  has restarted, or was silent and its place was needed */
	bool closed;
};
/* Reads shared memory. A sender that has died shows in `gone`, and in `lost` if it left puts unfinished. */
int rvma_win_status(struct rvma_window *window, struct rvma_window_status *status);

struct rvma_completed {
	void *address;
	uint64_t length, epoch, flags, mailbox;
};
/* RVMA_Win_get_buf_ptrs: the completed buffers that were not released, oldest first, at most `count`. Returns how many
 * were written to completed[]; rvma_win_status gives their total (held). */
int rvma_win_get_buf_ptrs(struct rvma_window *window, struct rvma_completed *completed, unsigned count);
/* Releases this epoch and all before: they can neither be rewound to nor read. -EAGAIN: a get still reads one of
 * them. */
int rvma_win_release(struct rvma_window *window, uint64_t epoch);
/* MPIX_Rewind in the paper: makes epoch the latest completed one again and returns its buffer. Later ones are forgotten
 * (the application owns their buffers). The head buffer begins anew: its content is lost, and puts open in it are
 * refused. RVMA_BEGIN: back to the begin of the first epoch; completed gets no address. -ENODATA: never completed, or
 * released; RVMA_BEGIN: the first epoch was released. completed may be NULL. */
#define RVMA_BEGIN UINT64_MAX
int rvma_win_rewind(struct rvma_window *window, uint64_t epoch, struct rvma_completed *completed);

enum rvma_wait {
	RVMA_WAIT_POLL,	   /* reads the notification again and again */
	RVMA_WAIT_MONITOR, /* umwait or mwaitx where the CPU has it, otherwise polls */
	RVMA_WAIT_SLEEP,   /* sleeps on the device's descriptor */
};
/* Waits until the notification has an address. timeout: ps, SP_NEVER: no limit; -ETIMEDOUT. */
int rvma_wait(struct rvma *rvma, const volatile struct rvma_notification *notification, enum rvma_wait how,
	      sp_time timeout);
bool rvma_wait_monitors(void); /* whether RVMA_WAIT_MONITOR does more than poll on this CPU */

/* ---- operations: the initiator's side ---- */
/* RVMA_Put: size bytes at offset of mr to the mailbox, at `at` of its head buffer (UINT64_MAX: -EINVAL). The bytes must
 * not change until the operation has ended. mr may be NULL for no bytes. -EAGAIN: too many operations are in flight. To
 * a peer that was gone: -ENOSPC, -EHOSTUNREACH as rvma_peer_open. */
int rvma_put_at(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset,
		uint64_t size, uint64_t at, struct rvma_op **op);
/* Without an offset, for RVMA_MANAGED windows; 0 in others. */
int rvma_put(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset, uint64_t size,
	     struct rvma_op **op);
/* As rvma_put, but counted only when everything that this context sent to the peer before has arrived: the effect of an
 * RDMA send behind writes on a network that keeps order. Costs retransmissions on other networks. */
int rvma_put_fenced(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset,
		    uint64_t size, struct rvma_op **op);
/* Reads [at, at + size) of the mailbox's latest completed buffer, or of the one `back` epochs earlier, at most 255. */
int rvma_get(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, unsigned back, uint64_t at, struct sp_mr *mr,
	     uint64_t offset, uint64_t size, struct rvma_op **op);

/*
 * 0: delivered. -EAGAIN: not yet. Anything else: it has failed, the handle is invalid:
 *   -ENOENT       no such mailbox
 *   -ENOBUFS      no buffer is posted
 *   -EACCES       wrong key, or not readable
 *   -ESHUTDOWN    closed
 *   -EMSGSIZE     too large
 *   -ERANGE       outside the buffer, or the offset overflows
 *   -EPROTOTYPE   wrong mode
 *   -EDQUOT       over the window's rate
 *   -ENODATA      a get of an epoch that is not complete
 *   -ECANCELED    rewound, or the context ends
 *   -ENOSPC       the receiver has no room
 *   -ECONNABORTED the receiver has abandoned it, or the NIC has died
 *   -ECONNRESET   the peer is gone or was replaced
 *   -ETIMEDOUT    the peer lives but does not answer (a silent window)
 *   -EHOSTUNREACH no route
 */
int rvma_op_test(struct rvma_op *op);
/* Waits until the operation has ended, at most timeout (ps; SP_NEVER: no limit): then -EAGAIN. */
int rvma_op_wait(struct rvma_op *op, sp_time timeout);
const char *rvma_op_reason(int error); /* message for users; never NULL */

#ifdef __cplusplus
}
#endif
#endif
