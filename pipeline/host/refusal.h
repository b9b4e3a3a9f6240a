/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PIPELINE_HOST_REFUSAL_H
#define PIPELINE_HOST_REFUSAL_H

#include "session.h"

/* A request has been answered with this status; the reply stands in server->reply. Tells the administrator, see
 * sp_server_config, where it is a refusal. */
void sp_refusal_note(struct sp_server *server, const struct sp_session *s, uint16_t op, int status);

#endif
