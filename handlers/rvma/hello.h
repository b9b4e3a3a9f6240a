/* SPDX-License-Identifier: BSD-3-Clause */
/* HELLO and WELCOME: how a session begins. */
#ifndef HANDLERS_RVMA_HELLO_H
#define HANDLERS_RVMA_HELLO_H

#include "state.h"

#pragma GCC visibility push(hidden)
void rv_hello_begin(struct sp_ctx *c, struct rv_session *x); /* unless HELLO is being repeated already */
void rv_hello_timer(struct sp_ctx *c, struct rv_session *x);
uint32_t rv_hello(struct sp_ctx *c, struct sp_packet *p); /* either has arrived: verdict */
#pragma GCC visibility pop

#endif
