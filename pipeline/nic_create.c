/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/context.h"
#include "engine.h"
#include "error.h"
#include "context.h"
#include "observe/gone.h"
#include "exec/handover.h"
#include "exec/rings.h"
#include "tx/zero_copy.h"
#include "mem/machine.h"
#include "rx/match.h"
#include "mem/memory.h"
#include "exec/measure.h"
#include "tx/neighbour.h"
#include "ports/identity.h"
#include "ports/port.h"
#include "process.h"
#include "user.h"
#include "exec/scheduler.h"
#include "view.h"
#include "observe/watchdog.h"
#include "worker.h"
#include "worker_sleep.h"

#include <stdlib.h>

#include <rte_eal.h>
#include <rte_rcu_qsbr.h>

static const struct sp_nic_config defaults = {.mtu = 1500, .workers = 1, .seed = 1};

static int create_workers(struct sp_nic *nic)
{
	sp_seed_words(nic->hash_key, 2, nic->config.secret ? nic->config.secret : ~nic->config.seed);
	for (uint16_t i = 0; i < nic->workers; i++) {
		struct sp_worker *w = aligned_alloc(64, RTE_ALIGN(sizeof(*w), 64));

		if (!w)
			return -ENOMEM;
		memset(w, 0, sizeof(*w));
		w->nic = nic;
		w->index = i;
		w->late = 10 * SP_US;
		TAILQ_INIT(&w->working);
		TAILQ_INIT(&w->issuing);
		sp_queue_init(&w->parked);
		sp_queue_init(&w->pending);
		sp_pool_init(&w->places, w->place, RTE_DIM(w->place));
		sp_generator_seed(&w->random, nic->config.seed + i * 0x9E3779B97F4A7C15ull);
		nic->worker[i] = w;
	}
	sp_meters_set(nic, false);
	return nic->config.cycles ? sp_scheduler_create(nic) : 0;
}

static int make_unpredictable(struct sp_nic *nic)
{
	const int r = sp_workers_secret(nic);

	while (!r && !nic->config.secret)
		nic->config.secret = sp_worker_random(nic->worker[0]);
	sp_seed_words(nic->hash_key, 2, nic->config.secret);
	return r;
}

/* RCU thread ids are worker indexes. */
static int create_readers(struct sp_nic *nic)
{
	const size_t bytes = rte_rcu_qsbr_get_memsize(nic->workers);

	nic->readers = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN(bytes, RTE_CACHE_LINE_SIZE));
	return !nic->readers || rte_rcu_qsbr_init(nic->readers, nic->workers) ? -ENOMEM : 0;
}

static int check_config(const struct sp_nic_config *c, struct sp_error *error)
{
	if (c->workers > SP_MAX_WORKERS)
		return sp_error_set(error, EINVAL, "workers", "%u workers: at most %d", c->workers, SP_MAX_WORKERS);
	if (c->mtu < 256 || c->mtu > SP_PACKET_ROOM - 64)
		return sp_error_set(error, EINVAL, "mtu", "mtu %u: 256 to %d", c->mtu, SP_PACKET_ROOM - 64);
	if (c->vlan > 4094)
		return sp_error_set(error, EINVAL, "vlan", "VLAN %u: 1 to 4094, or 0 for none", c->vlan);
	if (c->addresses > SP_MAX_ADDRESSES || c->ports > SP_MAX_PORTS || c->neighbours > SP_MAX_STATIC)
		return sp_error_set(error, EINVAL, "", "too many addresses, ports or neighbours");
	return 0;
}

static void set_addresses(struct sp_nic *nic)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

	for (unsigned i = 0; i < nic->config.addresses; i++) {
		const uint8_t *ip = nic->config.address[i].ip;

		if (!memcmp(ip, mapped, 12))
			memcpy(&nic->own4[nic->own4s++], ip + 12, 4);
		else
			memcpy(nic->own6[nic->own6s++], ip, 16);
	}
}

/* Locally administered, from the seed and the address: two NICs with the default seed are still two. */
static void make_mac(uint64_t random, const struct sp_nic_config *config, uint8_t mac[6])
{
	uint64_t ip[2];

	memcpy(ip, config->address[0].ip, sizeof(ip));
	random ^= (ip[0] * 0x9E3779B97F4A7C15ull) ^ (ip[1] * 0xD6E8FEB86659FD93ull) >> 16;
	memcpy(mac, &random, 6);
	mac[0] = 0x02;
}

static void set_macs(struct sp_nic *nic)
{
	static const uint8_t none[6];
	uint8_t *first = nic->port[0].mac;

	memcpy(first, nic->config.mac, 6);
	if (!memcmp(first, none, 6) && !(nic->ports && !sp_port_mac(&nic->port[0], first)))
		make_mac(sp_worker_random(nic->worker[0]), &nic->config, first);
	for (unsigned i = 1; i < nic->ports; i++) {
		uint8_t *mac = nic->port[i].mac;

		if (!sp_port_mac(&nic->port[i], mac))
			continue;
		/* Not from the worker's generator: its sequence must not depend on the number of ports. */
		make_mac(nic->config.seed * 0xD1342543DE82EF95ull, &nic->config, mac);
		mac[1] ^= (uint8_t)i; /* each port's another one */
	}
}

static char *keep_string(const char *s)
{
	return s ? strdup(s) : NULL;
}

int sp_nic_create(const struct sp_nic_config *config, struct sp_error *error, struct sp_nic **out)
{
	struct sp_nic *nic;
	int r;

	if (error)
		memset(error, 0, sizeof(*error));
	if (!sp_process_pool())
		return sp_error_set(error, EINVAL, "", "sp_eal_init has not been called");
	nic = calloc(1, sizeof(*nic));
	if (!nic)
		return sp_error_set(error, ENOMEM, "", "no memory for a NIC");
	nic->config = *config;
	nic->port = calloc(SP_MAX_PORTS + 1, sizeof(*nic->port));
	if (!nic->port) {
		free(nic);
		return sp_error_set(error, ENOMEM, "", "no memory for a NIC");
	}
	nic->exception = &nic->port[SP_MAX_PORTS];
	for (unsigned i = 0; i < SP_MAX_PORTS; i++)
		nic->config.port[i].device = keep_string(i < config->ports ? config->port[i].device : NULL);
	nic->config.exception.device = keep_string(config->exception.device);
	nic->config.mtu = config->mtu ? config->mtu : defaults.mtu;
	nic->config.workers = nic->workers = config->workers ? config->workers : defaults.workers;
	nic->config.seed = config->seed ? config->seed : defaults.seed;
	nic->seeded = config->seed && !config->unpredictable;
	nic->config.memory_limit = config->memory_limit ? config->memory_limit : sp_machine_memory() / 2;
	nic->icrc_off = config->icrc_off || config->payload_less;
	nic->park_after = SP_QUIET_POLLS;
	nic->any_source = config->any_source;
	nic->vlan = config->vlan;
	pthread_mutex_init(&nic->control, NULL);
	r = check_config(&nic->config, error);
	if (r) {
		nic->workers = 0;
		goto fail;
	}
	if (create_workers(nic) || create_readers(nic) || sp_handover_create(nic) || sp_memory_create(nic) ||
	    sp_users_create(nic) || sp_qp_table_create(~nic->config.seed, &nic->qps) || sp_notifier_create(nic)) {
		r = sp_error_set(error, ENOMEM, "", "no memory for a NIC");
		goto fail;
	}
	r = sp_routes_set(&nic->routes, &nic->config, error);
	if (r)
		goto fail;
	set_addresses(nic);
	for (unsigned i = 0; i < config->ports; i++) {
		nic->port[i].index = (uint16_t)i;
		r = sp_port_open(&nic->port[i], &nic->config.port[i], nic, nic->workers, error);
		if (r)
			goto fail;
		nic->ports++;
	}
	set_macs(nic); /* the last that comes from the seed, if the rest must not */
	r = nic->config.unpredictable ? make_unpredictable(nic) : 0;
	if (r) {
		sp_error_set(error, -r, "", "no random numbers: %s", strerror(-r));
		goto fail;
	}
	r = sp_identity_open(nic, error);
	if (r)
		goto fail;
	r = sp_neighbours_create(&nic->config, &nic->routes, &nic->neighbours);
	if (r) {
		sp_error_set(error, -r, "neighbour", "neighbour table: %s", strerror(-r));
		goto fail;
	}
	*out = nic;
	return 0;
fail:
	sp_nic_destroy(nic);
	return r;
}

static void free_queues(struct sp_worker *w)
{
	const struct sp_waiting *waiting;

	for (unsigned p = 0; p <= SP_PORT_LOOP; p++)
		for (struct sp_tx_queue *q = &w->tx[p]; q->count; q->count--) {
			rte_pktmbuf_free(q->packet[q->head]);
			q->head = (q->head + 1) % SP_TX_QUEUE;
		}
	STAILQ_FOREACH (waiting, &w->pending.list, next)
		rte_pktmbuf_free(waiting->frame);
}

void sp_nic_destroy(struct sp_nic *nic)
{
	if (!nic)
		return;
	sp_nic_stop(nic);
	for (uint32_t i = 0; i < nic->context_next; i++)
		if (nic->context[i])
			sp_context_remove(nic->context[i]);
	for (uint16_t w = 0; w < nic->workers && nic->worker[w]; w++)
		free_queues(nic->worker[w]);
	sp_handover_destroy(nic);
	for (unsigned i = 0; i < nic->ports; i++)
		sp_port_stop(&nic->port[i]);
	if (nic->has_exception)
		sp_port_stop(nic->exception);
	sp_zc_detach(nic);
	sp_neighbours_destroy(nic->neighbours);
	sp_qp_table_destroy(nic->qps);
	sp_memory_destroy(nic); /* the ports' devices let go of it */
	for (unsigned i = 0; i < nic->ports; i++)
		sp_port_close(&nic->port[i]);
	if (nic->has_exception)
		sp_port_close(nic->exception);
	sp_notifier_destroy(nic);
	sp_watchdog_destroy(nic);
	sp_stats_forget(nic);
	sp_scheduler_destroy(nic);
	for (uint16_t w = 0; w < SP_MAX_WORKERS; w++) {
		if (nic->worker[w])
			sp_sleep_destroy(nic->worker[w]);
		if (nic->worker[w])
			free(nic->worker[w]->flow_cache);
		if (nic->worker[w])
			explicit_bzero(&nic->worker[w]->random, sizeof(nic->worker[w]->random));
		free(nic->worker[w]);
	}
	for (unsigned i = 0; i < SP_MAX_PORTS; i++)
		free((void *)(uintptr_t)nic->config.port[i].device);
	free((void *)(uintptr_t)nic->config.exception.device);
	free(nic->port);
	free(nic->readers);
	free(nic->tracers);
	sp_users_destroy(nic);
	pthread_mutex_destroy(&nic->control);
	free(nic);
}

uint16_t sp_nic_workers(const struct sp_nic *nic)
{
	return nic->workers;
}

/* ---- contexts of an embedding program ---- */

int sp_nic_context_add(struct sp_nic *nic, const struct sp_context_config *config, uint32_t *id, struct sp_error *error)
{
	struct sp_context *c;
	int r;

	pthread_mutex_lock(&nic->control);
	r = sp_watchdog_pass(nic, error);
	if (!r)
		r = sp_context_add(nic, config, NULL, &c, error);
	if (!r && id)
		*id = c->id;
	pthread_mutex_unlock(&nic->control);
	return r;
}

int sp_nic_context_remove(struct sp_nic *nic, uint32_t id)
{
	struct sp_context *c;
	int r;

	pthread_mutex_lock(&nic->control);
	c = sp_context_by_id(nic, id);
	r = c ? sp_watchdog_pass(nic, NULL) : -ENOENT;
	if (!r)
		sp_context_remove(c);
	pthread_mutex_unlock(&nic->control);
	return r;
}

int sp_nic_context_find(struct sp_nic *nic, const char *name, uint32_t *id)
{
	int r = -ENOENT;

	pthread_mutex_lock(&nic->control);
	for (uint32_t i = 0; i < nic->context_next && r; i++)
		if (nic->context[i] && !strcmp(nic->context[i]->name, name)) {
			*id = nic->context[i]->id;
			r = 0;
		}
	pthread_mutex_unlock(&nic->control);
	return r;
}

uint64_t sp_nic_context_post_bytes(struct sp_nic *nic, uint32_t id)
{
	const struct sp_context *c;
	uint64_t bytes;

	pthread_mutex_lock(&nic->control); /* the context could be freed meanwhile */
	c = sp_context_by_id(nic, id);
	bytes = c ? c->view[c->home]->pub.post_bytes : 0;
	pthread_mutex_unlock(&nic->control);
	return bytes;
}
