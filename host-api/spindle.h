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
	uint32_t id;  /* what commands name it by */
};

/* One `key = value` of a context; keys and values as in nic.ini. */
struct sp_setting {
	const char *key, *value;
};

/* What was wrong: `key` is the setting concerned or "". */
struct sp_error {
	char key[40];
	char text[256];
};

/* The NIC that runs in another process (spindle run). nic: its name, or the path of its socket when there is a '/' in
 * it; NULL: $SPINDLE_NIC, or "spindle0". -ENOENT or -ECONNREFUSED: it does not run. -EACCES: its socket is not for us.
 * -EPROTO: it speaks another version. -EUSERS: it has as many applications as it takes. -ENODEV: it ended, or said
 * nothing for 30 s. -ECONNABORTED: it died. Every call waits that long for an answer at the most. Close with
 * sp_dev_close. A child after fork() must not use the device.
 * When the NIC ends in order, every call says -ENODEV from then on; when it dies (a handler crashes or does not come
 * back, the process is killed), -ECONNABORTED. Memory stays readable. A program may then sp_dev_close and sp_attach
 * anew. */
int sp_attach(const char *nic, struct sp_dev **dev);
/* Where the socket of a NIC of that name is, or would be made: $SPINDLE_SOCKETS, else /run/spindle for root and
 * $XDG_RUNTIME_DIR/spindle (/tmp/spindle-UID where that is not set) for others. mine: of a NIC that we would run
 * ourselves, otherwise also one of root's that is there. -EINVAL: no name for a NIC (1 to 31 letters, digits, _ . -),
 * -ENAMETOOLONG, -EPERM: the directory in /tmp is somebody else's. */
int sp_socket_path(const char *nic, bool mine, char *path, size_t room);

/* Memory of the NIC's making, page aligned and zeroed. -ENOMEM, -EDQUOT (limit), -EINVAL (len 0). Free with sp_mr_free.
 */
int sp_mr_alloc(struct sp_dev *dev, uint64_t len, struct sp_mr **mr);
/* Memory of the application's own; only with an embedded NIC (-EOPNOTSUPP otherwise). It must outlive the region. */
int sp_mr_reg(struct sp_dev *dev, void *addr, uint64_t len, struct sp_mr **mr);
/* -EBUSY while a posted buffer or a send uses it. Not after sp_dev_close, which frees what is left. */
int sp_mr_free(struct sp_mr *mr);

/* Opens an execution context with the handler of that name. error may be NULL. The id names it in commands and events.
 */
int sp_context_open(struct sp_dev *dev, const char *name, const char *handler, const struct sp_setting *settings,
		    size_t count, uint32_t *id, struct sp_error *error);
/* Ends it: messages are given up, memory is released (the area too); its id is not used again. One that the NIC has
 * ended by itself is closed all the same: until then its area can be read, and calls with its id say -ECONNRESET. */
int sp_context_close(struct sp_dev *dev, uint32_t id);
/* The area that context and application share (sp_host_area in the handler); NULL, 0 where there is none. */
int sp_context_area(struct sp_dev *dev, uint32_t id, void **addr, uint64_t *len);
/* The NIC's own address (of several the first), IPv4 mapped into IPv6, for telling a peer; -ENOENT when it has none of
 * that family. */
int sp_dev_address(struct sp_dev *dev, int family, uint8_t ip[16]);
/* Bytes of one packet's RoCEv2 payload that the port's MTU leaves for that family (AF_INET, AF_INET6). */
uint32_t sp_dev_payload(struct sp_dev *dev, int family);

/* Hands a command over; -EAGAIN while the queue is full. The outcome arrives as an event. */
int sp_command_post(struct sp_dev *dev, const struct sp_command *command);
/* The same, and waits for the outcome (a round trip inside the machine): control work, not data. Returns its status. */
int sp_command_call(struct sp_dev *dev, const struct sp_command *command, struct sp_event *result);
/* Takes the oldest event of context id: 1, or 0 when there is none. -ECONNRESET: the NIC has ended the context. */
int sp_event_take(struct sp_dev *dev, uint32_t id, struct sp_event *event);

/* Lets an embedded NIC without workers of its own do what is due (-ENODEV, -ECONNABORTED: the NIC has gone). */
int sp_progress(struct sp_dev *dev, sp_time now);
/* When sp_progress has something to do at the latest; SP_NEVER: only once something happens. */
sp_time sp_next_deadline(struct sp_dev *dev);
/* Real time in the NIC's terms, for callers that have no time of their own. */
sp_time sp_clock(void);

/* Sleeping instead of polling: arm, look once more at what is waited for (events, bitmaps, status), then sleep until
 * the descriptor is readable. One wake-up per arming, when the NIC has posted an event to one of the device's contexts
 * or changed an area of theirs, or is gone; it may come for nothing. -ENODEV, -ECONNABORTED: the NIC has gone.
 * -EOPNOTSUPP: the NIC has no threads of its own (it does what is due in sp_progress). */
int sp_dev_arm(struct sp_dev *dev);
/* The descriptor: for poll, epoll and the like, to be neither read, written nor closed; sp_dev_arm empties it. */
int sp_dev_fd(struct sp_dev *dev);
/* Sleeps on it, for at most `timeout` ps (SP_NEVER: no limit): 0 or -ETIMEDOUT, -ENODEV, -ECONNABORTED, -EINTR (a
 * signal). */
int sp_dev_wait(struct sp_dev *dev, sp_time timeout);
/* The contexts opened through the device end with it, then its regions are released: every struct sp_mr that was not
 * freed before is invalid from here on. A region that another device's context still uses stays until the NIC goes. */
void sp_dev_close(struct sp_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
