/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a port wakes a worker that sleeps: by a descriptor in the worker's epoll, edge-triggered, so that nobody reads
 * it. A peer may share it, and could keep a reader waiting.
 *
 *   af_packet, af_xdp   the driver's socket
 *   tap                 the queue's descriptor. As long as it is readable: the driver takes packets after a signal
 *                       only, which may come later
 *   virtio-user         an eventfd, which the peer writes to while the worker has asked for that
 *   vhost               the same, but it comes and goes with the peer. DPDK frees what describes the peer while a
 *                       worker may ask for it: so it is asked for by DPDK's own thread, in its callback, and the peer
 *                       writes always. A peer that then writes only when asked again (VIRTIO_RING_F_EVENT_IDX) does
 *                       not wake anybody.
 *   others              nothing
 */
#include "wake.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <rte_eth_vhost.h>
#include <rte_vhost.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct sp_port_wake {
	enum { NOTHING, SOCKETS, QUEUES, ASKED, VHOST } by;
	uint16_t ethdev, queues;
	pthread_mutex_t lock;	/* of fd and epoll: VHOST */
	int fd[SP_MAX_WORKERS]; /* VHOST: ours */
	int epoll[SP_MAX_WORKERS];
	_Atomic bool wakes[SP_MAX_WORKERS];
};

static bool is(const struct rte_eth_dev_info *info, const char *driver)
{
	return info->driver_name && !strcmp(info->driver_name, driver);
}

static bool watch(int epoll, int fd, bool level)
{
	struct epoll_event e = {.events = level ? EPOLLIN : EPOLLIN | EPOLLET};

	return epoll < 0 || fd < 0 || !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static void unwatch(int epoll, int fd)
{
	if (epoll >= 0 && fd >= 0)
		epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- vhost: on DPDK's thread ---- */

#define RING(queue) ((uint16_t)(2 * (queue) + 1)) /* what the peer sends by */

/* The peer writes whenever it has sent: it has not been told to do so at a certain packet only. */
static bool peer_writes(int vid)
{
	uint64_t features;

	return !rte_vhost_get_negotiated_features(vid, &features) && !(features & (1ull << VIRTIO_RING_F_EVENT_IDX));
}

static void take_queue(struct sp_port_wake *k, uint16_t queue, int vid)
{
	struct rte_vhost_vring ring;

	unwatch(k->epoll[queue], k->fd[queue]);
	if (k->fd[queue] >= 0)
		close(k->fd[queue]);
	k->fd[queue] = -1;
	k->wakes[queue] = vid < 0; /* whoever comes adds a descriptor */
	if (vid < 0 || !peer_writes(vid) || rte_vhost_get_vhost_vring(vid, RING(queue), &ring) || ring.kickfd < 0)
		return;
	k->fd[queue] = fcntl(ring.kickfd, F_DUPFD_CLOEXEC, 0);
	k->wakes[queue] = k->fd[queue] >= 0 && watch(k->epoll[queue], k->fd[queue], false);
}

/* A peer has come or gone, or has made a queue ready or not. */
static int vhost_changed(uint16_t ethdev, enum rte_eth_event_type event, void *arg, void *reply)
{
	struct sp_port_wake *k = arg;
	struct rte_eth_link link = {0};
	int vid = -1;

	(void)reply;
	rte_eth_link_get_nowait(ethdev, &link);
	if (link.link_status || event == RTE_ETH_EVENT_QUEUE_STATE)
		vid = rte_eth_vhost_get_vid_from_port_id(ethdev);
	pthread_mutex_lock(&k->lock);
	for (uint16_t q = 0; q < k->queues; q++) {
		take_queue(k, q, vid);
		/* Holds for a queue that is not ready yet, too. The queue's lock is held when its state changes. */
		if (vid >= 0 && event == RTE_ETH_EVENT_INTR_LSC)
			rte_vhost_enable_guest_notification(vid, RING(q), 1);
	}
	pthread_mutex_unlock(&k->lock);
	return 0;
}

static const enum rte_eth_event_type vhost_events[] = {RTE_ETH_EVENT_INTR_LSC, RTE_ETH_EVENT_QUEUE_STATE};

/* ---- */

struct sp_port_wake *sp_port_wake_create(uint16_t ethdev, const struct rte_eth_dev_info *info, uint16_t queues,
					 struct rte_eth_conf *conf)
{
	struct sp_port_wake *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->ethdev = ethdev;
	k->queues = queues;
	pthread_mutex_init(&k->lock, NULL);
	k->by = is(info, "net_af_packet") || is(info, "net_af_xdp") ? SOCKETS
		: is(info, "net_tap")				    ? QUEUES
		: is(info, "net_virtio_user")			    ? ASKED
		: is(info, "net_vhost")				    ? VHOST
								    : NOTHING;
	conf->intr_conf.rxq = k->by == QUEUES || k->by == ASKED;
	for (uint16_t q = 0; q < SP_MAX_WORKERS; q++) {
		k->fd[q] = k->epoll[q] = -1;
		k->wakes[q] = k->by == VHOST;
	}
	for (unsigned i = 0; k->by == VHOST && i < RTE_DIM(vhost_events); i++)
		if (rte_eth_dev_callback_register(ethdev, vhost_events[i], vhost_changed, k)) {
			sp_port_wake_destroy(k);
			return NULL;
		}
	return k;
}

void sp_port_wake_started(struct sp_port_wake *k, const int *socket)
{
	for (uint16_t q = 0; q < k->queues; q++)
		if (k->by == SOCKETS)
			k->fd[q] = socket ? socket[q] : -1;
		else if (k->by == QUEUES || k->by == ASKED)
			k->fd[q] = rte_eth_dev_rx_intr_ctl_q_get_fd(k->ethdev, q);
}

void sp_port_wake_destroy(struct sp_port_wake *k)
{
	/* TAP, virtio-user: the driver's own descriptors, which go with the device. */
	if (!k)
		return;
	for (unsigned i = 0; k->by == VHOST && i < RTE_DIM(vhost_events); i++)
		while (rte_eth_dev_callback_unregister(k->ethdev, vhost_events[i], vhost_changed, k) == -EAGAIN)
			sched_yield(); /* it runs */
	for (uint16_t q = 0; k->by == VHOST && q < k->queues; q++)
		if (k->fd[q] >= 0)
			close(k->fd[q]);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

void sp_port_wake_watch(struct sp_port_wake *k, uint16_t queue, int epoll)
{
	pthread_mutex_lock(&k->lock);
	unwatch(k->epoll[queue], k->fd[queue]);
	k->epoll[queue] = epoll;
	if (k->by != VHOST)
		k->wakes[queue] = epoll >= 0 && k->fd[queue] >= 0 && watch(epoll, k->fd[queue], k->by == QUEUES);
	else if (!watch(epoll, k->fd[queue], false))
		k->wakes[queue] = false;
	pthread_mutex_unlock(&k->lock);
}

bool sp_port_wakes(const struct sp_port_wake *k, uint16_t queue)
{
	return atomic_load_explicit(&k->wakes[queue], memory_order_relaxed);
}

void sp_port_wake_signal(struct sp_port_wake *k, uint16_t queue, bool on)
{
	if (k->by != ASKED)
		return;
	if (on)
		rte_eth_dev_rx_intr_enable(k->ethdev, queue);
	else
		rte_eth_dev_rx_intr_disable(k->ethdev, queue);
}
