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

#define SEALS	  (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define SEAL_EXEC 0x20 /* F_SEAL_EXEC of newer kernels, which may set it by themselves */

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
	*shared = (struct sp_shm){.base = base, .bytes = bytes, .fd = fd, .file = -1};
	return 0;
}

/* Replaces the memfd by two files opened anew. A lease on one of them tells whether the other is open somewhere
 * (mem/reaper.c); the memfd itself, which leases do not count, stays behind the mapping only. */
static int reopen(struct sp_shm *shared, bool read_only)
{
	const int memfd = shared->fd;
	char path[32];
	int err = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
	shared->file = open(path, O_RDWR | O_CLOEXEC);
	if (read_only && (fcntl(memfd, F_ADD_SEALS, SEALS) || fchmod(memfd, 0400)))
		err = -ENOMEM;
	shared->fd = open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (!err && (shared->file < 0 || shared->fd < 0))
		err = no_descriptor_or_memory();
	close(memfd);
	return err;
}

/* A later page fault that finds no memory would kill the process. */
static int populate(uint8_t *at, size_t some)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (!madvise(at, some, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return -ENOMEM;
	for (size_t i = 0; i < some; i += page) /* Linux before 5.14 */
		__atomic_fetch_or(at + i, 0, __ATOMIC_RELAXED);
	return 0;
}

int sp_shm_more(struct sp_shm *shared, bool read_only, size_t *made)
{
	const size_t left = shared->bytes - *made, some = left < SP_SHM_SLICE ? left : SP_SHM_SLICE;

	if (some &&
	    (fallocate(shared->fd, 0, (off_t)*made, (off_t)some) || populate((uint8_t *)shared->base + *made, some)))
		return -ENOMEM;
	*made += some;
	return *made < shared->bytes ? 1 : reopen(shared, read_only);
}

int sp_shm_sealed(struct sp_shm *shared, size_t *seen)
{
	const size_t left = shared->bytes - *seen, some = left < SP_SHM_SLICE ? left : SP_SHM_SLICE;
	struct stat st;

	if (!*seen && ((fcntl(shared->file, F_GET_SEALS) & ~SEAL_EXEC) != SEALS || fstat(shared->file, &st) ||
		       (size_t)st.st_size != shared->bytes))
		return -EACCES;
	if (populate((uint8_t *)shared->base + *seen, some))
		return -ENOMEM;
	*seen += some;
	return *seen < shared->bytes;
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
	*shared = (struct sp_shm){.base = base, .bytes = bytes, .fd = -1, .file = -1};
	return 0;
}

void sp_shm_close(struct sp_shm *shared)
{
	if (shared->base && shared->fd >= 0)
		close(shared->fd);
	shared->fd = -1;
}

bool sp_shm_less(struct sp_shm *shared)
{
	const size_t some = shared->bytes < SP_SHM_SLICE ? shared->bytes : SP_SHM_SLICE;

	if (!shared->base)
		return false;
	munmap((uint8_t *)shared->base + shared->bytes - some, some);
	shared->bytes -= some;
	if (!shared->bytes)
		shared->base = NULL;
	return shared->base;
}

void sp_shm_destroy(struct sp_shm *shared)
{
	if (!shared->base)
		return;
	sp_shm_close(shared);
	munmap(shared->base, shared->bytes);
	if (shared->file >= 0)
		close(shared->file);
	*shared = (struct sp_shm){.fd = -1, .file = -1};
}
