/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a program reaches a NIC in another process: requests over the NIC's Unix socket (SOCK_SEQPACKET), one reply each,
 * in order. Memory that both share comes as descriptors with the replies: memfds that the NIC has made, filled and
 * sealed against shrinking and growing. Host byte order: both ends are on one machine.
 * One request at a time: who asks again before the last reply is read is let go, and so is, after a reply that says
 * -EPROTO, whose request is none (too short, too long, not in its turn). Descriptors from programs are not taken.
 * A reply with op 0 refuses the connection: by status. Unasked, with status -ENODEV, it says that the NIC ends in
 * order; a connection that ends without it means that the NIC has died. The NIC trusts nothing of this; the library
 * checks what the NIC says before it uses it as a size or an index.
 */
#ifndef SPINDLE_WIRE_ATTACH_H
#define SPINDLE_WIRE_ATTACH_H

#include <stddef.h>

#include "host.h"
#include "ring.h"

#define SP_ATTACH_MAGIC	   0x444E4953u /* "SIND" */
#define SP_ATTACH_VERSION  1
#define SP_ATTACH_BYTES	   16384 /* of data in a request or reply, at the most */
#define SP_ATTACH_FDS	   3	 /* with a reply, at the most */
#define SP_ATTACH_SETTINGS 64	 /* of a context, at the most */

enum sp_attach_op {
	/* First, and once, by an application. Data of the reply: struct sp_attach_welcome; descriptors: queues, read
	 * end of the wake-up pipe. What does not say it (REPORT, CAPTURE) may be asked by anybody with access to the
	 * socket. */
	SP_ATTACH_HELLO = 1,
	SP_ATTACH_MR_ALLOC, /* arg[0] bytes. Reply: arg[0] id, descriptor */
	SP_ATTACH_MR_FREE,  /* arg[0] id */
	/* arg[0] settings; data: strings, each with its NUL: name, handler, then key and value of each setting. Reply:
	 * arg[0] id, arg[1] bytes of the events' memory, arg[2] bytes of the area (0: none), arg[3] the context's home
	 * worker; descriptors: events, area (read-only) where there is one. On failure data is a struct
	 * sp_attach_error. */
	SP_ATTACH_OPEN,
	SP_ATTACH_CLOSE,   /* arg[0] id */
	SP_ATTACH_CALL,	   /* data: struct sp_command. Reply's data: struct sp_event */
	SP_ATTACH_REPORT,  /* arg[0] enum sp_attach_report; data: name of a context, or nothing. Reply: arg[0] bytes,
			      descriptor of JSON text, which is there until the next request */
	SP_ATTACH_CAPTURE, /* data: struct sp_capture_request (wire/capture.h). Reply: arg[0] bytes, descriptor of
			      rings. The capture lasts as long as the connection. */
	/* For the NIC's own user and root. arg[0] enum sp_handler_op, arg[1] strings, arg[2] force (ps); data: the
	 * strings, each with its NUL. Reply: arg[0] bytes, descriptor of JSON text, or 0 and none. On failure, when
	 * nothing has changed, data is a struct sp_attach_error. */
	SP_ATTACH_HANDLER,
};

enum sp_handler_op {
	SP_HANDLER_LOAD = 1, /* file, as an absolute path */
	SP_HANDLER_UNLOAD,   /* a handler's name, or its plug-in's file */
	SP_HANDLER_RELOAD,   /* the same, and perhaps another file */
	SP_HANDLER_ATTACH,   /* name of the context, handler, key and value of each setting */
	SP_HANDLER_DETACH,   /* name of the context */
	SP_HANDLER_STATUS,   /* nothing */
};
/* Memory whose purpose has ended (region freed, context closed, connection ended by the application) reads as zeros
 * from then on, also the magic at its start; what is written there nobody sees. Of a NIC that stops regions stay as
 * they are. */

enum sp_attach_report {
	SP_REPORT_ALL = 0,	/* everything but what handlers say of their own state */
	SP_REPORT_HANDLERS = 1, /* that too; for the NIC's own user and root, since packets wait meanwhile */
};

struct sp_attach_request {
	uint32_t magic;
	uint16_t version, op;
	uint32_t bytes; /* of data */
	uint32_t reserved;
	uint64_t arg[4];
	uint8_t data[];
};

struct sp_attach_reply {
	uint32_t magic;
	uint16_t version, op; /* op of the request; 0: the request could not even be read */
	int32_t status;	      /* 0 or -errno */
	uint32_t bytes;
	uint64_t arg[4];
	uint8_t data[];
};

struct sp_attach_error {
	char key[40], text[256];
};

struct sp_attach_welcome {
	uint64_t queues_bytes; /* of the queues' memory */
	uint64_t memory;       /* limits of this application: bytes, ... */
	uint32_t contexts, qps, messages;
	uint32_t workers;
	uint32_t payload4, payload6; /* sp_dev_payload */
	uint32_t has4, has6;	     /* is there an address of that family? */
	uint8_t ip4[16], ip6[16];    /* sp_dev_address */
	char name[32];		     /* of the NIC */
};
static_assert(sizeof(struct sp_attach_request) == 48 && sizeof(struct sp_attach_reply) == 48, "no padding");

/* ---- queues: one memory per application -----------------------------------------------------------------------------
 */
/* Wanting to be woken. The application sets armed before it looks a last time and sleeps; the NIC clears it when it has
 * written to the wake-up pipe. Nothing but 0 and 1 means anything, and lying only costs the liar its wake-ups. */
struct sp_bell {
	uint32_t armed;
	uint8_t pad[60];
};

/* Before the command rings, one per worker: the application writes commands for the worker that is its context's home.
 */
struct sp_attach_queues {
	uint32_t magic, workers, entries, reserved; /* entries of each ring, a power of two */
	uint8_t pad[48];
	struct sp_bell bell;
};

/* Before a context's event rings, one per worker. */
struct sp_attach_events {
	uint32_t magic, workers, entries;
	uint32_t closed; /* 1: the NIC has ended the context */
	uint8_t pad[48];
};
static_assert(sizeof(struct sp_attach_queues) == 128 && sizeof(struct sp_attach_events) == 64, "lines");

/* Bytes of a memory with `head` bytes before its rings, and ring i of it. */
static inline size_t sp_attach_bytes(size_t head, uint32_t workers, uint32_t entries)
{
	return head + workers * SP_RING_BYTES(entries);
}

static inline struct sp_ring_shared *sp_attach_ring(void *memory, size_t head, uint32_t entries, uint32_t i)
{
	return (struct sp_ring_shared *)(void *)((uint8_t *)memory + head + i * SP_RING_BYTES(entries));
}

#endif
