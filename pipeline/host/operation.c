/* SPDX-License-Identifier: BSD-3-Clause */
#include "operation.h"
#include "../control/context.h"
#include "../engine.h"
#include "../error.h"
#include "../user.h"
#include "filter_words.h"

#include <rte_common.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const struct sp_user_limits *limits_of(const struct sp_server_config *config, uint32_t uid)
{
	for (unsigned i = 0; i < config->users; i++)
		if (config->user[i].everyone || config->user[i].uid == uid)
			return &config->user[i];
	return NULL;
}

/* No user may take all places: some stay free for further users, and for an administrator to find out what is wrong. */
static bool has_place(const struct sp_server *server, const struct sp_session *s, const struct sp_user_limits *user)
{
	const bool trusted = sp_session_trusted(s);
	const uint32_t all = server->config.applications, usual = trusted ? all : RTE_MAX(all / 2, 1u);
	uint32_t own = 0, most = user && user->applications ? user->applications : usual;

	for (unsigned i = 0; i < server->sessions; i++)
		own += server->session[i].device && server->session[i].uid == s->uid;
	return own < most && sp_user_may(trusted, own, 1, server->applications, all);
}

static int hello_memory(struct sp_server *server, struct sp_session *s, uint64_t *bytes)
{
	const struct sp_user_limits *user = limits_of(&server->config, s->uid);
	const struct sp_device_user who = {s->uid, sp_session_trusted(s), user ? &user->limits : NULL, user};
	int rc;

	if (s->device)
		return -EPROTO;
	if (user && user->refused)
		return -EACCES;
	if (!has_place(server, s, user))
		return -EUSERS;
	rc = sp_device_begin(server->nic, &who, &s->device);
	if (rc) {
		s->device = NULL;
		return rc;
	}
	s->device->pid = s->pid; /* telemetry's threads read them once the device is started */
	s->device->uid = s->uid;
	server->applications++;
	*bytes = sp_device_queues_bytes(server->nic);
	return 0;
}

static void hello_init(const struct sp_server *server, void *memory)
{
	sp_device_queues_init(server->nic, memory);
}

static int hello(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	struct sp_attach_welcome *w;
	struct sp_dev *dev = &s->device->pub;
	int rc = sp_device_start(s->device, &s->sealed.shared);

	if (rc)
		return rc;
	w = sp_reply_data(server, sizeof(*w));
	*w = (struct sp_attach_welcome){
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
	p->fd[p->fds++] = s->device->door.application;
	p->fd[p->fds++] = s->device->door.ring;
	p->door = &s->device->door;
	return 0;
}

/* A filter can take others' packets: neighbours', ARP. */
static int check_filter(struct sp_server *server, const struct sp_session *s, const struct sp_setting *setting)
{
	const struct sp_user_limits *user = limits_of(&server->config, s->uid);
	struct sp_error error = {.key = ""};
	int rc;

	if (strcmp(setting->key, "filter") || sp_session_trusted(s))
		return 0;
	if (user && user->filters)
		rc = sp_filter_words(setting->value, &error);
	else
		rc = sp_error_set(
			&error, EPERM, "filter",
			"the programs of user %u may not open filters: filters = yes in [limits NAME] allows it",
			s->uid);
	return rc ? sp_reply_explain(server, rc, &error) : 0;
}

static int mr_memory(struct sp_server *server, struct sp_session *s, uint64_t *bytes)
{
	(void)s;
	*bytes = server->request.head.arg[0];
	return 0;
}

static int mr_alloc(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	const uint64_t bytes = server->request.head.arg[0];
	struct sp_mr *mr;
	int rc;

	(void)p;
	s->device->made = &s->sealed;
	rc = sp_mr_alloc(&s->device->pub, bytes, &mr);
	if (!s->device->made)
		s->sealed.shared.base = NULL;
	s->device->made = NULL;
	if (rc)
		return sp_reply_explain_memory(server, s, bytes, rc);
	server->reply.head.arg[0] = mr->id;
	return 0;
}

static int mr_free(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	(void)p;
	for (struct sp_region *r = s->device->pub.regions; r; r = r->next)
		if (r->mr.id == server->request.head.arg[0])
			return sp_mr_free(&r->mr);
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

struct wanted_context {
	const char *string[2 + 2 * SP_ATTACH_SETTINGS]; /* name, handler, and keys and values */
	struct sp_setting setting[SP_ATTACH_SETTINGS];
	size_t settings;
};

static int wanted_context(struct sp_server *server, const struct sp_session *s, struct wanted_context *w)
{
	const struct sp_attach_request *r = &server->request.head;

	if (r->arg[0] > SP_ATTACH_SETTINGS ||
	    !split((const char *)r->data, r->bytes, w->string, 2 + 2 * (size_t)r->arg[0]))
		return -EINVAL;
	w->settings = r->arg[0];
	for (size_t i = 0; i < w->settings; i++) {
		w->setting[i] = (struct sp_setting){w->string[2 + 2 * i], w->string[3 + 2 * i]};
		const int rc = check_filter(server, s, &w->setting[i]);

		if (rc)
			return rc;
	}
	return 0;
}

static int events_memory(struct sp_server *server, struct sp_session *s, uint64_t *bytes)
{
	struct wanted_context w;

	*bytes = sp_events_bytes(server->nic);
	return wanted_context(server, s, &w);
}

static void events_init(const struct sp_server *server, void *memory)
{
	sp_events_init(server->nic, memory);
}

static int context_open(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	struct sp_attach_reply *reply = &server->reply.head;
	struct sp_device *d = s->device;
	struct wanted_context w;
	struct sp_shm *area;
	struct sp_error error;
	uint64_t len = 0;
	uint32_t id, qp;
	void *at;
	const bool has_area = d->made;
	int rc = wanted_context(server, s, &w), home;

	if (rc)
		return rc;
	memset(&error, 0, sizeof(error));
	d->events = &s->sealed;
	d->ahead = !has_area;
	d->wanted = 0;
	rc = sp_context_open(&d->pub, w.string[0], w.string[1], w.setting, w.settings, &id, &error);
	if (rc == -EAGAIN && d->wanted) {
		d->ahead = false;
		rc = sp_session_make(server, s, d->wanted, SP_BACKING_SHARED_READ);
		if (rc == -EMFILE)
			sp_error_set(&error, EMFILE, "memory", SP_NO_DESCRIPTOR);
		else if (rc < 0) /* fails with the error text of a context */
			rc = sp_context_open(&d->pub, w.string[0], w.string[1], w.setting, w.settings, &id, &error);
	}
	d->ahead = false;
	if (has_area && !d->made)
		s->making.shared.base = NULL;
	if (!d->events)
		s->sealed.shared.base = NULL;
	d->events = NULL;
	if (rc == -ENOMEM || (rc == -EDQUOT && (!error.text[0] || !strcmp(error.key, "memory"))))
		rc = sp_session_wait(server, s, d->wanted, rc);
	if (rc)
		return rc == SP_LATER ? rc : sp_reply_explain(server, rc > 0 ? -EINVAL : rc, &error);
	area = sp_device_area(d, id);
	home = sp_device_home(d, id);
	if (home < 0 || sp_context_qp(&d->pub, id, &qp) ||
	    sp_context_area(&d->pub, id, &at, &len)) { /* removed meanwhile by another control call */
		sp_context_close(&d->pub, id);
		return -ECONNRESET;
	}
	reply->arg[0] = id;
	reply->arg[2] = area ? len : 0;
	reply->arg[3] = (uint64_t)qp << 32 | (uint32_t)home;
	if (area)
		sp_hand_over(p, area);
	return 0;
}

static int context_close(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	const uint64_t id = server->request.head.arg[0];

	(void)p;
	return id <= UINT32_MAX ? sp_context_close(&s->device->pub, (uint32_t)id) : -ENOENT;
}

static int call(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	struct sp_command command;
	struct sp_event result;
	int rc;

	(void)p;
	if (server->request.head.bytes != sizeof(command))
		return -EINVAL;
	memcpy(&command, server->request.head.data, sizeof(command));
	rc = sp_command_call(&s->device->pub, &command, &result);
	memcpy(sp_reply_data(server, sizeof(result)), &result, sizeof(result));
	return rc > 0 ? -EINVAL : rc; /* the handler's fault: neither 0 nor -errno */
}

static int control(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	const struct sp_attach_request *r = &server->request.head;
	uint8_t answer[SP_CONTROL_BYTES] = {0};
	struct sp_control c = {.op = (uint32_t)r->arg[1],
			       .context = (uint32_t)r->arg[0],
			       .qp = (uint32_t)r->arg[2],
			       .in = r->data,
			       .in_len = r->bytes,
			       .out = answer,
			       .out_room = (uint32_t)r->arg[3]};
	int rc;

	(void)p;
	if (r->arg[0] >> 33 || r->arg[1] > UINT32_MAX || r->arg[2] > UINT32_MAX || r->arg[3] > SP_CONTROL_BYTES ||
	    r->bytes > SP_CONTROL_BYTES)
		return -EINVAL;
	rc = s->device->pub.ops->control(&s->device->pub, r->arg[0] >> 32, &c);
	memcpy(sp_reply_data(server, c.out_len), answer, c.out_len);
	return rc;
}

/* Sends the text with the reply, and frees it. */
static int hand_text(struct sp_server *server, struct sp_session *s, struct sp_parcel *p, char *text)
{
	const size_t bytes = strlen(text);
	const int rc = sp_shm_create(bytes, "spindle-report", true, &s->report);

	if (!rc) {
		memcpy(s->report.base, text, bytes);
		server->reply.head.arg[0] = bytes;
		sp_hand_over(p, &s->report);
	}
	free(text);
	return rc;
}

static int report(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	const struct sp_attach_request *r = &server->request.head;
	char context[SP_REPORT_NAME] = "", *text = NULL;
	int rc;

	if (r->arg[0] > SP_REPORT_HANDLERS || r->bytes >= sizeof(context) || memchr(r->data, 0, r->bytes))
		return -EINVAL;
	if (r->arg[0] == SP_REPORT_HANDLERS && !sp_session_trusted(s)) /* workers make this report while packets wait */
		return -EPERM;
	memcpy(context, r->data, r->bytes);
	rc = sp_nic_report_text(server->nic, r->arg[0] == SP_REPORT_HANDLERS, *context ? context : NULL, &text);
	return rc ? rc : hand_text(server, s, p, text);
}

static int handler(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	const struct sp_attach_request *r = &server->request.head;
	const char *string[2 + 2 * SP_ATTACH_SETTINGS];
	struct sp_error error = {.key = ""};
	char *text = NULL;
	int rc;

	if (!sp_session_trusted(s))
		return -EPERM;
	if (r->arg[1] > 2 + 2 * SP_ATTACH_SETTINGS || !split((const char *)r->data, r->bytes, string, r->arg[1]))
		return -EINVAL;
	rc = sp_session_handler(server->nic, r->arg[0], string, r->arg[1], r->arg[2], &text, &error);
	if (rc)
		return *error.text ? sp_reply_explain(server, rc, &error) : rc;
	if (text) /* the operation succeeded; without memory the reply has no text */
		hand_text(server, s, p, text);
	return 0;
}

static int capture_request(struct sp_server *server, struct sp_capture_request *request)
{
	if (server->request.head.bytes != sizeof(*request))
		return -EINVAL;
	memcpy(request, server->request.head.data, sizeof(*request));
	return memchr(request->context, 0, sizeof(request->context)) &&
			       memchr(request->filter, 0, sizeof(request->filter))
		       ? 0
		       : -EINVAL;
}

static int capture_memory(struct sp_server *server, struct sp_session *s, uint64_t *bytes)
{
	struct sp_capture_request request;

	if (!sp_session_trusted(s))
		return -EPERM;
	if (s->capture)
		return -EBUSY;
	if (capture_request(server, &request))
		return -EINVAL;
	*bytes = sp_capture_bytes(server->nic, &request);
	return 0;
}

static void capture_init(const struct sp_server *server, void *memory)
{
	struct sp_capture_request request;

	memcpy(&request, server->request.head.data, sizeof(request));
	sp_capture_init(server->nic, &request, memory);
}

static int capture(struct sp_server *server, struct sp_session *s, struct sp_parcel *p)
{
	struct sp_capture_request request;
	struct sp_error error;
	int rc;

	(void)p;
	memset(&error, 0, sizeof(error));
	if (capture_request(server, &request))
		return -EINVAL;
	pthread_mutex_lock(&server->nic->control);
	rc = sp_capture_open(server->nic, &request, &s->sealed.shared, &error, &s->capture);
	pthread_mutex_unlock(&server->nic->control);
	if (rc)
		s->capture = NULL;
	return rc ? sp_reply_explain(server, rc, &error) : 0;
}

static const struct sp_operation operations[] = {
	[SP_ATTACH_HELLO] = {hello_memory, hello_init, hello},
	[SP_ATTACH_MR_ALLOC] = {mr_memory, NULL, mr_alloc, .application = true},
	[SP_ATTACH_MR_FREE] = {.run = mr_free, .application = true},
	[SP_ATTACH_OPEN] = {events_memory, events_init, context_open, .application = true, .workers = true},
	[SP_ATTACH_CLOSE] = {.run = context_close, .application = true, .workers = true},
	[SP_ATTACH_CALL] = {.run = call, .application = true, .workers = true},
	[SP_ATTACH_CONTROL] = {.run = control, .application = true, .workers = true},
	[SP_ATTACH_REPORT] = {.run = report, .shares = true},
	[SP_ATTACH_CAPTURE] = {capture_memory, capture_init, capture, .workers = true, .observes = true},
	[SP_ATTACH_HANDLER] = {.run = handler, .workers = true, .shares = true},
};

const struct sp_operation *sp_operation(uint16_t op)
{
	return op < sizeof(operations) / sizeof(*operations) && operations[op].run ? &operations[op] : NULL;
}
