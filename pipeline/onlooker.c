/* SPDX-License-Identifier: BSD-3-Clause */
#include "onlooker.h"
#include "mirror.h"
#include "watched.h"

bool sp_onlook_arrive(struct sp_worker *w, uint16_t port, struct sp_packet *p, struct rte_mbuf **packet, unsigned n)
{
	if (w->nic->watcher && n > 1)
		return true;
	if (w->mirrors)
		sp_mirror_arrive(w, port, p, packet, n);
	if (w->nic->watcher)
		sp_watch_arrive(w, port, p, packet[0]);
	return false;
}

bool sp_onlook_again(struct sp_worker *w, const struct sp_parked *parked, unsigned n)
{
	if (w->nic->watcher && n > 1)
		return true;
	if (w->mirrors)
		sp_mirror_again(w, parked, n);
	if (w->nic->watcher)
		sp_watch_again(w, &parked->packet);
	return false;
}

void sp_onlook_match(struct sp_worker *w)
{
	if (w->mirrors)
		sp_mirror_match(w);
	if (w->nic->watcher)
		sp_watch_match(w);
}

void sp_onlook_fate(struct sp_worker *w, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason)
{
	if (w->mirrors)
		sp_mirror_fate(w, p, fate, reason);
	if (w->nic->watcher)
		sp_watch_fate(w, p, fate, reason);
}

struct sp_record *sp_onlook_park(struct sp_worker *w, const struct sp_packet *p)
{
	if (w->nic->watcher)
		sp_watch_park(w);
	return w->mirrors ? sp_mirror_park(w, p) : NULL;
}

void sp_onlook_forget(struct sp_worker *w, struct sp_parked *parked)
{
	if (w->mirrors)
		sp_mirror_forget(w, parked);
	if (w->nic->watcher)
		sp_watch_fate(w, &parked->packet, SP_CAPTURE_DROPPED, sp_drop_names[SP_DROP_CONTEXT_CLOSED]);
}

void sp_onlook_hand_over(struct sp_worker *w, const struct sp_packet *p)
{
	if (w->mirrors)
		sp_mirror_hand_over(w, p);
	if (w->nic->watcher)
		sp_watch_park(w);
}

void sp_onlook_settle(struct sp_worker *w)
{
	if (w->mirrors)
		sp_mirror_settle(w);
	if (w->nic->watcher)
		sp_watch_settle(w);
}

void sp_onlook_sender(struct sp_worker *w, uint16_t port, uint32_t context)
{
	if (w->mirrors)
		sp_mirror_sender(w, port, context);
	if (w->nic->watcher)
		sp_watch_sender(w, port);
}

void sp_onlook_offer(struct sp_worker *w, uint16_t port, unsigned at, unsigned n)
{
	if (w->nic->watcher)
		sp_watch_queued(w, port);
	if (w->mirrors)
		sp_mirror_offer(w, port, at, n);
}

void sp_onlook_took(struct sp_worker *w, uint16_t port, unsigned at, unsigned done)
{
	if (w->mirrors)
		sp_mirror_took(w, port, at, done);
}

void sp_onlook_unsent(struct sp_worker *w, uint16_t port, struct rte_mbuf *m, uint32_t context, enum sp_drop why)
{
	if (w->mirrors)
		sp_mirror_unsent(w, port, m, context, why);
}
