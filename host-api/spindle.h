/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libspindle: what an application links to use a Spindle NIC. No DPDK here.
 * All calls return 0 or -errno (or what their comment says); the library never prints and never exits.
 * Threads: a device and all that hangs off it belongs to one thread at a time, unless a call says otherwise.
 * Time is always an argument: nothing here reads a clock, except where a call takes a timeout.
 */
#ifndef SPINDLE_H
#define SPINDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../handlers/wire/host.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sp_dev; /* a NIC, as one application sees it: embedded (sp_nic_dev) or attached (sp_attach) */

/* A region of memory that the NIC may write to and read from. */
struct sp_mr {
	struct sp_dev *dev;
	void *addr;
	uint64_t len; /* bytes */
	uint32_t id;  /* used in commands */
};

/* One `key = value` of a context; keys and values as in nic.ini. */
struct sp_setting {
	const char *key, *value;
};

/* What was wrong: `key` is the setting, or "". */
struct sp_error {
	char key[40];
	char text[256];
};

/* Attaches to a NIC that runs in another process (spindle run). nic: its name, or the path of its socket if it has a
 * '/'; NULL: $SPINDLE_NIC, or "spindle0". -ENOENT or -ECONNREFUSED: it does not run. -EACCES: no permission for its
 * socket. -EPROTO: it has another protocol version. -EUSERS: it has no room for another application. -EBUSY: processes
 * of this user still have much that the NIC is done with. -ENODEV: it has ended, or did not answer for 30 s.
 * -ECONNABORTED: it has died. Every call waits that long at most. Close with
 * sp_dev_close. A child after fork() must not use the device.
 * When the NIC ends in order, every later call returns -ENODEV. When the NIC dies (a handler crashes or does not come
 * back, the process is killed), every later call returns -ECONNABORTED. Memory stays readable. A program may then call
 * sp_dev_close and sp_attach again. */
int sp_attach(const char *nic, struct sp_dev **dev);
/* Writes the path of the socket of a NIC: in $SPINDLE_SOCKETS, else /run/spindle for root and $XDG_RUNTIME_DIR/spindle
 * (/tmp/spindle-UID if that is not set) for others. mine: the path for a NIC that the caller runs; otherwise also that
 * of root's NIC, if it exists. -EINVAL: not a name for a NIC (1 to 31 letters, digits, _ . -), -ENAMETOOLONG, -EPERM:
 * the directory in /tmp belongs to another user. */
int sp_socket_path(const char *nic, bool mine, char *path, size_t room);

/* Memory that the NIC makes, page aligned and zeroed. -ENOMEM, -EDQUOT (limit), -EINVAL (len 0). Free with
 * sp_mr_free. */
int sp_mr_alloc(struct sp_dev *dev, uint64_t len, struct sp_mr **mr);
/* Registers memory of the application; only with an embedded NIC (otherwise -EOPNOTSUPP). It must outlive the
 * region. */
int sp_mr_reg(struct sp_dev *dev, void *addr, uint64_t len, struct sp_mr **mr);
/* Says that the caller has moved this process's mapping of a region of sp_mr_alloc to addr (mremap), so that mr->addr
 * follows. From now on the mapping is the caller's: neither sp_mr_free nor sp_dev_close unmaps it. The memory stays
 * charged, and is never used again, until the caller has unmapped it or mapped something else there. Only with an
 * attached NIC (otherwise -EOPNOTSUPP). */
int sp_mr_moved(struct sp_mr *mr, void *addr);
/* -EBUSY while a posted buffer or a send uses it. Not to be called after sp_dev_close, which frees what is left. */
int sp_mr_free(struct sp_mr *mr);

/* Opens an execution context with the named handler. error may be NULL. Commands and events carry the id. name NULL or
 * "": the handler's name and the first QP number, as in sdr-65536. */
int sp_context_open(struct sp_dev *dev, const char *name, const char *handler, const struct sp_setting *settings,
		    size_t count, uint32_t *id, struct sp_error *error);
/* Closes it: abandons its messages and releases its memory, the area too. Ids are not used again. A context that the
 * NIC has ended must be closed, too: until then its area can be read, and calls with its id return -ECONNRESET. */
int sp_context_close(struct sp_dev *dev, uint32_t id);
/* The first of the context's QP numbers: for `qp = any` the one that the NIC has chosen. 0: it has none. -ENOENT. */
int sp_context_qp(struct sp_dev *dev, uint32_t id, uint32_t *qpn);
/* The area that context and application share (sp_host_area in the handler); NULL, 0 where there is none. */
int sp_context_area(struct sp_dev *dev, uint32_t id, void **addr, uint64_t *len);
/* The first address of the NIC of that family, IPv4 mapped into IPv6; -ENOENT: none. */
int sp_dev_address(struct sp_dev *dev, int family, uint8_t ip[16]);
/* Bytes of RoCEv2 payload per packet with the port's MTU, for that family (AF_INET, AF_INET6). */
uint32_t sp_dev_payload(struct sp_dev *dev, int family);

/* Hands a command over; -EAGAIN while the queue is full. The outcome arrives as an event. No system call, but for the
 * first command after a pause that made a NIC in another process park the application. */
int sp_command_post(struct sp_dev *dev, const struct sp_command *command);
/* Posts a command and waits for its result (a round trip inside the machine): for control, not for data. Returns the
 * status. */
int sp_command_call(struct sp_dev *dev, const struct sp_command *command, struct sp_event *result);
/* Asks the context's handler, or its service, with `bytes` of data, and waits for the answer: for control, not for
 * data. qp: run on the worker of that QP of the context; 0: on its home worker. *answered: room for the answer before,
 * its bytes after; at most SP_CONTROL_BYTES each way. Returns the handler's 0 or -errno; -EOPNOTSUPP: it takes no such
 * requests; -ENOENT: no such context; -EMSGSIZE. */
int sp_control_call(struct sp_dev *dev, uint32_t id, bool service, uint32_t op, uint32_t qp, const void *data,
		    uint32_t bytes, void *answer, uint32_t *answered);
/* Takes the oldest event of context id: 1; 0: none. -ECONNRESET: the NIC has ended the context. */
int sp_event_take(struct sp_dev *dev, uint32_t id, struct sp_event *event);

/* An embedded NIC without workers does what is due (-ENODEV: the NIC has ended, -ECONNABORTED: it has died). */
int sp_progress(struct sp_dev *dev, sp_time now);
/* When sp_progress has work at the latest; SP_NEVER: only after an event. */
sp_time sp_next_deadline(struct sp_dev *dev);
/* The real time, for callers without a clock of their own. */
sp_time sp_clock(void);

/* To sleep instead of polling: arm, look once more at what is waited for (events, bitmaps, status), then sleep until
 * the descriptor is readable. There is one wake-up per arming: when the NIC has posted an event to one of the device's
 * contexts, has changed an area of one, or is gone. A wake-up may be spurious. -ENODEV: the NIC has ended.
 * -ECONNABORTED: the NIC has died. -EOPNOTSUPP: the NIC has no threads (sp_progress does its work). */
int sp_dev_arm(struct sp_dev *dev);
/* The same; what: by what to be woken. SP_ARM_ANY is sp_dev_arm(). SP_ARM_RECEIVE: not by the mere progress of what the
 * program has posted itself, as its sends end (also without success), may begin, or its receives open; by all else, as
 * something received, an event, or the end. A program that has sent and sleeps until the answer is there is woken once
 * and not twice. Whoever waits for a send, or for room for one, needs SP_ARM_ANY. Armings add up until a wake-up. A NIC
 * older than this call wakes by anything. -EINVAL: no such value. */
enum sp_arm { SP_ARM_ANY = 1, SP_ARM_RECEIVE = 2 };
int sp_dev_arm_for(struct sp_dev *dev, enum sp_arm what);
/* The descriptor, for poll and epoll. Do not read, write or close it; sp_dev_arm empties it. */
int sp_dev_fd(struct sp_dev *dev);
/* Sleeps until it is readable, at most `timeout` ps (SP_NEVER: no limit): 0, -ETIMEDOUT, -ENODEV, -ECONNABORTED or
 * -EINTR (a signal). */
int sp_dev_wait(struct sp_dev *dev, sp_time timeout);
/* Closes all contexts of the device, then releases its regions: every struct sp_mr becomes invalid. A region that a
 * context of another device still uses stays until the NIC ends. */
void sp_dev_close(struct sp_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
