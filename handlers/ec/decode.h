/* SPDX-License-Identifier: BSD-3-Clause */
/* Repairs, in slices. */
#ifndef HANDLERS_EC_DECODE_H
#define HANDLERS_EC_DECODE_H

#include "state.h"

#pragma GCC visibility push(hidden)
bool ec_decode(struct sp_ctx *c, struct ec_decoder *d); /* one slice */
void ec_decode_detach(struct sp_ctx *c);
#pragma GCC visibility pop

#endif
