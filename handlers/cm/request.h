/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HANDLERS_CM_REQUEST_H
#define HANDLERS_CM_REQUEST_H

#include "state.h"

int cm_control(struct sp_ctx *c, struct sp_control *r);

#endif
