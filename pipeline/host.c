/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"
#include "../handlers/wire/ring.h"
#include "context.h"
#include "memory.h"

#include <stdlib.h>
#include <sys/socket.h>

/* A context that the application opened and has not closed, which the NIC may have ended meanwhile: the application
 * still reads its area then. */
struct opened {
	struct opened *next;
	uint32_t id, area; /* area: its region, 0: none */
};

/* An application, as the NIC sees it. Here: one in the NIC's own process. */
struct sp_device {
	struct sp_dev pub;
	struct sp_nic *nic;
	uint32_t owner; /* 0: in this process, trusted with the NIC's own contexts */
	bool driven;
	struct sp_device *next;
	struct opened *opened; /* the application's thread alone */
	struct {
		struct sp_ring writer, reader; /* the application's side and the worker's */
	} commands[SP_MAX_WORKERS];
};

/* Events of one context: a queue per worker, so that each has one writer. */
struct sp_event_queue {
	struct {
		struct sp_ring writer, reader;
	} worker[SP_MAX_WORKERS];
	unsigned next; /* where the reader looks first */
};

static int ring_init(struct sp_ring *writer, struct sp_ring *reader, void *memory, uint32_t entries)
{
	if (!memory)
		return -ENOMEM;
	writer->shared = reader->shared = memory;
	writer->mask = reader->mask = entries - 1;
	return 0;
}

int sp_events_create(struct sp_context *c)
{
	struct sp_event_queue *q;

	if (c->first) { /* a companion speaks for its context: the host knows one queue */
		c->events = c->first->events;
		return 0;
	}
	q = sp_context_alloc(c, sizeof(*q));
	if (!q)
		return -ENOMEM;
	for (unsigned w = 0; w < c->nic->workers; w++)
		if (ring_init(&q->worker[w].writer, &q->worker[w].reader, sp_context_alloc(c, SP_RING_BYTES(SP_EVENTS)),
			      SP_EVENTS))
			return -ENOMEM;
	c->events = q;
	return 0;
}

int sp_event_post(struct sp_ctx *ctx, const struct sp_event *e)
{
	struct sp_view *v = sp_view_of(ctx);
	struct sp_event copy = *e;

	copy.context = v->context->id;
	if (!sp_ring_put(&v->context->events->worker[ctx->worker].writer, &copy))
		return 0;
	v->events_lost++;
	return -EAGAIN;
}

/* ---- the worker's side ---- */

/* One command, copied from the application: everything in it is a claim. */
static int execute(struct sp_worker *w, struct sp_context *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_view *v = c->view[w->index];

	*result = (struct sp_event){.context = c->id, .type = SP_EVENT_RESULT, .op = cmd->op, .cookie = cmd->cookie};
	v->pub.now = w->now;
	result->status = c->handler->command ? c->handler->command(&v->pub, cmd, result) : -EOPNOTSUPP;
	return result->status;
}

unsigned sp_commands_run(struct sp_worker *w)
{
	unsigned n = 0;

	for (struct sp_device *d = __atomic_load_n(&w->nic->device, __ATOMIC_ACQUIRE); d;
	     d = __atomic_load_n(&d->next, __ATOMIC_ACQUIRE)) {
		struct sp_command cmd;

		for (unsigned i = 0; i < SP_COMMANDS_PER_POLL && !sp_ring_take(&d->commands[w->index].reader, &cmd);
		     i++, n++) {
			struct sp_context *c = sp_context_by_id(w->nic, cmd.context);
			struct sp_event result;

			if (!c || c->owner != d->owner || c->home != w->index)
				continue; /* closed meanwhile; the library refuses what never was */
			if (execute(w, c, &cmd, &result) || cmd.flags & SP_CMD_REPLY)
				sp_event_post(&c->view[w->index]->pub, &result);
		}
	}
	return n;
}

bool sp_commands_waiting(const struct sp_worker *w)
{
	for (struct sp_device *d = __atomic_load_n(&w->nic->device, __ATOMIC_ACQUIRE); d;
	     d = __atomic_load_n(&d->next, __ATOMIC_ACQUIRE))
		if (!sp_ring_empty(&d->commands[w->index].reader))
			return true;
	return false;
}

/* ---- the embedded device's operations ---- */

static struct sp_device *device_of(struct sp_dev *dev)
{
	return (struct sp_device *)dev;
}

static int mr_add(struct sp_dev *dev, void *addr, uint64_t len, struct sp_mr *mr)
{
	struct sp_device *d = device_of(dev);
	struct sp_mem *mem;
	int r;

	pthread_mutex_lock(&d->nic->control);
	r = sp_memory_add(d->nic, addr, len, d->owner, &mem);
	pthread_mutex_unlock(&d->nic->control);
	if (r)
		return r;
	*mr = (struct sp_mr){.dev = dev, .addr = mem->base, .len = len, .id = mem->id};
	return 0;
}

static int dev_mr_alloc(struct sp_dev *dev, uint64_t len, struct sp_mr *mr)
{
	return mr_add(dev, NULL, len, mr);
}

static int dev_mr_reg(struct sp_dev *dev, void *addr, uint64_t len, struct sp_mr *mr)
{
	return addr ? mr_add(dev, addr, len, mr) : -EINVAL;
}

static int dev_mr_free(struct sp_dev *dev, struct sp_mr *mr)
{
	struct sp_device *d = device_of(dev);
	int r;

	pthread_mutex_lock(&d->nic->control);
	r = sp_memory_remove(d->nic, mr->id, d->owner);
	pthread_mutex_unlock(&d->nic->control);
	return r;
}

static int dev_context_open(struct sp_dev *dev, const char *name, const char *handler, const struct sp_setting *setting,
			    size_t settings, uint32_t *id, struct sp_error *error)
{
	struct sp_device *d = device_of(dev);
	struct sp_context_config config = {.name = name, .handler = handler, .setting = setting, .settings = settings};
	struct opened *o = calloc(1, sizeof(*o));
	struct sp_context *c;
	int r;

	if (!o)
		return -ENOMEM;
	pthread_mutex_lock(&d->nic->control);
	r = sp_context_add(d->nic, &config, d->owner, &c, error);
	if (!r) {
		c->device = d;
		*id = c->id;
		*o = (struct opened){d->opened, c->id, c->area ? c->area->id : 0};
		d->opened = o;
	}
	pthread_mutex_unlock(&d->nic->control);
	if (r)
		free(o);
	return r;
}

static struct sp_context *own_context(struct sp_device *d, uint32_t id)
{
	struct sp_context *c = sp_context_by_id(d->nic, id);

	return c && c->owner == d->owner ? c : NULL;
}

/* Where the list names id; what is there is NULL when it does not. */
static struct opened **find_opened(struct sp_device *d, uint32_t id)
{
	struct opened **at = &d->opened;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

/* Why there is no such context. */
static int gone(struct sp_device *d, uint32_t id)
{
	return *find_opened(d, id) ? -ECONNRESET : -ENOENT;
}

/* Its context has ended. */
static void forget(struct sp_device *d, struct opened **at)
{
	struct opened *o = *at;

	if (o->area)
		sp_memory_remove(d->nic, o->area, d->owner);
	*at = o->next;
	free(o);
}

static int dev_context_close(struct sp_dev *dev, uint32_t id)
{
	struct sp_device *d = device_of(dev);
	struct opened **at = find_opened(d, id);
	struct sp_context *c;
	int r;

	pthread_mutex_lock(&d->nic->control);
	c = own_context(d, id);
	r = c || *at ? 0 : -ENOENT;
	if (c)
		sp_context_remove(c);
	if (*at)
		forget(d, at);
	pthread_mutex_unlock(&d->nic->control);
	return r;
}

static int dev_context_area(struct sp_dev *dev, uint32_t id, void **addr, uint64_t *len)
{
	struct sp_context *c = own_context(device_of(dev), id);

	if (!c)
		return gone(device_of(dev), id);
	*addr = c->area ? c->area->base : NULL;
	*len = c->area ? c->area->len : 0;
	return 0;
}

static int dev_address(struct sp_dev *dev, int family, uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	const struct sp_nic_config *config = &device_of(dev)->nic->config;

	for (unsigned i = 0; i < config->addresses; i++)
		if (!memcmp(config->address[i].ip, mapped, 12) == (family == AF_INET)) {
			memcpy(ip, config->address[i].ip, 16);
			return 0;
		}
	return -ENOENT;
}

static uint32_t dev_payload(struct sp_dev *dev, int family)
{
	/* IP, UDP, BTH, RETH, ImmDt, ICRC */
	uint32_t head = (family == AF_INET ? 20 : 40) + 8 + 12 + 16 + 4 + 4;
	uint32_t mtu = device_of(dev)->nic->config.mtu;

	return mtu > head ? (mtu - head) & ~3u : 0;
}

static int dev_command_post(struct sp_dev *dev, const struct sp_command *cmd)
{
	struct sp_device *d = device_of(dev);
	struct sp_context *c = own_context(d, cmd->context);

	return c ? sp_ring_put(&d->commands[c->home].writer, cmd) : gone(d, cmd->context);
}

struct call {
	struct sp_device *device;
	const struct sp_command *command;
	struct sp_event *result;
};

static void run_call(struct sp_worker *w, void *arg)
{
	struct call *call = arg;
	struct sp_context *c = sp_context_by_id(w->nic, call->command->context);

	/* What was posted before comes first; not without end, should others go on posting. */
	for (unsigned i = 0; i < SP_COMMANDS / SP_COMMANDS_PER_POLL && sp_commands_run(w); i++)
		;
	if (c)
		execute(w, c, call->command, call->result);
}

static int dev_command_call(struct sp_dev *dev, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_device *d = device_of(dev);
	struct sp_event local;
	struct call call = {d, cmd, result ? result : &local};
	struct sp_context *c;

	pthread_mutex_lock(&d->nic->control);
	c = own_context(d, cmd->context);
	*call.result = (struct sp_event){.context = cmd->context,
					 .type = SP_EVENT_RESULT,
					 .op = cmd->op,
					 .cookie = cmd->cookie,
					 .status = gone(d, cmd->context)};
	if (c)
		sp_worker_call(d->nic->worker[c->home], run_call, &call);
	pthread_mutex_unlock(&d->nic->control);
	return call.result->status;
}

static int dev_event_take(struct sp_dev *dev, uint32_t id, struct sp_event *event)
{
	struct sp_device *d = device_of(dev);
	struct sp_context *c = own_context(d, id);

	if (!c)
		return gone(d, id);
	for (unsigned i = 0; i < d->nic->workers; i++) {
		unsigned w = (c->events->next + i) % d->nic->workers;

		if (!sp_ring_take(&c->events->worker[w].reader, event)) {
			c->events->next = w + 1;
			return 1;
		}
	}
	return 0;
}

static int dev_progress(struct sp_dev *dev, sp_time now)
{
	struct sp_device *d = device_of(dev);

	if (d->driven && !d->nic->started)
		for (uint16_t w = 0; w < d->nic->workers; w++)
			sp_nic_poll(d->nic, w, now);
	return 0;
}

static sp_time dev_next_deadline(struct sp_dev *dev)
{
	struct sp_device *d = device_of(dev);
	sp_time next = SP_NEVER;

	if (d->driven && !d->nic->started)
		for (uint16_t w = 0; w < d->nic->workers; w++)
			next = RTE_MIN(next, sp_nic_next_deadline(d->nic, w));
	return next;
}

static void pass_by(struct sp_worker *w, void *arg)
{
	(void)w;
	(void)arg;
}

static void dev_close(struct sp_dev *dev)
{
	struct sp_device *d = device_of(dev);
	struct sp_nic *nic = d->nic;

	pthread_mutex_lock(&nic->control);
	for (uint32_t i = 0; i < nic->context_next; i++)
		if (nic->context[i] && nic->context[i]->device == d)
			sp_context_remove(nic->context[i]);
	while (d->opened)
		forget(d, &d->opened);
	for (struct sp_device **at = &nic->device; *at; at = &(*at)->next)
		if (*at == d) {
			__atomic_store_n(at, d->next, __ATOMIC_RELEASE);
			break;
		}
	for (unsigned w = 0; w < nic->workers; w++)
		sp_worker_call(nic->worker[w], pass_by, NULL);
	for (struct sp_region *r = d->pub.regions; r; r = r->next)
		sp_memory_remove(nic, r->mr.id, d->owner);
	pthread_mutex_unlock(&nic->control);
	for (unsigned w = 0; w < nic->workers; w++)
		free(d->commands[w].writer.shared);
	free(d);
}

static const struct sp_dev_ops embedded = {
	.mr_alloc = dev_mr_alloc,
	.mr_reg = dev_mr_reg,
	.mr_free = dev_mr_free,
	.context_open = dev_context_open,
	.context_close = dev_context_close,
	.context_area = dev_context_area,
	.address = dev_address,
	.payload = dev_payload,
	.command_post = dev_command_post,
	.command_call = dev_command_call,
	.event_take = dev_event_take,
	.progress = dev_progress,
	.next_deadline = dev_next_deadline,
	.close = dev_close,
};

int sp_nic_dev(struct sp_nic *nic, bool driven, struct sp_dev **dev)
{
	struct sp_device *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->pub.ops = &embedded;
	d->nic = nic;
	d->driven = driven;
	for (unsigned w = 0; w < nic->workers; w++) {
		void *memory = aligned_alloc(64, SP_RING_BYTES(SP_COMMANDS));

		if (ring_init(&d->commands[w].writer, &d->commands[w].reader, memory, SP_COMMANDS)) {
			while (w--)
				free(d->commands[w].writer.shared);
			free(d);
			return -ENOMEM;
		}
		memset(memory, 0, sizeof(struct sp_ring_shared));
	}
	pthread_mutex_lock(&nic->control);
	d->next = nic->device;
	__atomic_store_n(&nic->device, d, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&nic->control);
	*dev = &d->pub;
	return 0;
}
