/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "../handlers/ec/job.h"
#include "../handlers/wire/ec.h"
#include "../handlers/wire/roce.h"
#include "device/gate.h"
#include "transfer_private.h"

#define SHIFTS                                                                                                         \
	512u /* different offsets of the message in the sent buffer: bytes left over from the message before are       \
		noticed */
#define SHIFT	  8u
#define CHANNELS  4u  /* per worker, if there are several: flows do not spread evenly, so use more ... */
#define ROCE	  42u /* bytes before BTH: Ethernet, IPv4, UDP */
#define IMMEDIATE (ROCE + 12u + 16u)

struct sp_transfer {
	struct sp_transfer_config config;
	struct sp_world *world;
	struct sp_link *link;
	struct sp_device_gate *gate; /* before the receiving NIC; NULL: there is none */
	struct sp_nic *nic[2];
	struct sp_dev *dev[2];
	struct sdr_context *context[2];
	struct sdr_qp *qp[2];
	struct sdr_reliable *reliable[2];
	uint8_t *bytes[2]; /* sent from, received into */
	uint64_t room[2];
	struct sp_mr *mr[2];
	struct sdr_reliable_op *send, *recv;
	struct sp_chunk_loss chunk_loss[2];
	int error; /* of sdr_reliable_progress */
	uint64_t messages, verified;
};

/* ---- loss of whole chunks ---- */
static bool lose(void *arg, const uint8_t *frame, uint32_t len)
{
	struct sp_chunk_loss *l = arg;
	uint32_t imm, id, index;

	if (len < IMMEDIATE + 4 || frame[ROCE] != SP_UC_WRITE_ONLY_IMM)
		return sp_random_chance(&l->random, l->packet);
	imm = sp_load_be32(frame + IMMEDIATE);
	id = sp_sdr_imm_id(l->split, imm);
	index = sp_sdr_imm_packet(l->split, imm);
	if (!l->begun || id != l->id || index <= l->index || index / l->per_chunk != l->index / l->per_chunk)
		l->lost = sp_random_chance(&l->random, l->chunk);
	l->begun = true;
	l->id = id;
	l->index = index;
	return l->lost;
}

static void chunk_loss_change(struct sp_chunk_loss *l, double chunk_drop)
{
	l->chunk = chunk_drop;
	l->packet = -expm1(log1p(-chunk_drop) / l->per_chunk);
}

static void chunk_loss_init(const struct sp_transfer_config *c, uint64_t seed, unsigned stream, struct sp_chunk_loss *l)
{
	*l = (struct sp_chunk_loss){.per_chunk = c->chunk / c->mtu};
	chunk_loss_change(l, c->chunk_drop);
	sp_random_seed(&l->random, seed, stream);
	sp_sdr_split_parse(SP_SDR_SPLIT_DEFAULT, &l->split);
}

/* ---- making it ---- */
int sp_transfer_failed(struct sp_error *error, int rc, const char *what)
{
	if (!*error->text)
		snprintf(error->text, sizeof(error->text), "%s: %s", what, strerror(-rc));
	return rc;
}

int sp_transfer_check(const struct sp_transfer_config *c, struct sp_error *error)
{
	if (!c->message || c->message > (uint64_t)c->mtu << 18 || !c->mtu || !c->chunk || c->chunk % c->mtu ||
	    !(c->chunk_drop >= 0 && c->chunk_drop <= 1))
		return sp_transfer_failed(error, -EINVAL, "the message");
	return 0;
}

int sp_transfer_link(const struct sp_transfer_config *c, uint64_t seed, unsigned stream,
		     struct sp_chunk_loss chunk_loss[2], struct sp_link **link)
{
	struct sp_link_config config = {.direction = {c->link[0], c->link[1]},
					.queues = {c->workers, c->workers},
					.seed = seed,
					.payload_less = c->payload_less,
					.memory = 1ull << 36};

	for (unsigned e = 0; e < 2 && c->chunk_drop > 0; e++) {
		chunk_loss_init(c, seed, stream + e, &chunk_loss[e]);
		config.lose[e] = lose;
		config.lose_arg[e] = &chunk_loss[e];
	}
	return sp_link_create(&config, link);
}

sp_time sp_transfer_slice(const struct sp_transfer_config *c)
{
	return c->repair_bps ? (sp_time)(8.0 * SP_EC_SLICE / (double)c->repair_bps * (double)SP_SEC) : 0;
}

/* sdr counts packets in two words of the host's, and marks each chunk in one. */
static int gate_make(struct sp_transfer *c, struct sp_port_config *port)
{
	const struct sp_device_gate_config config = {.device = c->config.device,
						     .handler = "sdr",
						     .workers = c->config.workers,
						     .words = 2,
						     .word_every = c->config.chunk / c->config.mtu,
						     .header = IMMEDIATE + 8,
						     .ops = port->ops,
						     .port = port->ops_arg};
	const int rc = c->config.payload_less ? -EINVAL : sp_device_gate_create(&config, &c->gate);

	if (!rc)
		*port = (struct sp_port_config){.ops = &sp_device_gate_ops, .ops_arg = c->gate};
	return rc;
}

static int nic_make(struct sp_transfer *c, unsigned e, struct sp_error *error)
{
	struct sp_nic_config config = {.addresses = 1,
				       .mtu = SP_TRANSFER_LAYER3,
				       .workers = c->config.workers,
				       .seed = c->config.seed * 2 + e + 1,
				       .neighbours = 1,
				       .ports = 1,
				       .payload_less = c->config.payload_less,
				       .slice_time = e ? sp_transfer_slice(&c->config) : 0,
				       .memory_limit = UINT64_MAX,
				       .port = {{.ops = &sp_link_ops, .ops_arg = sp_link_port(c->link, e)}}};
	int rc = 0;

	if (e && c->config.device)
		rc = gate_make(c, &config.port[0]);
	if (rc)
		return sp_transfer_failed(error, rc, "the device");
	for (unsigned i = 0; i < 2; i++) {
		const uint8_t last = (uint8_t)((e ^ i) + 1);
		const uint8_t ip[16] = {[10] = 0xFF, 0xFF, 198, 18, 0, last}, mac[6] = {2, 0, 0, 0, 18, last};

		memcpy(i ? config.neighbour[0].ip : config.address[0].ip, ip, 16);
		memcpy(i ? config.neighbour[0].mac : config.mac, mac, 6);
	}
	config.address[0].prefix = 24;
	snprintf(config.name, sizeof(config.name), "transfer%u", e);
	rc = sp_nic_create(&config, error, &c->nic[e]);
	if (!rc)
		rc = sp_nic_dev(c->nic[e], false, &c->dev[e]);
	if (!rc)
		rc = sp_world_add_nic(c->world, c->nic[e]);
	return rc ? sp_transfer_failed(error, rc, "the NIC") : 0;
}

int sp_transfer_memory(uint64_t room, uint8_t **bytes)
{
	void *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	*bytes = at;
	return 0;
}

static int memory_make(struct sp_transfer *c, unsigned e, struct sp_error *error)
{
	struct sp_random x;
	int rc;

	c->room[e] = c->config.message + SHIFTS * SHIFT;
	rc = sp_transfer_memory(c->room[e], &c->bytes[e]);
	if (rc)
		return sp_transfer_failed(error, rc, "memory for the message");
	sp_random_seed(&x, c->config.seed, 32 + e);
	for (uint64_t i = 0; !e && !c->config.payload_less && i < c->room[e] / 8 * 8; i += 8) {
		const uint64_t v = sp_random_next(&x);

		memcpy(c->bytes[e] + i, &v, 8);
	}
	rc = sdr_mr_reg(c->context[e], c->bytes[e], c->room[e], &c->mr[e]);
	return rc ? sp_transfer_failed(error, rc, "memory for the message") : 0;
}

/* Parity of a message, as the QP will say once it exists. */
static uint64_t parity_bytes(const struct sp_transfer_config *c)
{
	return c->ec.code == SDR_CODE_NONE ? 0 : sp_ec_parity_bytes(c->ec.k, c->ec.m, c->message, c->chunk);
}

/* ... and one more: if the packets per chunk were a multiple of the channels, the last packets of all chunks would go
 * to one worker, and with them all repairs. */
struct sdr_context_attr sp_transfer_channels(const struct sp_transfer_config *c)
{
	return (struct sdr_context_attr){.channels = c->workers > 1 ? CHANNELS * c->workers + 1 : 1};
}

struct sdr_qp_attr sp_transfer_qp(const struct sp_transfer_config *c, uint64_t nonce)
{
	const sp_time way = c->link[0].delay + c->link[1].delay;
	const uint64_t data = (c->message + c->mtu - 1) / c->mtu * c->mtu, parity = parity_bytes(c);

	return (struct sdr_qp_attr){.mtu = c->mtu,
				    .chunk_bytes = c->chunk,
				    .max_message_bytes = parity > data ? parity : data,
				    .max_messages = SP_TRANSFER_MESSAGES,
				    .ec = c->ec,
				    .nonce = nonce,
				    .cts_interval = way + SP_MS,
				    .max_packet_life = way,
				    .family = AF_INET};
}

static int end_make(struct sp_transfer *c, unsigned e, struct sp_error *error)
{
	const struct sdr_qp_attr attr = sp_transfer_qp(&c->config, c->config.seed * 2 + e + 1);
	const struct sdr_context_attr channels = sp_transfer_channels(&c->config);
	int rc = sdr_context_create(c->dev[e], &channels, &c->context[e]);

	rc = rc ? rc : memory_make(c, e, error);
	rc = rc ? rc : sdr_qp_create(c->context[e], &attr, &c->qp[e], error);
	rc = rc ? rc : sdr_reliable_open(c->qp[e], &c->config.reliable, &c->reliable[e]);
	return rc ? sp_transfer_failed(error, rc, "the connection") : 0;
}

static int connect_ends(struct sp_transfer *c, struct sp_error *error)
{
	struct sdr_qp_info info[2];
	int rc = 0;

	for (unsigned e = 0; e < 2; e++)
		sdr_qp_info_get(c->qp[e], &info[e]);
	for (unsigned e = 0; e < 2 && !rc; e++)
		rc = sdr_qp_connect(c->qp[e], &info[!e]);
	return rc ? sp_transfer_failed(error, rc, "the connection") : 0;
}

/* ---- the host programs ---- */
static void step(void *arg, sp_time now)
{
	struct sp_transfer *c = arg;

	for (unsigned e = 0; e < 2; e++) {
		const int rc = sdr_reliable_progress(c->reliable[e], now);

		c->error = c->error ? c->error : rc;
	}
}

static sp_time next(void *arg)
{
	const struct sp_transfer *c = arg;
	const sp_time a = sdr_reliable_deadline(c->reliable[0]), b = sdr_reliable_deadline(c->reliable[1]);

	return a < b ? a : b;
}

static bool cleared(void *arg)
{
	const struct sp_transfer *c = arg;
	struct sdr_qp_status status;

	sdr_qp_status(c->qp[0], &status);
	return c->error || status.may_send > (c->config.ec.code == SDR_CODE_NONE ? c->messages : 2 * c->messages + 1);
}

static bool sent(void *arg)
{
	const struct sp_transfer *c = arg;

	return sdr_reliable_poll(c->send) != -EAGAIN;
}

/* The receiver has the message, too, and parity that was not needed has left. */
static bool drained(void *arg)
{
	const struct sp_transfer *c = arg;
	struct sdr_qp_status status;

	return sdr_reliable_poll(c->recv) != -EAGAIN && (sdr_qp_status(c->qp[0], &status) || !status.queued);
}

int sp_transfer_create(const struct sp_transfer_config *config, struct sp_error *error, struct sp_transfer **transfer)
{
	struct sp_transfer *c;
	int rc;

	*error = (struct sp_error){.key = ""};
	rc = sp_transfer_check(config, error);
	if (rc)
		return rc;
	c = calloc(1, sizeof(*c));
	if (!c)
		return sp_transfer_failed(error, -ENOMEM, "the message");
	c->config = *config;
	rc = sp_world_create(&c->world);
	rc = rc ? sp_transfer_failed(error, rc, "virtual time")
		: sp_transfer_link(config, config->seed, 16, c->chunk_loss, &c->link);
	rc = rc ? sp_transfer_failed(error, rc, "the link") : 0;
	for (unsigned e = 0; e < 2; e++)
		rc = rc ? rc : nic_make(c, e, error);
	for (unsigned e = 0; e < 2; e++)
		rc = rc ? rc : end_make(c, e, error);
	rc = rc ? rc : connect_ends(c, error);
	if (!rc) {
		sp_world_set_grain(c->world, config->grain);
		rc = sp_world_add_host(c->world, &(struct sp_world_host){.step = step, .next = next, .arg = c});
	}
	if (rc) {
		sp_transfer_destroy(c);
		return rc;
	}
	*transfer = c;
	return 0;
}

void sp_transfer_destroy(struct sp_transfer *c)
{
	if (!c)
		return;
	for (unsigned e = 0; e < 2; e++) {
		sdr_reliable_close(c->reliable[e], 0);
		if (c->qp[e])
			sdr_qp_destroy(c->qp[e]);
		if (c->mr[e])
			sdr_mr_dereg(c->mr[e]);
		if (c->context[e])
			sdr_context_destroy(c->context[e]);
		if (c->dev[e])
			sp_dev_close(c->dev[e]);
		sp_nic_destroy(c->nic[e]);
		if (c->bytes[e])
			munmap(c->bytes[e], c->room[e]);
	}
	sp_device_gate_destroy(c->gate);
	sp_world_destroy(c->world);
	sp_link_destroy(c->link);
	free(c);
}

int sp_transfer_run(struct sp_world *world, const int *error, bool (*done)(void *arg), void *arg)
{
	const int rc = sp_world_run(world, SP_NEVER - 1, done, arg);

	return *error ? *error : rc == 1 ? 0 : rc ? rc : -ELOOP;
}

static int run(struct sp_transfer *c, bool (*done)(void *arg))
{
	return sp_transfer_run(c->world, &c->error, done, c);
}

int sp_transfer_change(struct sp_transfer *c, const struct sp_link_direction link[2], double chunk_drop)
{
	int rc = chunk_drop >= 0 && chunk_drop <= 1 && (!(chunk_drop > 0) || c->config.chunk_drop > 0) ? 0 : -EINVAL;

	for (unsigned e = 0; e < 2 && !rc; e++)
		rc = sp_link_change(c->link, e, &link[e]);
	for (unsigned e = 0; e < 2 && !rc && c->config.chunk_drop > 0; e++)
		chunk_loss_change(&c->chunk_loss[e], chunk_drop);
	return rc;
}

static int compare(struct sp_transfer *c, const uint8_t *from)
{
	if (c->config.payload_less)
		return 0;
	if (memcmp(c->bytes[1], from, c->config.message))
		return -EBADMSG;
	c->verified += c->config.message;
	return 0;
}

int sp_transfer_send(struct sp_transfer *c, sp_time *took)
{
	const uint64_t from = c->messages % SHIFTS * SHIFT;
	sp_time begin;
	int rc = sdr_reliable_recv(c->reliable[1], c->mr[1], 0, c->config.message, &c->recv), result;

	rc = rc ? rc : run(c, cleared);
	begin = sp_world_now(c->world);
	rc = rc ? rc : sdr_reliable_send(c->reliable[0], c->mr[0], from, c->config.message, 0, &c->send);
	rc = rc ? rc : run(c, sent);
	if (rc)
		return rc;
	*took = sp_world_now(c->world) - begin;
	result = sdr_reliable_poll(c->send);
	sdr_reliable_op_free(c->send);
	c->messages++;
	if (result)
		sdr_reliable_cancel(c->recv);
	rc = run(c, drained);
	if (rc)
		return rc;
	rc = sdr_reliable_poll(c->recv);
	sdr_reliable_op_free(c->recv);
	if (result)
		return result;
	return rc ? rc : compare(c, c->bytes[0] + from);
}

void sp_transfer_tally(const struct sp_transfer_config *c, const struct sp_transfer_end *from,
		       const struct sp_transfer_end *to, const struct sp_link *link, uint64_t messages,
		       struct sp_transfer_counters *n)
{
	const uint64_t per_chunk = c->chunk / c->mtu, once = messages * ((c->message + c->mtu - 1) / c->mtu);
	struct sdr_reliable_status status, peer;
	struct sp_link_counters way[2];
	struct sdr_qp_status qp, there;
	uint64_t packets;

	sdr_reliable_status(from->reliable, &status);
	sdr_reliable_status(to->reliable, &peer);
	sdr_qp_status(from->qp, &qp);
	sdr_qp_status(to->qp, &there);
	for (unsigned e = 0; e < 2; e++)
		sp_link_count(link, e, &way[e]);
	packets = sp_nic_context_counter(from->nic, qp.id, "packets_sent") - status.parity * per_chunk;
	n->messages += messages;
	n->packets += packets;
	n->retransmitted += packets > once ? packets - once : 0;
	n->parity += status.parity * per_chunk;
	n->repaired += peer.repaired;
	n->repairing += sp_nic_context_counter(to->nic, there.id, "decode_slices") * sp_transfer_slice(c);
	n->fallbacks += status.fallbacks;
	for (unsigned i = 0; i < SDR_EC_CODES; i++)
		n->coded[i] += status.coded_of[i];
	n->spurious += status.spurious * per_chunk;
	n->held += way[0].held + way[1].held;
	n->oversized += way[0].oversized + way[1].oversized;
}

void sp_transfer_add(struct sp_transfer_counters *sum, const struct sp_transfer_counters *n, int sign)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)n;

	static_assert(sizeof(*n) % sizeof(*to) == 0 && sizeof(sp_time) == sizeof(*to),
		      "nothing but numbers of 64 bits");
	for (size_t i = 0; i < sizeof(*n) / sizeof(*to); i++)
		to[i] += (uint64_t)sign * from[i];
}

static void gate_count(const struct sp_device_gate *gate, struct sp_transfer_counters *n)
{
	const struct sp_device_run *run = gate ? sp_device_gate_run(gate) : NULL;

	if (!run)
		return;
	n->device_packets = sp_device_run_tally(run)->packets;
	n->device_lost = sp_device_gate_dropped(gate);
	n->device_busy = sp_device_run_cores(run)->busy;
	n->device_latency = sp_device_run_tally(run)->latency;
	n->device_wait = sp_device_run_tally(run)->wait;
}

void sp_transfer_count(const struct sp_transfer *c, struct sp_transfer_counters *n)
{
	struct sp_transfer_end end[2];

	for (unsigned e = 0; e < 2; e++)
		end[e] = (struct sp_transfer_end){c->nic[e], c->qp[e], c->reliable[e]};
	*n = (struct sp_transfer_counters){.verified = c->verified};
	gate_count(c->gate, n);
	sp_transfer_tally(&c->config, &end[0], &end[1], c->link, c->messages, n);
}
