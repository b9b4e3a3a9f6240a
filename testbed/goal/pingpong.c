/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds of messages over a stream. A request says how many rounds of what follow. */
#include "pingpong.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "../quantile.h"

#define MAGIC	   0x53504e31u /* SPN1 */
#define CHUNK	   (256u << 10)
#define ROUNDS	   200u
#define TOGETHER   16u /* messages of a round, for g and G */
#define ROUNDS_MAX (1u << 24)

struct request { /* in the host's order, which is little-endian on all machines that this runs on */
	uint32_t magic, n;
	uint64_t size;
	uint32_t rounds, zero;
};

static int send_all(int fd, const uint8_t *bytes, uint64_t size)
{
	while (size) {
		const ssize_t n = send(fd, bytes, size < CHUNK ? size : CHUNK, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EPIPE;
		size -= (uint64_t)n; /* the same bytes again: none of them says anything */
	}
	return 0;
}

static int recv_all(int fd, uint8_t *bytes, uint64_t size, uint64_t at_most)
{
	while (size) {
		const ssize_t n = recv(fd, bytes, size < at_most ? size : at_most, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EPIPE;
		size -= (uint64_t)n;
	}
	return 0;
}

static bool request_good(const struct request *q)
{
	return q->magic == MAGIC && q->n && q->n <= GOAL_PING_MAX && q->size && q->size <= GOAL_PING_SIZE_MAX &&
	       q->rounds && q->rounds <= ROUNDS_MAX;
}

/* 1: closed before a request. */
static int recv_request(int fd, struct request *q)
{
	size_t have = 0;

	while (have < sizeof(*q)) {
		const ssize_t n = recv(fd, (uint8_t *)q + have, sizeof(*q) - have, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : have ? -EPIPE : 1;
		have += (size_t)n;
	}
	return request_good(q) ? 0 : -EPROTO;
}

int goal_pong(int fd)
{
	uint8_t *bytes = calloc(1, CHUNK);
	struct request q;
	int err = bytes ? 0 : -ENOMEM;

	while (!err) {
		err = recv_request(fd, &q);
		for (uint32_t i = 0; i < q.rounds && !err; i++) {
			err = recv_all(fd, bytes, q.n * q.size, CHUNK);
			err = err ? err : send_all(fd, bytes, q.size);
		}
	}
	free(bytes);
	return err == 1 ? 0 : err;
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

int goal_ping(int fd, uint32_t n, uint64_t size, uint32_t rounds, double *us, double *sent_us)
{
	const struct request q = {MAGIC, n, size, rounds, 0};
	uint8_t *bytes;
	int err;

	if (!request_good(&q))
		return -EINVAL;
	bytes = calloc(1, CHUNK);
	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, &q, sizeof(q));
	err = send_all(fd, bytes, sizeof(q));
	for (uint32_t i = 0; i < rounds && !err; i++) {
		const double begin = now_us();

		for (uint32_t k = 0; k < n && !err; k++) {
			err = send_all(fd, bytes, size);
			if (!k && sent_us)
				sent_us[i] = now_us() - begin;
		}
		err = err ? err : recv_all(fd, bytes, size, CHUNK);
		us[i] = now_us() - begin;
	}
	free(bytes);
	return err;
}

/* The median of the rounds, and of their first send() calls. */
static int prtt(int fd, uint32_t n, uint64_t size, double *median, double *sent)
{
	double us[ROUNDS], sent_us[ROUNDS];
	const int err = goal_ping(fd, n, size, ROUNDS, us, sent_us);

	if (err)
		return err;
	*median = sp_quantile(us, ROUNDS, 500);
	*sent = sp_quantile(sent_us, ROUNDS, 500);
	return 0;
}

int goal_ping_loggp(int fd, struct goal_loggp *p)
{
	static const uint64_t sizes[] = {1, 1024, 4096, 8192, 16384, 32768, 65536};
	const unsigned n = sizeof(sizes) / sizeof(*sizes);
	double one, many, sent, xs = 0, ys = 0, xx = 0, xy = 0;
	int err = prtt(fd, 1, 1, &one, &sent); /* warms up */

	err = err ? err : prtt(fd, 1, 1, &one, &sent);
	if (err)
		return err;
	p->o = sent;
	p->L = one / 2 > 2 * sent ? one / 2 - 2 * sent : 0;
	for (unsigned i = 0; i < n; i++) {
		const double x = (double)(sizes[i] - 1);
		double y;

		err = prtt(fd, 1, sizes[i], &one, &sent);
		err = err ? err : prtt(fd, TOGETHER, sizes[i], &many, &sent);
		if (err)
			return err;
		y = (many - one) / (TOGETHER - 1);
		xs += x;
		ys += y;
		xx += x * x;
		xy += x * y;
	}
	p->G = (n * xy - xs * ys) / (n * xx - xs * xs);
	p->G = p->G > 0 ? p->G : 0;
	p->g = (ys - p->G * xs) / n;
	p->g = p->g > 0 ? p->g : 0;
	return 0;
}
