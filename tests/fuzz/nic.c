/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole NIC under rubbish from both sides. The first byte of an input says what it is: frames for the port (made
 * right where only luck could: IPv4 checksum, ICRC) or commands from the host. The NIC lives on from input to input, so
 * that they meet it in many states; now and then it is made anew, or a context is closed. What must hold after each:
 * received = taken + forwarded + dropped, memory beside the registered region untouched.
 */
#include <stdbool.h>

#include <rte_mbuf.h>

#include "../../handlers/spindle-handler.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/sdr.h"
#include "../../pipeline/frame/icrc.h"
#include "../../pipeline/nic.h"
#include "../../pipeline/frame/parser.h"
#include "../../pipeline/engine.h"
#include "../../pipeline/rx/match.h"
#include "../lib/ports.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the port: one frame in, everything out is thrown away ---- */
static const struct sp_port_ops port = {port_receive_one, port_swallow, port_next_one};

/* ---- the NIC ---- */
static struct sp_nic *nic;
static struct sp_dev *dev;
static struct sp_mr *mr;
static uint8_t memory[GUARD + REGION + GUARD];
static uint32_t context[6];
static sp_time now;
static unsigned age;

static void add(unsigned i, const char *name, const char *handler, const struct sp_setting *setting, size_t settings)
{
	struct sp_error error;

	PROMISE(!sp_context_open(dev, name, handler, setting, settings, &context[i], &error));
}

#define ADD(i, name, handler, ...)                                                                                     \
	do {                                                                                                           \
		const struct sp_setting list[] = {__VA_ARGS__};                                                        \
		add(i, name, handler, list, sizeof(list) / sizeof(*list));                                             \
	} while (0)

/* The first number that the NIC draws, for context 0. */
static uint32_t control_qp(void)
{
	static uint32_t qp;
	struct sp_qp_table *table;

	if (!qp && !sp_qp_table_create(~1ull, &table)) {
		PROMISE(!sp_qp_table_next(table, 0x100, 1, &qp));
		sp_qp_table_destroy(table);
	}
	return qp;
}

static void open_nic(void)
{
	static const uint8_t ip4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1};
	static const uint8_t ip6[16] = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
	struct sp_nic_config config = {.addresses = 2, .ports = 1, .port[0].ops = &port, .mac = {2, 0, 0, 0, 0, 1}};
	struct sp_error error;

	PROMISE(!sp_eal_init(0, NULL, &error));
	memcpy(config.address[0].ip, ip4, 16);
	memcpy(config.address[1].ip, ip6, 16);
	config.address[0].prefix = 24;
	config.address[1].prefix = 64;
	PROMISE(!sp_nic_create(&config, &error, &nic) && !sp_nic_dev(nic, false, &dev));
	memset(memory, 0xA5, sizeof(memory));
	PROMISE(!sp_mr_reg(dev, memory + GUARD, REGION, &mr));
	ADD(0, "control", "sdr", {"qp", "0x100"}, {"rkey", "1"}, {"mtu", "64"}, {"chunk-bytes", "128"},
	    {"max-message-bytes", "1000"}, {"max-messages", "4"}, {"max-packet-life", "10us"}, {"replay", "yes"});
	PROMISE(sp_qp_table_find(nic->qps, control_qp()));
	ADD(1, "implicit", "sdr", {"qp", "0x200"}, {"mtu", "64"}, {"chunk-bytes", "64"}, {"max-message-bytes", "512"},
	    {"max-messages", "2"}, {"generations", "2"}, {"credit", "implicit"}, {"split", "2+26+4"});
	ADD(2, "one", "sdr", {"qp", "0x300"}, {"mtu", "128"}, {"chunk-bytes", "256"}, {"max-message-bytes", "64K"},
	    {"max-messages", "1"}, {"generations", "1"}, {"channels", "3"}, {"credit", "implicit"},
	    {"split", "8+24+0"});
	ADD(3, "echo", "reflect", {"filter", "udp port 7"});
	ADD(4, "count", "count", {"filter", "udp or tcp or ip6[6] == 44"}, {"flows", "64"}, {"message-timeout", "1ms"});
	age = 0;
}

static void close_nic(void)
{
	sp_dev_close(dev);
	sp_nic_destroy(nic);
	nic = NULL;
}

static void check(void)
{
	struct sp_nic_totals t;

	sp_nic_totals(nic, &t);
	PROMISE(t.received == t.taken + t.forwarded + t.dropped);
	for (unsigned i = 0; i < GUARD; i++)
		PROMISE(memory[i] == 0xA5 && memory[GUARD + REGION + i] == 0xA5);
}

/* What chance would hardly make right, so that inputs get past the first checks. */
static void repair(uint8_t *f, uint32_t len)
{
	struct sp_packet p;
	uint16_t type;

	if (len >= 34 && f[12] == 8 && f[13] == 0 && (f[14] & 15) >= 5 && len >= 14u + (f[14] & 15u) * 4) {
		f[24] = f[25] = 0;
		uint16_t sum = sp_checksum(f + 14, (f[14] & 15u) * 4, 0);
		memcpy(f + 24, &sum, 2);
	}
	if (sp_parse(f, len, &p, &type) == SP_PARSED_ROCE) {
		uint8_t *l3 = f + p.l3, *end = p.data + p.len + (p.data[-11] >> 4 & 3);

		sp_store_le32(end, sp_icrc(l3, p.l4 - p.l3, (uint32_t)(end - l3)));
	}
}

static void frame(const uint8_t *data, size_t size, bool right)
{
	struct rte_mbuf *m = sp_packet_alloc();

	PROMISE(m); /* else the NIC leaks buffers */
	memcpy(rte_pktmbuf_append(m, (uint16_t)size), data, size);
	if (right)
		repair(rte_pktmbuf_mtod(m, uint8_t *), (uint32_t)size);
	port_one = m;
}

/* A command as a hostile host would write it: any bytes, but contexts and memory that exist come up often. */
static void command(const uint8_t *data, size_t size, bool post)
{
	struct sp_command c = {0};
	struct sp_event result;

	memcpy(&c, data, size < sizeof(c) ? size : sizeof(c));
	if (c.flags & 0x100)
		c.context = context[c.context % 5];
	if (c.flags & 0x200)
		c.arg[0] = mr->id;
	if (c.flags & 0x400)
		c.op = c.op % 8 ? SP_CMD_OWN + c.op % 8 : 1 + c.op / 8 % 4;
	if (c.flags & 0x800)
		c.cookie %= 16;
	if (c.flags & 0x1000) {
		c.arg[1] %= REGION * 2;
		c.arg[2] %= 2048;
	}
	if (post)
		sp_command_post(dev, &c);
	else
		sp_command_call(dev, &c, &result);
	for (unsigned i = 0; i < 5; i++)
		while (sp_event_take(dev, context[i], &result) == 1)
			;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > 4000)
		return 0;
	if (!nic)
		open_nic();
	if (data[0] < 0x80)
		frame(data + 1, size - 1, data[0] & 1);
	else
		command(data + 1, size - 1, data[0] & 1);
	now += 1 + (sp_time)(data[0] >> 1 & 3) * 7 * SP_US;
	sp_nic_poll(nic, 0, now);
	check();
	if (++age == LIFE)
		close_nic();
	return 0;
}

#ifdef FUZZ_STANDALONE
/* ---- inputs to start from ---- */
#define SEEDS 32
static uint8_t seed[SEEDS][512];
static size_t seed_len[SEEDS];
static unsigned seeds;

static uint8_t *roce(uint8_t opcode, uint32_t qp, uint32_t above, bool ip6)
{
	static const uint8_t macs[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
	uint8_t *b = seed[seeds], *l3 = b + 15, *udp = l3 + (ip6 ? 40 : 20);

	b[0] = 1;
	memcpy(b + 1, macs, 12);
	sp_store_be16(b + 13, ip6 ? 0x86DD : 0x0800);
	if (ip6) {
		l3[0] = 0x60;
		sp_store_be16(l3 + 4, (uint16_t)(8 + 12 + above + 4));
		l3[6] = 17;
		l3[7] = 64;
		memcpy(l3 + 8, "\x20\x01\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\2\x20\x01\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\1", 32);
	} else {
		l3[0] = 0x45;
		sp_store_be16(l3 + 2, (uint16_t)(20 + 8 + 12 + above + 4));
		l3[8] = 64;
		l3[9] = 17;
		memcpy(l3 + 12, "\300\0\2\2\300\0\2\1", 8);
	}
	sp_store_be16(udp, 0xC001);
	sp_store_be16(udp + 2, SP_ROCE_PORT);
	sp_store_be16(udp + 4, (uint16_t)(8 + 12 + above + 4));
	udp[8] = opcode;
	sp_store_be16(udp + 10, SP_ROCE_PKEY);
	sp_store_be32(udp + 12, qp);
	seed_len[seeds++] = (size_t)(udp + 8 + 12 + above + 4 - b);
	return udp + 20;
}

static void write_seed(uint32_t qp, uint32_t rkey, uint64_t va, uint32_t len, uint32_t imm, bool ip6)
{
	uint8_t *x = roce(0x2B, qp, 20 + len, ip6);

	sp_store_be64(x, va);
	sp_store_be32(x + 8, rkey);
	sp_store_be32(x + 12, len);
	sp_store_be32(x + 16, imm);
}

static void command_seed(uint16_t op, unsigned which, uint64_t cookie, uint64_t a1, uint64_t a2, uint64_t a3)
{
	struct sp_command c = {op, 0x1300, which, cookie, {0, a1, a2, a3}};

	seed[seeds][0] = 0x80;
	memcpy(seed[seeds] + 1, &c, sizeof(c));
	seed_len[seeds++] = 1 + sizeof(c);
}

static void connect_seed(void)
{
	struct sp_command c = {SP_SDR_CMD_CONNECT, 0x100, 0, 0, {0, 0, 0x100 | (uint64_t)control_qp() << 32, 5, 6, 1}};

	memcpy(&c.arg[1], "\0\0\xFF\xFF\300\0\2\2", 8);
	seed[seeds][0] = 0x80;
	memcpy(seed[seeds] + 1, &c, sizeof(c));
	seed_len[seeds++] = 1 + sizeof(c);
}

static void raw_seed(const void *bytes, size_t len)
{
	seed[seeds][0] = 1;
	memcpy(seed[seeds] + 1, bytes, len);
	seed_len[seeds++] = 1 + len;
}

int main(int argc, char **argv)
{
	static const uint8_t arp[42] = {2, 0, 0, 0, 0, 1, 2, 0,	  0, 0, 0, 2, 8, 6, 0, 1, 8, 0,	  6, 4, 0,
					1, 2, 0, 0, 0, 0, 2, 192, 0, 2, 2, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1};
	static const uint8_t ping[50] = {2, 0, 0, 0,  0, 1, 2, 0,   0, 0, 0, 2,	  8, 0, 0x45, 0, 0, 36,	  0,
					 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 2, 192, 0, 2, 1,    8, 0, 0xF7, 0xFF};
	static const uint8_t echo[60] = {2, 0, 0,  0,  0, 1, 2,	  0, 0, 0, 0,	2, 8, 0, 0x45, 0,    0, 46, 0, 0,
					 0, 0, 64, 17, 0, 0, 192, 0, 2, 2, 192, 0, 2, 1, 0x30, 0x39, 0, 7,  0, 26};
	const uint8_t *list[SEEDS];

	for (uint64_t k = 0; k < 3; k++)
		command_seed(SP_CMD_POST, (unsigned)k, 0, 64, k == 2 ? 2000 : 500, 0);
	command_seed(SP_CMD_POST, 1, 1, 1000, 500, 0);
	command_seed(SP_CMD_COMPLETE, 0, 0, 0, 0, 0);
	command_seed(SP_CMD_COMPLETE, 1, 0, 0, 0, 0);
	command_seed(SP_SDR_CMD_SEND, 0, 0, 100, 300, 7);
	command_seed(SP_SDR_CMD_START, 0, 1, 0, 900, 7);
	command_seed(SP_SDR_CMD_CONTINUE, 0, 1, 0, 128, 64);
	command_seed(SP_SDR_CMD_PACKETS, 1, 0, 0, 0, 0);
	command_seed(SP_CMD_CLOSE, 0, 0, 0, 0, 0);
	write_seed(0x100, 1, 0, 64, 0, false);
	write_seed(0x100, 1, 1000 + 64, 30, 1u << 22 | 1 << 4, true);
	write_seed(0x200, 0, 0, 64, 0, false);
	write_seed(0x201, 0, 64, 64, 1 << 4, false);
	write_seed(0x200, 0, 512, 0, 1u << 30, false);
	write_seed(0x300, 0, 128, 128, 1, true);
	connect_seed();
	/* clear-to-send for three messages, with the nonces of that connection */
	memcpy(roce(0x24, control_qp(), 32, false), "SDRC\1\1\0\40\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\3",
	       32);
	/* ... and a datagram of nine bytes, one of none, one that says it has more; what the host would send */
	memcpy(roce(0x24, control_qp(), 33, false), "SDRC\1\3\0\41\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\5datagram.", 33);
	memcpy(roce(0x24, control_qp(), 24, true), "SDRC\1\3\0\30\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\5", 24);
	memcpy(roce(0x24, control_qp(), 33, false), "SDRC\1\3\0\61\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\5datagram.", 33);
	command_seed(SP_SDR_CMD_DATAGRAM, 0, 3, 100, 60, 0);
	raw_seed(arp, sizeof(arp));
	raw_seed(ping, sizeof(ping));
	raw_seed(echo, sizeof(echo));
	for (unsigned i = 0; i < seeds; i++)
		list[i] = seed[i];
	int r = fuzz_standalone(argc, argv, list, seed_len, seeds);

	if (nic) {
		/* The seeds must have come through, or the fuzzer looks at nothing. */
		struct sp_report *report = sp_report_new();

		sp_nic_report(nic, report);
		char *text = sp_report_finish(report);
		if (argc > 3)
			puts(text);
		free(text);
		close_nic();
	}
	return r;
}
#endif
