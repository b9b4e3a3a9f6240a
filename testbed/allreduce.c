/* SPDX-License-Identifier: BSD-3-Clause */
#include "allreduce.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "transfer_private.h"

#define WINDOW (SP_TRANSFER_MESSAGES / 2) /* receives posted in advance, so that the next round is cleared in time */

enum { NEXT, BEFORE }; /* the two directions of a node: indexes of its ports, link ends and connections */

struct node {
	struct sp_allreduce *ring;
	uint32_t index;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sp_transfer_end end[2]; /* to the next, from the one before */
	uint8_t *bytes;		       /* the buffer, then WINDOW segments that are received and added */
	struct sp_mr *mr;
	struct sdr_reliable_op *send, *recv[WINDOW]; /* recv: round r is at r mod WINDOW */
	uint32_t sent, received, posted;	     /* rounds done of this allreduce */
};

struct sp_allreduce {
	struct sp_allreduce_config config;
	struct sp_world *world;
	uint32_t nodes, rounds;
	uint64_t segment, room;			      /* bytes */
	struct sp_link *link[SP_ALLREDUCE_NODES_MAX]; /* from node i to the next */
	struct sp_chunk_loss chunk_loss[SP_ALLREDUCE_NODES_MAX][2];
	struct node node[SP_ALLREDUCE_NODES_MAX];
	struct sp_random numbers;
	uint8_t *sum; /* the expected result; NULL payload-less */
	bool running;
	int error; /* of a host program */
	uint64_t reduced, verified;
};

/* ---- making it ---- */
/* Addresses on the link behind node i; its end NEXT is the node's. */
static void address(uint32_t i, unsigned end, uint8_t ip[16], uint8_t mac[6])
{
	memcpy(ip, (uint8_t[16]){[10] = 0xFF, 0xFF, 198, 18, (uint8_t)i, (uint8_t)(end + 1)}, 16);
	memcpy(mac, (uint8_t[6]){2, 0, 0, 18, (uint8_t)i, (uint8_t)(end + 1)}, 6);
}

static uint32_t link_of(const struct node *n, unsigned towards)
{
	return towards == NEXT ? n->index : (n->index + n->ring->nodes - 1) % n->ring->nodes;
}

static int nic_make(struct node *n, struct sp_error *error)
{
	const struct sp_transfer_config *way = &n->ring->config.way;
	struct sp_nic_config config = {.addresses = 2,
				       .mtu = SP_TRANSFER_LAYER3,
				       .workers = way->workers,
				       .seed = way->seed * SP_ALLREDUCE_NODES_MAX + n->index + 1,
				       .neighbours = 2,
				       .ports = 2,
				       .payload_less = way->payload_less,
				       .slice_time = sp_transfer_slice(way),
				       .memory_limit = UINT64_MAX};
	struct sp_nic *nic;
	int rc;

	for (unsigned towards = NEXT; towards <= BEFORE; towards++) {
		const uint32_t link = link_of(n, towards);
		uint8_t mac[6];

		address(link, towards, config.address[towards].ip, mac);
		if (towards == NEXT)
			memcpy(config.mac, mac, 6);
		config.address[towards].prefix = 24;
		config.address[towards].port = (uint8_t)towards;
		address(link, !towards, config.neighbour[towards].ip, config.neighbour[towards].mac);
		config.port[towards] = (struct sp_port_config){.ops = &sp_link_ops,
							       .ops_arg = sp_link_port(n->ring->link[link], towards)};
	}
	snprintf(config.name, sizeof(config.name), "ring%u", n->index);
	rc = sp_nic_create(&config, error, &nic);
	if (rc)
		return rc;
	n->end[NEXT].nic = n->end[BEFORE].nic = nic;
	rc = sp_nic_dev(nic, false, &n->dev);
	return rc ? rc : sp_world_add_nic(n->ring->world, nic);
}

static int node_make(struct node *n, struct sp_error *error)
{
	const struct sp_transfer_config *way = &n->ring->config.way;
	const struct sdr_context_attr channels = sp_transfer_channels(way);
	int rc = nic_make(n, error);

	if (rc)
		return sp_transfer_failed(error, rc, "a NIC");
	rc = sp_transfer_memory(n->ring->room, &n->bytes);
	rc = rc ? rc : sdr_context_create(n->dev, &channels, &n->context);
	rc = rc ? rc : sdr_mr_reg(n->context, n->bytes, n->ring->room, &n->mr);
	if (rc)
		return sp_transfer_failed(error, rc, "memory for the buffer");
	for (unsigned towards = NEXT; towards <= BEFORE && !rc; towards++) {
		const uint64_t nonce = (way->seed * SP_ALLREDUCE_NODES_MAX + n->index) * 2 + towards + 1;
		const struct sdr_qp_attr attr = sp_transfer_qp(way, nonce);

		rc = sdr_qp_create(n->context, &attr, &n->end[towards].qp, error);
		rc = rc ? rc : sdr_reliable_open(n->end[towards].qp, &way->reliable, &n->end[towards].reliable);
	}
	return rc ? sp_transfer_failed(error, rc, "a connection") : 0;
}

/* Each QP uses the address of its link, not the NIC's first one. */
static int join(struct sp_allreduce *r, uint32_t link)
{
	struct sdr_qp *qp[2] = {r->node[link].end[NEXT].qp, r->node[(link + 1) % r->nodes].end[BEFORE].qp};
	int rc = 0;

	for (unsigned e = 0; e < 2 && !rc; e++) {
		struct sdr_qp_info peer;
		uint8_t mac[6];

		rc = sdr_qp_info_get(qp[!e], &peer);
		address(link, !e, peer.ip, mac);
		rc = rc ? rc : sdr_qp_connect(qp[e], &peer);
	}
	return rc;
}

/* ---- a node's program ---- */
/* Offset of the segment that a node sends in a round: the one that it received in the round before. */
static uint64_t place(const struct node *n, uint32_t round)
{
	return (n->index + 2 * n->ring->nodes - round) % n->ring->nodes * n->ring->segment;
}

static int post(struct node *n)
{
	const struct sp_allreduce *r = n->ring;
	int rc = 0;

	for (; n->posted < r->rounds && n->posted < n->received + WINDOW && !rc; n->posted += !rc) {
		const uint32_t w = n->posted % WINDOW;
		const uint64_t at = n->posted < r->nodes - 1 ? (r->nodes + w) * r->segment : place(n, n->posted + 1);

		rc = sdr_reliable_recv(n->end[BEFORE].reliable, n->mr, at, r->segment, &n->recv[w]);
	}
	return rc;
}

/* The message of the round has arrived. */
static int take(struct node *n)
{
	const struct sp_allreduce *r = n->ring;
	const uint32_t w = n->received % WINDOW;
	const uint8_t *from = n->bytes + (r->nodes + w) * r->segment;
	uint8_t *to = n->bytes + place(n, n->received + 1);
	const int rc = sdr_reliable_poll(n->recv[w]);

	sdr_reliable_op_free(n->recv[w]);
	n->recv[w] = NULL;
	for (uint64_t i = 0; r->sum && n->received < r->nodes - 1 && i < r->segment; i++)
		to[i] = (uint8_t)(to[i] + from[i]);
	n->received++;
	return rc ? rc : post(n);
}

static bool over(const struct sdr_reliable_op *op)
{
	return op && sdr_reliable_poll(op) != -EAGAIN;
}

static int go_on(struct node *n)
{
	const struct sp_allreduce *r = n->ring;
	int rc = 0;

	while (!rc && over(n->recv[n->received % WINDOW]))
		rc = take(n);
	if (!rc && over(n->send)) {
		rc = sdr_reliable_poll(n->send);
		sdr_reliable_op_free(n->send);
		n->send = NULL;
		n->sent++;
	}
	if (!rc && !n->send && n->sent < r->rounds && n->received >= n->sent)
		rc = sdr_reliable_send(n->end[NEXT].reliable, n->mr, place(n, n->sent), r->segment, 0, &n->send);
	return rc;
}

static void step(void *arg, sp_time now)
{
	struct sp_allreduce *r = arg;

	for (uint32_t i = 0; i < r->nodes && !r->error; i++) {
		for (unsigned e = 0; e < 2 && !r->error; e++)
			r->error = sdr_reliable_progress(r->node[i].end[e].reliable, now);
		if (r->running && !r->error)
			r->error = go_on(&r->node[i]);
	}
}

static sp_time next(void *arg)
{
	const struct sp_allreduce *r = arg;
	sp_time earliest = SP_NEVER;

	for (uint32_t i = 0; i < r->nodes; i++)
		for (unsigned e = 0; e < 2; e++) {
			const sp_time at = sdr_reliable_deadline(r->node[i].end[e].reliable);

			earliest = at < earliest ? at : earliest;
		}
	return r->error ? SP_NEVER : earliest;
}

/* ---- the ring ---- */
int sp_allreduce_create(const struct sp_allreduce_config *config, struct sp_error *error, struct sp_allreduce **ring)
{
	struct sp_allreduce *r;
	int rc;

	*error = (struct sp_error){.key = ""};
	if (config->nodes < 2 || config->nodes > SP_ALLREDUCE_NODES_MAX)
		return sp_transfer_failed(error, -EINVAL, "the nodes");
	rc = sp_transfer_check(&config->way, error);
	if (rc)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return sp_transfer_failed(error, -ENOMEM, "the ring");
	r->config = *config;
	r->nodes = config->nodes;
	r->rounds = 2 * (r->nodes - 1);
	r->segment = config->way.message;
	r->room = (r->nodes + WINDOW) * r->segment;
	sp_random_seed(&r->numbers, config->way.seed, 8);
	rc = sp_world_create(&r->world);
	if (!rc && !config->way.payload_less)
		rc = sp_transfer_memory(r->nodes * r->segment, &r->sum);
	for (uint32_t i = 0; i < r->nodes && !rc; i++)
		rc = sp_transfer_link(&config->way, config->way.seed * SP_ALLREDUCE_NODES_MAX + i, 16, r->chunk_loss[i],
				      &r->link[i]);
	for (uint32_t i = 0; i < r->nodes && !rc; i++) {
		r->node[i].ring = r;
		r->node[i].index = i;
		rc = node_make(&r->node[i], error);
	}
	for (uint32_t i = 0; i < r->nodes && !rc; i++)
		rc = join(r, i);
	if (!rc) {
		sp_world_set_grain(r->world, config->way.grain);
		rc = sp_world_add_host(r->world, &(struct sp_world_host){.step = step, .next = next, .arg = r});
	}
	if (rc) {
		sp_allreduce_destroy(r);
		return sp_transfer_failed(error, rc, "the ring");
	}
	*ring = r;
	return 0;
}

void sp_allreduce_destroy(struct sp_allreduce *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->nodes; i++) {
		struct node *n = &r->node[i];

		for (unsigned e = 0; e < 2; e++) {
			sdr_reliable_close(n->end[e].reliable, 0);
			if (n->end[e].qp)
				sdr_qp_destroy(n->end[e].qp);
		}
		if (n->mr)
			sdr_mr_dereg(n->mr);
		if (n->context)
			sdr_context_destroy(n->context);
		if (n->dev)
			sp_dev_close(n->dev);
		sp_nic_destroy(n->end[NEXT].nic);
		if (n->bytes)
			munmap(n->bytes, r->room);
	}
	sp_world_destroy(r->world);
	for (uint32_t i = 0; i < r->nodes; i++)
		sp_link_destroy(r->link[i]);
	if (r->sum)
		munmap(r->sum, r->nodes * r->segment);
	free(r);
}

/* ---- an allreduce ---- */
static void fill(struct sp_allreduce *r)
{
	const uint64_t bytes = r->nodes * r->segment;

	memset(r->sum, 0, bytes);
	for (uint32_t n = 0; n < r->nodes; n++)
		for (uint64_t i = 0; i < bytes; i += 8) {
			const uint64_t x = sp_random_next(&r->numbers);

			for (uint64_t k = i; k < bytes && k < i + 8; k++) {
				r->node[n].bytes[k] = (uint8_t)(x >> (k - i) * 8);
				r->sum[k] = (uint8_t)(r->sum[k] + r->node[n].bytes[k]);
			}
		}
}

/* The first receives are posted everywhere, and the senders know it. */
static bool cleared(void *arg)
{
	const struct sp_allreduce *r = arg;
	const uint64_t window = r->rounds < WINDOW ? r->rounds : WINDOW, messages = r->reduced * r->rounds + window;
	bool all = true;

	for (uint32_t i = 0; i < r->nodes; i++) {
		struct sdr_qp_status status;

		all &= !sdr_qp_status(r->node[i].end[NEXT].qp, &status) &&
		       status.may_send >= (r->config.way.ec.code == SDR_CODE_NONE ? 1 : 2) * messages;
	}
	return r->error || all;
}

static bool done(void *arg)
{
	const struct sp_allreduce *r = arg;
	bool all = true;

	for (uint32_t i = 0; i < r->nodes; i++)
		all &= r->node[i].sent == r->rounds && r->node[i].received == r->rounds;
	return r->error || all;
}

/* Parity that was not needed has left. */
static bool drained(void *arg)
{
	const struct sp_allreduce *r = arg;
	bool all = true;

	for (uint32_t i = 0; i < r->nodes; i++) {
		struct sdr_qp_status status;

		all &= sdr_qp_status(r->node[i].end[NEXT].qp, &status) || !status.queued;
	}
	return r->error || all;
}

static int compare(struct sp_allreduce *r)
{
	const uint64_t bytes = r->nodes * r->segment;

	for (uint32_t i = 0; i < r->nodes && r->sum; i++) {
		if (memcmp(r->node[i].bytes, r->sum, bytes))
			return -EBADMSG;
		r->verified += bytes;
	}
	return 0;
}

int sp_allreduce_run(struct sp_allreduce *r, sp_time *took)
{
	sp_time begin;
	int rc = 0;

	if (r->sum)
		fill(r);
	for (uint32_t i = 0; i < r->nodes && !rc; i++) {
		struct node *n = &r->node[i];

		n->sent = n->received = n->posted = 0;
		rc = post(n);
	}
	rc = rc ? rc : sp_transfer_run(r->world, &r->error, cleared, r);
	begin = sp_world_now(r->world);
	r->running = true;
	for (uint32_t i = 0; i < r->nodes && !rc; i++)
		rc = go_on(&r->node[i]);
	rc = rc ? rc : sp_transfer_run(r->world, &r->error, done, r);
	*took = sp_world_now(r->world) - begin;
	r->running = false;
	r->reduced++;
	rc = rc ? rc : sp_transfer_run(r->world, &r->error, drained, r);
	return rc ? rc : compare(r);
}

void sp_allreduce_count(const struct sp_allreduce *r, struct sp_transfer_counters *n)
{
	*n = (struct sp_transfer_counters){.verified = r->verified};
	for (uint32_t i = 0; i < r->nodes; i++)
		sp_transfer_tally(&r->config.way, &r->node[i].end[NEXT], &r->node[(i + 1) % r->nodes].end[BEFORE],
				  r->link[i], r->reduced * r->rounds, n);
}
