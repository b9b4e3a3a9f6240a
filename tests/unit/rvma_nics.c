/* SPDX-License-Identifier: BSD-3-Clause */
/* The rvma_ calls of libspindle on two real NICs, three times: in virtual time; with NICs that have threads of their
 * own, two each; and attached to such NICs, through their sockets. */
#include "../../host-api/rvma.h"
#include "../lib/two_nics.h"

#define ROOM  (1u << 20)
#define NOTES 16u

struct end {
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_address address;
	struct rvma_peer *peer; /* the other */
	struct sp_mr *mr, *notes;
	uint8_t *bytes;
	struct rvma_notification *note;
};

static struct end a, b; /* a puts, b receives */

static void make_rvma(struct end *e, unsigned index, const struct rvma_attr *attr)
{
	struct sp_error error = {.text = ""};

	*e = (struct end){.nic = two_ends[index].nic, .dev = two_ends[index].dev};
	if (rvma_open(e->dev, attr, &e->rvma, &error) || sp_mr_alloc(e->dev, ROOM, &e->mr) ||
	    sp_mr_alloc(e->dev, NOTES * sizeof(*e->note), &e->notes))
		two_bail(&error);
	rvma_address_get(e->rvma, &e->address);
	e->bytes = e->mr->addr;
	e->note = e->notes->addr;
}

static void make(const struct rvma_attr *attr)
{
	two_make();
	make_rvma(&a, 0, attr);
	make_rvma(&b, 1, attr);
	for (uint32_t i = 0; i < ROOM; i++)
		a.bytes[i] = (uint8_t)(i * 7 + i / 1021);
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(a.rvma, &b.address, &a.peer), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(b.rvma, &a.address, &b.peer), 0);
}

static void unmake(void)
{
	for (int i = 0; i < 2; i++) {
		struct end *e = i ? &b : &a;

		CU_ASSERT_EQUAL(rvma_close(e->rvma), 0);
		CU_ASSERT_EQUAL(sp_mr_free(e->mr), 0); /* nothing holds them any more */
		CU_ASSERT_EQUAL(sp_mr_free(e->notes), 0);
	}
	two_unmake();
}

static struct rvma_window *window(uint64_t mailbox, const struct rvma_window_attr *attr)
{
	struct rvma_window *w;

	CU_ASSERT_EQUAL_FATAL(rvma_init_window(b.rvma, mailbox, attr, &w), 0);
	return w;
}

static int post(struct rvma_window *w, unsigned k, uint64_t offset, uint64_t size)
{
	const struct rvma_buffer buffer = {
		.mr = b.mr, .offset = offset, .size = size, .notify_mr = b.notes, .notify_offset = k * sizeof(*b.note)};

	memset(&b.note[k], 0, sizeof(b.note[k]));
	return rvma_post_buffer(w, &buffer);
}

/* What became of it. */
static int ended(struct rvma_op *op)
{
	if (two_mode != VIRTUAL)
		return rvma_op_wait(op, PATIENCE);
	for (unsigned i = 0; i < 300; i++) {
		two_run(20 * SP_MS);
		int rc = rvma_op_test(op);
		if (rc != -EAGAIN)
			return rc;
	}
	return -EAGAIN;
}

static int put(uint64_t mailbox, uint64_t key, uint64_t offset, uint64_t size)
{
	struct rvma_op *op;

	CU_ASSERT_EQUAL_FATAL(rvma_put(a.peer, mailbox, key, a.mr, offset, size, &op), 0);
	return ended(op);
}

static bool noted(unsigned k)
{
	return __atomic_load_n(&b.note[k].address, __ATOMIC_ACQUIRE);
}

/* ---- rules ---- */

TEST_EACH_WAY(a_buffer_is_handed_over_at_the_address_that_the_application_knows)
{
	const struct rvma_window_attr attr = {.key = 5, .threshold = 5000};
	struct rvma_op *op[2];

	make(NULL);
	struct rvma_window *w = window(0x11FF0011, &attr);
	CU_ASSERT_EQUAL(post(w, 0, 100, 5000), 0);
	CU_ASSERT_EQUAL(post(w, 1, 8000, 5000), 0);
	CU_ASSERT_EQUAL(rvma_put_at(a.peer, 0x11FF0011, 5, a.mr, 3000, 2000, 3000, &op[0]), 0);
	CU_ASSERT_EQUAL(rvma_put_at(a.peer, 0x11FF0011, 5, a.mr, 0, 3000, 0, &op[1]), 0);
	CU_ASSERT_EQUAL(ended(op[0]), 0);
	CU_ASSERT_EQUAL(ended(op[1]), 0);
	WAIT_FOR(noted(0));
	CU_ASSERT(b.note[0].address == b.bytes + 100 && b.note[0].length == 5000 && b.note[0].epoch == 0 &&
		  b.note[0].flags == 0 && b.note[0].mailbox == 0x11FF0011 && b.note[0].puts == 2);
	CU_ASSERT_EQUAL(memcmp(b.bytes + 100, a.bytes, 5000), 0);
	CU_ASSERT(b.bytes[99] == 0 && b.bytes[5100] == 0 && !noted(1));
	unmake();
}

TEST_EACH_WAY(memory_is_the_nics_until_it_says_otherwise)
{
	const struct rvma_window_attr attr = {.threshold = 1000, .forget = true};
	struct sp_mr *mr;
	struct rvma_buffer buffer = {.size = 1000};

	make(NULL);
	struct rvma_window *w = window(1, &attr);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(b.dev, 4096, &mr), 0);
	buffer.mr = mr;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &buffer), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), -EBUSY);
	CU_ASSERT_EQUAL(put(1, 0, 0, 1000), 0);
	CU_ASSERT_EQUAL(memcmp(mr->addr, a.bytes, 1000), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	/* ... or the window is freed. */
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(b.dev, 4096, &mr), 0);
	buffer.mr = mr;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &buffer), 0);
	CU_ASSERT_EQUAL(rvma_free_win(w), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	unmake();
}

TEST_EACH_WAY(memory_of_the_applications_own_may_begin_anywhere)
{
	static uint8_t own[8192];
	static _Alignas(64) uint8_t lines[192];
	const struct rvma_window_attr attr = {.threshold = 1000};
	struct sp_mr *mr, *line;
	struct rvma_buffer buffer = {.size = 1000, .offset = 3};

	make(NULL);
	int rc = sp_mr_reg(b.dev, own + 1, 4000, &mr);
	if (two_mode == ATTACHED) {
		CU_ASSERT_EQUAL(rc, -EOPNOTSUPP);
		unmake();
		return;
	}
	CU_ASSERT_EQUAL_FATAL(rc, 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_reg(b.dev, lines + 8, 184, &line), 0);
	struct rvma_window *w = window(1, &attr);
	buffer.mr = mr;
	buffer.notify_mr = line;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &buffer), -EINVAL); /* not at the beginning of a line */
	buffer.notify_offset = 56;
	CU_ASSERT_EQUAL(rvma_post_buffer(w, &buffer), 0);
	CU_ASSERT_EQUAL(put(1, 0, 0, 1000), 0);
	CU_ASSERT_EQUAL(memcmp(own + 4, a.bytes, 1000), 0);
	CU_ASSERT_EQUAL(((struct rvma_notification *)(void *)(lines + 64))->address, own + 4);
	CU_ASSERT_EQUAL(rvma_close(b.rvma), 0);
	CU_ASSERT_EQUAL(rvma_open(b.dev, NULL, &b.rvma, NULL), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	CU_ASSERT_EQUAL(sp_mr_free(line), 0);
	unmake();
}

TEST_EACH_WAY(attributes_out_of_bounds_are_named)
{
	static const struct {
		struct rvma_attr attr;
		const char *key;
	} bad[] = {{{.mtu = 63}, "mtu"},
		   {{.mtu = 4097}, "mtu"},
		   {{.windows = UINT32_MAX}, "windows"},
		   {{.peers = 4097}, "peers"},
		   {{.timeout = 3601 * SP_SEC}, "timeout"},
		   {{.ack_delay = 2 * SP_SEC}, "ack-delay"}};
	struct sp_error error;
	struct rvma *r;

	make(NULL);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CU_ASSERT_EQUAL(rvma_open(b.dev, &bad[i].attr, &r, &error), -EINVAL);
		CU_ASSERT_STRING_EQUAL(error.key, bad[i].key);
	}
	unmake();
}

/* The one that waits has begun before anything is sent, and has no limit: only a wake-up ends it. */
static void *put_later(void *arg)
{
	struct rvma_op *op;

	usleep(20000);
	if (!rvma_put(a.peer, 1, 0, a.mr, 0, 1000, &op))
		*(int *)arg = rvma_op_wait(op, PATIENCE);
	return NULL;
}

TEST_EACH_WAY(each_way_to_wait_ends_with_the_notification)
{
	const struct rvma_window_attr attr = {.threshold = 1000};

	make(NULL);
	struct rvma_window *w = window(1, &attr);
	for (unsigned how = RVMA_WAIT_POLL; how <= RVMA_WAIT_SLEEP; how++) {
		pthread_t thread;
		int rc = 1;

		CU_ASSERT_EQUAL(post(w, how, how * 4096, 1000), 0);
		if (two_mode == VIRTUAL) { /* nobody else would let time pass */
			CU_ASSERT_EQUAL(rvma_wait(b.rvma, &b.note[how], (enum rvma_wait)how, SP_MS), -ETIMEDOUT);
			continue;
		}
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, put_later, &rc), 0);
		CU_ASSERT_EQUAL(rvma_wait(b.rvma, &b.note[how], (enum rvma_wait)how, SP_NEVER), 0);
		CU_ASSERT_EQUAL(b.note[how].length, 1000);
		pthread_join(thread, NULL);
		CU_ASSERT_EQUAL(rc, 0);
	}
	unmake();
}

TEST_EACH_WAY(limits_hold_for_all_windows_of_a_context)
{
	const struct rvma_attr few = {.windows = 2, .buffers = 3, .counters = 1, .peers = 1, .ops = 2};
	struct rvma_window *w[3];
	struct rvma_address third = b.address;
	struct rvma_peer *peer;
	struct rvma_op *op[3];

	make(&few);
	w[0] = window(1, NULL);
	w[1] = window(2, NULL);
	CU_ASSERT_EQUAL(rvma_init_window(b.rvma, 2, NULL, &w[2]), -EEXIST);
	CU_ASSERT_EQUAL(rvma_init_window(b.rvma, 3, NULL, &w[2]), -ENOSPC);
	for (unsigned k = 0; k < 4; k++)
		CU_ASSERT_EQUAL(post(w[k % 2], k, k * 4096, 1000), k == 3 ? -ENOBUFS : 0);
	CU_ASSERT_EQUAL(rvma_put(a.peer, 1, 0, a.mr, 0, 10, &op[0]), 0);
	CU_ASSERT_EQUAL(rvma_put(a.peer, 2, 0, a.mr, 0, 10, &op[1]), 0);
	CU_ASSERT_EQUAL(rvma_put(a.peer, 2, 0, a.mr, 0, 10, &op[2]), -EAGAIN);
	third.qpn += 7;
	if (two_mode == VIRTUAL) { /* with threads the puts may have gone already */
		two_run(0);
		CU_ASSERT_EQUAL(rvma_peer_open(a.rvma, &third, &peer), -ENOSPC);
	}
	CU_ASSERT_EQUAL(ended(op[0]), 0);
	CU_ASSERT_EQUAL(ended(op[1]), 0);
	unmake();
}

TEST_EACH_WAY(windows_report_what_has_come_in_shared_memory)
{
	const struct rvma_window_attr attr = {.threshold = 2, .type = RVMA_EPOCH_OPS, .key = 9};
	struct rvma_window_status s;
	uint64_t epoch = 99;

	make(NULL);
	struct rvma_window *w = window(1, &attr);
	CU_ASSERT_EQUAL(rvma_win_get_epoch(w, &epoch), 0);
	CU_ASSERT_EQUAL(epoch, 0);
	for (unsigned k = 0; k < 3; k++)
		CU_ASSERT_EQUAL(post(w, k, k * 4096, 1000), 0);
	CU_ASSERT_EQUAL(put(1, 8, 0, 10), -EACCES);
	for (unsigned k = 0; k < 3; k++)
		CU_ASSERT_EQUAL(put(1, 9, 0, 10 + k), 0);
	CU_ASSERT_EQUAL(rvma_win_status(w, &s), 0);
	CU_ASSERT(s.epoch == 1 && s.posted == 2 && s.held == 1 && s.puts == 3 && s.bytes == 33 && s.refused == 1 &&
		  !s.closed);
	CU_ASSERT_EQUAL(rvma_close_win(w), 0);
	CU_ASSERT_EQUAL(rvma_win_status(w, &s), 0);
	CU_ASSERT(s.epoch == 3 && s.posted == 0 && s.held == 3 && s.closed);
	CU_ASSERT(b.note[1].flags == (RVMA_PARTIAL | RVMA_ENDED) && b.note[1].puts == 1 && b.note[1].length == 12);
	unmake();
}

TEST_EACH_WAY(peers_of_a_closed_context_learn_that_it_is_gone)
{
	const struct rvma_attr impatient = {.timeout = SP_SEC};
	struct rvma_op *op;

	make(&impatient);
	window(1, NULL);
	CU_ASSERT_EQUAL(put(1, 0, 0, 10), -ENOBUFS); /* they know each other */
	CU_ASSERT_EQUAL(rvma_close(b.rvma), 0);
	two_run(5 * SP_MS);
	CU_ASSERT_EQUAL(put(1, 0, 0, 10), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_open(b.dev, NULL, &b.rvma, NULL), 0);
	rvma_address_get(b.rvma, &b.address);
	CU_ASSERT_EQUAL(rvma_peer_close(a.peer), 0);
	CU_ASSERT_EQUAL_FATAL(rvma_peer_open(a.rvma, &b.address, &a.peer), 0);
	CU_ASSERT_EQUAL(put(1, 0, 0, 10), -ENOENT); /* its mailboxes are gone */
	CU_ASSERT_EQUAL(rvma_put(a.peer, 1, 0, a.mr, 0, ROOM, &op), 0);
	CU_ASSERT_EQUAL(rvma_peer_close(a.peer), -EBUSY);
	unmake(); /* with an operation on its way */
}

/* Long before the time of a silent peer is over, which time shows where it is the test's own. */
TEST_EACH_WAY(a_put_on_its_way_to_a_context_that_closes_ends)
{
	const struct rvma_attr impatient = {.timeout = SP_SEC};
	struct rvma_op *op;

	make(&impatient);
	struct rvma_window *w = window(1, NULL);
	CU_ASSERT_EQUAL(put(1, 0, 0, 10), -ENOBUFS); /* they know each other */
	CU_ASSERT_EQUAL(post(w, 0, 0, ROOM), 0);
	CU_ASSERT_EQUAL(rvma_put(a.peer, 1, 0, a.mr, 0, ROOM, &op), 0);
	two_run(500 * SP_US);
	CU_ASSERT_EQUAL(two_mode == VIRTUAL ? rvma_op_test(op) : -EAGAIN, -EAGAIN);
	CU_ASSERT_EQUAL(rvma_close(b.rvma), 0);
	CU_ASSERT_EQUAL(sp_mr_free(b.notes), 0);
	if (two_mode == VIRTUAL) {
		two_run(5 * SP_MS);
		CU_ASSERT_EQUAL(rvma_op_test(op), -ECONNRESET);
	} else {
		const int rc = rvma_op_wait(op, PATIENCE);

		CU_ASSERT(rc == -ECONNRESET || rc == 0); /* or it had arrived */
	}
	CU_ASSERT_EQUAL(rvma_open(b.dev, NULL, &b.rvma, NULL), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(b.dev, 64, &b.notes), 0);
	unmake();
}

/* An acknowledgement that waits for others goes before the end of the context is told. */
TEST_EACH_WAY(what_was_delivered_before_a_context_closes_is_told_as_delivered)
{
	const struct rvma_window_attr attr = {.threshold = 10000};
	struct rvma_op *op;

	make(NULL);
	struct rvma_window *w = window(1, &attr);
	CU_ASSERT_EQUAL(put(1, 0, 0, 10), -ENOBUFS); /* they know each other */
	CU_ASSERT_EQUAL(post(w, 0, 0, 10000), 0);
	CU_ASSERT_EQUAL(rvma_put(a.peer, 1, 0, a.mr, 0, 10000, &op), 0);
	if (two_mode == VIRTUAL)
		for (unsigned i = 0; i < 10000 && !noted(0); i++)
			two_run(100 * SP_NS);
	else
		CU_ASSERT_EQUAL(rvma_wait(b.rvma, &b.note[0], RVMA_WAIT_POLL, PATIENCE), 0);
	CU_ASSERT_FATAL(noted(0));
	CU_ASSERT_EQUAL(rvma_close(b.rvma), 0);
	CU_ASSERT_EQUAL(ended(op), 0);
	CU_ASSERT_EQUAL(rvma_open(b.dev, NULL, &b.rvma, NULL), 0);
	unmake();
}

TEST_EACH_WAY(calls_after_the_nic_has_ended_the_context_say_so)
{
	struct rvma_window_status status;
	struct rvma_completed done;
	struct rvma_window *v;
	struct rvma_peer *peer;
	struct rvma_op *op, *other;
	uint32_t id = 0;
	uint64_t epoch;
	char name[32];

	make(NULL);
	struct rvma_window *w = window(1, NULL);
	CU_ASSERT_EQUAL(post(w, 0, 0, 1000), 0);
	CU_ASSERT_EQUAL(rvma_put(b.peer, 1, 0, b.mr, 0, 1000, &op), 0);
	snprintf(name, sizeof(name), "rvma-%u", b.address.qpn);
	CU_ASSERT_EQUAL_FATAL(sp_nic_context_find(b.nic, name, &id), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(b.nic, id), 0);
	CU_ASSERT_EQUAL(rvma_wait(b.rvma, &b.note[0], RVMA_WAIT_SLEEP, SP_NEVER), -ECONNRESET);
	CU_ASSERT(rvma_op_test(op) < 0);
	CU_ASSERT_EQUAL(rvma_win_get_epoch(w, &epoch), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_win_status(w, &status), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_win_get_buf_ptrs(w, &done, 1), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_win_release(w, 0), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_win_rewind(w, 0, NULL), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_win_inc_epoch(w), -ECONNRESET);
	CU_ASSERT_EQUAL(post(w, 0, 0, 1000), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_init_window(b.rvma, 2, NULL, &v), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_put(b.peer, 1, 0, b.mr, 0, 1000, &other), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_get(b.peer, 1, 0, 0, 0, b.mr, 0, 1000, &other), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_peer_open(b.rvma, &a.address, &peer), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_close_win(w), -ECONNRESET);
	CU_ASSERT_EQUAL(rvma_free_win(w), -ECONNRESET);
	unmake();
}
