/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- receives, or the area ---- */
static int buffer_post(struct replay *r, const struct replay_buffer *b, uint64_t each)
{
	for (uint64_t k = 0; k < b->count; k++) {
		const struct sp_command command = {
			.op = SP_CMD_POST, .context = b->id, .cookie = k, .arg = {b->mr->id, k * each, each}};
		struct sp_event result = {0};
		int err = sp_command_call(r->dev, &command, &result);

		if (err) {
			char why[160] = "";

			/* With several workers nothing queues behind a message in progress. */
			if (err == -EAGAIN && sp_nic_workers(r->nic) > 1)
				snprintf(why, sizeof(why),
					 " (with workers = %u at most max-messages receives can be posted; "
					 "with workers = 1 and credit = implicit, the default here, more)",
					 sp_nic_workers(r->nic));
			replay_complain(r, "--post %s: receive %llu of %llu was refused: %s%s", b->context,
					(unsigned long long)k + 1, (unsigned long long)b->count, strerror(-err), why);
			return err;
		}
	}
	return 0;
}

static const char *option_of(const struct replay_buffer *b)
{
	return b->count ? "--post" : b->dump ? "--dump" : "--expect-memory";
}

static int area_open(struct replay *r, struct replay_buffer *b)
{
	int err = sp_context_area(r->dev, b->id, &b->base, &b->bytes);

	if (!err && b->base)
		return 0;
	b->base = NULL;
	replay_complain(r, "%s %s: nothing is posted (--post), and that context shares no area with the host",
			option_of(b), b->context);
	return err ? err : -ENOENT;
}

int replay_buffer_open(struct replay *r, struct replay_buffer *b)
{
	char name[64];
	uint64_t each;
	int err;

	snprintf(name, sizeof(name), "%.*s", (int)b->len, b->context);
	if (b->len >= sizeof(name) || sp_nic_context_find(r->nic, name, &b->id)) {
		replay_complain(r, "%s %s: %s has no [context %s]", option_of(b), b->context, r->config_file, name);
		return -ENOENT;
	}
	if (!b->count)
		return area_open(r, b);
	each = sp_nic_context_post_bytes(r->nic, b->id);
	if (!each) {
		replay_complain(r, "--post %s: the handler of that context takes no buffers", b->context);
		return -EOPNOTSUPP;
	}
	if (__builtin_mul_overflow(each, b->count, &b->bytes) || b->bytes > INT64_MAX) {
		replay_complain(r, "--post %s: %llu buffers of %llu bytes are more than there can be", b->context,
				(unsigned long long)b->count, (unsigned long long)each);
		return -EOVERFLOW;
	}
	b->fd = memfd_create("spindle-replay", MFD_CLOEXEC);
	if (b->fd >= 0 && !ftruncate(b->fd, (off_t)b->bytes))
		b->base = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, b->fd, 0);
	if (!b->base || b->base == MAP_FAILED) {
		err = -errno;
		b->base = NULL;
		replay_complain(r, "--post %s: %llu bytes of memory: %s", b->context, (unsigned long long)b->bytes,
				strerror(-err));
		return err;
	}
	err = sp_mr_reg(r->dev, b->base, b->bytes, &b->mr);
	if (err) {
		replay_complain(r, "--post %s: registering %llu bytes: %s%s", b->context, (unsigned long long)b->bytes,
				strerror(-err), err == -EDQUOT ? " (memory-limit in [nic])" : "");
		return err;
	}
	return buffer_post(r, b, each);
}

static bool write_all(int fd, const uint8_t *bytes, uint64_t len, off_t at)
{
	while (len) {
		ssize_t n = pwrite(fd, bytes, len < (1u << 30) ? len : 1u << 30, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : EIO;
			return false;
		}
		bytes += n;
		at += n;
		len -= (uint64_t)n;
	}
	return true;
}

/* Pages that were never written stay holes: gigabytes of almost empty receives take little disk space. */
static bool write_sparse(int out, const struct replay_buffer *b)
{
	struct stat st;
	off_t data = 0, hole;

	if (fstat(out, &st))
		return false;
	if (!S_ISREG(st.st_mode) || b->fd < 0) { /* a pipe, a device or an area is written in one piece */
		for (uint64_t at = 0; at < b->bytes;) {
			ssize_t n = write(out, (const uint8_t *)b->base + at,
					  b->bytes - at < (1u << 30) ? b->bytes - at : 1u << 30);

			if (n < 0 && errno != EINTR)
				return false;
			at += n > 0 ? (uint64_t)n : 0;
		}
		return true;
	}
	if (ftruncate(out, (off_t)b->bytes))
		return false;
	while ((data = lseek(b->fd, data, SEEK_DATA)) >= 0) {
		hole = lseek(b->fd, data, SEEK_HOLE);
		if (hole < 0 || !write_all(out, (const uint8_t *)b->base + data, (uint64_t)(hole - data), data))
			return false;
		data = hole;
	}
	return errno == ENXIO; /* no more data */
}

void replay_buffer_dump(struct replay *r, const struct replay_buffer *b)
{
	int fd = open(b->dump, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0) {
		replay_complain(r, "%s: %s", b->dump, strerror(errno));
		return;
	}
	if (!write_sparse(fd, b)) {
		replay_complain(r, "%s: %s; the file is incomplete", b->dump, strerror(errno));
		close(fd);
		return;
	}
	if (close(fd))
		replay_complain(r, "%s: %s", b->dump, strerror(errno));
}

void replay_buffers_free(struct replay *r)
{
	for (unsigned i = 0; i < r->buffers; i++) {
		struct replay_buffer *b = &r->buffer[i];

		if (b->count && b->base)
			munmap(b->base, b->bytes);
		if (b->fd >= 0)
			close(b->fd);
	}
}
