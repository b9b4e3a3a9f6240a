/* SPDX-License-Identifier: BSD-3-Clause */
#include "end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_pause.h>

#include "../../host-api/sdr.h"
#include "children.h"
#include "memory.h"
#include "pair.h"
#include "path.h"
#include "start.h"
#include "stream.h"

#define SHORT	     0.05 /* s; rounds of less have the counts called _SHORT */
#define WARM	     200  /* round trips that are not measured */
#define LEAST	     500  /* ... that are, at least */
#define WARM_SHORT   50
#define LEAST_SHORT  100
#define SAMPLES	     (1u << 21)	   /* ... at most */
#define WINDOW	     64		   /* receives posted in advance, so that no message waits for clear-to-send */
#define STRIDE	     64		   /* a cache line for each message */
#define PATIENCE     (30 * SP_SEC) /* for one message */
#define IDLE	     120000	   /* us before a message of role first */
#define FIRSTS	     5		   /* such messages, at least */
#define FIRSTS_SHORT 3
#define LAST	     (1ull << 63) /* flag of the last message */

/* A way to send a message of 8 bytes to the other end and to wait for its answer. 0 or -errno. */
struct way {
	int (*open)(struct way *w, const char *target);
	int (*put)(struct way *w, uint64_t value);
	int (*get)(struct way *w, uint64_t *value);
	void (*close)(struct way *w);
	bool sleep, yield;
	int fd;
	/* nic */
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr; /* WINDOW lines to receive into, then WINDOW lines to send from */
	struct sdr_recv *recv[WINDOW];
	struct sdr_send *send[WINDOW];
	uint64_t posted, received, completed, sent, reaped;
	/* write: the peer writes into the first cell of mr; what we write is in the second one */
	struct bench_pair pair;
};

static int __attribute__((format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	return 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Between two looks. Checks now and then for a time-out. */
static inline int pause_poll(const struct way *w, unsigned *looks, uint64_t begin)
{
	if (w->yield)
		sched_yield();
	else
		rte_pause();
	return ++*looks % 4096 || now_ns() - begin < PATIENCE / 1000 ? 0 : -ETIMEDOUT;
}

/* ---- sockets ---- */
static int socket_put(struct way *w, uint64_t value)
{
	return send(w->fd, &value, sizeof(value), MSG_NOSIGNAL) == sizeof(value) ? 0 : -errno;
}

static int socket_get(struct way *w, uint64_t *value)
{
	const uint64_t begin = now_ns();
	unsigned looks = 0;
	int r = 0;

	for (;;) {
		ssize_t n = recv(w->fd, value, sizeof(*value), w->sleep ? 0 : MSG_DONTWAIT);

		if (n == sizeof(*value))
			return 0;
		if (n >= 0)
			return -EPIPE;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (w->sleep && errno == EAGAIN)
			return -ETIMEDOUT;
		r = pause_poll(w, &looks, begin);
		if (r)
			return r;
	}
}

static int unix_open(struct way *w, const char *target)
{
	const struct timeval patience = {.tv_sec = PATIENCE / SP_SEC};

	(void)target;
	w->fd = BENCH_LINK;
	return setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ? -errno : 0;
}

static int udp_open(struct way *w, const char *target)
{
	const struct timeval patience = {.tv_sec = PATIENCE / SP_SEC};
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(a);

	(void)target;
	w->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (w->fd < 0 || bind(w->fd, (struct sockaddr *)&a, len) || getsockname(w->fd, (struct sockaddr *)&a, &len) ||
	    send(BENCH_LINK, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a) ||
	    recv(BENCH_LINK, &a, sizeof(a), 0) != sizeof(a) || connect(w->fd, (struct sockaddr *)&a, sizeof(a)) ||
	    setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		return errno ? -errno : -EPIPE;
	return 0;
}

static void socket_close(struct way *w)
{
	if (w->fd > BENCH_LINK)
		close(w->fd);
}

/* ---- NICs ---- */
static uint64_t *cell(const struct way *w, uint64_t i)
{
	return (uint64_t *)(void *)((uint8_t *)w->mr->addr + i * STRIDE);
}

static int nic_post(struct way *w)
{
	const uint64_t i = w->posted % WINDOW;
	int r = sdr_recv_post(w->qp, w->mr, i * STRIDE, 8, &w->recv[i]);

	w->posted += !r;
	return r;
}

/* Work that the answer need not wait for: takes buffers back and posts them again. */
static int nic_tidy(struct way *w)
{
	int r = 0;

	while (w->completed < w->received) {
		r = sdr_recv_complete(w->recv[w->completed % WINDOW]);
		if (r)
			break;
		w->completed++;
		r = nic_post(w);
		if (r)
			return r;
	}
	if (r && r != -EAGAIN)
		return r;
	for (r = 0; !r && w->reaped < w->sent;) {
		r = sdr_send_poll(w->send[w->reaped % WINDOW]);
		w->reaped += !r;
	}
	return r == -EAGAIN ? 0 : r;
}

static int nic_open(struct way *w, const char *target)
{
	/* So many messages that the quiet time of a slot and generation has passed before they are used again. */
	const struct sdr_qp_attr attr = {
		.mtu = 64, .chunk_bytes = 64, .max_message_bytes = 64, .max_messages = 1024, .generations = 16};
	struct sp_error error = {.text = ""};
	struct sdr_qp_info info;
	int r = sp_attach(target, &w->dev);

	if (!r)
		r = sp_mr_alloc(w->dev, 2 * WINDOW * STRIDE, &w->mr);
	if (!r)
		r = sdr_context_create(w->dev, NULL, &w->context);
	if (!r)
		r = sdr_qp_create(w->context, &attr, &w->qp, &error);
	if (*error.text)
		fail("%s", error.text);
	if (!r)
		r = sdr_qp_info_get(w->qp, &info);
	if (r)
		return r;
	if (send(BENCH_LINK, &info, sizeof(info), MSG_NOSIGNAL) != sizeof(info) ||
	    recv(BENCH_LINK, &info, sizeof(info), 0) != sizeof(info))
		return -EPIPE;
	r = sdr_qp_connect(w->qp, &info);
	while (!r && w->posted < WINDOW)
		r = nic_post(w);
	return r;
}

static int nic_put(struct way *w, uint64_t value)
{
	const uint64_t i = WINDOW + w->sent % WINDOW, begin = now_ns();
	unsigned looks = 0;
	int r = 0;

	while (!r && w->sent - w->reaped == WINDOW) {
		r = nic_tidy(w);
		if (!r)
			r = pause_poll(w, &looks, begin);
	}
	if (r)
		return r;
	*cell(w, i) = value;
	while ((r = sdr_send_post(w->qp, w->mr, i * STRIDE, 8, 0, &w->send[w->sent % WINDOW])) == -EAGAIN) {
		r = nic_tidy(w);
		if (!r)
			r = pause_poll(w, &looks, begin);
		if (r)
			return r;
	}
	if (r)
		return r;
	w->sent++;
	return nic_tidy(w);
}

static int nic_get(struct way *w, uint64_t *value)
{
	const uint64_t begin = now_ns();
	unsigned looks = 0;
	bool armed = false;
	struct sdr_recv *recv;
	int r = 0;

	while (!r && w->received == w->posted) { /* no receive is left: taking buffers back is late */
		r = nic_tidy(w);
		if (!r)
			r = pause_poll(w, &looks, begin);
	}
	if (r)
		return r;
	recv = w->recv[w->received % WINDOW];
	while ((r = sdr_recv_test(recv)) == -EAGAIN) {
		if (!w->sleep) {
			r = pause_poll(w, &looks, begin);
		} else if (!armed) {
			r = sp_dev_arm_for(w->dev, SP_ARM_RECEIVE);
			armed = true;
		} else {
			r = sp_dev_wait(w->dev, PATIENCE);
			if (r == -EINTR)
				r = 0;
			armed = false;
		}
		if (r)
			return r;
	}
	if (!r)
		*value = *cell(w, w->received++ % WINDOW);
	return r;
}

static void nic_close(struct way *w)
{
	if (w->qp)
		sdr_qp_destroy(w->qp);
	if (w->context)
		sdr_context_destroy(w->context);
	if (w->dev)
		sp_dev_close(w->dev);
}

/* ---- RDMA WRITEs, and a look at the memory that they go to ---- */
static int write_open(struct way *w, const char *target)
{
	int r = bench_pair_open(&w->pair, target, 2 * STRIDE, 2 * WINDOW);

	w->mr = w->pair.mr;
	if (r)
		return r;
	*cell(w, 0) = UINT64_MAX; /* no question, and no answer */
	return bench_pair_meet(&w->pair, 1024);
}

static int write_tidy(struct way *w)
{
	struct sp_rdma_wc wc[WINDOW];
	const int n = w->sent - w->reaped < WINDOW ? 0 : sp_rdma_poll_cq(w->pair.cq, wc, WINDOW);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != SP_RDMA_OK)
			return -EIO;
		w->reaped++;
	}
	return n < 0 ? n : 0;
}

static int write_put(struct way *w, uint64_t value)
{
	const struct sp_rdma_sge sge = {(uintptr_t)cell(w, 1), 8, w->pair.region->lkey};
	const struct sp_rdma_send_wr wr = {.op = SP_RDMA_WR_WRITE,
					   .flags = SP_RDMA_SIGNALED | SP_RDMA_INLINED,
					   .sge = &sge,
					   .sges = 1,
					   .remote = w->pair.remote,
					   .rkey = w->pair.rkey};
	const uint64_t begin = now_ns();
	unsigned looks = 0;
	int r;

	*cell(w, 1) = value;
	while ((r = sp_rdma_post_send(w->pair.qp, &wr, NULL)) == -EAGAIN) {
		r = write_tidy(w);
		if (!r)
			r = pause_poll(w, &looks, begin);
		if (r)
			return r;
	}
	w->sent += !r;
	return r ? r : write_tidy(w);
}

static int write_get(struct way *w, uint64_t *value)
{
	const uint64_t begin = now_ns(), before = w->received ? w->completed : UINT64_MAX;
	unsigned looks = 0;
	int r = 0;

	while (!r && (*value = __atomic_load_n(cell(w, 0), __ATOMIC_ACQUIRE)) == before)
		r = pause_poll(w, &looks, begin);
	w->received++;
	w->completed = *value; /* the value before the next one */
	return r;
}

static void write_close(struct way *w)
{
	bench_pair_close(&w->pair);
}

/* ---- ping-pong ---- */
static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void print_times(const uint32_t *sorted, uint32_t n, double parts)
{
	printf("%.1f %.1f\n", sorted[n / 2] / parts, sorted[n - 1 - n / 100] / parts);
}

static int ping(struct way *w, double seconds)
{
	const uint32_t warm = seconds < SHORT ? WARM_SHORT : WARM, least = seconds < SHORT ? LEAST_SHORT : LEAST;
	uint32_t *sample = malloc(SAMPLES * sizeof(*sample)), n = 0;
	const uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	uint64_t before = now_ns(), after, answer = 0;
	int r = sample ? 0 : -ENOMEM;

	for (uint64_t k = 0, question = 0; !r && !(question & LAST); k++, before = after) {
		question = k;
		if (n + 1 >= SAMPLES || (before >= end && n >= least))
			question |= LAST;
		r = w->put(w, question);
		if (!r)
			r = w->get(w, &answer);
		if (!r && answer != question)
			r = -EBADMSG;
		after = now_ns();
		if (k >= warm)
			sample[n++] = after - before < UINT32_MAX ? (uint32_t)(after - before) : UINT32_MAX;
	}
	if (!r) {
		qsort(sample, n, sizeof(*sample), by_value);
		print_times(sample, n, 2);
	}
	free(sample);
	return r;
}

static int pong(struct way *w)
{
	uint64_t value = 0;
	int r = 0;

	while (!r && !(value & LAST)) {
		r = w->get(w, &value);
		if (!r)
			r = w->put(w, value);
	}
	return r;
}

/* One way, after IDLE: the message carries when it was sent, its answer (never twice the same) how long it took. */
static int first(struct way *w, double seconds)
{
	const uint32_t least = seconds < SHORT ? FIRSTS_SHORT : FIRSTS,
		       want = seconds * 1e6 / IDLE > least ? (uint32_t)(seconds * 1e6 / IDLE) : least;
	uint32_t *sample = calloc(want, sizeof(*sample));
	uint64_t answer = 0;
	int r = sample ? 0 : -ENOMEM;

	for (uint32_t k = 0; k <= want && !r; k++) { /* the first one warms up */
		usleep(IDLE);
		r = w->put(w, now_ns() | (k == want ? LAST : 0));
		if (!r)
			r = w->get(w, &answer);
		if (k)
			sample[k - 1] = answer >> 8 < UINT32_MAX ? (uint32_t)(answer >> 8) : UINT32_MAX;
	}
	if (!r) {
		qsort(sample, want, sizeof(*sample), by_value);
		print_times(sample, want, 1);
	}
	free(sample);
	return r;
}

static int late(struct way *w)
{
	uint64_t value = 0;
	int r = 0;

	for (uint64_t k = 0; !r && !(value & LAST); k++) {
		r = w->get(w, &value);
		if (!r)
			r = w->put(w, (now_ns() - (value & ~LAST)) << 8 | k % 256);
	}
	return r;
}

/* Waits until the other end has everything: until then an answer may be in flight, and destroying the QP would
 * drop it. */
static void part(void)
{
	char byte;

	shutdown(BENCH_LINK, SHUT_WR);
	while (recv(BENCH_LINK, &byte, 1, 0) > 0)
		;
}

static int latency(const char *kind, const char *role, const char *wait, const char *seconds, const char *target)
{
	static struct way w;
	int r;

	if (!strcmp(kind, "nic"))
		w = (struct way){.open = nic_open, .put = nic_put, .get = nic_get, .close = nic_close};
	else if (!strcmp(kind, "write"))
		w = (struct way){.open = write_open, .put = write_put, .get = write_get, .close = write_close};
	else
		w = (struct way){.open = strcmp(kind, "udp") ? unix_open : udp_open,
				 .put = socket_put,
				 .get = socket_get,
				 .close = socket_close};
	w.fd = -1;
	w.sleep = !strcmp(wait, "sleep");
	w.yield = !strcmp(wait, "yield");
	r = w.open(&w, target);
	if (!r)
		r = !strcmp(role, "ping")    ? ping(&w, strtod(seconds, NULL))
		    : !strcmp(role, "first") ? first(&w, strtod(seconds, NULL))
		    : !strcmp(role, "late")  ? late(&w)
					     : pong(&w);
	if (!r)
		part();
	w.close(&w);
	return r ? fail("%s %s: %s", kind, role, strerror(-r)) : 0;
}

/* ---- a file by TCP ---- */
int bench_tcp_accept(const char *address)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = -1;

	if (inet_pton(AF_INET, address, &a.sin_addr) == 1 && listener >= 0 &&
	    !bind(listener, (struct sockaddr *)&a, len) && !listen(listener, 1) &&
	    !getsockname(listener, (struct sockaddr *)&a, &len) &&
	    send(BENCH_LINK, &a, sizeof(a), MSG_NOSIGNAL) == sizeof(a))
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (listener >= 0)
		close(listener);
	return fd;
}

int bench_tcp_connect(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a;

	if (fd < 0 || recv(BENCH_LINK, &a, sizeof(a), 0) != sizeof(a) || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return -1;
	return fd;
}

static bool write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

/* Copies until the end of `from`; -1: an error. */
static int64_t pour(int from, int to)
{
	static char block[256 * 1024];
	int64_t sum = 0;
	ssize_t n;

	while ((n = read(from, block, sizeof(block))) > 0) {
		if (!write_all(to, block, (size_t)n))
			return -1;
		sum += n;
	}
	return n < 0 ? -1 : sum;
}

static int tcp_recv(const char *address, const char *file)
{
	const int fd = bench_tcp_accept(address), out = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int64_t sum;

	if (fd < 0 || out < 0)
		return fail("TCP receiver: %s", strerror(errno));
	sum = pour(fd, out);
	if (sum < 0 || close(out) || !write_all(fd, (char *)&sum, sizeof(sum)))
		return fail("TCP receiver: %s", strerror(errno));
	return 0;
}

static int tcp_send(const char *file)
{
	const int in = open(file, O_RDONLY | O_CLOEXEC), fd = bench_tcp_connect();
	uint64_t begin;
	int64_t sum, there;

	if (in < 0 || fd < 0)
		return fail("TCP sender: %s", strerror(errno));
	begin = now_ns();
	sum = pour(in, fd);
	if (sum < 0 || shutdown(fd, SHUT_WR) || recv(fd, &there, sizeof(there), MSG_WAITALL) != sizeof(there) ||
	    there != sum)
		return fail("TCP sender: %s", strerror(errno));
	printf("%.6f\n", (double)(now_ns() - begin) / 1e9);
	return 0;
}

int bench_end(int argc, char **argv)
{
	int status;

	if (argc == 2 && !strcmp(argv[0], "memory"))
		return bench_memory_end(argv[1]);
	if (argc == 3 && !strcmp(argv[0], "attach"))
		return bench_attach_end(argv[1], argv[2]) || fflush(stdout);
	if (argc > 5 && !strcmp(argv[0], "stream")) {
		status = bench_stream_end(argc - 1, argv + 1);
		return fflush(stdout) ? 1 : status;
	}
	if (argc > 6 && !strcmp(argv[0], "path")) {
		status = bench_path_end(argc - 1, argv + 1);
		return fflush(stdout) ? 1 : status;
	}
	if (argc != 5 || fcntl(BENCH_LINK, F_GETFD) < 0)
		return fail("--end is not for use by hand");
	if (!strcmp(argv[0], "tcp"))
		status = strcmp(argv[1], "send") ? tcp_recv(argv[2], argv[4]) : tcp_send(argv[4]);
	else
		status = latency(argv[0], argv[1], argv[2], argv[3], argv[4]);
	return fflush(stdout) ? 1 : status;
}
