/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application of a NIC in another process (spindle run) that makes RVMA calls as it is told, for the end-to-end
 * tests; links libspindle and nothing of the NIC. rvma NIC; each line on stdin is a call with numbers for arguments,
 * and is answered by a line: its result, and what it has filled in. Memory is one region of bytes and one of 64
 * notifications. Windows, peers and operations are numbered from 0, in the order in which they were made.
 *
 *   open WINDOWS BUFFERS COUNTERS PEERS OPS TIMEOUT_MS FAMILY   ADDRESS, hexadecimal
 *   peer ADDRESS | peerclose P                                  P
 *   init MAILBOX KEY THRESHOLD TYPE MODE FLAGS BUFFERS BYTES PUT RATE   W; FLAGS: 1 catch-all 2 silent 4 readable 8
 * forget post W OFFSET SIZE NOTE THRESHOLD                           NOTE 64: none wait NOTE HOW MS OFFSET LENGTH EPOCH
 * FLAGS MAILBOX PUTS inc W | closewin W | freewin W epoch W                                                     EPOCH
 *   status W                                                    EPOCH POSTED HELD PUTS BYTES REFUSED CLOSED
 *   ptrs W COUNT                                                OFFSET,LENGTH,EPOCH,FLAGS,MAILBOX ...
 *   release W EPOCH | rewind W EPOCH                            OFFSET LENGTH EPOCH FLAGS MAILBOX
 *   put P MAILBOX KEY OFFSET SIZE | putfenced the same | putat the same and AT | get P MAILBOX KEY OFFSET SIZE AT BACK
 * O test O | opwait O MS | reason ERROR | monitors | shut fill OFFSET SIZE SEED | check OFFSET SIZE SEED (0, or 1 + the
 * place where it differs)
 */
#include "../../host-api/rvma.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (8ull << 20)
#define NOTES 64
#define MOST  4096

static struct sp_dev *dev;
static struct sp_mr *mr, *notes;
static struct rvma *rvma;
static struct rvma_window *window[MOST];
static struct rvma_peer *peer[MOST];
static struct rvma_op *op[MOST];
static unsigned windows, peers, ops;
static uint64_t n[12]; /* the call's arguments */

static uint64_t place(const void *address)
{
	return (uint64_t)((const char *)address - (const char *)mr->addr);
}

static uint8_t content(uint64_t at, uint64_t seed)
{
	return (uint8_t)((at + 1) * (2 * seed + 1) >> 3 ^ seed);
}

static volatile struct rvma_notification *note(uint64_t i)
{
	return (volatile struct rvma_notification *)notes->addr + i % NOTES;
}

static void answer(int rc)
{
	printf("%d", rc);
}

/* ---- calls ---- */
static void do_open(const char *rest)
{
	const struct rvma_attr attr = {.windows = (uint32_t)n[0],
				       .buffers = (uint32_t)n[1],
				       .counters = (uint32_t)n[2],
				       .peers = (uint32_t)n[3],
				       .ops = (uint32_t)n[4],
				       .timeout = n[5] * SP_MS,
				       .qpn = (uint32_t)n[7],
				       .family = n[6] == 4   ? 2
						 : n[6] == 6 ? 10
							     : 0};
	struct rvma_address address;
	struct sp_error error;
	int rc = rvma_open(dev, &attr, &rvma, &error);

	(void)rest;
	rc = rc ? rc : rvma_address_get(rvma, &address);
	answer(rc);
	if (rc)
		printf(" %s: %s", error.key, error.text);
	for (size_t i = 0; !rc && i < sizeof(address); i++)
		printf("%s%02x", i ? "" : " ", ((const uint8_t *)&address)[i]);
}

static void do_peer(const char *rest)
{
	struct rvma_address address;
	unsigned byte;
	int rc = 0;

	for (size_t i = 0; i < sizeof(address); i++) {
		rc |= sscanf(rest + strspn(rest, " ") + 2 * i, "%2x", &byte) == 1 ? 0 : -EINVAL;
		((uint8_t *)&address)[i] = (uint8_t)byte;
	}
	rc = rc ? rc : rvma_peer_open(rvma, &address, &peer[peers]);
	answer(rc);
	if (!rc)
		printf(" %u", peers++);
}

static void do_init(const char *rest)
{
	const struct rvma_window_attr attr = {.key = n[1],
					      .threshold = n[2],
					      .type = (enum rvma_epoch_type)n[3],
					      .mode = (enum rvma_mode)n[4],
					      .catch_all = n[5] & 1,
					      .silent = n[5] & 2,
					      .readable = n[5] & 4,
					      .forget = n[5] & 8,
					      .max_buffers = (uint32_t)n[6],
					      .max_bytes = n[7],
					      .max_put = n[8],
					      .max_rate = n[9]};
	const int rc = rvma_init_window(rvma, n[0], &attr, &window[windows]);

	(void)rest;
	answer(rc);
	if (!rc)
		printf(" %u", windows++);
}

static void do_post(const char *rest)
{
	const struct rvma_buffer buffer = {.mr = mr,
					   .offset = n[1],
					   .size = n[2],
					   .notify_mr = n[3] < NOTES ? notes : NULL,
					   .notify_offset = n[3] * sizeof(struct rvma_notification),
					   .threshold = n[4]};

	(void)rest;
	if (n[3] < NOTES)
		note(n[3])->address = NULL;
	answer(rvma_post_buffer(window[n[0]], &buffer));
}

static void do_wait(const char *rest)
{
	const volatile struct rvma_notification *w = note(n[0]);
	const int rc = rvma_wait(rvma, w, (enum rvma_wait)n[1], n[2] * SP_MS);

	(void)rest;
	answer(rc);
	if (!rc)
		printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, place(w->address),
		       w->length, w->epoch, w->flags, w->mailbox, w->puts);
}

static void do_epoch(const char *rest)
{
	uint64_t epoch;

	(void)rest;
	answer(rvma_win_get_epoch(window[n[0]], &epoch));
	printf(" %" PRIu64, epoch);
}

static void do_status(const char *rest)
{
	struct rvma_window_status s;

	(void)rest;
	answer(rvma_win_status(window[n[0]], &s));
	printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d", s.epoch, s.posted, s.held,
	       s.puts, s.bytes, s.refused, s.closed);
}

static void do_losses(const char *rest)
{
	struct rvma_window_status s;

	(void)rest;
	answer(rvma_win_status(window[n[0]], &s));
	printf(" %" PRIu64 " %" PRIu64, s.lost, s.gone);
}

static void do_ptrs(const char *rest)
{
	struct rvma_completed done[64];
	const int count = rvma_win_get_buf_ptrs(window[n[0]], done, n[1] < 64 ? (unsigned)n[1] : 64);

	(void)rest;
	answer(count);
	for (int i = 0; i < count; i++)
		printf(" %" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, place(done[i].address),
		       done[i].length, done[i].epoch, done[i].flags, done[i].mailbox);
}

static void do_rewind(const char *rest)
{
	struct rvma_completed done;
	const int rc = rvma_win_rewind(window[n[0]], n[1], &done);

	(void)rest;
	answer(rc);
	if (!rc)
		printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, place(done.address), done.length,
		       done.epoch, done.flags, done.mailbox);
}

static void begun(int rc)
{
	answer(rc);
	if (!rc)
		printf(" %u", ops++);
}

static void do_put(const char *rest)
{
	(void)rest;
	begun(rvma_put(peer[n[0]], n[1], n[2], mr, n[3], n[4], &op[ops]));
}

static void do_putfenced(const char *rest)
{
	(void)rest;
	begun(rvma_put_fenced(peer[n[0]], n[1], n[2], mr, n[3], n[4], &op[ops]));
}

static void do_putat(const char *rest)
{
	(void)rest;
	begun(rvma_put_at(peer[n[0]], n[1], n[2], mr, n[3], n[4], n[5], &op[ops]));
}

static void do_get(const char *rest)
{
	(void)rest;
	begun(rvma_get(peer[n[0]], n[1], n[2], (unsigned)n[6], n[5], mr, n[3], n[4], &op[ops]));
}

static void do_check(const char *rest)
{
	uint64_t i = 0;

	(void)rest;
	while (i < n[1] && ((const uint8_t *)mr->addr)[n[0] + i] == content(i, n[2]))
		i++;
	printf("%" PRIu64, i < n[1] ? i + 1 : 0);
}

static void do_fill(const char *rest)
{
	(void)rest;
	for (uint64_t i = 0; i < n[1]; i++)
		((uint8_t *)mr->addr)[n[0] + i] = content(i, n[2]);
	answer(0);
}

static void do_reason(const char *rest)
{
	printf("0 %s", rvma_op_reason(atoi(rest)));
}

#define SIMPLE(name, call)                                                                                             \
	static void do_##name(const char *rest)                                                                        \
	{                                                                                                              \
		(void)rest;                                                                                            \
		answer(call);                                                                                          \
	}
SIMPLE(peerclose, rvma_peer_close(peer[n[0]]))
SIMPLE(inc, rvma_win_inc_epoch(window[n[0]]))
SIMPLE(closewin, rvma_close_win(window[n[0]]))
SIMPLE(freewin, rvma_free_win(window[n[0]]))
SIMPLE(release, rvma_win_release(window[n[0]], n[1]))
SIMPLE(test, rvma_op_test(op[n[0]]))
SIMPLE(opwait, rvma_op_wait(op[n[0]], n[1] * SP_MS))
SIMPLE(monitors, rvma_wait_monitors())
SIMPLE(shut, rvma_close(rvma))

static const struct {
	const char *name;
	int numbers; /* -1: words */
	void (*call)(const char *rest);
} calls[] = {{"open", 8, do_open},	     {"peer", -1, do_peer},	  {"init", 10, do_init},
	     {"post", 5, do_post},	     {"wait", 3, do_wait},	  {"epoch", 1, do_epoch},
	     {"status", 1, do_status},	     {"losses", 1, do_losses},	  {"ptrs", 2, do_ptrs},
	     {"rewind", 2, do_rewind},	     {"put", 5, do_put},	  {"putat", 6, do_putat},
	     {"putfenced", 5, do_putfenced}, {"get", 7, do_get},	  {"check", 3, do_check},
	     {"fill", 3, do_fill},	     {"reason", -1, do_reason},	  {"inc", 1, do_inc},
	     {"peerclose", 1, do_peerclose}, {"test", 1, do_test},	  {"closewin", 1, do_closewin},
	     {"shut", 0, do_shut},	     {"freewin", 1, do_freewin},  {"opwait", 2, do_opwait},
	     {"release", 2, do_release},     {"monitors", 0, do_monitors}};

static int obey(char *line)
{
	const char *name = strsep(&line, " \n");

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		char *at = line;

		if (strcmp(name, calls[i].name))
			continue;
		for (int k = 0; k < calls[i].numbers; k++)
			n[k] = at ? strtoull(at, &at, 0) : 0;
		calls[i].call(line ? line : "");
		puts("");
		return 0;
	}
	fprintf(stderr, "rvma: no call %s\n", name);
	return 2;
}

int main(int argc, char **argv)
{
	char line[512];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 2)
		return 2;
	int rc = sp_attach(argv[1], &dev);
	rc = rc ? rc : sp_mr_alloc(dev, BYTES, &mr);
	rc = rc ? rc : sp_mr_alloc(dev, NOTES * sizeof(struct rvma_notification), &notes);
	printf("%d\n", rc);
	if (rc)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		rc = obey(line);
		if (rc)
			return rc;
	}
	sp_dev_close(dev);
	return 0;
}
