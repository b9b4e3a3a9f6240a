/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: how they are read, and what takes several turns. A request that breaks the protocol ends the connection
 * after an error reply; a request that merely cannot be met does not.
 *
 * Nothing that a program sends makes the thread wait. The kernel closes descriptors that come with a message on the
 * thread that reads it, and closing one may take as long as its maker likes. So each message is looked at first; one
 * with descriptors is not read: the connection ends, and the reaper, which has a copy of it, makes the last close.
 */
#include "request.h"
#include "operation.h"
#include "refusal.h"
#include "../engine.h"
#include "../error.h"
#include "../mem/freeing.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define SMALL (1u << 20) /* up to this many bytes are made at once */

static int refuse_holder(struct sp_server *server, const struct sp_session *s)
{
	const uint32_t held = sp_freeing_held(server->nic, s->uid);
	struct sp_error error;

	if (held < SP_ATTACH_HELD)
		return 0;
	memset(&error, 0, sizeof(error));
	if (held == UINT32_MAX)
		sp_error_set(&error, EBUSY, "memory", "the NIC's reaper process is gone and cannot be started again");
	else
		sp_error_set(&error, EBUSY, "memory",
			     "processes of user %u still have %u memories or connections that the NIC is done with",
			     s->uid, held);
	return sp_reply_explain(server, -EBUSY, &error);
}

/* Begins to make the memory that the program has to seal. */
static int prepare(struct sp_server *server, struct sp_session *s)
{
	int rc = sp_session_make(server, s, s->wanted, SP_BACKING_SHARED);

	if (rc == -EDQUOT)
		rc = sp_session_wait(server, s, s->wanted, rc);
	return rc < 0 ? sp_reply_explain_memory(server, s, s->wanted, rc) : rc;
}

static int begin(struct sp_server *server, struct sp_session *s, const struct sp_operation *o, struct sp_parcel *p)
{
	struct sp_error error = {.key = ""};
	int rc;

	if (s->request && !s->sealed.shared.base) /* again: there was no memory */
		return prepare(server, s);
	rc = o->workers ? sp_session_pass(server, &error) : 0;
	if (rc)
		return sp_reply_explain(server, rc, &error);
	if (s->sealed.shared.base)
		return o->run(server, s, p);
	rc = o->memory || o->shares ? refuse_holder(server, s) : 0;
	if (rc || !o->memory)
		return rc ? rc : o->run(server, s, p);
	s->unpaid = o->observes;
	rc = o->memory(server, s, &s->wanted);
	return rc ? rc : prepare(server, s);
}

/* Runs the request that stands in server->request, and replies unless it goes on later. op: of the reply. */
static bool run(struct sp_server *server, struct sp_session *s, uint16_t op)
{
	const struct sp_operation *o = sp_operation(server->request.head.op);
	const sp_time called = server->nic->called, began = sp_clock();
	struct sp_parcel p = {.fds = 0};
	sp_time used, took;
	int rc;

	sp_reply_begin(server, op);
	rc = begin(server, s, o, &p);
	used = server->nic->called - called;
	took = sp_clock() - began; /* the server's own time */
	if (sp_session_alone(server, sp_session_share(server, s->uid)))
		took /= SP_SESSIONS_PART;
	sp_session_charge(server, s, used > took ? used : took);
	if (rc == SP_LATER)
		return s->work != SP_WORK_MAKE || s->making.len > SMALL || sp_request_work(server, s);
	sp_refusal_note(server, s, server->request.head.op, rc);
	sp_session_forget(server, s);
	return sp_reply_send(server, s, rc, &p);
}

/* The kept request, once more. */
static bool run_again(struct sp_server *server, struct sp_session *s)
{
	memcpy(server->request.bytes, s->request, s->request_bytes);
	if (!s->sealed.shared.base)
		return run(server, s, server->request.head.op);
	if (s->making.shared.base) /* the area of a context */
		s->device->made = &s->making;
	return run(server, s, SP_ATTACH_SEALED);
}

static bool fail(struct sp_server *server, struct sp_session *s, uint16_t op, int rc)
{
	const struct sp_parcel none = {.fds = 0};

	sp_reply_begin(server, op);
	if (rc == -EMFILE || rc == -ENOMEM)
		rc = sp_reply_explain_memory(server, s, s->making.len, rc);
	sp_refusal_note(server, s, op, rc);
	sp_session_forget(server, s);
	return sp_reply_send(server, s, rc, &none);
}

/* The memory has been made: for the program, to seal it, or for the area of a context. */
static bool made(struct sp_server *server, struct sp_session *s)
{
	const struct sp_operation *o;
	struct sp_parcel p = {.fds = 0};

	s->work = SP_WORK_NONE;
	if (s->sealed.shared.base)
		return run_again(server, s);
	memcpy(server->request.bytes, s->request, s->request_bytes);
	o = sp_operation(server->request.head.op);
	if (o->init)
		o->init(server, s->making.shared.base);
	s->sealed = s->making;
	s->making.shared.base = NULL;
	s->handed = true;
	sp_reply_begin(server, server->request.head.op);
	server->reply.head.arg[0] = s->sealed.shared.bytes;
	sp_hand_over(&p, &s->sealed.shared);
	return sp_reply_send(server, s, 0, &p);
}

bool sp_request_work(struct sp_server *server, struct sp_session *s)
{
	const sp_time began = sp_clock();
	const bool makes = s->work == SP_WORK_MAKE;
	const uint16_t op =
		makes && !s->sealed.shared.base ? ((struct sp_attach_request *)s->request)->op : SP_ATTACH_SEALED;
	int rc = 0;

	s->worked = ++server->clock;
	if (s->work == SP_WORK_WAIT) {
		s->work = SP_WORK_NONE;
		return run_again(server, s);
	}
	rc = makes ? sp_memory_more(&s->making) : sp_memory_sealed(&s->sealed);
	sp_session_charge(server, s, (sp_clock() - began) / SP_SESSIONS_PART);
	if (rc > 0)
		return true;
	if (rc < 0)
		return fail(server, s, op, rc);
	if (makes)
		return made(server, s);
	s->work = SP_WORK_NONE;
	return run_again(server, s);
}

/* ---- requests ---- */
/* Checks a whole request of `got` bytes. */
static bool is_sound(const struct sp_server *server, const struct sp_session *s, size_t got)
{
	const struct sp_attach_request *r = &server->request.head;
	const struct sp_operation *o;

	if (got < sizeof(*r) || r->magic != SP_ATTACH_MAGIC || r->version != SP_ATTACH_VERSION || r->reserved ||
	    r->bytes != got - sizeof(*r))
		return false;
	if (s->handed || r->op == SP_ATTACH_SEALED)
		return s->handed && r->op == SP_ATTACH_SEALED;
	o = sp_operation(r->op);
	return o && (s->device || !o->application);
}

/* True: the next message brings descriptors. Nothing is read. */
static bool brings_descriptors(const struct sp_session *s)
{
	struct msghdr message = {.msg_iovlen = 0}; /* no room for them */

	return recvmsg(s->fd, &message, MSG_PEEK | MSG_DONTWAIT) >= 0 && message.msg_flags & MSG_CTRUNC;
}

bool sp_request_serve(struct sp_server *server, struct sp_session *s)
{
	struct iovec part = {server->request.bytes, sizeof(server->request.bytes)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	const struct sp_parcel none = {.fds = 0};
	int unread = 0;
	ssize_t got;

	if (brings_descriptors(s)) {
		sp_reply_begin(server, 0);
		sp_refusal_note(server, s, 0, -EPROTO);
		return sp_reply_send(server, s, -EPROTO, &none);
	}
	got = recvmsg(s->fd, &message, MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	/* A client must read a reply before its next request: replies that pile up would hold our descriptors. */
	if (!got || (!ioctl(s->fd, SIOCOUTQ, &unread) && unread))
		return false;
	s->clock = ++server->clock;
	sp_session_drop_report(server, s); /* the client has read it, or never will */
	if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !is_sound(server, s, (size_t)got)) {
		sp_reply_begin(server, 0);
		sp_refusal_note(server, s, 0, -EPROTO);
		return sp_reply_send(server, s, -EPROTO, &none);
	}
	if (server->request.head.op != SP_ATTACH_SEALED)
		return run(server, s, server->request.head.op);
	s->handed = false;
	s->work = SP_WORK_LOOK;
	return s->sealed.len > SMALL || sp_request_work(server, s);
}
