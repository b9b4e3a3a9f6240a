/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <errno.h>
#include <string.h>

#include <rte_mbuf.h>

#include "../../testbed/random.h"

static void feed(void *arg, sp_time now)
{
	struct replay_link *l = arg;
	void *end = sp_link_port(l->link, 0);
	struct rte_mbuf *back[32];
	unsigned n;

	while ((n = sp_link_ops.receive(end, 0, back, 32, now)))
		rte_pktmbuf_free_bulk(back, n);
	for (;;) {
		if (!l->held && !sp_pcap_ops.receive(l->from, 0, &l->held, 1, now))
			return;
		if (!sp_link_ops.transmit(end, 0, &l->held, 1, now))
			return; /* the link is busy: the sender waits */
		l->held = NULL;
	}
}

static sp_time feed_next(void *arg)
{
	const struct replay_link *l = arg;
	const sp_time link = sp_link_ops.next(sp_link_port(l->link, 0), 0, l->held != NULL);
	const sp_time capture = l->held ? SP_NEVER : sp_pcap_ops.next(l->from, 0, false);

	return link < capture ? link : capture;
}

/* Port 0 has the seed as it was given. The others have unrelated ones: not the same losses, and not those of the next
 * seed. */
static uint64_t seed_of(uint64_t seed, unsigned index)
{
	uint64_t state = seed;

	for (unsigned i = 0; i < index; i++)
		seed = sp_splitmix(&state);
	return seed;
}

int replay_link_open(struct replay *r, unsigned index, uint16_t workers, struct sp_port_config *port)
{
	struct sp_link_config config = r->link_config;
	struct replay_link *l = &r->link[index];
	int err;

	config.queues[1] = workers;
	config.seed = seed_of(config.seed, index);
	err = sp_link_create(&config, &l->link);
	if (err) {
		replay_complain(r, "the link: %s", strerror(-err));
		return err;
	}
	l->from = &r->port[index];
	*port = (struct sp_port_config){.ops = &sp_link_ops, .ops_arg = sp_link_port(l->link, 1)};
	if (r->out) { /* records what the NIC sends before the link can lose it */
		l->tap = (struct sp_port_tap){
			.ops = port->ops, .port = port->ops_arg, .out = r->out, .interface = index};
		*port = (struct sp_port_config){.ops = &sp_port_tap_ops, .ops_arg = &l->tap};
	}
	return 0;
}

int replay_link_feed(struct replay *r)
{
	int err = 0;

	for (unsigned i = 0; i < SP_MAX_PORTS && !err; i++)
		if (r->link[i].link)
			err = sp_world_add_host(
				r->world, &(struct sp_world_host){.step = feed, .next = feed_next, .arg = &r->link[i]});
	return err;
}

bool replay_link_over(const struct replay *r)
{
	for (unsigned i = 0; i < SP_MAX_PORTS; i++)
		if (r->link[i].link && (r->link[i].held || sp_link_in_flight(r->link[i].link, 0)))
			return false;
	return true;
}

void replay_link_close(struct replay *r)
{
	for (unsigned i = 0; i < SP_MAX_PORTS; i++) {
		if (r->link[i].held)
			rte_pktmbuf_free(r->link[i].held);
		sp_link_destroy(r->link[i].link);
	}
}
