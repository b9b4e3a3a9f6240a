/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <errno.h>
#include <string.h>

#include <rte_mbuf.h>

static void feed(void *arg, sp_time now)
{
	struct replay *r = arg;
	struct replay_link *l = &r->link;
	void *end = sp_link_port(l->link, 0);
	struct rte_mbuf *back[32];
	unsigned n;

	while ((n = sp_link_ops.receive(end, 0, back, 32, now)))
		rte_pktmbuf_free_bulk(back, n);
	for (;;) {
		if (!l->held && !sp_pcap_ops.receive(&r->port, 0, &l->held, 1, now))
			return;
		if (!sp_link_ops.transmit(end, 0, &l->held, 1, now))
			return; /* the link is busy: the sender waits */
		l->held = NULL;
	}
}

static sp_time feed_next(void *arg)
{
	struct replay *r = arg;
	const sp_time link = sp_link_ops.next(sp_link_port(r->link.link, 0), 0, r->link.held != NULL);
	const sp_time capture = r->link.held ? SP_NEVER : sp_pcap_ops.next(&r->port, 0, false);

	return link < capture ? link : capture;
}

int replay_link_open(struct replay *r, uint16_t workers, struct sp_port_config *port)
{
	int err;

	r->link_config.queues[1] = workers;
	err = sp_link_create(&r->link_config, &r->link.link);
	if (err) {
		replay_complain(r, "the link: %s", strerror(-err));
		return err;
	}
	*port = (struct sp_port_config){.ops = &sp_link_ops, .ops_arg = sp_link_port(r->link.link, 1)};
	if (r->port.out) { /* records what the NIC sends before the link can lose it */
		r->link.tap = (struct sp_port_tap){.ops = port->ops, .port = port->ops_arg, .out = r->port.out};
		*port = (struct sp_port_config){.ops = &sp_port_tap_ops, .ops_arg = &r->link.tap};
	}
	return 0;
}

int replay_link_feed(struct replay *r)
{
	const struct sp_world_host feeder = {.step = feed, .next = feed_next, .arg = r};

	return sp_world_add_host(r->world, &feeder);
}

bool replay_link_over(const struct replay *r)
{
	return !r->link.held && !sp_link_in_flight(r->link.link, 0);
}

void replay_link_close(struct replay *r)
{
	if (r->link.held)
		rte_pktmbuf_free(r->link.held);
	sp_link_destroy(r->link.link);
}
