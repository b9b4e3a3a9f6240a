/* SPDX-License-Identifier: BSD-3-Clause */
/* The reliable sender of a session, and the list of sessions that have something to send. */
#ifndef HANDLERS_RVMA_SENDER_H
#define HANDLERS_RVMA_SENDER_H

#include "state.h"

#pragma GCC visibility push(hidden)
size_t rv_sender_bytes(const struct rv *s);
/* Adds an open session to rv.active, if it has something to send. */
void rv_sender_wake(struct sp_ctx *c, struct rv_session *x);
/* The session has ended: nothing is to be sent. */
void rv_sender_forget(struct sp_ctx *c, struct rv_session *x);
#pragma GCC visibility pop

#endif
