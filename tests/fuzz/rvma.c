/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RVMA against a hostile peer and a hostile application. An input is a list of deeds: packets whose fields are nearly
 * right (the session's token is known, numbers are near those in use, lengths fit, but for what the input changes),
 * commands of the like, time that goes by. The NIC lives on from input to input. What must hold after each: received =
 * taken + forwarded + dropped, memory beside the registered region untouched, no packet buffer lost.
 */
#include <stdbool.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "../../handlers/spindle-handler.h"
#include "../../handlers/wire/reliability.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/rvma.h"
#include "../../pipeline/frame/icrc.h"
#include "../../pipeline/nic.h"
#include "../../pipeline/frame/parser.h"
#include "../lib/ports.h"
#include "../lib/seeds.h"
#ifdef FUZZ_STANDALONE
#include "standalone.h"
#endif

#define PROMISE(x)                                                                                                     \
	do {                                                                                                           \
		if (!(x))                                                                                              \
			__builtin_trap();                                                                              \
	} while (0)

#define REGION 65536
#define GUARD  4096
#define LIFE   20000 /* inputs that one NIC lives */
#define DEEDS  16    /* of an input */
#define MTU    64
#define PEER   0x500u /* our QP, and the one after it */

enum { CONTROL, IMPLICIT, CONTEXTS };
static const uint32_t qps[CONTEXTS] = {0x410, 0x400};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the input: numbers are drawn from it, 0 once it is used up ---- */
static const uint8_t *input;
static size_t left;

static uint8_t draw(void)
{
	return left ? left--, *input++ : 0;
}

static uint64_t draw_bytes(unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | draw();
	return v;
}

/* Mostly something near `about`, seldom an extreme. */
static uint64_t draw_near(uint64_t about)
{
	static const uint64_t extremes[] = {0,		1,	    SP_RVMA_BLOCKS, SP_RVMA_BLOCKS - 1,
					    UINT32_MAX, 1ull << 32, 1ull << 63,	    UINT64_MAX - 1};
	const uint8_t how = draw();

	return how < 0xEC ? about : how < 0xF4 ? about + how % 8 - 3 : how < 0xFC ? extremes[how % 8] : draw_bytes(8);
}

/* ---- the port ---- */
static struct {
	uint8_t token[8], nonce[8]; /* that the NIC gave, that it asked by */
	uint64_t sent, poll, get;   /* transfers of its: the next one; its latest poll, its latest get */
	uint64_t next, begin;	    /* ours */
	uint64_t replay;	    /* the next one of the implicit session */
	uint64_t delivered;	    /* operations that ended well */
} known;

static void overhear(uint8_t *frame, uint32_t len)
{
	struct sp_packet p;
	uint16_t type;

	if (sp_parse(frame, len, &p, &type) != SP_PARSED_ROCE)
		return;
	if (p.opcode == SP_RVMA_HELLO || p.opcode == SP_RVMA_WELCOME) {
		const struct sp_rvma_hello *h = (const struct sp_rvma_hello *)p.data;

		PROMISE(p.len == sizeof(*h));
		if (memcmp(known.token, h->token, 8))
			known.next = known.begin = known.sent = 0;
		memcpy(known.token, h->token, 8);
		memcpy(known.nonce, h->nonce, 8);
	} else if (p.opcode <= SP_RVMA_DATA && p.opcode >= SP_RVMA_PUT) {
		const uint64_t transfer = sp_load_be64(p.data + 8);

		known.sent = transfer >= known.sent ? transfer + 1 : known.sent;
		known.get = p.opcode == SP_RVMA_GET ? transfer : known.get;
	} else if (p.opcode == SP_RVMA_POLL) {
		known.poll = sp_load_be64(p.data + 16);
	}
}

static unsigned transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	for (unsigned i = 0; i < count; i++)
		overhear(rte_pktmbuf_mtod(packet[i], uint8_t *), packet[i]->data_len);
	rte_pktmbuf_free_bulk(packet, count);
	return count;
}

static const struct sp_port_ops port = {port_receive_one, transmit, port_next_one};

/* ---- the NIC ---- */
static struct sp_nic *nic;
static struct sp_dev *dev;
static struct sp_mr *mr;
static uint8_t memory[GUARD + REGION + GUARD] __attribute__((aligned(64)));
static uint32_t context[CONTEXTS];
static sp_time now;
static unsigned age;
static uint64_t buffers, number, windows[4], peers[2], sums[16];
static const uint8_t *area[CONTEXTS];

static void open_context(unsigned i)
{
	const struct sp_setting control[] = {
		{"qp", "0x410"},  {"mtu", "64"}, {"windows", "4"},     {"buffers", "8"},    {"counters", "1"},
		{"peers", "2"},	  {"ops", "4"},	 {"transfers", "4"},   {"window", "8"},	    {"timeout", "2ms"},
		{"mailbox", "1"}, {"key", "0"},	 {"threshold", "300"}, {"readable", "yes"},
	};
	const struct sp_setting implicit[] = {
		{"qp", "0x400"},    {"session", "implicit"}, {"mtu", "64"},	   {"windows", "3"}, {"buffers", "6"},
		{"transfers", "3"}, {"window", "4"},	     {"timeout", "2ms"},   {"mailbox", "2"}, {"threshold", "2"},
		{"epoch", "ops"},   {"mode", "managed"},     {"catch-all", "yes"},
	};
	struct sp_error error;
	uint64_t bytes;
	void *shared;

	PROMISE(!sp_context_open(dev, i ? "implicit" : "control", "rvma", i ? implicit : control,
				 i ? sizeof(implicit) / sizeof(*implicit) : sizeof(control) / sizeof(*control),
				 &context[i], &error));
	PROMISE(!sp_context_area(dev, context[i], &shared, &bytes));
	area[i] = shared;
	if (i == CONTROL)
		memset(windows, 0, sizeof(windows));
}

/* Of a window in that line of the area: the epoch that comes next. */
static uint64_t epoch_of(unsigned i, uint32_t line)
{
	struct sp_rvma_window_status status;
	const struct sp_rvma_area *head = (const struct sp_rvma_area *)(const void *)area[i];

	if (line >= head->windows)
		return 0;
	memcpy(&status, area[i] + head->window + line * sizeof(status), sizeof(status));
	return status.epoch;
}

static void open_nic(void)
{
	struct sp_nic_config config = {.addresses = 1,
				       .ports = 1,
				       .port[0].ops = &port,
				       .mac = {2, 0, 0, 0, 0, 1},
				       .neighbours = 1,
				       .neighbour[0].mac = {2, 0, 0, 0, 0, 2}};
	struct sp_error error;

	PROMISE(!sp_eal_init(0, NULL, &error));
	memcpy(config.address[0].ip, "\0\0\0\0\0\0\0\0\0\0\377\377\300\0\2\1", 16);
	memcpy(config.neighbour[0].ip, "\0\0\0\0\0\0\0\0\0\0\377\377\300\0\2\2", 16);
	config.address[0].prefix = 24;
	buffers = seeds_buffers();
	PROMISE(!sp_nic_create(&config, &error, &nic) && !sp_nic_dev(nic, false, &dev));
	memset(memory, 0xA5, sizeof(memory));
	PROMISE(!sp_mr_reg(dev, memory + GUARD, REGION, &mr));
	for (unsigned i = 0; i < CONTEXTS; i++)
		open_context(i);
	memset(&known, 0, sizeof(known));
	age = 0;
}

static const char *const counters[] = {"puts",	 "epochs",   "duplicates", "bad_keys",	"refusals",	"nacks_sent",
				       "caught", "sessions", "puts_sent",  "gets_done", "packets_sent", "retransmits"};

static void sum_up(unsigned i)
{
	for (unsigned k = 0; k < sizeof(counters) / sizeof(*counters); k++)
		sums[k] += sp_nic_context_counter(nic, context[i], counters[k]);
}

static void close_nic(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		sum_up(i);
	sp_dev_close(dev);
	sp_nic_destroy(nic);
	nic = NULL;
	PROMISE(seeds_buffers() == buffers);
}

/* ---- deeds: packets ---- */
/* The transfer that is being sent into each context, packet by packet. */
static struct {
	uint64_t transfer, length, mailbox, offset, get;
	uint32_t packet;
	uint8_t opcode;
} current[CONTEXTS];

static void begin(bool implicit, uint8_t opcode)
{
	static const uint64_t lengths[] = {0, 1, 40, MTU, MTU + 1, 200, 300, 70, 65 * MTU + 3};
	uint64_t *number_of = implicit ? &known.replay : &known.next;
	const uint8_t how = draw();

	current[implicit].opcode = opcode;
	current[implicit].transfer = *number_of;
	current[implicit].length = opcode == SP_RVMA_DATA ? 30 : lengths[draw() % 9];
	current[implicit].mailbox = 1 + how % 8 / 6;
	current[implicit].offset = implicit || how & 0x80 ? SP_RVMA_APPEND : draw() % 128;
	current[implicit].get = known.get;
	current[implicit].packet = 0;
	*number_of +=
		opcode == SP_RVMA_GET ? 1 : (sp_rvma_packets(current[implicit].length, MTU) - 1) / SP_RVMA_BLOCK + 1;
}

/* A packet of it, or of another one. Returns the opcode. */
static uint8_t put(uint8_t *x, bool implicit, uint8_t opcode, uint32_t *len)
{
	const uint8_t how = draw();

	if (!current[implicit].opcode || !(how & 3) || current[implicit].opcode == SP_RVMA_GET ||
	    current[implicit].packet >= sp_rvma_packets(current[implicit].length, MTU))
		begin(implicit, opcode);
	opcode = current[implicit].opcode;

	const uint64_t length = draw_near(current[implicit].length);
	const uint32_t packet = (uint32_t)draw_near(current[implicit].packet++);
	const uint64_t at = (uint64_t)packet * MTU, rest = at < length ? length - at : 0;

	sp_store_be64(x + 8, draw_near(current[implicit].transfer));
	sp_store_be32(x + 16, packet);
	x[20] = SP_RVMA_VERSION;
	x[21] = how > 0xE0 ? SP_RVMA_FENCE : 0;
	sp_store_be64(x + 24, length);
	if (opcode == SP_RVMA_DATA) {
		sp_store_be64(x + 32, draw_near(current[implicit].get));
		*len = (uint32_t)sizeof(struct sp_rvma_data) + (uint32_t)(rest < MTU ? rest : MTU);
		return opcode;
	}
	sp_store_be64(x + 32, draw_near(current[implicit].mailbox));
	sp_store_be64(x + 40, draw() < 0xF8 ? 0 : draw_bytes(8));
	sp_store_be64(x + 48, draw_near(current[implicit].offset));
	*len = (uint32_t)sizeof(struct sp_rvma_put) + (uint32_t)(rest < MTU ? rest : MTU);
	if (opcode == SP_RVMA_PUT)
		return opcode;
	sp_store_be64(x + 48, draw_near(0));
	sp_store_be32(x + 56, (uint32_t)draw_near(draw() / 100));
	*len = sizeof(struct sp_rvma_get);
	return opcode;
}

static uint32_t datagram(uint8_t *x, uint8_t opcode)
{
	uint8_t *d = x + 8;

	memcpy(d, "SPRL\1", 5);
	if (opcode == SP_RVMA_POLL) {
		d[5] = SP_REL_POLL;
		known.begin = draw() & 3 ? known.next : known.begin;
		sp_store_be64(d + 8, draw_near(known.next + 1));
		sp_store_be64(d + 16, draw_near(known.begin));
		sp_store_be64(d + 24, draw_near(known.begin));
		sp_store_be32(d + 36, (uint32_t)draw_near(8));
		return 8 + sizeof(struct sp_rel_poll);
	}
	d[5] = SP_REL_ACK;
	d[6] = draw() & 1;
	sp_store_be64(d + 8, d[6] ? 0 : draw_near(known.poll));
	sp_store_be64(d + 16, draw_near(draw() & 3 ? known.sent : 0));
	memcpy(d + 24, d + 16, 8);
	sp_store_be64(d + 32, draw_near(known.sent));
	if (draw() & 1)
		return 8 + sizeof(struct sp_rel_ack);
	d[49] = 1;
	sp_store_be64(d + 56, draw_near(known.sent ? known.sent - 1 : 0));
	sp_store_be32(d + 56 + 8, (uint32_t)draw_near(0));
	d[56 + 17] = draw() % 9;
	d[56 + 18] = draw() & 1;
	d[56 + 19] = draw() % 16;
	memset(d + 80, draw(), d[56 + 17]);
	return 8 + 80 + d[56 + 17];
}

static uint32_t hello(uint8_t *x, uint8_t opcode)
{
	x[0] = SP_RVMA_VERSION;
	sp_store_be32(x + 4, (uint32_t)draw_near(PEER + draw() % 4 / 3));
	sp_store_be32(x + 8, (uint32_t)draw_near(MTU));
	sp_store_be32(x + 12, (uint32_t)draw_near(8));
	sp_store_be64(x + 16, draw_near(0x1234));
	sp_store_be64(x + 24, draw_near(0x77 + draw() / 64));
	if (opcode == SP_RVMA_WELCOME) {
		memcpy(x + 32, known.nonce, 8);
		x[39] ^= draw() > 0xE0;
	}
	return sizeof(struct sp_rvma_hello);
}

static void packet(void)
{
	static const uint8_t often[] = {SP_RVMA_PUT, SP_RVMA_PUT,  SP_RVMA_PUT,	    SP_RVMA_PUT,
					SP_RVMA_GET, SP_RVMA_DATA, SP_RVMA_POLL,    SP_RVMA_ACK,
					SP_RVMA_ACK, SP_RVMA_NACK, SP_RVMA_WELCOME, SP_RVMA_HELLO};
	const uint8_t how = draw(), which = draw();
	uint8_t opcode = which < 0xFC ? often[which % 12] : SP_RVMA_BYE,
		f[1024] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0};
	const bool implicit = how & 1 && opcode <= SP_RVMA_GET;
	uint8_t *ip = f + 14, *udp = ip + 20, *x = udp + 8 + sizeof(struct sp_bth);
	struct rte_mbuf *m = sp_packet_alloc();
	uint32_t len = 0, whole;

	PROMISE(m);
	switch (opcode) {
	case SP_RVMA_PUT ... SP_RVMA_DATA:
		opcode = put(x, implicit, opcode, &len);
		break;
	case SP_RVMA_POLL ... SP_RVMA_ACK:
		len = datagram(x, opcode);
		break;
	case SP_RVMA_NACK:
		sp_store_be64(x + 8, draw_near(known.sent ? known.sent - 1 : 0));
		sp_store_be32(x + 16, (uint32_t)draw_near(1));
		x[20] = draw() % 20;
		len = sizeof(struct sp_rvma_nack);
		break;
	case SP_RVMA_HELLO ... SP_RVMA_WELCOME:
		len = hello(x, opcode);
		break;
	default:
		sp_store_be64(x + 8, 0x77 + draw() / 64);
		len = sizeof(struct sp_rvma_bye);
	}
	if (!implicit && opcode != SP_RVMA_HELLO && opcode != SP_RVMA_WELCOME && how < 0xF8)
		memcpy(x, known.token, 8);
	if (how >= 0xE0) { /* something else is wrong with it */
		x[draw() % len] ^= (uint8_t)(1u << draw() % 8);
		len = how & 2 ? draw() % (len + 1) : len + (draw() & 7);
	}
	for (uint32_t i = 0; i < -len % 4; i++)
		x[len + i] = 0;
	whole = 20 + 8 + sizeof(struct sp_bth) + len + (-len & 3) + 4;
	ip[0] = 0x45;
	sp_store_be16(ip + 2, (uint16_t)whole);
	ip[8] = 64;
	ip[9] = 17;
	memcpy(ip + 12, "\300\0\2\2\300\0\2\1", 8);
	uint16_t sum = sp_checksum(ip, 20, 0);
	memcpy(ip + 10, &sum, 2);
	sp_store_be16(udp, 0xC001);
	sp_store_be16(udp + 2, SP_ROCE_PORT);
	sp_store_be16(udp + 4, (uint16_t)(whole - 20));
	udp[8] = how == 0xFF ? draw() : opcode;
	udp[9] = (uint8_t)((-len & 3) << SP_BTH_PAD_SHIFT);
	sp_store_be16(udp + 10, SP_ROCE_PKEY);
	sp_store_be32(udp + 12, qps[implicit]);
	sp_store_le32(ip + whole - 4, sp_icrc(ip, 20, whole - 4));
	memcpy(rte_pktmbuf_append(m, (uint16_t)(14 + whole)), f, 14 + whole);
	port_one = m;
}

/* ---- deeds: commands ---- */
static void command(void)
{
	static const uint16_t often[] = {
		SP_CMD_POST,	     SP_CMD_POST,	    SP_CMD_POST,       SP_CMD_POST,
		SP_RVMA_CMD_RELEASE, SP_RVMA_CMD_RELEASE,   SP_RVMA_CMD_PUT,   SP_RVMA_CMD_PUT,
		SP_RVMA_CMD_PUT,     SP_RVMA_CMD_GET,	    SP_RVMA_CMD_GET,   SP_RVMA_CMD_PEER,
		SP_RVMA_CMD_WINDOW,  SP_RVMA_CMD_INC_EPOCH, SP_RVMA_CMD_EPOCH, SP_RVMA_CMD_REWIND,
	};
	static const uint16_t seldom[] = {SP_RVMA_CMD_LIMIT, SP_RVMA_CMD_CLOSE, SP_RVMA_CMD_FREE, SP_RVMA_CMD_FREE};
	const uint8_t how = draw(), which = draw();
	const unsigned in = how & 1 && which % 16 < 6 ? IMPLICIT : CONTROL;
	struct sp_command c = {.op = which < 0xF8 ? often[which % 16] : seldom[which % 4], .context = context[in]};
	struct sp_event result;

	c.arg[0] = in == IMPLICIT || how & 0x30 ? 0 : windows[how / 2 % 4]; /* 0 is the configuration's, */
	if (which >= 0xF8 && how < 0xF0)				    /* which shall live for a while */
		c.arg[0] = windows[1 + how % 3];
	switch (c.op) {
	case SP_CMD_POST:
		c.arg[5] = in == CONTROL ? c.arg[0] : 0;
		c.cookie = 1 + draw();
		c.arg[0] = mr->id | (how & 0x40 ? (uint64_t)mr->id << 32 : 0);
		c.arg[1] = draw_near(draw() * 128ull);
		c.arg[2] = draw_near(200 + draw() * 4ull);
		c.arg[3] = how & 0x40 ? draw_near(REGION - 64 * (1 + draw() % 16)) : 0;
		c.arg[4] = draw_near(how & 8 ? 0 : 1 + draw());
		break;
	case SP_RVMA_CMD_WINDOW:
		c.arg[0] = draw_near(2 + draw() % 3);
		c.arg[1] = draw() / 200;
		c.arg[2] = draw_near(draw() % 5);
		c.arg[3] = draw_near(draw() & 0x7F);
		break;
	case SP_RVMA_CMD_PEER:
		memcpy(c.arg, "\0\0\0\0\0\0\0\0\0\0\377\377\300\0\2\2", 16);
		c.arg[2] = draw_near(PEER + draw() % 4 / 3);
		break;
	case SP_RVMA_CMD_PUT ... SP_RVMA_CMD_GET:
		c.cookie = SP_RVMA_OP(draw_near(draw() % 4), ++number);
		c.arg[0] = draw_near(mr->id | peers[draw() / 200] << 32);
		c.arg[1] = draw_near(draw() * 64ull);
		c.arg[2] = draw_near(draw() * (how & 0x80 ? 1 : 32));
		c.arg[3] = draw() % 4;
		c.arg[5] = draw_near(draw());
		c.flags = how & 0x60 ? 0 : draw() & (c.op == SP_RVMA_CMD_GET ? 0x30 : 0xFF);
		break;
	default:
		c.arg[1] = draw_near(epoch_of(in, (uint32_t)c.arg[0]) - 2 - draw() / 64);
		c.arg[2] = draw_near(0);
		c.arg[3] = draw_near(0);
		c.arg[4] = draw_near(0);
	}
	if (how == 0xFF)
		c.arg[draw() % 6] = draw_bytes(8);
	if (how == 0xFE) { /* by the ring, and without an answer */
		sp_command_post(dev, &c);
		return;
	}
	int rc = sp_command_call(dev, &c, &result);
	if (c.op == SP_RVMA_CMD_PEER && !rc)
		peers[draw() / 200] = result.arg[0];
	if (c.op == SP_RVMA_CMD_WINDOW && !rc)
		windows[1 + draw() % 3] = result.arg[0];
}

static void deed(void)
{
	struct sp_event event;
	const uint8_t what = draw();
	struct sp_nic_totals t;

	if (what < 0xA0)
		packet();
	else if (what < 0xF4)
		command();
	else if (what < 0xFE)
		now += (what & 1 ? 20 : 1000) * SP_US;
	else if (what == 0xFE && !(draw() & 7)) { /* the application closes it, and comes again */
		const unsigned i = draw() & 1;

		sum_up(i);
		PROMISE(!sp_context_close(dev, context[i]));
		open_context(i);
	}
	now += 100 * SP_NS;
	sp_nic_poll(nic, 0, now);
	for (unsigned i = 0; i < CONTEXTS; i++)
		while (sp_event_take(dev, context[i], &event) == 1)
			;
	sp_nic_totals(nic, &t);
	PROMISE(t.received == t.taken + t.forwarded + t.dropped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!nic)
		open_nic();
	input = data;
	left = size;
	for (unsigned i = 0; i < DEEDS && left; i++)
		deed();
	for (unsigned i = 0; i < GUARD; i++)
		PROMISE(memory[i] == 0xA5 && memory[GUARD + REGION + i] == 0xA5);
	if (++age == LIFE)
		close_nic();
	return 0;
}

#ifdef FUZZ_STANDALONE
int main(int argc, char **argv)
{
	static uint8_t seed[64][160];
	const uint8_t *list[64];
	size_t len[64];
	uint64_t state = 7;
	char count[] = "150000";
	char *own[] = {argv[0], count, NULL};

	for (unsigned i = 0; i < 64; i++) {
		for (unsigned k = 0; k < sizeof(seed[i]); k++)
			seed[i][k] = (uint8_t)(fuzz_random(&state) >> 32);
		list[i] = seed[i];
		len[i] = sizeof(seed[i]);
	}
	int r = fuzz_standalone(argc > 1 ? argc : 2, argc > 1 ? argv : own, list, len, 64);
	if (nic)
		close_nic();
	/* All of it must have been met, or the fuzzer looks at nothing. */
	for (unsigned k = 0; k < sizeof(counters) / sizeof(*counters); k++) {
		if (argc < 2 && !sums[k]) {
			printf("no %s\n", counters[k]);
			r = r ? r : 1;
		}
		if (argc > 3)
			printf("%s %llu\n", counters[k], (unsigned long long)sums[k]);
	}
	return r;
}
#endif
