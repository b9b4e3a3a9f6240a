/* SPDX-License-Identifier: BSD-3-Clause */
/* Real NICs that carry messages: which ranks talk, the memory and the NICs for that, and what does not fit. */
#include "real.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../pipeline/limits.h"
#include "../../pipeline/mem/machine.h"
#include "../../pipeline/process.h"

#define MTU	    9000u /* of the NICs: whatever a packet has, it fits */
#define MEASURED    8u	  /* NICs that the memory of the others is told from */
#define ALIGN	    64u
#define ARRIVALS    32u	       /* packet buffers of a NIC beside those that wait for its port, */
#define ANSWERS	    8u	       /* ... which may be acknowledgements, too: so many for each rank that it talks to */
#define BUFFERS_MAX (1u << 16) /* packet buffers of all, at most */

uint64_t real_resident(void)
{
	unsigned long long all, here;
	FILE *f = fopen("/proc/self/statm", "re");
	int n = 0;

	if (f) {
		n = fscanf(f, "%llu %llu", &all, &here);
		fclose(f);
	}
	return n == 2 ? here * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* ---- what cannot be ---- */
static int check(const struct run *r, const struct motif_run_config *c, char *why, size_t whylen)
{
	const struct motif_nic *n = &r->nic;
	const bool rvma = n->transport == MOTIF_RVMA;

	if (n->transport == MOTIF_MPI)
		return run_wrong(why, whylen, "real NICs have the transports rvma, rdma and rdma-polled, not mpi");
	if (n->sends == MOTIF_SEND_READ)
		return run_wrong(why, whylen, "real NICs tell of acknowledgements, not when they have read a message");
	if (n->header != MOTIF_HEADERS)
		return run_wrong(why, whylen, "real NICs make their headers themselves");
	if (rvma && (n->packet < 64 || n->packet > 4096))
		return run_wrong(why, whylen, "a packet of RVMA has 64 to 4096 bytes of payload, not %u", n->packet);
	if (!rvma && (n->packet < 256 || n->packet > 4096 || (n->packet & (n->packet - 1))))
		return run_wrong(why, whylen,
				 "a packet of RC has 256, 512, 1024, 2048 or 4096 bytes of payload, not %u", n->packet);
	if (c->selective && rvma)
		return run_wrong(why, whylen, "only RC has selective repeat");
	if (r->ranks > REAL_RANKS_MAX)
		return run_wrong(why, whylen, "there can be at most %u real NICs, not %u", REAL_RANKS_MAX, r->ranks);
	return 0;
}

/* ---- who talks ---- */
static int channel_add(struct run *r, uint32_t src, uint32_t dst, struct channel **added)
{
	static const struct queue empty = {NONE, NONE};
	struct real_rank *a = &r->real->rank[src], *b = &r->real->rank[dst];
	struct channel **out = reallocarray(a->out, a->outs + 1, sizeof(*out)), **in;
	struct channel *c = calloc(1, sizeof(*c));

	a->out = out ? out : a->out;
	in = reallocarray(b->in, b->ins + 1, sizeof(*in));
	b->in = in ? in : b->in;
	if (!out || !c || !in) {
		free(c);
		return -ENOMEM;
	}
	*c = (struct channel){.src = src, .dst = dst, .waiting = empty, .asked = empty};
	for (uint32_t i = 0; i < REAL_SLOTS; i++)
		c->slot[i] = (struct slot){.channel = c, .t = NONE, .completion = NONE, .number = (uint8_t)i};
	a->out[a->outs++] = c;
	b->in[b->ins++] = c;
	*added = c;
	return 0;
}

static int find_channels(struct run *r, char *why, size_t whylen)
{
	for (uint32_t rank = 0; rank < r->ranks; rank++)
		for (uint32_t i = 0; i < goal_ops(r->g, rank); i++) {
			const struct goal_op *o = goal_op(r->g, rank, i);
			struct channel *c;
			int err = 0;

			if (o->type != GOAL_SEND)
				continue;
			if (o->peer == rank)
				return run_wrong(why, whylen, "rank %u sends to itself, which needs no NIC", rank);
			if (o->size > REAL_MESSAGE)
				return run_wrong(why, whylen,
						 "rank %u sends %" PRIu64 " bytes at once; real NICs take %llu here",
						 rank, o->size, REAL_MESSAGE);
			if (!o->size && r->nic.transport == MOTIF_RDMA_POLLED)
				return run_wrong(
					why, whylen,
					"rank %u sends a message without bytes: it has no last byte to look at", rank);
			c = real_channel(r->real, rank, o->peer);
			if (!c)
				err = channel_add(r, rank, o->peer, &c);
			if (err)
				return err;
			c->most = o->size > c->most ? o->size : c->most;
		}
	return 0;
}

/* The ranks that a rank talks to, each once. */
static int find_links(struct run *r, uint32_t rank, char *why, size_t whylen)
{
	static const struct queue empty = {NONE, NONE};
	struct real_rank *k = &r->real->rank[rank];

	k->link = calloc(k->outs + k->ins + 1, sizeof(*k->link));
	if (!k->link)
		return -ENOMEM;
	for (uint32_t i = 0; i < k->outs; i++)
		k->link[k->links++] =
			(struct link){.rank = rank, .peer = k->out[i]->dst, .waiting = empty, .out = k->out[i]};
	for (uint32_t i = 0; i < k->ins; i++) {
		uint32_t l = 0;

		while (l < k->links && k->link[l].peer != k->in[i]->src)
			l++;
		if (l == k->links)
			k->link[k->links++] = (struct link){.rank = rank, .peer = k->in[i]->src, .waiting = empty};
		k->link[l].in = k->in[i];
	}
	if (k->links > REAL_PARTNERS)
		return run_wrong(why, whylen, "rank %u talks to %u others; a real NIC is told of %u at most", rank,
				 k->links, REAL_PARTNERS);
	return 0;
}

/* ---- memory ---- */
static uint64_t take(uint64_t *at, uint64_t bytes)
{
	const uint64_t from = *at;

	*at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return from;
}

static void place_memory(struct run *r, uint32_t rank)
{
	struct real_rank *k = &r->real->rank[rank];
	const bool rvma = r->nic.transport == MOTIF_RVMA;
	uint64_t at = 0;

	for (uint32_t i = 0; i < k->outs; i++) {
		struct channel *c = k->out[i];

		c->stride = ((c->most ? c->most : 1) + ALIGN - 1) / ALIGN * ALIGN;
		c->out = take(&at, REAL_SLOTS * c->stride);
	}
	for (uint32_t i = 0; i < k->ins; i++) {
		struct channel *c = k->in[i];
		const uint64_t stride = ((c->most ? c->most : 1) + ALIGN - 1) / ALIGN * ALIGN;

		c->in = take(&at, (rvma ? 2 : 1) * REAL_SLOTS * stride);
		c->notes = rvma ? take(&at, 2ull * REAL_SLOTS * REAL_NOTE) : 0;
	}
	for (uint32_t i = 0; i < k->links && !rvma; i++)
		k->link[i].receives = take(&at, (uint64_t)REAL_RECEIVES * REAL_CONTROL);
	k->memory = at ? at : ALIGN;
}

/* Packet buffers that all NICs hold at once, at most, or BUFFERS_MAX. */
static uint32_t buffers(const struct run *r)
{
	uint64_t all = 0;

	for (uint32_t rank = 0; rank < r->ranks; rank++) {
		const struct real_rank *k = &r->real->rank[rank];
		uint64_t own = (uint64_t)k->links * ANSWERS;

		for (uint32_t i = 0; i < k->outs; i++)
			own += REAL_SLOTS * motif_packets(&r->nic, k->out[i]->most);
		all += (own < SP_TX_QUEUE ? own : SP_TX_QUEUE) + ARRIVALS;
	}
	return all < BUFFERS_MAX ? (uint32_t)all : BUFFERS_MAX;
}

/* `each`: bytes of a NIC. */
static int check_memory(const struct run *r, uint64_t each, char *why, size_t whylen)
{
	const uint64_t most = sp_machine_memory() / 2;
	uint64_t messages = (uint64_t)buffers(r) * SP_PACKET_ROOM;
	double need;

	for (uint32_t rank = 0; rank < r->ranks; rank++)
		messages += r->real->rank[rank].memory;
	need = (double)messages + (double)each * r->ranks;
	if (need <= (double)most)
		return 0;
	run_wrong(why, whylen,
		  "%u ranks would take %.3g GiB, %.4g KiB for each NIC and %.4g KiB for its messages and packets; half "
		  "of this "
		  "machine's memory is %.3g GiB, which is enough for about %.0f ranks",
		  r->ranks, need / (1 << 30), (double)each / 1024, (double)messages / r->ranks / 1024,
		  (double)most / (1 << 30), (double)most / (need / r->ranks));
	return -ENOMEM;
}

/* ---- NICs ---- */
static void mac_of(uint32_t host, uint8_t mac[6])
{
	memcpy(mac, (uint8_t[6]){2, 0, 0, (uint8_t)(host >> 16), (uint8_t)(host >> 8), (uint8_t)host}, 6);
}

static void ip_of(uint32_t host, uint8_t ip[16])
{
	const uint32_t last = host + 1;

	memcpy(ip, (uint8_t[16]){[10] = 0xFF, 0xFF, 10, (uint8_t)(last >> 16), (uint8_t)(last >> 8), (uint8_t)last},
	       16);
}

static int open_nic(struct run *r, uint32_t rank, uint64_t seed, struct sp_error *error)
{
	struct real_rank *k = &r->real->rank[rank];
	const uint32_t host = r->host_of[rank];
	struct sp_nic_config c = {.addresses = 1,
				  .mtu = MTU,
				  .neighbours = k->links,
				  .seed = (seed ^ 0x5EED) * 65537 + rank + 1,
				  .ports = 1,
				  .port = {{.ops = &net_nics_ops, .ops_arg = net_nics_port(r->real->nics, host)}}};
	int err;

	ip_of(host, c.address[0].ip);
	mac_of(host, c.mac);
	c.address[0].prefix = 8;
	for (uint32_t i = 0; i < k->links; i++) {
		ip_of(r->host_of[k->link[i].peer], c.neighbour[i].ip);
		mac_of(r->host_of[k->link[i].peer], c.neighbour[i].mac);
	}
	snprintf(c.name, sizeof(c.name), "rank%u", rank);
	err = net_nics_mac(r->real->nics, host, c.mac);
	if (!err)
		err = sp_nic_create(&c, error, &k->nic);
	if (!err)
		err = sp_nic_dev(k->nic, false, &k->dev);
	if (!err)
		err = sp_mr_alloc(k->dev, k->memory, &k->mr);
	k->sends = calloc((size_t)k->outs * REAL_SLOTS + 1, sizeof(*k->sends));
	k->receives = calloc((size_t)k->ins * REAL_SLOTS + 1, sizeof(*k->receives));
	if (!err && (!k->sends || !k->receives))
		err = -ENOMEM;
	if (err)
		return err;
	return r->nic.transport == MOTIF_RVMA ? real_rvma_open(r, rank, error) : real_rdma_open(r, rank, error);
}

static int open_nics(struct run *r, uint64_t seed, char *why, size_t whylen)
{
	struct real *real = r->real;
	struct sp_error error = {.text = ""};
	uint64_t first = 0;

	for (uint32_t rank = 0; rank < r->ranks; rank++) {
		int err = open_nic(r, rank, seed, &error);

		if (err) {
			run_wrong(why, whylen, "the NIC of rank %u of %u: %s", rank, r->ranks,
				  *error.text ? error.text : strerror(-err));
			return err;
		}
		if (!rank)
			first = real_resident();
		if (rank == MEASURED && real_resident() > first)
			err = check_memory(r, (real_resident() - first) / MEASURED, why, whylen);
		if (err)
			return err;
	}
	for (uint32_t rank = 0; rank < r->ranks; rank++) {
		struct real_rank *k = &real->rank[rank];
		int err = 0;

		for (uint32_t i = 0; r->nic.transport == MOTIF_RVMA && i < k->outs && !err; i++)
			err = real_rvma_join(r, k->out[i]);
		for (uint32_t i = 0; r->nic.transport != MOTIF_RVMA && i < k->links && !err; i++)
			if (rank < k->link[i].peer)
				err = real_rdma_join(r, &k->link[i]);
		if (err) {
			run_wrong(why, whylen, "rank %u connects: %s", rank, strerror(-err));
			return err;
		}
	}
	return 0;
}

/* ---- all ---- */
static void touched(void *arg, uint32_t host)
{
	struct run *r = arg;

	if (r->rank_of[host] != NONE)
		real_touch(r, r->rank_of[host]);
}

int real_open(struct run *r, const struct motif_run_config *config, char *why, size_t whylen)
{
	struct net_nics_config net = {.net = config->net};
	struct sp_error error = {.text = ""};
	struct real *real;
	int err = check(r, config, why, whylen);

	if (err)
		return err;
	r->real = real = calloc(1, sizeof(*real));
	if (!real)
		return -ENOMEM;
	real->selective = config->selective;
	real->rank = calloc(r->ranks, sizeof(*real->rank));
	real->heap = calloc(r->ranks, sizeof(*real->heap));
	if (!real->rank || !real->heap)
		return -ENOMEM;
	for (uint32_t rank = 0; rank < r->ranks; rank++)
		real->heap[rank] = real->rank[rank].place = rank;
	err = find_channels(r, why, whylen);
	for (uint32_t rank = 0; rank < r->ranks && !err; rank++) {
		err = find_links(r, rank, why, whylen);
		if (!err)
			place_memory(r, rank);
	}
	if (!err)
		err = check_memory(r, 0, why, whylen);
	if (err)
		return err;
	net.net.order = true;
	real->resident = real_resident();
	sp_process_packets(buffers(r));
	err = sp_eal_init(0, NULL, &error);
	if (err) {
		run_wrong(why, whylen, "DPDK: %s", error.text);
		return err;
	}
	err = net_nics_create(&net, &real->nics, why, whylen);
	if (err)
		return err;
	r->net = net_nics_net(real->nics);
	net_nics_watch(real->nics, touched, r);
	return open_nics(r, config->net.seed, why, whylen);
}

void real_close(struct run *r)
{
	struct real *real = r->real;

	if (!real)
		return;
	for (uint32_t rank = 0; real->rank && rank < r->ranks; rank++) {
		struct real_rank *k = &real->rank[rank];

		if (k->rvma)
			rvma_close(k->rvma);
		if (k->rdma)
			sp_rdma_close(k->rdma);
		if (k->dev)
			sp_dev_close(k->dev);
		sp_nic_destroy(k->nic);
		for (uint32_t i = 0; i < k->outs; i++)
			free(k->out[i]);
		free(k->out);
		free(k->in);
		free(k->link);
		free(k->sends);
		free(k->receives);
	}
	net_nics_destroy(real->nics);
	free(real->heap);
	free(real->rank);
	free(real);
	r->net = NULL;
}
