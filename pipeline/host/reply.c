/* SPDX-License-Identifier: BSD-3-Clause */
#include "reply.h"
#include "../engine.h"
#include "../error.h"
#include "../mem/freeing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>

void sp_hand_over(struct sp_parcel *p, struct sp_shm *shared)
{
	p->fd[p->fds++] = shared->fd;
	p->shared[p->shareds++] = shared;
}

void *sp_reply_data(struct sp_server *server, uint32_t bytes)
{
	memset(server->reply.head.data, 0, bytes);
	server->reply.head.bytes = bytes;
	return server->reply.head.data;
}

int sp_reply_explain(struct sp_server *server, int err, const struct sp_error *error)
{
	static_assert(sizeof(struct sp_attach_error) == sizeof(*error), "the same fields");
	memcpy(sp_reply_data(server, sizeof(struct sp_attach_error)), error, sizeof(*error));
	return err;
}

int sp_reply_explain_memory(struct sp_server *server, const struct sp_session *s, uint64_t bytes, int err)
{
	struct sp_account *a = s->device ? s->device->account : NULL;
	const bool others = a && a->regions < SP_REGIONS && sp_account_allows(a, bytes);
	struct sp_error error;
	uint64_t held = 0;

	memset(&error, 0, sizeof(error));
	if (a)
		sp_freeing_bytes(server->nic, a, &held);
	if (err == -EDQUOT && held)
		sp_error_set(&error, EDQUOT, "memory",
			     "%" PRIu64 " bytes more: the application has %" PRIu64 " of %" PRIu64
			     " bytes (memory in [limits]), %" PRIu64
			     " of them given back but still mapped or open in some process",
			     bytes, (uint64_t)a->memory, a->limit.memory, held);
	else if (err == -EDQUOT && a)
		sp_error_set(&error, EDQUOT, "memory",
			     "%" PRIu64 " bytes more: the application has %" PRIu64 " of %" PRIu64
			     " bytes (memory in [limits]) and %u of %d regions%s",
			     bytes, (uint64_t)a->memory, a->limit.memory, a->regions, SP_REGIONS,
			     others ? "; the NIC keeps the rest for others" : "");
	else if (err == -EMFILE)
		sp_error_set(&error, EMFILE, "memory", SP_NO_DESCRIPTOR);
	else
		return err;
	return sp_reply_explain(server, err, &error);
}

static bool send_reply(struct sp_server *server, struct sp_session *s, const struct sp_parcel *p)
{
	struct iovec part = {server->reply.bytes, sizeof(server->reply.head) + server->reply.head.bytes};
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(SP_ATTACH_FDS * sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (p->fds) {
		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(p->fds * sizeof(int));
		control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(p->fds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.head), p->fd, p->fds * sizeof(int));
	}
	return sendmsg(s->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)part.iov_len;
}

void sp_reply_begin(struct sp_server *server, uint16_t op)
{
	server->reply.head = (struct sp_attach_reply){.magic = SP_ATTACH_MAGIC, .version = SP_ATTACH_VERSION, .op = op};
}

void sp_session_refuse(struct sp_server *server, struct sp_session *s, int status)
{
	const struct sp_parcel none = {.fds = 0};

	sp_reply_begin(server, 0);
	server->reply.head.status = status;
	send_reply(server, s, &none);
}

bool sp_reply_send(struct sp_server *server, struct sp_session *s, int status, const struct sp_parcel *p)
{
	bool sent;

	server->reply.head.status = status;
	sent = send_reply(server, s, p);
	for (unsigned i = 0; i < p->shareds; i++)
		sp_shm_close(p->shared[i]);
	if (p->door)
		sp_doorbell_given(p->door);
	return sent && status != -EPROTO;
}

/* ---- requests that take several turns ---- */
static int keep_request(struct sp_server *server, struct sp_session *s)
{
	const size_t size = sizeof(server->request.head) + server->request.head.bytes;

	if (s->request) /* it runs again */
		return 0;
	s->request = malloc(size);
	if (!s->request)
		return -ENOMEM;
	memcpy(s->request, server->request.bytes, size);
	s->request_bytes = size;
	return 0;
}

int sp_session_make(struct sp_server *server, struct sp_session *s, uint64_t bytes, enum sp_backing_kind kind)
{
	int rc = keep_request(server, s);

	if (rc)
		return rc;
	memset(&s->making, 0, sizeof(s->making));
	if (!s->unpaid) {
		rc = sp_memory_begin(server->nic, s->device->account, bytes, kind, &s->making);
	} else {
		s->making = (struct sp_backing){.len = bytes, .kind = kind, .uid = s->uid};
		rc = sp_shm_begin(bytes, "spindle-capture", &s->making.shared);
	}
	if (rc) {
		s->making.shared.base = NULL;
		return rc;
	}
	s->work = SP_WORK_MAKE;
	return SP_LATER;
}

int sp_session_wait(struct sp_server *server, struct sp_session *s, uint64_t bytes, int rc)
{
	struct sp_account *a = s->device ? s->device->account : NULL;
	const sp_time now = sp_clock();
	uint64_t held;

	if (sp_account_allows(a, bytes)) /* it is the NIC's limit: any memory may help */
		a = NULL;
	if (sp_freeing_bytes(server->nic, a, &held) <= held || keep_request(server, s))
		return rc;
	s->until = s->until ? s->until : now + SP_FREEING_WAIT;
	if (now >= s->until)
		return rc;
	s->work = SP_WORK_WAIT;
	return SP_LATER;
}
