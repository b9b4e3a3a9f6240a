/* SPDX-License-Identifier: BSD-3-Clause */
/* What a handler calls. spindle-handler.h includes it. At any time, unless it says otherwise. */
#ifndef SPINDLE_CALLS_H
#define SPINDLE_CALLS_H
#ifndef SPINDLE_HANDLER_H
#error "include spindle-handler.h"
#endif
/* clang-format off: in columns */

/* configure() and attach() only; configure() only the first three. Values were checked against the declaration. */
/* Also SP_BOOL (0, 1), SP_TIME (ps), SP_RATE (bit/s), choices (index). "qp": the context's first QP number, or 0; with
 * `qp = any` after sp_qp_claim(). */
uint64_t sp_param_uint(struct sp_ctx *, const char *name);
const char *sp_param_string(struct sp_ctx *, const char *name);
/* Returns -err. */
int sp_fail(struct sp_ctx *, int err, const char *param, const char *format, ...) __attribute__((format(printf, 4, 5)));
void *sp_alloc(struct sp_ctx *, size_t bytes); /* zeroed, 64-byte aligned, freed after detach(); NULL: limit */
/* count QPs from the context's `qp` on; for `qp = any` where the NIC has them free. -EINVAL, -EADDRINUSE, -ENOSPC. */
int sp_qp_claim(struct sp_ctx *, uint32_t count);
uint16_t sp_qp_worker(struct sp_ctx *, uint32_t index); /* SP_HANDLER_FLOWS: owner of the QP with that qp_index */
int sp_qp_control(struct sp_ctx *, uint32_t *qp);	/* a QP number of the NIC's choice, qp_index SP_QP_CONTROL */
int sp_messages_limit(struct sp_ctx *, uint32_t count, sp_time idle); /* messages at once; idle timeout, 0 = none */
const struct sp_mem *sp_host_area(struct sp_ctx *); /* what configure() asked for, zeroed; NULL: nothing */
/* Messages */
int sp_message_open(struct sp_ctx *, uint64_t key); /* SLOTS, home worker: -EEXIST while the slot is in use */
/* Holds an open message open until sp_message_release(). NULL: there is none, or its header() has not run yet. */
struct sp_message *sp_message_hold(struct sp_ctx *, uint64_t key);
void sp_message_release(struct sp_ctx *, struct sp_message *);
int sp_message_close(struct sp_ctx *, uint64_t key); /* completion() follows once no packet is inside; -ENOENT */
/* Host memory. `base` is for addressing only: use sp_dma_*, which check. */
/* Takes a reference. NULL: no region of this context's owner. */
const struct sp_mem *sp_mem_get(struct sp_ctx *, uint32_t id);
void sp_mem_put(struct sp_ctx *, const struct sp_mem *);
void sp_dma_fault(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t len);
bool sp_dma_traced(struct sp_ctx *, const struct sp_mem *, uint64_t offset, const void *from, uint64_t len);
static inline bool sp_mem_holds(const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	return offset <= m->len && len <= m->len - offset;
}
/* A checked pointer to [offset, offset + len), for handlers that write payload by their own means, as long as they hold
 * the region. NULL: not within the region, or the NIC traces writes or leaves them out. Then call sp_dma_write(). */
static inline uint8_t *sp_dma_window(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	if (__builtin_expect(c->watch, 0) || __builtin_expect(!sp_mem_holds(m, offset, len), 0))
		return NULL;
	return m->base + offset;
}
static inline int sp_dma_write(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, const void *from,
			       uint32_t len)
{
	if (__builtin_expect(!sp_mem_holds(m, offset, len), 0))
		return sp_dma_fault(c, m, offset, len), -EFAULT;
	if (__builtin_expect(c->watch, 0) && sp_dma_traced(c, m, offset, from, len))
		return 0;
	memcpy(m->base + offset, from, len);
	return 0;
}
/* -EFAULT. The last three: -EINVAL if unaligned; or64 and add64 are atomic, store64 is a release. */
int sp_dma_read(struct sp_ctx *, const struct sp_mem *, uint64_t offset, void *to, uint32_t len);
int sp_dma_or64(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t bits);
int sp_dma_add64(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t n, uint64_t *old);
int sp_dma_store64(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t value);
/* As store64, of the progress of what the application itself has posted: does not wake an application that sleeps until
 * it receives something (SP_ARM_RECEIVE). */
int sp_dma_progress64(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t value);
/* Compares with `expect` and stores `value` if equal, atomically. -EFAULT, -EINVAL as above. */
int sp_dma_swap64(struct sp_ctx *, const struct sp_mem *, uint64_t offset, uint64_t expect, uint64_t value,
		  uint64_t *old);
/* What a worker has taken from shared state before sp_grace_begin() is no longer in use once sp_grace_over(). */
uint64_t sp_grace_begin(struct sp_ctx *);
bool sp_grace_over(struct sp_ctx *, uint64_t token);
int sp_event_post(struct sp_ctx *, const struct sp_event *); /* -EAGAIN: the host's queue is full (counted) */
/* Services only: to a context that asks it. -ENOENT: it has ended. -EAGAIN. */
int sp_event_post_to(struct sp_ctx *, uint32_t context, const struct sp_event *);
bool sp_qp_owned(struct sp_ctx *, uint32_t context, uint32_t qp); /* services: it is of a context that asks them */
/* Sending. A path is a resolved address of the context, which has at most 4096. -EAGAIN: no room now. */
struct sp_path;
/* sp_send.flags, beside SP_PKT_SE. ACK_REQ, BECN: bits of the BTH. ECT: the IP header says ECN-capable. */
enum { SP_SEND_ACK_REQ = 0x10, SP_SEND_BECN = 0x20, SP_SEND_ECT = 0x40, SP_SEND_UNPACED = 0x80 };
/* Home worker; with SP_HANDLER_FLOWS any, and the path is that worker's, who closes it. IPv4 mapped. only: other
 * sources are refused; a second such path is -EISCONN. One address is one path: close it as often as it was opened. */
int sp_path_open(struct sp_ctx *, const uint8_t ip[16], bool only, struct sp_path **);
void sp_path_close(struct sp_ctx *, struct sp_path *);
struct sp_piece {
	const struct sp_mem *mem;
	uint64_t offset;
	uint32_t len;
};
struct sp_send {
	uint32_t dest_qp, psn;
	uint8_t opcode, flags; /* SP_SEND_*, SP_PKT_SE; SP_SEND_UNPACED: not paced, and not counted */
	uint16_t udp_source;   /* entropy; 0: derived from the path */
	uint8_t traffic_class; /* its upper six bits: IPv4's and IPv6's differentiated services */
	uint8_t hop_limit;     /* IPv4's TTL; 0: 64 */
	uint16_t reserved;     /* 0 */
	const void *ext;       /* extension headers after the BTH, at most 64 bytes */
	uint32_t ext_len, len; /* len: payload bytes, from mem at offset, or from `bytes` if mem is NULL */
	const struct sp_mem *mem;
	uint64_t offset;
	const void *bytes;
	const struct sp_piece *piece; /* not NULL: len bytes of payload, gathered from `pieces` of them (copied) */
	uint32_t pieces;
};
/* Large payload from mem is not always copied: see sp_send_settled(). */
int sp_send_roce(struct sp_ctx *, struct sp_path *, const struct sp_send *);
/* The same for n packets, and cheaper. Returns how many of the first ones were sent; if none, why. */
int sp_send_roce_run(struct sp_ctx *, struct sp_path *, const struct sp_send *, unsigned n);
uint64_t sp_send_mark(struct sp_ctx *); /* packets of this worker so far */
/* On the same worker: ports no longer use mem's bytes of packets up to the mark. If not, SP_ISSUE_WAIT: the NIC calls
 * that issue() again when they are done. */
bool sp_send_settled(struct sp_ctx *, uint64_t mark);
int sp_send_frame(struct sp_ctx *, uint16_t port, const void *frame, uint32_t len); /* copied */
/* Sends the frame as it is now, by the port it came by. The verdict is SP_SENT. */
int sp_packet_send(struct sp_ctx *, struct sp_packet *);
/* The frame's bytes stay valid until sp_packet_release(buf). -ENOBUFS: the context holds 1024. */
int sp_packet_keep(struct sp_ctx *, struct sp_packet *);
void sp_packet_release(struct sp_ctx *, void *buf);
/* Internet checksum (RFC 1071), in network order. sum: carried in. */
uint16_t sp_checksum(const void *bytes, size_t len, uint32_t sum);
/* Any worker. issue() is called on the home worker, while the pace allows. */
void sp_issue_start(struct sp_ctx *, struct sp_issue *);
void sp_work_start(struct sp_ctx *, struct sp_work *);
/* Arms it, or arms it anew. -EXDEV: another worker armed it. */
int sp_timer_arm(struct sp_ctx *, struct sp_timer *, sp_time at);
int sp_timer_cancel(struct sp_ctx *, struct sp_timer *);
/* The rate of issue(); 0: the port's. Home worker, otherwise -EXDEV. */
int sp_pace(struct sp_ctx *, uint64_t bits_per_second);
uint64_t sp_random(struct sp_ctx *); /* real time: from getrandom(2); virtual: the seed */
/* Below 2^63, so it can be a message key. Its key comes from where sp_random() comes from. */
uint64_t sp_hash(struct sp_ctx *, const void *bytes, size_t len);
/* Companions only: the exports of the first handler, and its context. */
const struct sp_export *sp_first(struct sp_ctx *, struct sp_ctx **first);
/* First handlers only: the companion's context on this worker, for one call to it; NULL: there is no companion. After
 * the call sp_second_end(). */
struct sp_ctx *sp_second(struct sp_ctx *first);
void sp_second_end(struct sp_ctx *first);
/* Reporting (report() only). Name NULL inside a list. */
void sp_report_uint(struct sp_report *, const char *name, uint64_t);
void sp_report_string(struct sp_report *, const char *name, const char *); /* NULL: null */
void sp_report_bool(struct sp_report *, const char *name, bool);
void sp_report_open(struct sp_report *, const char *name, bool list); /* object, or list */
void sp_report_close(struct sp_report *);
#endif
