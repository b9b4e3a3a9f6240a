/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker_sleep.h"
#include "engine.h"
#include "exec/rings.h"
#include "ports/port.h"
#include "ports/wake.h"
#include "worker_wake.h"

#include <poll.h>
#include <rte_rcu_qsbr.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EDGE                                                                                                           \
	{                                                                                                              \
		.events = EPOLLIN | EPOLLET                                                                            \
	} /* nobody needs to read it */

static struct sp_port *port_of(struct sp_nic *nic, unsigned i)
{
	return i < nic->ports ? &nic->port[i] : nic->has_exception && i == nic->ports ? nic->exception : NULL;
}

/* Of a port that is the program's own. */
static int own_descriptor(const struct sp_port *port, uint16_t queue)
{
	return port->ops->descriptor ? port->ops->descriptor(port->arg, queue) : -1;
}

static void watch_ports(struct sp_nic *nic, uint16_t worker, int epoll)
{
	struct epoll_event edge = EDGE;
	struct sp_port *port;

	for (unsigned i = 0; (port = port_of(nic, i)) != NULL; i++)
		if (port->wake)
			sp_port_wake_watch(port->wake, worker, epoll);
		else if (own_descriptor(port, worker) >= 0 && epoll >= 0)
			epoll_ctl(epoll, EPOLL_CTL_ADD, own_descriptor(port, worker), &edge);
}

static void create(struct sp_worker *w)
{
	struct epoll_event edge = EDGE;

	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->can_sleep = w->epoll >= 0 && w->wake >= 0 && !epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &edge);
	if (w->can_sleep)
		return;
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->wake >= 0)
		close(w->wake);
}

void sp_sleep_start(struct sp_nic *nic)
{
	if (!nic->sleep_most)
		nic->sleep_most = SP_SLEEP_MOST;
	for (uint16_t i = 0; nic->config.idle == SP_IDLE_SLEEP && i < nic->workers; i++) {
		struct sp_worker *w = nic->worker[i];

		if (!w->can_sleep)
			create(w);
		if (w->can_sleep)
			watch_ports(nic, i, w->epoll);
	}
}

void sp_sleep_stop(struct sp_nic *nic)
{
	for (uint16_t i = 0; i < nic->workers; i++)
		if (nic->worker[i]->can_sleep)
			watch_ports(nic, i, -1);
}

void sp_sleep_destroy(struct sp_worker *w)
{
	if (!w->can_sleep)
		return;
	close(w->epoll);
	close(w->wake);
}

static void signals(struct sp_worker *w, bool on)
{
	struct sp_port *port;

	for (unsigned i = 0; (port = port_of(w->nic, i)) != NULL; i++)
		if (port->wake)
			sp_port_wake_signal(port->wake, w->index, on);
}

static bool ports_wake(struct sp_worker *w)
{
	const struct sp_port *port;

	for (unsigned i = 0; (port = port_of(w->nic, i)) != NULL; i++)
		if (port->wake ? !sp_port_wakes(port->wake, w->index) : own_descriptor(port, w->index) < 0)
			return false;
	return true;
}

bool sp_sleep_begin(struct sp_worker *w)
{
	if (!w->can_sleep || !ports_wake(w) || !sp_commands_doze(w))
		return false;
	w->drowsy = true;
	atomic_store(&w->asleep, 1);
	signals(w, true);
	return true;
}

bool sp_sleep(struct sp_worker *w, sp_time most)
{
	struct pollfd p = {.fd = w->epoll, .events = POLLIN};
	struct epoll_event told[8];
	struct timespec time;
	bool came;

	most = RTE_MIN(most, w->nic->sleep_most);
	time = (struct timespec){.tv_sec = (time_t)(most / SP_SEC), .tv_nsec = (long)(most % SP_SEC / SP_NS)};
	w->sleeps++;
	rte_rcu_qsbr_thread_offline(w->nic->readers, w->index);
	came = ppoll(&p, 1, &time, NULL) > 0;
	if (came) {
		w->sleeps_woken++;
		epoll_wait(w->epoll, told, RTE_DIM(told), 0);
	}
	rte_rcu_qsbr_thread_online(w->nic->readers, w->index);
	return came;
}

void sp_sleep_end(struct sp_worker *w)
{
	w->drowsy = false;
	atomic_store_explicit(&w->asleep, 0, memory_order_relaxed);
	signals(w, false);
	sp_commands_rouse(w);
}

void sp_sleep_wake_others(struct sp_worker *w)
{
	uint32_t gave = w->gave;

	w->gave = 0;
	rte_smp_mb();
	for (; gave; gave &= gave - 1)
		sp_worker_wake(w->nic->worker[__builtin_ctz(gave)]);
}
