/* SPDX-License-Identifier: BSD-3-Clause */
/* Who looks on while packets pass: captures (mirror.h) and watches (watch.h). The packet path asks w->observed, one
 * branch for both, and only then calls these; see mirror.h for what they mean. */
#ifndef PIPELINE_ONLOOKER_H
#define PIPELINE_ONLOOKER_H

#include "../handlers/wire/capture.h"
#include "engine.h"
#include "worker.h"

/* After a change of either: between polls, or by the worker itself. */
static inline void sp_onlook_renew(struct sp_worker *w)
{
	w->observed = w->mirrors || w->nic->watcher;
}

/* True: the burst shall come packet by packet; then nothing has been told. */
bool sp_onlook_arrive(struct sp_worker *w, uint16_t port, struct sp_packet *p, struct rte_mbuf **packet, unsigned n);
bool sp_onlook_again(struct sp_worker *w, const struct sp_parked *parked, unsigned n);
void sp_onlook_match(struct sp_worker *w);
void sp_onlook_fate(struct sp_worker *w, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason);
struct sp_record *sp_onlook_park(struct sp_worker *w, const struct sp_packet *p);
void sp_onlook_forget(struct sp_worker *w, struct sp_parked *parked);
/* The packet is another worker's, where it is going to arrive. */
void sp_onlook_hand_over(struct sp_worker *w, const struct sp_packet *p);
void sp_onlook_settle(struct sp_worker *w);

void sp_onlook_sender(struct sp_worker *w, uint16_t port, uint32_t context);
void sp_onlook_offer(struct sp_worker *w, uint16_t port, unsigned at, unsigned n);
void sp_onlook_took(struct sp_worker *w, uint16_t port, unsigned at, unsigned done);
void sp_onlook_unsent(struct sp_worker *w, uint16_t port, struct rte_mbuf *m, uint32_t context, enum sp_drop why);

#endif
