/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of each end is a region of REGION bytes, in slots of MESSAGE bytes, which messages go to in turn: the same
 * slots of both ends. So the receiver knows what must be in its region at the end.
 */
#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../host-api/reliable.h"
#include "children.h"
#include "end.h"
#include "pair.h"

#define MESSAGE	 (1u << 20)
#define SLOTS	 32u
#define REGION	 (SLOTS * MESSAGE)
#define WINDOW	 16u /* messages in flight */
#define PATIENCE (30 * SP_SEC)

struct stream {
	uint32_t mtu;
	uint64_t messages;
	const char *target;
	char **pid; /* NULL at the end */
	uint64_t *memory;
	/* sender */
	sp_time began, took;
	double ran;
};

/* ---- memory ---- */
static uint64_t word(uint64_t i)
{
	return i * 0x9E3779B97F4A7C15ull + 1;
}

static void fill(uint64_t *memory)
{
	for (uint64_t i = 0; i < REGION / 8; i++)
		memory[i] = word(i);
}

static int check(const struct stream *s)
{
	const uint64_t bytes = s->messages < SLOTS ? s->messages * MESSAGE : REGION;

	for (uint64_t i = 0; i < bytes / 8; i++)
		if (s->memory[i] != word(i))
			return -EBADMSG;
	return 0;
}

/* ---- time ---- */
static double clock_seconds(clockid_t clock)
{
	struct timespec t;

	return clock_gettime(clock, &t) ? 0 : (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor seconds of this process and of the others so far. */
static double ran(const struct stream *s)
{
	double sum = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
	clockid_t clock;

	for (char **p = s->pid; *p; p++)
		if (!clock_getcpuclockid((pid_t)strtol(*p, NULL, 10), &clock))
			sum += clock_seconds(clock);
	return sum;
}

/* The ends tell each other that they are ready, or have all, and what they have run so far. */
static int tell(const struct stream *s)
{
	const double mine = ran(s);

	return send(BENCH_LINK, &mine, sizeof(mine), MSG_NOSIGNAL) == sizeof(mine) ? 0 : -EPIPE;
}

/* -EAGAIN with MSG_DONTWAIT: not yet. */
static int hear(struct stream *s, int flags)
{
	double theirs;
	const ssize_t n = recv(BENCH_LINK, &theirs, sizeof(theirs), flags);

	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	if (n != sizeof(theirs))
		return -EPIPE;
	s->ran = ran(s) + theirs - s->ran;
	return 0;
}

static int begin(struct stream *s)
{
	int r = tell(s);

	s->ran = 0;
	if (!r)
		r = hear(s, 0);
	s->began = sp_clock();
	return r;
}

static int end(struct stream *s)
{
	int r;

	s->took = sp_clock() - s->began;
	r = tell(s);
	return r ? r : hear(s, 0);
}

/* ---- RDMA WRITE ---- */
static int post_write(struct bench_pair *p, uint64_t k)
{
	const uint64_t at = k % SLOTS * MESSAGE;
	const struct sp_rdma_sge sge = {p->region->va + at, MESSAGE, p->region->lkey};
	const struct sp_rdma_send_wr wr = {.op = SP_RDMA_WR_WRITE,
					   .flags = SP_RDMA_SIGNALED,
					   .sge = &sge,
					   .sges = 1,
					   .remote = p->remote + at,
					   .rkey = p->rkey};

	return sp_rdma_post_send(p->qp, &wr, NULL);
}

static int send_writes(struct bench_pair *p, uint64_t messages)
{
	uint64_t posted = 0, done = 0;
	int r = 0;

	while (done < messages && !r) {
		struct sp_rdma_wc wc[WINDOW];
		int n;

		while (posted < messages && posted - done < WINDOW && !r) {
			r = post_write(p, posted);
			posted += !r;
		}
		n = r ? 0 : sp_rdma_poll_cq(p->cq, wc, WINDOW);
		for (int i = 0; i < n && !r; i++)
			r = wc[i].status == SP_RDMA_OK ? 0 : -EIO;
		done += n > 0 ? (uint64_t)n : 0;
		if (!n && !r)
			r = sp_rdma_cq_wait(p->cq, PATIENCE);
		r = r == -EINTR ? 0 : n < 0 ? n : r;
	}
	return r;
}

static int by_write(struct stream *s, bool sends)
{
	struct bench_pair p;
	int r = bench_pair_open(&p, s->target, REGION, 2 * WINDOW);

	s->memory = p.mr ? p.mr->addr : NULL;
	if (!r && sends)
		fill(s->memory);
	if (!r)
		r = bench_pair_meet(&p, s->mtu);
	if (!r)
		r = begin(s);
	if (!r && sends)
		r = send_writes(&p, s->messages);
	if (!r)
		r = end(s);
	if (!r && !sends)
		r = check(s);
	bench_pair_close(&p);
	return r;
}

/* ---- SDR ---- */
struct sdr_end {
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sp_mr *mr;
	struct sdr_qp *qp;
	struct sdr_reliable *reliable;
	struct sdr_reliable_op *op[WINDOW];
	uint64_t posted, done;
};

static int sdr_open(struct sdr_end *e, const struct stream *s, bool sends)
{
	const struct sdr_qp_attr attr = {.mtu = s->mtu,
					 .max_message_bytes = MESSAGE,
					 .max_messages = WINDOW,
					 .no_send = !sends,
					 .no_recv = sends};
	struct sp_error error = {.text = ""};
	struct sdr_qp_info info;
	int r = sp_attach(s->target, &e->dev);

	if (!r)
		r = sp_mr_alloc(e->dev, REGION, &e->mr);
	if (!r)
		r = sdr_context_create(e->dev, NULL, &e->context);
	if (!r)
		r = sdr_qp_create(e->context, &attr, &e->qp, &error);
	if (*error.text)
		fprintf(stderr, "%s\n", error.text);
	if (!r)
		r = sdr_reliable_open(e->qp, &(struct sdr_reliable_attr){.scheme = SDR_SR_NACK}, &e->reliable);
	if (!r)
		r = sdr_qp_info_get(e->qp, &info);
	if (!r && (send(BENCH_LINK, &info, sizeof(info), MSG_NOSIGNAL) != sizeof(info) ||
		   recv(BENCH_LINK, &info, sizeof(info), 0) != sizeof(info)))
		r = -EPIPE;
	return r ? r : sdr_qp_connect(e->qp, &info);
}

static int sdr_work(struct sdr_end *e, uint64_t messages, bool sends)
{
	const struct sdr_reliable_op *first;
	int r = sdr_reliable_progress(e->reliable, sp_clock());

	while (!r && e->posted < messages && e->posted - e->done < WINDOW) {
		struct sdr_reliable_op **op = &e->op[e->posted % WINDOW];
		const uint64_t at = e->posted % SLOTS * MESSAGE;

		r = sends ? sdr_reliable_send(e->reliable, e->mr, at, MESSAGE, 0, op)
			  : sdr_reliable_recv(e->reliable, e->mr, at, MESSAGE, op);
		e->posted += !r;
	}
	if (r == -EAGAIN)
		r = 0;
	while (!r && e->done < e->posted) {
		first = e->op[e->done % WINDOW];
		r = sdr_reliable_poll(first);
		if (!r)
			r = sdr_reliable_op_free(e->op[e->done % WINDOW]);
		e->done += !r;
	}
	return r == -EAGAIN ? 0 : r;
}

/* Sleeps until there is something to do. */
static int sdr_sleep(struct sdr_end *e, uint64_t messages, bool sends)
{
	const uint64_t before = e->done;
	sp_time now, due;
	int r = sp_dev_arm(e->dev);

	if (!r)
		r = sdr_work(e, messages, sends);
	if (r || e->done != before)
		return r;
	now = sp_clock();
	due = sdr_reliable_deadline(e->reliable);
	if (due <= now)
		return 0;
	r = sp_dev_wait(e->dev, due - now < PATIENCE ? due - now : PATIENCE);
	return r == -ETIMEDOUT || r == -EINTR ? 0 : r;
}

static int sdr_move(struct sdr_end *e, const struct stream *s, bool sends)
{
	int r = 0;

	while (!r && e->done < s->messages) {
		const uint64_t before = e->done;

		r = sdr_work(e, s->messages, sends);
		if (!r && e->done == before)
			r = sdr_sleep(e, s->messages, sends);
	}
	return r;
}

static int sdr_answer(struct sdr_end *e, struct stream *s)
{
	struct pollfd link = {.fd = BENCH_LINK, .events = POLLIN};
	int r = 0;

	while (!r && poll(&link, 1, 1) <= 0)
		r = sdr_work(e, s->messages, false);
	return r ? r : end(s);
}

static int by_sdr(struct stream *s, bool sends)
{
	struct sdr_end e = {.dev = NULL};
	int r = sdr_open(&e, s, sends);

	s->memory = e.mr ? e.mr->addr : NULL;
	if (!r && sends)
		fill(s->memory);
	if (!r)
		r = begin(s);
	if (!r)
		r = sdr_move(&e, s, sends);
	/* The receiver goes on answering until the sender has all acknowledgements. */
	if (!r && !sends)
		r = sdr_answer(&e, s);
	else if (!r)
		r = end(s);
	if (!r && !sends)
		r = check(s);
	if (e.reliable)
		sdr_reliable_close(e.reliable, 0);
	if (e.qp)
		sdr_qp_destroy(e.qp);
	if (e.context)
		sdr_context_destroy(e.context);
	if (e.dev)
		sp_dev_close(e.dev);
	return r;
}

/* ---- TCP ---- */
static int move_tcp(const struct stream *s, int fd, bool sends)
{
	for (uint64_t k = 0; k < s->messages; k++) {
		char *slot = (char *)s->memory + k % SLOTS * MESSAGE;

		for (size_t at = 0; at < MESSAGE;) {
			const ssize_t n = sends ? send(fd, slot + at, MESSAGE - at, MSG_NOSIGNAL)
						: recv(fd, slot + at, MESSAGE - at, 0);

			if (n <= 0)
				return n ? -errno : -EPIPE;
			at += (size_t)n;
		}
	}
	return 0;
}

static int by_tcp(struct stream *s, bool sends)
{
	char byte;
	int fd, r;

	s->memory = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->memory == MAP_FAILED)
		return -ENOMEM;
	if (sends)
		fill(s->memory);
	fd = sends ? bench_tcp_connect() : bench_tcp_accept(s->target);
	r = fd < 0 ? -errno : begin(s);
	if (!r)
		r = move_tcp(s, fd, sends);
	/* The sender's time ends when the receiver has all. */
	if (!r && (sends ? recv(fd, &byte, 1, 0) : send(fd, "", 1, MSG_NOSIGNAL)) != 1)
		r = -EPIPE;
	if (!r)
		r = end(s);
	return r || sends ? r : check(s);
}

int bench_stream_end(int argc, char **argv)
{
	const bool sends = argc > 4 && !strcmp(argv[0], "send");
	struct stream s;
	int r;

	if (argc < 5)
		return 1;
	s = (struct stream){.mtu = (uint32_t)strtoul(argv[2], NULL, 10),
			    .messages = strtoull(argv[3], NULL, 10) / MESSAGE,
			    .target = argv[4],
			    .pid = argv + 5};
	r = !strcmp(argv[1], "tcp")   ? by_tcp(&s, sends)
	    : !strcmp(argv[1], "sdr") ? by_sdr(&s, sends)
				      : by_write(&s, sends);
	if (r) {
		fprintf(stderr, "%s by %s: %s\n", argv[0], argv[1], strerror(-r));
		return 1;
	}
	if (sends)
		printf("%.6f %.6f\n", (double)s.took / SP_SEC, s.ran);
	return 0;
}
