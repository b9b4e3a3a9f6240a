/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of functions that cannot be right, one for each ERROR: what is loaded is refused before it does anything. */
#include "spindle-handler.h"

static __attribute__((unused)) uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)c;
	(void)m;
	(void)p;
	return SP_DONE;
}

static const struct sp_handler table = {
#if ERROR == 1 /* another version's */
	.abi = SP_ABI + 1,
	.size = sizeof(struct sp_handler),
#elif ERROR != 4 /* 4: nothing at its head */
	SP_HANDLER_HEAD,
#endif
	.name = "table",
	.doc = "cannot be right",
#if ERROR == 3 /* messages, and nothing that says which */
	.messages = SP_MESSAGES_HASHED,
#endif
#if ERROR != 2 /* nothing for anybody to call */
	.payload = payload,
#endif
};

SP_HANDLER(table)
