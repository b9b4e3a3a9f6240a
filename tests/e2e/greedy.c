/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application that takes of its NIC what it gets, for shares.py; links libspindle and nothing of the NIC.
 * greedy NIC CONTEXTS HOW: opens so many contexts of weight 1000, or as many
 * as it may ("contexts COUNT"), and keeps them busy until the end
 * of stdin.
 *
 *   stream   each sends to itself without end
 *   cts      each repeats its clear-to-send every 10 us, to a peer that is not there
 *   post     posts and takes back receives of 512 MiB in chunks of 64 bytes
 */
#include "../../handlers/wire/sdr.h"
#include "../../host-api/spindle.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONTEXTS 256
#define PIECE	 4096u
#define MESSAGE	 65536u
#define HUGE	 (512ull << 20)

static struct sp_dev *dev;
static struct sp_mr *mr;
static uint32_t context[CONTEXTS];
static enum { STREAM, CTS, POST } how;

static int die(int error, const char *what)
{
	printf("error %d %s: %s\n", error, what, strerror(-error));
	exit(1);
}

static int open_context(unsigned i)
{
	char name[16], *interval = how == CTS ? "10us" : "1ms";
	const struct sp_setting small[] = {{"qp", "any"},
					   {"rkey", "7"},
					   {"weight", "1000"},
					   {"cts-interval", interval},
					   {"max-message-bytes", "65536"},
					   {"chunk-bytes", "4096"},
					   {"max-messages", "16"}};
	const struct sp_setting huge[] = {{"qp", "any"},
					  {"rkey", "7"},
					  {"weight", "1000"},
					  {"cts-interval", interval},
					  {"max-message-bytes", "512M"},
					  {"chunk-bytes", "64"},
					  {"mtu", "64"},
					  {"split", "1+30+1"},
					  {"max-messages", "1"},
					  {"generations", "1"},
					  {"max-packet-life", "0"}};
	struct sp_error error = {.text = ""};
	int r;

	snprintf(name, sizeof(name), "g%u", i);
	if (how == POST)
		r = sp_context_open(dev, name, "sdr", huge, sizeof(huge) / sizeof(*huge), &context[i], &error);
	else
		r = sp_context_open(dev, name, "sdr", small, sizeof(small) / sizeof(*small), &context[i], &error);
	return r;
}

/* To itself; CTS: to nobody. */
static void connect_context(unsigned i)
{
	struct sp_command c = {.op = SP_SDR_CMD_CONNECT, .context = context[i], .arg = {[3] = 99, 99, 7}};
	const struct sp_sdr_area *area;
	struct sp_event result;
	uint8_t ip[16];
	uint32_t qp;
	uint64_t len;
	void *at;
	int r = sp_context_area(dev, context[i], &at, &len);

	if (!r)
		r = sp_context_qp(dev, context[i], &qp);
	if (!r)
		r = sp_dev_address(dev, AF_INET, ip);
	if (r)
		die(r, "the context's area");
	area = at;
	if (how == CTS)
		ip[15] = 200;
	memcpy(c.arg, ip, sizeof(ip));
	c.arg[2] = qp | (uint64_t)area->control_qp << 32;
	r = sp_command_call(dev, &c, &result);
	if (r)
		die(r, "connect");
}

static int post(unsigned i, uint64_t cookie, uint64_t bytes)
{
	const struct sp_command c = {
		.op = SP_CMD_POST, .context = context[i], .cookie = cookie, .arg = {mr->id, 0, bytes}};

	return sp_command_post(dev, &c);
}

static void begin(unsigned i)
{
	const struct sp_command start = {.op = SP_SDR_CMD_START, .context = context[i], .arg = {[2] = MESSAGE}};

	connect_context(i);
	if (how != POST)
		post(i, 0, MESSAGE);
	if (how == STREAM)
		sp_command_post(dev, &start);
}

/* As much as the NIC takes; what it refuses is asked for again. */
static void go_on(unsigned i, uint64_t turn)
{
	const struct sp_command piece = {.op = SP_SDR_CMD_CONTINUE,
					 .context = context[i],
					 .arg = {mr->id, turn * PIECE % (mr->len - MESSAGE), MESSAGE, 0}};
	const struct sp_command back = {.op = SP_CMD_COMPLETE, .context = context[i], .cookie = turn};

	if (how == STREAM)
		sp_command_post(dev, &piece);
	else if (how == POST && !post(i, turn, HUGE))
		while (sp_command_post(dev, &back) == -EAGAIN)
			usleep(10);
}

int main(int argc, char **argv)
{
	static const char *const hows[] = {"stream", "cts", "post"};
	struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned wanted = argc == 4 ? (unsigned)atoi(argv[2]) : 0, n = 0;
	int r;

	while (argc == 4 && how < 3 && strcmp(argv[3], hows[how]))
		how++;
	if (!wanted || wanted > CONTEXTS || how == 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	r = sp_attach(argv[1], &dev);
	if (!r)
		r = sp_mr_alloc(dev, how == POST ? HUGE : 1 << 20, &mr);
	if (r)
		die(r, "attach");
	while (n < wanted && !(r = open_context(n)))
		begin(n++);
	printf("contexts %u\n", n);
	for (uint64_t turn = 0; !poll(&end, 1, how == CTS ? 100 : 0); turn++) {
		for (unsigned i = 0; how != CTS && i < n; i++)
			go_on(i, turn);
		if (how != CTS)
			usleep(20);
	}
	return 0; /* without a word: the NIC tidies up */
}
