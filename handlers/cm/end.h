/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HANDLERS_CM_END_H
#define HANDLERS_CM_END_H

#include "state.h"

void cm_set(struct sp_ctx *c, struct cm_id *x, enum cm_state state);
/* x->mad has gone out: again after a while, until cm_set(). */
void cm_await(struct sp_ctx *c, struct cm_id *x, enum cm_state state);
/* The application, or the peer, has so long. */
void cm_allow(struct sp_ctx *c, struct cm_id *x, enum cm_state state, sp_time time);
void cm_timewait(struct sp_ctx *c, struct cm_id *x);
void cm_reject(struct sp_ctx *c, struct cm_id *x, uint16_t reason, const uint8_t *private_data, uint16_t len);
/* The peer has not heard it. */
void cm_refuse_again(struct sp_ctx *c, struct cm_id *x);
/* The application does not want it any more. The id may be gone afterwards, or live on without an application. */
void cm_end(struct sp_ctx *c, struct cm_id *x);
void cm_app_gone(struct sp_ctx *c, uint32_t context);
/* The timer of an id. */
void cm_expire(struct sp_ctx *c, struct cm_id *x);

#endif
