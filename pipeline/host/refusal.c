/* SPDX-License-Identifier: BSD-3-Clause */
#include "refusal.h"
#include "../engine.h"

#include <errno.h>
#include <string.h>

#define PAUSE SP_SEC /* an application must not fill a log */

/* What an application asks for that it may not have. Others are mistakes, which it is told itself. */
static bool is_refusal(int status)
{
	static const int refusals[] = {EPERM, EACCES, EBUSY, EUSERS, EDQUOT, E2BIG, EPROTO, EMFILE, ENOSPC};

	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++)
		if (status == -refusals[i])
			return true;
	return false;
}

static const char *name_of(uint16_t op)
{
	static const char *const names[] = {
		[SP_ATTACH_HELLO] = "attach",	     [SP_ATTACH_MR_ALLOC] = "memory", [SP_ATTACH_MR_FREE] = "free",
		[SP_ATTACH_OPEN] = "context",	     [SP_ATTACH_CLOSE] = "close",     [SP_ATTACH_CALL] = "command",
		[SP_ATTACH_REPORT] = "report",	     [SP_ATTACH_CAPTURE] = "capture", [SP_ATTACH_HANDLER] = "handler",
		[SP_ATTACH_SEALED] = "sealed memory"};

	return op < sizeof(names) / sizeof(*names) && names[op] ? names[op] : "";
}

void sp_refusal_note(struct sp_server *server, const struct sp_session *s, uint16_t op, int status)
{
	const struct sp_attach_reply *reply = &server->reply.head;
	const struct sp_attach_error *error = (const void *)reply->data;
	const bool words = reply->bytes == sizeof(*error);
	const sp_time now = sp_clock();

	if (!server->config.refused || !is_refusal(status))
		return;
	if (server->refused_at && now - server->refused_at < PAUSE) {
		server->refusals++;
		return;
	}
	server->config.refused(server->config.refused_arg, &(struct sp_refusal){.uid = s->uid,
										.pid = s->pid,
										.request = name_of(op),
										.status = status,
										.key = words ? error->key : "",
										.text = words ? error->text : "",
										.others = server->refusals});
	server->refused_at = now ? now : 1;
	server->refusals = 0;
}
