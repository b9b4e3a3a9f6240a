/* SPDX-License-Identifier: BSD-3-Clause */
/* An application that speaks to the NIC's socket and to its rings by hand, and the verbs that are in hostile_rings.c
 * and hostile_seals.c. */
#ifndef TESTS_E2E_HOSTILE_RAW_H
#define TESTS_E2E_HOSTILE_RAW_H

#include "../../handlers/wire/attach.h"
#include "../../handlers/wire/sdr.h"
#include "hostile.h"

#include <stddef.h>

#define REGION (1u << 20)

struct memory {
	int fd;
	uint8_t *at;
	size_t bytes;
};

struct raw {
	int fd, wake, post; /* the socket of wake-ups, the eventfd that tells of a post */
	struct sp_attach_welcome welcome;
	struct memory queues, region, events, area;
	uint32_t entries, id, context, home;
	union {
		struct sp_attach_reply head;
		uint8_t bytes[sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES];
	} reply;
	int got[SP_ATTACH_FDS];
};

/* Says "error ...", ends. */
void die(const char *what, int error) __attribute__((noreturn));
/* The next of a sequence that the seed determines. */
void chance_begin(uint64_t seed);
uint64_t chance(void);
/* Has somebody said that it is enough? */
bool enough(int milliseconds);
void until_enough(void);				   /* "ready" ... "ok" */
void tried(const char *name, const char *what, bool done); /* "try NAME WHAT ERRNO" */

/* ---- the socket ---- */
int dial(void);
int request(int fd, uint16_t op, const uint64_t *arg, const void *data, uint32_t bytes);
/* Status of the reply, -ENODEV when there is none. Its descriptors are in raw->got. */
int reply(struct raw *raw);
int ask(struct raw *raw, uint16_t op, uint64_t arg, const void *data, uint32_t bytes);
/* What needs memory, in two exchanges. The first: *m is what the reply has brought, mapped for writing. */
int ask_memory(struct raw *raw, uint16_t op, uint64_t arg, const void *data, uint32_t bytes, struct memory *m);
int seal(const struct memory *m, int seals); /* 0 or -errno */
/* The second: seals, asks for the rest. */
int ask_sealed(struct raw *raw, const struct memory *m);
/* Both. The descriptor stays open: one does not have to close it. */
int ask_both(struct raw *raw, uint16_t op, uint64_t arg, const void *data, uint32_t bytes, struct memory *m);
int alloc(struct raw *raw, uint64_t bytes, struct memory *m, uint32_t *id);
void unmap(struct memory *m);
void take_welcome(struct raw *raw);
void take_context(struct raw *raw);
/* What OPEN is told: strings, each with its NUL. */
uint32_t settings(char *text, uint32_t qpn, const char *key, uint64_t value);
int open_context(struct raw *raw, uint32_t qpn, const char *key, uint64_t value); /* both exchanges */
int connect_self(struct raw *raw, uint32_t qpn);				  /* through the NIC */
/* Attaches; begin(): and has a region and a context that is connected to itself. */
void hello(struct raw *raw);
void begin(struct raw *raw);

/* ---- the rings ---- */
struct sp_ring_shared *commands(const struct raw *raw, uint32_t worker);
/* In order, as the library does. */
int put(struct raw *raw, const struct sp_command *c);
/* Of a context connected to itself: a message that never ends, received at the region's begin, of which a piece may be
 * sent again and again, from anywhere in the region: the NIC reads and writes there. */
int stream(struct raw *raw);
int stream_more(struct raw *raw, uint64_t from);
void tell(struct raw *raw, uint32_t worker);	      /* a worker that has parked it */
struct sp_command any_command(const struct raw *raw); /* some are almost right */

/* ---- verbs on rings and memory ---- */
int rubbish(struct raw *raw);
int flip(struct raw *raw);
int files(struct raw *raw);
int seals(struct raw *raw);
int wakes(struct raw *raw);
int foreign(struct raw *raw);
int freed(struct raw *raw);
int attack(struct raw *raw); /* attack.c's */

#endif
