/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Erasure coding in the NIC: messages and their parity over a link that loses what a plan says, under any code and
 * length, against what elimination says can be had. A failing seed is named, and reruns alone with SPINDLE_SEED;
 * SPINDLE_LONG=1 runs 50 times as many.
 */
#include "../../handlers/wire/ec.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/sdr.h"
#include "../../host-api/spindle.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "../lib/ec_reference.h"
#include "../lib/suite.h"

#define GUARD	 128u
#define SLOTS	 6u
#define PACKETS	 4096u
#define UNTOUCHD 0xEE

struct message {
	uint64_t length, posted, packets;
	uint8_t lost[PACKETS]; /* a byte per packet */
	unsigned which;	       /* of data: the code that its parity is of */
};

struct run {
	uint64_t seed;
	struct sp_random random;
	char wrong[256];
	enum sp_ec_kind kind;
	unsigned k, m, codes;
	struct sp_ec_shape code[SP_EC_CODES_MAX];
	uint32_t mtu, chunk, slots, generations, channels;
	struct sp_sdr_split split;
	uint64_t max_chunks, max_bytes;
	struct sp_link_direction wire;
	uint16_t workers;
	bool in_order;	   /* nothing comes twice or late */
	bool payload_less; /* bytes are neither carried nor computed */
	struct sp_link *link;
	struct sp_world *world;
	struct sp_nic *nic[2];
	struct sp_dev *dev[2];
	struct sp_mr *mr[2];
	uint8_t *memory[2];
	uint32_t id[2];
	const uint8_t *area[2];
	struct sp_sdr_area header[2];
	struct message message[SLOTS]; /* by slot */
	uint64_t next, repaired, packets_of_parity;
};

static void expect(struct run *r, bool right, const char *format, ...)
{
	va_list args;

	if (right || r->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(r->wrong, sizeof(r->wrong), format, args);
	va_end(args);
}

static uint64_t below(struct run *r, uint64_t n)
{
	return sp_random_next(&r->random) % n;
}

static uint64_t units(uint64_t bytes, uint64_t unit)
{
	return bytes ? (bytes - 1) / unit + 1 : 1;
}

/* ---- the world ---- */
static bool lose(void *arg, const uint8_t *frame, uint32_t len)
{
	const struct run *r = arg;
	const uint8_t *bth = frame + 14 + 20 + 8;

	if (len < 14 + 20 + 8 + 12 + 20 || bth[0] != SP_UC_WRITE_ONLY_IMM)
		return false;

	const uint32_t imm = sp_load_be32(bth + 12 + 16);
	const struct message *m = &r->message[sp_sdr_imm_id(r->split, imm) % SLOTS];
	const uint32_t packet = sp_sdr_imm_packet(r->split, imm);

	return packet >= m->packets || m->lost[packet];
}

static void choose(struct run *r)
{
	static const uint32_t mtus[] = {64, 68, 128, 256};
	static const char *const splits[] = {"10+18+4", "6+10+16", "8+22+2", "4+28+0", "6+18+8"};
	static const struct {
		unsigned k, m;
	} codes[] = {{4, 2}, {32, 8}, {1, 1}, {2, 3}, {8, 8}, {20, 4}, {3, 1}, {64, 16}, {100, 3}, {1, 9}, {5, 5}};
	const unsigned i = (unsigned)below(r, sizeof(codes) / sizeof(*codes));

	r->kind = below(r, 3) ? SP_EC_MDS : SP_EC_XOR;
	r->k = codes[i].k;
	r->m = codes[i].m;
	if (r->kind == SP_EC_XOR && r->m > r->k)
		r->m = r->k;
	r->mtu = mtus[below(r, 4)];
	r->chunk = r->mtu * (1 + (uint32_t)below(r, below(r, 3) ? 4 : 12));
	r->slots = 2 * (1 + (uint32_t)below(r, SLOTS / 2));
	r->generations = 1 + (uint32_t)below(r, 4);
	r->channels = 1 + (uint32_t)below(r, 3);
	sp_sdr_split_parse(splits[below(r, 5)], &r->split);
	r->codes = sp_ec_codes((enum sp_ec_code_kind)r->kind, r->k, r->m, r->split.user, r->code);
	r->max_chunks = 1 + below(r, below(r, 4) ? 5 * r->k + 2 : r->k + 1);
	if (r->max_chunks > 160)
		r->max_chunks = 160;
	if (r->k < 5 && !below(r, 4)) { /* many submessages */
		r->chunk = r->mtu;
		r->max_chunks = 700;
	}
	r->max_bytes = r->max_chunks * r->chunk;
	if (sp_ec_parity_bytes(r->k, r->m, r->max_bytes, r->chunk) > r->max_bytes)
		r->max_bytes = sp_ec_parity_bytes(r->k, r->m, r->max_bytes, r->chunk);
	if (r->max_bytes > (uint64_t)r->mtu << r->split.offset || r->max_bytes / r->mtu >= PACKETS) {
		r->max_chunks = 1;
		r->max_bytes = r->chunk * (r->m > 1 ? r->m : 1);
	}
	r->in_order = below(r, 2);
	r->payload_less = !below(r, 8);
	r->workers = r->in_order ? 1 : 1 + (uint16_t)below(r, 3);
	r->wire = (struct sp_link_direction){.bandwidth = 10000000000, .delay = 5 * SP_US};
	if (!r->in_order) {
		r->wire.jitter = below(r, 2) ? 0 : 3 * SP_US;
		r->wire.duplicate = below(r, 2) ? 0 : 0.1;
		r->wire.reorder = below(r, 2) ? 0 : 0.1;
		r->wire.reorder_delay = 30 * SP_US;
	}
}

static int command(struct run *r, unsigned end, struct sp_command c, uint64_t *result)
{
	struct sp_event answer = {.status = 0};

	c.context = r->id[end];
	c.flags = SP_CMD_REPLY;
	int rc = sp_command_call(r->dev[end], &c, &answer);
	if (result)
		*result = answer.arg[0];
	return rc;
}

static void open_end(struct run *r, unsigned e)
{
	struct sp_nic_config config = {.addresses = 1,
				       .mtu = 9000,
				       .workers = r->workers,
				       .payload_less = r->payload_less,
				       .seed = 1 + sp_random_next(&r->random),
				       .neighbours = 1,
				       .ports = 1,
				       .port = {{.ops = &sp_link_ops, .ops_arg = sp_link_port(r->link, e)}}};
	char text[12][32];
	const struct sp_setting setting[] = {{"qp", text[0]},
					     {"mtu", text[1]},
					     {"chunk-bytes", text[2]},
					     {"max-message-bytes", text[3]},
					     {"max-messages", text[4]},
					     {"generations", text[5]},
					     {"channels", text[6]},
					     {"split", text[7]},
					     {"k", text[8]},
					     {"m", text[9]},
					     {"code", r->kind == SP_EC_XOR ? "xor" : "mds"},
					     {"rkey", "7"},
					     {"cts-interval", "50us"},
					     {"max-packet-life", "100us"},
					     {"companion", "ec"}};
	const uint64_t value[] = {0x100, r->mtu, r->chunk, r->max_bytes, r->slots, r->generations, r->channels};
	struct sp_error error = {.text = ""};
	void *area;

	for (unsigned i = 0; i < 2; i++) {
		uint8_t *ip = i ? config.neighbour[0].ip : config.address[0].ip;

		memcpy(ip, (const uint8_t[16]){[10] = 0xFF, 0xFF, 10, 7}, 16);
		ip[15] = (uint8_t)(1 + (e ^ i));
	}
	config.address[0].prefix = 24;
	memcpy(config.mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(1 + e)}, 6);
	memcpy(config.neighbour[0].mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(2 - e)}, 6);
	for (unsigned i = 0; i < 7; i++)
		snprintf(text[i], sizeof(text[i]), "%llu", (unsigned long long)value[i]);
	snprintf(text[7], sizeof(text[7]), "%u+%u+%u", r->split.id, r->split.offset, r->split.user);
	snprintf(text[8], sizeof(text[8]), "%u", r->k);
	snprintf(text[9], sizeof(text[9]), "%u", r->m);
	uint64_t len = r->slots * (r->max_bytes + 2 * GUARD);
	r->memory[e] = malloc(len);
	if (sp_nic_create(&config, &error, &r->nic[e]) || sp_nic_dev(r->nic[e], true, &r->dev[e]) ||
	    sp_world_add_nic(r->world, r->nic[e]) || sp_mr_reg(r->dev[e], r->memory[e], len, &r->mr[e]) ||
	    sp_context_open(r->dev[e], "sdr", "sdr", setting, sizeof(setting) / sizeof(*setting), &r->id[e], &error) ||
	    sp_context_area(r->dev[e], r->id[e], &area, &len)) {
		printf("Bail out! seed %llu: %s: %s\n", (unsigned long long)r->seed, error.key, error.text);
		exit(1);
	}
	r->area[e] = area;
	memcpy(&r->header[e], area, sizeof(r->header[e]));
}

static void open_world(struct run *r)
{
	const struct sp_link_config link = {
		.direction = {r->wire, {.bandwidth = r->wire.bandwidth, .delay = r->wire.delay}},
		.queues = {r->workers, r->workers},
		.seed = sp_random_next(&r->random),
		.payload_less = r->payload_less,
		.lose = {lose},
		.lose_arg = {r}};

	if (sp_eal_init(0, NULL, NULL) || sp_link_create(&link, &r->link) || sp_world_create(&r->world)) {
		printf("Bail out! no world\n");
		exit(1);
	}
	for (unsigned e = 0; e < 2; e++)
		open_end(r, e);
	for (unsigned e = 0; e < 2; e++) {
		struct sp_command c = {
			.op = SP_SDR_CMD_CONNECT,
			.arg = {[2] = 0x100 | (uint64_t)r->header[!e].control_qp << 32, 11 + !e, 11 + e, 7}};

		memcpy(c.arg, (const uint8_t[16]){[10] = 0xFF, 0xFF, 10, 7, 0, (uint8_t)(2 - e)}, 16);
		expect(r, command(r, e, c, NULL) == 0, "connect");
	}
}

static void close_world(struct run *r)
{
	for (unsigned e = 0; e < 2; e++) {
		expect(r, sp_context_close(r->dev[e], r->id[e]) == 0, "the context closes");
		expect(r, sp_mr_free(r->mr[e]) == 0, "nothing holds the memory any more");
		sp_dev_close(r->dev[e]);
		sp_nic_stop(r->nic[e]);
	}
	for (unsigned e = 0; e < 2; e++) {
		sp_nic_destroy(r->nic[e]);
		free(r->memory[e]);
	}
	sp_world_destroy(r->world);
	sp_link_destroy(r->link);
}

static void pass(struct run *r, sp_time time)
{
	expect(r, sp_world_run(r->world, sp_world_now(r->world) + time, NULL, NULL) == 0, "time goes on");
}

/* ---- a round: pairs of messages, and what must have become of them ---- */
static uint64_t place(const struct run *r, uint32_t slot)
{
	return slot * (r->max_bytes + 2 * GUARD) + GUARD;
}

static uint64_t line(const struct run *r, unsigned end, uint32_t slot, size_t field)
{
	uint64_t value;

	memcpy(&value, r->area[end] + 128 + slot * 64 + field, 8);
	return value;
}

static bool bit(const struct run *r, uint32_t slot, uint64_t chunk)
{
	return r->area[1][r->header[1].bitmap + slot * r->header[1].bitmap_stride + chunk / 8] >> (chunk % 8) & 1;
}

/* Loses chunks with that probability, some with all their packets and others with one. */
static void plan(struct run *r, struct message *m, double loss)
{
	const uint64_t per = r->chunk / r->mtu;

	m->packets = units(m->length, r->mtu);
	memset(m->lost, 0, m->packets);
	for (uint64_t first = 0; first < m->packets; first += per) {
		const uint64_t count = m->packets - first < per ? m->packets - first : per;

		if (!sp_random_chance(&r->random, loss))
			continue;
		if (below(r, 2))
			memset(m->lost + first, 1, count);
		else
			m->lost[first + below(r, count)] = 1;
	}
}

static void begin(struct run *r, uint64_t k)
{
	const double fair = (double)r->m / (r->k + r->m), losses[] = {0.02, fair / 2, fair / 2, fair, 0, 2 * fair, 1};
	const uint32_t slot = (uint32_t)(k % r->slots);
	struct message *d = &r->message[slot], *p = &r->message[slot + 1];
	const uint64_t most = r->max_chunks * r->chunk;
	const uint64_t edges[] = {0, 1, r->mtu, r->chunk - 1, r->chunk, most - 1, most, most};
	const double loss = losses[below(r, 7)];

	d->length = below(r, 3) ? below(r, most + 1) : edges[below(r, 8)];
	d->posted = below(r, 2) ? d->length : d->length + below(r, most - d->length + 1);
	d->which = below(r, 2) ? 0 : (unsigned)below(r, r->codes);
	p->length = sp_ec_parity_bytes(r->code[d->which].k, r->code[d->which].m, d->length, r->chunk);
	p->posted = sp_ec_parity_bytes(r->k, r->m, d->posted, r->chunk);
	if (p->length && !below(r, 6)) /* scratch too small */
		p->posted = below(r, 2) ? below(r, p->length) : below(r, p->length / r->mtu) * r->mtu;
	plan(r, d, loss);
	plan(r, p, below(r, 2) ? loss : losses[below(r, 5)]);
	for (unsigned i = 0; i < 2; i++) {
		struct message *m = i ? p : d;
		const struct sp_command post = {
			.op = SP_CMD_POST, .cookie = k + i, .arg = {r->mr[1]->id, place(r, slot + i), m->posted}};

		expect(r, command(r, 1, post, NULL) == 0, "post %llu", (unsigned long long)(k + i));
	}
	for (uint64_t i = 0; i < d->length; i++)
		r->memory[0][place(r, slot) + i] = (uint8_t)(sp_random_next(&r->random) >> 33);
	expect(r,
	       command(r, 0,
		       (struct sp_command){.op = SP_SDR_CMD_SEND,
					   .cookie = k,
					   .arg = {r->mr[0]->id, place(r, slot), d->length, 99}},
		       NULL) == 0,
	       "send %llu", (unsigned long long)k);
	expect(r,
	       command(r, 0,
		       (struct sp_command){.op = SP_EC_CMD_PARITY,
					   .cookie = k + 1,
					   .arg = {r->mr[0]->id, place(r, slot), d->length, r->mr[0]->id,
						   place(r, slot + 1), d->which}},
		       NULL) == 0,
	       "parity %llu", (unsigned long long)(k + 1));
}

/* Has all of chunk `chunk` arrived? Of scratch that is too small there is no room for the packets beyond its end. */
static bool arrived(const struct run *r, const struct message *m, uint64_t chunk)
{
	const uint64_t per = r->chunk / r->mtu;

	for (uint64_t i = chunk * per; i < (chunk + 1) * per && i < m->packets; i++)
		if (m->lost[i] || (i + 1 < m->packets ? (i + 1) * r->mtu : m->length) > m->posted)
			return false;
	return true;
}

/* Is the code certain, by what has come of the four bits that are in each of eight places of the immediate, or by how
 * much parity there is? And the length: by the data's last packet, or because all of the immediate vouches for it? */
static bool certain(const struct run *r, const struct message *d, const struct message *p)
{
	uint32_t fragments = 0, bits = 0;
	bool ended = false;

	for (uint64_t i = 0; i < p->packets; i++)
		if (!p->lost[i] && (i + 1 < p->packets ? (i + 1) * r->mtu : p->length) <= p->posted) {
			if (r->split.user)
				fragments |= sp_sdr_ones(r->split.user) << sp_sdr_fragment_shift(r->split, i);
			ended |= i + 1 == p->packets;
		}
	for (unsigned i = 0; i < 32; i++)
		bits |= (fragments >> i & 1) << (i % 4);
	for (unsigned i = 0; i < r->codes; i++)
		if (i != d->which && !((i ^ d->which) & bits) &&
		    (!ended || sp_ec_parity_bytes(r->code[i].k, r->code[i].m, d->length, r->chunk) == p->length))
			return false;
	return !d->lost[d->packets - 1] || (d->posted == d->length && fragments == UINT32_MAX);
}

static void check_submessage(struct run *r, uint64_t k, uint64_t sub, uint64_t chunks, bool known)
{
	const uint32_t slot = (uint32_t)(k % r->slots);
	const struct message *d = &r->message[slot], *p = &r->message[slot + 1];
	const unsigned k_of = r->code[d->which].k, m_of = r->code[d->which].m;
	const uint64_t at = sub * k_of;
	const unsigned data = chunks - at < k_of ? (unsigned)(chunks - at) : k_of, rows = ec_rows(k_of, m_of, data);
	uint64_t missing[SP_EC_WORDS] = {0};

	for (unsigned j = 0; j < data; j++)
		if (!arrived(r, d, at + j))
			ec_set(missing, j);
	for (unsigned i = 0; i < rows; i++)
		if (!arrived(r, p, sub * m_of + i))
			ec_set(missing, data + i);
	bool possible = known && ec_determined(r->kind, data, rows, missing);
	for (unsigned j = 0; j < data; j++) {
		const bool lost = missing[j / 64] >> (j % 64) & 1, there = !lost || possible;
		const uint64_t from = (at + j) * r->chunk;
		const uint64_t len = d->length - from < r->chunk ? d->length - from : r->chunk;

		r->repaired += lost && possible;
		expect(r, bit(r, slot, at + j) == there, "message %llu: chunk %llu of %llu is %s",
		       (unsigned long long)k, (unsigned long long)(at + j), (unsigned long long)chunks,
		       there ? "missing" : "there");
		expect(r,
		       !there || r->payload_less ||
			       !memcmp(r->memory[0] + place(r, slot) + from, r->memory[1] + place(r, slot) + from, len),
		       "message %llu: chunk %llu is not what was sent", (unsigned long long)k,
		       (unsigned long long)(at + j));
	}
}

static void check(struct run *r, uint64_t k)
{
	const uint32_t slot = (uint32_t)(k % r->slots);
	const struct message *d = &r->message[slot], *p = &r->message[slot + 1];
	const uint64_t chunks = units(d->length, r->chunk), all = units(r->max_chunks * r->chunk, r->chunk);
	const bool known = d->length && certain(r, d, p);
	const uint8_t *b = r->memory[1] + place(r, slot), *q = r->memory[1] + place(r, slot + 1);
	bool complete = true;

	if (d->length)
		for (uint64_t sub = 0; sub * r->code[d->which].k < chunks; sub++)
			check_submessage(r, k, sub, chunks, known);
	else
		expect(r, bit(r, slot, 0) == !d->lost[0], "message %llu of no bytes", (unsigned long long)k);
	for (uint64_t i = chunks; i < all; i++)
		expect(r, !bit(r, slot, i), "message %llu: a chunk that it has not", (unsigned long long)k);
	for (uint64_t i = 0; i < chunks; i++)
		complete &= bit(r, slot, i);
	if (complete && (d->posted == d->length || !d->lost[d->packets - 1]))
		expect(r,
		       line(r, 1, slot, offsetof(struct sp_sdr_recv_status, state)) == (SP_SDR_OPEN | SP_SDR_COMPLETE),
		       "message %llu is complete", (unsigned long long)k);
	for (uint64_t i = d->length; i < r->max_bytes + GUARD; i++)
		expect(r, b[i] == UNTOUCHD, "message %llu: byte behind its end", (unsigned long long)k);
	for (uint64_t i = p->posted; i < r->max_bytes + GUARD; i++)
		expect(r, q[i] == UNTOUCHD, "message %llu: byte behind its scratch", (unsigned long long)k);
	for (unsigned i = 0; i < 2; i++)
		expect(r, line(r, 0, r->slots + slot + i, offsetof(struct sp_sdr_send_status, released)) == k + i + 1,
		       "message %llu is sent", (unsigned long long)(k + i));
}

static void round_of(struct run *r)
{
	const uint64_t pairs = 1 + below(r, r->slots / 2);

	memset(r->memory[1], UNTOUCHD, r->slots * (r->max_bytes + 2 * GUARD));
	for (uint64_t i = 0; i < pairs; i++)
		begin(r, r->next + 2 * i);
	pass(r, 20 * SP_MS);
	for (uint64_t i = 0; i < pairs; i++)
		check(r, r->next + 2 * i);
	for (uint64_t i = 0; i < 2 * pairs; i++)
		expect(r, command(r, 1, (struct sp_command){.op = SP_CMD_COMPLETE, .cookie = r->next + i}, NULL) == 0,
		       "complete");
	pass(r, SP_MS);
	r->next += 2 * pairs;
}

static void seeds(uint64_t first, unsigned few, unsigned rounds)
{
	const char *only = getenv("SPINDLE_SEED");
	const uint64_t from = only ? strtoull(only, NULL, 0) : first;
	const uint64_t count = only ? 1 : getenv("SPINDLE_LONG") ? 50 * few : few;
	uint64_t repaired = 0;

	for (uint64_t seed = from; seed < from + count; seed++) {
		static struct run r;
		uint64_t counted = 0;

		memset(&r, 0, sizeof(r));
		r.seed = seed;
		sp_random_seed(&r.random, seed, 7);
		ec_field();
		choose(&r);
		open_world(&r);
		for (unsigned i = 0; i < rounds && !r.wrong[0]; i++)
			round_of(&r);
		command(&r, 1, (struct sp_command){.op = SP_CMD_QUERY, .arg = {SP_EC_REPAIRED_CHUNKS}}, &counted);
		expect(&r, r.in_order ? counted == r.repaired : counted >= r.repaired,
		       "%llu chunks repaired, %llu counted", (unsigned long long)r.repaired,
		       (unsigned long long)counted);
		command(&r, 1, (struct sp_command){.op = SP_CMD_QUERY, .arg = {SP_EC_MISMATCHES}}, &counted);
		expect(&r, counted == 0, "a mismatch between ends that agree");
		close_world(&r);
		repaired += r.repaired;
		if (r.wrong[0]) {
			printf("# seed %llu: %s %u,%u mtu %u chunk %u slots %u generations %u channels %u workers %u: "
			       "%s\n",
			       (unsigned long long)seed, r.kind == SP_EC_XOR ? "xor" : "mds", r.k, r.m, r.mtu, r.chunk,
			       r.slots, r.generations, r.channels, r.workers, r.wrong);
			CU_FAIL("a seed");
			return;
		}
	}
	printf("# %llu chunks repaired\n", (unsigned long long)repaired);
	CU_ASSERT(only || repaired > few);
}

TEST_CALL(exactly_the_available_functions_exist, seeds(1, suite_times(400), 3))
