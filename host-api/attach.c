/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC in another process. Control calls are requests over its socket, one at a time (wire/attach.h); commands and
 * events go through rings in shared memory. What the NIC writes is checked before it is used as a size or an index.
 * Once the connection has ended, the device is dead: every call returns -ENODEV if the NIC has said goodbye, otherwise
 * -ECONNABORTED.
 */
#include "attach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define SP_ATTACH_WORKERS 64u	     /* more than any NIC has */
#define SP_ATTACH_ENTRIES (1u << 16) /* of a ring, at most */
#define SP_ATTACH_LOOK	  1024u	     /* after so many empty looks for events the connection is checked */

struct sp_attached_context {
	struct sp_attached_context *next;
	uint32_t id, home, qp;
	struct sp_attach_reader turn;
	struct sp_attach_events *events;
	uint64_t events_bytes;
	void *area; /* NULL: none */
	uint64_t area_bytes;
	struct sp_ring ring[]; /* one per worker */
};

struct sp_attached {
	struct sp_dev pub;
	struct sp_attach_link link;
	int wake, post, epoll; /* the socket that wake-ups come by; the eventfd that tells the NIC of a post */
	struct sp_attach_welcome welcome;
	struct sp_attach_queues *queues;
	uint64_t queues_bytes;
	struct sp_attached_context *context[256]; /* by the low bits of their ids */
	uint32_t nothing;			  /* empty looks for events since the last check */
	sp_time looked;
	uint32_t entries; /* of a ring of commands */
	struct sp_ring commands[SP_ATTACH_WORKERS];
};

static struct sp_attached *sp_attached(struct sp_dev *dev)
{
	return (struct sp_attached *)dev;
}

static struct sp_attached_context **sp_attached_find(struct sp_attached *a, uint32_t id)
{
	struct sp_attached_context **at = &a->context[id % 256];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

/* An application that only polls must notice now and then that the NIC is gone. */
static int sp_attached_look(struct sp_attached *a)
{
	if (!a->link.dead && ++a->nothing % SP_ATTACH_LOOK == 0)
		sp_attach_look(&a->link);
	return a->link.dead;
}

/* ---- memory --------------------------------------------------------------------------------------------------------
 */
static int sp_attached_mr_alloc(struct sp_dev *dev, uint64_t len, struct sp_mr *mr)
{
	struct sp_attached *a = sp_attached(dev);
	struct sp_attach_exchange x = {.op = SP_ATTACH_MR_ALLOC, .arg = {len}};
	uint64_t bytes;
	void *at;
	int rc = sp_attach_exchange_memory(&a->link, &x, &at, &bytes);

	if (rc)
		return rc;
	*mr = (struct sp_mr){.dev = dev, .addr = at, .len = len, .id = (uint32_t)x.arg[0]};
	sp_attach_release(&x);
	if (bytes >= len)
		return 0;
	munmap(at, bytes); /* no NIC does that */
	return -EPROTO;
}

static int sp_attached_mr_free(struct sp_dev *dev, struct sp_mr *mr)
{
	struct sp_attach_exchange x = {.op = SP_ATTACH_MR_FREE, .arg = {mr->id}};
	int rc = sp_attach_exchange(&sp_attached(dev)->link, &x);

	if (rc)
		return rc;
	sp_attach_release(&x);
	if (!((struct sp_region *)mr)->moved)
		munmap(mr->addr, mr->len); /* until then it stays charged to us */
	return 0;
}

/* ---- contexts ------------------------------------------------------------------------------------------------------
 */
static void sp_attached_unmap(struct sp_attached_context *c)
{
	if (c->events)
		munmap(c->events, c->events_bytes);
	if (c->area)
		munmap(c->area, c->area_bytes);
	free(c);
}

/* Takes over the events' memory, and what the reply to SEALED names. */
static int sp_attached_map(struct sp_attached *a, const struct sp_attach_exchange *x, struct sp_attached_context *c)
{
	const uint32_t workers = a->welcome.workers;
	struct sp_attach_events head;
	int rc = 0;

	c->id = (uint32_t)x->arg[0];
	c->home = (uint32_t)x->arg[3];
	c->qp = (uint32_t)(x->arg[3] >> 32);
	if (c->home >= workers || c->events_bytes < sizeof(head) || x->arg[2] > SIZE_MAX)
		return -EPROTO;
	memcpy(&head, c->events, sizeof(head));
	if (head.magic != SP_ATTACH_MAGIC || head.workers != workers || !head.entries ||
	    head.entries > SP_ATTACH_ENTRIES || head.entries & (head.entries - 1) ||
	    sp_attach_events_bytes(workers, head.entries) > c->events_bytes)
		return -EPROTO;
	for (uint32_t i = 0; i < workers; i++)
		c->ring[i] = (struct sp_ring){.shared = sp_attach_ring(c->events, head.entries, i),
					      .mask = head.entries - 1};
	if (x->arg[2]) {
		rc = sp_attach_map(x->fd[0], x->arg[2], &c->area);
		c->area_bytes = rc ? 0 : x->arg[2];
	}
	return rc;
}

static int sp_attached_open(struct sp_dev *dev, const char *name, const char *handler, const struct sp_setting *setting,
			    size_t settings, uint32_t *id, struct sp_error *error)
{
	struct sp_attached *a = sp_attached(dev);
	struct sp_attached_context *c = calloc(1, sizeof(*c) + a->welcome.workers * sizeof(c->ring[0]));
	struct sp_attach_exchange x = {.op = SP_ATTACH_OPEN, .arg = {settings}, .error = error};
	char *text = malloc(SP_ATTACH_BYTES);
	size_t used = 0;
	void *at;
	int rc = -ENOMEM;

	if (!c || !text)
		goto out;
	for (size_t i = 0; i < 2 + 2 * settings; i++) {
		const struct sp_setting *s = i < 2 ? NULL : &setting[i / 2 - 1];
		const char *string = s ? (i % 2 ? s->value : s->key) : i ? handler : name;
		const size_t len = strlen(string) + 1;

		if (settings > SP_ATTACH_SETTINGS || len > SP_ATTACH_BYTES - used) {
			strcpy(error->text, "settings: too many for a NIC in another process");
			rc = -E2BIG;
			goto out;
		}
		memcpy(text + used, string, len);
		used += len;
	}
	x.data = text;
	x.bytes = (uint32_t)used;
	rc = sp_attach_exchange_memory(&a->link, &x, &at, &c->events_bytes);
	if (rc)
		goto out;
	c->events = at;
	rc = sp_attached_map(a, &x, c);
	sp_attach_release(&x);
	if (rc) {
		struct sp_attach_exchange back = {.op = SP_ATTACH_CLOSE, .arg = {c->id}};

		sp_attach_exchange(&a->link, &back);
		sp_attach_release(&back);
		goto out;
	}
	*id = c->id;
	c->next = a->context[c->id % 256];
	a->context[c->id % 256] = c;
	c = NULL;
out:
	if (c)
		sp_attached_unmap(c);
	free(text);
	return rc;
}

static int sp_attached_context_close(struct sp_dev *dev, uint32_t id)
{
	struct sp_attached *a = sp_attached(dev);
	struct sp_attached_context **at = sp_attached_find(a, id), *c = *at;
	struct sp_attach_exchange x = {.op = SP_ATTACH_CLOSE, .arg = {id}};
	const int rc = sp_attach_exchange(&a->link, &x);

	sp_attach_release(&x);
	if (c && (!rc || rc == -ENOENT || a->link.dead)) {
		*at = c->next;
		sp_attached_unmap(c);
	}
	return rc;
}

/* The context; NULL: an error, in *rc. */
static struct sp_attached_context *sp_attached_context(struct sp_attached *a, uint32_t id, int *rc)
{
	struct sp_attached_context *c = *sp_attached_find(a, id);

	*rc = a->link.dead ? a->link.dead : !c ? -ENOENT : 0;
	if (!*rc && __atomic_load_n(&c->events->closed, __ATOMIC_ACQUIRE))
		*rc = -ECONNRESET;
	return *rc ? NULL : c;
}

static int sp_attached_qp(struct sp_dev *dev, uint32_t id, uint32_t *qpn)
{
	int rc;
	const struct sp_attached_context *c = sp_attached_context(sp_attached(dev), id, &rc);

	if (c)
		*qpn = c->qp;
	return rc;
}

static int sp_attached_area(struct sp_dev *dev, uint32_t id, void **addr, uint64_t *len)
{
	int rc;
	const struct sp_attached_context *c = sp_attached_context(sp_attached(dev), id, &rc);

	if (c) {
		*addr = c->area;
		*len = c->area_bytes;
	}
	return rc;
}

/* ---- commands and events -------------------------------------------------------------------------------------------
 */
static int sp_attached_post(struct sp_dev *dev, const struct sp_command *command)
{
	struct sp_attached *a = sp_attached(dev);
	uint32_t on;
	int rc;
	const struct sp_attached_context *c = sp_attached_context(a, command->context, &rc);

	if (!c)
		return rc;
	on = SP_CMD_WORKER(command->flags) < 0 ? c->home : (uint32_t)SP_CMD_WORKER(command->flags);
	if (on >= a->welcome.workers)
		return -EINVAL;
	rc = sp_attach_post(sp_attach_page(a->queues, a->entries, on), &a->commands[on], command);
	if (rc < 0) {
		rc = sp_attached_look(a);
		return rc ? rc : -EAGAIN;
	}
	if (rc)
		eventfd_write(a->post, 1);
	return 0;
}

static int sp_attached_call(struct sp_dev *dev, const struct sp_command *command, struct sp_event *result)
{
	struct sp_attach_exchange x = {.op = SP_ATTACH_CALL, .data = command, .bytes = sizeof(*command)};
	const int rc = sp_attach_exchange(&sp_attached(dev)->link, &x);

	*result = (struct sp_event){.context = command->context,
				    .type = SP_EVENT_RESULT,
				    .op = command->op,
				    .cookie = command->cookie,
				    .status = rc};
	if (x.reply && x.reply->bytes == sizeof(*result))
		memcpy(result, x.reply->data, sizeof(*result));
	sp_attach_release(&x);
	return rc;
}

static int sp_attached_control(struct sp_dev *dev, bool service, struct sp_control *control)
{
	struct sp_attach_exchange x = {
		.op = SP_ATTACH_CONTROL,
		.arg = {(uint64_t)service << 32 | control->context, control->op, control->qp, control->out_room},
		.data = control->in,
		.bytes = control->in_len};
	const int rc = sp_attach_exchange(&sp_attached(dev)->link, &x);

	if (x.reply && x.reply->bytes <= control->out_room) {
		control->out_len = x.reply->bytes;
		if (control->out_len)
			memcpy(control->out, x.reply->data, control->out_len);
	}
	sp_attach_release(&x);
	return rc;
}

static int sp_attached_take(struct sp_dev *dev, uint32_t id, struct sp_event *event)
{
	struct sp_attached *a = sp_attached(dev);
	int rc;
	struct sp_attached_context *c = sp_attached_context(a, id, &rc);

	if (!c)
		return rc;
	rc = sp_attach_take(c->events, &c->turn, c->ring, a->welcome.workers, event);
	return rc ? sp_attached_look(a) : 1;
}

/* ---- time and sleep ------------------------------------------------------------------------------------------------
 */
static int sp_attached_progress(struct sp_dev *dev, sp_time now)
{
	struct sp_attached *a = sp_attached(dev);

	if (!a->link.dead && now - a->looked >= SP_MS) {
		a->looked = now;
		sp_attach_look(&a->link);
	}
	return a->link.dead;
}

static sp_time sp_attached_deadline(struct sp_dev *dev)
{
	(void)dev; /* the NIC has its own threads */
	return SP_NEVER;
}

static int sp_attached_arm(struct sp_dev *dev, enum sp_arm what)
{
	struct sp_attached *a = sp_attached(dev);

	sp_attach_look(&a->link);
	if (a->link.dead)
		return a->link.dead;
	sp_bell_arm(&a->queues->bell, a->wake, what);
	return 0;
}

static int sp_attached_fd(struct sp_dev *dev)
{
	return sp_attached(dev)->epoll;
}

/* ---- the NIC's own properties --------------------------------------------------------------------------------------
 */
static int sp_attached_address(struct sp_dev *dev, int family, uint8_t ip[16])
{
	const struct sp_attached *a = sp_attached(dev);
	const bool four = family == AF_INET;

	if (a->link.dead)
		return a->link.dead;
	if (!(four ? a->welcome.has4 : a->welcome.has6))
		return -ENOENT;
	memcpy(ip, four ? a->welcome.ip4 : a->welcome.ip6, 16);
	return 0;
}

static uint32_t sp_attached_payload(struct sp_dev *dev, int family)
{
	const struct sp_attached *a = sp_attached(dev);

	return family == AF_INET ? a->welcome.payload4 : a->welcome.payload6;
}

/* ---- attaching -----------------------------------------------------------------------------------------------------
 */
static void sp_attached_close(struct sp_dev *dev)
{
	struct sp_attached *a = sp_attached(dev);

	/* Memory first: what we have let go of, the NIC frees at once. */
	for (unsigned i = 0; i < 256; i++)
		while (a->context[i]) {
			struct sp_attached_context *c = a->context[i];

			a->context[i] = c->next;
			sp_attached_unmap(c);
		}
	for (struct sp_region *r = a->pub.regions; r; r = r->next)
		if (!r->moved)
			munmap(r->mr.addr, r->mr.len);
	if (a->queues)
		munmap(a->queues, a->queues_bytes);
	/* The NIC ends all contexts and regions of a connection with it. */
	if (a->link.fd >= 0)
		close(a->link.fd);
	if (a->wake >= 0)
		close(a->wake);
	if (a->post >= 0)
		close(a->post);
	if (a->epoll >= 0)
		close(a->epoll);
	free(a);
}

static const struct sp_dev_ops sp_attached_ops = {
	.mr_alloc = sp_attached_mr_alloc,
	.mr_free = sp_attached_mr_free,
	.mappings = true,
	.context_open = sp_attached_open,
	.context_close = sp_attached_context_close,
	.context_qp = sp_attached_qp,
	.context_area = sp_attached_area,
	.address = sp_attached_address,
	.payload = sp_attached_payload,
	.command_post = sp_attached_post,
	.command_call = sp_attached_call,
	.control = sp_attached_control,
	.event_take = sp_attached_take,
	.progress = sp_attached_progress,
	.next_deadline = sp_attached_deadline,
	.arm = sp_attached_arm,
	.fd = sp_attached_fd,
	.close = sp_attached_close,
};

void sp_attach_leave(struct sp_dev *dev)
{
	if (dev->ops != &sp_attached_ops)
		return;
	sp_attached(dev)->link.dead = -ENODEV;
	shutdown(sp_attached(dev)->link.fd, SHUT_RDWR);
}

/* Takes over what the NIC's first reply brings: the queues and the wake-up descriptors. */
static int sp_attached_welcome(struct sp_attached *a, struct sp_attach_exchange *x)
{
	struct sp_attach_queues head;

	if (x->reply->bytes != sizeof(a->welcome))
		return -EPROTO;
	memcpy(&a->welcome, x->reply->data, sizeof(a->welcome));
	a->welcome.name[sizeof(a->welcome.name) - 1] = 0;
	if (!a->welcome.workers || a->welcome.workers > SP_ATTACH_WORKERS || a->queues_bytes < sizeof(head))
		return -EPROTO;
	memcpy(&head, a->queues, sizeof(head));
	if (head.magic != SP_ATTACH_MAGIC || head.workers != a->welcome.workers || !head.entries ||
	    head.entries > SP_ATTACH_ENTRIES || head.entries & (head.entries - 1) ||
	    head.workers * sp_attach_stride(head.entries) > a->queues_bytes)
		return -EPROTO;
	a->entries = head.entries;
	for (uint32_t i = 0; i < head.workers; i++)
		a->commands[i] =
			(struct sp_ring){.shared = sp_attach_commands(sp_attach_page(a->queues, head.entries, i)),
					 .mask = head.entries - 1};
	a->wake = x->fd[0];
	a->post = x->fd[1];
	x->fd[0] = x->fd[1] = -1;
	return a->wake < 0 || a->post < 0 ? -EPROTO : 0;
}

static int sp_attached_watch(struct sp_attached *a)
{
	struct epoll_event event = {.events = EPOLLIN};

	a->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (a->epoll < 0 || epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->wake, &event))
		return -errno;
	event.events = EPOLLIN | EPOLLRDHUP;
	return epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->link.fd, &event) ? -errno : 0;
}

int sp_attach(const char *nic, struct sp_dev **dev)
{
	struct sp_attach_exchange x = {.op = SP_ATTACH_HELLO};
	struct sp_attached *a = calloc(1, sizeof(*a));
	void *at;
	int rc;

	if (!a)
		return -ENOMEM;
	a->pub.ops = &sp_attached_ops;
	a->wake = a->post = a->epoll = -1;
	rc = sp_attach_connect(&a->link, nic);
	if (!rc) {
		rc = sp_attach_exchange_memory(&a->link, &x, &at, &a->queues_bytes);
		if (!rc) {
			a->queues = at;
			rc = sp_attached_welcome(a, &x);
		}
		sp_attach_release(&x);
	}
	rc = rc ? rc : sp_attached_watch(a);
	if (rc) {
		sp_attached_close(&a->pub);
		return rc;
	}
	*dev = &a->pub;
	return 0;
}
