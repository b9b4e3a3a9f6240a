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
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../handlers/wire/capture.h"
#include "../../host-api/attach.h"
#include "../../host-api/sdr_private.h"
#include "../../pipeline/host.h"
#include "../../pipeline/registry.h"
#include "../lib/cable.h"
#include "../lib/suite.h"
#include <rte_mempool.h>

#define LONG	(60 * SP_SEC) /* nothing for so long: something is lost */
#define SLOTS	4u
#define MTU	1024u
#define LARGEST 20001u /* bytes of a message */
#define COUPLES 4u

/* ---- NICs and servers ----------------------------------------------------------------------------------------------
 */
static struct cable pair;
static struct sp_nic *nic[2];
static struct sp_server *server[2];
static char path[2][64];
static unsigned nics, buffers;

static unsigned hear_nothing(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	return 0;
}

/* A NIC alone reaches itself; two have a wire, of which one end takes memory of applications as it is. */
static const struct sp_port_ops silence = {.receive = hear_nothing, .transmit = cable_transmit, .next = cable_next};
static const struct sp_port_ops lending = {
	.receive = cable_receive, .transmit = cable_transmit, .next = cable_next, .external = true};

static unsigned buffers_in_use(void)
{
	return rte_mempool_in_use_count(sp_registry_pool()) + rte_mempool_in_use_count(sp_registry_pieces());
}

static void start(unsigned count, uint16_t workers)
{
	struct sp_error error = {.text = ""};

	if (sp_eal_init(0, NULL, &error) || (getenv("TMPDIR") && chdir(getenv("TMPDIR")))) {
		printf("Bail out! no EAL, or no TMPDIR: %s\n", error.text);
		exit(1);
	}
	nics = count;
	buffers = buffers_in_use();
	cable_open(&pair);
	for (unsigned i = 0; i < nics; i++) {
		const struct sp_server_config config = {.path = path[i], .group = -1};
		struct sp_nic_config c = {.addresses = 1, .ports = 1, .workers = workers, .seed = i + 1};

		snprintf(c.name, sizeof(c.name), "nic%u", i);
		memcpy(c.address[0].ip, (uint8_t[16]){[10] = 0xFF, [11] = 0xFF, 192, 0, 2, (uint8_t)(1 + i)}, 16);
		c.address[0].prefix = 24;
		c.port[0] = (struct sp_port_config){.ops = count == 1 ? &silence
							   : i	      ? &lending
								      : &cable_ops,
						    .ops_arg = &pair.end[i]};
		/* Paths of sockets must be short: relative ones. */
		snprintf(path[i], sizeof(path[i]), "./attached-%d-%u.sock", (int)getpid(), i);
		if (sp_nic_create(&c, &error, &nic[i]) || sp_nic_start(nic[i]) ||
		    sp_server_start(nic[i], &config, &error, &server[i])) {
			printf("Bail out! %s\n", error.text);
			exit(1);
		}
	}
}

static void stop_servers(void)
{
	for (unsigned i = 0; i < nics; i++) {
		char lock[80];

		sp_server_stop(server[i]);
		server[i] = NULL;
		snprintf(lock, sizeof(lock), "%s.lock", path[i]);
		unlink(lock);
	}
}

/* Nothing of any application is left. */
static void stop(void)
{
	stop_servers();
	for (unsigned i = 0; i < nics; i++) {
		sp_nic_stop(nic[i]);
		CU_ASSERT_PTR_NULL(nic[i]->device);
		CU_ASSERT_EQUAL(nic[i]->memory_used, 0);
	}
	for (unsigned i = 0; i < nics; i++)
		sp_nic_destroy(nic[i]);
	cable_close(&pair);
	CU_ASSERT_EQUAL(buffers_in_use(), buffers);
}

/* ---- two applications that talk to each other ----------------------------------------------------------------------
 */
struct couple;
struct app {
	pthread_t thread;
	struct couple *couple;
	unsigned end; /* 0 sends, 1 receives */
	bool sleeps;
	uint64_t leaves; /* without a word, after so many messages */

	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr; /* SLOTS buffers of LARGEST bytes */
	union {
		struct sdr_send *send;
		struct sdr_recv *recv;
	} slot[SLOTS];
	uint64_t begun, ended; /* messages */
	bool whole;	       /* the oldest receive has all, and is being taken back */
	_Atomic uint64_t came; /* ended, for others; relaxed */
	const char *wrong;     /* what went wrong, or NULL */
	int error;
};

struct couple {
	struct app app[2];
	uint64_t seed, messages;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t told;
	struct sdr_qp_info info[2];
	bool there[2], gone[2]; /* gone: done, or left */
	int bell[2];		/* eventfds: the other one has gone */
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9E3779B97F4A7C15ull + b * 0xD1342543DE82EF95u;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	return x ^ x >> 27;
}

static uint64_t length_of(const struct couple *c, uint64_t k)
{
	const uint64_t h = mix(c->seed, k);

	return h % 7 == 0 ? 0 : h % 5 == 0 ? LARGEST : h % (LARGEST + 1);
}

static uint8_t byte_of(const struct couple *c, uint64_t k, uint64_t at)
{
	return (uint8_t)(mix(c->seed + k, at / 64) >> at % 8);
}

static int fail(struct app *a, const char *wrong, int error)
{
	a->wrong = a->wrong ? a->wrong : wrong;
	a->error = error;
	return error;
}

/* Each step returns how much it did, or -errno. */
static int send_step(struct app *a)
{
	const struct couple *c = a->couple;
	int did = 0, r;

	for (; a->begun < c->messages && a->begun - a->ended < SLOTS; a->begun++, did++) {
		const uint64_t slot = a->begun % SLOTS, len = length_of(c, a->begun);
		uint8_t *to = (uint8_t *)a->mr->addr + slot * LARGEST;

		for (uint64_t i = 0; i < len; i++)
			to[i] = byte_of(c, a->begun, i);
		r = sdr_send_post(a->qp, a->mr, slot * LARGEST, len, (uint32_t)a->begun, &a->slot[slot].send);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(a, "sdr_send_post", r);
	}
	for (; a->ended < a->begun; a->ended++, did++) {
		r = sdr_send_poll(a->slot[a->ended % SLOTS].send);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(a, "sdr_send_poll", r);
	}
	return did;
}

static int recv_step(struct app *a)
{
	const struct couple *c = a->couple;
	struct sdr_recv_status status;
	int did = 0, r;

	for (; a->begun < c->messages && a->begun - a->ended < SLOTS; a->begun++, did++) {
		const uint64_t slot = a->begun % SLOTS;

		memset((uint8_t *)a->mr->addr + slot * LARGEST, 0xEE, LARGEST);
		r = sdr_recv_post(a->qp, a->mr, slot * LARGEST, LARGEST, &a->slot[slot].recv);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(a, "sdr_recv_post", r);
	}
	for (; a->ended < a->begun; a->ended++, did++) {
		struct sdr_recv *recv = a->slot[a->ended % SLOTS].recv;
		const uint8_t *at = (const uint8_t *)a->mr->addr + a->ended % SLOTS * LARGEST;
		const uint64_t len = length_of(c, a->ended);

		r = a->whole ? 0 : sdr_recv_test(recv);
		if (!r && !a->whole) {
			sdr_recv_status(recv, &status);
			if (!status.length_known || status.length != len)
				return fail(a, "a message of another length", -EBADMSG);
		}
		a->whole = !r;
		if (!r)
			r = sdr_recv_complete(recv);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(a, "receiving", r);
		a->whole = false;
		for (uint64_t i = 0; i < LARGEST; i++)
			if (at[i] != (i < len ? byte_of(c, a->ended, i) : 0xEE))
				return fail(a, "bytes differ", -EBADMSG);
	}
	return did;
}

static int open_end(struct app *a)
{
	const struct sdr_qp_attr attr = {.mtu = MTU,
					 .chunk_bytes = 2 * MTU,
					 .max_message_bytes = LARGEST,
					 .max_messages = SLOTS,
					 .max_packet_life = 100 * SP_US};
	struct sp_error error = {.text = ""};
	int r = sp_attach(path[(a->end + a->couple->seed) % nics], &a->dev);

	if (!r)
		r = sp_mr_alloc(a->dev, SLOTS * LARGEST, &a->mr);
	if (!r)
		r = sdr_context_create(a->dev, NULL, &a->context);
	if (!r)
		r = sdr_qp_create(a->context, &attr, &a->qp, &error);
	return r ? fail(a, "attaching", r) : 0;
}

/* The ends exchange what they must know of each other. 1: the other one is not there any more. */
static int meet(struct app *a)
{
	struct couple *c = a->couple;
	struct sdr_qp_info peer;
	int r;

	pthread_mutex_lock(&c->lock);
	sdr_qp_info_get(a->qp, &c->info[a->end]);
	c->there[a->end] = true;
	pthread_cond_broadcast(&c->told);
	while (!c->there[!a->end] && !c->gone[!a->end])
		pthread_cond_wait(&c->told, &c->lock);
	peer = c->info[!a->end];
	r = !c->there[!a->end];
	pthread_mutex_unlock(&c->lock);
	if (!r)
		r = sdr_qp_connect(a->qp, &peer);
	return r < 0 ? fail(a, "sdr_qp_connect", r) : r;
}

static bool other_has_gone(struct app *a)
{
	struct pollfd p = {.fd = a->couple->bell[a->end], .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* Armed, and nothing there: until the NIC has something for us, or the other one has gone. */
static int sleep_on(struct app *a)
{
	struct pollfd p[2] = {{.fd = sp_dev_fd(a->dev), .events = POLLIN},
			      {.fd = a->couple->bell[a->end], .events = POLLIN}};

	return poll(p, 2, (int)(LONG / SP_MS)) ? 0 : fail(a, "nobody wakes a sleeper", -ETIMEDOUT);
}

/* 0: all is through, or it is time to leave; 1: the other one has gone; or -errno. */
static int talk(struct app *a)
{
	const struct couple *c = a->couple;
	sp_time last = sp_clock();
	bool armed = false;

	for (;;) {
		const bool alone = other_has_gone(a);
		int r = a->end ? recv_step(a) : send_step(a);

		if (r < 0)
			return r;
		atomic_store_explicit(&a->came, a->ended, memory_order_relaxed);
		if (a->ended == c->messages || a->ended >= a->leaves)
			return 0;
		if (r) {
			last = sp_clock();
			armed = false;
			continue;
		}
		if (alone)
			return 1;
		if (sp_clock() - last > 2 * LONG)
			return fail(a, "a message does not come", -ETIMEDOUT);
		r = sp_progress(a->dev, sp_clock());
		if (!r && !a->sleeps) {
			usleep(20); /* the workers may have our processor */
		} else if (!r && !armed) {
			r = sp_dev_arm(a->dev);
			armed = true;
		} else if (!r) {
			r = sleep_on(a);
			armed = false;
		}
		if (r < 0)
			return fail(a, "waiting", r);
	}
}

/* What the program that dies takes with it, and the NIC hears nothing of. */
static void forget(struct sdr_context *context, struct sdr_qp *qp)
{
	if (qp) {
		free(qp->sends);
		free(qp->recvs);
		free(qp);
	}
	free(context);
}

/* What the sender has sent must be there before it goes: packets go with their QP. */
static void part(struct app *a, bool waits)
{
	struct couple *c = a->couple;

	pthread_mutex_lock(&c->lock);
	while (waits && !c->gone[!a->end])
		pthread_cond_wait(&c->told, &c->lock);
	c->gone[a->end] = true;
	pthread_cond_broadcast(&c->told);
	pthread_mutex_unlock(&c->lock);
	eventfd_write(c->bell[!a->end], 1);
}

static void *app_main(void *arg)
{
	struct app *a = arg;
	int r = open_end(a);

	if (!r)
		r = meet(a);
	if (!r)
		r = talk(a);
	part(a, !r && !a->end && a->leaves == UINT64_MAX);
	if (a->leaves == UINT64_MAX) { /* the others leave all to the NIC */
		r = a->qp ? sdr_qp_destroy(a->qp) : 0;
		if (r)
			fail(a, "sdr_qp_destroy", r);
		sdr_context_destroy(a->context);
		r = a->mr ? sp_mr_free(a->mr) : 0;
		if (r && r != -ENODEV)
			fail(a, "sp_mr_free", r);
	} else {
		forget(a->context, a->qp);
	}
	sp_dev_close(a->dev);
	return NULL;
}

/* sleeps: bit 0 the sender, bit 1 the receiver. */
static void begin(struct couple *c, uint64_t seed, uint64_t messages, unsigned sleeps)
{
	memset(c, 0, sizeof(*c));
	c->seed = seed;
	c->messages = messages;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->told, NULL);
	for (unsigned e = 0; e < 2; e++) {
		c->bell[e] = eventfd(0, EFD_CLOEXEC);
		c->app[e].couple = c;
		c->app[e].end = e;
		c->app[e].sleeps = sleeps >> e & 1;
		c->app[e].leaves = UINT64_MAX;
	}
}

static void go(struct couple *c)
{
	for (unsigned e = 0; e < 2; e++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&c->app[e].thread, NULL, app_main, &c->app[e]), 0);
}

static void finish(struct couple *c)
{
	for (unsigned e = 0; e < 2; e++)
		pthread_join(c->app[e].thread, NULL);
	for (unsigned e = 0; e < 2; e++)
		close(c->bell[e]);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->told);
}

static void is_fine(const struct couple *c)
{
	for (unsigned e = 0; e < 2; e++) {
		const struct app *a = &c->app[e];

		if (a->wrong)
			printf("# %s that %s: %s: %s, %llu of %llu begun, %llu ended\n", e ? "receiver" : "sender",
			       a->sleeps ? "sleeps" : "polls", a->wrong, strerror(-a->error),
			       (unsigned long long)a->begun, (unsigned long long)c->messages,
			       (unsigned long long)a->ended);
		CU_ASSERT_PTR_NULL(a->wrong);
	}
}

/* ---- those that disturb --------------------------------------------------------------------------------------------
 */
struct trouble {
	pthread_t thread[3];
	unsigned nic;
	_Atomic bool stop;	    /* relaxed */
	_Atomic unsigned rounds[3]; /* relaxed */
	unsigned wrong;
};

static void expect(struct trouble *t, bool fine)
{
	if (!fine)
		__atomic_fetch_add(&t->wrong, 1, __ATOMIC_RELAXED);
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
		int r = sp_attach(path[t->nic], &dev);

		expect(t, !r);
		if (r)
			break;
		sdr_context_create(dev, NULL, &context);
		for (unsigned i = 0; i < 4 && goes_on(t); i++) {
			const struct sdr_qp_attr attr = {.max_message_bytes = 65536, .max_messages = 2 + i};
			struct sdr_qp_info info[2];
			struct sdr_qp *qp[2];
			struct sdr_recv *recv;
			struct sdr_send *send;

			expect(t, !sp_mr_alloc(dev, 65536 << i, &mr));
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
				forget(NULL, qp[0]);
				forget(NULL, qp[1]);
				break;
			}
			expect(t, !sdr_qp_destroy(qp[n % 2]) && !sdr_qp_destroy(qp[!(n % 2)]));
			expect(t, !sp_mr_free(mr));
		}
		forget(context, NULL);
		sp_dev_close(dev);
		count(t, 0, 1);
	}
	return NULL;
}

static void *reporting(void *arg)
{
	struct trouble *t = arg;
	struct sp_attach_link *link = calloc(1, sizeof(*link)); /* it is large */

	expect(t, link && !sp_attach_connect(link, path[t->nic]));
	while (goes_on(t)) {
		const bool all = count(t, 1, 1) % 2;
		struct sp_attach_exchange x = {.op = SP_ATTACH_REPORT,
					       .arg = {all ? SP_REPORT_HANDLERS : SP_REPORT_ALL}};
		char *text = NULL;
		void *at = NULL;

		expect(t, !sp_attach_exchange(link, &x) && !sp_attach_map(x.fd[0], x.arg[0], false, &at));
		expect(t, *(const char *)at == '{');
		munmap(at, x.arg[0]);
		sp_attach_release(&x);
		expect(t, !sp_nic_report_text(nic[t->nic], !all, NULL, &text) && text && *text == '{');
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
		void *at;

		expect(t, !sp_attach_connect(link, path[t->nic]));
		expect(t, !sp_attach_exchange(link, &x) && !sp_attach_map(x.fd[0], x.arg[0], true, &at));
		sp_attach_release(&x);
		for (unsigned i = 0; i < 1 + n % 50; i++) {
			count(t, 2, read_rings(t, at));
			usleep(1000);
		}
		if (n % 3)
			munmap(at, x.arg[0]);
		close(link->fd); /* the end of the capture */
		if (n % 3 == 0)
			munmap(at, x.arg[0]);
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

/* ---- rules ---------------------------------------------------------------------------------------------------------
 */
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

		start(shapes[i].nics, shapes[i].workers);
		for (unsigned k = 0; k < COUPLES; k++) {
			begin(&couple[k], 100 * i + k, much(150), k);
			go(&couple[k]);
		}
		for (unsigned k = 0; k < COUPLES; k++) {
			finish(&couple[k]);
			is_fine(&couple[k]);
			CU_ASSERT_EQUAL(couple[k].app[1].ended, much(150));
		}
		stop();
	}
}

TEST(transfers_stay_whole_while_others_come_and_go_ask_and_capture)
{
	for (unsigned i = 0; i < SHAPES; i++) {
		struct couple couple[COUPLES];
		struct trouble trouble[2];

		start(shapes[i].nics, shapes[i].workers);
		for (unsigned k = 0; k < nics; k++)
			disturb(&trouble[k], k);
		do {
			for (unsigned k = 0; k < COUPLES; k++) {
				begin(&couple[k], 1000 + 100 * i + k, FEWER(50), k);
				go(&couple[k]);
			}
			for (unsigned k = 0; k < COUPLES; k++) {
				finish(&couple[k]);
				is_fine(&couple[k]);
				CU_ASSERT_EQUAL(couple[k].app[1].ended, FEWER(50));
			}
		} while (count(&trouble[0], 0, 0) < much(4) && CU_get_number_of_failures() < 20);
		for (unsigned k = 0; k < nics; k++)
			calm(&trouble[k]);
		stop();
	}
}

TEST(applications_that_leave_in_the_middle_hurt_nobody)
{
	for (unsigned i = 0; i < SHAPES; i++) {
		struct couple stays[2], leaves[COUPLES];

		start(shapes[i].nics, shapes[i].workers);
		for (unsigned k = 0; k < 2; k++) {
			begin(&stays[k], 2000 + 100 * i + k, much(100), 3 * k);
			go(&stays[k]);
		}
		for (unsigned round = 0; round < much(8); round++) {
			for (unsigned k = 0; k < COUPLES; k++) {
				begin(&leaves[k], 3000 + k, UINT64_MAX, k);
				leaves[k].app[round % 2].leaves = mix(round, k) % 20;
				go(&leaves[k]);
			}
			for (unsigned k = 0; k < COUPLES; k++) {
				finish(&leaves[k]);
				is_fine(&leaves[k]);
			}
		}
		for (unsigned k = 0; k < 2; k++) {
			finish(&stays[k]);
			is_fine(&stays[k]);
			CU_ASSERT_EQUAL(stays[k].app[1].ended, much(100));
		}
		stop();
	}
}

TEST(a_server_that_stops_under_load_lets_everybody_know)
{
	for (uint64_t n = 0; n < much(2) * SHAPES; n++) {
		struct couple couple[COUPLES];

		start(shapes[n % SHAPES].nics, shapes[n % SHAPES].workers);
		for (unsigned k = 0; k < COUPLES; k++) {
			begin(&couple[k], 4000 + k, UINT64_MAX, k);
			go(&couple[k]);
		}
		/* Until all are in the midst of it, or one has failed. */
		for (unsigned k = 0; k < COUPLES; k++)
			while (atomic_load_explicit(&couple[k].app[1].came, memory_order_relaxed) < 3 * k + 1 &&
			       !other_has_gone(&couple[k].app[0]))
				usleep(100);
		stop_servers();
		for (unsigned k = 0; k < COUPLES; k++) {
			finish(&couple[k]);
			for (unsigned e = 0; e < 2; e++) {
				const struct app *a = &couple[k].app[e];

				/* Whose peer was told first may have gone because of that. */
				CU_ASSERT(!a->wrong || a->error == -ENODEV || a->error == -ECONNRESET);
				if (a->wrong && a->error != -ENODEV && a->error != -ECONNRESET)
					printf("# %s: %s\n", a->wrong, strerror(-a->error));
			}
			CU_ASSERT(couple[k].app[0].wrong || couple[k].app[1].wrong);
		}
		stop();
	}
}
