/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event channels. The descriptor is one end of a pair of sockets: as with the kernel's, poll() and O_NONBLOCK work on
 * it, and who waits in rdma_get_cm_event() can be cancelled and interrupted. One byte says that the queue is not empty.
 */
#include "cm.h"

#include <sys/socket.h>
#include <unistd.h>

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct shim_cm_channel *c;
	int fd[2];

	if (shim_cm_open())
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) {
		free(c);
		return NULL;
	}
	c->channel.fd = fd[0];
	c->other = fd[1];
	c->last = &c->first;
	c->generation = shim_cm.generation;
	return &c->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct shim_cm_channel *c = (struct shim_cm_channel *)channel;

	unsigned waiting;

	if (!c)
		return;
	pthread_mutex_lock(&shim_cm.mutex);
	waiting = c->generation == shim_cm.generation ? c->waiting : 0;
	pthread_mutex_unlock(&shim_cm.mutex);
	close(c->channel.fd);
	/* A thread that waits goes on waiting, as it would for the kernel: programs end so, and take an error for one.
	 */
	if (waiting)
		return;
	close(c->other);
	free(c);
}

/* The descriptor follows the queue. One who waits may have read the byte, and looks again when the mutex is his: then
 * one byte too many may be there, so all are read. */
static void follow(struct shim_cm_channel *c)
{
	char bytes[16];

	if (c->first && !c->told)
		c->told = send(c->other, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
	if (c->first || !c->told)
		return;
	while (recv(c->channel.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	c->told = false;
}

void shim_cm_push(struct shim_cm_channel *c, struct shim_cm_event *e)
{
	e->next = NULL;
	*c->last = e;
	c->last = &e->next;
	follow(c);
}

struct shim_cm_event *shim_cm_take_all(struct shim_cm_channel *c, const struct shim_cm_id *x)
{
	struct shim_cm_event **at = &c->first, *taken = NULL, **last = &taken;

	while (*at) {
		struct shim_cm_event *e = *at;

		if (e->owner != x && e->owner->unseen != x) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = NULL;
		*last = e;
		last = &e->next;
	}
	c->last = at;
	follow(c);
	return taken;
}

static void waits_no_more(void *channel)
{
	pthread_mutex_lock(&shim_cm.mutex);
	((struct shim_cm_channel *)channel)->waiting--;
	pthread_mutex_unlock(&shim_cm.mutex);
}

struct shim_cm_event *shim_cm_wait(struct shim_cm_channel *c)
{
	struct shim_cm_event *e;
	ssize_t got;
	char byte;

	for (bool read = false;; read = true) {
		pthread_mutex_lock(&shim_cm.mutex);
		if (read)
			c->told = false;
		e = c->first;
		if (e) {
			c->first = e->next;
			if (!c->first)
				c->last = &c->first;
			e->owner->reported++;
			c->told |= !c->first; /* nothing may stay behind */
			follow(c);
		} else {
			c->waiting++;
		}
		pthread_mutex_unlock(&shim_cm.mutex);
		if (e)
			return e;
		pthread_cleanup_push(waits_no_more, c);
		got = recv(c->channel.fd, &byte, 1, 0);
		pthread_cleanup_pop(true);
		if (got < 0)
			return NULL;
	}
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct shim_cm_event *e = (struct shim_cm_event *)event;

	if (!e)
		return shim_cm_fail(EINVAL);
	pthread_mutex_lock(&shim_cm.mutex);
	e->owner->acked++;
	pthread_cond_broadcast(&shim_cm.acked);
	pthread_mutex_unlock(&shim_cm.mutex);
	free(e);
	return 0;
}
