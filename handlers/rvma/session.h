/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers and their sessions. */
#ifndef HANDLERS_RVMA_SESSION_H
#define HANDLERS_RVMA_SESSION_H

#include "state.h"

#pragma GCC visibility push(hidden)
int rv_sessions_attach(struct sp_ctx *c);
void rv_sessions_detach(struct sp_ctx *c);						  /* sends BYE */
int rv_peer(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result); /* SP_RVMA_CMD_PEER */
struct rv_session *rv_peer_get(struct rv *s, uint32_t peer);				  /* NULL: gone */
/* The session with the packet's token, or NULL and why to drop it (enum rv_drop). Token and addresses prove that it is
 * from the peer, who knows the session: it is OPEN from now on. */
struct rv_session *rv_session_find(struct sp_ctx *c, const struct sp_packet *p, const uint8_t token[8], uint8_t *why);
struct rv_session *rv_session_of(struct sp_ctx *c, const uint8_t ip[16], uint32_t qp); /* NULL: not known */
int rv_session_new(struct sp_ctx *c, const uint8_t ip[16], uint32_t qp, struct rv_session **x);
/* A token that no session has. */
uint64_t rv_token(struct sp_ctx *c, const struct rv_session *x);
void rv_session_open(struct sp_ctx *c, struct rv_session *x);
/* Ends the session with all its operations and transfers. PEER or HELLO can use the slot again. If there is a
 * candidate, the session becomes that OFFER. */
void rv_session_end(struct sp_ctx *c, struct rv_session *x, enum sp_rvma_status why);
void rv_bye(struct sp_ctx *c, struct rv_session *x);
void rv_sessions_report(struct sp_ctx *c, struct sp_report *r); /* entries of a list */
#pragma GCC visibility pop

#endif
