/* SPDX-License-Identifier: BSD-3-Clause */
/* Many to one: two hundred clients put into one mailbox of one server, over a network that loses, repeats and reorders,
 * in virtual time. Every put is delivered once, and no client needs memory of its own at the server. */
#include "../../host-api/rvma.h"
#include "../lib/two_nics.h"

enum { CLIENTS = 200, ROUNDS = 6, BUFFERS = 48, LONG = 3000, OUT = 64, NOTES = 64 };
#define BUFFER ((uint64_t)CLIENTS * ROUNDS * LONG / BUFFERS * 2)

struct client {
	struct rvma *rvma;
	struct rvma_peer *server;
	struct rvma_op *op;
	unsigned puts;
};

static struct client client[CLIENTS];
static struct rvma *server;
static struct rvma_address address;
static struct sp_mr *from, *to, *notes;

/* What a client puts: who it is, and which of its puts this is; then bytes made of these. Short and long ones. */
static uint32_t put_length(unsigned k, unsigned n)
{
	return (k + n) % 3 ? 8 : LONG;
}

static uint8_t put_byte(unsigned k, unsigned n, uint32_t i)
{
	return (uint8_t)(k * 31 + n * 7 + i);
}

static void fill(uint8_t *bytes, unsigned k, unsigned n)
{
	const uint32_t head[2] = {k, n};

	memcpy(bytes, head, sizeof(head));
	for (uint32_t i = sizeof(head); i < put_length(k, n); i++)
		bytes[i] = put_byte(k, n, i);
}

static void lossy(void)
{
	const struct sp_link_direction wire = {.bandwidth = 10000000000,
					       .delay = 50 * SP_US,
					       .loss = 0.05,
					       .duplicate = 0.01,
					       .reorder = 0.05,
					       .reorder_delay = 20 * SP_US,
					       .queue = 4096};

	CU_ASSERT_EQUAL_FATAL(sp_link_change(two_link, 0, &wire), 0);
	CU_ASSERT_EQUAL_FATAL(sp_link_change(two_link, 1, &wire), 0);
}

static void begin(void)
{
	struct rvma_attr attr = {.windows = 1, .ops = 4, .peers = 256};
	struct sp_error error = {.text = ""};

	two_mode = VIRTUAL;
	two_make();
	lossy();
	if (rvma_open(two_ends[1].dev, &attr, &server, &error))
		two_bail(&error);
	CU_ASSERT_EQUAL(rvma_address_get(server, &address), 0);
	attr.peers = 1;
	for (unsigned k = 0; k < CLIENTS; k++) {
		client[k] = (struct client){.rvma = NULL};
		if (rvma_open(two_ends[0].dev, &attr, &client[k].rvma, &error))
			two_bail(&error);
		CU_ASSERT_EQUAL_FATAL(rvma_peer_open(client[k].rvma, &address, &client[k].server), 0);
	}
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(two_ends[0].dev, CLIENTS * LONG, &from), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(two_ends[1].dev, BUFFERS * BUFFER, &to), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(two_ends[1].dev, NOTES * sizeof(struct rvma_notification), &notes), 0);
}

static void end(void)
{
	for (unsigned k = 0; k < CLIENTS; k++)
		CU_ASSERT_EQUAL(rvma_close(client[k].rvma), 0);
	CU_ASSERT_EQUAL(rvma_close(server), 0);
	CU_ASSERT_EQUAL(sp_mr_free(from), 0);
	CU_ASSERT_EQUAL(sp_mr_free(to), 0);
	CU_ASSERT_EQUAL(sp_mr_free(notes), 0);
	two_unmake();
}

/* Puts what is next, once the one before has ended; whether all have. */
static bool go_on(struct client *c)
{
	const unsigned k = (unsigned)(c - client);
	int rc;

	if (c->op) {
		rc = rvma_op_test(c->op);
		if (rc == -EAGAIN)
			return false;
		CU_ASSERT_EQUAL(rc, 0);
		c->op = NULL;
		c->puts++;
	}
	if (c->puts == ROUNDS)
		return true;
	fill((uint8_t *)from->addr + k * LONG, k, c->puts);
	CU_ASSERT_EQUAL_FATAL(rvma_put(c->server, 7, 1, from, (uint64_t)k * LONG, put_length(k, c->puts), &c->op), 0);
	return false;
}

/* The puts in a buffer, one behind the other: each is whole, and came for the first time. */
static unsigned count_puts(const uint8_t *at, uint64_t length, bool seen[CLIENTS][ROUNDS])
{
	unsigned puts = 0;

	for (uint64_t i = 0; i < length; puts++) {
		uint32_t head[2];

		memcpy(head, at + i, sizeof(head));
		if (head[0] >= CLIENTS || head[1] >= ROUNDS || seen[head[0]][head[1]]) {
			CU_FAIL("a put that was not, or came twice");
			return puts;
		}
		seen[head[0]][head[1]] = true;
		for (uint32_t b = sizeof(head); b < put_length(head[0], head[1]); b++)
			if (at[i + b] != put_byte(head[0], head[1], b)) {
				CU_FAIL("a byte of another put");
				return puts;
			}
		i += put_length(head[0], head[1]);
	}
	return puts;
}

TEST(puts_of_two_hundred_clients_are_delivered_once_each)
{
	static bool seen[CLIENTS][ROUNDS];
	static const struct rvma_window_attr attr = {
		.key = 1, .type = RVMA_EPOCH_OPS, .threshold = CLIENTS * ROUNDS / BUFFERS, .mode = RVMA_MANAGED};
	const volatile struct rvma_notification *note;
	struct sp_link_counters on_link;
	struct rvma_window *w;
	unsigned done = 0, puts = 0;

	begin();
	note = notes->addr;
	memset(seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL_FATAL(rvma_init_window(server, 7, &attr, &w), 0);
	for (unsigned i = 0; i < BUFFERS; i++) {
		const struct rvma_buffer buffer = {.mr = to,
						   .offset = i * BUFFER,
						   .size = BUFFER,
						   .notify_mr = notes,
						   .notify_offset = i * sizeof(*note)};

		CU_ASSERT_EQUAL_FATAL(rvma_post_buffer(w, &buffer), 0);
	}
	for (unsigned ms = 0; done < CLIENTS && ms < 5000; ms++) {
		done = 0;
		for (unsigned k = 0; k < CLIENTS; k++)
			done += go_on(&client[k]);
		two_run(SP_MS);
	}
	CU_ASSERT_EQUAL(done, CLIENTS);
	/* What was open in a buffer that had enough went there, too: the last ones have had none. */
	while (rvma_win_inc_epoch(w) != -ENODATA)
		;
	for (unsigned i = 0; i < BUFFERS; i++) {
		const unsigned here = count_puts((const uint8_t *)to->addr + i * BUFFER, note[i].length, seen);

		CU_ASSERT_EQUAL((uintptr_t)note[i].address, (uintptr_t)to->addr + i * BUFFER);
		CU_ASSERT_EQUAL(note[i].epoch, i);
		CU_ASSERT_EQUAL(note[i].puts, here);
		CU_ASSERT_EQUAL(note[i].flags, here < attr.threshold ? (uint64_t)RVMA_PARTIAL : 0);
		puts += here;
	}
	CU_ASSERT_EQUAL(puts, CLIENTS * ROUNDS);
	sp_link_count(two_link, 0, &on_link);
	CU_ASSERT(on_link.lost > CLIENTS * ROUNDS / 40 && on_link.duplicated && on_link.reordered);
	end();
}
