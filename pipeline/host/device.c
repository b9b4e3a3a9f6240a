/* SPDX-License-Identifier: BSD-3-Clause */
/* An application as the NIC sees it, and the calls of a program that embeds the NIC. For an application in another
 * process the server makes the same calls. */
#include "../control/context.h"
#include "../control/service.h"
#include "../engine.h"
#include "../exec/rings.h"
#include "../tx/zero_copy.h"
#include "../mem/freeing.h"
#include "../mem/memory.h"
#include "../user.h"
#include "../worker_call.h"
#include "opened.h"

#include <rte_common.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LESS 2 /* contexts that sp_device_less() ends: each takes one to three milliseconds */

static struct sp_device *device_of(struct sp_dev *dev)
{
	return (struct sp_device *)dev;
}

/* ---- regions ---- */

static int mr_add(struct sp_dev *dev, void *addr, uint64_t len, struct sp_mr *mr)
{
	struct sp_device *d = device_of(dev);
	struct sp_backing b;
	struct sp_mem *mem;
	int r = 0;

	if (d->made && d->made->len == len) { /* made by the server in slices */
		b = *d->made;
		d->made = NULL;
	} else {
		r = sp_memory_back(d->nic, d->account, addr, len, d->owner ? SP_BACKING_SHARED : SP_BACKING_PRIVATE,
				   &b);
	}
	if (r)
		return r;
	pthread_mutex_lock(&d->nic->control);
	r = sp_memory_insert(d->nic, &b, d->owner, &mem);
	pthread_mutex_unlock(&d->nic->control);
	if (r) {
		sp_memory_unback(d->nic, &b);
		return r;
	}
	*mr = (struct sp_mr){.dev = dev, .addr = mem->base, .len = len, .id = mem->id};
	return 0;
}

static int dev_mr_alloc(struct sp_dev *dev, uint64_t len, struct sp_mr *mr)
{
	return mr_add(dev, NULL, len, mr);
}

static int dev_mr_reg(struct sp_dev *dev, void *addr, uint64_t len, struct sp_mr *mr)
{
	if (device_of(dev)->owner) /* addr is in another process */
		return -EOPNOTSUPP;
	return addr ? mr_add(dev, addr, len, mr) : -EINVAL;
}

static int dev_mr_free(struct sp_dev *dev, struct sp_mr *mr)
{
	struct sp_device *d = device_of(dev);
	int r;

	pthread_mutex_lock(&d->nic->control);
	r = sp_memory_remove(d->nic, mr->id, d->owner);
	if (r == -EBUSY) { /* a port may have sent zero-copy packets from it without completing them yet */
		sp_zc_reclaim(d->nic);
		r = sp_memory_remove(d->nic, mr->id, d->owner);
	}
	pthread_mutex_unlock(&d->nic->control);
	return r;
}

struct sp_shm *sp_device_region(struct sp_device *d, uint32_t id)
{
	return sp_memory_shared(d->nic, id, d->owner);
}

/* ---- contexts ---- */

static struct sp_context *own_context(struct sp_device *d, uint32_t id)
{
	struct sp_context *c = sp_context_by_id(d->nic, id);

	return c && c->owner == d->owner ? c : NULL;
}

/* The event queue of context id. A look-up by an embedding program also remembers contexts that it did not open. */
static int look_up(struct sp_device *d, uint32_t id, struct sp_event_queue **events)
{
	struct sp_opened *o = *sp_opened_find(d, id);

	if (!o && !d->owner) {
		struct sp_opened *new = malloc(sizeof(*new));
		struct sp_context *c;

		if (!new)
			return -ENOMEM;
		pthread_mutex_lock(&d->nic->control);
		c = own_context(d, id);
		if (c)
			o = sp_opened_remember(d, new, c);
		pthread_mutex_unlock(&d->nic->control);
		if (!c)
			free(new);
	}
	if (!o)
		return -ENOENT;
	*events = o->events;
	return sp_opened_ended(o) ? -ECONNRESET : 0;
}

static int dev_context_open(struct sp_dev *dev, const char *name, const char *handler, const struct sp_setting *setting,
			    size_t settings, uint32_t *id, struct sp_error *error)
{
	struct sp_device *d = device_of(dev);
	struct sp_context_config config = {.name = name, .handler = handler, .setting = setting, .settings = settings};
	struct sp_opened *o = malloc(sizeof(*o));
	struct sp_context *c;
	int r;

	if (!o)
		return -ENOMEM;
	pthread_mutex_lock(&d->nic->control);
	r = sp_context_add(d->nic, &config, d, &c, error);
	if (!r) {
		*id = c->id;
		sp_opened_remember(d, o, c);
		if (c->events->lent)
			d->events = NULL;
		c->events->lent = false;
	}
	pthread_mutex_unlock(&d->nic->control);
	if (r)
		free(o);
	return r;
}

static int dev_context_close(struct sp_dev *dev, uint32_t id)
{
	struct sp_device *d = device_of(dev);
	struct sp_opened **at = sp_opened_find(d, id);
	struct sp_context *c;
	int r;

	pthread_mutex_lock(&d->nic->control);
	c = own_context(d, id);
	r = c || *at ? 0 : -ENOENT;
	if (c)
		sp_context_remove(c);
	if (*at)
		sp_opened_forget(at);
	pthread_mutex_unlock(&d->nic->control);
	return r;
}

static int dev_context_qp(struct sp_dev *dev, uint32_t id, uint32_t *qpn)
{
	struct sp_event_queue *q;
	int r = look_up(device_of(dev), id, &q);

	if (!r)
		*qpn = q->qp;
	return r;
}

static int dev_context_area(struct sp_dev *dev, uint32_t id, void **addr, uint64_t *len)
{
	struct sp_event_queue *q;
	int r = look_up(device_of(dev), id, &q);

	if (r)
		return r;
	*addr = q->area ? q->area->base : NULL;
	*len = q->area ? q->area->len : 0;
	return 0;
}

struct sp_shm *sp_device_events(struct sp_device *d, uint32_t context)
{
	struct sp_opened *o = *sp_opened_find(d, context);

	return o ? &o->events->memory : NULL;
}

struct sp_shm *sp_device_area(struct sp_device *d, uint32_t context)
{
	struct sp_opened *o = *sp_opened_find(d, context);

	return o && o->events->area ? sp_memory_shared(d->nic, o->events->area->id, d->owner) : NULL;
}

int sp_device_home(struct sp_device *d, uint32_t context)
{
	struct sp_opened *o = *sp_opened_find(d, context);

	return o ? o->events->home : -ENOENT;
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

/* ---- commands and events ---- */

static int dev_command_post(struct sp_dev *dev, const struct sp_command *cmd)
{
	struct sp_device *d = device_of(dev);
	struct sp_event_queue *q;
	int r = look_up(d, cmd->context, &q);
	struct sp_command_queue *to;

	if (r)
		return r;
	to = &d->commands[q->home];
	if (SP_CMD_WORKER(cmd->flags) >= 0) { /* the worker refuses what is not of its flows */
		if (SP_CMD_WORKER(cmd->flags) >= d->nic->workers)
			return -EINVAL;
		to = &d->commands[SP_CMD_WORKER(cmd->flags)];
	}
	r = sp_attach_post(to->page, &to->writer, cmd);
	if (r > 0) /* the queue is parked; in this process waking needs no system call */
		sp_commands_wake(to);
	return r < 0 ? r : 0;
}

static int dev_command_call(struct sp_dev *dev, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_device *d = device_of(dev);
	struct sp_context *c;

	*result = (struct sp_event){.context = cmd->context,
				    .type = SP_EVENT_RESULT,
				    .op = cmd->op,
				    .cookie = cmd->cookie,
				    .status = *sp_opened_find(d, cmd->context) ? -ECONNRESET : -ENOENT};
	pthread_mutex_lock(&d->nic->control);
	c = own_context(d, cmd->context);
	if (c) {
		const int on = sp_command_worker(c, cmd);

		if (on >= 0)
			sp_commands_wake(&d->commands[on]); /* earlier posts come first, also from a parked queue */
		sp_command_run(c, cmd, result);
	}
	pthread_mutex_unlock(&d->nic->control);
	return result->status;
}

static int dev_control(struct sp_dev *dev, bool service, struct sp_control *control)
{
	struct sp_device *d = device_of(dev);
	struct sp_context *c;
	int r = *sp_opened_find(d, control->context) ? -ECONNRESET : -ENOENT;

	pthread_mutex_lock(&d->nic->control);
	c = own_context(d, control->context);
	if (c)
		r = sp_service_ask(c, service, control);
	pthread_mutex_unlock(&d->nic->control);
	return r;
}

static int dev_event_take(struct sp_dev *dev, uint32_t id, struct sp_event *event)
{
	struct sp_device *d = device_of(dev);
	struct sp_event_queue *q;
	int r = look_up(d, id, &q);

	return r ? r : !sp_attach_take(q->memory.base, &q->turn, q->reader, d->nic->workers, event);
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

/* ---- sleeping ---- */

static struct sp_bell *bell_of(struct sp_device *d)
{
	return &((struct sp_attach_queues *)d->queues.base)->bell;
}

static int open_door(struct sp_device *d)
{
	int r;

	if (d->driven || !d->nic->started)
		return -EOPNOTSUPP;
	if (d->door_open)
		return 0;
	pthread_mutex_lock(&d->nic->control);
	r = sp_doorbell_open(d->nic, &d->door, false);
	pthread_mutex_unlock(&d->nic->control);
	d->door_open = !r;
	return r;
}

static int dev_fd(struct sp_dev *dev)
{
	int r = open_door(device_of(dev));

	return r ? r : device_of(dev)->door.application;
}

static int dev_arm(struct sp_dev *dev, enum sp_arm what)
{
	int r = open_door(device_of(dev));

	if (!r)
		sp_bell_arm(bell_of(device_of(dev)), device_of(dev)->door.application, what);
	return r;
}

/* ---- the device itself ---- */

static void destroy(struct sp_device *d)
{
	sp_freeing_memory(d->nic, d->account, sp_account_uid(d->account), &d->queues, d->queues.bytes);
	sp_freeing_disown(d->nic, d->account);
	sp_account_destroy(d->account);
	free(d);
}

bool sp_device_less(struct sp_device *d)
{
	struct sp_nic *nic = d->nic;
	unsigned removed = 0;

	pthread_mutex_lock(&nic->control);
	for (uint32_t i = 0; i < nic->context_next && removed < LESS; i++)
		if (nic->context[i] && nic->context[i]->device == d) {
			sp_context_remove(nic->context[i]);
			removed++;
		}
	pthread_mutex_unlock(&nic->control);
	return removed == LESS;
}

static void dev_close(struct sp_dev *dev)
{
	struct sp_device *d = device_of(dev);
	struct sp_nic *nic = d->nic;

	pthread_mutex_lock(&nic->control);
	for (uint32_t i = 0; i < nic->context_next; i++)
		if (nic->context[i] && nic->context[i]->device == d)
			sp_context_remove(nic->context[i]);
	for (unsigned i = 0; i < SP_OPENED_LISTS; i++)
		while (d->opened[i])
			sp_opened_forget(&d->opened[i]);
	for (struct sp_device **at = &nic->device; *at; at = &(*at)->next)
		if (*at == d) {
			__atomic_store_n(at, d->next, __ATOMIC_RELEASE);
			break;
		}
	if (d->door_open)
		sp_doorbell_mute(nic, &d->door);
	for (unsigned w = 0; d->started && w < nic->workers; w++)
		sp_worker_call(nic->worker[w], sp_commands_forget, &d->commands[w]);
	if (d->pub.regions) /* a port may have sent zero-copy packets from them without completing them yet */
		sp_zc_reclaim(nic);
	for (struct sp_region *r = d->pub.regions; r; r = r->next)
		sp_memory_remove(nic, r->mr.id, d->owner);
	if (d->owner)
		sp_memory_remove_owner(nic, d->owner);
	if (d->door_open)
		sp_doorbell_close(nic, &d->door);
	pthread_mutex_unlock(&nic->control);
	destroy(d);
}

static const struct sp_dev_ops embedded = {
	.mr_alloc = dev_mr_alloc,
	.mr_reg = dev_mr_reg,
	.mr_free = dev_mr_free,
	.context_open = dev_context_open,
	.context_close = dev_context_close,
	.context_qp = dev_context_qp,
	.context_area = dev_context_area,
	.address = dev_address,
	.payload = dev_payload,
	.command_post = dev_command_post,
	.command_call = dev_command_call,
	.control = dev_control,
	.event_take = dev_event_take,
	.progress = dev_progress,
	.next_deadline = dev_next_deadline,
	.arm = dev_arm,
	.fd = dev_fd,
	.close = dev_close,
};

size_t sp_device_queues_bytes(const struct sp_nic *nic)
{
	return sp_shm_pages(nic->workers * sp_attach_stride(SP_COMMANDS));
}

void sp_device_queues_init(const struct sp_nic *nic, void *queues)
{
	for (uint32_t w = 0; w < nic->workers; w++) {
		struct sp_attach_queues *page = sp_attach_page(queues, SP_COMMANDS, w);

		page->magic = SP_ATTACH_MAGIC;
		page->workers = nic->workers;
		page->entries = SP_COMMANDS;
	}
}

static int create_queues(struct sp_device *d, struct sp_shm *queues)
{
	const size_t bytes = sp_device_queues_bytes(d->nic);
	int r = sp_memory_charge(d->nic, d->account, bytes);

	if (r)
		return r;
	r = d->account ? sp_shm_create(bytes, "spindle-queues", false, queues) : sp_shm_private(bytes, queues);
	if (r)
		sp_memory_credit(d->nic, d->account, bytes);
	else
		sp_device_queues_init(d->nic, queues->base);
	return r;
}

/* The account of an application of this user. */
static int create_account(struct sp_device *d, const struct sp_device_user *who)
{
	struct sp_user *u;
	int r = sp_account_create(who->limits, &d->account);

	if (r)
		return r;
	pthread_mutex_lock(&d->nic->control);
	u = sp_user_take(d->nic, who->uid, who->trusted, who->user);
	if (u)
		sp_account_join(d->nic, d->account, u);
	pthread_mutex_unlock(&d->nic->control);
	return u ? 0 : -ENOMEM;
}

int sp_device_begin(struct sp_nic *nic, const struct sp_device_user *who, struct sp_device **device)
{
	struct sp_device *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->pub.ops = &embedded;
	d->nic = nic;
	d->queues.fd = d->queues.file = -1;
	r = who ? create_account(d, who) : 0;
	if (r) {
		sp_account_destroy(d->account);
		free(d);
		return r;
	}
	*device = d;
	return 0;
}

int sp_device_start(struct sp_device *d, struct sp_shm *queues)
{
	struct sp_nic *nic = d->nic;
	int r = 0;

	d->queues = *queues;
	*queues = (struct sp_shm){.fd = -1, .file = -1};
	for (uint32_t w = 0; w < nic->workers; w++) {
		struct sp_attach_queues *page = sp_attach_page(d->queues.base, SP_COMMANDS, w);
		struct sp_command_queue *q = &d->commands[w];

		q->writer.shared = q->reader.shared = sp_attach_commands(page);
		q->writer.mask = q->reader.mask = SP_COMMANDS - 1;
		q->page = page;
		q->device = d;
		q->worker = nic->worker[w];
		q->share = d->account ? &d->account->share[w] : &nic->own->share[w];
		q->allowance = d->account && d->account->user->limited ? &d->account->user->allowance[w] : NULL;
	}
	d->door.bell = bell_of(d);
	pthread_mutex_lock(&nic->control);
	if (d->account) {
		r = sp_doorbell_open(nic, &d->door, true);
		d->door_open = !r;
		if (!++nic->owner_next)
			nic->owner_next = 1;
		d->owner = nic->owner_next;
	}
	if (!r) {
		d->next = nic->device;
		__atomic_store_n(&nic->device, d, __ATOMIC_RELEASE);
		d->started = true;
		for (unsigned w = 0; w < nic->workers; w++)
			sp_commands_wake(&d->commands[w]);
	}
	pthread_mutex_unlock(&nic->control);
	return r;
}

int sp_device_create_for(struct sp_nic *nic, const struct sp_device_user *who, struct sp_device **device)
{
	struct sp_shm queues;
	struct sp_device *d;
	int r = sp_device_begin(nic, who, &d);

	if (r)
		return r;
	r = create_queues(d, &queues);
	r = r ? r : sp_device_start(d, &queues);
	if (r)
		destroy(d);
	else
		*device = d;
	return r;
}

int sp_device_create(struct sp_nic *nic, bool attached, const struct sp_limits *limits, struct sp_device **device)
{
	const struct sp_device_user who = {.uid = geteuid(), .trusted = true, .limits = limits};

	return sp_device_create_for(nic, attached ? &who : NULL, device);
}

int sp_nic_dev(struct sp_nic *nic, bool driven, struct sp_dev **dev)
{
	struct sp_device *d;
	int r = sp_device_create(nic, false, NULL, &d);

	if (r)
		return r;
	d->driven = driven;
	*dev = &d->pub;
	return 0;
}
