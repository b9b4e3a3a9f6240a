/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HANDLERS_CM_EVENT_H
#define HANDLERS_CM_EVENT_H

#include "state.h"

/* enum sp_cm_event_type. private_data: NULL: none. Nothing happens where the id has no application. */
void cm_tell(struct sp_ctx *c, struct cm_id *x, uint8_t type, int32_t status, const uint8_t *private_data,
	     uint16_t len);
/* SP_CM_TAKE. */
int cm_take(struct cm_app *app, struct sp_control *r);
/* Tries again to post what found no room. True: some is still owed. */
bool cm_events_owed(struct sp_ctx *c);
/* The application's REQUEST of this id waits to be taken. */
bool cm_untaken(const struct cm_id *x);

#endif
