/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How others fare on a NIC: for attacks.py. Verbs of hostile.c's program, each of which does one thing again and again
 * and takes its time. "?" on stdin is answered by "pulse COUNT MEDIAN P99 LONGEST ERROR LATE" of what ended since the
 * last "?", in microseconds; what has not ended yet counts in LONGEST. LATE: by how much a thread that only sleeps has
 * woken too late: what the machine, not the NIC, is to blame for.
 *
 *   pulse     how=ping: a message there and one back, asleep meanwhile; how=pong: its peer
 *   attaches  attaches and closes
 */
#include "../../host-api/sdr.h"
#include "hostile.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLES (1u << 17)

static struct {
	pthread_mutex_t lock; /* of all below */
	uint32_t took[SAMPLES];
	uint64_t count, longest; /* longest: us */
	sp_time since;		 /* what is underway has begun; 0: nothing is */
	int error;		 /* the last */
	uint64_t late;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t us(sp_time from)
{
	return (sp_clock() - from) / SP_US;
}

static void begins(void)
{
	pthread_mutex_lock(&seen.lock);
	seen.since = sp_clock();
	pthread_mutex_unlock(&seen.lock);
}

static int ended(int r)
{
	pthread_mutex_lock(&seen.lock);
	const uint64_t took = us(seen.since);

	seen.since = 0;
	if (r)
		seen.error = r;
	else
		seen.took[seen.count++ % SAMPLES] = (uint32_t)took;
	if (took > seen.longest)
		seen.longest = took;
	pthread_mutex_unlock(&seen.lock);
	return r;
}

static int ascending(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void report(void)
{
	static uint32_t took[SAMPLES];

	pthread_mutex_lock(&seen.lock);
	const uint64_t count = seen.count, n = count < SAMPLES ? count : SAMPLES,
		       underway = seen.since ? us(seen.since) : 0,
		       longest = underway > seen.longest ? underway : seen.longest;
	const uint64_t late = seen.late;
	const int error = seen.error;

	memcpy(took, seen.took, n * sizeof(*took));
	seen.count = seen.longest = seen.late = 0;
	seen.error = 0;
	pthread_mutex_unlock(&seen.lock);
	qsort(took, n, sizeof(*took), ascending);
	printf("pulse %" PRIu64 " %u %u %" PRIu64 " %d %" PRIu64 "\n", count, n ? took[n / 2] : 0,
	       n ? took[n * 99 / 100] : 0, longest, -error, late);
}

static void *sleep_again(void *arg)
{
	for (;;) {
		const sp_time from = sp_clock();

		usleep(2000);
		pthread_mutex_lock(&seen.lock);
		const uint64_t took = us(from);

		if (took > seen.late + 2000)
			seen.late = took - 2000;
		pthread_mutex_unlock(&seen.lock);
	}
	return arg;
}

/* Answers while that goes on in a thread of its own. */
static int observe(void *(*run)(void *))
{
	pthread_t thread;
	char line[16];

	if (pthread_create(&thread, NULL, run, NULL) || pthread_create(&thread, NULL, sleep_again, NULL))
		return 1;
	puts("ready");
	while (fgets(line, sizeof(line), stdin))
		report();
	puts("ok");
	_exit(0); /* it may wait for ever */
}

/* ---- messages ---- */
static struct sp_dev *dev;
static struct sdr_context *context;
static struct sp_mr *mr;
static struct sdr_qp *qp;

/* A call that says -EAGAIN until the NIC has got on. */
#define AGAIN(CALL)                                                                                                    \
	({                                                                                                             \
		int again;                                                                                             \
		while ((again = (CALL)) == -EAGAIN) {                                                                  \
			sp_progress(dev, sp_clock());                                                                  \
			usleep(50);                                                                                    \
		}                                                                                                      \
		again;                                                                                                 \
	})

static int send_one(void)
{
	struct sdr_send *send;
	const int r = AGAIN(sdr_send_post(qp, mr, 0, o.size, 0, &send));

	return r ? r : AGAIN(sdr_send_poll(send));
}

static int recv_one(struct sdr_recv *recv)
{
	const int r = sdr_recv_wait(recv, SDR_WAIT_ALL, NULL, SP_NEVER);

	return r ? r : AGAIN(sdr_recv_complete(recv));
}

static int recv_post(struct sdr_recv **recv)
{
	return AGAIN(sdr_recv_post(qp, mr, o.size, o.size, recv));
}

static void *ping(void *arg)
{
	struct sdr_recv *recv;
	int r = 0;

	while (!r) {
		begins();
		r = recv_post(&recv);
		r = r ? r : send_one();
		ended(r ? r : recv_one(recv));
		usleep(300); /* leaves the processors to others */
	}
	return arg;
}

static void *pong(void *arg)
{
	struct sdr_recv *recv;
	int r = recv_post(&recv);

	while (!r) {
		r = recv_one(recv);
		r = r ? r : recv_post(&recv);
		r = r ? r : send_one();
	}
	ended(r);
	return arg;
}

int pulse(void)
{
	const struct sdr_qp_attr attr = {
		.max_message_bytes = o.size, .chunk_bytes = 8192, .max_messages = 16, .generations = 4};
	struct sp_error error = {.text = ""};
	int r = sp_attach(o.nic, &dev);

	r = r ? r : sdr_context_create(dev, NULL, &context);
	r = r ? r : sp_mr_alloc(dev, 2 * o.size, &mr);
	r = r ? r : sdr_qp_create(context, &attr, &qp, &error);
	if (r) {
		printf("error %d %s\n", r, *error.text ? error.text : strerror(-r));
		return 1;
	}
	return qp_introduce(qp) ? 1 : observe(!strcmp(o.how, "ping") ? ping : pong);
}

/* ---- attaching ---- */
static void *attach_again(void *arg)
{
	for (;;) {
		struct sp_dev *another;

		begins();
		if (!ended(sp_attach(o.nic, &another)))
			sp_dev_close(another);
		usleep(20000);
	}
	return arg;
}

int attaches(void)
{
	return observe(attach_again);
}
