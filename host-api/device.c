/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of spindle.h: each calls the device's implementation. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "../handlers/wire/attach.h"
#include "device.h"

static int sp_mr_make(struct sp_dev *dev, void *addr, uint64_t len, struct sp_mr **mr)
{
	struct sp_region *r;
	struct sp_mr *m;
	int rc;

	if (!len)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	m = &r->mr;
	m->dev = dev;
	m->addr = addr;
	m->len = len;
	rc = addr ? dev->ops->mr_reg(dev, addr, len, m) : dev->ops->mr_alloc(dev, len, m);
	if (rc) {
		free(r);
		return rc;
	}
	r->next = dev->regions;
	r->back = &dev->regions;
	if (r->next)
		r->next->back = &r->next;
	dev->regions = r;
	*mr = m;
	return 0;
}

int sp_mr_alloc(struct sp_dev *dev, uint64_t len, struct sp_mr **mr)
{
	return sp_mr_make(dev, NULL, len, mr);
}

int sp_mr_reg(struct sp_dev *dev, void *addr, uint64_t len, struct sp_mr **mr)
{
	if (!dev->ops->mr_reg)
		return -EOPNOTSUPP;
	return addr ? sp_mr_make(dev, addr, len, mr) : -EINVAL;
}

int sp_mr_moved(struct sp_mr *mr, void *addr)
{
	if (!mr || !addr)
		return -EINVAL;
	if (!mr->dev->ops->mappings)
		return -EOPNOTSUPP;
	mr->addr = addr;
	((struct sp_region *)mr)->moved = true;
	return 0;
}

int sp_mr_free(struct sp_mr *mr)
{
	struct sp_region *r = (struct sp_region *)mr;
	int rc;

	if (!mr)
		return 0;
	rc = mr->dev->ops->mr_free(mr->dev, mr);
	if (!rc) {
		*r->back = r->next;
		if (r->next)
			r->next->back = r->back;
		free(r);
	}
	return rc;
}

int sp_context_open(struct sp_dev *dev, const char *name, const char *handler, const struct sp_setting *settings,
		    size_t count, uint32_t *id, struct sp_error *error)
{
	struct sp_error ignored;

	error = error ? error : &ignored;
	memset(error, 0, sizeof(*error));
	return dev->ops->context_open(dev, name ? name : "", handler, settings, count, id, error);
}

int sp_context_close(struct sp_dev *dev, uint32_t id)
{
	return dev->ops->context_close(dev, id);
}

int sp_context_qp(struct sp_dev *dev, uint32_t id, uint32_t *qpn)
{
	*qpn = 0;
	return dev->ops->context_qp(dev, id, qpn);
}

int sp_context_area(struct sp_dev *dev, uint32_t id, void **addr, uint64_t *len)
{
	*addr = NULL;
	*len = 0;
	return dev->ops->context_area(dev, id, addr, len);
}

int sp_dev_address(struct sp_dev *dev, int family, uint8_t ip[16])
{
	return dev->ops->address(dev, family, ip);
}

uint32_t sp_dev_payload(struct sp_dev *dev, int family)
{
	return dev->ops->payload(dev, family);
}

int sp_command_post(struct sp_dev *dev, const struct sp_command *command)
{
	return dev->ops->command_post(dev, command);
}

int sp_command_call(struct sp_dev *dev, const struct sp_command *command, struct sp_event *result)
{
	struct sp_event ignored;

	return dev->ops->command_call(dev, command, result ? result : &ignored);
}

int sp_control_call(struct sp_dev *dev, uint32_t id, bool service, uint32_t op, uint32_t qp, const void *data,
		    uint32_t bytes, void *answer, uint32_t *answered)
{
	struct sp_control control = {op, id, qp, bytes, data, answer, answered ? *answered : 0, 0};
	int rc;

	if (bytes > SP_CONTROL_BYTES)
		return -EMSGSIZE;
	if (control.out_room > SP_CONTROL_BYTES)
		control.out_room = SP_CONTROL_BYTES;
	rc = dev->ops->control(dev, service, &control);
	if (answered)
		*answered = control.out_len;
	return rc;
}

int sp_event_take(struct sp_dev *dev, uint32_t id, struct sp_event *event)
{
	return dev->ops->event_take(dev, id, event);
}

int sp_progress(struct sp_dev *dev, sp_time now)
{
	return dev->ops->progress(dev, now);
}

sp_time sp_next_deadline(struct sp_dev *dev)
{
	return dev->ops->next_deadline(dev);
}

/* Picoseconds wrap after 213 days, so they count from the start of the process, not of the machine. */
static struct timespec origin;

__attribute__((constructor)) static void set_origin(void)
{
	clock_gettime(CLOCK_MONOTONIC, &origin);
}

sp_time sp_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (sp_time)(t.tv_sec - origin.tv_sec) * SP_SEC +
	       (sp_time)(t.tv_nsec - origin.tv_nsec + 1000000000) * SP_NS;
}

void sp_bell_arm(struct sp_bell *bell, int fd, enum sp_arm what)
{
	char bytes[64];

	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) == (ssize_t)sizeof(bytes))
		;
	/* A locked operation, not a store: it makes visible all that the NIC did before its last look at the bell. Bits
	 * are added: whoever has armed for more before is not forgotten. */
	__atomic_fetch_or(&bell->armed, what == SP_ARM_RECEIVE ? SP_BELL_RECEIVE : SP_BELL_ANY, __ATOMIC_SEQ_CST);
}

int sp_dev_arm_for(struct sp_dev *dev, enum sp_arm what)
{
	return what == SP_ARM_ANY || what == SP_ARM_RECEIVE ? dev->ops->arm(dev, what) : -EINVAL;
}

int sp_dev_arm(struct sp_dev *dev)
{
	return sp_dev_arm_for(dev, SP_ARM_ANY);
}

int sp_dev_fd(struct sp_dev *dev)
{
	return dev->ops->fd(dev);
}

int sp_dev_wait(struct sp_dev *dev, sp_time timeout)
{
	struct pollfd p = {.fd = sp_dev_fd(dev), .events = POLLIN};
	struct timespec t = {(time_t)(timeout / SP_SEC), (long)(timeout % SP_SEC / SP_NS)};
	int n, r;

	if (p.fd < 0)
		return p.fd;
	n = ppoll(&p, 1, timeout == SP_NEVER ? NULL : &t, NULL);
	r = n < 0 ? -errno : 0;
	if (n >= 0) {
		r = sp_progress(dev, sp_clock()); /* an attached NIC may be gone */
		if (!r && !n)
			r = -ETIMEDOUT;
	}
	return r;
}

void sp_dev_close(struct sp_dev *dev)
{
	struct sp_region *r;

	if (!dev)
		return;
	r = dev->regions;
	dev->ops->close(dev);
	while (r) {
		struct sp_region *next = r->next;

		free(r);
		r = next;
	}
}
