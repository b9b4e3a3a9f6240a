/* SPDX-License-Identifier: BSD-3-Clause */
/* across: what comes by port 0 leaves by port 1, and the other way round, unchanged. For ports.py. */
#include "spindle-handler.h"

enum { NOT_SENT };
static const char *const drops[] = {"not-sent", NULL};

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	(void)none;
	return sp_send_frame(c, p->port ^ 1u, p->frame, p->frame_len) ? SP_DROP(NOT_SENT) : SP_DONE;
}

static const struct sp_handler across = {
	SP_HANDLER_HEAD, .name = "across",   .doc = "sends what comes by a port by the other one, for tests",
	.drops = drops,	 .payload = payload,
};
SP_HANDLER(across)
