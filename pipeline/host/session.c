/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests of a connected program. The server runs each as an operation of an embedded device, on the program's
 * behalf. A request that breaks the protocol ends the connection after an error reply; a request that merely cannot be
 * met does not.
 */
#include "session.h"
#include "../control/context.h"
#include "../engine.h"
#include "../error.h"
#include "../process.h"
#include "../user.h"
#include "../observe/watchdog.h"

#include <inttypes.h>
#include <rte_common.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Descriptors that go with a reply. */
struct parcel {
	int fd[SP_ATTACH_FDS];
	unsigned fds;
	struct sp_shm *shared[SP_ATTACH_FDS]; /* closed on this side after the send */
	unsigned shareds;
	struct sp_doorbell *door; /* likewise: its descriptor for the application */
};

struct operation {
	int (*run)(struct sp_server *, struct sp_session *, struct parcel *);
	bool application; /* needs HELLO first */
	bool workers;	  /* needs the workers */
};

#define LATER 1		 /* returned by an operation that takes long, see struct sp_session */
#define SMALL (1u << 20) /* up to this many bytes are made and freed at once */

int sp_session_open(struct sp_session *s, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len))
		return -errno;
	*s = (struct sp_session){.fd = fd, .pid = (uint32_t)who.pid, .uid = who.uid};
	return 0;
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

void sp_session_close(struct sp_server *server, struct sp_session *s)
{
	if (s->work == SP_WORK_MAKE)
		sp_memory_unback(server->nic, &s->making);
	free(s->request);
	if (s->capture) {
		pthread_mutex_lock(&server->nic->control);
		sp_capture_close(server->nic, s->capture);
		pthread_mutex_unlock(&server->nic->control);
	}
	if (s->device) {
		sp_dev_close(&s->device->pub);
		server->applications--;
	}
	sp_shm_destroy(&s->report);
	close(s->fd);
}

/* ---- replies ---- */
static void hand_over(struct parcel *p, struct sp_shm *shared)
{
	p->fd[p->fds++] = shared->fd;
	p->shared[p->shareds++] = shared;
}

static void *reply_data(struct sp_server *server, uint32_t bytes)
{
	memset(server->reply.head.data, 0, bytes);
	server->reply.head.bytes = bytes;
	return server->reply.head.data;
}

/* Puts the error's words into the reply; returns err, negative. */
static int explain(struct sp_server *server, int err, const struct sp_error *error)
{
	static_assert(sizeof(struct sp_attach_error) == sizeof(*error), "the same fields");
	memcpy(reply_data(server, sizeof(struct sp_attach_error)), error, sizeof(*error));
	return err;
}

static bool send_reply(struct sp_server *server, struct sp_session *s, const struct parcel *p)
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
	const struct parcel none = {.fds = 0};

	reply_begin(server, 0);
	server->reply.head.status = status;
	send_reply(server, s, &none);
}

/* ---- operations ---- */
static const struct sp_user_limits *limits_of(const struct sp_server_config *config, uint32_t uid)
{
	for (unsigned i = 0; i < config->users; i++)
		if (config->user[i].everyone || config->user[i].uid == uid)
			return &config->user[i];
	return NULL;
}

/* Root and the NIC's own user can see all packets anyway. */
static bool is_trusted(const struct sp_session *s)
{
	return s->uid == geteuid() || s->uid == 0;
}

/* No user may take all places: some stay free for further users, and for an administrator to find out what is wrong. */
static bool has_place(const struct sp_server *server, const struct sp_session *s, const struct sp_user_limits *user)
{
	const uint32_t all = server->config.applications, usual = is_trusted(s) ? all : RTE_MAX(all / 2, 1u);
	uint32_t own = 0, most = user && user->applications ? user->applications : usual;

	for (unsigned i = 0; i < server->sessions; i++)
		own += server->session[i].device && server->session[i].uid == s->uid;
	return own < most && sp_user_may(is_trusted(s), own, 1, server->applications, all);
}

static int hello(struct sp_server *server, struct sp_session *s, struct parcel *p)
{
	const struct sp_user_limits *user = limits_of(&server->config, s->uid);
	const struct sp_device_user who = {s->uid, is_trusted(s), user ? &user->limits : NULL, user};
	struct sp_attach_welcome *w;
	struct sp_dev *dev;
	int rc;

	if (s->device)
		return -EPROTO;
	if (user && user->refused)
		return -EACCES;
	if (!has_place(server, s, user))
		return -EUSERS;
	rc = sp_device_create_for(server->nic, &who, &s->device);
	if (rc) {
		s->device = NULL;
		return rc;
	}
	server->applications++;
	pthread_mutex_lock(&server->nic->control); /* telemetry's threads read pid and uid */
	s->device->pid = s->pid;
	s->device->uid = s->uid;
	pthread_mutex_unlock(&server->nic->control);
	dev = &s->device->pub;
	w = reply_data(server, sizeof(*w));
	*w = (struct sp_attach_welcome){
		.queues_bytes = s->device->queues.bytes,
		.memory = s->device->account->limit.memory,
		.contexts = s->device->account->limit.contexts,
		.qps = s->device->account->limit.qps,
		.messages = s->device->account->limit.messages,
		.workers = server->nic->workers,
		.payload4 = dev->ops->payload(dev, AF_INET),
		.payload6 = dev->ops->payload(dev, AF_INET6),
	};
	w->has4 = !dev->ops->address(dev, AF_INET, w->ip4);
	w->has6 = !dev->ops->address(dev, AF_INET6, w->ip6);
	memcpy(w->name, server->nic->config.name, sizeof(w->name));
	hand_over(p, &s->device->queues);
	p->fd[p->fds++] = s->device->door.application;
	p->fd[p->fds++] = s->device->door.ring;
	p->door = &s->device->door;
	return 0;
}

/* A filter can take others' packets: neighbours', ARP. Also, libpcap may ask the network for a host's name. */
static int check_filter(struct sp_server *server, const struct sp_session *s, const char *key)
{
	const struct sp_user_limits *user = limits_of(&server->config, s->uid);
	struct sp_error error = {.key = ""};

	if (strcmp(key, "filter") || is_trusted(s) || (user && user->filters))
		return 0;
	sp_error_set(&error, EPERM, "filter",
		     "the programs of user %u may not open filters: filters = yes in [limits NAME] allows it", s->uid);
	return explain(server, -EPERM, &error);
}

/* Makes memory in slices; the request runs again once it is there. LATER, or sp_memory_begin's error. */
static int make(struct sp_server *server, struct sp_session *s, uint64_t bytes, enum sp_backing_kind kind)
{
	const size_t size = sizeof(server->request.head) + server->request.head.bytes;
	int rc;

	s->request = malloc(size);
	if (!s->request)
		return -ENOMEM;
	rc = sp_memory_begin(server->nic, s->device->account, bytes, kind, &s->making);
	if (rc) {
		free(s->request);
		s->request = NULL;
		return rc;
	}
	memcpy(s->request, server->request.bytes, size);
	s->request_bytes = size;
	s->work = SP_WORK_MAKE;
	return LATER;
}

/* Frees large memory in slices; the reply comes at the end. */
static int unmake(struct sp_server *server, struct sp_session *s, int rc)
{
	if (rc || sp_memory_dying(server->nic, s->device->account) <= SMALL)
		return rc;
	s->op = server->request.head.op;
	s->work = SP_WORK_FREE;
	return LATER;
}

static int explain_memory(struct sp_server *server, const struct sp_session *s, uint64_t bytes, int rc)
{
	struct sp_account *a = s->device->account;
	const bool kept = a->regions < SP_REGIONS && sp_account_allows(a, bytes);
	struct sp_error error = {.key = ""};

	if (rc == -EDQUOT)
		sp_error_set(&error, EDQUOT, "memory",
			     "%" PRIu64 " bytes more: the application has %" PRIu64 " of %" PRIu64
			     " bytes and %u of %d regions%s",
			     bytes, (uint64_t)a->memory, a->limit.memory, a->regions, SP_REGIONS,
			     kept ? "; the NIC keeps the rest for others" : "");
	else if (rc == -EMFILE)
		sp_error_set(&error, EMFILE, "memory", SP_NO_DESCRIPTOR);
	else
		return rc;
	return explain(server, rc, &error);
}

static int mr_alloc(struct sp_server *server, struct sp_session *s, struct parcel *p)
{
	const uint64_t bytes = server->request.head.arg[0];
	struct sp_shm *shared;
	struct sp_mr *mr;
	int rc;

	if (s->device->made)
		rc = sp_mr_alloc(&s->device->pub, bytes, &mr);
	else
		rc = make(server, s, bytes, SP_BACKING_SHARED);
	if (rc)
		return rc < 0 ? explain_memory(server, s, bytes, rc) : rc;
	shared = sp_device_region(s->device, mr->id);
	if (!shared) {
		sp_mr_free(mr);
		return -ENOMEM;
	}
	server->reply.head.arg[0] = mr->id;
	hand_over(p, shared);
	return 0;
}

static int mr_free(struct sp_server *server, struct sp_session *s, struct parcel *p)
{
	(void)p;
	for (struct sp_region *r = s->device->pub.regions; r; r = r->next)
		if (r->mr.id == server->request.head.arg[0])
			return unmake(server, s, sp_mr_free(&r->mr));
	return -ENOENT;
}

/* Splits data into exactly count strings, each with its NUL. */
static bool split(const char *data, uint32_t bytes, const char **string, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *end = bytes ? memchr(data, 0, bytes) : NULL;

		if (!end)
			return false;
		string[i] = data;
		bytes -= (uint32_t)(end + 1 - data);
		data = end + 1;
	}
	return !bytes;
}

static int context_open(struct sp_server *server, struct sp_session *s, struct parcel *p)
{
	const uint64_t settings = server->request.head.arg[0];
	const char *string[2 + 2 * SP_ATTACH_SETTINGS];
	struct sp_setting setting[SP_ATTACH_SETTINGS];
	struct sp_attach_reply *reply = &server->reply.head;
	struct sp_shm *events, *area;
	struct sp_error error;
	uint64_t len = 0;
	uint32_t id, qp;
	void *at;
	int rc, home;

	memset(&error, 0, sizeof(error));
	if (settings > SP_ATTACH_SETTINGS || !split((const char *)server->request.head.data, server->request.head.bytes,
						    string, 2 + 2 * (size_t)settings))
		return -EINVAL;
	for (size_t i = 0; i < settings; i++)
		setting[i] = (struct sp_setting){string[2 + 2 * i], string[3 + 2 * i]};
	for (size_t i = 0; i < settings; i++)
		if (check_filter(server, s, setting[i].key))
			return -EPERM;
	s->device->ahead = !s->device->made;
	s->device->wanted = 0;
	rc = sp_context_open(&s->device->pub, string[0], string[1], setting, settings, &id, &error);
	if (rc == -EAGAIN && s->device->wanted) {
		s->device->ahead = false;
		rc = make(server, s, s->device->wanted, SP_BACKING_SHARED_READ);
		if (rc > 0)
			return rc;
		if (rc == -EMFILE)
			return explain_memory(server, s, s->device->wanted, rc);
		/* With less memory than wanted, this call fails with the error text of a context. */
		rc = sp_context_open(&s->device->pub, string[0], string[1], setting, settings, &id, &error);
	}
	s->device->ahead = false;
	if (rc)
		return explain(server, rc > 0 ? -EINVAL : rc, &error);
	events = sp_device_events(s->device, id);
	area = sp_device_area(s->device, id);
	home = sp_device_home(s->device, id);
	if (!events || home < 0 || sp_context_qp(&s->device->pub, id, &qp) ||
	    sp_context_area(&s->device->pub, id, &at, &len)) { /* removed meanwhile by another control call */
		sp_context_close(&s->device->pub, id);
		return -ECONNRESET;
	}
	reply->arg[0] = id;
	reply->arg[1] = events->bytes;
	reply->arg[2] = area ? len : 0;
	reply->arg[3] = (uint64_t)qp << 32 | (uint32_t)home;
	hand_over(p, events);
	if (area)
		hand_over(p, area);
	return 0;
}

static int context_close(struct sp_server *server, struct sp_session *s, struct parcel *p)
{
	const uint64_t id = server->request.head.arg[0];

	(void)p;
	return id <= UINT32_MAX ? unmake(server, s, sp_context_close(&s->device->pub, (uint32_t)id)) : -ENOENT;
}

static int call(struct sp_server *server, struct sp_session *s, struct parcel *p)
{
	struct sp_command command;
	struct sp_event result;
	int rc;

	(void)p;
	if (server->request.head.bytes != sizeof(command))
		return -EINVAL;
	memcpy(&command, server->request.head.data, sizeof(command));
	rc = sp_command_call(&s->device->pub, &command, &result);
	memcpy(reply_data(server, sizeof(result)), &result, sizeof(result));
	return rc > 0 ? -EINVAL : rc; /* the handler's fault: neither 0 nor -errno */
}

/* Sends the text with the reply, and frees it. */
static int hand_text(struct sp_server *server, struct sp_session *s, struct parcel *p, char *text)
{
	const size_t bytes = strlen(text);
	const int rc = sp_shm_create(bytes, "spindle-report", true, &s->report);

	if (!rc) {
		memcpy(s->report.base, text, bytes);
		server->reply.head.arg[0] = bytes;
		hand_over(p, &s->report);
	}
	free(text);
	return rc;
}

static int report(struct sp_server *server, struct sp_session *s, struct parcel *p)
{
	const struct sp_attach_request *r = &server->request.head;
	char context[SP_REPORT_NAME] = "", *text = NULL;
	int rc;

	if (r->arg[0] > SP_REPORT_HANDLERS || r->bytes >= sizeof(context) || memchr(r->data, 0, r->bytes))
		return -EINVAL;
	if (r->arg[0] == SP_REPORT_HANDLERS && !is_trusted(s)) /* workers make this report while packets wait */
		return -EPERM;
	memcpy(context, r->data, r->bytes);
	rc = sp_nic_report_text(server->nic, r->arg[0] == SP_REPORT_HANDLERS, *context ? context : NULL, &text);
	return rc ? rc : hand_text(server, s, p, text);
}

static int handler(struct sp_server *server, struct sp_session *s, struct parcel *p)
{
	const struct sp_attach_request *r = &server->request.head;
	const char *string[2 + 2 * SP_ATTACH_SETTINGS];
	struct sp_error error = {.key = ""};
	char *text = NULL;
	int rc;

	if (!is_trusted(s))
		return -EPERM;
	if (r->arg[1] > 2 + 2 * SP_ATTACH_SETTINGS || !split((const char *)r->data, r->bytes, string, r->arg[1]))
		return -EINVAL;
	rc = sp_session_handler(server->nic, r->arg[0], string, r->arg[1], r->arg[2], &text, &error);
	if (rc)
		return *error.text ? explain(server, rc, &error) : rc;
	if (text) /* the operation succeeded; without memory the reply has no text */
		hand_text(server, s, p, text);
	return 0;
}

static int capture(struct sp_server *server, struct sp_session *s, struct parcel *p)
{
	struct sp_capture_request request;
	struct sp_error error;
	struct sp_shm *memory;
	int rc;

	memset(&error, 0, sizeof(error));
	if (!is_trusted(s))
		return -EPERM;
	if (s->capture)
		return -EBUSY;
	if (server->request.head.bytes != sizeof(request))
		return -EINVAL;
	memcpy(&request, server->request.head.data, sizeof(request));
	if (!memchr(request.context, 0, sizeof(request.context)) || !memchr(request.filter, 0, sizeof(request.filter)))
		return -EINVAL;
	pthread_mutex_lock(&server->nic->control);
	rc = sp_capture_open(server->nic, &request, &error, &s->capture, &memory);
	pthread_mutex_unlock(&server->nic->control);
	if (rc) {
		s->capture = NULL;
		return explain(server, rc, &error);
	}
	server->reply.head.arg[0] = memory->bytes;
	hand_over(p, memory);
	return 0;
}

static const struct operation operations[] = {
	[SP_ATTACH_HELLO] = {hello, false},
	[SP_ATTACH_MR_ALLOC] = {mr_alloc, true},
	[SP_ATTACH_MR_FREE] = {mr_free, true},
	[SP_ATTACH_OPEN] = {context_open, true, true},
	[SP_ATTACH_CLOSE] = {context_close, true, true},
	[SP_ATTACH_CALL] = {call, true, true},
	[SP_ATTACH_REPORT] = {report, false},
	[SP_ATTACH_CAPTURE] = {capture, false, true},
	[SP_ATTACH_HANDLER] = {handler, false, true},
};

/* ---- requests ---- */
/* Checks a whole request of `got` bytes. Its operation; NULL: not a valid request. */
static const struct operation *understand(const struct sp_server *server, const struct sp_session *s, size_t got)
{
	const struct sp_attach_request *r = &server->request.head;
	const struct operation *o;

	if (got < sizeof(*r) || r->magic != SP_ATTACH_MAGIC || r->version != SP_ATTACH_VERSION || r->reserved ||
	    r->bytes != got - sizeof(*r) || r->op >= sizeof(operations) / sizeof(*operations))
		return NULL;
	o = &operations[r->op];
	return o->run && (s->device || !o->application) ? o : NULL;
}

static int run(struct sp_server *server, struct sp_session *s, const struct operation *o, struct parcel *p)
{
	const sp_time called = server->nic->called;
	struct sp_error error = {.key = ""};
	int rc = o->workers ? pass(server, &error) : 0;

	rc = rc ? explain(server, rc, &error) : o->run(server, s, p);
	sp_session_charge(server, s, server->nic->called - called);
	return rc;
}

static bool answer(struct sp_server *server, struct sp_session *s, int status, const struct parcel *p)
{
	const uint64_t dying = s->device ? sp_memory_dying(server->nic, s->device->account) : 0;
	bool sent;

	if (dying && dying <= SMALL)
		sp_memory_free_deferred(server->nic, s->device->account);
	server->reply.head.status = status;
	sent = send_reply(server, s, p);
	for (unsigned i = 0; i < p->shareds; i++)
		sp_shm_close(p->shared[i]);
	if (p->door)
		sp_doorbell_given(p->door);
	return sent && status != -EPROTO;
}

/* The memory is complete, or has failed (rc). */
static bool complete(struct sp_server *server, struct sp_session *s, int rc)
{
	struct parcel p = {.fds = 0};

	memcpy(server->request.bytes, s->request, s->request_bytes);
	free(s->request);
	s->request = NULL;
	reply_begin(server, server->request.head.op);
	s->device->made = &s->making;
	rc = rc ? explain_memory(server, s, s->making.len, rc)
		: run(server, s, &operations[server->request.head.op], &p);
	if (s->device->made) /* the operation has not used it */
		sp_memory_unback(server->nic, s->device->made);
	s->device->made = NULL;
	return answer(server, s, rc, &p);
}

bool sp_session_work(struct sp_server *server, struct sp_session *s)
{
	const struct parcel none = {.fds = 0};
	const bool makes = s->work == SP_WORK_MAKE;
	const sp_time began = sp_clock();
	int rc;

	s->worked = ++server->clock;
	rc = makes ? sp_memory_more(&s->making) : sp_memory_free_deferred(server->nic, s->device->account);
	/* This costs the server's time, not the workers': a session that works alone may use all of it. */
	sp_session_charge(server, s, (sp_clock() - began) / SP_SESSIONS_PART);
	if (rc > 0)
		return true;
	s->work = SP_WORK_NONE;
	if (makes)
		return complete(server, s, rc);
	reply_begin(server, s->op);
	return answer(server, s, 0, &none);
}

bool sp_session_serve(struct sp_server *server, struct sp_session *s)
{
	struct iovec part = {server->request.bytes, sizeof(server->request.bytes)};
	/* No control buffer: the kernel closes descriptors that come with a request. */
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	const struct operation *o = NULL;
	struct parcel p = {.fds = 0};
	int unread = 0, rc = -EPROTO;
	const ssize_t got = recvmsg(s->fd, &message, MSG_DONTWAIT);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	/* A client must read a reply before its next request: replies that pile up would hold our descriptors. */
	if (!got || (!ioctl(s->fd, SIOCOUTQ, &unread) && unread))
		return false;
	s->clock = ++server->clock;
	sp_shm_destroy(&s->report); /* the client has read it, or never will */
	if (!(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		o = understand(server, s, (size_t)got);
	reply_begin(server, o ? server->request.head.op : 0);
	if (o)
		rc = run(server, s, o, &p);
	if (rc != LATER)
		return answer(server, s, rc, &p);
	return s->work == SP_WORK_FREE || s->making.charged > SMALL || sp_session_work(server, s);
}
