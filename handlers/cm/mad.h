/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HANDLERS_CM_MAD_H
#define HANDLERS_CM_MAD_H

#include "state.h"

/* Fills x->mad and sends it. A message that is repeated has its timer armed by the caller. */
void cm_send_req(struct sp_ctx *c, struct cm_id *x, const struct sp_cm_param *p);
void cm_send_rep(struct sp_ctx *c, struct cm_id *x, const struct sp_cm_param *p);
void cm_send_sidr_req(struct sp_ctx *c, struct cm_id *x, const struct sp_cm_param *p);
void cm_send_sidr_rep(struct sp_ctx *c, struct cm_id *x, uint8_t status, const struct sp_cm_param *p);
void cm_send_rtu(struct sp_ctx *c, struct cm_id *x);
void cm_send_dreq(struct sp_ctx *c, struct cm_id *x);
void cm_send_drep(struct sp_ctx *c, struct cm_id *x, uint64_t tid);
void cm_send_rej(struct sp_ctx *c, struct cm_id *x, uint16_t reason, const uint8_t *private_data, uint16_t len);
void cm_send_mra(struct sp_ctx *c, struct cm_id *x);
/* x->mad once more. False: the port had no room. */
bool cm_send_again(struct sp_ctx *c, struct cm_id *x);
/* To a message that belongs to no id. */
void cm_answer_rej(struct sp_ctx *c, struct cm_peer *p, const struct sp_cm_mad *to, uint8_t about, uint16_t reason);
void cm_answer_drep(struct sp_ctx *c, struct cm_peer *p, const struct sp_cm_mad *to);
void cm_answer_sidr(struct sp_ctx *c, struct cm_peer *p, const struct sp_cm_mad *to, uint8_t status);

#endif
