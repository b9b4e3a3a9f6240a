/* SPDX-License-Identifier: BSD-3-Clause */
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

size_t sp_shared_pages(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) & ~(page - 1);
}

/* The same file for reading only, and nobody else's to open for more (memfds are everybody's at first). Closes fd. */
static int for_reading(int fd)
{
	char path[32];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = fchmod(fd, 0400) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	close(fd);
	return again;
}

int sp_shared_create(size_t bytes, const char *name, bool read_only, struct sp_shared *shared)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	void *base;
	int fd;

	if (!bytes || bytes > INT64_MAX / 2)
		return -EINVAL;
	bytes = sp_shared_pages(bytes);
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -ENOMEM;
	/* fallocate() fails where a page could not be had; touching it later would be a fault. */
	if (ftruncate(fd, (off_t)bytes) || fallocate(fd, 0, 0, (off_t)bytes))
		goto fail;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (base == MAP_FAILED)
		goto fail;
	if (fcntl(fd, F_ADD_SEALS, seals)) {
		munmap(base, bytes);
		goto fail;
	}
	if (read_only && (fd = for_reading(fd)) < 0) {
		munmap(base, bytes);
		return -ENOMEM;
	}
	*shared = (struct sp_shared){.base = base, .bytes = bytes, .fd = fd};
	return 0;
fail:
	close(fd);
	return -ENOMEM;
}

int sp_shared_private(size_t bytes, struct sp_shared *shared)
{
	void *base;

	if (!bytes)
		return -EINVAL;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return -ENOMEM;
	*shared = (struct sp_shared){.base = base, .bytes = bytes, .fd = -1};
	return 0;
}

void sp_shared_close(struct sp_shared *shared)
{
	if (shared->base && shared->fd >= 0)
		close(shared->fd);
	shared->fd = -1;
}

void sp_shared_destroy(struct sp_shared *shared)
{
	if (shared->base)
		madvise(shared->base, shared->bytes, MADV_REMOVE); /* refused, and not needed, where it is private */
	sp_shared_leave(shared);
}

void sp_shared_leave(struct sp_shared *shared)
{
	if (!shared->base)
		return;
	sp_shared_close(shared);
	munmap(shared->base, shared->bytes);
	shared->base = NULL;
	shared->bytes = 0;
}
