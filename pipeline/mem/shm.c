/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

size_t sp_shm_pages(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) & ~(page - 1);
}

/* Reopens the memfd read-only and makes it mode 0400 (memfds are 0777 at first). Closes fd. */
static int for_reading(int fd)
{
	char path[32];
	int again, err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = fchmod(fd, 0400) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	err = errno;
	close(fd);
	errno = err;
	return again;
}

static int no_descriptor_or_memory(void)
{
	return errno == EMFILE || errno == ENFILE ? -EMFILE : -ENOMEM;
}

int sp_shm_begin(size_t bytes, const char *name, struct sp_shm *shared)
{
	void *base;
	int fd;

	if (!bytes || bytes > INT64_MAX / 2)
		return -EINVAL;
	bytes = sp_shm_pages(bytes);
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return no_descriptor_or_memory();
	base = ftruncate(fd, (off_t)bytes) ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		close(fd);
		return -ENOMEM;
	}
	*shared = (struct sp_shm){.base = base, .bytes = bytes, .fd = fd};
	return 0;
}

int sp_shm_more(struct sp_shm *shared, bool read_only, size_t *made)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const size_t left = shared->bytes - *made, some = left < SP_SHM_SLICE ? left : SP_SHM_SLICE;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = (uint8_t *)shared->base + *made;

	/* fallocate() reports a lack of memory; a later page fault would kill the process. */
	if (some && fallocate(shared->fd, 0, (off_t)*made, (off_t)some))
		return -ENOMEM;
	if (some && madvise(at, some, MADV_POPULATE_WRITE)) /* Linux before 5.14 */
		for (size_t i = 0; i < some; i += page)
			*(volatile uint8_t *)(at + i) = 0;
	*made += some;
	if (*made < shared->bytes)
		return 1;
	if (fcntl(shared->fd, F_ADD_SEALS, seals))
		return -ENOMEM;
	if (read_only && (shared->fd = for_reading(shared->fd)) < 0)
		return no_descriptor_or_memory();
	return 0;
}

int sp_shm_create(size_t bytes, const char *name, bool read_only, struct sp_shm *shared)
{
	size_t made = 0;
	int r = sp_shm_begin(bytes, name, shared);

	if (r)
		return r;
	while ((r = sp_shm_more(shared, read_only, &made)) > 0)
		;
	if (r)
		sp_shm_destroy(shared);
	return r;
}

int sp_shm_private(size_t bytes, struct sp_shm *shared)
{
	void *base;

	if (!bytes)
		return -EINVAL;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return -ENOMEM;
	*shared = (struct sp_shm){.base = base, .bytes = bytes, .fd = -1};
	return 0;
}

void sp_shm_close(struct sp_shm *shared)
{
	if (shared->base && shared->fd >= 0)
		close(shared->fd);
	shared->fd = -1;
}

void sp_shm_destroy(struct sp_shm *shared)
{
	if (shared->base)
		madvise(shared->base, shared->bytes, MADV_REMOVE); /* fails, harmlessly, for private memory */
	sp_shm_leave(shared);
}

bool sp_shm_less(struct sp_shm *shared)
{
	const size_t some = shared->bytes < SP_SHM_SLICE ? shared->bytes : SP_SHM_SLICE;
	uint8_t *at = (uint8_t *)shared->base + shared->bytes - some;

	if (!shared->base)
		return false;
	sp_shm_close(shared);
	madvise(at, some, MADV_REMOVE);
	munmap(at, some);
	shared->bytes -= some;
	if (!shared->bytes)
		shared->base = NULL;
	return shared->base;
}

void sp_shm_leave(struct sp_shm *shared)
{
	if (!shared->base)
		return;
	sp_shm_close(shared);
	munmap(shared->base, shared->bytes);
	shared->base = NULL;
	shared->bytes = 0;
}
