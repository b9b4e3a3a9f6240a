/* SPDX-License-Identifier: BSD-3-Clause */
/* The tap: observers of packets (capture, capture.h; trace, watch.h). A worker has a table of functions, or NULL in the
 * normal case: one branch for all observers. So the packet path does not depend on them. */
#ifndef PIPELINE_OBSERVE_TAP_H
#define PIPELINE_OBSERVE_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../handlers/wire/capture.h"
#include "../drop.h"

struct rte_mbuf;
struct sp_ctx;
struct sp_event;
struct sp_mem;
struct sp_packet;
struct sp_record;
struct sp_waiting;
struct sp_worker;

struct sp_tap_calls {
	/* A burst arrives, or waiting packets are dispatched again. True: the caller must pass the packets one by one;
	 * nothing has been recorded yet. The packets are one array. */
	bool (*arrive)(struct sp_worker *w, uint16_t port, struct sp_packet *p, struct rte_mbuf **packet, unsigned n);
	bool (*again)(struct sp_worker *w, const struct sp_waiting *waiting, unsigned n);
	/* The packets are matched; w->active has their contexts. */
	void (*match)(struct sp_worker *w);
	/* The packet's fate, unless its context took it (the normal case). */
	void (*fate)(struct sp_worker *w, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason);
	struct sp_record *(*park)(struct sp_worker *w, const struct sp_packet *p); /* it waits; sp_waiting.record */
	void (*forget)(struct sp_worker *w,
		       struct sp_waiting *waiting); /* a waiting packet is dropped: context-closed */
	void (*hand_over)(struct sp_worker *w, const struct sp_packet *p); /* to another worker, which calls arrive */
	void (*settle)(struct sp_worker *w);				   /* the burst is over */

	/* The frame queued last for that port was sent by this context. */
	void (*sender)(struct sp_worker *w, uint16_t port, uint32_t context);
	/* The worker offered n frames to the port, from index `at` of its queue; the port accepted some of them. */
	void (*offer)(struct sp_worker *w, uint16_t port, unsigned at, unsigned n);
	void (*took)(struct sp_worker *w, uint16_t port, unsigned at, unsigned done);
	void (*unsent)(struct sp_worker *w, uint16_t port, struct rte_mbuf *m, uint32_t context, enum sp_drop why);

	/* A handler's actions in a call. */
	void (*wrote)(struct sp_ctx *c, const struct sp_mem *mem, uint64_t offset, const void *from, uint64_t len);
	void (*posted)(struct sp_ctx *c, const struct sp_event *event);
	void (*wrong)(struct sp_ctx *c, const char *format, va_list arguments);
};

/* Trace comes first: it wants packets one by one. */
enum sp_observer { SP_OBSERVER_WATCH, SP_OBSERVER_CAPTURE };
/* Sets or removes (NULL) an observer, between polls or by the worker itself. arrive, again and park are mandatory. */
void sp_tap_set(struct sp_worker *w, enum sp_observer which, const struct sp_tap_calls *tap);

/* Reports a handler's misuse of a call to the handler's author. */
void sp_tap_wrong(struct sp_ctx *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
