/* SPDX-License-Identifier: BSD-3-Clause */
#include "vdev.h"
#include "../error.h"
#include "../limits.h"
#include "../process.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_bus_vdev.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>

#define RING_SLOTS 1024

struct ring_link { /* a cable between two NICs of this process */
	char name[SP_VDEV_TARGET];
	uint16_t queues;
	bool plugged[2];
	struct rte_ring *ring[2][SP_MAX_WORKERS]; /* receive queues of each side */
	struct ring_link *next;
};

struct sp_vdev {
	struct sp_vdev_spec spec;
	char name[SP_VDEV_NAME];
	struct ring_link *link;
	unsigned side;
	struct sp_vdev *next;
};

/* DPDK's names of devices, rings and packet fan-out groups are per process, so this state is global. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sp_vdev *made;
static struct ring_link *links;
static unsigned names;

/* ---- making ---- */

static void ring_drain(struct rte_ring *ring)
{
	void *m;

	while (!rte_ring_dequeue(ring, &m))
		rte_pktmbuf_free(m);
}

static void link_free(struct ring_link *l)
{
	struct ring_link **at = &links;

	for (unsigned side = 0; side < 2; side++)
		for (uint16_t q = 0; q < l->queues; q++)
			if (l->ring[side][q]) {
				ring_drain(l->ring[side][q]);
				rte_ring_free(l->ring[side][q]);
			}
	while (*at && *at != l)
		at = &(*at)->next;
	if (*at)
		*at = l->next;
	free(l);
}

static struct ring_link *link_new(const char *name, uint16_t queues)
{
	struct ring_link *l = calloc(1, sizeof(*l));
	char ring[RTE_RING_NAMESIZE];

	if (!l)
		return NULL;
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->queues = queues;
	for (unsigned i = 0; i < 2u * queues; i++) {
		snprintf(ring, sizeof(ring), "sp-link-%u", names++);
		l->ring[i & 1][i / 2] = rte_ring_create(ring, RING_SLOTS, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (!l->ring[i & 1][i / 2]) {
			link_free(l);
			return NULL;
		}
	}
	l->next = links;
	links = l;
	return l;
}

static int make_ring(struct sp_vdev *v, const struct sp_vdev_wants *w, struct sp_error *error)
{
	struct ring_link *l = links;
	char name[16];

	while (l && strcmp(l->name, v->spec.target))
		l = l->next;
	if (l && l->plugged[0] && l->plugged[1])
		return sp_error_set(error, EBUSY, "port", "ring:%s has two ends, and both are in use", l->name);
	if (l && l->queues != w->queues)
		return sp_error_set(error, EINVAL, "workers", "ring:%s: the other end has %u workers, this one %u",
				    l->name, l->queues, w->queues);
	if (!l)
		l = link_new(v->spec.target, w->queues);
	if (!l)
		return sp_error_set(error, ENOMEM, "port", "ring:%s: no memory for the rings (EAL's -m is too small)",
				    v->spec.target);
	v->link = l;
	v->side = l->plugged[0];
	for (uint16_t q = 0; q < l->queues; q++) /* drop packets sent while this end was unplugged */
		ring_drain(l->ring[v->side][q]);
	snprintf(name, sizeof(name), "sp%u", names++);
	snprintf(v->name, sizeof(v->name), "net_ring_%s", name);
	if (rte_eth_from_rings(name, l->ring[v->side], l->queues, l->ring[!v->side], l->queues, 0) < 0) {
		if (!l->plugged[!v->side])
			link_free(l);
		return sp_error_set(error, rte_errno ? rte_errno : ENODEV, "port", "ring:%s: %s", v->spec.target,
				    rte_strerror(rte_errno));
	}
	l->plugged[v->side] = true;
	return 0;
}

static int make_device(struct sp_vdev *v, const struct sp_vdev_wants *w, struct sp_error *error)
{
	const struct sp_vdev_type *kind = &sp_vdev_types[v->spec.kind];
	char args[3 * SP_VDEV_TARGET], said[128];
	int r;

	r = sp_vdev_check(&v->spec, w, error);
	if (r)
		return r;
	if (v->spec.kind == SP_VDEV_RING)
		return make_ring(v, w, error);
	if (sp_vdev_arguments(&v->spec, w, args, sizeof(args)))
		return sp_error_set(error, E2BIG, "port", "%s: too many arguments", kind->name);
	/* Remove a dead process's socket; sp_vdev_check found no listener. */
	if (sp_vdev_listens(&v->spec))
		unlink(v->spec.target);
	snprintf(v->name, sizeof(v->name), "%s_sp%u", kind->driver, names++);
	sp_process_log_hold();
	r = rte_vdev_init(v->name, args);
	sp_process_log_release(said, sizeof(said));
	/* The driver derives the fan-out group (used even with one queue) from pid and interface: it may collide. */
	if (r && v->spec.kind == SP_VDEV_AF_PACKET && strstr(said, "PACKET_FANOUT"))
		return sp_error_set(error, EADDRINUSE, "port",
				    "%s:%s: another NIC already uses the fan-out group that DPDK derives from our "
				    "process id and the interface: start it again (DPDK says: %s)",
				    kind->name, v->spec.target, said);
	if (r)
		return sp_error_set(error, r < 0 && r != -1 ? -r : ENODEV, "port",
				    "%s:%s: DPDK's %s does not start%s%s", kind->name, v->spec.target, kind->driver,
				    *said ? ": " : "", said);
	return 0;
}

int sp_vdev_make(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *wants, struct sp_error *error,
		 struct sp_vdev **out)
{
	struct sp_vdev *v = calloc(1, sizeof(*v)), *o;
	int r;

	if (!v)
		return sp_error_set(error, ENOMEM, "port", "no memory for a port");
	v->spec = *spec;
	pthread_mutex_lock(&lock);
	for (o = made; o; o = o->next)
		if (sp_vdev_types[spec->kind].exclusive && o->spec.kind == spec->kind &&
		    !strcmp(o->spec.target, spec->target))
			break;
	if (o)
		r = sp_error_set(error, EBUSY, "port", "%s:%s is in use by a NIC of this process",
				 sp_vdev_types[spec->kind].name, spec->target);
	else
		r = make_device(v, wants, error);
	if (!r) {
		v->next = made;
		made = v;
	}
	pthread_mutex_unlock(&lock);
	if (r)
		free(v);
	else
		*out = v;
	return r;
}

const char *sp_vdev_name(const struct sp_vdev *vdev)
{
	return vdev->name;
}

void sp_vdev_remove(struct sp_vdev *v)
{
	struct sp_vdev **at = &made;

	if (!v)
		return;
	pthread_mutex_lock(&lock);
	sp_process_log_hold();
	rte_vdev_uninit(v->name);
	sp_process_log_release(NULL, 0);
	if (v->link) {
		v->link->plugged[v->side] = false;
		if (!v->link->plugged[!v->side])
			link_free(v->link);
	}
	while (*at != v)
		at = &(*at)->next;
	*at = v->next;
	pthread_mutex_unlock(&lock);
	free(v);
}
