/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RVMA with threads: two NICs of two workers each, whose packets come to whichever worker asks first and are handed
 * over to the home worker; a program at each end that posts, puts and gets meanwhile, and waits in each of the three
 * ways. For the thread sanitizer, and for the bytes.
 */
#include "../../host-api/rvma.h"
#include "../lib/two_nics.h"

enum { BUFFERS = 4, SIZE = 20000 };
#ifdef __SANITIZE_THREAD__
#define FEW 60 /* what is not ordered is told the first time */
#else
#define FEW 200
#endif

struct side {
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_address address;
	struct rvma_peer *peer;
	struct rvma_window *window;
	struct sp_mr *in, *out, *back, *notes;
	volatile struct rvma_notification *note;
	uint64_t rounds;
	const char *wrong;
};

static struct side side[2];

static uint64_t rounds(void)
{
	return getenv("SPINDLE_LONG") ? 20000 : FEW;
}

/* Of round k: one packet, or many. */
static uint32_t put_length(uint64_t k)
{
	return k % 3 ? 8 + (uint32_t)(k % 100) : SIZE - (uint32_t)(k % 1000);
}

static int post(struct side *s, uint64_t k)
{
	const uint64_t i = k % BUFFERS;
	const struct rvma_buffer buffer = {.mr = s->in,
					   .offset = i * SIZE,
					   .size = SIZE,
					   .notify_mr = s->notes,
					   .notify_offset = i * sizeof(*s->note)};

	memset((void *)(uintptr_t)&s->note[i], 0, sizeof(s->note[i]));
	return rvma_post_buffer(s->window, &buffer);
}

static void open_side(unsigned e)
{
	static const struct rvma_window_attr attr = {
		.key = 5, .type = RVMA_EPOCH_OPS, .threshold = 1, .readable = true};
	struct side *s = &side[e];
	struct sp_error error = {.text = "no memory"};

	*s = (struct side){.dev = two_ends[e].dev, .rounds = rounds()};
	if (rvma_open(s->dev, NULL, &s->rvma, &error) || sp_mr_alloc(s->dev, BUFFERS * SIZE, &s->in) ||
	    sp_mr_alloc(s->dev, SIZE, &s->out) || sp_mr_alloc(s->dev, SIZE, &s->back) ||
	    sp_mr_alloc(s->dev, BUFFERS * sizeof(*s->note), &s->notes) ||
	    rvma_init_window(s->rvma, 100 + e, &attr, &s->window) || rvma_address_get(s->rvma, &s->address))
		two_bail(&error);
	s->note = s->notes->addr;
	for (uint64_t k = 0; k < BUFFERS; k++)
		CU_ASSERT_EQUAL_FATAL(post(s, k), 0);
}

static void close_side(struct side *s)
{
	CU_ASSERT_EQUAL(rvma_close(s->rvma), 0);
	CU_ASSERT_EQUAL(sp_mr_free(s->in), 0);
	CU_ASSERT_EQUAL(sp_mr_free(s->out), 0);
	CU_ASSERT_EQUAL(sp_mr_free(s->back), 0);
	CU_ASSERT_EQUAL(sp_mr_free(s->notes), 0);
}

static bool same(const uint8_t *bytes, uint64_t k, unsigned from)
{
	for (uint32_t i = 0; i < put_length(k); i++)
		if (bytes[i] != (uint8_t)(k * 13 + i * 7 + from))
			return false;
	return true;
}

#define MUST(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			s->wrong = #condition;                                                                         \
			return NULL;                                                                                   \
		}                                                                                                      \
	} while (0)

/* One round: puts to the other, waits for what the other puts, reads it back there now and then, gives it back. */
static void *program(void *arg)
{
	static const enum rvma_wait how[] = {RVMA_WAIT_POLL, RVMA_WAIT_MONITOR, RVMA_WAIT_SLEEP};
	struct side *s = arg;
	const unsigned e = (unsigned)(s - side);

	for (uint64_t k = 0; k < s->rounds; k++) {
		const uint64_t i = k % BUFFERS;
		struct rvma_op *put, *get;

		for (uint32_t b = 0; b < put_length(k); b++)
			((uint8_t *)s->out->addr)[b] = (uint8_t)(k * 13 + b * 7 + e);
		MUST(!rvma_put(s->peer, 101 - e, 5, s->out, 0, put_length(k), &put));
		MUST(!rvma_wait(s->rvma, &s->note[i], how[(k + e) % 3], PATIENCE));
		MUST(s->note[i].epoch == k && !s->note[i].flags && s->note[i].length == put_length(k));
		MUST(same((uint8_t *)s->in->addr + i * SIZE, k, !e));
		MUST(!rvma_op_wait(put, PATIENCE));
		if (k % 8 == 7) { /* it has that, or what came next */
			MUST(!rvma_get(s->peer, 101 - e, 5, 0, 0, s->back, 0, 8, &get));
			MUST(!rvma_op_wait(get, PATIENCE));
		}
		if (k >= 2) {
			const int rc = rvma_win_release(s->window, k - 2);

			MUST(!rc || rc == -EAGAIN); /* the other reads it */
		}
		MUST(!post(s, k));
	}
	return NULL;
}

static void programs_and_workers_of_two_nics(void)
{
	pthread_t thread;

	two_make();
	two_cable.wire[0].spread = two_cable.wire[1].spread = true;
	open_side(0);
	open_side(1);
	for (unsigned e = 0; e < 2; e++)
		CU_ASSERT_EQUAL_FATAL(rvma_peer_open(side[e].rvma, &side[!e].address, &side[e].peer), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, program, &side[1]), 0);
	program(&side[0]);
	pthread_join(thread, NULL);
	for (unsigned e = 0; e < 2; e++) {
		CU_ASSERT_PTR_NULL(side[e].wrong);
		if (side[e].wrong)
			printf("# side %u: not %s\n", e, side[e].wrong);
	}
	close_side(&side[0]);
	close_side(&side[1]);
	two_unmake();
}

TEST(puts_go_both_ways_while_packets_are_handed_over)
{
	two_mode = THREADS;
	programs_and_workers_of_two_nics();
}

TEST(puts_go_both_ways_between_attached_programs)
{
	two_mode = ATTACHED;
	programs_and_workers_of_two_nics();
}
