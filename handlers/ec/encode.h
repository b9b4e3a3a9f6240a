/* SPDX-License-Identifier: BSD-3-Clause */
/* Parity for messages that are sent. */
#ifndef HANDLERS_EC_ENCODE_H
#define HANDLERS_EC_ENCODE_H

#include "state.h"

#pragma GCC visibility push(hidden)
int ec_parity(struct sp_ctx *c, const struct sp_command *command);
bool ec_encode(struct sp_ctx *c); /* one slice */
void ec_encode_detach(struct sp_ctx *c);
#pragma GCC visibility pop

#endif
