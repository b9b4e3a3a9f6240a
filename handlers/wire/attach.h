/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a program reaches a NIC in another process: requests over the NIC's Unix socket (SOCK_SEQPACKET), one reply each,
 * in order. Shared memory comes as descriptors with the replies: memfds that the NIC has made and filled. Host byte
 * order, as both ends are on one machine.
 *
 * Memory that the program writes to is used only once it is sealed. Without the seals a program could punch holes in
 * it, or hold the file's lock in the kernel, and the NIC would wait. The seals also forbid new mappings for writing, so
 * the program must map first, and only the program can seal. HELLO, MR_ALLOC, OPEN and CAPTURE therefore take two
 * exchanges: program: the request                      NIC: makes the memory; bytes in arg[0], its descriptor program:
 * maps it, adds SP_ATTACH_SEALS,   NIC: looks at the seals, carries the request out, and sends what the asks for
 * SP_ATTACH_SEALED             request's own line below names The program closes the descriptor in between. SEALED must
 * be its next request (else -EPROTO), and without the exact seals it fails with -EACCES: then nothing has happened, and
 * the memory is gone. Memory that the program only reads (areas, reports) is sealed by the NIC.
 *
 * One request at a time: the NIC disconnects a program that asks again before it has read the last reply. After a reply
 * with -EPROTO it disconnects, too: the request was malformed (too short, too long, out of order). The NIC accepts no
 * descriptors from programs.
 * A reply with op 0 refuses the connection, with a status. Unasked, with status -ENODEV, it says that the NIC ends in
 * order. A connection that ends without it means that the NIC has died.
 * The NIC trusts none of this. The library checks what the NIC says before it uses it as a size or an index.
 */
#ifndef SPINDLE_WIRE_ATTACH_H
#define SPINDLE_WIRE_ATTACH_H

#include <fcntl.h>
#include <stddef.h>

#include "host.h"
#include "ring.h"

#define SP_ATTACH_MAGIC	   0x444E4953u /* "SIND" */
#define SP_ATTACH_VERSION  4
#define SP_ATTACH_BYTES	   16384 /* of data in a request or reply, at most */
#define SP_ATTACH_FDS	   3	 /* with a reply, at most */
#define SP_ATTACH_SETTINGS 64	 /* of a context, at most */

enum sp_attach_op {
	/* First, and once, by an application. Memory: the queues. Data of SEALED's reply: struct sp_attach_welcome;
	 * descriptors: the socket that wake-ups come by, the eventfd of sp_attach_post(). Requests that need no
	 * HELLO (REPORT, CAPTURE) are open to everybody with access to the socket. */
	SP_ATTACH_HELLO = 1,
	SP_ATTACH_MR_ALLOC, /* arg[0] bytes. Memory: the region. SEALED's reply: arg[0] id */
	SP_ATTACH_MR_FREE,  /* arg[0] id */
	/* arg[0] settings; data: strings, each with its NUL: name ("": the NIC's choice), handler, then key and value
	 * of each setting. Memory: the events. SEALED's reply: arg[0] id, arg[2] bytes of the area (0: none), arg[3]
	 * the context's home worker in the lower half, the first of its QP numbers in the upper one; descriptor: the
	 * area (read-only) where there is one. On failure data is a struct sp_attach_error. */
	SP_ATTACH_OPEN,
	SP_ATTACH_CLOSE,   /* arg[0] id */
	SP_ATTACH_CALL,	   /* data: struct sp_command. Reply's data: struct sp_event */
	SP_ATTACH_REPORT,  /* arg[0] enum sp_attach_report; data: name of a context, or nothing. Reply: arg[0] bytes,
			      descriptor of JSON text, valid until the next request */
	SP_ATTACH_CAPTURE, /* data: struct sp_capture_request (wire/capture.h). Memory: the rings. The capture begins
			      with SEALED and lasts as long as the connection. */
	/* For the NIC's own user and root. arg[0] enum sp_handler_op, arg[1] strings, arg[2] force (ps); data: the
	 * strings, each with its NUL. Reply: arg[0] bytes, descriptor of JSON text, or 0 and none. On failure, when
	 * nothing has changed, data is a struct sp_attach_error. */
	SP_ATTACH_HANDLER,
	/* arg[0] id of the context, and 1 << 32 to ask its service; arg[1] op, arg[2] QP number or 0, arg[3] room for
	 * the answer; data: the handler's, at most SP_CONTROL_BYTES. Reply's data: the answer. */
	SP_ATTACH_CONTROL,
	SP_ATTACH_SEALED, /* the memory of the last reply is sealed. Reply: that of the request which it was made for */
};

/* What the program adds, all at once, after it has mapped the memory; no others. */
#define SP_ATTACH_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)

enum sp_handler_op {
	SP_HANDLER_LOAD = 1, /* file, as an absolute path */
	SP_HANDLER_UNLOAD,   /* a handler's name, or its plug-in's file */
	SP_HANDLER_RELOAD,   /* the same, and perhaps another file */
	SP_HANDLER_ATTACH,   /* name of the context, handler, key and value of each setting */
	SP_HANDLER_DETACH,   /* name of the context */
	SP_HANDLER_STATUS,   /* nothing */
};
/* Memory that is no longer used (region freed, context closed, connection ended) keeps its contents for the program as
 * long as the program has it mapped; the NIC neither reads nor writes it. It stays charged to the program until nobody
 * has it any more. A user of whom SP_ATTACH_HELD such memories are held gets no new ones (-EBUSY). */
#define SP_ATTACH_HELD 64

enum sp_attach_report {
	SP_REPORT_ALL = 0, /* everything but the handlers' own state */
	SP_REPORT_HANDLERS =
		1, /* the handlers' state too; for the NIC's own user and root, since packets wait meanwhile */
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
	uint16_t version, op; /* op of the request; 0: the request was not readable */
	int32_t status;	      /* 0 or -errno */
	uint32_t bytes;
	uint64_t arg[4];
	uint8_t data[];
};

struct sp_attach_error {
	char key[40], text[256];
};

struct sp_attach_welcome {
	uint64_t memory; /* limits of this application: bytes, ... */
	uint32_t contexts, qps, messages;
	uint32_t workers;
	uint32_t payload4, payload6; /* sp_dev_payload */
	uint32_t has4, has6;	     /* 1: the NIC has an address of that family */
	uint8_t ip4[16], ip6[16];    /* sp_dev_address */
	char name[32];		     /* of the NIC */
};
static_assert(sizeof(struct sp_attach_request) == 48 && sizeof(struct sp_attach_reply) == 48, "no padding");

/* ---- doorbell pages: one memory per application --------------------------------------------------------------------
 */
/* What the application wants to be woken for, one bit each: SP_BELL_ANY by any news, SP_BELL_RECEIVE not by the mere
 * progress of what it has posted itself. It sets its bit before it looks a last time and sleeps; bits add up until the
 * bell rings. The NIC clears armed, then sends a byte to the application's socket. The NIC takes any value but 0 and
 * SP_BELL_RECEIVE for SP_BELL_ANY, as one that is older than SP_BELL_RECEIVE does with all: a lie costs only the liar.
 */
enum { SP_BELL_ANY = 1, SP_BELL_RECEIVE = 2 };
struct sp_bell {
	uint32_t armed;
	uint8_t pad[60];
};

/*
 * One per application and worker, each at a multiple of 4096 bytes: what the application and that worker tell each
 * other, then the ring of commands. The application writes a command into the page of the worker that is its context's
 * home. magic, workers, entries and bell of the first page hold for the whole application.
 *
 * A worker looks only at the pages of active applications. It parks an application that has been quiet for a while:
 *   worker:       exchange(parked, 1), then looks at tail; finds a command: the application stays active
 *   application:  stores tail, then exchange(parked, 0); finds 1: tells the NIC
 * No command is missed. Both sides change this word by exchanges only, so one exchange comes first, and the later one
 * reads what it, or an exchange after it, has left. If the application's is the later one, it finds 1, or the worker
 * has made the application active meanwhile. If the worker's is the later one, it synchronizes with the application's
 * (acquire and release), and tail was stored before that. On x86 an exchange is the full barrier between a store and a
 * load. The application tells the NIC at most once per parking, since it leaves a 0.
 * The NIC takes no decision on the value of parked, which the application may overwrite: it then waits for itself.
 */
struct sp_attach_queues {
	uint32_t magic, workers, entries, reserved; /* entries of the ring, a power of two */
	uint8_t pad0[48];
	struct sp_bell bell;
	uint32_t parked;
	uint8_t pad1[60];
};
#define SP_ATTACH_PAGE 4096u

/* Before a context's event rings, one per worker. waiting: a worker sets its bit after it has put an event. The
 * application exchanges waiting for 0 before it looks at the rings whose bits were set; see sp_attach_take(). */
struct sp_attach_events {
	uint32_t magic, workers, entries;
	uint32_t closed; /* 1: the NIC has ended the context */
	uint64_t waiting;
	uint8_t pad[40];
};
static_assert(sizeof(struct sp_attach_queues) == 192 && sizeof(struct sp_attach_events) == 64, "lines");

/* From one page of an application to the next. */
static inline size_t sp_attach_stride(uint32_t entries)
{
	const size_t bytes = sizeof(struct sp_attach_queues) + SP_RING_BYTES(entries);

	return (bytes + SP_ATTACH_PAGE - 1) / SP_ATTACH_PAGE * SP_ATTACH_PAGE;
}

static inline struct sp_attach_queues *sp_attach_page(void *memory, uint32_t entries, uint32_t worker)
{
	return (struct sp_attach_queues *)(void *)((uint8_t *)memory + worker * sp_attach_stride(entries));
}

static inline struct sp_ring_shared *sp_attach_commands(struct sp_attach_queues *page)
{
	return (struct sp_ring_shared *)(void *)(page + 1);
}

/* By the application. 0; 1: posted, and the NIC must be told (by a write to the eventfd); -EAGAIN: no room. */
static inline int sp_attach_post(struct sp_attach_queues *page, struct sp_ring *ring, const struct sp_command *command)
{
	if (sp_ring_put(ring, command))
		return -EAGAIN;
	return __atomic_exchange_n(&page->parked, 0, __ATOMIC_ACQ_REL) != 0;
}

static inline size_t sp_attach_events_bytes(uint32_t workers, uint32_t entries)
{
	return sizeof(struct sp_attach_events) + workers * SP_RING_BYTES(entries);
}

static inline struct sp_ring_shared *sp_attach_ring(struct sp_attach_events *events, uint32_t entries, uint32_t worker)
{
	return (struct sp_ring_shared *)(void *)((uint8_t *)(events + 1) + worker * SP_RING_BYTES(entries));
}

/* An application's view of a context's events. */
struct sp_attach_reader {
	uint64_t todo; /* rings that may hold events */
	uint32_t next; /* the ring to look at first */
};

/* 0, or -EAGAIN when no worker has posted an event. While there is none it reads one word, however many workers there
 * are. */
static inline int sp_attach_take(struct sp_attach_events *events, struct sp_attach_reader *r, struct sp_ring *ring,
				 uint32_t workers, struct sp_event *event)
{
	if (__atomic_load_n(&events->waiting, __ATOMIC_RELAXED))
		r->todo |= __atomic_exchange_n(&events->waiting, 0, __ATOMIC_ACQ_REL) & (~0ull >> (64 - workers));
	while (r->todo) {
		const uint64_t later = r->todo & ~0ull << r->next;
		const uint32_t w = (uint32_t)__builtin_ctzll(later ? later : r->todo);

		if (!sp_ring_take(&ring[w], event)) {
			r->next = (w + 1) % workers;
			return 0;
		}
		r->todo &= ~(1ull << w);
	}
	return -EAGAIN;
}

#endif
