/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HANDLERS_CM_TABLE_H
#define HANDLERS_CM_TABLE_H

#include "state.h"

int cm_table_attach(struct sp_ctx *c);
/* An id of the application; NULL app: none. NULL: there are too many. */
struct cm_id *cm_id_make(struct sp_ctx *c, struct cm_app *app);
void cm_id_free(struct sp_ctx *c, struct cm_id *x);
/* It has no application any more. The oldest of these goes where there is no free id. */
void cm_id_orphan(struct sp_ctx *c, struct cm_id *x);
struct cm_id *cm_id_find(struct sp_ctx *c, uint32_t local);
/* The passive id that this peer's id opened. */
struct cm_id *cm_remote_find(struct sp_ctx *c, const uint8_t ip[16], uint32_t remote, bool datagram);
void cm_remote_enter(struct sp_ctx *c, struct cm_id *x);
void cm_remote_leave(struct sp_ctx *c, struct cm_id *x);
/* A connection with this QP of this peer, other than `but`. */
struct cm_id *cm_qp_find(struct sp_ctx *c, const uint8_t ip[16], const uint8_t guid[8], uint32_t qp,
			 const struct cm_id *but);
void cm_qp_enter(struct sp_ctx *c, struct cm_id *x);
void cm_qp_leave(struct sp_ctx *c, struct cm_id *x);
/* port 0: the one that it has, or one is chosen. -EADDRINUSE, -EACCES, -EINVAL: it has another one. share: with other
 * ids of the same application that do not listen. */
int cm_port_bind(struct sp_ctx *c, struct cm_id *x, const uint8_t ip[16], uint16_t port, bool share);
struct cm_id *cm_listener_find(struct sp_ctx *c, uint64_t service, const uint8_t ip[16]);
struct cm_app *cm_app_find(struct sp_ctx *c, uint32_t context, bool make);
void cm_app_free(struct sp_ctx *c, struct cm_app *app);
/* NULL: there are too many, or no path leads there. */
struct cm_peer *cm_peer_get(struct sp_ctx *c, const uint8_t ip[16]);
/* False: it sends too much. */
bool cm_peer_allows(struct sp_ctx *c, struct cm_peer *p);
/* The application may speak with this one, too. Ask before cm_peer_attach(). */
bool cm_peer_room(struct sp_ctx *c, const struct cm_app *app, const struct cm_peer *p);
void cm_peer_attach(struct cm_id *x, struct cm_peer *p);
void cm_peers_sweep(struct sp_ctx *c, sp_time idle);
/* The id no longer waits for its listener's application; `all`: nor for the peer. */
void cm_settle(struct cm_id *x, bool all);

#endif
