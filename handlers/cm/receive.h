/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HANDLERS_CM_RECEIVE_H
#define HANDLERS_CM_RECEIVE_H

#include "state.h"

uint32_t cm_receive(struct sp_ctx *c, struct sp_packet *p);

#endif
