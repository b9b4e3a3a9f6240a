/* SPDX-License-Identifier: BSD-3-Clause */
#include "sdr_feed.h"

static uint64_t feed_below(struct feed *f, uint64_t n)
{
	return n ? (uint64_t)(((unsigned __int128)sp_random_next(&f->random) * n) >> 64) : 0;
}

static void feed_log(struct feed *f, uint64_t value)
{
	if (f->entries < FEED_LOG)
		f->log[f->entries++] = value;
}

static bool feed_seen(void *arg, bool in, const uint8_t *frame, uint32_t len, uint64_t tag, sp_time now)
{
	struct feed *f = arg;
	f->frames += in;
	return true;
}

static void feed_settle(struct feed *f)
{
	for (unsigned idle = 0; idle < 3; idle++)
		for (uint16_t w = 0; w < sp_nic_workers(f->nic); w++)
			if (sp_nic_poll(f->nic, w, f->now))
				idle = 0;
}

static void feed_post(struct feed *f)
{
	const struct pair_params *p = &f->pair->p;
	const uint64_t k = f->posted;

	f->sizes[k] = feed_below(f, 4) ? feed_below(f, p->max_bytes + 1) : feed_below(f, 2) * p->max_bytes;
	f->lengths[k] = feed_below(f, 3) ? f->sizes[k] : feed_below(f, f->sizes[k] + 1);
	f->immediates[k] = (uint32_t)sp_random_next(&f->random);
	int rc = sdr_recv_post(f->qp, f->mr, k * p->max_bytes, f->sizes[k], &f->recv[k]);
	PAIR_CHECK(f->pair, rc == 0, "sdr_recv_post says %d", rc);
	f->posted++;
}

static void feed_packet(struct feed *f, uint64_t k)
{
	const struct pair_params *p = &f->pair->p;
	const uint64_t packets = pair_units(f->lengths[k], p->mtu), packet = feed_below(f, packets),
		       at = packet * p->mtu;
	const uint64_t left = f->lengths[k] - at, id = k % p->slots;
	const uint32_t len = (uint32_t)(left < p->mtu ? left : p->mtu);
	const uint32_t qp = f->info.qpn + (uint32_t)(k / p->slots % p->generations) * p->channels +
			    (uint32_t)feed_below(f, p->channels);
	uint64_t immediate = (id << (32 - p->split.id) & UINT32_MAX) | packet << p->split.user;
	uint8_t payload[20 + 4096], frame[WIRE_FRAME_MAX];

	if (p->split.user)
		immediate |= f->immediates[k] >> packet % (32u / p->split.user) * p->split.user &
			     ((1ull << p->split.user) - 1);
	wire_put(payload, 8, id * p->max_bytes + at);
	wire_put(payload + 8, 4, f->info.rkey + (uint32_t)(k / p->slots / p->generations));
	wire_put(payload + 12, 4, len);
	wire_put(payload + 16, 4, immediate);
	memcpy(payload + 20, pair_source + k * 4099 % (PAIR_SOURCE - PAIR_MESSAGE) + at, len);
	uint32_t bytes =
		wire_make(frame, &f->address[1], &f->address[0], (uint16_t)(0xC000 + feed_below(f, 0x4000)),
			  WIRE_WRITE_ONLY_IMM, at + len == f->lengths[k], qp, (uint32_t)f->frames, payload, 20 + len);
	tap_inject(&f->tap, frame, bytes, 1, f->now);
}

static void feed_snapshot(struct feed *f)
{
	static const char *const counters[] = {"placed_packets", "placed_bytes", "duplicates", "late",
					       "beyond-end",	 "not-posted",	 "chunks",     "messages_complete"};

	for (uint64_t k = 0; k < f->posted; k++) {
		struct sdr_recv_status s;
		const uint64_t *bitmap;
		uint64_t chunks;
		uint32_t immediate, mask;

		if (f->done[k])
			continue;
		sdr_recv_bitmap_get(f->recv[k], &bitmap, &chunks);
		sdr_recv_status(f->recv[k], &s);
		feed_log(f, chunks);
		for (uint64_t i = 0; i < (chunks + 63) / 64; i++)
			feed_log(f, bitmap[i]);
		feed_log(f, (uint64_t)s.open | (uint64_t)s.complete << 1 | (uint64_t)s.length_known << 2);
		feed_log(f, s.length);
		feed_log(f, s.packets);
		feed_log(f, (uint64_t)(uint32_t)sdr_recv_imm_get(f->recv[k], &immediate, &mask));
		feed_log(f, (uint64_t)mask << 32 | immediate);
	}
	for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++)
		feed_log(f, sp_nic_context_counter(f->nic, f->id, counters[i]));
}

static void feed_complete(struct feed *f, uint64_t k)
{
	int rc = sdr_recv_complete(f->recv[k]);

	for (int i = 0; i < 10 && rc == -EAGAIN; i++) {
		feed_settle(f);
		rc = sdr_recv_complete(f->recv[k]);
	}
	PAIR_CHECK(f->pair, rc == 0, "sdr_recv_complete says %d", rc);
	f->done[k] = true;
}

/* The peer says that it has ended the messages below count, so that what takes their place may be opened. */
static void feed_ended(struct feed *f, uint64_t count)
{
	uint8_t payload[32] = "SDRC\1\2", frame[256];

	wire_put(payload + 6, 2, sizeof(payload));
	wire_put(payload + 8, 8, FEED_NONCE);
	wire_put(payload + 16, 8, FEED_PEER_NONCE);
	wire_put(payload + 24, 8, count);
	uint32_t bytes = wire_make(frame, &f->address[1], &f->address[0], 0xC001, WIRE_SEND_ONLY, false,
				   f->info.control_qpn, 0, payload, sizeof(payload));
	tap_inject(&f->tap, frame, bytes, 1, f->now);
}

static void feed_script(struct feed *f)
{
	const struct pair_params *p = &f->pair->p;
	const uint64_t lap = (uint64_t)p->slots * p->generations;
	uint64_t oldest = 0;

	while (oldest < FEED_MESSAGES && !f->pair->failed) {
		f->now += 10 * SP_US;
		if (oldest + p->slots > lap)
			feed_ended(f, oldest + p->slots - lap);
		feed_settle(f);
		f->now += 10 * SP_US;
		while (f->posted < FEED_MESSAGES && f->posted < oldest + p->slots && feed_below(f, 8))
			feed_post(f);
		feed_settle(f);
		for (uint64_t n = feed_below(f, 80); n && f->posted; n--) {
			/* From the oldest that can still be told to the newest posted: open ones, late ones. */
			const uint64_t from = f->posted > lap ? f->posted - lap : 0;

			feed_packet(f, feed_below(f, 4) ? oldest + feed_below(f, f->posted - oldest)
							: from + feed_below(f, f->posted - from));
		}
		feed_settle(f);
		feed_snapshot(f);
		for (uint64_t k = oldest; k < f->posted; k++)
			if (!f->done[k] && (!feed_below(f, 6) || (sdr_recv_test(f->recv[k]) == 0 && feed_below(f, 2))))
				feed_complete(f, k);
		while (oldest < f->posted && f->done[oldest])
			oldest++;
	}
	feed_snapshot(f);
	for (uint64_t i = 0; i < FEED_MESSAGES * p->max_bytes; i += 64)
		feed_log(f, tap_mix(i, f->memory + i,
				    FEED_MESSAGES * p->max_bytes - i < 64 ? (uint32_t)(FEED_MESSAGES * p->max_bytes - i)
									  : 64));
	feed_log(f, f->frames);
}

static void feed_open(struct feed *f, uint16_t workers, uint64_t spread)
{
	const struct pair_params *p = &f->pair->p;
	struct sp_nic_config config = {.addresses = 1,
				       .mtu = 4200,
				       .workers = workers,
				       .seed = f->pair->seed,
				       .ports = 1,
				       .port = {{.ops = &tap_ops, .ops_arg = &f->tap}},
				       .neighbours = 1};
	const struct sdr_context_attr channels = {.channels = p->channels};
	struct sdr_qp_attr attr = {.mtu = p->mtu,
				   .chunk_bytes = p->chunk,
				   .max_message_bytes = p->max_bytes,
				   .max_messages = p->slots,
				   .generations = p->generations,
				   .split = p->split.text,
				   .nonce = FEED_NONCE,
				   .max_packet_life = 1,
				   .cts_interval = SP_SEC};
	struct sp_error error = {.text = ""};

	for (unsigned e = 0; e < 2; e++) {
		memcpy(f->address[e].ip + 10, (const uint8_t[]){0xFF, 0xFF, 10, 8, 0, (uint8_t)(1 + e)}, 6);
		memcpy(f->address[e].mac, (const uint8_t[]){2, 0, 0, 0, 8, (uint8_t)(1 + e)}, 6);
	}
	memcpy(config.address[0].ip, f->address[0].ip, 16);
	config.address[0].prefix = 24;
	memcpy(config.mac, f->address[0].mac, 6);
	memcpy(config.neighbour[0].ip, f->address[1].ip, 16);
	memcpy(config.neighbour[0].mac, f->address[1].mac, 6);
	tap_open(&f->tap, NULL, NULL, workers);
	f->tap.arg = f;
	f->tap.seen = feed_seen;
	f->tap.spread = spread;
	sp_random_seed(&f->tap.random, spread, 1);
	f->memory = malloc(FEED_MESSAGES * p->max_bytes);
	f->log = calloc(FEED_LOG, sizeof(*f->log));
	if (sp_nic_create(&config, &error, &f->nic) || sp_nic_dev(f->nic, false, &f->dev) || !f->memory || !f->log)
		abort();
	memset(f->memory, 0x5A, FEED_MESSAGES * p->max_bytes);
	PAIR_CHECK(f->pair, !sdr_context_create(f->dev, &channels, &f->context), "sdr_context_create");
	if (spread & 1) /* the next one gets another home worker */
		PAIR_CHECK(f->pair, !sdr_qp_create(f->context, &(struct sdr_qp_attr){.nonce = 1}, &f->idle, &error),
			   "sdr_qp_create");
	PAIR_CHECK(f->pair, !sdr_qp_create(f->context, &attr, &f->qp, &error), "sdr_qp_create: %s", error.text);
	sdr_qp_info_get(f->qp, &f->info);
	struct sdr_qp_info peer = f->info;
	memcpy(peer.ip, f->address[1].ip, 16);
	peer.nonce = FEED_PEER_NONCE;
	PAIR_CHECK(f->pair, !sdr_qp_connect(f->qp, &peer), "sdr_qp_connect");
	PAIR_CHECK(f->pair, !sdr_mr_reg(f->context, f->memory, FEED_MESSAGES * p->max_bytes, &f->mr), "sdr_mr_reg");

	struct sdr_qp_status status;

	sdr_qp_status(f->qp, &status);
	f->id = status.id;
}

void feed_run(struct feed *f, struct pair *r, uint16_t workers, uint64_t spread)
{
	struct sp_nic_totals t;

	memset(f, 0, sizeof(*f));
	f->pair = r;
	sp_random_seed(&f->random, r->seed, 5);
	feed_open(f, workers, spread);
	if (!r->failed)
		feed_script(f);
	sp_nic_totals(f->nic, &t);
	PAIR_CHECK(r, t.received == f->frames && t.received == t.taken + t.forwarded + t.dropped,
		   "received %llu of %llu, taken %llu, forwarded %llu, dropped %llu", U(t.received), U(f->frames),
		   U(t.taken), U(t.forwarded), U(t.dropped));
	sdr_qp_destroy(f->qp);
	sdr_qp_destroy(f->idle);
	sdr_mr_dereg(f->mr);
	sdr_context_destroy(f->context);
	sp_dev_close(f->dev);
	sp_nic_destroy(f->nic);
	tap_close(&f->tap);
	free(f->memory);
}
