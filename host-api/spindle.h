/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libspindle: what an application links to use a Spindle NIC. No DPDK here.
 * All calls return 0 or -errno (or what their comment says); the library never prints and never exits.
 * Threads: a device and all that hangs off it belongs to one thread at a time, unless a call says otherwise.
 * Time is always an argument: nothing here reads a clock, except where a call takes a timeout.
 */
#ifndef SPINDLE_H
#define SPINDLE_H

#include <stddef.h>
#include <stdint.h>

#include "../handlers/wire/host.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sp_dev; /* a NIC, as one application sees it: embedded (sp_nic_dev) or attached */

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
/* The NIC's own address, IPv4 mapped into IPv6, for telling a peer; -ENOENT when it has none of that family. */
int sp_dev_address(struct sp_dev *dev, int family, uint8_t ip[16]);
/* Bytes of one packet's RoCEv2 payload that the port's MTU leaves for that family (AF_INET, AF_INET6). */
uint32_t sp_dev_payload(struct sp_dev *dev, int family);

/* Hands a command over; -EAGAIN while the queue is full. The outcome arrives as an event. */
int sp_command_post(struct sp_dev *dev, const struct sp_command *command);
/* The same, and waits for the outcome (a round trip inside the machine): control work, not data. Returns its status. */
int sp_command_call(struct sp_dev *dev, const struct sp_command *command, struct sp_event *result);
/* Takes the oldest event of context id: 1, or 0 when there is none. -ECONNRESET: the NIC has ended the context. */
int sp_event_take(struct sp_dev *dev, uint32_t id, struct sp_event *event);

/* Lets an embedded NIC without workers of its own do what is due (-ENODEV: the NIC has gone). */
int sp_progress(struct sp_dev *dev, sp_time now);
/* When sp_progress has something to do at the latest; SP_NEVER: only once something happens. */
sp_time sp_next_deadline(struct sp_dev *dev);
/* Real time in the NIC's terms, for callers that have no time of their own. */
sp_time sp_clock(void);
/* The contexts opened through the device end with it, then its regions are released: every struct sp_mr that was not
 * freed before is invalid from here on. A region that another device's context still uses stays until the NIC goes. */
void sp_dev_close(struct sp_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
