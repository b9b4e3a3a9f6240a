/* SPDX-License-Identifier: BSD-3-Clause */
#include "couples.h"
#include "ports.h"

/* ---- NICs and servers ---- */
static struct cable pair;

struct sp_nic *couple_nic[2];

static struct sp_server *couple_server[2];

char couple_path[2][64];

unsigned couple_nics, buffers;

/* A NIC alone reaches itself; two have a wire, of which one end takes memory of applications as it is. */
static const struct sp_port_ops silence = {
	.receive = port_hear_nothing, .transmit = cable_transmit, .next = cable_next};

static const struct sp_port_ops lending = {
	.receive = cable_receive, .transmit = cable_transmit, .next = cable_next, .external = true};

static unsigned buffers_in_use(void)
{
	return rte_mempool_in_use_count(sp_process_pool()) + rte_mempool_in_use_count(sp_process_pieces());
}

void couple_start(unsigned count, uint16_t workers)
{
	struct sp_error error = {.text = ""};

	if (sp_eal_init(0, NULL, &error) || (getenv("TMPDIR") && chdir(getenv("TMPDIR")))) {
		printf("Bail out! no EAL, or no TMPDIR: %s\n", error.text);
		exit(1);
	}
	couple_nics = count;
	buffers = buffers_in_use();
	cable_open(&pair);
	for (unsigned i = 0; i < couple_nics; i++) {
		const struct sp_server_config config = {.path = couple_path[i], .group = -1};
		struct sp_nic_config c = {.addresses = 1, .ports = 1, .workers = workers, .seed = i + 1};

		snprintf(c.name, sizeof(c.name), "nic%u", i);
		memcpy(c.address[0].ip, (uint8_t[16]){[10] = 0xFF, [11] = 0xFF, 192, 0, 2, (uint8_t)(1 + i)}, 16);
		c.address[0].prefix = 24;
		c.port[0] = (struct sp_port_config){.ops = count == 1 ? &silence
							   : i	      ? &lending
								      : &cable_ops,
						    .ops_arg = &pair.end[i]};
		/* Paths of sockets must be short: relative ones. */
		snprintf(couple_path[i], sizeof(couple_path[i]), "./attached-%d-%u.sock", (int)getpid(), i);
		if (sp_nic_create(&c, &error, &couple_nic[i]) || sp_nic_start(couple_nic[i]) ||
		    sp_server_start(couple_nic[i], &config, &error, &couple_server[i])) {
			printf("Bail out! %s\n", error.text);
			exit(1);
		}
	}
}

void couple_stop_servers(void)
{
	for (unsigned i = 0; i < couple_nics; i++) {
		char lock[80];

		sp_server_stop(couple_server[i]);
		couple_server[i] = NULL;
		snprintf(lock, sizeof(lock), "%s.lock", couple_path[i]);
		unlink(lock);
	}
}

void couple_stop(void)
{
	couple_stop_servers();
	for (unsigned i = 0; i < couple_nics; i++) {
		sp_nic_stop(couple_nic[i]);
		CU_ASSERT_PTR_NULL(couple_nic[i]->device);
		CU_ASSERT_EQUAL(couple_nic[i]->memory_used, 0);
	}
	for (unsigned i = 0; i < couple_nics; i++)
		sp_nic_destroy(couple_nic[i]);
	cable_close(&pair);
	CU_ASSERT_EQUAL(buffers_in_use(), buffers);
}

/* ---- two applications that talk to each other ---- */
struct couple;

uint64_t couple_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9E3779B97F4A7C15ull + b * 0xD1342543DE82EF95u;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	return x ^ x >> 27;
}

static uint64_t length_of(const struct couple *c, uint64_t k)
{
	const uint64_t h = couple_mix(c->seed, k);

	return h % 7 == 0 ? 0 : h % 5 == 0 ? LARGEST : h % (LARGEST + 1);
}

static uint8_t byte_of(const struct couple *c, uint64_t k, uint64_t at)
{
	return (uint8_t)(couple_mix(c->seed + k, at / 64) >> at % 8);
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
	int r = sp_attach(couple_path[(a->end + a->couple->seed) % couple_nics], &a->dev);

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

	pthread_mutex_lock(&c->lock);
	sdr_qp_info_get(a->qp, &c->info[a->end]);
	c->there[a->end] = true;
	pthread_cond_broadcast(&c->told);
	while (!c->there[!a->end] && !c->gone[!a->end])
		pthread_cond_wait(&c->told, &c->lock);
	struct sdr_qp_info peer = c->info[!a->end];
	int r = !c->there[!a->end];
	pthread_mutex_unlock(&c->lock);
	if (!r)
		r = sdr_qp_connect(a->qp, &peer);
	return r < 0 ? fail(a, "sdr_qp_connect", r) : r;
}

bool couple_other_has_gone(struct app *a)
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
		const bool alone = couple_other_has_gone(a);
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

void couple_forget(struct sdr_context *context, struct sdr_qp *qp)
{
	if (qp) {
		free(qp->control_seen);
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
		couple_forget(a->context, a->qp);
	}
	sp_dev_close(a->dev);
	return NULL;
}

void couple_begin(struct couple *c, uint64_t seed, uint64_t messages, unsigned sleeps)
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

void couple_go(struct couple *c)
{
	for (unsigned e = 0; e < 2; e++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&c->app[e].thread, NULL, app_main, &c->app[e]), 0);
}

void couple_finish(struct couple *c)
{
	for (unsigned e = 0; e < 2; e++)
		pthread_join(c->app[e].thread, NULL);
	for (unsigned e = 0; e < 2; e++)
		close(c->bell[e]);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->told);
}

void couple_is_fine(const struct couple *c)
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
