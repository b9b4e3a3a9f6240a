/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls several observers through one tap. */
#include "tap.h"
#include "../view.h"
#include "../worker.h"

static_assert(SP_OBSERVER_CAPTURE + 1 == SP_TAPS, "each has a place");

#define EACH(w, function, ...)                                                                                         \
	for (unsigned each_ = 0; each_ < SP_TAPS; each_++)                                                             \
		if ((w)->observer[each_] && (w)->observer[each_]->function)                                            \
	(w)->observer[each_]->function(__VA_ARGS__)

static bool arrive(struct sp_worker *w, uint16_t port, struct sp_packet *p, struct rte_mbuf **packet, unsigned n)
{
	for (unsigned i = 0; i < SP_TAPS; i++)
		if (w->observer[i] && w->observer[i]->arrive(w, port, p, packet, n))
			return true;
	return false;
}

static bool again(struct sp_worker *w, const struct sp_waiting *waiting, unsigned n)
{
	for (unsigned i = 0; i < SP_TAPS; i++)
		if (w->observer[i] && w->observer[i]->again(w, waiting, n))
			return true;
	return false;
}

static void match(struct sp_worker *w)
{
	EACH(w, match, w);
}

static void fate(struct sp_worker *w, const struct sp_packet *p, enum sp_capture_fate end, const char *reason)
{
	EACH(w, fate, w, p, end, reason);
}

static struct sp_record *park(struct sp_worker *w, const struct sp_packet *p)
{
	struct sp_record *record = NULL;

	for (unsigned i = 0; i < SP_TAPS; i++)
		if (w->observer[i])
			record = w->observer[i]->park(w, p);
	return record; /* the capture's record: captures come last */
}

static void forget(struct sp_worker *w, struct sp_waiting *waiting)
{
	EACH(w, forget, w, waiting);
}

static void hand_over(struct sp_worker *w, const struct sp_packet *p)
{
	EACH(w, hand_over, w, p);
}

static void settle(struct sp_worker *w)
{
	EACH(w, settle, w);
}

static void sender(struct sp_worker *w, uint16_t port, uint32_t context)
{
	EACH(w, sender, w, port, context);
}

static void offer(struct sp_worker *w, uint16_t port, unsigned at, unsigned n)
{
	EACH(w, offer, w, port, at, n);
}

static void took(struct sp_worker *w, uint16_t port, unsigned at, unsigned done)
{
	EACH(w, took, w, port, at, done);
}

static void unsent(struct sp_worker *w, uint16_t port, struct rte_mbuf *m, uint32_t context, enum sp_drop why)
{
	EACH(w, unsent, w, port, m, context, why);
}

static void wrote(struct sp_ctx *c, const struct sp_mem *mem, uint64_t offset, const void *from, uint64_t len)
{
	EACH(sp_view_of(c)->owner, wrote, c, mem, offset, from, len);
}

static void posted(struct sp_ctx *c, const struct sp_event *event)
{
	EACH(sp_view_of(c)->owner, posted, c, event);
}

static void wrong(struct sp_ctx *c, const char *format, va_list arguments)
{
	EACH(sp_view_of(c)->owner, wrong, c, format, arguments);
}

static const struct sp_tap_calls all = {.arrive = arrive,
					.again = again,
					.match = match,
					.fate = fate,
					.park = park,
					.forget = forget,
					.hand_over = hand_over,
					.settle = settle,
					.sender = sender,
					.offer = offer,
					.took = took,
					.unsent = unsent,
					.wrote = wrote,
					.posted = posted,
					.wrong = wrong};

void sp_tap_set(struct sp_worker *w, enum sp_observer which, const struct sp_tap_calls *tap)
{
	w->observer[which] = tap;
	w->tap = NULL;
	for (unsigned i = 0; i < SP_TAPS; i++)
		if (w->observer[i])
			w->tap = &all;
}

void sp_tap_wrong(struct sp_ctx *c, const char *format, ...)
{
	const struct sp_tap_calls *tap = sp_view_of(c)->owner->tap;
	va_list arguments;

	if (!tap)
		return;
	va_start(arguments, format);
	tap->wrong(c, format, arguments);
	va_end(arguments);
}
