/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection of a program: requests, replies, and what takes several turns. A request that breaks the protocol ends
 * the connection after an error reply; a request that merely cannot be met does not.
 *
 * Nothing that a program sends makes the thread wait. The kernel closes descriptors that come with a message on the
 * thread that reads it, and closing one may take as long as its maker likes. So each message is looked at first; one
 * with descriptors is not read: the connection goes to the reaper with it.
 */
#include "operation.h"
#include "../engine.h"
#include "../error.h"
#include "../mem/freeing.h"
#include "../observe/watchdog.h"

#include <inttypes.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SMALL (1u << 20) /* up to this many bytes are made at once */

int sp_session_open(struct sp_session *s, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len))
		return -errno;
	*s = (struct sp_session){.fd = fd, .pid = (uint32_t)who.pid, .uid = who.uid};
	s->report.fd = s->report.file = -1;
	return 0;
}

bool sp_session_trusted(const struct sp_session *s)
{
	return s->uid == geteuid() || s->uid == 0;
}

/* 0, or -ETIMEDOUT and words: a worker has stopped, and control calls would wait for it. */
static int pass(struct sp_server *server, struct sp_error *error)
{
	int rc;

	pthread_mutex_lock(&server->nic->control);
	rc = sp_watchdog_pass(server->nic, error);
	pthread_mutex_unlock(&server->nic->control);
	return rc;
}

bool sp_session_free(struct sp_server *server, const struct sp_session *s)
{
	return (!s->device && !s->capture) || !pass(server, NULL);
}

/* Frees what belongs to a request that is under way. */
static void forget_request(struct sp_server *server, struct sp_session *s)
{
	if (s->making.shared.base)
		sp_memory_unback(server->nic, &s->making);
	if (s->sealed.shared.base) /* charged is 0 for a capture's */
		sp_memory_unback(server->nic, &s->sealed);
	s->making.shared.base = s->sealed.shared.base = NULL;
	if (s->device)
		s->device->made = NULL;
	free(s->request);
	s->request = NULL;
	s->work = SP_WORK_NONE;
	s->handed = false;
	s->until = 0;
	if (s->device && !s->device->started) { /* a HELLO that did not come to its end */
		sp_dev_close(&s->device->pub);
		s->device = NULL;
		server->applications--;
	}
}

/* Is there a message that nobody has read? Also an empty one may bring descriptors; credentials tell it from the end.
 */
static bool has_unread(int fd)
{
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(sizeof(struct ucred))]; /* no room for descriptors */
	} control;
	struct msghdr message = {.msg_control = control.bytes, .msg_controllen = sizeof(control)};

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)))
		return true;
	return recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT) >= 0 && message.msg_controllen > 0;
}

void sp_session_hang_up(struct sp_server *server, const struct sp_session *s)
{
	shutdown(s->fd, SHUT_RDWR); /* no message comes after this */
	if (has_unread(s->fd))
		sp_freeing_connection(server->nic, s->uid, s->fd);
	else
		close(s->fd);
}

static void drop_report(struct sp_server *server, struct sp_session *s)
{
	if (s->report.base)
		sp_freeing_memory(server->nic, NULL, s->uid, &s->report, 0);
}

void sp_session_close(struct sp_server *server, struct sp_session *s)
{
	if (s->capture) {
		pthread_mutex_lock(&server->nic->control);
		sp_capture_close(server->nic, s->capture, s->uid);
		pthread_mutex_unlock(&server->nic->control);
	}
	forget_request(server, s);
	if (s->device) {
		sp_dev_close(&s->device->pub);
		server->applications--;
	}
	drop_report(server, s);
	sp_session_hang_up(server, s);
}

/* ---- replies ---- */
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
	const struct sp_account *a = s->device ? s->device->account : NULL;
	struct sp_error error;
	uint64_t held = 0;

	memset(&error, 0, sizeof(error));
	if (a)
		sp_freeing_bytes(server->nic, a, &held);
	if (err == -EDQUOT && held)
		sp_error_set(&error, EDQUOT, "memory",
			     "%" PRIu64 " bytes more: the application has %" PRIu64 " of %" PRIu64 " bytes, %" PRIu64
			     " of them given back but still mapped or open in some process",
			     bytes, (uint64_t)a->memory, a->limit.memory, held);
	else if (err == -EDQUOT && a)
		sp_error_set(&error, EDQUOT, "memory",
			     "%" PRIu64 " bytes more: the application has %" PRIu64 " of %" PRIu64
			     " bytes and %u of %d regions",
			     bytes, (uint64_t)a->memory, a->limit.memory, a->regions, SP_REGIONS);
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

static void reply_begin(struct sp_server *server, uint16_t op)
{
	server->reply.head = (struct sp_attach_reply){.magic = SP_ATTACH_MAGIC, .version = SP_ATTACH_VERSION, .op = op};
}

void sp_session_refuse(struct sp_server *server, struct sp_session *s, int status)
{
	const struct sp_parcel none = {.fds = 0};

	reply_begin(server, 0);
	server->reply.head.status = status;
	send_reply(server, s, &none);
}

static bool answer(struct sp_server *server, struct sp_session *s, int status, const struct sp_parcel *p)
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
	if (!sp_operation(server->request.head.op)->observes) {
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
	rc = o->workers ? pass(server, &error) : 0;
	if (rc)
		return sp_reply_explain(server, rc, &error);
	if (s->sealed.shared.base)
		return o->run(server, s, p);
	rc = o->memory || o->shares ? refuse_holder(server, s) : 0;
	if (rc || !o->memory)
		return rc ? rc : o->run(server, s, p);
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

	reply_begin(server, op);
	rc = begin(server, s, o, &p);
	used = server->nic->called - called;
	took = (sp_clock() - began) / SP_SESSIONS_PART; /* the server's own time: alone, a user may have all of it */
	sp_session_charge(server, s, used > took ? used : took);
	if (rc == SP_LATER)
		return s->work != SP_WORK_MAKE || s->making.len > SMALL || sp_session_work(server, s);
	forget_request(server, s);
	return answer(server, s, rc, &p);
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

	reply_begin(server, op);
	if (rc == -EMFILE || rc == -ENOMEM)
		rc = sp_reply_explain_memory(server, s, s->making.len, rc);
	forget_request(server, s);
	return answer(server, s, rc, &none);
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
	reply_begin(server, server->request.head.op);
	server->reply.head.arg[0] = s->sealed.shared.bytes;
	sp_hand_over(&p, &s->sealed.shared);
	return answer(server, s, 0, &p);
}

bool sp_session_work(struct sp_server *server, struct sp_session *s)
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

bool sp_session_serve(struct sp_server *server, struct sp_session *s)
{
	struct iovec part = {server->request.bytes, sizeof(server->request.bytes)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	const struct sp_parcel none = {.fds = 0};
	int unread = 0;
	ssize_t got;

	if (brings_descriptors(s)) {
		reply_begin(server, 0);
		return answer(server, s, -EPROTO, &none);
	}
	got = recvmsg(s->fd, &message, MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	/* A client must read a reply before its next request: replies that pile up would hold our descriptors. */
	if (!got || (!ioctl(s->fd, SIOCOUTQ, &unread) && unread))
		return false;
	s->clock = ++server->clock;
	drop_report(server, s); /* the client has read it, or never will */
	if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !is_sound(server, s, (size_t)got)) {
		reply_begin(server, 0);
		return answer(server, s, -EPROTO, &none);
	}
	if (server->request.head.op != SP_ATTACH_SEALED)
		return run(server, s, server->request.head.op);
	s->handed = false;
	s->work = SP_WORK_LOOK;
	return s->sealed.len > SMALL || sp_session_work(server, s);
}
