/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applications that are attached to NICs by their sockets, all in one process, each in a thread of its own: they
 * transfer while others come, go, leave without a word, allocate, ask for reports and capture; and servers stop under
 * them. A message that does not come and a sleeper that nobody wakes are told by a time so long that nothing else takes
 * it.
 *
 * What ThreadSanitizer says here is about the NIC's threads among each other (workers, server, notifier, control calls)
 * and about the library's state. It says nothing about the order between NIC and application: they map the same memory
 * at two addresses, and races are looked for address by address. That order is threads/sdr.c's and threads/wakeup.c's,
 * where both sides use one mapping. Between two NICs the wire's lock orders their workers; a NIC that talks to itself
 * has none.
 */
#include "../lib/couples.h"

/* ---- those that disturb ---- */
struct trouble {
	pthread_t thread[3];
	unsigned nic;
	_Atomic bool stop;	    /* relaxed */
	_Atomic unsigned rounds[3]; /* relaxed */
	unsigned wrong;
};

#define expect(t, fine) expect_at(t, fine, #fine, __LINE__)

static bool expect_at(struct trouble *t, bool fine, const char *what, int line)
{
	if (!fine) {
		__atomic_fetch_add(&t->wrong, 1, __ATOMIC_RELAXED);
		printf("# line %d: not %s\n", line, what);
	}
	return fine;
}

/* What others have just left may have to be put away first: a machine that is busy enough makes a NIC say -EBUSY. */
static bool busy(int rc)
{
	if (rc == -EBUSY)
		usleep(10000);
	return rc == -EBUSY;
}

/* Returns how many there were before. */
static unsigned count(struct trouble *t, unsigned what, unsigned more)
{
	return atomic_fetch_add_explicit(&t->rounds[what], more, memory_order_relaxed);
}

static bool goes_on(struct trouble *t)
{
	return !atomic_load_explicit(&t->stop, memory_order_relaxed);
}

/* Contexts and regions that come and go, with messages in their midst; and applications with all that they have. */
static void *coming_and_going(void *arg)
{
	struct trouble *t = arg;

	for (unsigned n = 0; goes_on(t); n++) {
		struct sdr_context *context;
		struct sp_dev *dev;
		struct sp_mr *mr;
		int r;

		do
			r = sp_attach(couple_path[t->nic], &dev);
		while (busy(r));
		if (!expect(t, !r))
			break;
		sdr_context_create(dev, NULL, &context);
		for (unsigned i = 0; i < 4 && goes_on(t); i++) {
			const struct sdr_qp_attr attr = {.max_message_bytes = 65536, .max_messages = 2 + i};
			struct sdr_qp_info info[2];
			struct sdr_qp *qp[2];
			struct sdr_recv *recv;
			struct sdr_send *send;

			do
				r = sp_mr_alloc(dev, 65536 << i, &mr);
			while (busy(r));
			if (!expect(t, !r))
				break;
			expect(t, !sdr_qp_create(context, &attr, &qp[0], NULL) &&
					  !sdr_qp_create(context, &attr, &qp[1], NULL));
			sdr_qp_info_get(qp[0], &info[0]);
			sdr_qp_info_get(qp[1], &info[1]);
			expect(t, !sdr_qp_connect(qp[0], &info[1]) && !sdr_qp_connect(qp[1], &info[0]));
			expect(t, !sdr_recv_post(qp[1], mr, 0, 30000, &recv) &&
					  !sdr_send_post(qp[0], mr, 32768, 30000, 0, &send));
			if (i % 2)
				expect(t, !sdr_recv_wait(recv, SDR_WAIT_ALL, NULL, LONG));
			if (i == 3 && n % 2) { /* the end of the application ends them */
				couple_forget(NULL, qp[0]);
				couple_forget(NULL, qp[1]);
				break;
			}
			expect(t, !sdr_qp_destroy(qp[n % 2]) && !sdr_qp_destroy(qp[!(n % 2)]));
			expect(t, !sp_mr_free(mr));
		}
		couple_forget(context, NULL);
		sp_dev_close(dev);
		count(t, 0, 1);
	}
	return NULL;
}

static void *reporting(void *arg)
{
	struct trouble *t = arg;
	struct sp_attach_link *link = calloc(1, sizeof(*link)); /* it is large */

	if (!expect(t, link && !sp_attach_connect(link, couple_path[t->nic])))
		return NULL;
	while (goes_on(t)) {
		const bool all = count(t, 1, 1) % 2;
		struct sp_attach_exchange x = {.op = SP_ATTACH_REPORT,
					       .arg = {all ? SP_REPORT_HANDLERS : SP_REPORT_ALL}};
		char *text = NULL;
		void *at = NULL;

		expect(t, !sp_attach_exchange(link, &x) && !sp_attach_map(x.fd[0], x.arg[0], &at));
		expect(t, *(const char *)at == '{');
		munmap(at, x.arg[0]);
		sp_attach_release(&x);
		expect(t, !sp_nic_report_text(couple_nic[t->nic], !all, NULL, &text) && text && *text == '{');
		free(text);
	}
	close(link->fd);
	free(link);
	return NULL;
}

/* What is in the rings is whole; how much is the machine's affair. */
static unsigned read_rings(struct trouble *t, uint8_t *memory)
{
	const struct sp_capture_memory *head = (const void *)memory;
	unsigned n = 0;

	for (uint32_t w = 0; w < head->workers; w++) {
		struct sp_capture_ring *ring = (void *)(memory + head->first + w * head->stride);
		const uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		uint64_t at = ring->head;

		for (; at < tail; at++, n++) {
			const struct sp_capture_slot *slot =
				(const void *)((const uint8_t *)(ring + 1) + at % head->slots * head->slot_bytes);

			expect(t, slot->worker == w && slot->captured <= slot->length && slot->length >= 60 &&
					  slot->fate >= SP_CAPTURE_TAKEN && slot->fate <= SP_CAPTURE_SENT);
		}
		__atomic_store_n(&ring->head, at, __ATOMIC_RELEASE);
	}
	return n;
}

static void *capturing(void *arg)
{
	struct trouble *t = arg;
	struct sp_attach_link *link = calloc(1, sizeof(*link));

	for (unsigned n = 0; goes_on(t); n++) {
		const struct sp_capture_request request = {.flags = n % 4 == 3 ? SP_CAPTURE_DROPS : 0,
							   .snaplen = n % 2 ? 0 : 100,
							   .filter = "udp port 4791"};
		struct sp_attach_exchange x = {.op = SP_ATTACH_CAPTURE, .data = &request, .bytes = sizeof(request)};
		uint64_t bytes;
		void *at;

		int r = sp_attach_connect(link, couple_path[t->nic]);

		if (!expect(t, !r || busy(r)))
			break;
		if (r)
			continue;
		r = sp_attach_exchange_memory(link, &x, &at, &bytes);
		sp_attach_release(&x);
		if (r)
			close(link->fd);
		if (!expect(t, !r || busy(r)))
			break;
		if (r)
			continue;
		for (unsigned i = 0; i < 1 + n % 50; i++) {
			count(t, 2, read_rings(t, at));
			usleep(1000);
		}
		if (n % 3)
			munmap(at, bytes);
		close(link->fd); /* the end of the capture */
		if (n % 3 == 0)
			munmap(at, bytes);
	}
	free(link);
	return NULL;
}

static void disturb(struct trouble *t, unsigned on)
{
	void *(*const how[])(void *) = {coming_and_going, reporting, capturing};

	memset(t, 0, sizeof(*t));
	t->nic = on;
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&t->thread[i], NULL, how[i], t), 0);
}

static void calm(struct trouble *t)
{
	atomic_store_explicit(&t->stop, true, memory_order_relaxed);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t->thread[i], NULL);
	printf("# nic%u: %u applications came and went, %u reports, %u packets captured\n", t->nic, count(t, 0, 0),
	       count(t, 1, 0), count(t, 2, 0));
	CU_ASSERT_EQUAL(t->wrong, 0);
}

/* ---- rules ---- */
static const struct {
	unsigned nics;
	uint16_t workers;
} shapes[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}};

#define SHAPES (sizeof(shapes) / sizeof(*shapes))

#ifdef __SANITIZE_THREAD__

#define FEWER(n) (((n) + 5) / 6) /* what is not ordered is told the first time */

#else

#define FEWER(n) (((n) + 1) / 2)

#endif

static uint64_t much(uint64_t little)
{
	const char *more = getenv("SPINDLE_LONG");

	little = FEWER(little);
	return more && *more && strcmp(more, "0") ? 20 * little : little;
}

TEST(applications_that_poll_and_that_sleep_get_every_message)
{
	for (unsigned i = 0; i < SHAPES; i++) {
		struct couple couple[COUPLES];

		couple_start(shapes[i].nics, shapes[i].workers);
		for (unsigned k = 0; k < COUPLES; k++) {
			couple_begin(&couple[k], 100 * i + k, much(150), k);
			couple_go(&couple[k]);
		}
		for (unsigned k = 0; k < COUPLES; k++) {
			couple_finish(&couple[k]);
			couple_is_fine(&couple[k]);
			CU_ASSERT_EQUAL(couple[k].app[1].ended, much(150));
		}
		couple_stop();
	}
}

TEST(transfers_stay_whole_while_others_come_and_go_ask_and_capture)
{
	for (unsigned i = 0; i < SHAPES; i++) {
		struct couple couple[COUPLES];
		struct trouble trouble[2];

		couple_start(shapes[i].nics, shapes[i].workers);
		for (unsigned k = 0; k < couple_nics; k++)
			disturb(&trouble[k], k);
		do {
			for (unsigned k = 0; k < COUPLES; k++) {
				couple_begin(&couple[k], 1000 + 100 * i + k, FEWER(50), k);
				couple_go(&couple[k]);
			}
			for (unsigned k = 0; k < COUPLES; k++) {
				couple_finish(&couple[k]);
				couple_is_fine(&couple[k]);
				CU_ASSERT_EQUAL(couple[k].app[1].ended, FEWER(50));
			}
		} while (count(&trouble[0], 0, 0) < much(4) && CU_get_number_of_failures() < 20);
		for (unsigned k = 0; k < couple_nics; k++)
			calm(&trouble[k]);
		couple_stop();
	}
}

TEST(applications_that_leave_in_the_middle_hurt_nobody)
{
	for (unsigned i = 0; i < SHAPES; i++) {
		struct couple stays[2], leaves[COUPLES];

		couple_start(shapes[i].nics, shapes[i].workers);
		for (unsigned k = 0; k < 2; k++) {
			couple_begin(&stays[k], 2000 + 100 * i + k, much(100), 3 * k);
			couple_go(&stays[k]);
		}
		for (unsigned round = 0; round < much(8); round++) {
			for (unsigned k = 0; k < COUPLES; k++) {
				couple_begin(&leaves[k], 3000 + k, UINT64_MAX, k);
				leaves[k].app[round % 2].leaves = couple_mix(round, k) % 20;
				couple_go(&leaves[k]);
			}
			for (unsigned k = 0; k < COUPLES; k++) {
				couple_finish(&leaves[k]);
				couple_is_fine(&leaves[k]);
			}
		}
		for (unsigned k = 0; k < 2; k++) {
			couple_finish(&stays[k]);
			couple_is_fine(&stays[k]);
			CU_ASSERT_EQUAL(stays[k].app[1].ended, much(100));
		}
		couple_stop();
	}
}

TEST(a_server_that_stops_under_load_lets_everybody_know)
{
	for (uint64_t n = 0; n < much(2) * SHAPES; n++) {
		struct couple couple[COUPLES];

		couple_start(shapes[n % SHAPES].nics, shapes[n % SHAPES].workers);
		for (unsigned k = 0; k < COUPLES; k++) {
			couple_begin(&couple[k], 4000 + k, UINT64_MAX, k);
			couple_go(&couple[k]);
		}
		/* Until all are in the midst of it, or one has failed. */
		for (unsigned k = 0; k < COUPLES; k++)
			while (atomic_load_explicit(&couple[k].app[1].came, memory_order_relaxed) < 3 * k + 1 &&
			       !couple_other_has_gone(&couple[k].app[0]))
				usleep(100);
		couple_stop_servers();
		for (unsigned k = 0; k < COUPLES; k++) {
			couple_finish(&couple[k]);
			for (unsigned e = 0; e < 2; e++) {
				const struct app *a = &couple[k].app[e];

				/* Whose peer was told first may have gone because of that. */
				CU_ASSERT(!a->wrong || a->error == -ENODEV || a->error == -ECONNRESET);
				if (a->wrong && a->error != -ENODEV && a->error != -ECONNRESET)
					printf("# %s: %s\n", a->wrong, strerror(-a->error));
			}
			CU_ASSERT(couple[k].app[0].wrong || couple[k].app[1].wrong);
		}
		couple_stop();
	}
}
