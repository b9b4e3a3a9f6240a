/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of what passes, for `spindle capture`: per worker into a ring that the capturing program reads (its layout:
 * wire/capture.h). Off, it costs a branch per burst received, per packet sent or dropped, and per packet forwarded or
 * answered. */
#ifndef PIPELINE_MIRROR_H
#define PIPELINE_MIRROR_H

#include "../handlers/wire/capture.h"
#include "drop.h"
#include "shared.h"

struct sp_parked;
struct sp_worker;
struct sp_packet;
struct rte_mbuf;
struct sp_nic;
struct sp_error;
struct sp_mirror;
struct sp_record; /* a received packet whose fate is not known yet */

/* Control calls, by nic->control's holder. -EINVAL: filter (error says what) or request; -EBUSY: SP_MAX_MIRRORS are
 * there; -ENOENT: no such context; -ENOMEM. memory's descriptor is for the other process; memory stays the mirror's. */
int sp_mirror_open(struct sp_nic *nic, const struct sp_capture_request *request, struct sp_error *error,
		   struct sp_mirror **mirror, struct sp_shared **memory);
void sp_mirror_close(struct sp_nic *nic, struct sp_mirror *mirror);

/* ---- a worker's calls; all of them only while w->mirrors is not NULL ----------------------------------------------
 * A burst: arrive (or again, for parked packets), match, then fate for what does not end as taken, then settle. */
/* Packet i will be p[i]; it is copied before anybody can change it. */
void sp_mirror_arrive(struct sp_worker *w, uint16_t port, struct sp_packet *p, struct rte_mbuf **packet, unsigned n);
void sp_mirror_again(struct sp_worker *w, const struct sp_parked *parked, unsigned n);
/* w->active says whose they are. */
void sp_mirror_match(struct sp_worker *w);
/* reason: of what is dropped; a constant. */
void sp_mirror_fate(struct sp_worker *w, const struct sp_packet *p, enum sp_capture_fate fate, const char *reason);
/* The packet waits: its record, for struct sp_parked. NULL: nobody wants it. */
struct sp_record *sp_mirror_park(struct sp_worker *w, const struct sp_packet *p);
/* The packet is not this worker's: nothing is said of it. */
void sp_mirror_hand_over(struct sp_worker *w, const struct sp_packet *p);
/* A parked packet is dropped. */
void sp_mirror_forget(struct sp_worker *w, struct sp_parked *parked);
/* What of the burst was not parked has met its fate, and goes into the rings in order of arrival. */
void sp_mirror_settle(struct sp_worker *w);

/* The frame queued last for that port is of a context. */
void sp_mirror_sender(struct sp_worker *w, uint16_t port, uint32_t context);
/* n frames from entry `at` of the port's queue on are going to be handed to the port, which frees what it takes; it has
 * taken `done` of them. */
void sp_mirror_offer(struct sp_worker *w, uint16_t port, unsigned at, unsigned n);
void sp_mirror_took(struct sp_worker *w, uint16_t port, unsigned at, unsigned done);
/* A frame to be sent is dropped. context: id, or 0. */
void sp_mirror_unsent(struct sp_worker *w, uint16_t port, struct rte_mbuf *m, uint32_t context, enum sp_drop why);

#endif
