/* SPDX-License-Identifier: BSD-3-Clause */
/* What crosses the boundary between a host program and the NIC: commands to the NIC, events to the host. Both are one
 * cache line. The NIC copies a command once, then validates the copy. It never reads an event back. */
#ifndef SPINDLE_WIRE_HOST_H
#define SPINDLE_WIRE_HOST_H

#include <assert.h>
#include <stdint.h>

/* Time everywhere: picoseconds since an origin that the NIC's driver chose (64 B at 2 Tbit/s lasts 256 ps; wraps after
 * 213 days). */
typedef uint64_t sp_time;
#define SP_NEVER UINT64_MAX
#define SP_NS	 1000ull
#define SP_US	 1000000ull
#define SP_MS	 1000000000ull
#define SP_SEC	 1000000000000ull

/* Operations that mean the same for every handler; a handler's own start at SP_CMD_OWN (see its wire header). */
enum sp_command_op {
	SP_CMD_POST = 1,     /* give the NIC a buffer: arg[0] memory id, arg[1] offset, arg[2] length in bytes */
	SP_CMD_COMPLETE = 2, /* take buffer or message `cookie` back, complete or not */
	SP_CMD_CLOSE = 3,    /* end the connection or window */
	SP_CMD_QUERY = 4,    /* ask for a number: arg[0] which */
	SP_CMD_OWN = 0x100,
};
#define SP_CMD_REPLY	     1u /* flags: answer with an event also on success; failures are always answered */
/* flags: for worker w instead of the context's home worker (handlers with SP_HANDLER_FLOWS) */
#define SP_CMD_ON(w)	     ((uint16_t)(((w) + 1) << 8))
#define SP_CMD_WORKER(flags) ((int)((flags) >> 8) - 1) /* -1: the home worker */

struct sp_command {
	uint16_t op;
	uint16_t flags;
	uint32_t context; /* id that opening the context returned */
	uint64_t cookie;  /* comes back in the event */
	uint64_t arg[6];
};

/* Event types below SP_EVENT_OWN mean the same for every handler. */
enum sp_event_type {
	SP_EVENT_RESULT = 1, /* outcome of the command with this cookie */
	SP_EVENT_CLOSED = 2, /* the context has ended, by NIC or peer; status says why */
	SP_EVENT_OWN = 0x100,
};

struct sp_event {
	uint32_t context;
	uint16_t type;
	uint16_t op;	/* of the command, in SP_EVENT_RESULT */
	int32_t status; /* 0 or -errno */
	uint32_t reserved;
	uint64_t cookie;
	uint64_t arg[5];
};

/* A request with data, which an application makes by a call and not in its queue: rare, and checked at leisure. The NIC
 * has copied `in`; `out` is the answer's, also when control() fails. */
struct sp_control {
	uint32_t op, context; /* context: id of the application's context, also where a service is asked */
	uint32_t qp, in_len;  /* qp: a number of the context's QPs, on whose worker control() runs; 0: home worker */
	const void *in;
	void *out;
	uint32_t out_room, out_len; /* bytes; control() sets out_len, 0 before */
};
enum { SP_CONTROL_GONE = 0 /* to a service: the context with that id has ended */, SP_CONTROL_OWN = 1 };
#define SP_CONTROL_BYTES 8192 /* each way, at most */

static_assert(sizeof(struct sp_command) == 64, "one cache line");
static_assert(sizeof(struct sp_event) == 64, "one cache line");

#endif
