/* SPDX-License-Identifier: BSD-3-Clause */
#include "put.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../interrupt.h"

#define LOOK (100 * SP_MS) /* a signal is noticed after this time at the latest */

static int open_small(struct rvma_ends *e, const struct rvma_asked *a, int flags)
{
	const struct rvma_attr attr = {
		.windows = 1, .buffers = 1, .counters = 1, .peers = 1, .ops = 1, .timeout = a->timeout * SP_SEC};

	return rvma_command_open(e, a, &attr, flags);
}

static int refused(const struct rvma_asked *a, int rc)
{
	char ip[64];

	return rvma_command_fail(a, "%s %u, mailbox 0x%" PRIx64 ": %s", rvma_command_ip(a->peer.ip, ip), a->peer.qpn,
				 a->mailbox, rvma_op_reason(rc));
}

/* -ECONNABORTED may be said by the peer, too. */
static bool has_gone(const struct rvma_ends *e, int rc)
{
	return rc == -ENODEV || (rc == -ECONNABORTED && sp_progress(e->dev, sp_clock()) == rc);
}

static int open_peer(struct rvma_ends *e, uint64_t room)
{
	int rc = room ? sp_mr_alloc(e->dev, room, &e->mr) : 0;

	if (rc)
		return rvma_command_nic(e->asked, "memory", rc);
	rc = rvma_peer_open(e->rvma, &e->asked->peer, &e->peer);
	return rc ? rvma_command_nic(e->asked, "peer", rc) : 0;
}

/* Waits for an operation; -EINTR: a signal. The NIC ends every operation by its timeout. */
static int settle(struct rvma_op *op)
{
	int rc = -EAGAIN;

	while (rc == -EAGAIN && !interrupt_came())
		rc = rvma_op_wait(op, LOOK);
	return rc == -EAGAIN ? -EINTR : rc;
}

static int wait_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	return 0;
}

/* ---- put ---- */
/* Reads up to `room` bytes of the file. The number, or -1. */
static int64_t read_piece(const struct rvma_ends *e, uint64_t room)
{
	uint64_t have = 0;

	while (have < room) {
		const ssize_t n = read(e->fd, (char *)e->mr->addr + have, room - have);

		if (n < 0 && errno == EINTR && !interrupt_came())
			continue;
		if (n < 0)
			return rvma_command_fail(e->asked, "%s: %s", e->asked->file, strerror(errno));
		if (!n)
			break;
		have += (uint64_t)n;
	}
	return (int64_t)have;
}

/* One put; repeats it while the receiver has no room. */
static int put_piece(const struct rvma_ends *e, uint64_t size, uint64_t at)
{
	const struct rvma_asked *a = e->asked;
	const sp_time until = sp_clock() + a->timeout * SP_SEC;
	struct rvma_op *op;
	int rc;

	do {
		if (a->has_at)
			rc = rvma_put_at(e->peer, a->mailbox, a->key, e->mr, 0, size, at, &op);
		else
			rc = rvma_put(e->peer, a->mailbox, a->key, e->mr, 0, size, &op);
		rc = rc ? rc : settle(op);
	} while ((rc == -ENOBUFS || rc == -ENOSPC || rc == -EDQUOT || rc == -EAGAIN) && a->piece &&
		 sp_clock() < until && !interrupt_came() && !wait_a_little());
	if (has_gone(e, rc))
		return rvma_command_nic(a, "", rc);
	return !rc ? 0 : rc == -EINTR ? rvma_command_fail(a, "interrupted") : refused(a, rc);
}

/* Bytes of one put. */
static int piece_size(const struct rvma_ends *e, uint64_t *size)
{
	const struct rvma_asked *a = e->asked;
	struct stat st;

	*size = a->piece;
	if (*size)
		return 0;
	if (fstat(e->fd, &st))
		return rvma_command_fail(a, "%s: %s", a->file, strerror(errno));
	*size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 16 << 20;
	if (*size > RVMA_SIZE_MOST)
		return rvma_command_fail(a, "%s has more than 1G: --piece cuts it", a->file);
	return 0;
}

static int put_all(struct rvma_ends *e)
{
	const struct rvma_asked *a = e->asked;
	uint64_t size, done = 0, puts = 0;
	sp_time started;
	int64_t n;
	int rc = piece_size(e, &size);

	rc = rc ? rc : open_peer(e, size + 1); /* one byte more, to find the end of the file */
	started = sp_clock();
	do {
		n = rc ? 0 : read_piece(e, a->piece ? size : size + 1);
		if (rc || n < 0)
			return -1;
		if (!a->piece && (uint64_t)n > size)
			return rvma_command_fail(a, "%s is longer than one put may be here: --piece cuts it", a->file);
		if (!n && puts)
			break;
		rc = put_piece(e, (uint64_t)n, a->at + done);
		done += (uint64_t)n;
		puts++;
	} while (!rc && a->piece && (uint64_t)n == size);
	if (rc)
		return rc;
	const double seconds = (double)(sp_clock() - started) / (double)SP_SEC;

	printf(a->json ? "{\"bytes\":%" PRIu64 ",\"puts\":%" PRIu64 ",\"seconds\":%.6f}\n"
		       : "%" PRIu64 " bytes delivered, puts: %" PRIu64 ", %.6f s\n",
	       done, puts, seconds);
	return 0;
}

int rvma_put_file(const struct rvma_asked *a)
{
	struct rvma_ends e;
	int rc = open_small(&e, a, O_RDONLY);

	rc = rc ? rc : put_all(&e);
	rvma_command_close(&e);
	return rc;
}

/* ---- get ---- */
static int get_it(struct rvma_ends *e)
{
	const struct rvma_asked *a = e->asked;
	struct rvma_op *op;
	int rc = open_peer(e, a->size);

	if (rc)
		return rc;
	rc = rvma_get(e->peer, a->mailbox, a->key, (unsigned)a->back, a->at, e->mr, 0, a->size, &op);
	rc = rc ? rc : settle(op);
	if (has_gone(e, rc))
		return rvma_command_nic(a, "", rc);
	if (rc)
		return rc == -EINTR ? rvma_command_fail(a, "interrupted") : refused(a, rc);
	return rvma_command_write(a, e->fd, e->mr->addr, a->size);
}

int rvma_get_file(const struct rvma_asked *a)
{
	struct rvma_ends e;
	int rc = open_small(&e, a, O_WRONLY | O_CREAT);

	rc = rc ? rc : get_it(&e);
	if (!rc && strcmp(a->file, "-") && ftruncate(e.fd, (off_t)a->size) && errno != EINVAL)
		rc = rvma_command_fail(a, "%s: %s", a->file, strerror(errno));
	rvma_command_close(&e);
	return rc;
}
