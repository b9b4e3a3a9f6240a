/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tap: who looks on while packets pass (captures, mirror.h; watches, watch.h). A worker has a table of functions,
 * or NULL, the normal case: one branch for both. So the packet path knows nothing of who looks on.
 */
#ifndef PIPELINE_ONLOOKER_H
#define PIPELINE_ONLOOKER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "../handlers/wire/capture.h"
#include "drop.h"

struct rte_mbuf;
struct sp_ctx;
struct sp_event;
struct sp_mem;
struct sp_packet;
struct sp_record;
struct sp_waiting;
struct sp_worker;

struct sp_tap_calls {
	/* A burst arrives; or packets that have waited come again. True: they shall come one by one, and nothing has
	 * been said yet. The packets are one array. */
	bool (*arrive)(struct sp_worker *w, uint16_t port, struct sp_packet *p, struct rte_mbuf **packet, unsigned n);
	bool (*again)(struct sp_worker *w, const struct sp_waiting *waiting, unsigned n);
	/* w->active says which contexts they belong to. */
	void (*match)(struct sp_worker *w);
	/* A packet's end, where it is not the normal one: taken by its context. */
	void (*fate)(struct sp_worker *w, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason);
	struct sp_record *(*park)(struct sp_worker *w, const struct sp_packet *p); /* it waits; for sp_waiting.record */
	void (*forget)(struct sp_worker *w,
		       struct sp_waiting *waiting); /* what has waited is dropped: context-closed */
	void (*hand_over)(struct sp_worker *w, const struct sp_packet *p); /* to another worker, where it arrives */
	void (*settle)(struct sp_worker *w);				   /* the burst is over */

	/* The frame queued last for that port was sent by this context. */
	void (*sender)(struct sp_worker *w, uint16_t port, uint32_t context);
	/* n frames from place `at` of the port's queue on are offered to the port; it took so many. */
	void (*offer)(struct sp_worker *w, uint16_t port, unsigned at, unsigned n);
	void (*took)(struct sp_worker *w, uint16_t port, unsigned at, unsigned done);
	void (*unsent)(struct sp_worker *w, uint16_t port, struct rte_mbuf *m, uint32_t context, enum sp_drop why);

	/* What a handler does in a call. */
	void (*wrote)(struct sp_ctx *c, const struct sp_mem *mem, uint64_t offset, const void *from, uint64_t len);
	void (*posted)(struct sp_ctx *c, const struct sp_event *event);
	void (*wrong)(struct sp_ctx *c, const char *format, va_list arguments);
};

/* Watches come first: they want packets one by one. */
enum sp_observer { SP_OBSERVER_WATCH, SP_OBSERVER_CAPTURE };
/* NULL: it looks on no more. Between polls, or by the worker itself. arrive, again and park must be there. */
void sp_tap_set(struct sp_worker *w, enum sp_observer which, const struct sp_tap_calls *tap);

/* A handler has used a call in a way that the handler's author should hear of. */
void sp_tap_wrong(struct sp_ctx *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
