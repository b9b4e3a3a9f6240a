/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: the queues that descriptors stand for, asynchronous events, completion channels. */
#include "shim.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- queues ---- */
/* Each read takes one, so that the descriptor is readable as long as there is something, and blocks as the program
 * wants it to (O_NONBLOCK). */
int shim_queue_open(struct shim_queue *q)
{
	q->first = NULL;
	q->last = &q->first;
	q->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	return q->fd < 0 ? -errno : 0;
}

void shim_queue_close(struct shim_queue *q)
{
	if (q->fd >= 0)
		close(q->fd);
	q->fd = -1;
}

static void queue_add(struct shim_queue *q, struct shim_source *s)
{
	s->next = NULL;
	*q->last = s;
	q->last = &s->next;
}

static void queue_remove(struct shim_queue *q, struct shim_source *s)
{
	struct shim_source **at = &q->first;

	while (*at && *at != s)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = s->next;
	if (!*at)
		q->last = at;
}

void shim_tell(struct shim_queue *q, struct shim_source *s, unsigned bit)
{
	const uint64_t one = 1;

	if (s->pending >> bit & 1)
		return; /* what was not taken yet comes once */
	if (!s->pending)
		queue_add(q, s);
	s->pending |= 1u << bit;
	while (write(q->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void shim_untell(struct shim_queue *q, struct shim_source *s)
{
	uint64_t one;
	struct iovec part = {&one, sizeof(one)};

	if (!s->pending)
		return;
	queue_remove(q, s);
	/* A reader that is quicker finds an empty queue, and reads once more. */
	for (; s->pending; s->pending &= s->pending - 1)
		while (preadv2(q->fd, &part, 1, -1, RWF_NOWAIT) < 0 && errno == EINTR)
			;
}

struct shim_source *shim_queue_read(struct shim_queue *q, unsigned *bit)
{
	struct shim_source *s;
	uint64_t one;

	*bit = 0;
	for (;;) {
		if (read(q->fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
			return NULL;
		shim_lock();
		if (q->first)
			break;
		shim_unlock();
	}
	s = q->first;
	*bit = (unsigned)__builtin_ctz(s->pending);
	queue_remove(q, s);
	s->pending &= s->pending - 1;
	if (s->pending) /* behind the others */
		queue_add(q, s);
	return s;
}

void shim_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked, uint32_t events)
{
	pthread_mutex_lock(mutex);
	while (*acked != events)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

/* ---- asynchronous events ---- */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct shim_context *c = shim_context_of(context);
	unsigned bit;
	struct shim_source *s = shim_queue_read(&c->async, &bit);

	if (!s)
		return -1;
	event->event_type = (enum ibv_event_type)bit;
	switch (s->kind) {
	case SHIM_CQ:
		event->element.cq = s->object;
		((struct shim_cq *)s->object)->events++;
		break;
	case SHIM_SRQ:
		event->element.srq = s->object;
		((struct shim_srq *)s->object)->events++;
		break;
	case SHIM_QP:
		event->element.qp = s->object;
		((struct shim_qp *)s->object)->events++;
		break;
	default:
		event->element.port_num = 1;
		break;
	}
	shim_unlock();
	return 0;
}

static void async_ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *acked)
{
	pthread_mutex_lock(mutex);
	++*acked;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	switch ((int)event->event_type) {
	case IBV_EVENT_CQ_ERR:
		async_ack(&event->element.cq->mutex, &event->element.cq->cond,
			  &event->element.cq->async_events_completed);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		async_ack(&event->element.srq->mutex, &event->element.srq->cond, &event->element.srq->events_completed);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		async_ack(&event->element.qp->mutex, &event->element.qp->cond, &event->element.qp->events_completed);
		break;
	}
}

/* ---- completion channels ---- */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct shim_channel *h = calloc(1, sizeof(*h));
	int rc = h ? shim_queue_open(&h->queue) : -ENOMEM;

	if (rc) {
		free(h);
		errno = -rc;
		return NULL;
	}
	h->ibv.context = context;
	h->ibv.fd = h->queue.fd;
	shim_lock();
	shim_make(shim_context_of(context), &h->made, SHIM_CHANNEL, h);
	shim_unlock();
	return &h->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct shim_channel *h = (struct shim_channel *)channel;

	shim_lock();
	if (channel->refcnt) {
		shim_unlock();
		return EBUSY;
	}
	shim_unmake(&h->made);
	shim_unlock();
	shim_queue_close(&h->queue);
	free(h);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct shim_cq *q;
	unsigned bit;
	struct shim_source *s = shim_queue_read(&((struct shim_channel *)channel)->queue, &bit);

	if (!s)
		return -1;
	q = s->object;
	q->completions++;
	*cq = &q->ibv;
	*cq_context = q->ibv.cq_context;
	shim_unlock();
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int events)
{
	if (!events)
		return;
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += events;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
